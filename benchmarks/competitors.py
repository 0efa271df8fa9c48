"""The methods that are compared. Each trains from given weights for some seconds and shows its weights as it goes.

A competitor is called as train(start, show) and calls show(read) now and then, where read() gives its weights as
[(W_1, b_1), ...] in NumPy arrays; the benchmark stops the clock meanwhile and computes every objective itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sigmadmm
from sigmadmm.admm import direct_solvers, joint_step

Weights = list[tuple[np.ndarray, np.ndarray]]
Show = Callable[[Callable[[], Weights]], bool]  # whether to go on


@dataclass(frozen=True)
class Start:
    X: np.ndarray
    Y: np.ndarray
    hidden: tuple[int, ...]
    regularization: float
    init: str
    init_scale: float
    seed: int

    def common(self) -> dict[str, Any]:
        names = ("hidden", "regularization", "init", "init_scale", "seed")
        return {name: getattr(self, name) for name in names} | {"device": "cpu"}

    def weights(self) -> Weights:
        dims = (self.X.shape[1], *self.hidden, self.Y.shape[1])
        matrices = sigmadmm.initializers.initial_weights(dims, self.init, self.init_scale, self.seed)
        return [(W.numpy(), np.zeros(len(W))) for W in matrices]


class _Watch(sigmadmm.Callback):
    def __init__(self, show: Show) -> None:
        self.show = show

    def on_check(self, run: Any) -> None:
        if not self.show(lambda: run.network.weights):
            run.stop("the time is up")


def by_train(**options: Any) -> Callable[[Start, Show], None]:
    def train(start: Start, show: Show) -> None:
        settings = {"max_iter": 10**9, "tol": 0.0} | start.common() | options
        sigmadmm.train(start.X, start.Y, **settings, callbacks=[_Watch(show)])

    return train


@contextmanager
def _plain_levenberg_marquardt() -> Iterator[None]:
    """Our own step without what makes it ours: no covariance in the damping, no bend."""
    ways = (direct_solvers.BySamples, direct_solvers.ByWeights)
    kappa, joint_step.KAPPA = joint_step.KAPPA, 0.0
    for way in ways:
        way.direct = False
    try:
        yield
    finally:
        joint_step.KAPPA = kappa
        for way in ways:
            way.direct = True


def levenberg_marquardt(start: Start, show: Show) -> None:
    with _plain_levenberg_marquardt():
        by_train()(start, show)


def _module(start: Start) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for W, b in start.weights():
        linear = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
        linear.load_state_dict({"weight": torch.tensor(W), "bias": torch.tensor(b)})
        layers += [linear, torch.nn.Sigmoid()]
    return torch.nn.Sequential(*layers[:-1])


def _weights_of(module: torch.nn.Sequential) -> Weights:
    return [
        (layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy())
        for layer in module
        if isinstance(layer, torch.nn.Linear)
    ]


def _objective(module: torch.nn.Sequential, X: Tensor, Y: Tensor, lam: float) -> Tensor:
    squares = sum(p.square().sum() for p in module.parameters())
    return (module(X) - Y).square().sum() / 2 + lam / 2 * squares


class _TimeIsUp(Exception):
    pass


def lbfgs(start: Start, show: Show) -> None:
    """torch, strong Wolfe line search, history 50."""
    module, X, Y = _module(start), torch.tensor(start.X), torch.tensor(start.Y)
    optimiser = torch.optim.LBFGS(
        module.parameters(),
        max_iter=10**9,
        max_eval=10**9,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=0,
        tolerance_change=0,
    )
    best = np.inf

    def closure() -> Tensor:
        nonlocal best
        optimiser.zero_grad()
        F = _objective(module, X, Y, start.regularization)
        F.backward()
        if F.item() < best:
            best = F.item()
            if not show(lambda: _weights_of(module)):
                raise _TimeIsUp
        return F

    with suppress(_TimeIsUp):
        optimiser.step(closure)


def adam(start: Start, show: Show, rate: float = 1e-3, batch: int = 100) -> None:
    module, X, Y = _module(start), torch.tensor(start.X), torch.tensor(start.Y)
    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(start.seed)
    n = len(X)
    while True:
        for rows in torch.randperm(n, generator=generator).split(batch):
            optimiser.zero_grad()
            F = _objective(module, X[rows], Y[rows], start.regularization * len(rows) / n)
            (F / len(rows)).backward()
            optimiser.step()
        if not show(lambda: _weights_of(module)):
            return


def mlp(solver: str) -> Callable[[Start, Show], None]:
    """scikit-learn's MLPRegressor from the same weights; its alpha is lambda (it divides both terms by n)."""

    def train(start: Start, show: Show) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        weights = start.weights()
        iterations = 200 if solver == "lbfgs" else 1  # L-BFGS forgets its history between two shows
        model = MLPRegressor(
            hidden_layer_sizes=start.hidden,
            activation="logistic",
            solver=solver,
            alpha=start.regularization,
            warm_start=True,
            max_iter=iterations,
            tol=0.0,
            max_fun=10**9,
            random_state=start.seed,
            n_iter_no_change=10**9,
        )
        y = start.Y if start.Y.shape[1] > 1 else start.Y[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(start.X[:2], y[:2])  # builds the arrays, which are then replaced
            model.coefs_ = [W.T.copy() for W, _ in weights]
            model.intercepts_ = [b.copy() for _, b in weights]
            model.best_loss_ = np.inf
            while True:
                model.fit(start.X, y)
                pairs = zip(model.coefs_, model.intercepts_, strict=True)
                if not show(lambda pairs=pairs: [(W.T.copy(), b.copy()) for W, b in pairs]):
                    return

    return train


def lm_package(start: Start, show: Show) -> None:
    """PyPI's torch-levenberg-marquardt, with its defaults but Cholesky. It cannot regularise: it minimises the loss."""
    from torch_levenberg_marquardt.training import LevenbergMarquardtModule

    module, X, Y = _module(start), torch.tensor(start.X), torch.tensor(start.Y)
    method = LevenbergMarquardtModule(module, attempts_per_step=10, solve_method="cholesky")
    while True:
        _, _, stop, _ = method.training_step(X, Y)
        if not show(lambda: _weights_of(module)) or stop:
            return


def ridge(start: Start, show: Show) -> None:
    baseline = sigmadmm.baselines.random_features_ridge(start.X, start.Y, **start.common())
    show(lambda: baseline.network.weights)


COMPETITORS: dict[str, Callable[[Start, Show], None]] = {
    "synced": by_train(),
    "paper": by_train(method="paper"),
    "L-BFGS": lbfgs,
    "LM (own)": levenberg_marquardt,
    "LM (package)": lm_package,
    "MLP lbfgs": mlp("lbfgs"),
    "MLP adam": mlp("adam"),
    "Adam": adam,
    "features + ridge": ridge,
}
