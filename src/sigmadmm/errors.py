"""The one exception for wrong arguments, and how its sentences suggest the right name."""

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
