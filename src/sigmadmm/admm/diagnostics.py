"""How good an iterate is, computed from W, V and the multipliers alone, never from the updates.

One pass over the samples in float64. Every measure has the batch's shape; vectors (KKT groups, layers)
are in the last dimension. With Z_i = W_i V_{i-1} (+ b_i), s = identity for i = N, the KKT groups are

r1  lam W_1 + (Lam_1 . s'(Z_1)) X^T        r5  W_N^T Lam_N - Lam_{N-1}
r2  the same for W_2..W_{N-1}              r6  grad loss(V_N) - Lam_N
r3  lam W_N + Lam_N V_{N-1}^T              r7  s(Z_i) - V_i, i < N
r4  W_{i+1}^T (Lam_{i+1} . s'(Z_{i+1})) - Lam_i, i <= N-2      r8  Z_N - V_N
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from ..network import Layers
from .data import Shard
from .objective import weight_penalty
from .state import Problem, State
from .stats import cross_moment

SATURATED = 0.01  # a unit is saturated at a sample where |s'| is below this share of its maximum


@dataclass
class Measures:
    """One line of the history.

    objective         F = loss(Phi(X), Y) + lambda/2 sum |W|^2 of the feed-forward network
    train_mse         mean over samples and outputs of (Phi(X) - Y)^2, of the feed-forward network (for the cross-
                      entropies of its probabilities)
    lagrangian        the augmented Lagrangian
    primal_residual   norm of r7 and r8: by how much the constraints are violated
    primal_tolerance  tol * (sqrt(entries) + norms): what it must come below
    dual_residual     norm of r1..r6: the gradient of the Lagrangian
    dual_tolerance    likewise
    kkt               norms of the eight KKT groups
    kkt_relative      each divided by 1 + the norms of its terms
    saturation        per hidden layer, the share of (unit, sample) pairs with |s'| below 1 % of its maximum
    """

    objective: Tensor
    train_mse: Tensor
    lagrangian: Tensor
    primal_residual: Tensor
    primal_tolerance: Tensor
    dual_residual: Tensor
    dual_tolerance: Tensor
    kkt: Tensor
    kkt_relative: Tensor
    saturation: Tensor


def measure(
    problem: Problem,
    state: State,
    penalty: Sequence[Tensor],
    tol: float,
    completed: Callable[[Shard], Shard] = lambda shard: shard,
) -> Measures:
    """All measures of one iterate, for the penalties beta_1..beta_N of the augmented Lagrangian.

    completed  adds to a shard what the method does not store: V or multipliers
    """
    layers = [layer.to(torch.float64) for layer in state.layers]
    fit = state.data.total(lambda shard: _Fit.of(problem, layers, shard))
    split = state.data.total(lambda shard: _Split.of(problem, layers, penalty, completed(shard)))
    ridge = weight_penalty(problem, layers)
    lagrangian = split.loss + split.coupling + ridge
    kkt, norms = _kkt(problem, layers, split)
    n, widths = state.data.n_samples, [layer.W.shape[-2] for layer in layers]
    entries = n * sum(widths)
    weights = sum(layer.matrix.shape[-1] * layer.matrix.shape[-2] for layer in layers)
    return Measures(
        objective=fit.loss + ridge,
        train_mse=fit.squared_error / (n * widths[-1]),
        lagrangian=lagrangian,
        primal_residual=kkt[..., 6:].norm(dim=-1),
        primal_tolerance=tol * (sqrt(entries) + norms[..., 6:].norm(dim=-1)),
        dual_residual=kkt[..., :6].norm(dim=-1),
        dual_tolerance=tol * (sqrt(entries + weights) + norms[..., :6].norm(dim=-1)),
        kkt=kkt,
        kkt_relative=kkt / (1 + norms),
        saturation=fit.saturated / (n * kkt.new_tensor(widths[:-1])),
    )


@dataclass
class _Fit:
    """What the feed-forward network does with the samples."""

    loss: Tensor
    squared_error: Tensor
    saturated: Tensor

    @classmethod
    def of(cls, problem: Problem, layers: Layers, shard: Shard) -> _Fit:
        A, Y, s = shard.X.to(torch.float64), shard.Y.to(torch.float64), problem.activation
        saturated = []
        for layer in layers[:-1]:
            Z = layer(A)
            A = s.value(Z)
            saturated.append((s.slope(Z, A).abs() < SATURATED * s.L1).sum((-2, -1)).to(torch.float64))
        output = layers[-1](A)
        return cls(problem.loss.value(output, Y), _square(problem.loss.mean(output) - Y), torch.stack(saturated, -1))


@dataclass
class _Split:
    """Sums over samples at (W, V, multipliers).

    loss, coupling   loss(V_N, Y) and sum_i beta_i/2 |R_i|^2 + <Lam_i, R_i>
    backward         per layer (Lam_i . s'(Z_i)) A_i^T
    residuals, terms squared norms of r4..r8 and of the two terms of each, in columns 3..7 of 8
    """

    loss: Tensor
    coupling: Tensor
    backward: list[Tensor]
    residuals: Tensor
    terms: Tensor

    @classmethod
    def of(cls, problem: Problem, layers: Layers, penalty: Sequence[Tensor], shard: Shard) -> _Split:
        N, Y = len(layers), shard.Y.to(torch.float64)
        zero = problem.regularization.new_zeros(problem.batch)
        residuals, terms = [zero] * 8, [zero] * 8
        coupling, backward = zero, []

        def compare(group: int, one: Tensor, other: Tensor) -> Tensor:
            """Record a difference of two terms under its KKT group, and leave it in place of the first."""
            other = other.to(torch.float64)
            terms[group - 1] = terms[group - 1] + _square(one) + _square(other)
            difference = one.sub_(other)
            residuals[group - 1] = residuals[group - 1] + _square(difference)
            return difference

        A = shard.X.to(torch.float64)
        for i, layer in enumerate(layers, start=1):
            beta = penalty[i - 1]
            D, s, Lam = _pull_back(problem, layer(A), beta, shard.U[i - 1], i == N)
            R = compare(8 if i == N else 7, s, shard.V[i - 1])
            coupling = coupling + beta.squeeze((-2, -1)) / 2 * _square(R) + Lam.mul_(R).sum((-2, -1))
            del s, R, Lam
            backward.append(cross_moment(D, A, layer.b is not None))
            if i > 1:
                compare(5 if i == N else 4, layer.W.mT @ D, penalty[i - 2] * shard.U[i - 2].to(torch.float64))
            del D
            A = shard.V[i - 1].to(torch.float64)
        compare(6, problem.loss.gradient(A, Y), penalty[-1] * shard.U[-1].to(torch.float64))
        loss = problem.loss.value(A, Y)
        return cls(loss, coupling, backward, torch.stack(residuals, -1), torch.stack(terms, -1))


def _pull_back(problem: Problem, Z: Tensor, beta: Tensor, U: Tensor, output: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Lam . s'(Z), s(Z) and Lam, with the identity for s in the output layer."""
    if output:
        Lam = beta * U.to(torch.float64)
        return Lam.clone(), Z, Lam
    s = problem.activation.value(Z)
    slope = problem.activation.slope(Z, s)
    Lam = beta * U.to(torch.float64)
    return slope * Lam, s, Lam


def _kkt(problem: Problem, layers: Layers, split: _Split) -> tuple[Tensor, Tensor]:
    """Norms of the eight groups, and of the terms that each is a difference of."""
    residuals, terms = split.residuals.clone(), split.terms.clone()
    for i, (layer, backward) in enumerate(zip(layers, split.backward, strict=True), start=1):
        group = 0 if i == 1 else 2 if i == len(layers) else 1
        decay = problem.decay(layer) * layer.matrix
        residuals[..., group] += _square(decay + backward)
        terms[..., group] += _square(decay) + _square(backward)
    return residuals.sqrt(), terms.sqrt()


def _square(matrix: Tensor) -> Tensor:
    """Squared Frobenius norm, without a temporary of the matrix's size."""
    return torch.linalg.vector_norm(matrix, dim=(-2, -1)).square()
