"""The command `sigmadmm`: arguments and printing. typer and rich are imported when it runs, not before."""

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from . import __version__, demo, demo_report
from .callbacks import Callback, ProgressBar
from .errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from typer import Typer

_NEEDS = 'the command needs typer and rich: pip install "sigmadmm[cli]"'


def main(argv: Sequence[str] | None = None) -> None:
    try:
        for name in ("typer", "rich"):
            import_module(name)
    except ModuleNotFoundError:
        print(_NEEDS, file=sys.stderr)
        raise SystemExit(1) from None
    _app()(argv)


def _app() -> "Typer":
    import typer

    app = typer.Typer(
        help="Train sigmoid networks by ADMM and methods derived from it, without a learning rate.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    _add_version(app)
    _add_demo(app)
    _add_bench(app)
    return app


def _add_version(app: "Typer") -> None:
    import typer

    def show(wanted: bool) -> None:
        if wanted:
            print(f"sigmadmm {__version__}")
            raise typer.Exit

    option = typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")

    @app.callback()
    def version(version: Annotated[bool, option] = False) -> None:
        pass


def _add_demo(app: "Typer") -> None:
    import typer

    about_seed = typer.Option(min=0, help="Seed of the data and of the initial weights.")
    about_iterations = typer.Option(
        min=1, help=f"Iterations of Algorithm 1; L-BFGS gets about the same time. The paper ran {demo.PAPER_EPOCHS}."
    )
    about_json = typer.Option("--json", help="Print JSON on standard output, and nothing else there.")

    @app.command("demo")
    def run_demo(
        seed: Annotated[int, about_seed] = 0,
        iterations: Annotated[int, about_iterations] = demo.ITERATIONS,
        as_json: Annotated[bool, about_json] = False,
    ) -> None:
        """Run the paper's Algorithm 1 and our default method beside two baselines on x^2 and uv (half a minute).

        Prints errors, objective and seconds of each method, and says in words what these numbers show.
        """
        with _plain_endings():
            _demo(seed, iterations, as_json)


def _add_bench(app: "Typer") -> None:
    import typer

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}

    @app.command("bench", context_settings=anything, add_help_option=False)
    def run_bench(context: typer.Context) -> None:
        """Measure how fast this machine trains; for its options: sigmadmm bench --help."""
        from . import bench

        with _plain_endings():
            bench.main(context.args)


@contextmanager
def _plain_endings() -> Iterator[None]:
    """A sentence and an exit code where a traceback would tell the user nothing."""
    try:
        yield
    except InvalidInput as error:
        print(f"sigmadmm: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("sigmadmm: interrupted before the end.", file=sys.stderr)
        raise SystemExit(130) from None


class _Bars(demo.Watch):
    """Progress on standard error, so that it also shows when the output goes to a file."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True)

    def callbacks(self, title: str) -> list[Callback]:
        return [ProgressBar(title, self.console)]

    def busy(self, title: str) -> AbstractContextManager[object]:
        return self.console.status(title)


def _watch() -> demo.Watch:
    from rich.console import Console

    return _Bars() if sys.stderr.isatty() and Console(stderr=True).is_interactive else demo.Watch()


def _demo(seed: int, iterations: int, as_json: bool) -> None:
    if as_json:
        records = demo.run(demo.TASKS, iterations=iterations, seed=seed, watch=_watch())
        print(json.dumps(demo_report.document(records, iterations, seed), indent=2, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    _paragraphs(console, [demo_report.introduction(iterations, seed)])
    _show(console, demo.run(demo.TASKS, iterations=iterations, seed=seed, watch=_watch()))


def _show(console: "Console", records: Sequence[demo.Record]) -> None:
    table = _table(records)
    table.width = _width(console, table)
    console.print("", table, "", sep="\n", soft_wrap=True)
    _paragraphs(console, demo_report.explanations())
    console.print("\nWhat these numbers say", style="bold")
    _paragraphs(console, demo_report.findings(records), bullet="- ")
    console.print("\nYour own data, in Python", style="bold")
    print(textwrap.indent(demo_report.OWN_DATA, "  "))


def _width(console: "Console", table: "Table") -> int:
    """That of the console if the table's numbers fit; a narrower one may break lines, but nothing is cut off."""
    unbounded = console.measure(table, options=console.options.update_width(1000))
    return max(unbounded.minimum, min(unbounded.maximum, console.width))


def _paragraphs(console: "Console", texts: Iterable[str], bullet: str = "") -> None:
    hanging = " " * len(bullet)
    for text in texts:
        lines = textwrap.fill(text, console.width, initial_indent=bullet, subsequent_indent=hanging)
        console.print(lines, soft_wrap=True, markup=False, highlight=False)


def _table(records: Iterable[demo.Record]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("task", no_wrap=True)
    table.add_column("scale", no_wrap=True, justify="right")
    table.add_column("method", min_width=len(demo.ALGORITHM), overflow="fold")
    for title in ("best mse", "at", "last mse", "F", "sec"):
        table.add_column(title, no_wrap=True, justify="right")
    for task, rows in groupby(records, key=lambda record: record.task):
        _add_task(table, task, list(rows))
    return table


def _add_task(table: "Table", task: str, records: Sequence[demo.Record]) -> None:
    """The rows of one start, a gap, those of the next; below them what the paper reports."""
    scale = records[0].scale
    for record in records:
        if record.scale != scale:
            table.add_section()
            scale = record.scale
        table.add_row(*_cells(record))
    table.add_row(task, "", f"paper: {demo.ALGORITHM}", _number(records[0].paper_mse))
    table.add_section()


def _cells(record: demo.Record) -> list[str]:
    return [
        record.task,
        f"{record.scale:g}",
        record.method,
        "-" if record.best_mse is None else _number(record.best_mse),
        "-" if record.best_iteration is None else str(record.best_iteration),
        _number(record.last_mse),
        _number(record.objective),
        f"{record.seconds:.2f}",
    ]


def _number(value: float) -> str:
    return f"{value:.2e}"
