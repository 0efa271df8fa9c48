"""What a run recorded: columns by name, one entry per checked iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class History(Mapping[str, np.ndarray]):
    """`history["objective"][0]` is the objective after iteration 1. Vectors (kkt, saturation) have a second dimension.

    The columns are iteration, seconds since the start, those of `diagnostics.Measures`, and what a method adds (for
    Algorithm 1 `lyapunov`, the function of its convergence theorem).
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def append(self, row: dict[str, Any]) -> None:
        self._rows.append(row)

    @property
    def n_entries(self) -> int:
        return len(self._rows)

    @property
    def last(self) -> dict[str, Any]:
        """The newest entry, by column name."""
        if not self._rows:
            raise LookupError("the history is empty: the run ended before its first check")
        return self._rows[-1]

    def __getitem__(self, column: str) -> np.ndarray:
        if self._rows and column not in self._rows[0]:
            raise KeyError(f"{column!r}; the columns are {', '.join(self._rows[0])}")
        return np.array([row[column] for row in self._rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows[0] if self._rows else ())

    def __len__(self) -> int:
        return len(self._rows[0]) if self._rows else 0

    def __eq__(self, other: object) -> bool:
        """The same columns with the same numbers."""
        return (
            isinstance(other, History)
            and set(self) == set(other)
            and all(np.array_equal(column, other[name], equal_nan=True) for name, column in self.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"History({self.n_entries} entries: {', '.join(self)})"
