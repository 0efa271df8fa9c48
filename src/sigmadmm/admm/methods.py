"""What a method owes the loop: how a run starts, what one iteration does, and what it is measured by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from .state import State


class Method(Protocol):
    """The mathematics of one method; the loop calls nothing else. What changes is in the state, never in here.

    criteria  which residuals must come below their tolerances: columns "<criterion>_residual" and "_tolerance"
    advice    what a user can do when the iterations ran out, in a sentence
    settings  the options it runs with, as `train` takes them
    blocks    names of an iteration's blocks, in the order in which they are updated
    """

    advice: str

    @property
    def criteria(self) -> Sequence[str]: ...

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def blocks(self) -> list[str]: ...

    def start(self, state: State) -> None:
        """Before iteration 1, with V and the multipliers set: fill the state's memory and counters."""

    def step(self, state: State, watch: bool) -> Tensor:
        """One iteration, in place; `measure` follows if `watch`. One number per block, finite if the block is."""
        ...

    def stalled(self, state: State) -> Tensor | None:
        """Which networks can no longer be improved within rounding; None for a method that cannot tell."""
        ...

    def measure(self, state: State, tol: float) -> dict[str, Tensor]:
        """One line of the history; every column has the batch's shape, vectors have one dimension more."""
        ...
