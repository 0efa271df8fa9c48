"""The arguments of `train` that say what is minimised and from where, as one record for all who take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .activations import Activation
from .errors import nearest


@dataclass(frozen=True)
class Start:
    """The objective, the network's shape and its initial weights, as the user wrote them; explained at `train`."""

    hidden: Sequence[int] | int = (100, 100)
    activation: str | Activation = "sigmoid"
    loss: str = "squared_error"
    regularization: float = 1e-6
    regularize_bias: bool = True
    init: str = "msra"
    init_scale: float = 1.0
    initial: Sequence[tuple[Any, Any]] | None = None
    seed: int = 0
    dtype: Any = "float64"
    device: Any = "auto"
    bias: bool = True

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Start:
        """From keyword arguments; unknown ones are refused by name."""
        names = [field.name for field in fields(cls)]
        for argument in arguments:
            if argument not in names:
                raise TypeError(f"{argument} is not an argument{nearest(argument, names)}")
        return cls(**arguments)
