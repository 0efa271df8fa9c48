"""Hooks into a run: what they see, how they stop it, and that on_end comes whatever happens."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

from sigmadmm import Callback, InvalidInput, PrintProgress, ProgressBar, Status, train

X = np.linspace(-1, 1, 20).reshape(-1, 1)
Y = X[:, 0] ** 2
OVERFLOWING = 1e200 * Y  # finite, but its square is not


def run(*callbacks, y=Y, **arguments):
    return train(X, y, **{"hidden": (5,), "max_iter": 6, "method": "paper"} | arguments, callbacks=callbacks)


class Log(Callback):
    """Writes down which hook was called, and after which iteration."""

    def __init__(self, name="", log=None):
        self.name = name
        self.log = [] if log is None else log

    def on_start(self, run):
        self.log.append((self.name + "start", run.iteration))

    def on_check(self, run):
        self.log.append((self.name + "check", run.iteration))

    def on_end(self, run):
        self.log.append((self.name + "end", run.iteration))


def stop_at(iteration, reason="enough"):
    return lambda run: run.stop(reason) if run.iteration == iteration else None


def fail_at(iteration, error):
    def callback(run):
        if run.iteration == iteration:
            raise error

    return callback


# What they see


def test_function_is_called_after_every_iteration():
    seen = []
    result = run(lambda run: seen.append(run.iteration))
    assert seen == [1, 2, 3, 4, 5, 6]
    assert result.status is Status.MAX_ITER


def test_function_is_called_after_checked_iterations_only():
    seen = []
    run(lambda run: seen.append(run.iteration), max_iter=9, check_every=3)
    assert seen == [1, 4, 7, 9]


def test_hooks_of_an_object_are_called_in_order():
    log = Log()
    run(log, max_iter=2)
    assert log.log == [("start", 0), ("check", 1), ("check", 2), ("end", 2)]


def test_several_callbacks_are_called_in_the_order_of_the_list():
    log = []
    run(Log("a ", log), Log("b ", log), max_iter=1)
    assert [what for what, _ in log] == ["a start", "b start", "a check", "b check", "a end", "b end"]


def test_an_object_need_not_override_anything():
    assert run(Callback()).n_iter == 6


def test_callbacks_may_be_any_iterable():
    seen = []
    train(X, Y, hidden=(3,), method="paper", max_iter=1, callbacks=(f for f in [seen.append]))
    train(X, Y, hidden=(3,), method="paper", max_iter=1, callbacks=[seen.append])
    assert len(seen) == 2


def test_run_shows_history_network_and_settings():
    errors, objectives = [], []

    def look(run):
        errors.append(np.mean((run.network.predict(X) - Y) ** 2))
        objectives.append(run.history.last["objective"])
        assert run.history.n_entries == run.iteration == run.history.last["iteration"]
        assert (run.max_iter, run.tol) == (6, 1e-5)

    result = run(look, tol=1e-5)
    np.testing.assert_allclose(errors, result.history["train_mse"], rtol=1e-12)
    assert objectives == result.history["objective"].tolist()


def test_callbacks_do_not_change_the_run():
    plain, watched = run(), run(Log(), lambda run: run.network.predict(X))
    assert np.array_equal(plain.network.predict(X), watched.network.predict(X))


# Stopping


def test_stop_ends_the_run_after_this_iteration_with_the_reason():
    result = run(stop_at(3, "the curve is flat"))
    assert result.status is Status.STOPPED
    assert result.n_iter == 3
    assert result.message == "Stopped after 3 iterations by a callback: the curve is flat"
    assert result.history.n_entries == 3
    assert np.array_equal(result.network.predict(X), run(max_iter=3).network.predict(X))


def test_later_callbacks_still_see_the_iteration_that_stops():
    log = Log()
    run(stop_at(2), log)
    assert log.log == [("start", 0), ("check", 1), ("check", 2), ("end", 2)]


def test_stop_at_the_last_iteration_is_reported_as_a_stop():
    assert run(stop_at(6)).status is Status.STOPPED


# Exceptions


def test_exception_of_a_callback_propagates_after_every_on_end():
    log = []
    with pytest.raises(ZeroDivisionError, match="by the callback"):
        run(Log("a ", log), fail_at(2, ZeroDivisionError("by the callback")), Log("b ", log))
    assert log == [
        ("a start", 0),
        ("b start", 0),
        ("a check", 1),
        ("b check", 1),
        ("a check", 2),
        ("a end", 2),
        ("b end", 2),
    ]


def test_on_end_comes_after_keyboard_interrupt():
    log = Log()
    assert run(log, fail_at(1, KeyboardInterrupt())).status is Status.INTERRUPTED
    assert log.log[-1] == ("end", 1)


def test_on_end_comes_when_the_run_breaks_in_iteration_1():
    log = Log()
    result = run(log, y=OVERFLOWING)
    assert result.status is Status.BROKEN
    assert log.log == [("start", 0), ("end", 1)]


# PrintProgress

LINE = re.compile(
    r" *(\d+)  F \d\.\d{6}e[+-]\d\d  mse \d\.\d{3}e[+-]\d\d  primal \d\.\de[+-]\d\d  dual \d\.\de[+-]\d\d  \d+\.\d s"
)


def printed_iterations(text: str) -> list[int]:
    lines = text.splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    return [int(LINE.fullmatch(line)[1]) for line in lines]


@pytest.mark.parametrize(
    ("every", "max_iter", "expected"),
    [(1, 3, [1, 2, 3]), (2, 5, [1, 3, 5]), (2, 6, [1, 3, 5, 6]), (10, 4, [1, 4]), (10, 1, [1])],
)
def test_progress_is_printed_every_so_many_checks_and_once_for_the_last(every, max_iter, expected):
    """The last line was once printed twice when the last check was due anyway."""
    stream = io.StringIO()
    run(PrintProgress(every, stream), max_iter=max_iter)
    assert printed_iterations(stream.getvalue()) == expected


def test_printed_numbers_are_those_of_the_history():
    stream = io.StringIO()
    history = run(PrintProgress(1, stream), max_iter=2).history
    last = stream.getvalue().splitlines()[-1]
    assert f"F {history['objective'][-1]:.6e}  mse {history['train_mse'][-1]:.3e}" in last


def test_progress_counts_checks_not_iterations():
    stream = io.StringIO()
    run(PrintProgress(2, stream), max_iter=12, check_every=3)
    assert printed_iterations(stream.getvalue()) == [1, 7, 12]


def test_progress_goes_to_standard_output_by_default(capsys):
    run(PrintProgress(), max_iter=2)
    assert printed_iterations(capsys.readouterr().out) == [1, 2]


def test_one_printer_serves_two_runs():
    stream = io.StringIO()
    printer = PrintProgress(10, stream)
    run(printer, max_iter=3)
    run(printer, max_iter=2)
    assert printed_iterations(stream.getvalue()) == [1, 3, 1, 2]


def test_nothing_is_printed_for_a_run_without_a_finite_iterate():
    stream = io.StringIO()
    assert run(PrintProgress(1, stream), y=OVERFLOWING).status is Status.BROKEN
    assert stream.getvalue() == ""


@pytest.mark.parametrize("every", [0, -1, 2.0, None])
def test_printing_every_zero_checks_is_refused_at_once(every):
    """every=0 once ended in ZeroDivisionError after the first iteration."""
    with pytest.raises(InvalidInput, match=f"every={every} must be a whole number, at least 1"):
        PrintProgress(every)


# ProgressBar


def test_bar_follows_the_run():
    pytest.importorskip("rich")
    bar, seen = ProgressBar("fitting"), []
    result = run(bar, lambda run: seen.append(bar._bar.tasks[0].completed))
    assert seen == [1, 2, 3, 4, 5, 6]
    task = bar._bar.tasks[0]
    assert (task.description, task.total) == ("fitting", 6)
    assert f"F {result.history['objective'][-1]:.2e}" in task.fields["numbers"]
    assert not bar._bar.live.is_started


def test_bar_is_taken_down_after_an_exception():
    pytest.importorskip("rich")
    bar = ProgressBar()
    with pytest.raises(OSError, match="disk"):
        run(bar, fail_at(2, OSError("disk")))
    assert not bar._bar.live.is_started


def test_bar_without_rich_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r'ProgressBar needs rich: pip install "sigmadmm\[cli\]"'):
        ProgressBar()
