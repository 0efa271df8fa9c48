"""The network Phi(X) = W_N s(... s(W_1 X + b_1) ...) + b_N: layers, forward pass, prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import arrays
from .activations import Activation
from .errors import InvalidInput


class Layer(NamedTuple):
    """One affine map: W is (..., d_i, d_{i-1}), b is (..., d_i, 1) or None for a network without thresholds."""

    W: Tensor
    b: Tensor | None

    def __call__(self, A: Tensor) -> Tensor:
        Z = self.W @ A
        return Z if self.b is None else Z.add_(self.b)

    @property
    def matrix(self) -> Tensor:
        """[W b], the block that a W-update solves for."""
        return self.W if self.b is None else torch.cat([self.W, self.b], -1)

    @staticmethod
    def from_matrix(matrix: Tensor, bias: bool) -> Layer:
        if not bias:
            return Layer(matrix, None)
        return Layer(matrix[..., :-1].contiguous(), matrix[..., -1:].contiguous())

    def to(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Layer:
        return Layer(self.W.to(device, dtype), None if self.b is None else self.b.to(device, dtype))


Layers = list[Layer]


def new_layers(weights: Sequence[Tensor], bias: bool) -> Layers:
    """Layers with the given weights and, if wanted, thresholds at zero."""
    return [Layer(W, W.new_zeros(*W.shape[:-1], 1) if bias else None) for W in weights]


def where(condition: Tensor, these: Layers, those: Layers) -> Layers:
    """Network by network: these layers where the condition holds, those elsewhere."""
    pick = condition[..., None, None]
    return [
        Layer(torch.where(pick, a.W, c.W), None if a.b is None or c.b is None else torch.where(pick, a.b, c.b))
        for a, c in zip(these, those, strict=True)
    ]


def hidden_features(layers: Layers, activation: Activation, X: Tensor) -> Tensor:
    """V_{N-1}: what the output layer sees. X is (..., d_0, samples)."""
    V = X
    for layer in layers[:-1]:
        V = activation.value(layer(V))
    return V


def forward(layers: Layers, activation: Activation, X: Tensor) -> Tensor:
    """Phi(X), shape (..., d_N, samples)."""
    return layers[-1](hidden_features(layers, activation, X))


@dataclass(frozen=True, eq=False)
class Network:
    """A fitted network, on the arrays its user thinks in: samples are rows.

    layers       W_1..W_N with their thresholds
    activation   of the hidden layers; the output is linear
    flat_output  whether `predict` returns (samples,) because the targets came so
    """

    layers: Layers
    activation: Activation
    flat_output: bool = False

    @property
    def dims(self) -> tuple[int, ...]:
        """d_0, ..., d_N: inputs, hidden widths, outputs."""
        return (self.layers[0].W.shape[-1], *(layer.W.shape[-2] for layer in self.layers))

    @property
    def weights(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """[(W_1, b_1), ..., (W_N, b_N)] as NumPy arrays; `initial=` of `train` takes the same list."""
        pairs = []
        for W, b in self.layers:
            threshold = W.new_zeros(W.shape[-2]) if b is None else b.squeeze(-1)
            pairs.append((W.cpu().numpy().copy(), threshold.cpu().numpy().copy()))
        return pairs

    @property
    def n_parameters(self) -> int:
        return sum(W.numel() + (0 if b is None else b.numel()) for W, b in self.layers)

    def predict(self, X: Any) -> Any:
        """The network's output for X (samples, features): a tensor for a tensor, else a NumPy array.

        A tensor comes back on X's device, and without a gradient.
        """
        W = self.layers[0].W
        rows = arrays.to_matrix(X, "X", W.dtype, W.device)
        if rows.shape[1] != self.dims[0]:
            raise InvalidInput(
                f"X has {rows.shape[1]} features, but the network was trained on {self.dims[0]}; "
                "pass the same columns in the same order"
            )
        output = forward(self.layers, self.activation, rows.mT).mT
        output = output.squeeze(1) if self.flat_output else output
        return output.to(X.device) if isinstance(X, Tensor) else output.cpu().numpy()

    def __repr__(self) -> str:
        sizes = "-".join(map(str, self.dims))
        return f"Network({sizes}, {self.activation.name}, {self.n_parameters} parameters)"
