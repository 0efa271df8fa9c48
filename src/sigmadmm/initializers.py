"""The paper's six initialisation schemes, with a scale that multiplies every weight.

Thresholds start at zero. Numbers are always drawn on the CPU in float64 from one generator per
seed, so a network gets the same start alone, in a batch and on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from .checks import choice

Scheme = Callable[[int, int, bool, Generator], Tensor]


def _normal(rows: int, columns: int, deviation: float, generator: Generator) -> Tensor:
    return deviation * torch.randn(rows, columns, dtype=torch.float64, generator=generator)


def _uniform(rows: int, columns: int, bound: float, generator: Generator) -> Tensor:
    return bound * (2 * torch.rand(rows, columns, dtype=torch.float64, generator=generator) - 1)


def _orthogonal(random: Tensor) -> Tensor:
    """W with W^T W = I or W W^T = I, from a random matrix of the same shape."""
    tall = random if random.shape[0] >= random.shape[1] else random.mT
    Q, R = torch.linalg.qr(tall)
    Q = Q * torch.where(R.diagonal() < 0, -1.0, 1.0)  # makes the factorisation unique
    return Q if tall is random else Q.mT


def _msra(rows: int, columns: int, last: bool, generator: Generator) -> Tensor:
    # The paper and its demo divide by the fan-out (He et al.'s backward variant), not the usual fan-in.
    return _normal(rows, columns, math.sqrt((1 if last else 2) / rows), generator)


SCHEMES: dict[str, Scheme] = {
    "lecun_uniform": lambda rows, columns, _, g: _uniform(rows, columns, math.sqrt(3 / columns), g),
    "lecun_normal": lambda rows, columns, _, g: _normal(rows, columns, math.sqrt(1 / columns), g),
    "orthogonal_uniform": lambda rows, columns, _, g: _orthogonal(_uniform(rows, columns, 1.0, g)),
    "orthogonal_normal": lambda rows, columns, _, g: _orthogonal(_normal(rows, columns, 1.0, g)),
    "xavier": lambda rows, columns, _, g: _uniform(rows, columns, math.sqrt(6 / (rows + columns)), g),
    "msra": _msra,
}


def initial_weights(
    dims: Sequence[int], scheme: str = "msra", scale: float = 1.0, seed: int | Sequence[int] = 0
) -> list[Tensor]:
    """W_1..W_N for layer sizes d_0..d_N; a sequence of seeds gives a batch, one network per seed."""
    draw = choice("init", scheme, SCHEMES)
    if isinstance(seed, Sequence):
        networks = [initial_weights(dims, scheme, scale, one) for one in seed]
        return [torch.stack(layer) for layer in zip(*networks, strict=True)]
    generator = Generator().manual_seed(seed)
    shapes = list(zip(dims[1:], dims[:-1], strict=True))
    return [scale * draw(rows, columns, i == len(shapes) - 1, generator) for i, (rows, columns) in enumerate(shapes)]
