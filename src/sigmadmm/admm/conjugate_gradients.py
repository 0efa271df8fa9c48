"""Preconditioned conjugate gradients, and the joint step's system solved by them without a matrix; see `joint_step`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import linalg
from ..network import Layers
from .data import Shard
from .joint_step import Matrices, Residual, System, damping_blocks, inner, pulled, select
from .linearisation import as_layers, augmented, curved, output_derivatives, pull_back, tangent
from .state import Problem, State


@dataclass
class Solution:
    """What conjugate gradients found, per network.

    x           the approximate solution
    iterations  that it took
    open        whether they ended at a direction p with p.Hp <= 0, or so flat that x would have become too long
    direction   p, where they did; without meaning elsewhere
    """

    x: Matrices
    iterations: Tensor
    open: Tensor
    direction: Matrices


def conjugate_gradients(
    times: Callable[[Matrices], Matrices],
    precondition: Callable[[Matrices], Matrices],
    right: Matrices,
    most: int | Tensor,
    enough: float | Tensor,
    longest: float | Tensor = torch.inf,
) -> Solution:
    """An approximate solution of Hx = right with |x| <= longest, from x = 0.

    Ends after `most` iterations (one number, or one per network), when the preconditioned residual has fallen by the
    factor `enough`, or at an open direction. A right side that is not finite gives NaN.
    """
    r = right
    z = precondition(r)
    p, rz = z, inner(r, z)
    x = [torch.zeros_like(g) + (0 * rz)[..., None, None] for g in r]
    going, target = rz > 0, enough**2 * rz
    is_open, direction = torch.zeros_like(going), p
    iterations = torch.zeros_like(rz, dtype=torch.int64)
    while going.any():
        Hp = times(p)
        curvature = inner(p, Hp)
        alpha = torch.where(going, rz / curvature, 0.0)[..., None, None]
        further = [a + alpha * b for a, b in zip(x, p, strict=True)]
        found = going & ((curvature <= 0) | (inner(further, further) > longest**2))
        is_open, going = is_open | found, going & ~found
        direction = select(found, p, direction)
        x, alpha = select(going, further, x), torch.where(going[..., None, None], alpha, 0.0)
        r = [a - alpha * b for a, b in zip(r, Hp, strict=True)]
        z = precondition(r)
        previous, rz = rz, torch.where(going, inner(r, z), rz)
        iterations = iterations + going
        going = going & (rz > target) & (iterations < most)
        ratio = torch.where(going, rz / previous, 0.0)[..., None, None]
        p = [a + ratio * b for a, b in zip(z, p, strict=True)]
    return Solution(x, iterations, is_open, direction)


@dataclass
class Spectrum:
    """A symmetric matrix, its eigenvalues and eigenvectors."""

    matrix: Tensor
    values: Tensor
    vectors: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> Spectrum:
        return cls(matrix, *linalg.eigh(matrix))


class ByConjugateGradients:
    """Matrix-free, preconditioned per layer by the Kronecker factors A_i A_i^T and mean P_i P_i^T.

    most  at most so many iterations
    """

    name = "cg"
    direct = False

    def __init__(self, most: int = 20) -> None:
        self.most = most

    def prepare(self, problem: Problem, state: State) -> Spectrum:
        """Of X X^T."""
        bias = state.layers[0].b is not None
        gram = state.data.total(lambda shard: linalg.gram(augmented(shard.X, bias)))
        return Spectrum.of(gram)

    def system(self, problem: Problem, state: State, prepared: Spectrum, tau: Tensor, enough: Tensor) -> System:
        return _Operator(problem, state, prepared, tau, self.most, enough)


class _Operator:
    def __init__(self, problem: Problem, state: State, first: Spectrum, tau: Tensor, most: int, enough: Tensor) -> None:
        layers, data = state.layers, state.data
        self.problem, self.layers, self.data = problem, layers, data
        self.most, self.enough = most, enough
        inputs, outputs = data.total(lambda shard: _kronecker_factors(problem, layers, shard))
        A = [first, *(Spectrum.of(gram) for gram in inputs)]
        B = [Spectrum.of(gram / data.n_samples) for gram in outputs]
        self.damping = damping_blocks(problem, state, [spectrum.matrix for spectrum in A], tau)
        self.precondition = _Preconditioner(A, B, self.damping)
        self.raised = self.iterations = torch.zeros(problem.batch, dtype=torch.int64, device=tau.device)

    def times(self, p: Matrices) -> Matrices:
        problem, layers = self.problem, self.layers
        step = as_layers(p, layers[0].b is not None)
        product = self.data.total(lambda shard: _curvature_times(problem, layers, step, shard))
        return [h + x @ G for h, x, G in zip(product, p, self.damping, strict=True)]

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        right = [-g for g in pulled(self.problem, self.layers, self.data, residual, term)]
        solution = conjugate_gradients(self.times, self.precondition, right, self.most, self.enough)
        self.iterations = self.iterations + solution.iterations
        return solution.x


def _curvature_times(problem: Problem, layers: Layers, step: Layers, shard: Shard) -> Matrices:
    """J^T J dW of these samples."""
    return pull_back(problem, layers, shard, curved(problem, shard, tangent(problem, layers, step, shard)))


def _kronecker_factors(problem: Problem, layers: Layers, shard: Shard) -> list[list[Tensor]]:
    """A_i A_i^T of the layers but the first, and P_i P_i^T of all."""
    bias = layers[0].b is not None
    inputs = [linalg.gram(augmented(shard.inputs(i), bias)) for i in range(2, len(layers) + 1)]
    outputs = [linalg.gram(P.flatten(-2)) for P in output_derivatives(problem, layers, shard)]
    return [inputs, outputs[::-1]]


class _Preconditioner:
    """(B_i kron A_i + lambda + tau M_i)^{-1} per layer, by the eigenvectors of both factors."""

    def __init__(self, inputs: list[Spectrum], outputs: list[Spectrum], damping: Matrices) -> None:
        self.parts = []
        for A, B, G in zip(inputs, outputs, damping, strict=True):
            product = B.values.clamp_min(0).unsqueeze(-1) * A.values.clamp_min(0).unsqueeze(-2)
            shift = (A.vectors * (G @ A.vectors)).sum(-2, keepdim=True)
            self.parts.append((A.vectors, B.vectors, product + shift))

    def __call__(self, right: Matrices) -> Matrices:
        return [QB @ ((QB.mT @ x @ QA) / scale) @ QA.mT for x, (QA, QB, scale) in zip(right, self.parts, strict=True)]
