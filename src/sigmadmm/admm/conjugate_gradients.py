"""Preconditioned conjugate gradients, and the joint step's system solved by them without a matrix; see `joint_step`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import linalg
from ..network import Layers
from .data import Shard
from .joint_step import Matrices, Residual, System, damping_blocks, inner, pulled
from .linearisation import as_layers, augmented, coloured, output_derivatives, pull_back, tangent, whitened
from .state import Problem, State


def conjugate_gradients(
    times: Callable[[Matrices], Matrices],
    precondition: Callable[[Matrices], Matrices],
    right: Matrices,
    most: int | Tensor,
    enough: float,
) -> tuple[Matrices, Tensor]:
    """An approximate solution of times(x) = right from x = 0, and per network the number of iterations.

    Ends after `most` iterations (one number, or one per network), when the preconditioned residual has fallen by the
    factor `enough`, or at a direction in which the operator is not positive. A right side that is not finite gives NaN.
    """
    r = right
    z = precondition(r)
    p, rz = z, inner(r, z)
    x = [torch.zeros_like(g) + (0 * rz)[..., None, None] for g in r]
    going, target = rz > 0, enough**2 * rz
    iterations = torch.zeros_like(rz, dtype=torch.int64)
    while going.any():
        Hp = times(p)
        curvature = inner(p, Hp)
        going = going & (curvature > 0)
        alpha = torch.where(going, rz / curvature, 0.0)[..., None, None]
        x = [a + alpha * b for a, b in zip(x, p, strict=True)]
        r = [a - alpha * b for a, b in zip(r, Hp, strict=True)]
        z = precondition(r)
        previous, rz = rz, torch.where(going, inner(r, z), rz)
        iterations = iterations + going
        going = going & (rz > target) & (iterations < most)
        ratio = torch.where(going, rz / previous, 0.0)[..., None, None]
        p = [a + ratio * b for a, b in zip(z, p, strict=True)]
    return x, iterations


class ByConjugateGradients:
    """Matrix-free, preconditioned per layer by the Kronecker factors A_i A_i^T and mean P_i P_i^T.

    most, enough  at most so many iterations, or until the preconditioned residual has fallen by that factor
    """

    name = "cg"
    direct = False

    def __init__(self, most: int = 20, enough: float = 1e-2) -> None:
        self.most, self.enough = most, enough

    def system(self, problem: Problem, state: State, tau: Tensor) -> System:
        return _Operator(self, problem, state, tau)


class _Operator:
    def __init__(self, solver: ByConjugateGradients, problem: Problem, state: State, tau: Tensor) -> None:
        layers, data = state.layers, state.data
        self.problem, self.layers, self.data = problem, layers, data
        self.most, self.enough = solver.most, solver.enough
        factors = data.total(lambda shard: _kronecker_factors(problem, layers, shard))
        grams, outer = ([pair[k] for pair in factors] for k in range(2))
        self.damping = damping_blocks(problem, state, grams, tau)
        self.precondition = _Preconditioner(grams, [B / data.n_samples for B in outer], self.damping)
        self.raised = self.iterations = torch.zeros(problem.batch, dtype=torch.int64, device=tau.device)

    def times(self, p: Matrices) -> Matrices:
        problem, layers = self.problem, self.layers
        step = as_layers(p, layers[0].b is not None)
        product = self.data.total(lambda shard: _curvature_times(problem, layers, step, shard))
        return [h + x @ G for h, x, G in zip(product, p, self.damping, strict=True)]

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        right = [-g for g in pulled(self.problem, self.layers, self.data, residual, term)]
        x, iterations = conjugate_gradients(self.times, self.precondition, right, self.most, self.enough)
        self.iterations = self.iterations + iterations
        return x


def _curvature_times(problem: Problem, layers: Layers, step: Layers, shard: Shard) -> Matrices:
    """J^T J dW of these samples."""
    moved = tangent(problem, layers, step, shard)
    return pull_back(problem, layers, shard, coloured(problem, shard, whitened(problem, shard, moved)))


def _kronecker_factors(problem: Problem, layers: Layers, shard: Shard) -> list[list[Tensor]]:
    """A_i A_i^T and P_i P_i^T per layer."""
    bias = layers[0].b is not None
    grams = [linalg.gram(augmented(shard.inputs(i), bias)) for i in range(1, len(layers) + 1)]
    outer = [linalg.gram(P.flatten(-2)) for P in output_derivatives(problem, layers, shard)]
    return [[A, B] for A, B in zip(grams, reversed(outer), strict=True)]


class _Preconditioner:
    """(B_i kron A_i + lambda + tau M_i)^{-1} per layer, by the eigenvectors of both factors; B_i is a mean."""

    def __init__(self, grams: Matrices, outer: Matrices, damping: Matrices) -> None:
        self.parts = []
        for A, B, G in zip(grams, outer, damping, strict=True):
            a, QA = linalg.eigh(A)
            b, QB = linalg.eigh(B)
            a, b = a.clamp_min(0).unsqueeze(-2), b.clamp_min(0).unsqueeze(-1)
            shift = (QA * (G @ QA)).sum(-2, keepdim=True)
            self.parts.append((QA, QB, b * a + shift))

    def __call__(self, right: Matrices) -> Matrices:
        return [QB @ ((QB.mT @ x @ QA) / scale) @ QA.mT for x, (QA, QB, scale) in zip(right, self.parts, strict=True)]
