"""What every claim is compared with: an untrained network with an exact output layer, and L-BFGS.

They minimise the same F, from the same initial weights as `train` with the same arguments, and report
F and the error of the network they return, evaluated in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from . import checks
from .admm.objective import objective
from .errors import InvalidInput
from .losses import squared_error
from .network import Layer, Layers, Network, forward, hidden_features
from .settings import Start
from .setup import Setup, set_up


@dataclass
class Baseline:
    """What a baseline leaves: the network, its F and mean squared training error, and the seconds it took."""

    network: Network
    objective: float
    train_mse: float
    seconds: float
    n_iter: int


def random_features_ridge(X: Any, Y: Any, **start: Any) -> Baseline:
    """The untrained network with its output layer solved exactly: no training of the hidden layers at all.

    A "trained" network that is not clearly better has learned nothing.

    start  those arguments of `train` that say what is minimised and from where: hidden, activation, regularization,
           regularize_bias, init, init_scale, initial, seed, dtype, device, bias
    """
    task = set_up(X, Y, Start.of(start))
    if task.problem.loss is not squared_error:
        raise InvalidInput(f'loss="{task.problem.loss.name}" has no exact output layer; only "squared_error" has one')
    started = perf_counter()
    features = hidden_features(_working(task), task.problem.activation, task.X).to(torch.float64)
    output = _ridge(features, task)
    return _evaluate([*task.layers[:-1], output], task, started, 1)


def lbfgs(X: Any, Y: Any, max_iter: int = 1000, **start: Any) -> Baseline:
    """torch's L-BFGS (strong Wolfe line search, history 50) on F.

    start  as for `random_features_ridge`
    """
    max_iter = checks.whole("max_iter", max_iter, least=1)
    with torch.inference_mode(False):
        return _lbfgs(set_up(X, Y, Start.of(start)), max_iter)


def _lbfgs(task: Setup, max_iter: int) -> Baseline:
    layers = _working(task)
    parameters = [tensor.requires_grad_() for layer in layers for tensor in layer if tensor is not None]
    optimiser = torch.optim.LBFGS(
        parameters,
        max_iter=max_iter,
        max_eval=10 * max_iter,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=0,
        tolerance_change=0,
    )
    started = perf_counter()  # not earlier: the first optimiser of a process imports half of torch

    def closure() -> Tensor:
        optimiser.zero_grad()
        F = objective(task.problem, layers, task.X, task.Y)
        F.backward()
        return F

    with torch.enable_grad():
        optimiser.step(closure)
    n_iter = optimiser.state[parameters[0]]["n_iter"]
    return _evaluate([Layer(W.detach(), None if b is None else b.detach()) for W, b in layers], task, started, n_iter)


def _working(task: Setup) -> Layers:
    """A copy of the initial layers in the samples' type."""
    return [
        Layer(W.to(task.X.dtype, copy=True), None if b is None else b.to(task.X.dtype, copy=True))
        for W, b in task.layers
    ]


def _ridge(features: Tensor, task: Setup) -> Layer:
    """argmin over [W b] of 1/2 |[W b] A - Y|^2 + lambda/2 |[W b]|^2.

    By least squares on the stacked system [A^T; sqrt(lambda) I], not by the normal equations, whose
    condition number is the square of this one's.
    """
    bias = task.layers[-1].b is not None
    A = torch.cat([features, torch.ones_like(features[:1])]) if bias else features
    root = task.problem.regularization.sqrt().expand(A.shape[0], 1).clone()
    if bias and not task.problem.regularize_bias:
        root[-1] = 0
    driver = "gelsy" if A.device.type == "cpu" else "gels"  # the first also copes with numerically deficient rank
    targets = torch.cat([task.Y.mT.to(torch.float64), A.new_zeros(A.shape[0], task.Y.shape[0])])
    solution = torch.linalg.lstsq(torch.cat([A.mT, torch.diag(root.squeeze(1))]), targets, driver=driver).solution
    return Layer.from_matrix(solution.mT, bias)


def _evaluate(layers: Layers, task: Setup, started: float, n_iter: int) -> Baseline:
    seconds = perf_counter() - started
    layers = [layer.to(torch.float64) for layer in layers]
    X, Y = task.X.to(torch.float64), task.Y.to(torch.float64)
    F = objective(task.problem, layers, X, Y)
    if not torch.isfinite(F):
        raise InvalidInput("the objective overflows; scale X and Y, or use a smaller init_scale")
    mse = (task.problem.loss.mean(forward(layers, task.problem.activation, X)) - Y).square().mean()
    return Baseline(Network(layers, task.problem.activation, task.flat), F.item(), mse.item(), seconds, n_iter)
