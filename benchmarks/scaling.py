"""How time and memory of the conjugate-gradient path grow with the number of samples (python -m benchmarks.scaling).

Every size runs in a process of its own, so that its peak memory is its own. Seconds are per iteration of the method,
the median of several, and per iteration of conjugate gradients in them; memory is what the run adds at its peak to
what is there with X and Y, in arrays of the widest layer (n x its width, float64).
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

import sigmadmm

SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
HIDDEN = (100, 100)


def resident_bytes(peak: bool) -> float:
    """Of this process, as Linux counts them: now, or at the peak since `forget_peak`."""
    name = "VmHWM:" if peak else "VmRSS:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * float(line.split()[1])
    raise RuntimeError("this system does not tell how much memory a process has; run the benchmark on Linux")


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(n: int, iterations: int, threads: int) -> tuple[float, float, float]:
    """Seconds per iteration and per iteration of conjugate gradients, and the arrays at the peak."""
    torch.set_num_threads(threads)
    X, y = sigmadmm.datasets.l2_radial(n)
    options = {"hidden": HIDDEN, "solver": "cg", "device": "cpu", "tol": 0.0}
    sigmadmm.train(X[:50], y[:50], max_iter=2, **options)
    before = resident_bytes(peak=False)
    forget_peak()
    ticks = [perf_counter()]
    result = sigmadmm.train(X, y, max_iter=iterations, callbacks=[lambda run: ticks.append(perf_counter())], **options)
    arrays = (resident_bytes(peak=True) - before) / (8 * n * max(HIDDEN))
    seconds = float(np.median(np.diff(ticks[1:])))
    return seconds, seconds * iterations / float(result.counters["cg iterations"]), arrays


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of samples, at least two")
    parser.add_argument("--iterations", type=int, default=8, help="of the method, at least 3 (default: 8)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for torch (default: its own)")
    options = parser.parse_args(argv)
    if len(options.sizes) < 2 or options.iterations < 3:
        parser.error("needs at least two sizes and three iterations")
    print(f'L2 radial, 2-{"-".join(map(str, HIDDEN))}-1, solver="cg", {options.threads} threads')
    seconds = []
    for n in options.sizes:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            each, inner, arrays = process.apply(measure, (n, options.iterations, options.threads))
        seconds.append(each)
        print(
            f"n = {n:>7}: {each:.3g} s per iteration, {inner:.2g} s per cg iteration, {arrays:.1f} arrays", flush=True
        )
    print(f"time per iteration grows like n^{exponent(options.sizes, seconds):.2f}")


if __name__ == "__main__":
    main()
