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

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..network import Layers
from .data import Data, Shard
from .linearisation import coloured, pull_back
from .state import Problem, State

Matrices = list[Tensor]
Residual = Callable[[Shard], Tensor]


class System(Protocol):
    """J^T J + lambda I + tau M, ready to be solved with.

    damping     lambda I + tau M_i per layer
    raised      how many diagonals had to be raised, per network
    iterations  of conjugate gradients so far, per network
    """

    damping: Matrices
    raised: Tensor
    iterations: Tensor

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        """-(J^T J + lambda I + tau M)^{-1} (J^T R + term), where R = residual(shard) for the samples of a shard."""
        ...

    def precondition(self, right: Matrices) -> Matrices:
        """(J^T J + lambda I + tau M)^{-1} right, or what comes near it."""
        ...


class Solver(Protocol):
    """One of the three ways.

    name    how users ask for it
    direct  whether it solves exactly, so that a further right side is cheap once the system is there
    """

    name: str
    direct: bool

    def prepare(self, problem: Problem, state: State) -> Any:
        """What the systems of a run have in common, because X does not change."""
        ...

    def system(self, problem: Problem, state: State, prepared: Any, tau: Tensor, enough: Tensor) -> System:
        """At the state's weights. Where it is not direct, `enough` is by what factor the residual has to fall."""
        ...


KAPPA = 0.2


def damping_blocks(problem: Problem, state: State, grams: Matrices, tau: Tensor) -> Matrices:
    """lambda I + tau M_i per layer, for grams A_i A_i^T and tau (..., 1, 1)."""
    blocks, hidden = [], KAPPA / state.data.n_samples
    for i, (layer, gram) in enumerate(zip(state.layers, grams, strict=True), start=1):
        block = tau * (hidden if i < len(grams) else 0.0) * gram
        block.diagonal(dim1=-2, dim2=-1).add_((problem.decay(layer) + tau).squeeze(-2))
        blocks.append(block)
    return blocks


def pulled(problem: Problem, layers: Layers, data: Data, residual: Residual, term: Matrices) -> Matrices:
    """J^T R + term."""
    parts = data.total(lambda shard: pull_back(problem, layers, shard, coloured(problem, shard, residual(shard))))
    return [part + T for part, T in zip(parts, term, strict=True)]


def select(condition: Tensor, there: Matrices, elsewhere: Matrices) -> Matrices:
    """The first matrices for the networks in which the condition holds, the second ones for the others."""
    return [torch.where(condition[..., None, None], a, b) for a, b in zip(there, elsewhere, strict=True)]


def inner(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    total: Tensor = sum((x * y).sum((-2, -1)) for x, y in zip(a, b, strict=True))  # type: ignore[assignment]
    return total
