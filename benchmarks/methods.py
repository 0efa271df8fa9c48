"""The objective F against seconds: our methods and others from the same weights (python -m benchmarks.methods).

F is computed here, in float64, from the weights that a method shows; its own numbers are not asked for. The clock
stands still while it shows them. Results are added to a JSON file as they come, so a run can be interrupted and
continued; several processes can share the work, each with a --part of its own, until --report joins the parts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.competitors import COMPETITORS, Read, Start, Weights, forward, train_for
from benchmarks.records import Log, Record, add_arguments, environment, join_parts, load, use_threads
from benchmarks.tasks import TASKS

INITS = {
    "msra": ("msra", 1.0),
    "lecun": ("lecun_uniform", 1.0),
    "xavier": ("xavier", 1.0),
    "orthogonal": ("orthogonal_uniform", 1.0),
    "msra x8": ("msra", 8.0),
}
LAMBDAS, SEEDS, MARKS = (1e-6, 1e-4), (0, 1, 2), (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def objective(weights: Weights, X: np.ndarray, Y: np.ndarray, lam: float) -> float:
    """F of a sigmoid network, thresholds regularised."""
    loss = (forward(weights, torch.tensor(X)).numpy() - Y) ** 2
    squares = sum((W**2).sum() + (b**2).sum() for W, b in weights)
    return float(loss.sum() / 2 + lam / 2 * squares)


def trajectory(method: str, start: Start, seconds: float) -> list[tuple[float, float]]:
    """(seconds, lowest F so far) whenever F fell, with the clock standing still while F is computed."""
    points: list[tuple[float, float]] = []

    def look(elapsed: float, read: Read) -> None:
        F = objective(read(), start.X, start.Y, start.regularization)
        if elapsed <= seconds and np.isfinite(F) and (not points or points[-1][1] > F):
            points.append((elapsed, F))

    train_for(seconds, method, start, look)
    return points


def at(points: Sequence[Sequence[float]], seconds: float) -> float:
    """The lowest F by then; inf if nothing was shown yet."""
    return min((F for t, F in points if t <= seconds), default=float("inf"))


def cases(tasks: Sequence[str], inits: Sequence[str], seeds: Sequence[int]) -> list[dict[str, Any]]:
    keys = ("task", "init", "lambda", "seed")
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(tasks, inits, LAMBDAS, seeds)]


def run_case(case: dict[str, Any], method: str, seconds: float) -> dict[str, Any]:
    task = TASKS[case["task"]]
    init, scale = INITS[case["init"]]
    X, Y = task.sample(case["seed"])
    start = Start(X, Y, task.hidden, case["lambda"], init, scale, case["seed"])
    points = trajectory(method, start, seconds)
    return {**case, "method": method, "seconds": seconds, "F": {str(m): at(points, m) for m in MARKS if m <= seconds}}


def compare(records: Sequence[dict[str, Any]], mark: str, ours: str = "synced") -> list[dict[str, Any]]:
    """Against each rival, on the function tasks: in how many runs F is lower, and the worst ratio."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in records:
        if TASKS[record["task"]].is_function and mark in record["F"]:
            key = (record["task"], record["init"], record["lambda"], record["seed"])
            found.setdefault(key, {})[record["method"]] = record["F"][mark]
    lines = []
    for rival in sorted({method for by in found.values() for method in by} - {ours}):
        ratios = np.array([by[ours] / by[rival] for by in found.values() if ours in by and rival in by])
        if len(ratios):
            lines.append(
                {
                    "rival": rival,
                    "seconds": float(mark),
                    "runs": len(ratios),
                    "lower": float((ratios < 1).mean()),
                    "worst": float(ratios.max()),
                    "geometric_mean": float(np.exp(np.log(np.maximum(ratios, 1e-300)).mean())),
                }
            )
    return lines


def table(lines: Sequence[dict[str, Any]]) -> str:
    head = (
        "| rival | seconds | runs | synced lower in | worst ratio | geometric mean ratio |\n|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {x['rival']} | {x['seconds']:g} | {x['runs']} | {x['lower']:.1%} | {x['worst']:.2f} "
        f"| {x['geometric_mean']:.3g} |\n"
        for x in lines
    )


def picture(records: Sequence[Record], path: Path) -> None:
    """Per task the curves of F against seconds, then performance profiles after 2 and 8 seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = [task for task in TASKS if any(record["task"] == task for record in records)]
    marks = [mark for mark in ("2.0", "8.0") if any(mark in record["F"] for record in records)]
    panels = len(tasks) + len(marks)
    rows = -(-panels // 3)
    figure, axes = pyplot.subplots(rows, 3, figsize=(15, 4 * rows), squeeze=False)
    for axis, task in zip(axes.flat, tasks, strict=False):
        _curves(axis, [record for record in records if record["task"] == task])
        axis.set(title=task, xlabel="seconds", ylabel="F, geometric mean over the starts")
        axis.set_xticks(MARKS, [f"{mark:g}" for mark in MARKS])
        axis.minorticks_off()
    for axis, mark in zip(list(axes.flat)[len(tasks) :], marks, strict=False):
        _profile(axis, records, mark)
        axis.set(xlabel="F within this factor of the lowest", ylabel="share of runs", title=f"after {float(mark):g} s")
    for axis in axes.flat[panels:]:
        axis.set_axis_off()
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def _curves(axis: Any, records: Sequence[Record]) -> None:
    for color, method in enumerate(COMPETITORS):
        found = [record["F"] for record in records if record["method"] == method]
        marks = [mark for mark in map(str, MARKS) if found and all(np.isfinite(F.get(mark, np.inf)) for F in found)]
        means = [np.exp(np.mean([np.log(F[mark]) for F in found])) for mark in marks]
        if found:
            axis.loglog([float(mark) for mark in marks], means, marker=".", color=f"C{color}", label=method)


def _profile(axis: Any, records: Sequence[Record], mark: str) -> None:
    """In which share of the runs a method's F is within a factor of the lowest."""
    runs: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in records:
        key = (record["task"], record["init"], record["lambda"], record["seed"])
        runs.setdefault(key, {})[record["method"]] = record["F"].get(mark, float("inf"))
    factors = np.logspace(0, 4, 200)
    for color, method in enumerate(COMPETITORS):
        ratios = np.array([by[method] / min(by.values()) for by in runs.values() if method in by])
        if len(ratios):
            axis.semilogx(factors, [(ratios <= f).mean() for f in factors], color=f"C{color}", label=method)


def warm_up(method: str) -> None:
    """What a method imports and compiles at its first call is not its speed."""
    X = np.linspace(-1, 1, 20)[:, None]
    trajectory(method, Start(X, X**2, (3, 3), 1e-3, "xavier", 1.0, 0), 0.05)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--inits", nargs="+", choices=INITS, default=list(INITS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--seconds", type=float, default=8.0, help="per run (default: 8)")
    parser.add_argument("--threads", type=int, default=1, help="for torch and NumPy (default: 1)")
    add_arguments(parser, "results/methods", report="table and picture")
    options = parser.parse_args(argv)
    use_threads(options.threads)
    results = options.out / f"{options.threads}-thread.json"
    if options.report:
        join_parts(results)
    else:
        _run(options, Log(results, options.part, environment(options.threads)))
    _report(load(results)["records"], results)


def _run(options: argparse.Namespace, log: Log) -> None:
    for method in options.methods:
        warm_up(method)
    for case in cases(options.tasks, options.inits, options.seeds):
        for method in options.methods:
            if log.has(case | {"method": method, "seconds": options.seconds}):
                continue
            record = run_case(case, method, options.seconds)
            log.add(record)
            print(*case.values(), method, {mark: f"{F:.2e}" for mark, F in record["F"].items()}, flush=True)


def _report(measured: Sequence[Record], results: Path) -> None:
    lines = [line for mark in ("2.0", "8.0") for line in compare(measured, mark)]
    if not lines:
        return
    results.with_suffix(".md").write_text(table(lines))
    print(table(lines))
    picture(measured, results.with_suffix(".png"))


if __name__ == "__main__":
    main()
