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


def l1_radial(n: int = 1000, seed: int = 0, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(|x|_1 - 1)_+ on [-1, 1]^2, with a kink; `noise` is a standard deviation."""
    X = _points(n, 2, seed)
    return X, np.maximum(np.abs(X).sum(1) - 1, 0) + _noise(n, seed, noise)


def l2_radial(n: int = 1000, seed: int = 0, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Wendland's g(|x|^2) with g(t) = (1-t)_+^5 (8t^2 + 5t + 1) on [-1, 1]^2; `noise` is a standard deviation."""
    X = _points(n, 2, seed)
    t = (X**2).sum(1)
    return X, np.maximum(1 - t, 0) ** 5 * (8 * t**2 + 5 * t + 1) + _noise(n, seed, noise)


def _noise(n: int, seed: int, deviation: float) -> np.ndarray:
    return deviation * np.random.default_rng([seed, 1]).standard_normal(n)
