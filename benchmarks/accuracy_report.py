"""The tables and verdicts of benchmarks.accuracy, from its records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.real_data import DATA_SETS
from benchmarks.records import Document, Record

NOTHING = "nothing shown in time"
BREAKS = ("broken", "error", NOTHING)  # how the endings of fits begin that broke
OURS = "synced"
LOSSES = ("synced cross-entropy", "synced squared error")  # the first one if the held-out part does not decide
TOLERANCE = 0.5  # points that synced may be below

Rows = dict[str, dict[int, Record]]  # by method and seed


def report(document: Document, device: str, size: int | None, order: Mapping[str, Sequence[str]]) -> str:
    """Markdown: what was measured where, then per data set a table, the verdicts and the breaks."""
    records = sorted(document["records"], key=lambda record: [order[name].index(record[name]) for name in order])
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        settings = [record[name] for name in ("data", "seconds", "threads", "quarters")]
        groups.setdefault((*settings, *record["lambdas"]), []).append(record)
    places = [", ".join(f"{name} {value}" for name, value in place.items()) for place in document["environments"]]
    text = ["# Test accuracy with lambda chosen on held-out data\n", *(f"Measured with {place}.\n" for place in places)]
    text.append(summary(list(groups.values())))
    for group in groups.values():
        rows = by_method(group)
        text += [heading(group, device, size), table(rows)]
        text += [*(f"- {line}" for line in verdicts(group[0]["data"], rows)), *breaks(rows), ""]
    return "\n".join([*text, NOTES])


def summary(groups: Sequence[Sequence[Record]]) -> str:
    """One line per data set: the mean test accuracy of every method."""
    rows = [(group[0], by_method(group)) for group in groups]
    methods = list(dict.fromkeys(method for _, found in rows for method in found if method not in LOSSES))
    head = f"| data | seeds | seconds | {' | '.join(methods)} |\n|{'---|' * (3 + len(methods))}\n"
    return head + "".join(
        f"| {one['data']} | {max(map(len, found.values()))} | {one['seconds']:g} | "
        + " | ".join(f"{mean(found[method]):.2%}" if method in found else "" for method in methods)
        + " |\n"
        for one, found in rows
    )


NOTES = """\
Splits are random, stratified by class; a seed draws the split and the initial weights. synced takes, per seed, the loss
with the higher accuracy on the held-out part (of equal ones cross-entropy), and its lambda. "Synced minus this" is
in points, over the seeds that both have. "Best epoch" is an oracle: the highest accuracy on the test part of any
epoch, which nobody can know; it is there for comparison only. "Iterates" is how many the last fit has shown, the median
over the seeds. The endings count all fits, those on the held-out part too; where none is named the time was up.
"""


def heading(group: Sequence[Record], device: str, size: int | None) -> str:
    one = group[0]
    train, test = (_range([record[part] for record in group], "d") for part in ("train", "test"))
    majority = _range([100 * record["majority"] for record in group], ".1f")
    cut = f" (cut to at most {size})" if size else ""
    threads = f"{one['threads']} CPU thread{'' if one['threads'] == 1 else 's'}"
    return (
        f"## {one['data']}\n\n{DATA_SETS[one['data']].label}. Network {one['dims']}, {train} training samples{cut}, "
        f"{test} test samples, {majority} % of them in the largest class. {one['seconds']:g} s per fit on {device}, "
        f"float64, {threads}; lambda from {' '.join(f'{lam:g}' for lam in one['lambdas'])}, "
        f"chosen on {one['quarters']} held-out quarter{'' if one['quarters'] == 1 else 's'}.\n"
    )


def _range(values: Sequence[float], form: str) -> str:
    """They may depend on the seed."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def by_method(records: Sequence[Record]) -> Rows:
    """With our method first: per seed, the loss that did better on the held-out part."""
    rows: Rows = {}
    for record in records:
        rows.setdefault(record["method"], {})[record["seed"]] = record
    ours = [rows.get(loss, {}) for loss in LOSSES]
    both = sorted(set.intersection(*(set(seeds) for seeds in ours)))
    best = {seed: max((seeds[seed] for seeds in ours), key=lambda record: record["held-out accuracy"]) for seed in both}
    return ({OURS: best} if best else {}) | rows


def mean(seeds: Mapping[int, Record], value: Callable[[Record], float] = lambda record: record["accuracy"]) -> float:
    return float(np.mean([value(record) for record in seeds.values()]))


def differences(ours: Mapping[int, Record], rival: Mapping[int, Record]) -> np.ndarray:
    """In points, one per seed that both have."""
    common = sorted(set(ours) & set(rival))
    return np.array([100 * (ours[seed]["accuracy"] - rival[seed]["accuracy"]) for seed in common])


def table(rows: Rows) -> str:
    head = (
        "| method | seeds | test accuracy | lowest | synced minus this | lambda | iterates | best epoch (oracle) "
        "| endings |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(_line(method, seeds, rows.get(OURS, {})) for method, seeds in rows.items())


def _line(method: str, seeds: Mapping[int, Record], ours: Mapping[int, Record]) -> str:
    finals = [record["fits"][-1] for record in seeds.values()]
    gap = differences(ours, seeds)
    oracle = [final["best epoch"] for final in finals if "best epoch" in final]
    endings = Counter(_kind(fit["ending"]) for record in seeds.values() for fit in record["fits"])
    cells = (
        f"**{method}**" if method == OURS else method,
        str(len(seeds)),
        f"{mean(seeds):.2%}",
        f"{min(final['accuracy'] for final in finals):.2%}",
        f"{gap.mean():+.2f}" if len(gap) and method != OURS else "",
        ", ".join(f"{record['lambda']:g}" for _, record in sorted(seeds.items())),
        f"{np.median([final['iterates'] for final in finals]):.0f}",
        f"{np.mean(oracle):.2%}" if oracle else "",
        ", ".join(f"{count} {kind}" for kind, count in sorted(endings.items()) if kind != "time"),
    )
    return f"| {' | '.join(cells)} |\n"


def _kind(ending: str) -> str:
    return ending.split(":", 1)[0]


def verdicts(data: str, rows: Rows) -> list[str]:
    """What is claimed for this data set, and whether it holds."""
    if OURS not in rows:
        return [f"undecided: there are no results of both {' and '.join(LOSSES)} for any seed"]
    if DATA_SETS[data].file is None:
        rivals = {method: seeds for method, seeds in rows.items() if method not in (OURS, *LOSSES)}
        if not rivals:
            return ["undecided: there are no results of other methods"]
        best = max(rivals, key=lambda method: mean(rivals[method]))
        return [_verdict(rows, best, f"not below the best of the others ({best}) by more", -TOLERANCE)]
    return [
        _verdict(rows, "Adam ReLU", "not below Adam ReLU by more", -TOLERANCE),
        _verdict(rows, "Adam sigmoid", "above Adam sigmoid", 0.0),
    ]


def _verdict(rows: Rows, rival: str, claim: str, least: float) -> str:
    gap = differences(rows[OURS], rows.get(rival, {}))
    if not len(gap):
        return f"undecided: synced {claim}: there are no results of {rival} for the same seeds"
    holds = gap.mean() > least if least == 0 else gap.mean() >= least - 1e-9
    more = f" than {TOLERANCE:g} points" if least else ""
    error = f", standard error {gap.std(ddof=1) / np.sqrt(len(gap)):.2f}" if len(gap) > 1 else ""
    return (
        f"**{'holds' if holds else 'does not hold'}**: synced {claim}{more}: {gap.mean():+.2f} points over "
        f"{len(gap)} seed{'' if len(gap) == 1 else 's'}{error}"
    )


def breaks(rows: Rows) -> list[str]:
    """Every fit that broke; its accuracy, of what it had shown before, is counted in the table."""
    return [
        f"- break: {method}, seed {seed}, lambda {fit['lambda']:g}, {fit['part']}: {fit['ending']} (accuracy "
        f"{fit['accuracy']:.2%})"
        for method, seeds in rows.items()
        if method != OURS
        for seed, record in seeds.items()
        for fit in record["fits"]
        if fit["ending"].startswith(BREAKS)
    ]
