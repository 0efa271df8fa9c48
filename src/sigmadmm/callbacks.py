"""Hooks into a run. History is data; printing is one of these.

A callback is a `Callback` that overrides any of the methods, or a plain function, which is then
called like `on_check`. What it receives is the `Run`: `run.iteration`, `run.history.last`,
`run.network`, and `run.stop("reason")` to end the run after this iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from .checks import whole

if TYPE_CHECKING:
    from rich.console import Console

    from .admm.loop import Run


class Callback:
    """Override what you need. Further hooks may be added; they will do nothing by default."""

    def on_start(self, run: Run) -> None:
        """Before iteration 1."""

    def on_check(self, run: Run) -> None:
        """After every checked iteration, when its line is in the history."""

    def on_end(self, run: Run) -> None:
        """When the run has ended for whatever reason, also by Ctrl-C or an exception."""


class FunctionCallback(Callback):
    """A plain function, called like `on_check`."""

    def __init__(self, function: Callable[[Run], object]) -> None:
        self.function = function

    def on_check(self, run: Run) -> None:
        self.function(run)


class PrintProgress(Callback):
    """One line of text per `every` checks, and for the last one; needs nothing but a stream."""

    def __init__(self, every: int = 10, stream: TextIO | None = None) -> None:
        self.every = whole("every", every, least=1)
        self.stream = stream

    def on_start(self, run: Run) -> None:
        self._printed = 0

    def on_check(self, run: Run) -> None:
        if (run.history.n_entries - 1) % self.every == 0:
            self._print(run)

    def on_end(self, run: Run) -> None:
        if run.history.n_entries > self._printed:
            self._print(run)

    def _print(self, run: Run) -> None:
        line = run.history.last
        self._printed = run.history.n_entries
        print(
            f"{line['iteration']:6d}  F {line['objective']:.6e}  mse {line['train_mse']:.3e}  "
            f"primal {line['primal_residual']:.1e}  dual {line['dual_residual']:.1e}  {line['seconds']:.1f} s",
            file=self.stream or sys.stdout,
        )


class ProgressBar(Callback):
    """A bar with objective, residuals and time left (needs rich: pip install "sigmadmm[cli]").

    It writes to `console`, a rich one; by default to rich's own, which is standard output.
    """

    def __init__(self, title: str = "training", console: Console | None = None) -> None:
        try:
            import rich.progress  # noqa: F401
        except ImportError as error:
            raise ImportError('ProgressBar needs rich: pip install "sigmadmm[cli]", or use PrintProgress') from error
        self.title = title
        self.console = console

    def on_start(self, run: Run) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task(self.title, total=run.max_iter, numbers="")
        self._bar.start()

    def on_check(self, run: Run) -> None:
        line = run.history.last
        numbers = f"F {line['objective']:.2e}  primal {line['primal_residual']:.0e}  dual {line['dual_residual']:.0e}"
        self._bar.update(self._task, completed=run.iteration, numbers=numbers)

    def on_end(self, run: Run) -> None:
        self._bar.stop()
