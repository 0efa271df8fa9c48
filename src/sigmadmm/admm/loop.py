"""The only iteration loop: step, measure, record, callbacks, stop.

It knows no mathematics: a `Method` steps and measures. It runs one network or a batch; each network of a
batch ends by its own status and keeps its own last and best weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..callbacks import Callback
from ..network import Layers, Network
from . import status as sentences
from .history import History
from .interrupt import Interrupt
from .ledger import Index, Ledger
from .methods import Method
from .state import Problem, State
from .status import Status


@dataclass
class Run:
    """A run in progress, as callbacks see it.

    check_every  iterations 1, 1 + check_every, ... and the last are measured
    flat_output  whether its networks predict (samples,)
    ledger       how each network ended, with its last and its best weights
    """

    method: Method
    problem: Problem
    state: State
    max_iter: int
    tol: float
    check_every: int = 1
    flat_output: bool = False
    history: History = field(default_factory=History)
    ledger: Ledger = field(init=False)
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.state.layers, self.problem.batch)

    @property
    def iteration(self) -> int:
        return self.state.iteration

    @property
    def network(self) -> Network:
        """The current iterate."""
        return self.network_of(self.state.layers)

    @property
    def best_network(self) -> Network:
        """The checked iterate with the lowest objective so far."""
        return self.network_of(self.ledger.best)

    def network_of(self, layers: Layers) -> Network:
        return Network(layers, self.problem.activation, self.flat_output)

    def stop(self, reason: object) -> None:
        """End the run after this iteration, with status "stopped" and this reason in the message."""
        self.stop_reason = str(reason)


@torch.no_grad()
def iterate(run: Run, callbacks: Sequence[Callback] = ()) -> None:
    """Run until every network has a status."""
    method, state, ledger = run.method, run.state, run.ledger
    started = perf_counter()
    marks: list[Tensor] = []
    begun: list[Callback] = []
    interrupt = Interrupt()
    try:
        for callback in callbacks:
            callback.on_start(run)
            begun.append(callback)
        with interrupt:
            method.start(state)
            while ledger.running:
                last = state.iteration + 1 >= run.max_iter or interrupt.requested
                watch = last or state.iteration % run.check_every == 0
                marks.append(method.step(state, watch))
                if not watch:
                    continue
                measures = method.measure(state, run.tol)
                line = _to_host(measures, state.iteration, perf_counter() - started)
                _end_broken(ledger, line, marks, method)
                marks.clear()
                if not ledger.running:
                    break
                run.history.append(line)
                ledger.record(state.layers, measures["objective"], state.iteration)
                for callback in callbacks:
                    callback.on_check(run)
                _end_finished(run, line, interrupt.requested)
    except KeyboardInterrupt:
        if interrupt.requested:
            raise
        ledger.end_running(Status.INTERRUPTED, lambda index: sentences.interrupted(ledger.n_iter[index]))
    finally:
        with ExitStack() as ends:  # each gets its turn, even if another one fails
            for callback in reversed(begun):
                ends.callback(callback.on_end, run)


def _to_host(measures: dict[str, Tensor], iteration: int, seconds: float) -> dict[str, Any]:
    line: dict[str, Any] = {"iteration": iteration, "seconds": seconds}
    for name, measure in measures.items():
        value = measure.cpu().numpy()
        line[name] = value if value.ndim else value.item()
    return line


def _of(line: dict[str, Any], index: Index) -> dict[str, Any]:
    """One network's share of a line."""
    return {name: value[index] if isinstance(value, np.ndarray) else value for name, value in line.items()}


def _end_broken(ledger: Ledger, line: dict[str, Any], marks: list[Tensor], method: Method) -> None:
    """End the networks in which a number has not been finite since the last check, naming the first such block."""
    judged = ["objective", *(f"{criterion}_residual" for criterion in method.criteria)]
    finite = torch.isfinite(torch.stack(marks, -1)).cpu().numpy()  # (blocks, *batch, iterations)
    broken = np.moveaxis(~finite, 0, -1)
    for index in ledger.running:
        where = np.argwhere(broken[index])
        own = _of(line, index)
        if len(where):
            iteration = line["iteration"] - len(marks) + 1 + where[0][0]
            what = f"in iteration {iteration} the {method.blocks[where[0][1]]} block became NaN or infinite"
        elif overflowed := [name for name in judged if not np.isfinite(own[name])]:
            what = f"in iteration {line['iteration']} the {overflowed[0].replace('_', ' ')} overflowed"
        else:
            continue
        ledger.end(index, Status.BROKEN, sentences.broken(what, ledger.best_iteration[index]))


def _end_finished(run: Run, line: dict[str, Any], interrupted: bool) -> None:
    ledger, method = run.ledger, run.method
    for index in ledger.running:
        own = _of(line, index)
        if sentences.is_converged(own, method.criteria):
            ledger.end(index, Status.CONVERGED, sentences.converged(own, method.criteria))
    stuck = method.stalled(run.state)
    if stuck is not None:
        flags = stuck.cpu().numpy()
        for index in ledger.running:
            if flags[index]:
                ledger.end(index, Status.STALLED, sentences.stalled(_of(line, index), method.criteria))
    if run.stop_reason is not None:
        reason = sentences.stopped(run.iteration, run.stop_reason)
        ledger.end_running(Status.STOPPED, lambda index: reason)
    elif interrupted:
        ledger.end_running(Status.INTERRUPTED, lambda index: sentences.interrupted(run.iteration))
    elif run.iteration >= run.max_iter:
        ledger.end_running(
            Status.MAX_ITER, lambda index: sentences.out_of_iterations(_of(line, index), method.criteria, method.advice)
        )
