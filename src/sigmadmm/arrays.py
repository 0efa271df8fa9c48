"""The border between the user's arrays (samples are rows) and the core's float tensors; refuses by sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InvalidInput, reason, shown

_NUMBERS = "fiubc"  # NumPy's letters for float, int, unsigned, bool, complex


def to_matrix(
    data: Any, name: str, dtype: torch.dtype, device: torch.device | str, *, column_for_flat: bool = False
) -> Tensor:
    """`data` as a finite (samples, columns) tensor. Accepts NumPy, torch, pandas and nested lists."""
    tensor = to_tensor(data, name)
    if tensor.ndim == 1 and column_for_flat:
        tensor = tensor.unsqueeze(1)
    if 0 in tensor.shape:
        what = "samples" if tensor.shape[0] == 0 else "columns"
        raise InvalidInput(f"{name} is empty: it has no {what} (shape {tuple(tensor.shape)}); pass at least one")
    if tensor.ndim != 2:
        cure = f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one sample"
        raise InvalidInput(
            f"{name} must have the shape (samples, columns), got {tensor.ndim} dimension(s) "
            f"with shape {tuple(tensor.shape)}; pass {cure if tensor.ndim == 1 else 'a table'}"
        )
    _refuse_not_finite(tensor, name, "are NaN or infinite", "drop or fill them")
    converted = tensor.to(device, dtype)
    if converted.dtype != tensor.dtype:
        short = str(dtype).removeprefix("torch.")
        _refuse_not_finite(converted, name, f"are too large for {short}", 'scale them, or use dtype="float64"')
    return converted


def to_tensor(data: Any, name: str) -> Tensor:
    """`data` as a tensor of real numbers, of any shape and number type."""
    if isinstance(data, Tensor):
        return _dense_and_real(data.detach(), name)
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InvalidInput(f"{name} is a sparse matrix; pass a dense one, for example .toarray() of it")
    if hasattr(data, "iloc"):
        return torch.tensor(_pandas_to_array(data, name))
    if np.ma.is_masked(data):
        raise InvalidInput(f"{name} has masked entries; drop or fill them, for example with .filled(value)")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidInput(f"{name} has rows of different lengths; every sample needs the same columns") from error
    except (TypeError, RuntimeError) as error:
        raise InvalidInput(
            f"{name} cannot be read as a table of numbers ({reason(error)}); pass one array or tensor"
        ) from error
    if array.ndim == 0 and array.dtype.kind not in _NUMBERS:
        raise InvalidInput(
            f"{name} is of type {type(data).__name__}, not a table of numbers; pass an array, a tensor, a data frame "
            "or nested lists"
        )
    if array.dtype.kind in "OUS":  # NumPy makes text of numbers beside text, so back to the entries themselves
        array = _entries_to_floats(np.asarray(data, dtype=object), name)
    if array.dtype.kind not in _NUMBERS:
        raise InvalidInput(f"{name} has the type {array.dtype}, which is not numeric; convert it to numbers first")
    # A copy where torch cannot alias: read-only, reversed or foreign-endian memory.
    with np.errstate(over="ignore"):  # infinite entries are refused later, with their position
        return _dense_and_real(torch.tensor(np.asarray(array, dtype=_torch_type(array.dtype), order="C")), name)


def _torch_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same type in the machine's byte order; float64 for the longer ones, which torch does not know."""
    return np.dtype(np.float64) if dtype == np.longdouble else dtype.newbyteorder("=")


def _dense_and_real(tensor: Tensor, name: str) -> Tensor:
    if tensor.is_complex():
        raise InvalidInput(f"{name} is complex; pass real numbers, for example real and imaginary part as two columns")
    if tensor.is_meta:
        raise InvalidInput(f"{name} is a tensor on the meta device, which has no numbers; pass one that has")
    if tensor.layout != torch.strided:
        raise InvalidInput(f"{name} is a sparse tensor; pass a dense one, for example .to_dense() of it")
    return tensor


def _pandas_to_array(data: Any, name: str) -> np.ndarray:
    """A data frame or series; its text and date columns are refused by name, missing entries become NaN."""
    if data.ndim == 1:
        return _column_to_floats(data, data.name, name)
    labels = [str(label) for label in data.columns]
    columns = [_column_to_floats(data.iloc[:, i], label, name) for i, label in enumerate(labels)]
    return np.stack(columns, axis=1) if columns else np.empty((len(data), 0))


def _column_to_floats(column: Any, label: object, name: str) -> np.ndarray:
    try:
        is_text = column.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in column)
        if not is_text and column.dtype.kind not in "mMc":
            return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))
    except (TypeError, ValueError):
        pass
    what = "a column" if label is None else f"the column {label!r}"
    raise InvalidInput(
        f"{name} has {what} of type {column.dtype}, which is not numeric; drop it or encode it as numbers"
    )


def _entries_to_floats(array: np.ndarray, name: str) -> np.ndarray:
    """Python objects as floats; None becomes NaN, which is refused later with its position."""
    floats = np.empty(array.shape)
    for position, entry in np.ndenumerate(array):
        try:
            if isinstance(entry, (str, bytes)):
                raise TypeError
            floats[position] = math.nan if entry is None else float(entry)
        except (TypeError, ValueError, OverflowError) as error:
            where = f"row {position[0]}" + (f", column {position[1]}" if len(position) > 1 else "")
            raise InvalidInput(
                f"{name} has the non-numeric entry {shown(entry)} in {where}; drop it or encode it as a number"
            ) from error
    return floats


def _refuse_not_finite(tensor: Tensor, name: str, problem: str, cure: str) -> None:
    if not tensor.is_floating_point():
        return
    bad = ~torch.isfinite(tensor)
    count = int(bad.sum())
    if count:
        row, column = (int(index) for index in bad.nonzero()[0])
        raise InvalidInput(
            f"{name} has {count} value(s) that {problem}, the first in row {row}, column {column}; {cure}"
        )


def is_flat(data: Any) -> bool:
    """Whether the user's targets are (samples,) rather than (samples, outputs)."""
    return np.ndim(data) == 1 if not isinstance(data, Tensor) else data.ndim == 1
