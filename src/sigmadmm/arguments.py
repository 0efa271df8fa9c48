"""Checks of `train`'s arguments. Each returns the usable value or names argument, problem and cure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import arrays
from .activations import ACTIVATIONS, Activation, verify
from .callbacks import Callback, FunctionCallback
from .checks import choice, flag, positive, whole
from .errors import InvalidInput, nearest, reason, shown
from .initializers import SCHEMES, initial_weights
from .losses import LOSSES, Loss
from .network import Layer, Layers, new_layers
from .settings import Start


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


def penalties(value: Any, layers: int) -> list[float]:
    """beta_1..beta_N from one number or one per layer."""
    if isinstance(value, str):
        raise InvalidInput(f"penalty={shown(value)} is unknown; pass a positive number, or one per layer")
    entries = _entries(value)
    if entries is None:
        return [positive("penalty", value)] * layers
    if len(entries) != layers:
        raise InvalidInput(
            f"penalty has {len(entries)} entries, but the network has {layers} layers "
            "(the hidden layers and the output); pass one number for all, or one per layer"
        )
    return [positive(f"penalty[{i}]", beta) for i, beta in enumerate(entries)]


def hidden(value: Any) -> tuple[int, ...]:
    widths = _entries(value)
    if widths is None:
        try:
            return (whole("hidden", value, least=1, most=_WIDEST),)
        except InvalidInput as error:
            raise InvalidInput(f"{error}, or a list of such widths") from None
    if not widths:
        raise InvalidInput("hidden is empty; give the width of at least one hidden layer, for example hidden=(100,)")
    return tuple(whole(f"hidden[{i}]", width, least=1, most=_WIDEST) for i, width in enumerate(widths))


_WIDEST = 2**31 - 1


def _entries(value: Any) -> list[Any] | None:
    """What a list, tuple or array holds; None for anything else."""
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return list(value) if is_list or getattr(value, "ndim", 0) > 0 else None


def dtype(value: Any) -> torch.dtype:
    name = value
    if isinstance(value, (str, torch.dtype)):
        name = str(value).removeprefix("torch.")
    elif value is not None:
        with suppress(TypeError, ValueError):
            name = np.dtype(value).name
    return choice("dtype", name, {"float64": torch.float64, "float32": torch.float32})


def device(value: Any) -> torch.device:
    if isinstance(value, str) and value == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(value)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(f"device={shown(value)} is unknown{nearest(value, ('auto', 'cpu', 'cuda'))}") from error
    try:
        torch.zeros(1, dtype=torch.float64, device=chosen).item()
    except (RuntimeError, AssertionError, TypeError, ImportError) as error:
        raise InvalidInput(f'device={shown(value)} cannot be used ({reason(error)}); use "cpu" or "auto"') from error
    return chosen


def seed(value: Any) -> int:
    number = whole("seed", value, least=0)
    if number >= 2**63:
        raise InvalidInput(f"seed={shown(value)} must be below 2**63")
    return number


def callback_list(callbacks: Iterable[object]) -> list[Callback]:
    if isinstance(callbacks, Callback) or callable(callbacks):
        raise InvalidInput("callbacks must be a list; write callbacks=[...] around the one you passed")
    if not isinstance(callbacks, Iterable):
        raise InvalidInput(f"callbacks={shown(callbacks)} must be a list; pass callbacks=[] for none")
    result: list[Callback] = []
    for callback in callbacks:
        if isinstance(callback, Callback):
            result.append(callback)
        elif isinstance(callback, type):
            raise InvalidInput(f"callbacks has the class {callback.__name__}; pass an object: {callback.__name__}()")
        elif callable(callback):
            result.append(FunctionCallback(callback))
        else:
            raise InvalidInput(
                f"callbacks has an entry of type {type(callback).__name__}; pass functions or sigmadmm.Callback objects"
            )
    return result


def check_samples(X: Tensor, Y: Tensor) -> None:
    if X.shape[0] != Y.shape[0]:
        raise InvalidInput(f"X has {X.shape[0]} samples but Y has {Y.shape[0]}; they must describe the same samples")
    if X.shape[0] < 2:
        raise InvalidInput("X and Y have one sample only; pass at least two")


def initial_layers(dims: Sequence[int], start: Start, device: torch.device) -> Layers:
    """The weights that a run starts from, in float64."""
    choice("init", start.init, SCHEMES)
    bias, initial = flag("bias", start.bias), start.initial
    scale, first_seed = positive("init_scale", start.init_scale), seed(start.seed)
    if initial is None:
        weights = initial_weights(dims, start.init, scale, first_seed)
        return [layer.to(device=device) for layer in new_layers(weights, bias)]
    pairs = _entries(initial)
    if pairs is None:
        raise InvalidInput(
            f"initial={shown(initial)} must be a list of pairs (W, b), one per layer, for example network.weights"
        )
    if len(pairs) != len(dims) - 1:
        raise InvalidInput(
            f"initial has {len(pairs)} layers, but hidden and the data make {len(dims) - 1} "
            f"({'-'.join(map(str, dims))}); pass one (W, b) pair per layer"
        )
    return [_given_layer(i, pair, dims[i - 1], dims[i], bias, device) for i, pair in enumerate(pairs, start=1)]


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
    tensor = arrays.to_tensor(value, name)
    if tuple(tensor.shape) != shape:
        raise InvalidInput(f"{name} has the shape {tuple(tensor.shape)}, but hidden and the data make it {shape}")
    if not torch.isfinite(tensor).all():
        raise InvalidInput(f"{name} contains NaN or infinite values; pass finite numbers")
    return tensor.to(device, torch.float64, copy=True)
