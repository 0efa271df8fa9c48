"""What a run leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .admm.history import History
from .admm.loop import Run
from .admm.state import State
from .admm.status import Status
from .network import Network


@dataclass
class Result:
    """What a run leaves.

    network          the last iterate
    best_network     the checked iterate with the lowest objective F; the start is not among them
    best_iteration   which one that was (0: the initial network, if no iteration was finite)
    status, message  how the run ended, as an enum member and as a sentence
    n_iter           iterations done
    history          columns by name, one entry per checked iteration; see `History`
    counters         what the method counted, by name: "raised diagonals" are those of systems that rounding had made
                     indefinite
    settings         the arguments of `train` beside X, Y and callbacks: `train(X, Y, **settings)` repeats the run
    state            samples, W, V and the multipliers at the end, if `keep_state` was asked for
    """

    network: Network
    best_network: Network
    best_iteration: int
    status: Status
    message: str
    n_iter: int
    history: History
    counters: dict[str, int]
    settings: dict[str, Any]
    state: State | None

    def __repr__(self) -> str:
        return f"Result({self.network!r}, {self.status}, {self.n_iter} iterations)"

    @classmethod
    def of(cls, run: Run, settings: dict[str, Any], keep_state: bool) -> Result:
        """Of a run of one network that has ended."""
        ledger = run.ledger
        return cls(
            network=run.network_of(ledger.last),
            best_network=run.best_network,
            best_iteration=int(ledger.best_iteration),
            status=ledger.status.item(),
            message=ledger.message.item(),
            n_iter=int(ledger.n_iter),
            history=run.history,
            counters={name: int(count) for name, count in run.state.counters.items()},
            settings=settings,
            state=run.state if keep_state else None,
        )
