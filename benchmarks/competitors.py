"""The methods that are compared. Each trains from given weights for some seconds and shows its weights as it goes.

A competitor is called as train(start, show) and calls show(read) now and then, where read() gives its weights as
[(W_1, b_1), ...] in NumPy arrays; the benchmark stops the clock meanwhile and computes every measure itself. It calls
show(None) where it has nothing new, only to hear whether to go on. It may return a sentence on how it ended.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sigmadmm
from benchmarks.changes import changed
from sigmadmm.admm import direct_solvers, joint_step, synced, trials

Weights = list[tuple[np.ndarray, np.ndarray]]
Read = Callable[[], Weights]
Show = Callable[[Read | None], bool]  # whether to go on

ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU}


@dataclass(frozen=True)
class Start:
    """What is minimised and from where; tol is for the methods that judge themselves whether they have converged."""

    X: np.ndarray
    Y: np.ndarray
    hidden: tuple[int, ...]
    regularization: float
    init: str
    init_scale: float
    seed: int
    loss: str = "squared_error"
    activation: str = "sigmoid"
    device: str = "cpu"
    tol: float = 0.0

    def common(self) -> dict[str, Any]:
        """The arguments that `train` and the library's baselines share."""
        names = ("hidden", "regularization", "init", "init_scale", "seed", "loss", "activation", "device")
        return {name: getattr(self, name) for name in names}

    def weights(self) -> Weights:
        dims = (self.X.shape[1], *self.hidden, self.Y.shape[1])
        matrices = sigmadmm.initializers.initial_weights(dims, self.init, self.init_scale, self.seed)
        return [(W.numpy(), np.zeros(len(W))) for W in matrices]

    def tensors(self) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.X, device=self.device), torch.tensor(self.Y, device=self.device)


Competitor = Callable[[Start, Show], str | None]


def train_for(
    seconds: float, method: str, start: Start, look: Callable[[float, Read], None]
) -> tuple[bool, str | None]:
    """Train so long, with look(elapsed, read) at every show, where the clock stands still.

    Returns whether the time was up, and what the method says on how it ended.
    """
    paused, elapsed = 0.0, 0.0
    began = perf_counter()

    def show(read: Read | None) -> bool:
        nonlocal paused, elapsed
        if start.device != "cpu":
            torch.cuda.synchronize(start.device)
        now = perf_counter()
        elapsed = now - began - paused
        if read is not None:
            look(elapsed, read)
        paused += perf_counter() - now
        return elapsed < seconds

    ending = COMPETITORS[method](start, show)
    return elapsed >= seconds, ending


def forward(weights: Weights, X: Tensor, activation: str = "sigmoid") -> Tensor:
    """The outputs for X (samples, features), on X's device."""
    A = X
    for i, (W, b) in enumerate(weights):
        Z = A @ torch.tensor(W, device=X.device).mT + torch.tensor(b, device=X.device)
        A = Z if i == len(weights) - 1 else ACTIVATIONS[activation]()(Z)
    return A


class _Watch(sigmadmm.Callback):
    def __init__(self, show: Show) -> None:
        self.show = show

    def on_check(self, run: Any) -> None:
        if not self.show(lambda: run.network.weights):
            run.stop("the time is up")


def by_train(**options: Any) -> Competitor:
    def train(start: Start, show: Show) -> str:
        settings = {"max_iter": 10**9, "tol": start.tol} | start.common() | options
        result = sigmadmm.train(start.X, start.Y, **settings, callbacks=[_Watch(show)])
        return f"{result.status}: {result.message}"

    return train


PLAIN = {
    (joint_step, "KAPPA"): 0.0,
    (direct_solvers.BySamples, "direct"): False,
    (direct_solvers.ByWeights, "direct"): False,
    (trials, "SHARES"): (),
    (synced, "SLOW"): 0.0,
    (synced, "VISIBLE"): 0.0,
}


def levenberg_marquardt(start: Start, show: Show) -> str | None:
    """Our own step without what makes it ours: no covariance in the damping, no bend, no short or Newton steps."""
    with changed(PLAIN):
        return by_train()(start, show)


def _module(start: Start) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for W, b in start.weights():
        linear = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
        linear.load_state_dict({"weight": torch.tensor(W), "bias": torch.tensor(b)})
        layers += [linear, ACTIVATIONS[start.activation]()]
    return torch.nn.Sequential(*layers[:-1]).to(start.device)


def _weights_of(module: torch.nn.Sequential) -> Weights:
    return [
        (layer.weight.detach().cpu().numpy().copy(), layer.bias.detach().cpu().numpy().copy())
        for layer in module
        if isinstance(layer, torch.nn.Linear)
    ]


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squared_error": lambda Z, Y: (Z - Y).square().sum() / 2,
    "cross_entropy": lambda Z, Y: torch.nn.functional.cross_entropy(Z, Y, reduction="sum"),
}


class _TimeIsUp(Exception):
    pass


class _Falling:
    """For methods whose trials may be worse than what they have: shows the weights whenever F has fallen."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.best = np.inf

    def __call__(self, F: float, read: Read) -> None:
        fell = self.best > F
        self.best = F if fell else self.best
        if not self.show(read if fell else None):
            raise _TimeIsUp


def lbfgs(start: Start, show: Show) -> None:
    """torch, strong Wolfe line search, history 50."""
    module, (X, Y) = _module(start), start.tensors()
    optimiser = torch.optim.LBFGS(
        module.parameters(),
        max_iter=10**9,
        max_eval=10**9,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=0,
        tolerance_change=0,
    )
    watch = _Falling(show)

    def closure() -> Tensor:
        optimiser.zero_grad()
        squares = sum(p.square().sum() for p in module.parameters())
        F = LOSSES[start.loss](module(X), Y) + start.regularization / 2 * squares
        F.backward()
        watch(F.item(), lambda: _weights_of(module))
        return F

    with suppress(_TimeIsUp):
        optimiser.step(closure)


def adam(start: Start, show: Show, rate: float = 1e-3, batch: int = 100) -> None:
    """torch; a batch's loss per sample + lambda/n |W|^2/2, so that F is what an epoch adds up to."""
    module, (X, Y) = _module(start), start.tensors()
    n = len(X)
    optimiser = torch.optim.Adam(module.parameters(), lr=rate, weight_decay=start.regularization / n, fused=True)
    generator = torch.Generator().manual_seed(start.seed)
    while True:
        for rows in torch.randperm(n, generator=generator).to(start.device).split(batch):
            optimiser.zero_grad()
            (LOSSES[start.loss](module(X[rows]), Y[rows]) / len(rows)).backward()
            optimiser.step()
        if not show(lambda: _weights_of(module)):
            return


def mlp(solver: str) -> Competitor:
    """scikit-learn's MLP from the same weights, on the same F but for the thresholds, which it does not regularise."""

    def train(start: Start, show: Show) -> None:
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model, y = _mlp(start, solver)
            if solver == "adam":
                while model.partial_fit(start.X, y) and show(lambda: _mlp_weights(model)):
                    pass
            else:
                with suppress(_TimeIsUp):
                    _mlp_lbfgs(model, start.X, y, _Falling(show))

    return train


def _mlp(start: Start, solver: str) -> tuple[Any, np.ndarray]:
    """The model before its first iteration, and its targets; two classes have one output there, their difference."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    n, weights = len(start.X), start.weights()
    is_classifier = start.loss == "cross_entropy"
    model = (MLPClassifier if is_classifier else MLPRegressor)(
        hidden_layer_sizes=start.hidden,
        activation="logistic",
        solver=solver,
        # It divides both terms by the number of samples that it looks at, a batch or all.
        alpha=start.regularization * (min(200, n) / n if solver == "adam" else 1),
        warm_start=True,
        max_iter=1,
        tol=0.0,
        max_fun=10**9,
        random_state=np.random.RandomState(start.seed),  # unlike a number, it goes on from epoch to epoch
        n_iter_no_change=10**9,
    )
    if is_classifier:
        y = start.Y.argmax(1)
        some = np.unique(y, return_index=True)[1]
        if start.Y.shape[1] == 2:
            W, b = weights[-1]
            weights[-1] = W[1:] - W[:1], b[1:] - b[:1]
    else:
        y, some = start.Y if start.Y.shape[1] > 1 else start.Y[:, 0], np.arange(2)
    model.fit(start.X[some], y[some])  # builds the arrays, which are then replaced
    model.coefs_ = [W.T.copy() for W, _ in weights]
    model.intercepts_ = [b.copy() for _, b in weights]
    model.best_loss_, model.max_iter = np.inf, 10**9
    vars(model).pop("_optimizer", None)
    return model, y


def _mlp_weights(model: Any) -> Weights:
    weights = [(W.T.copy(), b.copy()) for W, b in zip(model.coefs_, model.intercepts_, strict=True)]
    if model.out_activation_ == "logistic":
        W, b = weights[-1]
        weights[-1] = np.concatenate([0 * W, W]), np.concatenate([0 * b, b])
    return weights


def _mlp_lbfgs(model: Any, X: np.ndarray, y: np.ndarray, watch: _Falling) -> None:
    """It has no callback, so its function is watched; and it stops early, so it starts again as long as F falls."""
    evaluate = model._loss_grad_lbfgs

    def watched(*arguments: Any) -> Any:
        F, slope = evaluate(*arguments)
        watch(F, lambda: _mlp_weights(model))
        return F, slope

    model._loss_grad_lbfgs = watched
    before = np.inf
    while model.fit(X, y) and watch.best < before:
        before = watch.best


def lm_package(start: Start, show: Show) -> None:
    """PyPI's torch-levenberg-marquardt, with its defaults but Cholesky. It cannot regularise: it minimises the loss."""
    from torch_levenberg_marquardt.training import LevenbergMarquardtModule

    module, (X, Y) = _module(start), start.tensors()
    method = LevenbergMarquardtModule(module, attempts_per_step=10, solve_method="cholesky")
    while True:
        _, _, stop, _ = method.training_step(X, Y)
        if not show(lambda: _weights_of(module)) or stop:
            return


def ridge(start: Start, show: Show) -> None:
    baseline = sigmadmm.baselines.random_features_ridge(start.X, start.Y, **start.common())
    show(lambda: baseline.network.weights)


COMPETITORS: dict[str, Competitor] = {
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
