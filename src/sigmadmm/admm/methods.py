"""What a method owes the loop: how a run starts and what one iteration does."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from .state import State


class Method(Protocol):
    """The mathematics of one method; the loop calls nothing else.

    name     how messages and files call it
    penalty  beta_1..beta_N of the augmented Lagrangian, each (..., 1, 1)
    blocks   names of an iteration's blocks, in the order in which they are updated
    motion   |V_i^k - V_i^{k-1}|^2 per layer, from the last step called with watch=True
    shifts   how many factorisations needed a raised diagonal so far
    """

    name: str
    penalty: list[Tensor]
    motion: list[Tensor]
    shifts: int

    @property
    def blocks(self) -> list[str]: ...

    def start(self, state: State) -> None:
        """Before iteration 1, with V and the multipliers set."""

    def step(self, state: State, watch: bool) -> Tensor:
        """One iteration, in place. Returns one number per block, which is finite if the block is."""
        ...
