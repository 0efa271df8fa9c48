"""The only iteration loop: step, measure, record, callbacks, stop.

It knows no mathematics: a `Method` steps, `diagnostics` measure. It runs one network or a batch; each
network of a batch ends by its own status and keeps its own last and best weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..callbacks import Callback
from ..network import Network
from . import status as sentences
from .diagnostics import Measures, measure
from .history import History
from .interrupt import Interrupt
from .ledger import Index, Ledger
from .methods import Method
from .state import Problem, State
from .status import Status


@dataclass
class Run:
    """A run in progress, as callbacks see it."""

    method: Method
    problem: Problem
    state: State
    max_iter: int
    tol: float
    history: History
    flat_output: bool = False
    stop_reason: str | None = None

    @property
    def iteration(self) -> int:
        return self.state.iteration

    @property
    def network(self) -> Network:
        """The current iterate."""
        return Network(self.state.layers, self.problem.activation, self.flat_output)

    def stop(self, reason: str) -> None:
        """End the run after this iteration, with status "stopped" and this reason in the message."""
        self.stop_reason = reason


@torch.no_grad()
def iterate(
    method: Method,
    problem: Problem,
    state: State,
    *,
    max_iter: int,
    tol: float,
    check_every: int = 1,
    callbacks: Sequence[Callback] = (),
    xi: Sequence[Tensor],
    flat_output: bool = False,
) -> tuple[Ledger, History]:
    """Run `method` from `state` until every network has a status; measure iterations 1, 1 + check_every, ..., the last.

    `xi` are the weights of the Lyapunov function; `flat_output` is what `predict` of a callback's `run.network` needs.
    """
    run = Run(method, problem, state, max_iter, tol, History(), flat_output)
    ledger = Ledger(state.layers, state.batch)
    started = perf_counter()
    marks: list[Tensor] = []
    begun: list[Callback] = []
    try:
        for callback in callbacks:
            callback.on_start(run)
            begun.append(callback)
        with Interrupt() as interrupt:
            method.start(state)
            while ledger.running:
                last = state.iteration + 1 >= max_iter or interrupt.requested
                watch = last or state.iteration % check_every == 0
                marks.append(method.step(state, watch))
                if not watch:
                    continue
                measures = measure(problem, state, method.penalty, method.motion, xi, tol)
                line = _to_host(measures, state.iteration, perf_counter() - started)
                _end_broken(ledger, line, marks, method.blocks)
                marks.clear()
                if not ledger.running:
                    break
                run.history.append(line)
                ledger.record(state.layers, measures.objective, state.iteration)
                for callback in callbacks:
                    callback.on_check(run)
                _end_finished(ledger, line, run, interrupt.requested)
    except KeyboardInterrupt:
        ledger.end_running(Status.INTERRUPTED, lambda index: sentences.interrupted(ledger.n_iter[index]))
    finally:
        for callback in begun:
            callback.on_end(run)
    return ledger, run.history


def _to_host(measures: Measures, iteration: int, seconds: float) -> dict[str, Any]:
    line: dict[str, Any] = {"iteration": iteration, "seconds": seconds}
    for field in fields(measures):
        value = getattr(measures, field.name).cpu().numpy()
        line[field.name] = value if value.ndim else value.item()
    return line


def _of(line: dict[str, Any], index: Index) -> dict[str, Any]:
    """One network's share of a line."""
    return {name: value[index] if isinstance(value, np.ndarray) else value for name, value in line.items()}


def _end_broken(ledger: Ledger, line: dict[str, Any], marks: list[Tensor], blocks: list[str]) -> None:
    """End the networks in which a number has not been finite since the last check, naming the first such block."""
    finite = torch.isfinite(torch.stack(marks, -1)).cpu().numpy()  # (blocks, *batch, iterations)
    broken = np.moveaxis(~finite, 0, -1)
    for index in ledger.running:
        where = np.argwhere(broken[index])
        own = _of(line, index)
        if len(where):
            iteration = line["iteration"] - len(marks) + 1 + where[0][0]
            what = f"in iteration {iteration} the {blocks[where[0][1]]} block became NaN or infinite"
        elif not np.isfinite([own["objective"], own["lagrangian"]]).all():
            what = f"in iteration {line['iteration']} the objective overflowed"
        else:
            continue
        ledger.end(index, Status.BROKEN, sentences.broken(what, ledger.best_iteration[index]))


def _end_finished(ledger: Ledger, line: dict[str, Any], run: Run, interrupted: bool) -> None:
    for index in ledger.running:
        own = _of(line, index)
        if sentences.is_converged(own):
            ledger.end(index, Status.CONVERGED, sentences.converged(own))
    if run.stop_reason is not None:
        reason = sentences.stopped(run.iteration, run.stop_reason)
        ledger.end_running(Status.STOPPED, lambda index: reason)
    elif interrupted:
        ledger.end_running(Status.INTERRUPTED, lambda index: sentences.interrupted(run.iteration))
    elif run.iteration >= run.max_iter:
        ledger.end_running(Status.MAX_ITER, lambda index: sentences.out_of_iterations(_of(line, index)))
