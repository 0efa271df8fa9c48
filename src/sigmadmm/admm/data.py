"""The samples of a run, with the splitting variables that belong to them, in shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ..activations import Activation
from ..network import Layers

Sums = TypeVar("Sums")


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

    def forward(self, activation: Activation, layers: Layers, dtype: torch.dtype | None = None) -> None:
        """V_i = s(W_i V_{i-1} + b_i) and V_N = W_N V_{N-1} + b_N, in X's type or another."""
        A, self.V = self.X.to(dtype), []
        working = [layer.to(A.dtype) for layer in layers]
        for layer in working[:-1]:
            A = activation.value(layer(A))
            self.V.append(A)
        self.V.append(working[-1](A))

    def at(self, layers: Layers, activation: Activation) -> Shard:
        """The same samples at other weights, in float64."""
        other = Shard(self.X.to(torch.float64), self.Y)
        other.forward(activation, layers)
        return other

    def pieces(self, columns: int) -> list[Shard]:
        """The same samples as several shards with at most so many columns, without copies."""
        fields = [tensor.split(columns, -1) for tensor in (self.X, self.Y, *self.V, *self.U)]
        layers = len(self.V)
        return [Shard(X, Y, list(rest[:layers]), list(rest[layers:])) for X, Y, *rest in zip(*fields, strict=True)]

    def inputs(self, i: int) -> Tensor:
        """V_{i-1} for layer i = 1..N, with V_0 = X."""
        return self.X if i == 1 else self.V[i - 2]


class Data(Protocol):
    """All samples, wherever they live. An engine provides this; methods and diagnostics use nothing else.

    n_samples  columns of X and Y over all shards
    """

    @property
    def n_samples(self) -> int: ...

    def total(self, contribution: Callable[[Shard], Sums]) -> Sums:
        """The sum over all shards, see `sums.combine`; `contribution` may change the shard's V and U."""
        ...
