"""All samples in memory; on a CPU in pieces, so that what a sweep touches stays in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from ..admm.data import Shard
from ..admm.sums import combine
from ..network import Layers

Sums = TypeVar("Sums")

_WIDEST_BYTES = 2_500_000  # of the widest layer's features in one shard
_LARGEST_RECYCLED = 31 * 2**20


@dataclass
class InMemory:
    """Shards that are visited in their order."""

    shards: list[Shard]

    @property
    def n_samples(self) -> int:
        return sum(shard.X.shape[-1] for shard in self.shards)

    def total(self, contribution: Callable[[Shard], Sums]) -> Sums:
        return reduce(combine, map(contribution, self.shards))


def in_memory(X: Tensor, Y: Tensor, layers: Layers, batch: tuple[int, ...] = ()) -> InMemory:
    """The columns of X and Y for a batch of networks of these layers."""
    if X.device.type != "cpu":
        return InMemory(split(X, Y, X.shape[-1]))
    _recycle_freed_memory()
    widest = max(layer.W.shape[-2] for layer in layers)
    return InMemory(split(X, Y, _WIDEST_BYTES // (math.prod(batch) * widest * X.element_size())))


def split(X: Tensor, Y: Tensor, columns: int) -> list[Shard]:
    """Shards of nearly equal size with at most `columns` samples each."""
    n = X.shape[-1]
    pieces = -(-n // max(1, columns))
    edges = [n * piece // pieces for piece in range(pieces + 1)]
    return [Shard(X[..., a:b].contiguous(), Y[..., a:b].contiguous()) for a, b in pairwise(edges)]


def _recycle_freed_memory() -> None:
    """Keep glibc from giving every temporary back to the system, to be page-faulted in again an iteration later.

    Freeing one block raises glibc's threshold for that to the block's size (32 MiB at most). Elsewhere it does nothing.
    """
    torch.empty(_LARGEST_RECYCLED, dtype=torch.uint8)
