"""What cannot work is refused before iteration 1, by one sentence that names argument, problem and cure."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
import torch

import sigmadmm
from sigmadmm import Callback, InvalidInput, baselines

N = 12
X = np.random.default_rng(0).uniform(-1, 1, (N, 2))
Y = X[:, 0] * X[:, 1]
DIMS = (2, 4, 3, 1)
WEIGHTS = [(np.full((rows, columns), 0.1), np.zeros(rows)) for columns, rows in pairwise(DIMS)]


class Watch(Callback):
    """Fails the test as soon as a run begins."""

    def on_start(self, run):
        raise AssertionError("the run began")


def refusal(function=sigmadmm.train, **arguments) -> str:
    """The sentence with which these arguments are refused; all others are good."""
    good = {"X": X, "Y": Y, "hidden": (4, 3)}
    if function is sigmadmm.train:
        good |= {"method": "paper", "max_iter": 2, "callbacks": [Watch()]}
    with pytest.raises(InvalidInput) as caught:
        function(**good | arguments)
    return str(caught.value)


def check(message: str, *words: str) -> None:
    for word in words:
        assert word in message
    assert "\n" not in message
    assert len(message) < 320


def put(array: np.ndarray, *changes: tuple[tuple[int, ...], float]) -> np.ndarray:
    array = array.copy()
    for position, value in changes:
        array[position] = value
    return array


def given(position: int, *pair) -> list:
    """Good initial weights, but for one layer."""
    return [pair if i == position else good for i, good in enumerate(WEIGHTS)]


class Sparse:
    """What a SciPy matrix looks like from outside."""

    nnz = 3
    shape = X.shape

    def toarray(self):
        return X


NOT_FINITE = "value(s) that are NaN or infinite, the first in"
POSITIVE = "must be a positive finite number"
WHOLE = "must be a whole number, at least"

# What is wrong: the arguments, and what the sentence must contain (argument and problem, then the cure).
CASES = {
    # Values that are not finite
    "X has a NaN": ({"X": put(X, ((3, 1), nan))}, "X has 1 " + NOT_FINITE, "row 3, column 1", "drop or fill"),
    "X has infinities": (
        {"X": put(X, ((9, 0), inf), ((5, 1), -inf), ((7, 0), nan))},
        "X has 3 " + NOT_FINITE,
        "row 5, column 1",
        "drop or fill",
    ),
    "X tensor has a NaN": ({"X": torch.tensor(put(X, ((0, 1), nan)))}, "X has 1 " + NOT_FINITE, "row 0, column 1"),
    "Y has a NaN": ({"Y": put(Y, ((4,), nan))}, "Y has 1 " + NOT_FINITE, "row 4, column 0", "drop or fill"),
    "Y has an infinity": ({"Y": put(Y, ((11,), inf))}, "Y has 1 " + NOT_FINITE, "row 11"),
    "None among lists": ({"X": [[1.0, None]] * N}, f"X has {N} " + NOT_FINITE, "row 0, column 1"),
    "X overflows float32": (
        {"X": put(X, ((2, 0), 1e300)), "dtype": "float32"},
        "X has 1 value(s) that are too large for float32, the first in row 2, column 0",
        'scale them, or use dtype="float64"',
    ),
    "Y overflows float32": ({"Y": 1e200 * Y, "dtype": "float32"}, f"Y has {N} value(s) that are too large for float32"),
    "entries are masked": ({"X": np.ma.array(X, mask=X > 0)}, "X has masked entries", "drop or fill them"),
    # Shapes
    "X is one column": (
        {"X": X[:, 0]},
        "X must have the shape (samples, columns), got 1 dimension(s) with shape (12,)",
        "X.reshape(-1, 1) for one feature",
    ),
    "X has 3 dimensions": (
        {"X": X[None]},
        "X must have the shape (samples, columns), got 3 dimension(s)",
        "(1, 12, 2)",
    ),
    "Y has 3 dimensions": ({"Y": Y.reshape(N, 1, 1)}, "Y must have the shape (samples, columns), got 3 dimension(s)"),
    "X is a number": ({"X": 5.0}, "X must have the shape (samples, columns), got 0 dimension(s)", "pass a table"),
    "Y is a number": ({"Y": 5.0}, "Y must have the shape (samples, columns), got 0 dimension(s)", "pass a table"),
    "X has no samples": ({"X": X[:0]}, "X is empty: it has no samples", "pass at least one"),
    "X has no columns": ({"X": X[:, :0]}, "X is empty: it has no columns", "pass at least one"),
    "X is an empty list": ({"X": []}, "X is empty: it has no samples", "pass at least one"),
    "X is an empty text array": ({"X": np.array([], dtype=str)}, "X is empty: it has no samples", "pass at least one"),
    "Y has no samples": ({"Y": Y[:0]}, "Y is empty: it has no samples", "pass at least one"),
    "Y has no columns": ({"Y": np.empty((N, 0))}, "Y is empty: it has no columns", "pass at least one"),
    "one sample": ({"X": X[:1], "Y": Y[:1]}, "X and Y have one sample only", "pass at least two"),
    "Y is longer": ({"Y": np.ones(13)}, "X has 12 samples but Y has 13", "must describe the same samples"),
    "Y is transposed": ({"Y": Y.reshape(1, -1)}, "X has 12 samples but Y has 1", "must describe the same samples"),
    "rows of different lengths": ({"X": [[1.0, 2.0], [3.0]]}, "X has rows of different lengths", "the same columns"),
    # Kinds of data
    "X is None": ({"X": None}, "X is of type NoneType, not a table of numbers", "pass an array"),
    "Y is None": ({"Y": None}, "Y is of type NoneType, not a table of numbers", "pass an array"),
    "X is a file name": ({"X": "data.csv"}, "X is of type str, not a table of numbers", "pass an array"),
    "X is a dict": ({"X": {"a": [1, 2]}}, "X is of type dict, not a table of numbers", "pass an array"),
    "X is a generator": ({"X": (row for row in X)}, "X is of type generator", "pass an array"),
    "text array": (
        {"X": np.array([["1.5", "2"]] * N)},
        "X has the non-numeric entry '1.5' in",
        "row 0, column 0",
        "encode it",
    ),
    "bytes array": ({"X": np.array([[b"1.5"]] * N)}, "X has the non-numeric entry", "row 0, column 0", "encode it"),
    "text among numbers": (
        {"X": [[1.0, 2.0]] * 7 + [[3.0, "red"]] * 5},
        "X has the non-numeric entry 'red' in row 7, column 1",  # NumPy makes text of the whole table
        "drop it or encode it as a number",
    ),
    "text among objects": (
        {"X": np.array([[1.0, 2]] * 7 + [[3.0, "red"]] * 5, dtype=object)},
        "X has the non-numeric entry 'red' in row 7, column 1",
        "drop it or encode it as a number",
    ),
    "number written as text": (
        {"Y": np.array(["1.5"] * N, dtype=object)},
        "Y has the non-numeric entry '1.5' in row 0",
    ),
    "date objects": ({"X": [[1.0, datetime.date(2020, 1, 1)]] * N}, "X has the non-numeric entry datetime.date(2020"),
    "date array": (
        {"Y": np.array(["2020-01-01"] * N, "M8[D]")},
        "Y has the type datetime64[D]",
        "convert it to numbers",
    ),
    "records": ({"X": np.zeros((N, 1), [("a", float)])}, "X has the type", "which is not numeric", "convert it"),
    "complex": ({"X": X + 1j}, "X is complex", "real and imaginary part as two columns"),
    "complex list": ({"Y": [1j] * N}, "Y is complex", "real and imaginary part as two columns"),
    "complex tensor": ({"X": torch.tensor(X + 1j)}, "X is complex", "real and imaginary part as two columns"),
    "complex objects": ({"Y": np.array([1j] * N, dtype=object)}, "Y has the non-numeric entry 1j in row 0"),
    "sparse matrix": ({"X": Sparse()}, "X is a sparse matrix", ".toarray()"),
    "sparse tensor": ({"X": torch.tensor(X).to_sparse()}, "X is a sparse tensor", ".to_dense()"),
    "list of tensors with gradients": (
        {"X": [torch.ones(2, requires_grad=True)] * N},
        "X cannot be read as a table of numbers",
        "pass one array or tensor",
    ),
    # Positive numbers
    **{
        f"{argument}={value!r}": ({argument: value}, f"{argument}=", POSITIVE)
        for argument in ("regularization", "init_scale")
        for value in (0, -1.0, nan, inf, "1", b"1", None, True, np.True_, [1.0, 2.0], 1j, 10**400)
    },
    **{
        f"penalty={value!r}": ({"penalty": value}, "penalty=", POSITIVE)
        for value in (0, -1.0, nan, inf, None, True, 1j, {}, 10**400)
    },
    **{
        f"tol={value!r}": ({"tol": value}, "tol=", "must be a finite number, at least 0")
        for value in (-1e-9, nan, inf, "1e-8", None, True)
    },
    "penalty is a name": ({"penalty": "rule"}, "penalty='rule' is unknown", "pass a positive number, or one per layer"),
    "too few penalties": (
        {"penalty": [1.0, 2.0]},
        "penalty has 2 entries, but the network has 3 layers",
        "one number for all, or one per layer",
    ),
    "no penalties": ({"penalty": ()}, "penalty has 0 entries", "one per layer"),
    "second penalty is negative": ({"penalty": [1.0, -2.0, 1.0]}, "penalty[1]=-2.0", POSITIVE),
    "third penalty is NaN": ({"penalty": (1, 1, nan)}, "penalty[2]=nan", POSITIVE),
    "first penalty is text": ({"penalty": ["1", 1, 1]}, "penalty[0]='1'", POSITIVE),
    "penalties are nested": ({"penalty": [1, [2], 1]}, "penalty[1]=[2]", POSITIVE),
    "penalties are a matrix": ({"penalty": np.ones((3, 3))}, "penalty[0]=array([1., 1., 1.])", POSITIVE),
    "regularization is a matrix": ({"regularization": np.ones((9, 9))}, "regularization=array([[1.", POSITIVE),
    # Whole numbers
    **{
        f"{argument}={value!r}": ({argument: value}, f"{argument}=", WHOLE + " 1")
        for argument in ("max_iter", "check_every")
        for value in (0, -5, 10.0, "10", None, True, nan)
    },
    **{
        f"hidden={value!r}": ({"hidden": value}, "hidden=", WHOLE + " 1, or a list of such widths")
        for value in (0, -4, 4.0, "abc", "4", None, True, {}, Decimal(4))
    },
    "hidden is too wide": ({"hidden": 2**70}, "must be at most 2147483647"),
    "hidden is empty": ({"hidden": ()}, "hidden is empty", "at least one hidden layer", "hidden=(100,)"),
    "hidden has a zero": ({"hidden": (4, 0)}, "hidden[1]=0", WHOLE + " 1"),
    "hidden has a float": ({"hidden": [4, 3.0]}, "hidden[1]=3.0", WHOLE + " 1"),
    "hidden has None": ({"hidden": [None]}, "hidden[0]=None", WHOLE + " 1"),
    "hidden is nested": ({"hidden": ((4, 3),)}, "hidden[0]=(4, 3)", WHOLE + " 1"),
    "hidden is ragged": ({"hidden": [4, [3]]}, "hidden[1]=[3]", WHOLE + " 1"),
    "hidden is a float array": ({"hidden": np.array([4.0, 3.0])}, "hidden[0]=np.float64(4.0)", WHOLE + " 1"),
    "seed is negative": ({"seed": -1}, "seed=-1", WHOLE + " 0"),
    "seed is a float": ({"seed": 1.0}, "seed=1.0", WHOLE + " 0"),
    "seed is None": ({"seed": None}, "seed=None", WHOLE + " 0"),
    "seed is too large": ({"seed": 2**63}, "seed=9223372036854775808 must be below 2**63"),
    # Names
    "unknown activation": (
        {"activation": "sigmod"},
        "activation='sigmod' is unknown",
        'did you mean "sigmoid"?',
        '"tanh"',
    ),
    "activation in capitals": ({"activation": "TANH"}, "activation='TANH' is unknown", 'did you mean "tanh"?'),
    "excluded activation": ({"activation": "relu"}, "activation='relu' is unknown", 'Valid: "sigmoid", "tanh"'),
    "unknown method": ({"method": "papr"}, "method='papr' is unknown", 'did you mean "paper"?'),
    "unknown loss": ({"loss": "square_error"}, "loss='square_error' is unknown", 'did you mean "squared_error"?'),
    "unknown curvature": ({"curvature": "tigth"}, "curvature='tigth' is unknown", 'did you mean "tight"?'),
    "unknown init": ({"init": "msr"}, "init='msr' is unknown", 'did you mean "msra"?'),
    "unknown init beside initial": ({"init": "msr", "initial": WEIGHTS}, "init='msr' is unknown"),
    "unknown dtype": ({"dtype": "float23"}, "dtype='float23' is unknown", 'did you mean "float32"?'),
    "half precision": ({"dtype": np.float16}, "dtype='float16' is unknown", 'Valid: "float64", "float32"'),
    "torch's half precision": ({"dtype": torch.bfloat16}, "dtype='bfloat16' is unknown", 'Valid: "float64", "float32"'),
    "unknown device": (
        {"device": "cudda"},
        "device='cudda' is unknown",
        'did you mean "cuda"?',
        'Valid: "auto", "cpu"',
    ),
    "device that holds no numbers": ({"device": "meta"}, "device='meta' cannot be used", 'use "cpu" or "auto"'),
    "device that is an array": ({"device": np.ones(2)}, "device=array([1., 1.]) is unknown", "Valid:"),
    **{
        f"{argument}={value!r}": ({argument: value}, f"{argument}={value!r} is unknown", "Valid: ")
        for argument in ("activation", "method", "loss", "curvature", "init", "dtype", "device")
        for value in (None, 0.5, ["paper"])
    },
    # Switches
    **{
        f"{argument}={value!r}": ({argument: value}, f"{argument}={value!r} must be True or False")
        for argument in ("bias", "regularize_bias")
        for value in (1, None, "no")
    },
    # Weights to start from
    "initial has too few layers": (
        {"initial": WEIGHTS[:2]},
        "initial has 2 layers, but hidden and the data make 3 (2-4-3-1)",
        "one (W, b) pair per layer",
    ),
    "initial is a number": ({"initial": 5}, "initial=5 must be a list of pairs (W, b)", "network.weights"),
    "initial is text": ({"initial": "network"}, "initial='network' must be a list of pairs (W, b)"),
    "initial has no pairs": ({"initial": [1, 2, 3]}, "initial[0] must be a pair (W, b)", "b=None"),
    "initial has single matrices": ({"initial": [W for W, _ in WEIGHTS]}, "initial[0] must be a pair (W, b)"),
    "a transposed W": (
        {"initial": given(1, np.ones((4, 3)), None)},
        "W of initial[1] has the shape (4, 3), but hidden and the data make it (3, 4)",
    ),
    "a b of wrong length": (
        {"initial": given(1, np.ones((3, 4)), np.ones(4))},
        "b of initial[1] has the shape (4,)",
        "(3,)",
    ),
    "a W with NaN": (
        {"initial": given(0, np.full((4, 2), nan), None)},
        "W of initial[0] contains NaN or infinite values",
        "pass finite numbers",
    ),
    "a b with infinities": ({"initial": given(2, np.ones((1, 3)), [inf])}, "b of initial[2] contains NaN or infinite"),
    "a W that is None": ({"initial": given(0, None, None)}, "W of initial[0] is of type NoneType", "pass an array"),
    "a complex W": ({"initial": given(0, np.full((4, 2), 1j), None)}, "W of initial[0] is complex"),
    "a W of text": ({"initial": given(0, [["1", "2"]] * 4, None)}, "W of initial[0] has the non-numeric entry"),
    "thresholds though bias=False": (
        {"initial": given(1, np.ones((3, 4)), np.ones(3)), "bias": False},
        "b of initial[1] is not zero, but bias=False",
        "b=None or bias=True",
    ),
    "seed beside initial": ({"initial": WEIGHTS, "seed": -1}, "seed=-1", WHOLE),
    # Callbacks
    "callbacks is None": ({"callbacks": None}, "callbacks=None must be a list", "callbacks=[]"),
    "callbacks is a number": ({"callbacks": 5}, "callbacks=5 must be a list"),
    "callbacks is a function": ({"callbacks": print}, "callbacks must be a list", "callbacks=[...]"),
    "callbacks is a callback": ({"callbacks": Watch()}, "callbacks must be a list", "callbacks=[...]"),
    "callbacks has a number": ({"callbacks": [Watch(), 5]}, "callbacks has an entry of type int", "pass functions or"),
    "callbacks has a class": ({"callbacks": [Watch]}, "callbacks has the class Watch", "pass an object: Watch()"),
}


@pytest.mark.parametrize("case", CASES)
def test_train_refuses(case):
    arguments, *words = CASES[case]
    check(refusal(**arguments), *words)


def test_the_arguments_that_the_cases_start_from_are_good():
    result = sigmadmm.train(X, Y, hidden=(4, 3), initial=WEIGHTS, method="paper", max_iter=2)
    assert result.n_iter == 2


def test_invalid_input_is_a_value_error():
    assert issubclass(InvalidInput, ValueError)


@pytest.mark.parametrize("baseline", [baselines.random_features_ridge, baselines.lbfgs])
@pytest.mark.parametrize(
    "case",
    [
        "X has a NaN",
        "X is one column",
        "Y is longer",
        "regularization=-1.0",
        "hidden is empty",
        "unknown activation",
        "unknown init",
        "unknown dtype",
        "seed is negative",
        "a transposed W",
        "bias=None",
    ],
)
def test_baselines_refuse_by_the_same_sentences(baseline, case):
    arguments, *words = CASES[case]
    message = refusal(baseline, **arguments)
    check(message, *words)
    assert message == refusal(**arguments)


@pytest.mark.parametrize("value", [0, 2.0, None])
def test_lbfgs_refuses_a_wrong_max_iter(value):
    check(refusal(baselines.lbfgs, max_iter=value), f"max_iter={value!r}", WHOLE + " 1")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (X[:, :1], ("X has 1 features, but the network was trained on 2", "same columns in the same order")),
        (np.ones((3, 5)), ("X has 5 features, but the network was trained on 2",)),
        (X[0], ("X must have the shape (samples, columns)", "X.reshape(1, -1) for one sample")),
        (put(X, ((1, 1), nan)), ("X has 1 " + NOT_FINITE, "row 1, column 1")),
        ([["a", "b"]], ("X has the non-numeric entry",)),
        (X[:0], ("X is empty: it has no samples",)),
        (None, ("X is of type NoneType",)),
    ],
)
def test_predict_refuses(rows, words):
    network = sigmadmm.train(X, Y, hidden=(4,), max_iter=1).network
    with pytest.raises(InvalidInput) as caught:
        network.predict(rows)
    check(str(caught.value), *words)


def test_a_long_value_is_shortened_in_the_message():
    message = refusal(hidden="a" * 1000)
    check(message, "hidden='aaaa", "aaa... must be")
    assert len(message) < 140


# pandas


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"size": np.arange(N) / N} | columns)


def test_text_column_is_refused_by_name():
    message = refusal(X=frame(colour=["red"] * N))
    check(message, "X has the column 'colour'", "which is not numeric", "drop it or encode it as numbers")


def test_column_of_numbers_written_as_text_is_refused_by_name():
    check(refusal(X=frame(price=["1.5"] * N)), "X has the column 'price'", "encode it as numbers")
    check(refusal(X=frame(price=np.array(["1.5"] * N, dtype=object))), "X has the column 'price'", "encode it")


@pytest.mark.parametrize("timezone", [None, "UTC"])
def test_date_column_is_refused_by_name(timezone):
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2020-01-01", periods=N, tz=timezone)
    check(refusal(X=frame(when=dates)), "X has the column 'when' of type datetime64", "encode it as numbers")
    check(refusal(X=frame(age=dates - dates[0])), "X has the column 'age' of type timedelta64")


def test_category_and_complex_columns_are_refused_by_name():
    """A complex column once lost its imaginary part."""
    pandas = pytest.importorskip("pandas")
    check(refusal(X=frame(kind=pandas.Categorical(["a", "b"] * 6))), "X has the column 'kind' of type category")
    check(refusal(X=frame(wave=np.full(N, 1j))), "X has the column 'wave' of type complex128")
    days = pandas.period_range("2020-01-01", periods=N, freq="D")
    check(refusal(X=frame(day=days)), "X has the column 'day' of type period[D]", "encode it as numbers")


def test_missing_values_of_a_frame_are_counted_with_their_position():
    pandas = pytest.importorskip("pandas")
    missing = pandas.array([1, 2, None, 4, None] + [6] * 7, dtype="Int64")
    check(refusal(X=frame(count=missing)), "X has 2 " + NOT_FINITE, "row 2, column 1", "drop or fill")
    check(refusal(X=frame(half=[nan] + [1.0] * 11)), "X has 1 " + NOT_FINITE, "row 0, column 1")


def test_series_are_refused_like_columns():
    pandas = pytest.importorskip("pandas")
    check(refusal(Y=pandas.Series(["low"] * N, name="level")), "Y has the column 'level'", "encode it as numbers")
    check(refusal(Y=pandas.Series(["low"] * N)), "Y has a column of type", "encode it as numbers")
    check(refusal(Y=pandas.Series([None] + [1] * 11, dtype="Int64")), "Y has 1 " + NOT_FINITE, "row 0")
    check(refusal(X=pandas.Series(range(N))), "X must have the shape (samples, columns), got 1 dimension(s)")


def test_empty_frames_are_refused():
    check(refusal(X=frame()[[]]), "X is empty: it has no columns")
    check(refusal(X=frame().iloc[:0]), "X is empty: it has no samples")
