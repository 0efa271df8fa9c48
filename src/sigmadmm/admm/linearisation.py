"""How a network's output moves with its weights, to first order, at V of a forward pass.

Shapes: P_i is (..., d_i, outputs, samples), the derivative of the whitened output C^T V_N in Z_i, where C is
the root of the loss's Hessian (see `losses`); for squared error C = I and P_i is dV_N / dZ_i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..losses import Root
from ..network import Layer, Layers
from .data import Shard
from .state import Problem
from .sums import Columns


@dataclass
class Linearisation:
    """Of the whitened output of all samples: the layers' inputs A_i and the derivatives P_i."""

    inputs: list[Columns]
    derivatives: list[Columns]


def linearise(problem: Problem, layers: Layers, shard: Shard) -> Linearisation:
    """A contribution; those of several shards are joined side by side."""
    bias = layers[0].b is not None
    inputs = [Columns(augmented(shard.inputs(i), bias)) for i in range(1, len(layers) + 1)]
    derivatives = [Columns(P) for P in output_derivatives(problem, layers, shard)]
    return Linearisation(inputs, derivatives[::-1])


def augmented(A: Tensor, bias: bool) -> Tensor:
    """[A; 1] with thresholds, A without."""
    A = A.to(torch.float64)
    return torch.cat([A, torch.ones_like(A[..., :1, :])], -2) if bias else A


def slope(problem: Problem, layers: Layers, shard: Shard, i: int) -> Tensor:
    """s'(Z_i) of hidden layer i, where V_i = s(Z_i)."""
    V, s = shard.V[i - 1].to(torch.float64), problem.activation
    if s.derivative_from_value is not None:
        return s.derivative_from_value(V)
    return s.derivative(layers[i - 1](shard.inputs(i).to(torch.float64)))


def root_of_hessian(problem: Problem, shard: Shard) -> Root | None:
    if problem.loss.root is None:
        return None
    return problem.loss.root(shard.V[-1].to(torch.float64), shard.Y.to(torch.float64))


def whitened(problem: Problem, shard: Shard, D: Tensor) -> Tensor:
    """C^T D."""
    root = root_of_hessian(problem, shard)
    return D if root is None else root.transposed_times(D)


def coloured(problem: Problem, shard: Shard, D: Tensor) -> Tensor:
    """C D."""
    root = root_of_hessian(problem, shard)
    return D if root is None else root.times(D)


def curved(problem: Problem, shard: Shard, D: Tensor) -> Tensor:
    """C C^T D: the loss's second derivative, or its bound, times D."""
    root = root_of_hessian(problem, shard)
    return D if root is None else root.times(root.transposed_times(D))


def loss_residual(problem: Problem, shard: Shard) -> Tensor:
    """R, so that C R is the gradient of the loss."""
    return problem.loss.residual(shard.V[-1].to(torch.float64), shard.Y.to(torch.float64))


def loss_gradient(problem: Problem, shard: Shard) -> Tensor:
    return problem.loss.gradient(shard.V[-1].to(torch.float64), shard.Y.to(torch.float64))


def output_derivatives(problem: Problem, layers: Layers, shard: Shard) -> Iterator[Tensor]:
    """P_N, ..., P_1."""
    V, root = shard.V[-1], root_of_hessian(problem, shard)
    P = (Root(torch.ones_like(V, dtype=torch.float64)) if root is None else root).dense()
    for i in range(len(layers), 1, -1):
        yield P
        J = layers[i - 1].W.mT @ P.flatten(-2)
        P = J.unflatten(-1, P.shape[-2:]).mul_(slope(problem, layers, shard, i - 1).unsqueeze(-2))
    yield P


def tangent(problem: Problem, layers: Layers, step: Layers, shard: Shard) -> Tensor:
    """dV_N when every W_i moves by step i, to first order."""
    moved: Tensor | None = None
    for i, (layer, change) in enumerate(zip(layers, step, strict=True), start=1):
        direct = change(shard.inputs(i).to(torch.float64))
        moved = direct if moved is None else direct.add_(layer.W @ moved)
        if i < len(layers):
            moved = moved.mul_(slope(problem, layers, shard, i))
    assert moved is not None
    return moved


def pull_back(problem: Problem, layers: Layers, shard: Shard, D: Tensor) -> list[Tensor]:
    """The gradient of <D, V_N> in [W_i b_i], i = 1..N, for a D that does not depend on W."""
    gradients, bias = [], layers[0].b is not None
    for i in range(len(layers), 0, -1):
        gradients.append(D @ augmented(shard.inputs(i), bias).mT)
        if i > 1:
            D = (layers[i - 1].W.mT @ D).mul_(slope(problem, layers, shard, i - 1))
    return gradients[::-1]


def hessian_times(problem: Problem, layers: Layers, step: Layers, shard: Shard) -> list[Tensor]:
    """The loss's second derivative in all [W_i b_i], times a step, for an activation whose s'' is known.

    The derivative of `pull_back` along the step: D is what it pulls back, dA, dZ, dD how A, Z and D move.
    """
    s, bias = problem.activation, layers[0].b is not None
    assert s.second is not None
    A = [augmented(shard.inputs(i), bias) for i in range(1, len(layers) + 1)]
    slopes = [slope(problem, layers, shard, i) for i in range(1, len(layers))]
    dZ, dA = [step[0].matrix @ A[0]], []
    for layer, change, values, inputs in zip(layers[1:], step[1:], slopes, A[1:], strict=True):
        dA.append(dZ[-1] * values)
        dZ.append(change.matrix @ inputs + layer.W @ dA[-1])
    D, dD = loss_gradient(problem, shard), curved(problem, shard, dZ[-1])
    products = []
    for i in range(len(layers), 1, -1):
        product = dD @ A[i - 1].mT
        product[..., : layers[i - 1].W.shape[-1]] += D @ dA[i - 2].mT
        products.append(product)
        back = layers[i - 1].W.mT @ D
        moved_back = step[i - 1].W.mT @ D + layers[i - 1].W.mT @ dD
        bend = s.second(layers[i - 2](shard.inputs(i - 1).to(torch.float64)))
        dD = moved_back.mul_(slopes[i - 2]).add_(dZ[i - 2].mul_(bend).mul_(back))
        D = back.mul_(slopes[i - 2])
    products.append(dD @ A[0].mT)
    return products[::-1]


def multipliers(problem: Problem, layers: Layers, shard: Shard) -> list[Tensor]:
    """Lambda_1..Lambda_N that satisfy every optimality condition but those of W."""
    D = loss_gradient(problem, shard)
    found = [D]
    for i in range(len(layers), 1, -1):
        found.append(layers[i - 1].W.mT @ D)
        D = found[-1] * slope(problem, layers, shard, i - 1)
    return found[::-1]


def as_layers(matrices: Sequence[Tensor], bias: bool) -> Layers:
    return [Layer.from_matrix(matrix, bias) for matrix in matrices]
