"""All samples in memory; on a CPU in pieces, so that what a sweep touches stays in the cache."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from ..admm.state import Shard
from ..network import Layers

_WIDEST_BYTES = 2_500_000  # of the widest layer's features in one shard
_LARGEST_RECYCLED = 31 * 2**20


def shards(X: Tensor, Y: Tensor, layers: Layers) -> list[Shard]:
    """The columns of X and Y as shards, for a network of these layers."""
    if X.device.type != "cpu":
        return split(X, Y, X.shape[-1])
    _recycle_freed_memory()
    widest = max(layer.W.shape[-2] for layer in layers)
    return split(X, Y, _WIDEST_BYTES // (widest * X.element_size()))


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
