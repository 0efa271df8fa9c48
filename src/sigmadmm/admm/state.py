"""What a run works on: the problem, and the iterate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..activations import Activation
from ..losses import Loss
from ..network import Layer, Layers
from .data import Data


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

    def decay(self, layer: Layer) -> Tensor:
        """lambda for every column of [W b], (..., 1, columns); 0 for thresholds that are not regularised."""
        decay = self.regularization.expand(*self.regularization.shape[:-1], layer.matrix.shape[-1]).clone()
        if layer.b is not None and not self.regularize_bias:
            decay[..., -1] = 0
        return decay


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
        """V by a forward pass through the initial weights; a method may add multipliers."""
        layers = [Layer(*(_expand(tensor, problem.batch) for tensor in layer)) for layer in layers]
        data.total(lambda shard: shard.forward(problem.activation, layers))
        return State(layers, data)


def _expand(tensor: Tensor | None, batch: tuple[int, ...]) -> Any:
    return None if tensor is None else tensor.expand(*batch, *tensor.shape[-2:]).contiguous()
