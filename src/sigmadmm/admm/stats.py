"""The sums over samples that the W-blocks need, and how shards add up.

Per layer: A A^T, G A^T and the extremes of B, where A is the layer's input, with a row of ones below
it if the network has thresholds. They are d x d, so this is all that shards, processes and machines
ever have to exchange. Sums are taken in float64 whatever the samples' type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor

from .. import linalg


@dataclass
class LayerSums:
    """What one layer's W-block needs; None where it needs no such sum.

    gram       A A^T (None for the first layer, where it is constant and computed once)
    cross      G A^T
    low, high  extremes of B over entries and samples (None for the output layer, whose h is exact)
    motion     |V^k - V^{k-1}|^2 of the layer's output, if it was asked for
    """

    gram: Tensor | None
    cross: Tensor
    low: Tensor | None = None
    high: Tensor | None = None
    motion: Tensor | None = None

    def __add__(self, other: LayerSums) -> LayerSums:
        return LayerSums(
            _join(add, self.gram, other.gram),
            self.cross + other.cross,
            _join(torch.minimum, self.low, other.low),
            _join(torch.maximum, self.high, other.high),
            _join(add, self.motion, other.motion),
        )


def _join(operation: Callable[[Tensor, Tensor], Tensor], a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return None if a is None or b is None else operation(a, b)


Sums = list[LayerSums]


def total(parts: list[Sums]) -> Sums:
    """The sums over all shards, added in their order."""
    return [reduce(add, layer) for layer in zip(*parts, strict=True)]


def gram_moment(V: Tensor, bias: bool) -> Tensor:
    """A A^T for A = [V; 1] with thresholds, A = V without."""
    V = V.to(torch.float64)
    gram = linalg.gram(V)
    if not bias:
        return gram
    row_sums = V.sum(-1, keepdim=True)
    count = V.new_full((*V.shape[:-2], 1, 1), V.shape[-1])
    return torch.cat([torch.cat([gram, row_sums], -1), torch.cat([row_sums.mT, count], -1)], -2)


def cross_moment(G: Tensor, V: Tensor, bias: bool) -> Tensor:
    """G A^T."""
    G, V = G.to(torch.float64), V.to(torch.float64)
    product = G @ V.mT
    return torch.cat([product, G.sum(-1, keepdim=True)], -1) if bias else product


def extremes(B: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest entry of every network's B; NaN if one is there."""
    low, high = torch.aminmax(B) if B.ndim == 2 else (B.amin((-2, -1)), B.amax((-2, -1)))
    return low.to(torch.float64), high.to(torch.float64)
