"""The library with something changed, for as long as a comparison takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Values = Mapping[tuple[Any, str], Any]  # by owner, a module or a class, and the attribute's name


@contextmanager
def changed(values: Values) -> Iterator[None]:
    """With these attributes of modules and classes set to other values."""
    before = {(owner, name): getattr(owner, name) for owner, name in values}
    try:
        for (owner, name), value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
