"""F, the function that every method and baseline here minimises."""

from __future__ import annotations

import torch
from torch import Tensor

from ..network import Layers, forward
from .data import Data, Shard
from .state import Problem


def objective(problem: Problem, layers: Layers, X: Tensor, Y: Tensor) -> Tensor:
    """F = loss(Phi(X), Y) + lambda/2 sum |W|^2 for samples that are columns."""
    return problem.loss.value(forward(layers, problem.activation, X), Y) + weight_penalty(problem, layers)


def total_objective(problem: Problem, layers: Layers, data: Data) -> Tensor:
    """F over all shards, in float64 whatever the samples' type."""

    def loss(shard: Shard) -> Tensor:
        output = forward(layers, problem.activation, shard.X.to(torch.float64))
        return problem.loss.value(output, shard.Y.to(torch.float64))

    return data.total(loss) + weight_penalty(problem, layers)


def weight_penalty(problem: Problem, layers: Layers) -> Tensor:
    """lambda/2 sum |W|^2, with the thresholds if they are regularised."""
    blocks = [layer.matrix if problem.regularize_bias else layer.W for layer in layers]
    total: Tensor = sum(block.square().sum((-2, -1)) for block in blocks)  # type: ignore[assignment]
    return problem.regularization.squeeze((-2, -1)) / 2 * total
