"""What a run recorded: columns by name, one entry per checked iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import pytest

from sigmadmm import History, Status, train
from sigmadmm.admm.diagnostics import Measures

X = np.linspace(-1, 1, 20).reshape(-1, 1)
Y = X[:, 0] ** 2
COLUMNS = {"iteration", "seconds", "lyapunov"} | {field.name for field in fields(Measures)}


def history_of(**arguments) -> History:
    return train(X, Y, **{"hidden": (5, 4), "max_iter": 7, "method": "paper"} | arguments).history


def test_history_is_a_mapping_of_columns():
    history = history_of()
    assert isinstance(history, Mapping)
    assert set(history) == COLUMNS
    assert len(history) == len(COLUMNS)
    assert history.n_entries == 7
    assert "objective" in history
    assert "loss" not in history
    assert set(dict(history)) == COLUMNS
    assert history.get("loss") is None


def test_columns_are_arrays_with_one_entry_per_check():
    history = history_of()
    for name, column in history.items():
        assert isinstance(column, np.ndarray), name
        assert len(column) == 7, name
        assert np.isfinite(column).all(), name
    assert history["objective"].shape == (7,)
    assert history["kkt"].shape == (7, 8)
    assert history["kkt_relative"].shape == (7, 8)
    assert history["saturation"].shape == (7, 2)
    assert history["iteration"].dtype.kind == "i"


def test_unknown_column_names_the_columns():
    with pytest.raises(KeyError) as caught:
        history_of()["loss"]
    message = caught.value.args[0]
    assert message.startswith("'loss'; the columns are iteration, seconds, objective")
    assert all(column in message for column in COLUMNS)


def test_entry_0_is_after_iteration_1():
    result = train(X, Y, hidden=(5,), method="paper", max_iter=1, regularization=0.1)
    assert result.history["iteration"].tolist() == [1]
    weights = result.network.weights
    squares = sum(np.sum(W**2) + np.sum(b**2) for W, b in weights)
    F = np.sum((result.network.predict(X) - Y) ** 2) / 2 + 0.1 / 2 * squares
    assert result.history["objective"][0] == pytest.approx(F, rel=1e-12)
    longer = train(X, Y, hidden=(5,), method="paper", max_iter=4, regularization=0.1)
    assert longer.history["objective"][0] == result.history["objective"][0]


@pytest.mark.parametrize(
    ("max_iter", "check_every", "checked"),
    [(10, 3, [1, 4, 7, 10]), (9, 3, [1, 4, 7, 9]), (3, 50, [1, 3]), (1, 3, [1]), (2, 1, [1, 2]), (4, 2, [1, 3, 4])],
)
def test_check_every_measures_the_first_every_so_manieth_and_the_last(max_iter, check_every, checked):
    assert history_of(max_iter=max_iter, check_every=check_every)["iteration"].tolist() == checked


def test_checking_less_often_measures_the_same_numbers():
    every, third = history_of(max_iter=10), history_of(max_iter=10, check_every=3)
    for name in COLUMNS - {"seconds"}:
        assert np.array_equal(every[name][[0, 3, 6, 9]], third[name]), name


def test_seconds_increase():
    seconds = history_of()["seconds"]
    assert seconds[0] > 0
    assert (np.diff(seconds) > 0).all()


def test_last_is_the_newest_entry():
    history = history_of()
    assert set(history.last) == COLUMNS
    assert history.last["iteration"] == 7
    assert history.last["objective"] == history["objective"][-1]
    assert np.array_equal(history.last["kkt"], history["kkt"][-1])


def test_columns_are_copies():
    history = history_of()
    history["objective"][:] = 0
    assert (history["objective"] > 0).all()


def test_repr_says_how_long_and_what():
    text = repr(history_of(max_iter=2))
    assert text.startswith("History(2 entries: iteration, seconds, objective, train_mse, ")


def test_history_of_a_run_that_broke_at_once_is_empty_and_readable():
    result = train(X, 1e200 * Y, hidden=(5,), method="paper")
    assert result.status is Status.BROKEN
    history = result.history
    assert (len(history), history.n_entries, list(history)) == (0, 0, [])
    assert history["objective"].shape == (0,)
    assert repr(history) == "History(0 entries: )"
