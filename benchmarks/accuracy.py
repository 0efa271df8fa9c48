"""Test accuracy of classifiers after equal seconds, lambda chosen on held-out data (python -m benchmarks.accuracy).

For every data set, seed and method: a quarter of the training part is held out (--held-out: several times, drawn
anew); the method is fitted to the rest once per lambda; the lambda with the highest (mean) accuracy on what was held
out is taken, of equal ones the largest; with it the method is fitted to the whole training part, and the last weights
that it shows in time are judged on the test part. A fit has the same seconds for every method. The clock stands still
while weights are shown, and accuracies are computed here, from the weights. Everything is float64, on the CPU and on
the GPU. All methods minimise F, the sum of the loss over the samples + lambda/2 |W|^2; the seed draws the split and the
initial weights, which are LeCun's uniform ones, or He's normal ones for ReLU.

Results are added to a JSON file as they come, so a run can be interrupted and continued; several processes can share
the work (by --seeds or --sets), each with a --part of its own, until --report joins the parts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy_report import BREAKS, NOTHING, report
from benchmarks.competitors import Read, Start, Weights, forward, train_for
from benchmarks.real_data import DATA_SETS, DataError, Samples
from benchmarks.records import Log, Record, add_arguments, environment, join_parts, load, use_threads


@dataclass(frozen=True)
class Method:
    """A competitor with a loss and an activation.

    epochs    whether its shows are epochs, of which the best on the test part is recorded too, as an oracle
    cpu_only  whether it cannot use a GPU
    """

    competitor: str
    loss: str = "cross_entropy"
    activation: str = "sigmoid"
    epochs: bool = False
    cpu_only: bool = False

    def start(self, train: Samples, classes: int, hidden: tuple[int, ...], lam: float, seed: int, device: str) -> Start:
        init, scale = ("lecun_normal", sqrt(2)) if self.activation == "relu" else ("lecun_uniform", 1.0)
        Y = np.eye(classes)[train.y]
        return Start(train.X, Y, hidden, lam, init, scale, seed, self.loss, self.activation, device, tol=1e-8)


METHODS = {
    "synced squared error": Method("synced", "squared_error"),
    "synced cross-entropy": Method("synced"),
    "L-BFGS": Method("L-BFGS"),
    "Adam ReLU": Method("Adam", activation="relu", epochs=True),
    "Adam sigmoid": Method("Adam", epochs=True),
    "MLP lbfgs": Method("MLP lbfgs", cpu_only=True),
    "MLP adam": Method("MLP adam", epochs=True, cpu_only=True),
    "features + ridge": Method("features + ridge", "squared_error"),
}
LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
SIZES = {"full": None, "small": 2000}
HELD_OUT = 0.25


@dataclass
class Fit:
    """The last weights shown in time (the initial ones if there are none), and how the fit went.

    best  the highest accuracy of all that were shown in time, where that was asked for
    """

    weights: Weights
    seconds: float = 0.0
    iterates: int = 0
    ending: str = ""
    best: float | None = None


def accuracy(weights: Weights, activation: str, X: Tensor, y: Tensor) -> float:
    """Share of the samples whose largest output is that of their class; an output that is not finite is wrong."""
    Z = forward(weights, X, activation)
    return float(((Z.argmax(1) == y) & Z.isfinite().all(1)).double().mean())


def fit(method: Method, start: Start, seconds: float, judge: Callable[[Weights], float] | None = None) -> Fit:
    """Train so long; a method that breaks keeps what it has shown before."""
    result = Fit(start.weights())

    def look(elapsed: float, read: Read) -> None:
        if elapsed <= seconds:
            result.weights, result.seconds, result.iterates = read(), elapsed, result.iterates + 1
            if judge is not None:
                result.best = max(result.best or 0.0, judge(result.weights))

    try:
        time_is_up, sentence = train_for(seconds, method.competitor, start, look)
        result.ending = "time" if time_is_up else sentence or "finished"
    except (ArithmeticError, RuntimeError, ValueError) as error:
        result.ending = f"error: {type(error).__name__}: {error}"
    if result.iterates == 0 and not result.ending.startswith(BREAKS):
        result.ending = NOTHING
    return result


def measured(method: Method, start: Start, judged: Samples, seconds: float, is_test: bool) -> Record:
    """One fit and its accuracy, as a record."""
    X, y = torch.tensor(judged.X, device=start.device), torch.tensor(judged.y, device=start.device)
    judge = partial(accuracy, activation=method.activation, X=X, y=y)
    done = fit(method, start, seconds, judge if is_test and method.epochs else None)
    line = {"part": "test" if is_test else "held-out", "lambda": start.regularization, "accuracy": judge(done.weights)}
    line |= {"seconds": done.seconds, "iterates": done.iterates, "ending": done.ending}
    return line if done.best is None else line | {"best epoch": done.best}


def chosen(held_out: Mapping[float, float]) -> float:
    """The lambda with the highest accuracy; of equal ones the largest."""
    return max(held_out, key=lambda lam: (held_out[lam], lam))


def run_cell(case: Record, train: Samples, test: Samples, device: str) -> Record:
    """All fits of one method on one data set with one seed."""
    method, data, seed, seconds = METHODS[case["method"]], DATA_SETS[case["data"]], case["seed"], case["seconds"]
    classes = int(max(train.y.max(), test.y.max())) + 1
    quarters = [train.split(HELD_OUT, [seed, 1, part]) for part in range(case["quarters"])]
    # What a method imports, compiles and allocates at its first call is not its speed.
    fit(method, method.start(train, classes, data.hidden, max(case["lambdas"]), seed, device), min(0.2, seconds))
    fits, judged = [], {}
    for lam in case["lambdas"]:
        lines = [
            measured(method, method.start(rest, classes, data.hidden, lam, seed, device), held_out, seconds, False)
            for rest, held_out in quarters
        ]
        fits += lines
        judged[lam] = float(np.mean([line["accuracy"] for line in lines]))
    lam = chosen(judged)
    final = measured(method, method.start(train, classes, data.hidden, lam, seed, device), test, seconds, True)
    return case | {
        "dims": "-".join(map(str, (train.X.shape[1], *data.hidden, classes))),
        "train": len(train.y),
        "test": len(test.y),
        "majority": float(np.bincount(test.y).max() / len(test.y)),
        "lambda": lam,
        "held-out accuracy": judged[lam],
        "accuracy": final["accuracy"],
        "fits": [*fits, final],
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    use_threads(options.threads)
    results = options.out / f"{options.device}-{options.size}.json"
    if options.report:
        join_parts(results)
    else:
        place = environment(options.threads, None if options.device == "cpu" else options.device)
        _run(options, Log(results, options.part, place))
    document = load(results)
    if document["records"]:
        order = {name: list(names) for name, names in (("data", DATA_SETS), ("method", METHODS))}
        text = report(document, options.device, SIZES[options.size], order)
        results.with_suffix(".md").write_text(text)
        print(text)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    summary, _, explanation = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=summary,
        epilog=explanation,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="holds the files of PTB, Yale B and JMA")
    _add_names(parser, "--sets", DATA_SETS, "all with --data, else those that need no folder")
    _add_names(parser, "--methods", METHODS, "all that the device can run")
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="full",
        help=f"small: at most {SIZES['small']} training samples, for a CPU (default: full)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--seconds", type=float, default=8.0, help="per fit (default: 8)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="default: 0 1 2")
    parser.add_argument(
        "--lambdas",
        nargs="+",
        type=float,
        default=list(LAMBDAS),
        help=f"to choose from (default: {' '.join(f'{lam:g}' for lam in LAMBDAS)})",
    )
    parser.add_argument(
        "--held-out",
        type=int,
        default=1,
        metavar="QUARTERS",
        help="so many, drawn anew, to choose lambda on (default: 1)",
    )
    parser.add_argument("--threads", type=int, default=1, help="for torch and NumPy (default: 1)")
    add_arguments(parser, "results/accuracy", report="the table")
    options = parser.parse_args(argv)
    able = [name for name, method in METHODS.items() if options.device == "cpu" or not method.cpu_only]
    options.methods = options.methods or able
    options.sets = options.sets or [name for name, data in DATA_SETS.items() if options.data or not data.file]
    options.lambdas = sorted(set(options.lambdas))
    unable = [name for name in options.methods if name not in able]
    if unable:
        parser.error(f"{' and '.join(unable)} cannot run on {options.device}; leave it out of --methods")
    if min(options.lambdas) <= 0 or options.seconds <= 0 or options.held_out < 1:
        parser.error("--lambdas, --seconds and --held-out must be positive")
    if options.device == "cuda" and not options.report and not torch.cuda.is_available():
        parser.error("torch sees no GPU here; use --device cpu")
    try:
        options.samples = {} if options.report else {name: DATA_SETS[name].load(options.data) for name in options.sets}
    except DataError as error:
        parser.error(str(error))
    return options


def _add_names(parser: argparse.ArgumentParser, option: str, names: Iterable[str], default: str) -> None:
    listed = ", ".join(f'"{name}"' for name in names)
    parser.add_argument(option, nargs="+", choices=names, metavar="NAME", help=f"of {listed} (default: {default})")


def _run(options: argparse.Namespace, log: Log) -> None:
    common = {"seconds": options.seconds, "threads": options.threads, "lambdas": options.lambdas}
    common["quarters"] = options.held_out
    cases = [
        {"data": data, "seed": seed, "method": method} | common
        for seed in options.seeds
        for data in options.sets
        for method in options.methods
    ]
    missing = [case for case in cases if not log.has(case)]
    minutes = len(missing) * (options.held_out * len(options.lambdas) + 1) * options.seconds / 60
    print(f"{len(missing)} of {len(cases)} results are missing: about {minutes:.0f} minutes at most", flush=True)
    for case in missing:
        seed = case["seed"]
        train, test = DATA_SETS[case["data"]].parts(options.samples[case["data"]], seed)
        record = run_cell(case, train.at_most(SIZES[options.size], [seed, 2]), test, options.device)
        log.add(record)
        print(f"{case['data']}, seed {seed}, {case['method']}: {record['accuracy']:.4f}", end=" ")
        print(f"at lambda {record['lambda']:g}, {record['fits'][-1]['ending'][:60]}", flush=True)


if __name__ == "__main__":
    main()
