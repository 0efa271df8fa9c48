"""The sums over samples that the W-blocks need.

Per layer: A A^T, G A^T and the extremes of B, where A is the layer's input, with a row of ones below
it if the network has thresholds. They are d x d, so this is all that shards, processes and machines
ever have to exchange. Sums are taken in float64 whatever the samples' type.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import linalg
from .sums import Largest


@dataclass
class LayerSums:
    """What one layer's W-block needs; None where it needs no such sum.

    gram                   A A^T (None for the first layer, where it is constant and computed once)
    cross                  G A^T
    highest, minus_lowest  the largest entry of B and of -B (None for the output layer, whose h is exact)
    motion                 |V^k - V^{k-1}|^2 of the layer's output, if it was asked for
    """

    gram: Tensor | None
    cross: Tensor
    highest: Largest | None = None
    minus_lowest: Largest | None = None
    motion: Tensor | None = None

    @property
    def extremes(self) -> tuple[Tensor, Tensor] | None:
        """Smallest and largest entry of every network's B; NaN if one is there."""
        return (
            None
            if self.highest is None or self.minus_lowest is None
            else (-self.minus_lowest.value, self.highest.value)
        )


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


def extremes(B: Tensor) -> tuple[Largest, Largest]:
    """The largest entry of every network's B, and of its -B."""
    low, high = torch.aminmax(B) if B.ndim == 2 else (B.amin((-2, -1)), B.amax((-2, -1)))
    return Largest(high.to(torch.float64)), Largest(-low.to(torch.float64))
