"""From a user's arguments to what a method works on: the problem, the samples as columns, the first weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import arguments, arrays, checks
from .admm.state import Problem
from .network import Layers
from .settings import Start


@dataclass
class Setup:
    """X (d_0, n) and Y (d_N, n) as tensors, and the weights that a run starts from, in float64.

    flat  whether the user's targets were (samples,), which `predict` then returns too
    """

    problem: Problem
    X: Tensor
    Y: Tensor
    layers: Layers
    flat: bool

    @property
    def hidden(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return tuple(layer.W.shape[-2] for layer in self.layers[:-1])


def set_up(X: Any, Y: Any, start: Start) -> Setup:
    """Check every argument by name, then build. The first thing that is wrong is raised as `InvalidInput`."""
    activation = arguments.activation(start.activation)
    device = arguments.device(start.device)
    samples = arrays.to_matrix(X, "X", arguments.dtype(start.dtype), device)
    targets = arrays.to_matrix(Y, "Y", samples.dtype, device, column_for_flat=True)
    arguments.check_samples(samples, targets)
    loss = arguments.loss(start.loss)
    flat, targets = arrays.is_flat(Y), loss.targets(targets)
    dims = (samples.shape[1], *arguments.hidden(start.hidden), targets.shape[1])
    problem = Problem(
        activation=activation,
        loss=loss,
        regularization=scalar(checks.positive("regularization", start.regularization), device),
        regularize_bias=checks.flag("regularize_bias", start.regularize_bias),
    )
    layers = arguments.initial_layers(dims, start, device)
    X_columns, Y_columns = (rows.mT.clone(memory_format=torch.contiguous_format) for rows in (samples, targets))
    return Setup(problem, X_columns, Y_columns, layers, flat and targets.shape[1] == 1)


def scalar(value: float, device: torch.device) -> Tensor:
    """A number in the form in which the core broadcasts it over networks, features and samples."""
    return torch.full((1, 1), value, dtype=torch.float64, device=device)
