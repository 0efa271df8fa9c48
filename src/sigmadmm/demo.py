"""`sigmadmm demo`: the paper's two approximation tasks, by its Algorithm 1, two baselines and our default method.

Everything runs on one CPU thread: so the numbers do not depend on the machine's number of cores, and a busy
machine slows the demo by its share only (several spinning threads can be slower by a factor of ten).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import baselines, datasets
from .admm.status import Status
from .callbacks import Callback
from .result import Result
from .training import train

ALGORITHM, RIDGE, LBFGS, SYNCED = "Algorithm 1", "random features + ridge", "L-BFGS", "synced (our default)"
ITERATIONS, PAPER_EPOCHS, PAPER_TRIALS = 50, 2000, 20
SCALES = (8.0, 1.0)  # the authors' released demo; the paper's text
PENALTY = 1.0
SHARED: dict[str, Any] = {"regularization": 1e-6, "init": "msra", "device": "cpu"}


@dataclass(frozen=True)
class Task:
    """A function to approximate, the paper's best structure for it and its mean error over 20 trials.

    `lbfgs_rate`: so many iterations of L-BFGS take about as long as one of Algorithm 1.
    """

    name: str
    sample: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    hidden: tuple[int, ...]
    lbfgs_rate: int
    paper_mse: float
    n: int = 1000


TASKS = (
    Task("x^2", datasets.square, (100, 100), 2, 2.53e-9),
    Task("uv", datasets.product, (300, 300), 3, 2.62e-9),
)


@dataclass(frozen=True)
class Record:
    """One method on one task from one start. All errors are feed-forward, on the training points.

    best_mse        the lowest over the iterations; None for a method that returns one network only
    last_mse        of the last iterate, or of the one network
    objective       the lowest F over the iterations, or of the one network
    constant_mse    of always predicting the mean of y
    paper_mse       what the paper reports for the task
    """

    task: str
    scale: float
    method: str
    best_mse: float | None
    best_iteration: int | None
    last_mse: float
    objective: float
    n_iter: int
    status: str
    seconds: float
    constant_mse: float
    paper_mse: float

    @property
    def mse(self) -> float:
        return self.last_mse if self.best_mse is None else self.best_mse

    @property
    def start(self) -> str:
        return f"{self.task} at scale {self.scale:g}"


class Watch:
    """How a run shows that it is alive. This one stays silent."""

    def callbacks(self, title: str) -> list[Callback]:
        """For the runs of `train`."""
        return []

    def busy(self, title: str) -> AbstractContextManager[object]:
        """Around methods that have no callbacks."""
        return nullcontext()


def run(
    tasks: Iterable[Task] = TASKS,
    scales: Sequence[float] = SCALES,
    iterations: int = ITERATIONS,
    seed: int = 0,
    watch: Watch | None = None,
) -> list[Record]:
    """All methods on all tasks from all scales. Ctrl-C is a KeyboardInterrupt, also while `train` runs."""
    watch = watch or Watch()
    with _one_thread():
        return [
            record for task in tasks for scale in scales for record in _compare(task, scale, iterations, seed, watch)
        ]


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compare(task: Task, scale: float, iterations: int, seed: int, watch: Watch) -> Iterator[Record]:
    X, y = task.sample(task.n, seed)
    constant_mse = float(np.var(y))
    common = {**SHARED, "X": X, "Y": y, "hidden": task.hidden, "init_scale": scale, "seed": seed}
    for fields in _methods(common, iterations, task.lbfgs_rate * iterations, watch, f"{task.name} x{scale:g}"):
        yield Record(task.name, scale, constant_mse=constant_mse, paper_mse=task.paper_mse, **fields)


def _methods(
    common: dict[str, Any], iterations: int, lbfgs_iterations: int, watch: Watch, title: str
) -> Iterator[dict[str, Any]]:
    algorithm = {**common, "method": "paper", "penalty": PENALTY, "max_iter": iterations}
    yield _of_training(_trained(algorithm, watch.callbacks(title)))
    with watch.busy(f"{title}: {RIDGE}"):
        ridge = baselines.random_features_ridge(**common)
    yield _of_baseline(RIDGE, ridge)
    with watch.busy(f"{title}: {LBFGS}"):
        lbfgs = baselines.lbfgs(max_iter=lbfgs_iterations, **common)
    yield _of_baseline(LBFGS, lbfgs)
    synced = _trained({**common, "method": "synced", "max_iter": iterations}, watch.callbacks(f"{title}: {SYNCED}"))
    yield _of_training(synced) | {"method": SYNCED}


def _trained(arguments: dict[str, Any], callbacks: list[Callback]) -> Result:
    result = train(**arguments, callbacks=callbacks)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _of_training(result: Result) -> dict[str, Any]:
    """If not even the first iteration was finite, there is no number to tell."""
    fields: dict[str, Any] = {"method": ALGORITHM, "status": str(result.status)}
    history = result.history
    if not history.n_entries:
        nothing = dict.fromkeys(("last_mse", "objective"), math.nan)
        return fields | nothing | {"best_mse": None, "best_iteration": None, "n_iter": 0, "seconds": 0.0}
    errors = history["train_mse"]
    best = int(errors.argmin())
    return fields | {
        "best_mse": float(errors[best]),
        "best_iteration": int(history["iteration"][best]),
        "last_mse": float(errors[-1]),
        "objective": float(history["objective"].min()),
        "n_iter": int(history["iteration"][-1]),
        "seconds": float(history["seconds"][-1]),
    }


def _of_baseline(method: str, baseline: baselines.Baseline) -> dict[str, Any]:
    return {
        "method": method,
        "best_mse": None,
        "best_iteration": None,
        "last_mse": baseline.train_mse,
        "objective": baseline.objective,
        "n_iter": baseline.n_iter,
        "status": "done",
        "seconds": baseline.seconds,
    }
