"""The loop: history, stopping, broken numbers, best and last, batches."""

import math
import pickle

import numpy as np
import pytest
import torch

import sigmadmm
from helpers import network, small_run
from sigmadmm.admm.ledger import Ledger
from sigmadmm.admm.loop import Run, iterate
from sigmadmm.network import Layer

SQUARE = sigmadmm.datasets.square(n=60)
SMALL = {"hidden": (8, 8), "method": "paper", "max_iter": 12, "init": "lecun_normal"}


def run_loop(small, callbacks=(), max_iter=10, tol=0.0, check_every=1):
    run = Run(small.method, small.problem, small.state, max_iter, tol, check_every)
    iterate(run, callbacks)
    return run.ledger, run.history


def test_same_seed_twice_gives_the_same_bits():
    a, b = (sigmadmm.train(*SQUARE, **SMALL, seed=3) for _ in range(2))
    for (W, t), (W2, t2) in zip(a.network.weights, b.network.weights, strict=True):
        assert np.array_equal(W, W2)
        assert np.array_equal(t, t2)
    assert np.array_equal(a.history["lagrangian"], b.history["lagrangian"])
    assert np.array_equal(a.history["kkt"], b.history["kkt"])


def test_another_seed_gives_another_network():
    a, b = (sigmadmm.train(*SQUARE, **SMALL, seed=seed) for seed in (3, 4))
    assert not np.array_equal(a.network.weights[0][0], b.network.weights[0][0])


@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_of_seven_equals_the_seven_alone(bias):
    """Twenty iterations at lambda = 1e-3, to 1e-9."""
    dims = (2, 20, 15, 2)
    batch = small_run(dims, batch=7, regularization=1e-3, bias=bias, n=80)
    alone = []
    for b in range(7):
        one = small_run(dims, regularization=1e-3, bias=bias, n=80)
        layers = [Layer(W[b], None if t is None else t[b]) for W, t in batch.state.layers]
        one.restart(layers, batch.X[b].clone(), batch.Y[b].clone())
        one.steps(20)
        alone.append(one.iterate())
    batch.steps(20)
    for b in range(7):
        mine = network(batch, b)
        for together, separate in zip(
            [*(layer.matrix for layer in mine.layers), *mine.V, *mine.Lam],
            [*(layer.matrix for layer in alone[b].layers), *alone[b].V, *alone[b].Lam],
            strict=True,
        ):
            assert (together - separate).norm() <= 1e-9 * separate.norm().clamp_min(1e-3)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None, None]


@pytest.mark.parametrize("own", ["penalty", "regularization", "weights", "X", "Y"])
def test_whatever_the_networks_of_a_batch_differ_in_each_is_as_alone(own):
    """A batch in which only lambda, only beta or only the targets differed once failed, or broadcast by luck."""
    dims, betas, lams = (1, 9, 8, 1), [0.5, 1.0, 4.0], [1e-4, 1e-2, 1.0]
    source = small_run(dims, batch=3)
    mine = lambda name, b: b if own == name else 0  # noqa: E731 - which entry network b has of what is not shared
    batch = small_run(
        dims,
        batch=3,
        penalty=[column(*betas) if own == "penalty" else column(betas[0])] * 3,
        regularization=column(*lams) if own == "regularization" else column(lams[0]),
    )
    layers = [Layer(W, t) if own == "weights" else Layer(W[0], t[0]) for W, t in source.state.layers]
    X, Y = (data if own == name else data[0] for name, data in (("X", source.X), ("Y", source.Y)))
    batch.restart(layers, X.clone(), Y.clone())
    batch.steps(6)
    for b in range(3):
        one = small_run(dims, penalty=betas[mine("penalty", b)], regularization=lams[mine("regularization", b)])
        weights = [Layer(W[mine("weights", b)], t[mine("weights", b)]) for W, t in source.state.layers]
        one.restart(weights, source.X[mine("X", b)].clone(), source.Y[mine("Y", b)].clone())
        one.steps(6)
        for together, separate in zip(network(batch, b).layers, one.state.layers, strict=True):
            torch.testing.assert_close(together.matrix, separate.matrix, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("columns", [1, 7, 20, 60])
def test_shards_give_what_one_array_gives(columns):
    whole = small_run((2, 10, 8, 2), n=60, regularization=1e-3)
    pieces = small_run((2, 10, 8, 2), n=60, regularization=1e-3, shard_columns=columns)
    assert len(pieces.state.data.shards) == math.ceil(60 / columns)
    whole.steps(10)
    pieces.steps(10)
    for a, b in zip(whole.state.layers, pieces.state.layers, strict=True):
        assert (a.matrix - b.matrix).norm() <= 1e-9 * a.matrix.norm()


def test_it_stops_when_both_residuals_are_within_tolerance():
    result = sigmadmm.train(*SQUARE, **SMALL | {"max_iter": 5000}, regularization=5.0, penalty=2.0, tol=1e-6)
    line = result.history.last
    assert result.status is sigmadmm.Status.CONVERGED
    assert result.n_iter == line["iteration"] < 5000
    assert line["primal_residual"] <= line["primal_tolerance"]
    assert line["dual_residual"] <= line["dual_tolerance"]
    before = {name: column[-2] for name, column in result.history.items()}
    assert before["primal_residual"] > before["primal_tolerance"] or before["dual_residual"] > before["dual_tolerance"]
    assert "Converged after" in result.message


def test_running_out_of_iterations_says_which_residual_failed():
    result = sigmadmm.train(*SQUARE, **SMALL, tol=1e-12)
    assert result.status is sigmadmm.Status.MAX_ITER
    assert result.n_iter == 12
    assert "12 iterations" in result.message
    assert "dual residual" in result.message
    assert "above its tolerance" in result.message


def test_only_the_failed_residual_is_named():
    from sigmadmm.admm.status import out_of_iterations as sentence

    line = {
        "iteration": 3,
        "primal_residual": 1.0,
        "primal_tolerance": 2.0,
        "dual_residual": 5.0,
        "dual_tolerance": 2.0,
    }
    message = sentence(line, ("primal", "dual"), "Do this.")
    assert "primal" not in message
    assert "dual residual 5.00e+00 is above its tolerance 2.00e+00. Do this." in message


@pytest.mark.parametrize("every", [1, 3, 5])
def test_checked_iterations(every):
    result = sigmadmm.train(*SQUARE, **SMALL, check_every=every)
    expected = sorted({*range(1, 13, every), 12})
    assert result.history["iteration"].tolist() == expected
    full = sigmadmm.train(*SQUARE, **SMALL)
    kept = np.isin(full.history["iteration"], expected)
    for name in set(full.history) - {"seconds"}:
        assert np.array_equal(result.history[name], full.history[name][kept]), name


def test_best_is_the_checked_iterate_with_the_lowest_objective():
    result = sigmadmm.train(*SQUARE, **SMALL | {"max_iter": 40})
    F = result.history["objective"]
    assert result.best_iteration == 1 + F.argmin()
    again = sigmadmm.train(*SQUARE, **SMALL | {"max_iter": result.best_iteration})
    for (W, b), (W2, b2) in zip(result.best_network.weights, again.network.weights, strict=True):
        assert np.array_equal(W, W2)
        assert np.array_equal(b, b2)


@pytest.mark.parametrize("block", ["W_3", "W_1", "V_1", "V_2", "V_3"])
def test_a_broken_number_is_named_and_the_best_network_kept(block):
    """Iteration 4 is made to produce NaN in one block; the message must say so, and nothing NaN is returned."""
    run = small_run((2, 6, 5, 1))
    layer, original = int(block[2]) - 1, run.method.step

    def poison(state, watch):
        if state.iteration == 3:
            if block[0] == "W":
                state.memory.sums[layer].cross[0, 0] = torch.nan
            else:
                run.shard.U[layer][0, 0] = torch.nan
        return original(state, watch)

    run.method.step = poison
    ledger, history = run_loop(run, check_every=3)
    assert ledger.status.item() is sigmadmm.Status.BROKEN
    # A NaN multiplier of layer i is first read by the V-block below it, through B_i.
    first = block if block[0] == "W" else f"V_{max(1, layer)}"
    assert f"iteration 4 the {first} block" in ledger.message.item()
    assert history["iteration"].tolist() == [1]
    assert ledger.best_iteration == 1
    for layer_ in [*ledger.last, *ledger.best]:
        assert torch.isfinite(layer_.matrix).all()


def test_if_even_the_first_iteration_breaks_the_initial_network_is_kept():
    run = small_run((2, 6, 5, 1))
    start = run.state.layers
    original = run.method.start

    def poisoned_start(state):
        original(state)
        state.memory.sums[0].cross[0, 0] = torch.nan

    run.method.start = poisoned_start
    ledger, history = run_loop(run)
    assert ledger.status.item() is sigmadmm.Status.BROKEN
    assert "initial network" in ledger.message.item()
    assert history.n_entries == 0
    assert all(torch.equal(a.W, b.W) for a, b in zip(ledger.best, start, strict=True))


def test_overflow_of_real_data_is_a_status_not_an_exception():
    X, y = SQUARE
    result = sigmadmm.train(X, y * 1e200, **SMALL)
    assert result.status is sigmadmm.Status.BROKEN
    assert "iteration 1" in result.message
    assert np.isfinite(result.best_network.predict(X)).all()


def test_one_network_of_a_batch_breaks_and_the_others_do_not_notice():
    healthy = small_run((2, 6, 5, 1), batch=3)
    expected, _ = run_loop(healthy)
    run = small_run((2, 6, 5, 1), batch=3)
    original = run.method.start

    def poisoned_start(state):
        original(state)
        state.memory.sums[1].cross[1, 0, 0] = torch.nan

    run.method.start = poisoned_start
    ledger, history = run_loop(run)
    assert [status.name for status in ledger.status] == ["MAX_ITER", "BROKEN", "MAX_ITER"]
    assert ledger.n_iter.tolist() == [10, 0, 10]
    assert history["objective"].shape == (10, 3)
    for mine, theirs in zip(ledger.last, expected.last, strict=True):
        for b in (0, 2):
            torch.testing.assert_close(mine.W[b], theirs.W[b], rtol=1e-9, atol=1e-11)
        assert torch.isfinite(mine.W).all()


def test_a_converged_network_of_a_batch_keeps_its_weights_while_others_go_on():
    run = small_run((2, 6, 5, 1), batch=2, n=30, regularization=column(50.0, 1e-6))
    seen = {}
    ledger, _ = run_loop(run, max_iter=400, tol=1e-5, callbacks=[_Watch(seen)])
    assert [status.name for status in ledger.status] == ["CONVERGED", "MAX_ITER"]
    assert ledger.n_iter[0] < 400
    assert torch.equal(ledger.last[0].W[0], seen[ledger.n_iter[0]])


class _Watch(sigmadmm.Callback):
    def __init__(self, seen):
        self.seen = seen

    def on_check(self, run):
        self.seen[run.iteration] = run.state.layers[0].W[0].clone()


def test_settings_repeat_the_run():
    first = sigmadmm.train(*SQUARE, **SMALL, seed=5, regularization=1e-3)
    second = sigmadmm.train(*SQUARE, **first.settings)
    assert np.array_equal(first.history["objective"], second.history["objective"])


def test_features_whose_squares_overflow_break_the_first_weight_block():
    X, y = SQUARE
    result = sigmadmm.train(X * 1e200, y, **SMALL)
    assert result.status is sigmadmm.Status.BROKEN
    assert "W_1" in result.message


def test_when_a_callback_fails_to_start_the_ones_before_it_are_ended():
    ended = []

    class First(sigmadmm.Callback):
        def on_end(self, run):
            ended.append(True)

    class Second(sigmadmm.Callback):
        def on_start(self, run):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        sigmadmm.train(*SQUARE, **SMALL, callbacks=[First(), Second()])
    assert ended == [True]


@pytest.mark.parametrize("flat", [True, False])
def test_a_callback_predicts_in_the_shape_of_the_targets(flat):
    X, y = SQUARE
    shapes = []
    sigmadmm.train(
        X, y if flat else y[:, None], **SMALL, callbacks=[lambda run: shapes.append(run.network.predict(X).shape)]
    )
    assert set(shapes) == {(60,) if flat else (60, 1)}


def test_histories_compare_by_their_numbers():
    a, b, c = (sigmadmm.train(*SQUARE, **SMALL, seed=seed).history for seed in (1, 1, 2))
    for history in (a, b, c):
        for line in history._rows:
            line["seconds"] = 0.0
    assert a == b
    assert a != c
    assert a != {}


def test_an_infinite_residual_is_never_within_an_infinite_tolerance():
    """Once "converged": inf <= inf."""
    X, y = SQUARE
    result = sigmadmm.train(X, y, hidden=(5,), method="paper", penalty=1e200, max_iter=3)
    assert result.status is sigmadmm.Status.BROKEN
    assert "dual residual overflowed" in result.message
    assert np.isfinite(result.best_network.predict(X)).all()


def test_raised_diagonals_are_counted_in_the_result():
    """Identical features and next to no regularization: rounding makes the Gram matrix indefinite."""
    X = np.repeat(SQUARE[0], 30, axis=1)
    options = SMALL | {"hidden": (20, 20), "init_scale": 1e-3, "max_iter": 5}
    assert sigmadmm.train(X, SQUARE[1], **options, regularization=1e-300).counters["raised diagonals"] > 0
    assert sigmadmm.train(X, SQUARE[1], **options, regularization=1.0).counters["raised diagonals"] == 0


def test_a_network_that_has_ended_keeps_its_best_whatever_comes():
    layers = [Layer(torch.zeros(2, 1, 1, dtype=torch.float64), None)]
    ledger = Ledger(layers, (2,))
    better = [Layer(torch.ones(2, 1, 1, dtype=torch.float64), None)]
    ledger.record(layers, torch.tensor([5.0, 5.0], dtype=torch.float64), 1)
    ledger.end((0,), sigmadmm.Status.STOPPED, "")
    ledger.record(better, torch.tensor([1.0, 1.0], dtype=torch.float64), 2)
    assert ledger.best[0].W.flatten().tolist() == [0, 1]
    assert ledger.best_iteration.tolist() == [1, 2]
    assert ledger.best_objective.tolist() == [5, 1]


def test_settings_do_not_change_with_the_users_lists():
    hidden, initial = [8, 8], sigmadmm.train(*SQUARE, **SMALL).network.weights
    result = sigmadmm.train(*SQUARE, **SMALL | {"hidden": hidden}, initial=initial)
    hidden.append(3)
    initial[0][0][:] = 0
    again = sigmadmm.train(*SQUARE, **result.settings)
    assert np.array_equal(again.history["objective"], result.history["objective"])


def test_the_state_is_kept_only_on_request():
    assert sigmadmm.train(*SQUARE, **SMALL).state is None
    state = sigmadmm.train(*SQUARE, **SMALL, keep_state=True).state
    assert state.iteration == SMALL["max_iter"]
    assert state.data.n_samples == len(SQUARE[0])


def test_results_survive_pickling():
    result = sigmadmm.train(*SQUARE, **SMALL, keep_state=True)
    again = pickle.loads(pickle.dumps(result))
    assert again.history == result.history
    assert again.status is result.status
    assert np.array_equal(again.network.predict(SQUARE[0]), result.network.predict(SQUARE[0]))


def test_every_callback_is_ended_even_if_another_one_fails():
    ended = []

    class Failing(sigmadmm.Callback):
        def on_end(self, run):
            ended.append("failing")
            raise RuntimeError("no disk")

    class Patient(sigmadmm.Callback):
        def on_end(self, run):
            ended.append("patient")

    with pytest.raises(RuntimeError, match="no disk"):
        sigmadmm.train(*SQUARE, **SMALL, callbacks=[Patient(), Failing(), Patient()])
    assert ended == ["patient", "failing", "patient"]


def test_an_empty_history_says_so():
    X, y = SQUARE
    result = sigmadmm.train(X, y * 1e200, **SMALL)
    with pytest.raises(LookupError, match="the history is empty"):
        _ = result.history.last
