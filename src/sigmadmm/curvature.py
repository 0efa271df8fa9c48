"""Curvature rules: an upper bound h of the second derivative of u -> (s(u) - c)^2.

The W- and V-blocks replace that function by a parabola of curvature h, for every entry c of B at
once. If h is an upper bound for all of them the parabola lies above (it is a *majoriser*) and the
block cannot increase the augmented Lagrangian. `low` and `high` are the extremes of B.

paper   2 L2 (L0 + max|B|) + 2 L1^2, with the constants that the paper prints
tight   2 L1^2 + 2 L2 max|B - m|: uses (s - m) s'' <= 0, which sigmoids satisfy with m = s(0)
sharp   the least upper bound itself (to 0.1 %), maximised numerically
max     max|B|: what the authors' demo does; a majoriser only if 2 L2 < 1 and max|B| is not small,
        so it is never taken below the value from which it is one (0.1753 for sigmoid)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from .activations import Activation
from .checks import choice
from .errors import InvalidInput

Rule = Callable[[Tensor, Tensor], Tensor]

_MARGIN = 1 + 1e-3  # covers the grid on which "sharp" maximises
_HARDLY = 4e-3  # of the largest s'': a fine enough grid changes no more from neighbour to neighbour


def _largest(low: Tensor, high: Tensor) -> Tensor:
    return torch.maximum(high, -low)


def _paper(activation: Activation) -> Rule:
    L0, L1 = activation.L0, activation.L1
    L2 = activation.L2 if activation.printed_L2 is None else activation.printed_L2
    return lambda low, high: 2 * L2 * (L0 + _largest(low, high)) + 2 * L1**2


def _tight(activation: Activation) -> Rule:
    m, L1, L2 = activation.centre, activation.L1, activation.L2
    if m is None:
        raise InvalidInput(
            f'curvature="tight" is no majoriser for activation "{activation.name}": its record states no centre m '
            "with (s-m)s'' <= 0; use curvature=\"paper\""
        )
    return lambda low, high: 2 * L1**2 + 2 * L2 * _largest(low - m, high - m)


@lru_cache(maxsize=64)
def _parabola_coefficients(activation: Activation, device: torch.device) -> tuple[Tensor, Tensor]:
    """p, q on a grid of u with d2/du2 (s(u)-c)^2 = p - c q."""
    assert activation.second is not None
    linear = torch.arange(1, 4001, dtype=torch.float64) / 250
    half = torch.cat([torch.logspace(-12, 9, 7000, dtype=torch.float64), linear])  # for records of any width
    u = torch.cat([-half, half]).sort().values
    s, slope, second = activation.value(u), activation.derivative(u), activation.second(u)
    p, q = 2 * slope**2 + 2 * s * second, 2 * second
    finite = torch.isfinite(p) & torch.isfinite(q)  # far out a user's formula may overflow
    return p[finite].to(device), q[finite].to(device)


def _resolved_bend(activation: Activation) -> float:
    """The largest |s''| on that part of the grid where s'' hardly changes from point to point."""
    _, q = _parabola_coefficients(activation, torch.device("cpu"))
    change = q.diff().abs()
    resolved = change[1:] + change[:-1] <= _HARDLY * q.abs().max()
    return (q[1:-1][resolved].abs().max() / 2).item() if resolved.any() else 0.0


def _sharp(activation: Activation, rule: str = "sharp") -> Rule:
    if activation.second is None:
        raise InvalidInput(
            f'curvature="{rule}" cannot be shown to majorise activation "{activation.name}": its record has no second '
            'derivative; use curvature="paper"'
        )
    found = _resolved_bend(activation)
    if not found >= activation.L2 / _MARGIN:
        raise InvalidInput(
            f'curvature="{rule}" cannot be shown to majorise activation "{activation.name}": its record states '
            f"L2={activation.L2:.6g}, but a search found |s''|={found:.6g} at most; state the least L2, or use "
            'curvature="paper"'
        )

    def largest_curvature(c: Tensor) -> Tensor:
        p, q = _parabola_coefficients(activation, c.device)
        return (p - c.unsqueeze(-1) * q).amax(-1)

    # The bound is convex in c, so its maximum over [low, high] is at an end.
    return lambda low, high: _MARGIN * torch.maximum(largest_curvature(low), largest_curvature(high))


@lru_cache(maxsize=64)
def max_rule_threshold(activation: Activation) -> float:
    """The smallest m such that h = max|B| majorises whenever max|B| >= m; inf if there is none."""
    if 2 * activation.L2 >= 1:
        return math.inf
    sharp = _sharp(activation, "max")

    def excess(m: float) -> float:
        c = torch.tensor(m, dtype=torch.float64)
        return (sharp(-c, c) - c).item()

    below, above = 0.0, 1.0
    while excess(above) > 0:
        below, above = above, 2 * above
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (middle, above) if excess(middle) > 0 else (below, middle)
    return above


def _max(activation: Activation) -> Rule:
    threshold = max_rule_threshold(activation)
    if math.isinf(threshold):
        raise InvalidInput(
            f'curvature="max" is no majoriser for activation "{activation.name}" (that needs 2 L2 < 1, here '
            f'2 L2 = {2 * activation.L2:.3g}); use "paper", "tight" or "sharp"'
        )
    return lambda low, high: _largest(low, high).clamp_min(threshold)


RULES: dict[str, Callable[[Activation], Rule]] = {"paper": _paper, "tight": _tight, "sharp": _sharp, "max": _max}


def curvature_rule(name: str, activation: Activation) -> Rule:
    """The rule by name, or a refusal if it does not majorise this activation."""
    return choice("curvature", name, RULES)(activation)
