"""The border: whatever array the user has, the same numbers reach the core, and his arrays stay as they are."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from sigmadmm import train
from sigmadmm.arrays import to_matrix

N = 16
X = np.random.default_rng(1).uniform(-1, 1, (N, 3))
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)


def fit(x, y, **arguments):
    return train(x, y, **{"hidden": (5,), "max_iter": 3, "method": "paper", "keep_state": True} | arguments)


def weights_of(result) -> np.ndarray:
    return np.concatenate([part.ravel() for pair in result.network.weights for part in pair])


REFERENCE = weights_of(fit(X, Y))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


FORMS = {
    "NumPy": lambda a: a,
    "read-only": read_only,
    "memory of someone else": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "Fortran order": np.asfortranarray,
    "reversed strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "every second row and column": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
    "big-endian": lambda a: a.astype(">f8"),
    "long double": lambda a: a.astype(np.longdouble),
    "objects": lambda a: a.astype(object),
    "fractions": lambda a: [[Fraction(entry) for entry in row] for row in a.tolist()],
    "decimals": lambda a: [[Decimal(entry) for entry in row] for row in a.tolist()],
    "lists": lambda a: a.tolist(),
    "tuples": lambda a: tuple(map(tuple, a.tolist())),
    "list of arrays": list,
    "list of tensors": lambda a: list(torch.tensor(a)),
    "masked array without masked entries": np.ma.array,
    "tensor": torch.tensor,
    "tensor with gradient": lambda a: torch.tensor(a, requires_grad=True),
    "result of a computation with gradient": lambda a: torch.tensor(a, requires_grad=True) * 1,
    "transposed tensor": lambda a: torch.tensor(a.T.copy()).T,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bits(form):
    assert np.array_equal(weights_of(fit(FORMS[form](X), FORMS[form](Y))), REFERENCE)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
)
@pytest.mark.parametrize("target", ["float64", "float32"])
def test_number_types_are_converted(dtype, target):
    x = np.abs(X * 10).astype(dtype)
    y = np.abs(Y * 10).astype(dtype)
    expected = weights_of(fit(x.astype("float64"), y.astype("float64"), dtype=target))
    assert np.array_equal(weights_of(fit(x, y, dtype=target)), expected)
    if dtype != "bool":
        assert np.array_equal(weights_of(fit(x.astype(np.dtype(dtype).newbyteorder(">")), y, dtype=target)), expected)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32])
def test_tensor_types_are_converted(dtype):
    x, y = torch.tensor(X * 10).abs().to(dtype), torch.tensor(Y * 10).abs().to(dtype)
    assert np.array_equal(weights_of(fit(x, y)), weights_of(fit(x.to(torch.float64), y.to(torch.float64))))


def test_float32_keeps_every_digit_that_float32_has():
    rows = to_matrix(X, "X", torch.float32, "cpu")
    assert rows.dtype == torch.float32
    assert np.array_equal(rows.numpy(), X.astype("float32"))


def test_the_largest_float32_is_not_refused_as_too_large():
    largest = float(np.finfo("float32").max)
    rows = to_matrix([[largest], [-largest]], "X", torch.float32, "cpu")
    assert rows.flatten().tolist() == [largest, -largest]


@pytest.mark.parametrize("form", ["NumPy", "tensor", "tensor with gradient", "Fortran order", "transposed tensor"])
def test_the_users_arrays_are_not_modified(form):
    x, y = FORMS[form](X.copy()), FORMS[form](Y.copy())
    weights = [(np.full((5, 3), 0.2), np.full(5, 0.1)), (np.full((2, 5), 0.3), np.zeros(2))]
    initial = [tuple(FORMS[form](part.copy()) for part in pair) for pair in weights] if form == "tensor" else weights
    before = [(np.array(W), np.array(b)) for W, b in weights]
    fit(x, y, initial=initial, max_iter=5)
    assert np.array_equal(np.asarray(x.detach() if isinstance(x, torch.Tensor) else x), X)
    assert np.array_equal(np.asarray(y.detach() if isinstance(y, torch.Tensor) else y), Y)
    for given, kept in zip(initial, before, strict=True):
        assert np.array_equal(np.asarray(given[0]), kept[0])
        assert np.array_equal(np.asarray(given[1]), kept[1])


@pytest.mark.parametrize("columns", [1, 3])
def test_the_result_does_not_share_memory_with_the_users_tensors(columns):
    """With one feature the transpose is contiguous, so the run's state once was the user's tensor itself."""
    x, y = torch.tensor(X[:, :columns].copy()), torch.tensor(Y[:, :1].copy())
    result = fit(x, y)
    x.zero_()
    y.zero_()
    assert torch.equal(result.state.data.shards[0].X.cpu(), torch.tensor(X[:, :columns].T))
    assert torch.equal(result.state.data.shards[0].Y.cpu(), torch.tensor(Y[:, :1].T))


# pandas


def frame_of(array: np.ndarray):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(array, columns=[f"c{i}" for i in range(array.shape[1])])


def test_frames_give_the_same_bits():
    assert np.array_equal(weights_of(fit(frame_of(X), frame_of(Y))), REFERENCE)


def test_frames_go_by_position_not_by_label():
    x = frame_of(X)
    x.index = list(reversed(range(N)))
    x.columns = ["same", "same", 7]
    assert np.array_equal(weights_of(fit(x, frame_of(Y))), REFERENCE)


def test_frames_are_not_modified():
    x, y = frame_of(X), frame_of(Y)
    fit(x, y)
    assert x.equals(frame_of(X))
    assert y.equals(frame_of(Y))


def test_columns_of_mixed_types_are_converted():
    pandas = pytest.importorskip("pandas")
    columns = {
        "integers": np.arange(N),
        "nullable": pandas.array(range(N), dtype="Int64"),
        "switch": X[:, 0] > 0,
        "nullable switch": pandas.array(X[:, 1] > 0, dtype="boolean"),
        "nullable float": pandas.array(X[:, 1], dtype="Float64"),
        "objects": X[:, 2].astype(object),
        "half": X[:, 0].astype("float16"),
    }
    table = np.stack([np.asarray(column, dtype="float64") for column in columns.values()], axis=1)
    assert np.array_equal(weights_of(fit(pandas.DataFrame(columns), Y)), weights_of(fit(table, Y)))


@pytest.mark.parametrize("dtype", ["float64", "int64", "Int64", "boolean", "bool", "float32", "object"])
def test_series_as_targets(dtype):
    pandas = pytest.importorskip("pandas")
    numbers = (X[:, 0] > 0).astype(int)
    series = pandas.Series(numbers, index=range(N, 0, -1), name="y").astype(dtype)
    result, expected = fit(frame_of(X), series), fit(X, numbers)
    assert np.array_equal(weights_of(result), weights_of(expected))
    assert result.network.predict(frame_of(X)).shape == (N,)
