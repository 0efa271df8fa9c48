"""Activations as records: what Algorithm 1 needs to know about a sigmoid-type function s.

A record holds s, its derivatives and three constants with |s| <= L0, |s'| <= L1 and s' Lipschitz
with constant L2. The proofs use nothing else, so any function with such constants may be trained:
make an `Activation` of your own and pass it wherever a name is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import reason, shown

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """A bounded activation with a Lipschitz derivative.

    name                  how messages and files call it
    value, derivative     s(u) and s'(u), element by element
    L0, L1, L2            bounds of |s| and |s'|, Lipschitz constant of s'
    second                s''(u), needed by the curvature rules "sharp" and "max" and for the Newton steps of "synced"
    derivative_from_value s' as a function of s (saves a second evaluation), e.g. s(1-s)
    centre                m with (s(u)-m) s''(u) <= 0 for all u, needed by the rule "tight";
                          for a point-symmetric sigmoid this is s(0)
    printed_L2            the looser L2 that the paper prints (sigmoid: 1/4), used by the rule "paper"
    """

    name: str
    value: Function
    derivative: Function
    L0: float
    L1: float
    L2: float
    second: Function | None = None
    derivative_from_value: Function | None = None
    centre: float | None = None
    printed_L2: float | None = None

    def __reduce__(self) -> Any:
        """A built-in record travels by its name, since its functions cannot be pickled."""
        if ACTIVATIONS.get(self.name) is self:
            return _built_in, (self.name,)
        return super().__reduce__()

    def slope(self, u: Tensor, s: Tensor) -> Tensor:
        """s'(u), where s = s(u) is already known."""
        if self.derivative_from_value is not None:
            return self.derivative_from_value(s)
        return self.derivative(u)


def _sigmoid_slope(s: Tensor) -> Tensor:
    return torch.addcmul(s, s, s, value=-1)


def _sigmoid_second(u: Tensor) -> Tensor:
    s = torch.sigmoid(u)
    return s * (1 - s) * (1 - 2 * s)


def _tanh_second(u: Tensor) -> Tensor:
    t = torch.tanh(u)
    return -2 * t * (1 - t * t)


def scaled_tanh(a: float = 1.7159, b: float = 2 / 3) -> Activation:
    """a tanh(b u); the default constants are LeCun's."""
    return Activation(
        "scaled_tanh" if (a, b) == (1.7159, 2 / 3) else f"scaled_tanh({a:g}, {b:g})",
        value=lambda u: a * torch.tanh(b * u),
        derivative=lambda u: a * b * (1 - torch.tanh(b * u).square()),
        derivative_from_value=lambda s: a * b - (b / a) * s * s,
        second=lambda u: a * b * b * _tanh_second(b * u),
        L0=a,
        L1=a * b,
        L2=a * b * b * 4 / (3 * math.sqrt(3)),
        centre=0.0,
    )


_ROOT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)

_BUILT_IN = (
    Activation(
        "sigmoid",
        value=torch.sigmoid,
        derivative=lambda u: _sigmoid_slope(torch.sigmoid(u)),
        derivative_from_value=_sigmoid_slope,
        second=_sigmoid_second,
        L0=1.0,
        L1=1 / 4,
        L2=1 / (6 * math.sqrt(3)),
        centre=1 / 2,
        printed_L2=1 / 4,
    ),
    Activation(
        "tanh",
        value=torch.tanh,
        derivative=lambda u: 1 - torch.tanh(u).square(),
        derivative_from_value=lambda s: 1 - s * s,
        second=_tanh_second,
        L0=1.0,
        L1=1.0,
        L2=4 / (3 * math.sqrt(3)),
        centre=0.0,
    ),
    scaled_tanh(),
    Activation(
        "arctan",
        value=torch.atan,
        derivative=lambda u: 1 / (1 + u * u),
        second=lambda u: -2 * u / (1 + u * u).square(),
        L0=math.pi / 2,
        L1=1.0,
        L2=3 * math.sqrt(3) / 8,
        centre=0.0,
    ),
    Activation(
        "erf",
        value=torch.erf,
        derivative=lambda u: 2 / _ROOT_PI * torch.exp(-u * u),
        second=lambda u: -4 / _ROOT_PI * u * torch.exp(-u * u),
        L0=1.0,
        L1=2 / _ROOT_PI,
        L2=2 * math.sqrt(2 / (math.pi * math.e)),
        centre=0.0,
    ),
    Activation(
        "normal_cdf",
        value=torch.special.ndtr,
        derivative=lambda u: torch.exp(-u * u / 2) / _ROOT_2PI,
        second=lambda u: -u * torch.exp(-u * u / 2) / _ROOT_2PI,
        L0=1.0,
        L1=1 / _ROOT_2PI,
        L2=1 / math.sqrt(2 * math.pi * math.e),
        centre=1 / 2,
    ),
    Activation(  # u / sqrt(1 + u^2)
        "algebraic",
        value=lambda u: u * torch.rsqrt(1 + u * u),
        derivative=lambda u: (1 + u * u) ** -1.5,
        second=lambda u: -3 * u * (1 + u * u) ** -2.5,
        L0=1.0,
        L1=1.0,
        L2=48 / (25 * math.sqrt(5)),
        centre=0.0,
    ),
    # Softsign has no second derivative at 0 (it jumps from 2 to -2), but a Lipschitz s' is all that is used.
    Activation(
        "softsign",
        value=lambda u: u / (1 + u.abs()),
        derivative=lambda u: 1 / (1 + u.abs()).square(),
        second=lambda u: -2 * torch.sign(u) / (1 + u.abs()) ** 3,
        L0=1.0,
        L1=1.0,
        L2=2.0,
        centre=0.0,
    ),
    Activation(  # exp(-u^2); concave exactly where it is above exp(-1/2), hence the centre
        "gaussian",
        value=lambda u: torch.exp(-u * u),
        derivative=lambda u: -2 * u * torch.exp(-u * u),
        second=lambda u: (4 * u * u - 2) * torch.exp(-u * u),
        L0=1.0,
        L1=math.sqrt(2 / math.e),
        L2=2.0,
        centre=math.exp(-1 / 2),
    ),
    Activation(  # exp(-u^2 / 2)
        "gaussian_half",
        value=lambda u: torch.exp(-u * u / 2),
        derivative=lambda u: -u * torch.exp(-u * u / 2),
        second=lambda u: (u * u - 1) * torch.exp(-u * u / 2),
        L0=1.0,
        L1=math.exp(-1 / 2),
        L2=1.0,
        centre=math.exp(-1 / 2),
    ),
    Activation(
        "sin",
        value=torch.sin,
        derivative=torch.cos,
        second=lambda u: -torch.sin(u),
        L0=1.0,
        L1=1.0,
        L2=1.0,
        centre=0.0,
    ),
)


def _built_in(name: str) -> Activation:
    return ACTIVATIONS[name]


ACTIVATIONS: dict[str, Activation] = {activation.name: activation for activation in _BUILT_IN}


_SEEN = 0.1  # of L2 that must occur on the grid: stated constants may be loose


def verify(activation: Activation) -> str | None:
    """What is wrong with a record, as a sentence, or None. Checked on a grid, so it finds slips, not proofs."""
    for name in ("L0", "L1", "L2"):
        bound = getattr(activation, name)
        if not (isinstance(bound, (int, float)) and 0 < bound < math.inf):
            return f"{name}={shown(bound)} is not a positive finite number"
    try:
        return _wrong_function(activation)
    except Exception as error:  # whatever the user's functions raise
        return f"its functions cannot be evaluated on a tensor ({reason(error)})"


def _wrong_function(activation: Activation) -> str | None:
    u = torch.linspace(-12, 12, 4801, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        s = activation.value(u)
        (slope,) = torch.autograd.grad(s.sum(), u)
    u, s = u.detach(), s.detach()
    stated = activation.derivative(u)
    single = u.to(torch.float32)
    for name, values in (("value", activation.value(single)), ("derivative", activation.derivative(single))):
        if values.dtype != torch.float32:
            return f"its {name} turns float32 into {str(values.dtype).removeprefix('torch.')}"
    away_from_0 = u.abs() > 1e-9  # a kink of s' at 0 is allowed
    if not torch.allclose(slope[away_from_0], stated[away_from_0], rtol=1e-6, atol=1e-8):
        return "its derivative is not the derivative of its value"
    if not torch.allclose(activation.slope(u, s), stated, rtol=1e-6, atol=1e-8):
        return "derivative_from_value disagrees with derivative"
    middle, bend = (u[1:] + u[:-1]) / 2, stated.diff() / u.diff()  # bend: the mean of s'' between grid points
    found = {"L0": s, "L1": stated, "L2": bend} | ({"printed_L2": bend} if activation.printed_L2 is not None else {})
    for name, values in found.items():
        bound, largest = getattr(activation, name), values.abs().max().item()
        if not largest <= bound * (1 + 1e-9):
            return f"{name}={bound:g} is too small, {largest:.6g} occurs"
    if activation.second is not None and not (activation.second(middle) - bend).abs().mean() <= 1e-3 * activation.L2:
        return "second is not the derivative of its derivative"
    m = activation.centre
    if m is not None and bend.abs().max() < _SEEN * activation.L2:
        return f"its centre cannot be checked: no bend near L2={activation.L2:g} in [-12, 12]; rescale its argument"
    if m is not None and not ((activation.value(middle) - m) * bend).max() <= 1e-4 * activation.L0 * activation.L2:
        return f"(s-m)s'' > 0 occurs for its centre m={m:g}"
    return None
