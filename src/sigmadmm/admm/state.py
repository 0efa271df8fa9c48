"""What a run works on: the problem, the samples with their V and multipliers, the weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..activations import Activation
from ..losses import Loss
from ..network import Layers


@dataclass(frozen=True)
class Problem:
    """min over W of  loss(Phi(X), Y) + lambda/2 sum_i |W_i|^2.

    regularization   lambda, a float64 tensor (..., 1, 1)
    regularize_bias  whether the sum contains the thresholds (the paper's convention)
    n_samples        columns of X and Y over all shards
    """

    activation: Activation
    loss: Loss
    regularization: Tensor
    regularize_bias: bool
    n_samples: int


@dataclass
class Shard:
    """Some of the samples, as columns, with the splitting variables that belong to them.

    X, Y   (..., d_0, m) and (..., d_N, m); without leading dimensions all networks share them
    V      V_1..V_N
    U      the scaled multipliers U_i = Lambda_i / beta_i: with them no penalty enters a per-sample formula
    """

    X: Tensor
    Y: Tensor
    V: list[Tensor] = field(default_factory=list)
    U: list[Tensor] = field(default_factory=list)

    def begin(self, problem: Problem, layers: Layers) -> None:
        """V by a forward pass, multipliers zero."""
        working = [layer.to(self.X.dtype) for layer in layers]
        A, self.V = self.X, []
        for layer in working[:-1]:
            A = problem.activation.value(layer(A))
            self.V.append(A)
        self.V.append(working[-1](A))
        self.U = [torch.zeros_like(V) for V in self.V]

    def inputs(self, i: int) -> Tensor:
        """V_{i-1} for layer i = 1..N, with V_0 = X."""
        return self.X if i == 1 else self.V[i - 2]


@dataclass
class State:
    """One iterate: W here, V and the multipliers in the shards."""

    layers: Layers
    shards: list[Shard]
    iteration: int = 0

    @property
    def batch(self) -> torch.Size:
        """Leading dimensions of the run: () for one network."""
        return torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in [self.layers[0].W, self.shards[0].V[0]]))

    @staticmethod
    def begin(problem: Problem, layers: Layers, shards: list[Shard]) -> State:
        """V by a forward pass through the initial weights, multipliers zero."""
        for shard in shards:
            shard.begin(problem, layers)
        return State(layers, shards)
