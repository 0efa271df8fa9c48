"""Milliseconds per iteration of Algorithm 1, beside the floor that matrix products set on this machine.

The floor: the multiplications of a d x d by a d x n matrix that one iteration needs, counted from the
layer sizes, at the rate at which this machine does them. Iterations and products are timed in turns,
in one process, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter

import numpy as np
import torch

from .settings import Start
from .setup import set_up
from .training import begin, new_method

CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1, 100, 100, 1), 1000),
    ((2, 300, 300, 1), 1000),
    ((187, 128, 128, 128, 128, 2), 7000),
)


@dataclass
class Timing:
    """One network: medians over rounds in which iterations and products took turns.

    iteration_ms    one iteration, without diagnostics
    shape_gflops    products of the hidden layers' shape, (d x d) (d x n)
    square_gflops   products of 1024 x 1024 matrices
    needed_gflop    operations of the products that one iteration needs
    floor_ms        the needed operations at the larger of the two rates
    ratio           iteration_ms over floor_ms, median of the rounds' own ratios
    """

    network: str
    samples: int
    iteration_ms: float
    shape_gflops: float
    square_gflops: float
    needed_gflop: float
    floor_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float


def needed_products(dims: Sequence[int]) -> int:
    """Multiplications per sample of the products in one iteration; 6H - 4 of size d x d for H layers of width d.

    Counted as the formulas read. The code needs somewhat fewer: it takes Gram matrices by symmetry, and below a
    narrow layer never applies a d_j x d_j inverse. So the floor is a fixed yardstick, not a bound of what is possible.

    Per layer i: the pre-activation W_i A and the cross term G A^T; from the second on, the Gram matrix A A^T.
    Per hidden layer j below another hidden layer: W V and W^T (...) with W = W_{j+1}; per hidden layer: the
    inverse of its d_j x d_j system applied. The output layer's W V and W^T (...) are counted with their d_N.
    """
    count = 0
    for i in range(1, len(dims)):
        count += 2 * dims[i] * dims[i - 1]
        if i > 1:
            count += dims[i - 1] ** 2  # Gram matrix
            count += 2 * dims[i] * dims[i - 1]  # W V and W^T (...) for the layer below
            count += dims[i - 1] ** 2  # its inverse
    return count


def measure(dims: tuple[int, ...], n: int, rounds: int, seconds: float) -> Timing:
    """Time a network on random data, `seconds` per round for the iterations."""
    step = _prepare(dims, n)
    width = max(dims[1:-1])
    products = _product(width, width, n), _product(1024, 1024, 1024)
    flop = 2.0 * needed_products(dims) * n
    for warm_up in (step, *products):
        _time(warm_up, seconds / 4)
    lines = []
    for _ in range(rounds):
        shape, square = (
            2.0 * size / _time(f, seconds / 4) for f, size in zip(products, (width**2 * n, 1024**3), strict=True)
        )
        iteration = _time(step, seconds)
        lines.append((iteration, shape, square, flop / max(shape, square)))
    iteration, shape, square, floor = (median(column) for column in zip(*lines, strict=True))
    ratios = sorted(line[0] / line[3] for line in lines)
    return Timing(
        network="-".join(map(str, dims)),
        samples=n,
        iteration_ms=1e3 * iteration,
        shape_gflops=shape / 1e9,
        square_gflops=square / 1e9,
        needed_gflop=flop / 1e9,
        floor_ms=1e3 * floor,
        ratio=median(ratios),
        ratio_low=ratios[0],
        ratio_high=ratios[-1],
    )


def _prepare(dims: tuple[int, ...], n: int) -> Callable[[], object]:
    generator = np.random.default_rng(0)
    X, Y = generator.uniform(-1, 1, (n, dims[0])), generator.uniform(-1, 1, (n, dims[-1]))
    task = set_up(X, Y, Start(hidden=dims[1:-1], device="cpu"))
    method, state = new_method(task, "paper"), begin(task)
    with torch.no_grad():
        method.start(state)

    @torch.no_grad()
    def step() -> None:
        method.step(state, False)

    return step


def _product(rows: int, inner: int, columns: int) -> Callable[[], object]:
    A = torch.randn(rows, inner, dtype=torch.float64)
    B = torch.randn(inner, columns, dtype=torch.float64)
    out = torch.empty(rows, columns, dtype=torch.float64)
    return lambda: torch.mm(A, B, out=out)


def _time(function: Callable[[], object], seconds: float) -> float:
    """Median time of one call, over calls that fill `seconds`, five at least."""
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return median(times)


def _environment() -> dict[str, str | int]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _print_table(timings: list[Timing]) -> None:
    print(
        f"{'network':>24} {'n':>6} {'ms/iteration':>13} {'GFLOP/s d x n':>14} {'1024^3':>7} {'floor ms':>9} "
        f"{'ratio':>6}  (lowest, highest round)"
    )
    for t in timings:
        print(
            f"{t.network:>24} {t.samples:>6} {t.iteration_ms:>13.2f} {t.shape_gflops:>14.1f} {t.square_gflops:>7.1f} "
            f"{t.floor_ms:>9.2f} {t.ratio:>6.2f}  ({t.ratio_low:.2f}, {t.ratio_high:.2f})"
        )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="sigmadmm bench", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="threads for torch (default: its own)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds per network (default: 15)")
    parser.add_argument("--seconds", type=float, default=0.4, help="seconds of iterations per round (default: 0.4)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args(argv)
    for name in ("threads", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    torch.set_num_threads(options.threads)
    timings = [measure(dims, n, options.rounds, options.seconds) for dims, n in CASES]
    if options.json:
        print(json.dumps({"environment": _environment(), "timings": [asdict(t) for t in timings]}, indent=2))
        return
    print("float64, " + ", ".join(f"{name} {value}" for name, value in _environment().items()))
    _print_table(timings)
    print(
        "floor: the products of one iteration as the formulas read, at the higher of the two rates of the same round."
    )
