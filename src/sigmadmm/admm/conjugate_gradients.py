"""The joint step's system without a matrix, by preconditioned conjugate gradients; see `joint_step`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import linalg
from ..network import Layers
from .data import Shard
from .joint_step import Matrices, Residual, System, damping_metric, inner, pulled
from .linearisation import as_layers, augmented, coloured, output_derivatives, pull_back, tangent, whitened
from .state import Problem, State


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
        weights = damping_metric(state)
        self.precondition = _Preconditioner(problem, factors, weights, data.n_samples, tau)
        self.damping = [
            (problem.decay(layer) + tau, tau * weight, A)
            for layer, weight, (A, _) in zip(layers, weights, factors, strict=True)
        ]
        self.raised = self.iterations = torch.zeros(problem.batch, dtype=torch.int64, device=tau.device)

    def times(self, p: Matrices) -> Matrices:
        problem, layers = self.problem, self.layers
        step = as_layers(p, layers[0].b is not None)
        product = self.data.total(lambda shard: _curvature_times(problem, layers, step, shard))
        return [
            h + shift * x + weight * (x @ A) for h, x, (shift, weight, A) in zip(product, p, self.damping, strict=True)
        ]

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        r = [-g for g in pulled(self.problem, self.layers, self.data, residual, term)]
        z = self.precondition(r)
        p, rz = z, inner(r, z)
        x = [torch.zeros_like(g) + (0 * rz)[..., None, None] for g in r]  # NaN where the system is not finite
        target = self.enough**2 * rz
        for _ in range(self.most):
            going = (rz > target) & (rz > 0)
            if not going.any():
                break
            Hp = self.times(p)
            alpha = torch.where(going, rz / inner(p, Hp), 0.0)[..., None, None]
            x = [a + alpha * b for a, b in zip(x, p, strict=True)]
            r = [a - alpha * b for a, b in zip(r, Hp, strict=True)]
            z = self.precondition(r)
            previous, rz = rz, inner(r, z)
            ratio = torch.where(going, rz / previous, 0.0)[..., None, None]
            p = [a + ratio * b for a, b in zip(z, p, strict=True)]
            self.iterations = self.iterations + going
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

    def __init__(
        self, problem: Problem, factors: list[list[Tensor]], weights: Sequence[float], n: int, tau: Tensor
    ) -> None:
        self.parts = []
        for weight, (A, B) in zip(weights, factors, strict=True):
            a, QA = linalg.eigh(A)
            b, QB = linalg.eigh(B / n)
            a, b = a.clamp_min(0).unsqueeze(-2), b.clamp_min(0).unsqueeze(-1)
            self.parts.append((QA, QB, b * a + problem.regularization + tau * (1 + weight * a)))

    def __call__(self, r: Matrices) -> Matrices:
        return [QB @ ((QB.mT @ x @ QA) / scale) @ QA.mT for x, (QA, QB, scale) in zip(r, self.parts, strict=True)]
