"""What a run works on: the problem, and the iterate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..activations import Activation
from ..losses import Loss
from ..network import Layer, Layers
from .data import Data, Shard


@dataclass(frozen=True)
class Problem:
    """min over W of  loss(Phi(X), Y) + lambda/2 sum_i |W_i|^2, for a batch of networks.

    regularization   lambda, a float64 tensor (..., 1, 1)
    regularize_bias  whether the sum contains the thresholds (the paper's convention)
    batch            leading dimensions of every weight, V and multiplier: () for one network
    """

    activation: Activation
    loss: Loss
    regularization: Tensor
    regularize_bias: bool
    batch: tuple[int, ...] = ()


@dataclass
class State:
    """One iterate: everything that changes from iteration to iteration.

    layers    W
    data      V and the multipliers, beside X and Y
    memory    what the method keeps from one iteration for the next, in a record of its own
    counters  what the method counts, by name: whole numbers of the batch's shape
    """

    layers: Layers
    data: Data
    memory: Any = None
    counters: dict[str, Tensor] = field(default_factory=dict)
    iteration: int = 0

    @staticmethod
    def begin(problem: Problem, layers: Layers, data: Data) -> State:
        """V by a forward pass through the initial weights, multipliers zero."""
        layers = [Layer(*(_expand(tensor, problem.batch) for tensor in layer)) for layer in layers]
        data.total(lambda shard: _begin(problem, layers, shard))
        return State(layers, data)


def _expand(tensor: Tensor | None, batch: tuple[int, ...]) -> Any:
    return None if tensor is None else tensor.expand(*batch, *tensor.shape[-2:]).contiguous()


def _begin(problem: Problem, layers: Layers, shard: Shard) -> None:
    working = [layer.to(shard.X.dtype) for layer in layers]
    A, shard.V = shard.X, []
    for layer in working[:-1]:
        A = problem.activation.value(layer(A))
        shard.V.append(A)
    shard.V.append(working[-1](A))
    shard.U = [torch.zeros_like(V) for V in shard.V]
