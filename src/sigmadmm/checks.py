"""Checks that any argument may need: each returns the usable value, or names argument, problem and cure."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from .errors import InvalidInput, nearest, shown

T = TypeVar("T")


def choice(argument: str, name: object, options: Mapping[str, T]) -> T:
    """The option of that name, or a refusal that suggests the nearest."""
    if not isinstance(name, str) or name not in options:
        raise InvalidInput(f"{argument}={shown(name)} is unknown{nearest(name, options)}")
    return options[name]


def flag(argument: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{argument}={shown(value)} must be True or False")
    return bool(value)


def whole(argument: str, value: Any, least: int, most: int | None = None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise InvalidInput(f"{argument}={shown(value)} must be a whole number, at least {least}")
    if most is not None and number > most:
        raise InvalidInput(f"{argument}={shown(value)} must be at most {most}")
    return number


def positive(argument: str, value: Any, *, zero: bool = False) -> float:
    try:
        number = math.nan if isinstance(value, (bool, np.bool_, str, bytes)) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InvalidInput(
            f"{argument}={shown(value)} must be a {'finite number, at least 0' if zero else 'positive finite number'}"
        )
    return number
