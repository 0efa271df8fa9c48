"""The paper's test functions, sampled uniformly on [-1, 1]^d."""

from __future__ import annotations

import numpy as np


def square(n: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """x^2: X is (n, 1), y is (n,)."""
    X = _points(n, 1, seed)
    return X, X[:, 0] ** 2


def product(n: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """u v: X is (n, 2), y is (n,)."""
    X = _points(n, 2, seed)
    return X, X[:, 0] * X[:, 1]


def _points(n: int, dimension: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, dimension))
