"""The samples of a run, with the splitting variables that belong to them, in shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

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
