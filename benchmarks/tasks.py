"""What the methods are compared on: a task is data and the structure of a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sigmadmm import datasets


@dataclass(frozen=True)
class Task:
    """sample(seed) gives X (samples, features) and Y (samples, outputs); all columns are about unit size."""

    name: str
    hidden: tuple[int, ...]
    sample: Callable[[int], tuple[np.ndarray, np.ndarray]]
    is_function: bool


def _column(sample: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    def as_column(seed: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = sample(seed=seed)
        return X, y[:, None]

    return as_column


def _friedman(seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(1000, random_state=seed)
    return 2 * X - 1, ((y - y.mean()) / y.std())[:, None]


def _diabetes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    return _standard(*load_diabetes(return_X_y=True))


def _standard(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (X - X.mean(0)) / X.std(0), ((y - y.mean()) / y.std())[:, None]


def _one_hot(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return X, np.eye(int(y.max()) + 1)[y]


def _digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _one_hot(X / 16, y)


def _breast_cancer(seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _one_hot((X - X.mean(0)) / X.std(0), y)


TASKS = {
    task.name: task
    for task in (
        Task("x^2", (100, 100), _column(datasets.square), True),
        Task("uv", (100, 100), _column(datasets.product), True),
        Task("L1 radial", (60, 60), _column(datasets.l1_radial), True),
        Task("L2 radial", (60, 60, 60), _column(datasets.l2_radial), True),
        Task("Friedman 1", (50, 50), _friedman, True),
        Task("diabetes", (20, 20), _diabetes, False),
        Task("digits", (60,), _digits, False),
        Task("breast cancer", (20, 20), _breast_cancer, False),
    )
}
