"""The border between the user's arrays (samples are rows) and the core's float tensors; refuses by sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InvalidInput


def to_matrix(
    data: Any, name: str, dtype: torch.dtype, device: torch.device | str, *, column_for_flat: bool = False
) -> Tensor:
    """`data` as a finite (samples, columns) tensor. Accepts NumPy, torch, pandas and nested lists."""
    tensor = _to_tensor(data, name)
    if tensor.ndim == 1 and column_for_flat:
        tensor = tensor.unsqueeze(1)
    if tensor.ndim != 2:
        cure = f"; for one feature pass {name}.reshape(-1, 1)" if tensor.ndim == 1 else ""
        raise InvalidInput(
            f"{name} must have the shape (samples, columns), got {tensor.ndim} dimension(s) "
            f"with shape {tuple(tensor.shape)}{cure}"
        )
    if 0 in tensor.shape:
        what = "samples" if tensor.shape[0] == 0 else "columns"
        raise InvalidInput(f"{name} is empty: it has no {what} (shape {tuple(tensor.shape)}); pass at least one")
    _refuse_not_finite(tensor, name)
    converted = tensor.to(device, dtype)
    if converted.dtype != tensor.dtype:
        _refuse_not_finite(converted, name, f" after conversion to {str(dtype).removeprefix('torch.')}")
    return converted


def _to_tensor(data: Any, name: str) -> Tensor:
    if isinstance(data, Tensor):
        tensor = data.detach()
        if tensor.is_complex():
            raise InvalidInput(
                f"{name} is complex; pass real numbers, for example real and imaginary part as two columns"
            )
        if tensor.layout != torch.strided:
            raise InvalidInput(f"{name} is a sparse tensor; pass a dense one, for example {name}.to_dense()")
        return tensor
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InvalidInput(f"{name} is a sparse matrix; pass a dense one, for example {name}.toarray()")
    if hasattr(data, "dtypes") and hasattr(data, "columns"):
        return _frame_to_tensor(data, name)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidInput(f"{name} has rows of different lengths; every sample needs the same columns") from error
    if array.dtype == object or array.dtype.kind in "US":
        array = _objects_to_floats(array, name)
    if array.dtype.kind == "c":
        raise InvalidInput(f"{name} is complex; pass real numbers, for example real and imaginary part as two columns")
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"{name} has the type {array.dtype}, which is not numeric; convert it to numbers first")
    # A copy where torch cannot alias: read-only, reversed or foreign-endian memory.
    return torch.tensor(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def _frame_to_tensor(frame: Any, name: str) -> Tensor:
    """A pandas-like frame; its text and date columns are refused by name."""
    columns = []
    for position in range(frame.shape[1]):
        column = frame.iloc[:, position]
        try:
            columns.append(np.asarray(column.to_numpy(dtype="float64", na_value=np.nan)))
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{name} has the column {str(frame.columns[position])!r} of type {column.dtype}, which is not numeric; "
                "drop it or encode it as numbers"
            ) from error
        if column.dtype.kind in "mM":
            raise InvalidInput(
                f"{name} has the column {str(frame.columns[position])!r} of type {column.dtype}, which is not numeric; "
                "drop it or encode it as numbers"
            )
    return torch.tensor(np.stack(columns, axis=1)) if columns else torch.empty(len(frame), 0)


def _objects_to_floats(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype == object:
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass
    table = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    for column in range(table.shape[1]):
        for row in range(table.shape[0]):
            value = table[row, column]
            if isinstance(value, str) or not np.isscalar(value):
                raise InvalidInput(
                    f"{name} has the non-numeric entry {value!r} in row {row}, column {column}; "
                    "drop the column or encode it as numbers"
                )
    raise InvalidInput(f"{name} has the type {array.dtype}, which is not numeric; convert it to numbers first")


def _refuse_not_finite(tensor: Tensor, name: str, when: str = "") -> None:
    if not tensor.is_floating_point():
        return
    bad = ~torch.isfinite(tensor)
    count = int(bad.sum())
    if count:
        row, column = (int(index) for index in bad.nonzero()[0])
        raise InvalidInput(
            f"{name} has {count} value(s) that are NaN or infinite{when}, the first in row {row}, column {column}; "
            "drop or fill them"
        )


def is_flat(data: Any) -> bool:
    """Whether the user's targets are (samples,) rather than (samples, outputs)."""
    return np.ndim(data) == 1 if not isinstance(data, Tensor) else data.ndim == 1
