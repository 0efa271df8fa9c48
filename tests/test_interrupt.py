"""Ctrl-C: the run ends between two iterations, keeps its networks and gives the signal back."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from sigmadmm import Callback, Status, train
from sigmadmm.admm.interrupt import Interrupt
from sigmadmm.admm.paper import PaperADMM

X = np.linspace(-1, 1, 20).reshape(-1, 1)
Y = X[:, 0] ** 2


@pytest.fixture(autouse=True)
def handler():
    """A handler of the test's own, which must be back after every run and must not have been called."""
    calls = []

    def own(number, frame):
        calls.append(number)

    previous = signal.signal(signal.SIGINT, own)
    yield own
    assert signal.getsignal(signal.SIGINT) is own
    assert calls == []
    signal.signal(signal.SIGINT, previous)


def run(*callbacks, **arguments):
    return train(X, Y, **{"hidden": (5,), "max_iter": 10, "method": "paper"} | arguments, callbacks=callbacks)


def press_ctrl_c(times=1):
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)


def at(iteration, action):
    return lambda run: action() if run.iteration == iteration else None


def press_before_step(monkeypatch, iteration, times=1):
    """Ctrl-C in the middle of an iteration rather than in a callback."""
    step = PaperADMM.step

    def pressed(self, state, watch):
        if state.iteration + 1 == iteration:
            press_ctrl_c(times)
        return step(self, state, watch)

    monkeypatch.setattr(PaperADMM, "step", pressed)


def check_kept(result, iterations, **arguments):
    """Status and message say so, and the networks are those that a run of this length leaves."""
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == iterations
    count = "1 iteration" if iterations == 1 else f"{iterations} iterations"
    assert result.message == f"Interrupted after {count}; the last and the best network are kept."
    assert np.isfinite(result.best_network.predict(X)).all()
    if iterations:
        shorter = run(max_iter=iterations, **arguments)
        assert np.array_equal(result.network.predict(X), shorter.network.predict(X))
        assert np.array_equal(result.best_network.predict(X), shorter.best_network.predict(X))


def test_ctrl_c_ends_the_run_after_the_iteration():
    result = run(at(4, press_ctrl_c))
    check_kept(result, 4)
    assert result.history["iteration"].tolist() == [1, 2, 3, 4]


def test_ctrl_c_within_an_iteration_lets_it_finish(monkeypatch):
    press_before_step(monkeypatch, 4)
    result = run()
    monkeypatch.undo()
    check_kept(result, 4)


def test_ctrl_c_between_checks_measures_one_more_iteration_and_ends(monkeypatch):
    press_before_step(monkeypatch, 5)
    result = run(max_iter=1000, check_every=500)
    monkeypatch.undo()
    assert result.history["iteration"].tolist() == [1, 6]
    check_kept(result, 6, check_every=500)


def test_second_ctrl_c_ends_the_program_that_trains():
    """It was once swallowed, so that nothing short of a kill ended a loop of trainings."""
    ended = []
    with pytest.raises(KeyboardInterrupt):
        run(at(3, lambda: press_ctrl_c(2)), _End(ended))
    assert ended == [3]


@pytest.mark.parametrize("iteration", [1, 4])
def test_second_ctrl_c_within_an_iteration_ends_the_program_that_trains(monkeypatch, handler, iteration):
    press_before_step(monkeypatch, iteration, times=2)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) is handler


class _End(Callback):
    def __init__(self, ended):
        self.ended = ended

    def on_end(self, run):
        self.ended.append(run.iteration)


@pytest.mark.parametrize("iteration", [1, 5])
def test_keyboard_interrupt_raised_by_a_callback_counts_as_ctrl_c(iteration):
    def interrupt():
        raise KeyboardInterrupt

    check_kept(run(at(iteration, interrupt)), iteration)


def test_a_callback_that_stops_is_believed_before_ctrl_c():
    result = run(lambda run: (run.stop("done"), press_ctrl_c()))
    assert (result.status, result.n_iter) == (Status.STOPPED, 1)


def test_the_handler_is_given_back_after_an_exception(handler):
    def fail(run):
        assert signal.getsignal(signal.SIGINT) is not handler
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        run(fail)
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_after_a_run_works_as_usual(handler):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run(at(2, press_ctrl_c))
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
    signal.signal(signal.SIGINT, handler)


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(handler):
    """Worker processes do, so that their parent decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    result = run(at(2, press_ctrl_c))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 10)
    signal.signal(signal.SIGINT, handler)


def test_a_handler_that_is_not_pythons_is_left_alone(monkeypatch):
    """It could not be given back: `signal.signal(SIGINT, None)` once raised TypeError at the end of the run."""
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signal, "signal", lambda number, action: pytest.fail("the handler was replaced"))
    with Interrupt() as interrupt:
        assert not interrupt.requested
    assert run().status is Status.MAX_ITER
    monkeypatch.undo()


def test_a_run_in_another_thread_works_and_leaves_signals_alone(handler):
    results, handlers = [], []

    def work():
        results.append(run(lambda run: handlers.append(signal.getsignal(signal.SIGINT))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].status is Status.MAX_ITER
    assert set(handlers) == {handler}
    assert np.array_equal(results[0].network.predict(X), run().network.predict(X))
