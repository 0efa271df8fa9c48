"""Sums over samples: how what two shards contribute becomes what both contribute.

A contribution is a dataclass or list of tensors, which add up. A `Largest` keeps the larger entry instead, `Columns`
are joined side by side, None stays None.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Sums = TypeVar("Sums")


@dataclass
class Largest:
    """A tensor of which shards contribute the maximum, entry by entry."""

    value: Tensor


@dataclass
class Columns:
    """A tensor with the samples in its last dimension: only for methods that need all of them at once."""

    value: Tensor


def combine(a: Sums, b: Sums) -> Sums:
    """The contribution of two shards together; both have the same structure."""
    joined: Any = _combine(a, b)
    return joined


def _combine(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if isinstance(a, Tensor):
        return a + b
    if isinstance(a, Largest):
        return Largest(torch.maximum(a.value, b.value))
    if isinstance(a, Columns):
        return Columns(torch.cat([a.value, b.value], -1))
    if isinstance(a, list):
        return [_combine(one, other) for one, other in zip(a, b, strict=True)]
    if not is_dataclass(a) or isinstance(a, type):
        raise TypeError(f"{type(a).__name__} is no sum over samples")
    return type(a)(**{field.name: _combine(getattr(a, field.name), getattr(b, field.name)) for field in fields(a)})
