"""The joint W-step of the synchronised method: one damped Gauss-Newton system for all layers, solved three ways.

With J the derivative of the whitened output in W and R its residual, J^T R + lambda W is the gradient of F. With the
damping metric M_i = I + kappa/n A_i A_i^T per layer (kappa = 0 in the output layer), all three solve

    (J^T J + lambda I + tau M) dW = -(J^T R + lambda W).

By samples, of the order of the outputs of all samples, through G_i = lambda I + tau M_i:

    (I + sum_i K_i) t = R - sum_i q_i,         dW_i = -(lambda W_i + P_i diag(t) A_i^T) G_i^{-1},
    K_i = (P_i^T P_i) o (A_i^T G_i^{-1} A_i),  q_i = lambda p_i^T W_i G_i^{-1} a  per sample;

t is the predicted residual R + J dW, so nothing is lost by cancellation when lambda and tau are tiny. By weights,
of the order of the number of weights, as it stands. By conjugate gradients, without a matrix: one pass over the
samples forward and backward per iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor

from .. import linalg
from ..network import Layers
from .data import Data, Shard
from .linearisation import (
    Linearisation,
    as_layers,
    augmented,
    coloured,
    linearise,
    output_derivatives,
    pull_back,
    tangent,
    whitened,
)
from .state import Problem, State
from .sums import Columns, combine

Matrices = list[Tensor]
Residual = Callable[[Shard], Tensor]


class System(Protocol):
    """J^T J + lambda I + tau M, ready to be solved with.

    raised      how many diagonals had to be raised, per network
    iterations  of conjugate gradients so far, per network
    """

    raised: Tensor
    iterations: Tensor

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        """-(J^T J + lambda I + tau M)^{-1} (J^T R + term), where R = residual(shard) for the samples of a shard."""
        ...


class Solver(Protocol):
    """One of the three ways.

    name    how users ask for it
    direct  whether a further right side is cheap once the system is there
    """

    name: str
    direct: bool

    def system(self, problem: Problem, state: State, tau: Tensor) -> System: ...


KAPPA = 1.0


def damping_metric(state: State) -> list[float]:
    """kappa / n for the hidden layers, 0 for the output layer."""
    return [KAPPA / state.data.n_samples] * (len(state.layers) - 1) + [0.0]


def pulled(problem: Problem, layers: Layers, data: Data, residual: Residual, term: Matrices) -> Matrices:
    """J^T R + term."""
    parts = data.total(lambda shard: pull_back(problem, layers, shard, coloured(problem, shard, residual(shard))))
    return [part + T for part, T in zip(parts, term, strict=True)]


def inner(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    total: Tensor = sum((x * y).sum((-2, -1)) for x, y in zip(a, b, strict=True))  # type: ignore[assignment]
    return total


class BySamples:
    """Direct, of order outputs x samples."""

    name = "samples"
    direct = True

    def system(self, problem: Problem, state: State, tau: Tensor) -> System:
        return _SampleSystem(problem, state, tau)


class _SampleSystem:
    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        self.data, layers = state.data, state.layers
        whole: Linearisation = state.data.total(lambda shard: linearise(problem, layers, shard))
        self.inputs = [A.value for A in whole.inputs]
        self.derivatives = [P.value for P in whole.derivatives]
        self.factors, raised = [], []
        system: Tensor | None = None
        weights = damping_metric(state)
        for layer, A, P, weight in zip(layers, self.inputs, self.derivatives, weights, strict=True):
            G = tau * weight * linalg.gram(A)
            G.diagonal(dim1=-2, dim2=-1).add_((problem.decay(layer) + tau).squeeze(-2))
            L, lifted = linalg.cholesky(G)
            if system is None:
                order = P.shape[-2] * P.shape[-1]
                system = P.new_zeros(*P.shape[:-3], order, order)
            _add_lower_half(system, P, torch.linalg.solve_triangular(L, A, upper=False))
            self.factors.append(L)
            raised.append(lifted)
        assert system is not None
        system.diagonal(dim1=-2, dim2=-1).add_(1)
        self.factor, lifted = linalg.cholesky(system)
        self.raised = torch.stack([*raised, lifted]).sum(0)
        self.iterations = torch.zeros_like(self.raised)

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        R: Tensor = self.data.total(lambda shard: Columns(residual(shard))).value
        parts = list(zip(self.inputs, self.derivatives, self.factors, term, strict=True))
        right = R.clone()
        for A, P, L, T in parts:
            right -= (P * (torch.cholesky_solve(T.mT, L).mT @ A).unsqueeze(-2)).sum(-3)
        t = torch.cholesky_solve(right.flatten(-2).unsqueeze(-1), self.factor).squeeze(-1).unflatten(-1, R.shape[-2:])
        matrices = []
        for A, P, L, T in parts:
            gradient = T + (P * t.unsqueeze(-3)).sum(-2) @ A.mT
            matrices.append(-torch.cholesky_solve(gradient.mT, L).mT)
        return matrices


_ROWS = 256


def _add_lower_half(system: Tensor, P: Tensor, B: Tensor) -> None:
    """system += (P^T P) o (B^T B), where P has a column for every output of every sample, B one for every sample.

    Cholesky reads the lower triangle alone, so only blocks of rows up to the diagonal are computed.
    """
    outputs, samples = P.shape[-2:]
    flat = P.flatten(-2)
    for start in range(0, samples, _ROWS):
        end = min(start + _ROWS, samples)
        M = B[..., start:end].mT @ (B if outputs > 1 else B[..., :end])
        for output in range(outputs):
            row, width = output * samples, output * samples + end
            block = flat[..., row + start : row + end].mT @ flat[..., :width]
            block.mul_(torch.cat([M] * output + [M[..., :end]], -1) if output else M[..., :end])
            system[..., row + start : row + end, :width] += block


class ByWeights:
    """Direct, of the order of the number of weights."""

    name = "weights"
    direct = True

    def system(self, problem: Problem, state: State, tau: Tensor) -> System:
        return _WeightSystem(problem, state, tau)


class _WeightSystem:
    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        self.problem, self.layers, self.data = problem, state.layers, state.data
        layers = state.layers
        system, grams = state.data.total(lambda shard: _normal_matrix(problem, layers, shard))
        start = 0
        for layer, gram, weight in zip(layers, grams, damping_metric(state), strict=True):
            G = tau * weight * gram
            G.diagonal(dim1=-2, dim2=-1).add_((problem.decay(layer) + tau).squeeze(-2))
            for _ in range(layer.W.shape[-2]):
                end = start + G.shape[-1]
                system[..., start:end, start:end] += G
                start = end
        self.factor, raised = linalg.cholesky(system)
        self.raised = raised.long()
        self.iterations = torch.zeros_like(self.raised)

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        gradient = pulled(self.problem, self.layers, self.data, residual, term)
        right = torch.cat([g.flatten(-2) for g in gradient], -1).unsqueeze(-1)
        solution = -torch.cholesky_solve(right, self.factor).squeeze(-1)
        parts = solution.split([g.shape[-2] * g.shape[-1] for g in gradient], -1)
        return [part.unflatten(-1, g.shape[-2:]) for part, g in zip(parts, gradient, strict=True)]


_ENTRIES = 2_000_000  # of J at a time


def _normal_matrix(problem: Problem, layers: Layers, shard: Shard) -> list[Any]:
    """J^T J, and A_i A_i^T per layer. Weights are ordered by layer, output unit, input."""
    height = sum(layer.matrix.shape[-2] * layer.matrix.shape[-1] for layer in layers) * shard.V[-1].shape[-2]
    pieces = shard.pieces(max(1, _ENTRIES // height))
    return reduce(combine, (_normal_piece(problem, layers, piece) for piece in pieces))


def _normal_piece(problem: Problem, layers: Layers, shard: Shard) -> list[Any]:
    derivatives = list(output_derivatives(problem, layers, shard))[::-1]
    bias = layers[0].b is not None
    inputs = [augmented(shard.inputs(i), bias) for i in range(1, len(layers) + 1)]
    rows = [
        (P.unsqueeze(-3) * A.unsqueeze(-2).unsqueeze(-4)).flatten(-4, -3).flatten(-2)
        for P, A in zip(derivatives, inputs, strict=True)
    ]
    J = torch.cat(rows, -2)
    return [linalg.gram(J), [linalg.gram(A) for A in inputs]]


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
        x, z = [torch.zeros_like(g) for g in r], self.precondition(r)
        p, rz = z, inner(r, z)
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
            a, QA = torch.linalg.eigh(A)
            b, QB = torch.linalg.eigh(B / n)
            a, b = a.clamp_min(0).unsqueeze(-2), b.clamp_min(0).unsqueeze(-1)
            self.parts.append((QA, QB, b * a + problem.regularization + tau * (1 + weight * a)))

    def __call__(self, r: Matrices) -> Matrices:
        return [QB @ ((QB.mT @ x @ QA) / scale) @ QA.mT for x, (QA, QB, scale) in zip(r, self.parts, strict=True)]


SOLVERS: dict[str, Callable[[], Solver]] = {
    solver.name: solver for solver in (BySamples, ByWeights, ByConjugateGradients)
}
LARGEST_DIRECT = 4000  # order of a system that is still factored


def cheapest(layers: Layers, n: int) -> Solver:
    """The direct way with fewer operations if its order is small enough, else conjugate gradients."""
    outputs = n * layers[-1].W.shape[-2]
    weights = sum(layer.matrix.shape[-2] * layer.matrix.shape[-1] for layer in layers)
    widths = sum(sum(layer.W.shape[-2:]) for layer in layers)
    operations: dict[Callable[[], Solver], float] = {
        BySamples: outputs**2 * widths + outputs**3 / 3 if outputs <= LARGEST_DIRECT else math.inf,
        ByWeights: weights**2 * outputs + weights**3 / 3 if weights <= LARGEST_DIRECT else math.inf,
    }
    best = min(operations, key=lambda way: operations[way])
    return best() if math.isfinite(operations[best]) else ByConjugateGradients()
