"""The one exception for wrong arguments, and what its sentences have in common."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InvalidInput(ValueError):
    """An argument that cannot work. The message names the argument, the problem and the cure."""


def nearest(name: object, valid: Iterable[str]) -> str:
    """'; did you mean "x"? Valid: "x", "y"' for the message about an unknown name."""
    valid = list(valid)
    match = difflib.get_close_matches(str(name).lower(), valid, n=1, cutoff=0.5)
    guess = f'; did you mean "{match[0]}"?' if match else "."
    return guess + " Valid: " + ", ".join(f'"{choice}"' for choice in valid)


def shown(value: object) -> str:
    """A value as a message shows it: on one line, and no longer than a line."""
    text = " ".join(repr(value).split())
    return _shortened(text, 60)


def reason(error: Exception) -> str:
    """Another library's message, for the brackets in one of ours."""
    return _shortened(" ".join(str(error).split()), 120)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
