"""Checks of `train`'s arguments. Each returns the usable value or names argument, problem and cure."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .activations import ACTIVATIONS, Activation, verify
from .errors import InvalidInput, nearest
from .initializers import initial_weights
from .losses import LOSSES, Loss
from .network import Layer, Layers, new_layers

T = TypeVar("T")


def choice(argument: str, name: object, options: Mapping[str, T]) -> T:
    if not isinstance(name, str) or name not in options:
        raise InvalidInput(f"{argument}={name!r} is unknown{nearest(name, options)}")
    return options[name]


def activation(value: str | Activation) -> Activation:
    if not isinstance(value, Activation):
        return choice("activation", value, ACTIVATIONS)
    if ACTIVATIONS.get(value.name) is not value:
        problem = verify(value)
        if problem:
            raise InvalidInput(f'activation "{value.name}" cannot be used: {problem}; correct its record')
    return value


def loss(value: str | Loss) -> Loss:
    return value if isinstance(value, Loss) else choice("loss", value, LOSSES)


def flag(argument: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{argument}={value!r} must be True or False")
    return bool(value)


def whole(argument: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise InvalidInput(f"{argument}={value!r} must be a whole number, at least {least}")
    return number


def positive(argument: str, value: Any, *, zero: bool = False) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InvalidInput(
            f"{argument}={value!r} must be a {'finite number, at least 0' if zero else 'positive finite number'}"
        )
    return number


def penalties(value: Any, layers: int) -> list[float]:
    """beta_1..beta_N from one number or one per layer."""
    if isinstance(value, str):
        raise InvalidInput(f"penalty={value!r} is unknown; pass a positive number, or one per layer")
    if np.ndim(value) == 0:
        return [positive("penalty", value)] * layers
    if len(value) != layers:
        raise InvalidInput(
            f"penalty has {len(value)} entries, but the network has {layers} layers "
            "(the hidden layers and the output); pass one number for all, or one per layer"
        )
    return [positive(f"penalty[{i}]", beta) for i, beta in enumerate(value)]


def hidden(value: Any) -> tuple[int, ...]:
    widths = (value,) if np.ndim(value) == 0 else tuple(value)
    if not widths:
        raise InvalidInput("hidden is empty; give the width of at least one hidden layer, for example hidden=(100,)")
    return tuple(whole(f"hidden[{i}]", width, least=1) for i, width in enumerate(widths))


def dtype(value: Any) -> torch.dtype:
    name = str(value).removeprefix("torch.") if isinstance(value, (str, torch.dtype)) else None
    if name is None:
        try:
            name = np.dtype(value).name
        except TypeError:
            name = repr(value)
    return choice("dtype", name, {"float64": torch.float64, "float32": torch.float32})


def device(value: Any) -> torch.device:
    if value == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(value)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f'device={value!r} cannot be used ({reason}); use "cpu" or "auto"') from error
    return chosen


def seed(value: Any) -> int:
    number = whole("seed", value, least=0)
    if number >= 2**63:
        raise InvalidInput(f"seed={value!r} must be below 2**63")
    return number


def check_samples(X: Tensor, Y: Tensor) -> None:
    if X.shape[0] != Y.shape[0]:
        raise InvalidInput(f"X has {X.shape[0]} samples but Y has {Y.shape[0]}; they must describe the same samples")
    if X.shape[0] < 2:
        raise InvalidInput("X and Y have one sample only; pass at least two")


def initial_layers(
    dims: Sequence[int], bias: bool, initial: Any, init: str, init_scale: Any, seed_value: Any, device: torch.device
) -> Layers:
    """The weights that a run starts from, in float64."""
    if initial is None:
        weights = initial_weights(dims, init, positive("init_scale", init_scale), seed(seed_value))
        return [layer.to(device=device) for layer in new_layers(weights, bias)]
    if len(initial) != len(dims) - 1:
        raise InvalidInput(
            f"initial has {len(initial)} layers, but hidden and the data make {len(dims) - 1} "
            f"({'-'.join(map(str, dims))}); pass one (W, b) pair per layer"
        )
    return [_given_layer(i, pair, dims[i - 1], dims[i], bias, device) for i, pair in enumerate(initial, start=1)]


def _given_layer(i: int, pair: Any, columns: int, rows: int, bias: bool, device: torch.device) -> Layer:
    try:
        W, b = pair
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"initial[{i - 1}] must be a pair (W, b), with b=None for zero thresholds") from error
    weight = _given_tensor(f"W of initial[{i - 1}]", W, (rows, columns), device)
    if b is None:
        threshold = weight.new_zeros(rows, 1)
    else:
        threshold = _given_tensor(f"b of initial[{i - 1}]", b, (rows,), device).unsqueeze(1)
    if not bias and threshold.any():
        raise InvalidInput(f"b of initial[{i - 1}] is not zero, but bias=False; pass b=None or bias=True")
    return Layer(weight, threshold if bias else None)


def _given_tensor(name: str, value: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    try:
        tensor = torch.as_tensor(
            np.array(value.detach().cpu() if isinstance(value, Tensor) else value, dtype=np.float64)
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} is not an array of numbers") from error
    if tuple(tensor.shape) != shape:
        raise InvalidInput(f"{name} has the shape {tuple(tensor.shape)}, but this network needs {shape}")
    if not torch.isfinite(tensor).all():
        raise InvalidInput(f"{name} contains NaN or infinite values; pass finite numbers")
    return tensor.to(device)
