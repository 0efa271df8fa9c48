"""The quadratic model of F that the joint step minimises: its gradient, and how far it falls along a step."""

from __future__ import annotations

from torch import Tensor

from ..network import Layers
from .data import Shard
from .joint_step import Matrices, inner
from .linearisation import as_layers, loss_gradient, pull_back, tangent, whitened
from .objective import weight_penalty
from .state import Problem, State


def gradient(problem: Problem, state: State, layers: Layers | None = None) -> Matrices:
    """Of F in [W_i b_i], per layer, at the state's layers or at others."""
    place = state.layers if layers is None else layers

    def of(shard: Shard) -> Matrices:
        here = shard if layers is None else shard.at(layers, problem.activation)
        return pull_back(problem, place, here, loss_gradient(problem, here))

    parts = state.data.total(of)
    return [part + problem.decay(layer) * layer.matrix for part, layer in zip(parts, place, strict=True)]


def predicted_decrease(problem: Problem, state: State, gradient: Matrices, step: Matrices) -> Tensor:
    """By how much the quadratic model of F falls."""
    layers = state.layers
    change = as_layers(step, layers[0].b is not None)
    squares = state.data.total(
        lambda shard: whitened(problem, shard, tangent(problem, layers, change, shard)).square().sum((-2, -1))
    )
    return -inner(gradient, step) - squares / 2 - weight_penalty(problem, change)
