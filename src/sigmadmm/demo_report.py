"""What `sigmadmm demo` prints around its table: the setting, the columns, and what the numbers of this run say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from .admm.status import Status
from .demo import ALGORITHM, LBFGS, PAPER_EPOCHS, PAPER_TRIALS, PENALTY, RIDGE, SHARED, SYNCED, TASKS, Record, Task

ABOUT = 2.0  # "about equal" means: within this factor
KEPT = 1.1  # "as good as its best": within this factor
TIED = 1.01  # objectives within this factor of the lowest share the first place

OWN_DATA = """\
import numpy, sigmadmm
data = numpy.loadtxt("data.csv", delimiter=",", skiprows=1)  # last column: y
X, y = data[:, :-1] / data[:, :-1].std(0), data[:, -1]  # columns of unit size
result = sigmadmm.train(X, y); print(result.message)
print(result.best_network.predict(X[:5]), "for", y[:5])"""


def document(records: Sequence[Record], iterations: int, seed: int) -> dict[str, Any]:
    """The run for machines: plain JSON types, null where there is no number."""
    settings = {**SHARED, "penalty": PENALTY, "iterations": iterations, "seed": seed, "threads": 1}
    return {
        "settings": settings,
        "tasks": [{"name": task.name, "hidden": list(task.hidden), "samples": task.n} for task in TASKS],
        "paper": {"epochs": PAPER_EPOCHS, "trials": PAPER_TRIALS},
        "records": [{name: _or_null(value) for name, value in asdict(record).items()} for record in records],
        "findings": findings(records),
    }


def _or_null(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def introduction(iterations: int, seed: int) -> str:
    rivals = " and ".join(f"{task.lbfgs_rate * iterations} ({task.name})" for task in TASKS)
    return (
        f"The paper's {ALGORITHM} (lambda {SHARED['regularization']:g}, beta {PENALTY:g}, {SHARED['init']} weights) "
        "from two starts: weights times 8, as in the authors' released code, and times 1, as in the paper's text. "
        f"Beside it {RIDGE} (hidden layers stay as they start, the output layer is solved exactly), {LBFGS}, "
        f"and this library's default method. "
        f"Iterations here: {iterations} of {ALGORITHM}, where the paper ran {PAPER_EPOCHS} epochs, and "
        f"{rivals} of {LBFGS}, which take about as long, and as many of {SYNCED} as of {ALGORITHM}, "
        f"which take longer. Seed {seed}, one CPU thread."
    )


def explanations() -> list[str]:
    """What the columns of the table are."""
    return [
        "mse: mean squared error of the network's own output (feed-forward) on its training points. best: the lowest "
        f"over all iterations, picked afterwards, because that is what the paper's authors report; at: its "
        f"iteration. {RIDGE} and {LBFGS} return one network.",
        "F: 1/2 |Phi(X) - y|^2 + lambda/2 sum |W|^2, which the methods minimise; the lowest over all iterations.",
        f"paper: mean over {PAPER_TRIALS} trials after {PAPER_EPOCHS} epochs, with the structures that were best "
        f"there, the same as here: {', '.join(map(_structure, TASKS))}.",
    ]


def _structure(task: Task) -> str:
    return f"{len(task.hidden)}x{task.hidden[0]} for {task.name}"


Case = dict[str, Record]  # what ran from one start, by method
LOWER, EQUAL, HIGHER = "lower", f"about equal (within a factor {ABOUT:g})", "higher"


def findings(records: Sequence[Record]) -> list[str]:
    """What these numbers say, in sentences; nothing but the numbers decides which."""
    finite = [record for record in records if math.isfinite(record.last_mse) and math.isfinite(record.objective)]
    cases = _cases(finite)
    trained = [case for case in cases if ALGORITHM in case]
    sentences = [
        *_endings(records),
        _against_ridge(trained),
        _against(trained, LBFGS, "best"),
        _against(trained, LBFGS, "last"),
        _decay([case[ALGORITHM] for case in trained]),
        _like_a_constant([case[ALGORITHM] for case in trained]),
        _against_synced(cases),
        _lowest_objective(cases),
        *_reaching_the_paper(cases),
    ]
    return [sentence for sentence in sentences if sentence]


def _cases(records: Iterable[Record]) -> list[Case]:
    cases: dict[str, Case] = {}
    for record in records:
        cases.setdefault(record.start, {})[record.method] = record
    return list(cases.values())


def _endings(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        if not math.isfinite(record.last_mse) or not math.isfinite(record.objective):
            yield f"{record.method} in {record.start}: no finite result."
        elif record.status == str(Status.BROKEN):
            yield f"{record.method} in {record.start} broke down after iteration {record.n_iter}, the last one counted."
        elif record.status == str(Status.CONVERGED):
            yield f"{record.method} in {record.start} met its stopping tolerances at iteration {record.n_iter}."


def _against_ridge(cases: Sequence[Case]) -> str:
    sentence = _against(cases, RIDGE, "best")
    moral = " Where it is about equal, hidden layers that were never trained do about as well."
    return sentence + moral if EQUAL in sentence else sentence


def _against_synced(cases: Sequence[Case]) -> str:
    """By how much the default method's F is below the lowest of the others; nothing to say where it is not."""
    factors = [
        (min(record.objective for method, record in case.items() if method != SYNCED) / case[SYNCED].objective, case)
        for case in cases
        if SYNCED in case and len(case) > 1 and case[SYNCED].objective > 0
    ]
    parts = [f"{case[SYNCED].start} ({_times(factor, 1.0)})" for factor, case in factors if factor > ABOUT]
    return f"{SYNCED} reaches an F below that of every other method in {_listed(parts)}." if parts else ""


def _against(cases: Sequence[Case], rival: str, which: str) -> str:
    starts: dict[str, list[str]] = {LOWER: [], EQUAL: [], HIGHER: []}
    pairs = [(case[ALGORITHM], case[rival].mse) for case in cases if rival in case]
    for run, other in pairs:
        verdict, factor = _verdict(run.mse if which == "best" else run.last_mse, other)
        starts[verdict].append(run.start + factor)
    parts = [f"{verdict} in {_listed(names)}" for verdict, names in starts.items() if names]
    if len(pairs) > 1 and len(starts[EQUAL]) == len(pairs):
        parts = [f"{EQUAL} in all {len(pairs)} cases"]
    return f"{ALGORITHM}'s {which} mse against {rival}: {'; '.join(parts)}." if parts else ""


def _verdict(mse: float, other: float) -> tuple[str, str]:
    if ABOUT * mse < other:
        return LOWER, f" ({_times(other, mse)})"
    if mse > ABOUT * other:
        return HIGHER, f" ({_times(mse, other)})"
    return EQUAL, ""


def _decay(runs: Iterable[Record]) -> str:
    worse, kept = [], []
    for run in runs:
        if run.last_mse > KEPT * run.mse:
            worse.append(f"{run.start} ({_times(run.last_mse, run.mse)})")
        else:
            kept.append(run.start)
    parts = [f"worse than its best in {_listed(worse)}"] if worse else []
    parts += [f"as good as its best, to {KEPT - 1:.0%}, in {_listed(kept)}"] if kept else []
    return f"{ALGORITHM}'s last iterate is {'; '.join(parts)}." if parts else ""


def _like_a_constant(runs: Iterable[Record]) -> str:
    starts = [run.start for run in runs if ABOUT * run.last_mse > run.constant_mse]
    if not starts:
        return ""
    return (
        f"That last iterate is about as bad as a constant (within a factor {ABOUT:g}), or worse, in {_listed(starts)}."
    )


def _lowest_objective(cases: Iterable[Case]) -> str:
    starts: dict[str, list[str]] = {}
    for case in (case for case in cases if len(case) > 1):
        lowest = min(record.objective for record in case.values())
        first = [record for record in case.values() if record.objective <= TIED * lowest]
        starts.setdefault(_listed([record.method for record in first]), []).append(first[0].start)
    parts = [f"{_reached(methods)} in {_listed(names)}" for methods, names in starts.items()]
    return f"The lowest F was reached by {'; by '.join(parts)}." if parts else ""


def _reached(methods: str) -> str:
    return f"{methods} (equal to {TIED - 1:.0%})" if " and " in methods else methods


def _reaching_the_paper(cases: Iterable[Case]) -> Iterator[str]:
    parts: dict[str, list[str]] = {}
    for case in cases:
        methods = list(case.values())
        parts.setdefault(f"{methods[0].task} ({methods[0].paper_mse:.2e})", []).append(_reaching(methods))
    for task, clauses in parts.items():
        yield f"The paper's mse for {task}: {'; '.join(clauses)}."


def _reaching(methods: Sequence[Record]) -> str:
    scale, value = f"at scale {methods[0].scale:g}", methods[0].paper_mse
    near = [record.method for record in methods if record.mse <= ABOUT * value]
    if near:
        return f"{scale} reached by {_listed(near)} (within a factor {ABOUT:g})"
    best = min(methods, key=lambda record: record.mse)
    return f"{scale} the lowest here is {_times(best.mse, value)} that, by {best.method}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _times(larger: float, smaller: float) -> str:
    """'3.6 times', '18,000 times': two digits, which is all that such a factor is worth."""
    factor = larger / smaller if smaller else math.inf
    if factor < 10:
        return f"{factor:.1f} times"
    return f"{float(f'{factor:.2g}'):,.0f} times" if factor < 1e6 else f"{factor:.1e} times"
