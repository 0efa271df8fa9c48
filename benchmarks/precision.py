"""How precise the default method gets on x^2, and how fast (python -m benchmarks.precision)."""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import torch

import sigmadmm


def within(seconds: float) -> Any:
    """A callback that ends a run when the time is up."""
    began = perf_counter()
    return lambda run: run.stop("the time is up") if perf_counter() - began > seconds else None


def certificate(lam: float, init: str, seconds: float) -> str:
    """Seconds until |grad F| and every relative KKT group are below 1e-8, on 500 samples."""
    X, y = sigmadmm.datasets.square(500)
    result = sigmadmm.train(
        X, y, init=init, regularization=lam, max_iter=10**6, tol=5e-9, callbacks=[within(seconds)], device="cpu"
    )
    history = result.history
    return (
        f"lambda {lam:<6g} {init:13} {result.status}: |grad F| {history['dual_residual'][-1]:.1e}, largest "
        f"relative KKT group {history['kkt_relative'][-1].max():.1e} after {history['seconds'][-1]:.1f} s, "
        f"{result.n_iter} iterations"
    )


def interpolation(init: str, seconds: float) -> str:
    """The training error with next to no regularization, on 1000 samples."""
    X, y = sigmadmm.datasets.square(1000)
    result = sigmadmm.train(
        X, y, init=init, regularization=1e-12, max_iter=10**6, tol=0.0, callbacks=[within(seconds)], device="cpu"
    )
    return (
        f"lambda 1e-12  {init:13} mse {result.history['train_mse'][-1]:.1e} after {result.history['seconds'][-1]:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.precision", description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="for torch (default: its own)")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per run (default: 20)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"x^2, 1-100-100-1, {options.threads} threads, at most {options.seconds:g} s per run")
    for init in ("msra", "lecun_uniform"):
        for lam in (1e-4, 1e-6):
            print(certificate(lam, init, options.seconds), flush=True)
        print(interpolation(init, options.seconds), flush=True)


if __name__ == "__main__":
    main()
