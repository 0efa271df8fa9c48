"""The default method with one thing changed (python -m benchmarks.variants): F after as many iterations.

F after so many iterations does not depend on the machine. Seconds are CPU time per iteration, beside that of the
unchanged method in the same process, which runs again where its time is needed. The conjugate-gradient path is
compared after as many iterations of conjugate gradients. Results are added to a JSON file as they come, start by
start, so a run can be interrupted and continued; every five starts hold every function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.changes import Values, changed
from benchmarks.methods import INITS, at
from benchmarks.records import Log, Record, add_arguments, environment, join_parts, load, use_threads
from benchmarks.tasks import TASKS
from benchmarks.variant_solvers import LayerByLayer, LayersThenJoint, SinglePrecision
from sigmadmm.admm import joint_step, synced, trials
from sigmadmm.admm.conjugate_gradients import ByConjugateGradients
from sigmadmm.admm.direct_solvers import BySamples, ByWeights
from sigmadmm.admm.joint_step import Solver
from sigmadmm.settings import Start
from sigmadmm.setup import set_up
from sigmadmm.training import begin

UNCHANGED = "as it is"
KEYS = ("task", "init", "lambda", "seed")
CHOSEN = (("msra", 1e-6, 5), ("lecun", 1e-4, 6), ("xavier", 1e-6, 7), ("msra x8", 1e-4, 8))
FUNCTIONS = tuple(name for name, task in TASKS.items() if task.is_function)
STARTS = [
    dict(zip(KEYS, (name, *CHOSEN[(i + turn) % len(CHOSEN)]), strict=True))
    for turn in range(len(CHOSEN))
    for i, name in enumerate(FUNCTIONS)
]


@dataclass(frozen=True)
class Variant:
    values: Values = field(default_factory=dict)
    solver: Callable[[], Solver] = BySamples


@dataclass(frozen=True)
class Group:
    """Variants that are compared with the first of them.

    counted  what the marks count
    """

    title: str
    counted: str
    marks: tuple[int, ...]
    variants: dict[str, Variant]


def _by_cg(coarsest: float, finest: float) -> Variant:
    return Variant({(synced, "COARSEST"): coarsest, (synced, "FINEST"): finest}, ByConjugateGradients)


DIRECT = {
    UNCHANGED: Variant(),
    "no bend": Variant({(BySamples, "direct"): False, (ByWeights, "direct"): False}),
    "no short steps": Variant({(trials, "SHARES"): ()}),
    "no Newton steps": Variant({(synced, "SLOW"): 0.0, (synced, "VISIBLE"): 0.0}),
    "Newton steps below 5 %": Variant({(synced, "SLOW"): 0.05}),
    "kappa 0": Variant({(joint_step, "KAPPA"): 0.0}),
    "kappa 1": Variant({(joint_step, "KAPPA"): 1.0}),
    "first damping 0.01": Variant({(synced, "FIRST_DAMPING"): 0.01}),
    "first damping 1": Variant({(synced, "FIRST_DAMPING"): 1.0}),
    "first damping 10": Variant({(synced, "FIRST_DAMPING"): 10.0}),
    "largest bend 0.15": Variant({(trials, "LARGEST_BEND"): 0.15}),
    "largest bend 2": Variant({(trials, "LARGEST_BEND"): 2.0}),
    "layer by layer": Variant(solver=LayerByLayer),
    "layer by layer, then jointly": Variant(solver=LayersThenJoint),
}
SINGLE = {UNCHANGED: Variant(), "factored in single precision": Variant(solver=SinglePrecision)}
ITERATIVE = {
    UNCHANGED: Variant(solver=ByConjugateGradients),
    "always to 0.01": _by_cg(0.01, 0.01),
    "always to 0.3": _by_cg(0.3, 0.3),
}
GROUPS = {
    "direct": Group("Direct solver", "iterations", (20, 40, 80, 160), DIRECT),
    "single": Group("Direct solver", "iterations", (20, 40, 80, 160), SINGLE),
    "cg": Group('solver="cg"', synced.CG, (100, 200, 400, 800), ITERATIVE),
}


def follow(start: dict[str, Any], variant: Variant, counted: str, last: int) -> tuple[list[tuple[int, float]], float]:
    """(count, F) after every iteration until `last` are counted, or F stalls; and CPU seconds for each."""
    task, (init, scale) = TASKS[start["task"]], INITS[start["init"]]
    settings = {"hidden": task.hidden, "regularization": start["lambda"], "init": init, "init_scale": scale}
    built = set_up(*task.sample(start["seed"]), Start.of(settings | {"seed": start["seed"], "device": "cpu"}))
    points: list[tuple[int, float]] = []
    with changed(variant.values), torch.no_grad():
        method, state = synced.SyncedADMM(built.problem, variant.solver()), begin(built)
        method.start(state)
        began = process_time()
        for iteration in range(1, last + 1):
            method.step(state, False)
            count = int(state.counters[counted]) if counted in state.counters else iteration
            points.append((count, float(state.memory.objective)))
            if count >= last or bool(method.stalled(state)):
                break
    return points, (process_time() - began) / points[-1][0]


def records_of(start: dict[str, Any], name: str, log: Log) -> Iterator[Record]:
    """Of the variants that the log lacks, with the seconds of the unchanged method beside their own."""
    group = GROUPS[name]
    last, seconds = group.marks[-1], None
    for label, variant in group.variants.items():
        key = start | {"group": name, "variant": label, "last": last}
        if log.has(key):
            continue
        if seconds is None:
            points, seconds = follow(start, group.variants[UNCHANGED], group.counted, last)
            own = seconds
        if label != UNCHANGED:
            points, own = follow(start, variant, group.counted, last)
        F = {str(mark): at(points, mark) for mark in group.marks}
        yield key | {"F": F, "seconds": own, "unchanged_seconds": seconds}


def compare(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    """Of every variant: the ratios of F to that of the unchanged method, by mark, and the median of the seconds' ones.

    The median, since a run that has converged before the last mark spends most of its seconds on the last digits.
    """
    found: dict[str, dict[tuple[Any, ...], Record]] = {}
    for record in records:
        if record["group"] == name:
            found.setdefault(record["variant"], {})[tuple(record[key] for key in KEYS)] = record
    base = found.pop(UNCHANGED, {})
    lines = []
    for variant in sorted(found, key=list(GROUPS[name].variants).index):
        pairs = [(record, base[start]) for start, record in found[variant].items() if start in base]
        ratios = {
            mark: np.array([one["F"][mark] / other["F"][mark] for one, other in pairs]) for mark in pairs[0][0]["F"]
        }
        seconds = np.array([one["seconds"] / one["unchanged_seconds"] for one, _ in pairs])
        lines.append({"variant": variant, "starts": len(pairs), "ratios": ratios, "seconds": float(np.median(seconds))})
    return lines


def geometric_mean(ratios: np.ndarray) -> float:
    return float(np.exp(np.log(ratios).mean()))


def table(lines: Sequence[dict[str, Any]], group: Group) -> str:
    marks = [str(mark) for mark in group.marks]
    head = " | ".join(["variant", "starts", *marks, "time"])
    rows = [f"| {head} |", "|---" * (len(marks) + 3) + "|"]
    for line in lines:
        cells = [line["ratios"][mark] for mark in marks]
        numbers = [f"{geometric_mean(x):.3g} ({x.min():.2g} to {x.max():.2g})" for x in cells]
        rows.append(
            f"| {' | '.join([line['variant'], str(line['starts']), *numbers, format(line['seconds'], '.2f')])} |"
        )
    explained = (
        f"{group.title}: F divided by that of the unchanged method after so many {group.counted}, geometric mean (best "
        "to worst); and the CPU seconds of each, the median of the ratios."
    )
    return f"{explained}\n\n" + "\n".join(rows) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--starts", type=int, default=len(STARTS), help=f"at most so many (default: {len(STARTS)})")
    add_arguments(parser, "results/variants", report="table")
    options = parser.parse_args(argv)
    use_threads(1)
    results = options.out / "1-thread.json"
    if options.report:
        join_parts(results)
    else:
        log = Log(results, options.part, environment(1))
        for name in options.groups:
            for start in STARTS[: options.starts]:
                for record in records_of(start, name, log):
                    log.add(record)
                    print(*(record[key] for key in (*KEYS, "variant")), record["F"], flush=True)
    measured = load(results)["records"]
    tables = [table(lines, GROUPS[name]) for name in GROUPS if (lines := compare(measured, name))]
    results.with_suffix(".md").write_text("\n".join(tables))
    print("\n".join(tables))


if __name__ == "__main__":
    main()
