"""Which network of a batch has ended and how, and its last and best weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..network import Layers, where
from .status import Status

Index = tuple[int, ...]


class Ledger:
    """Bookkeeping of one run. Arrays and layers have the batch's shape: () for a single network.

    last  the layers of the newest recorded iterate
    best  those with the lowest objective F among the recorded iterates (the start, if there is none)
    """

    def __init__(self, layers: Layers, batch: tuple[int, ...]) -> None:
        self.last = self.best = layers
        self.best_objective = torch.full(batch, torch.inf, dtype=torch.float64, device=layers[0].W.device)
        self.best_iteration = np.zeros(batch, dtype=int)
        self.n_iter = np.zeros(batch, dtype=int)
        self.is_running = np.ones(batch, dtype=bool)
        self.status = np.full(batch, None, dtype=object)
        self.message = np.full(batch, "", dtype=object)

    @property
    def running(self) -> list[Index]:
        return [index for index in np.ndindex(self.status.shape) if self.is_running[index]]

    def record(self, layers: Layers, objective: Tensor, iteration: int) -> None:
        """A finite iterate of the networks that are still running."""
        pick = torch.as_tensor(self.is_running, device=objective.device)
        better = pick & (objective < self.best_objective)
        self.last = where(pick, layers, self.last)
        self.best = where(better, layers, self.best)
        self.best_objective = torch.where(better, objective, self.best_objective)
        self.best_iteration = np.where(better.cpu().numpy(), iteration, self.best_iteration)
        self.n_iter = np.where(self.is_running, iteration, self.n_iter)

    def end(self, index: Index, status: Status, message: str) -> None:
        self.is_running[index] = False
        self.status[index] = status
        self.message[index] = message

    def end_running(self, status: Status, message: Callable[[Index], str]) -> None:
        for index in self.running:
            self.end(index, status, message(index))
