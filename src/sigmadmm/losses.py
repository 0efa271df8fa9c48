"""Losses as records: what the output block V_N minimises.

A loss is a function of the prediction V and the target Y, both (..., outputs, samples), summed over
both. Leading dimensions are networks and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A loss of the network's output.

    name      how messages and files call it
    value     loss(V, Y), summed over outputs and samples
    gradient  d loss / d V
    prox      argmin over V of loss(V, Y) + beta/2 |V - C|^2, called as prox(C, Y, beta)
    """

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor], Tensor]
    prox: Callable[[Tensor, Tensor, Tensor], Tensor]


squared_error = Loss(
    "squared_error",
    value=lambda V, Y: (V - Y).square().sum((-2, -1)) / 2,
    gradient=lambda V, Y: V - Y,
    prox=lambda C, Y, beta: (Y + beta * C) / (1 + beta),
)

LOSSES: dict[str, Loss] = {squared_error.name: squared_error}
