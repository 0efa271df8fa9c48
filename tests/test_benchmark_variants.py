"""The comparison of variants changes one thing at a time, and its own solvers solve what they should."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from benchmarks import variants
from benchmarks.changes import changed
from benchmarks.tasks import TASKS, Task
from benchmarks.variant_solvers import LayerByLayer, LayersThenJoint, SinglePrecision
from benchmarks.variants import GROUPS, STARTS, UNCHANGED, Variant

import sigmadmm
from sigmadmm.admm.direct_solvers import BySamples
from sigmadmm.admm.joint_step import inner
from sigmadmm.admm.linearisation import as_layers, loss_residual, tangent
from sigmadmm.admm.synced import SyncedADMM
from sigmadmm.settings import Start
from sigmadmm.setup import set_up
from sigmadmm.training import begin

X = np.linspace(-1, 1, 30)[:, None]
START = {"task": "x^2", "init": "lecun", "lambda": 1e-2, "seed": 0}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(TASKS, "x^2", Task("x^2", (4, 3), lambda seed: (X, X**2), True))


def started(samples=30, tau=0.3):
    """A problem with two outputs, its state, and tau as solvers expect it.

    With thirty samples every layer has fewer weights than there are outputs, with three samples more.
    """
    Z = X[:samples]
    task = set_up(Z, np.hstack([Z**2, np.sin(Z)]), Start(hidden=(5, 4), regularization=1e-3, device="cpu"))
    state = begin(task)
    SyncedADMM(task.problem, BySamples()).start(state)
    return task.problem, state, torch.full((1, 1), tau, dtype=torch.float64)


def solve(solver, problem, state, tau, residual=None, term=None):
    system = solver.system(problem, state, None, tau, torch.tensor(0.01))
    decay = [problem.decay(layer) * layer.matrix for layer in state.layers]
    return system, system.solve(residual or (lambda shard: loss_residual(problem, shard)), term or decay)


def close(a, b, tolerance):
    return all(torch.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b, strict=True))


def test_what_was_changed_is_as_before_afterwards_even_after_an_error():
    before = {key: getattr(*key) for variant in variants.DIRECT.values() for key in variant.values}

    def failing():
        with changed(dict.fromkeys(before, None)):
            assert all(getattr(*key) is None for key in before)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert before == {key: getattr(*key) for key in before}


@pytest.mark.parametrize("group", GROUPS)
def test_every_variant_differs_from_the_method_as_it_is(group):
    base = GROUPS[group].variants[UNCHANGED]
    assert not base.values
    for name, variant in GROUPS[group].variants.items():
        differs = any(getattr(*key) != value for key, value in variant.values.items())
        assert differs or variant.solver is not base.solver or name == UNCHANGED


def test_starts_are_distinct_and_every_five_hold_every_function():
    assert len({tuple(start.values()) for start in STARTS}) == len(STARTS) == 20
    for i in range(0, 20, 5):
        assert {start["task"] for start in STARTS[i : i + 5]} == set(variants.FUNCTIONS)


def test_the_unchanged_method_is_that_of_the_library(tiny):
    points, seconds = variants.follow(START, Variant(), "iterations", 6)
    result = sigmadmm.train(
        X, X**2, hidden=(4, 3), solver="samples", init="lecun_uniform", regularization=1e-2, max_iter=6, device="cpu"
    )
    assert points == list(enumerate(result.history["objective"], start=1))
    assert seconds > 0


def test_a_run_that_has_stalled_costs_no_more_time(tiny):
    points, _ = variants.follow(START, Variant(), "iterations", 1000)
    assert len(points) < 200


def test_conjugate_gradients_are_counted_where_they_are_what_counts(tiny):
    group = GROUPS["cg"]
    points, _ = variants.follow(START, group.variants[UNCHANGED], group.counted, 15)
    assert points[-1][0] >= 15 > points[-2][0]
    assert len(points) < 15


@pytest.mark.parametrize("samples", [3, 30])
def test_sweeps_layer_by_layer_repeated_arrive_at_the_joint_step(samples):
    problem, state, tau = started(samples, tau=3.0)
    _, joint = solve(BySamples(), problem, state, tau)
    system, step = solve(LayerByLayer(), problem, state, tau)
    assert [layer.by_weights for layer in system.systems] == ([True] * 3 if samples == 30 else [False] * 3)
    assert not close(step, joint, 1e-3)
    decay = [problem.decay(layer) * layer.matrix for layer in state.layers]
    for _ in range(300):
        change = as_layers(step, True)
        left = [T + dW @ G for T, dW, G in zip(decay, step, system.damping, strict=True)]
        more = system.solve(
            lambda shard, change=change: loss_residual(problem, shard) + tangent(problem, state.layers, change, shard),
            left,
        )
        step = [a + b for a, b in zip(step, more, strict=True)]
    assert close(step, joint, 1e-8)


def test_layer_by_layer_preconditions_by_a_symmetric_positive_definite_operator():
    problem, state, tau = started()
    system, step = solve(LayerByLayer(), problem, state, tau)
    other = [torch.sin(torch.arange(part.numel(), dtype=torch.float64)).view(part.shape) for part in step]
    there, back = inner(other, system.precondition(step)), inner(step, system.precondition(other))
    assert float(there) == pytest.approx(float(back), rel=1e-10)
    assert inner(other, system.precondition(other)) > 0


def test_single_precision_is_made_up_for_by_conjugate_gradients():
    problem, state, tau = started()
    joint_system, joint = solve(BySamples(), problem, state, tau)
    system, step = solve(SinglePrecision(), problem, state, tau)
    assert close(step, joint, 1e-9)
    assert close(system.precondition(joint), joint_system.precondition(joint), 1e-9)


def test_the_joint_step_takes_over_where_f_falls_slowly_and_not_after_a_rejection():
    problem, state, tau = started()
    solver = LayersThenJoint()
    _, joint = solve(BySamples(), problem, state, tau)
    for fall, jointly in ((0.5, False), (0.0, False), (0.005, True), (0.5, True)):
        state.memory.fall = torch.tensor(fall)
        _, step = solve(solver, problem, state, tau)
        assert close(step, joint, 1e-12) == jointly == solver.direct


def record(variant, F, task="x^2", seconds=1.0):
    names = {"group": "direct", "variant": variant, "last": 160, "seconds": seconds, "unchanged_seconds": 1.0}
    return START | names | {"task": task, "F": dict.fromkeys(("20", "40", "80", "160"), F)}


def test_the_table_compares_each_start_with_itself():
    records = [
        record(UNCHANGED, 1.0),
        record(UNCHANGED, 10.0, "uv"),
        record("no bend", 2.0, seconds=0.5),
        record("no bend", 5.0, "uv", seconds=2.0),
        record("no bend", 7.0, "L1 radial"),
    ]
    (line,) = variants.compare(records, "direct")
    numbers = "1 (0.5 to 2)"
    expected = f"| no bend | 2 | {numbers} | {numbers} | {numbers} | {numbers} | 1.25 |"
    assert expected in variants.table([line], GROUPS["direct"])


def test_a_run_goes_on_where_it_was_interrupted(tiny, monkeypatch, tmp_path):
    first = {UNCHANGED: Variant(), "kappa 0": variants.DIRECT["kappa 0"]}
    monkeypatch.setitem(GROUPS, "direct", variants.Group("", "iterations", (2, 3), first))
    arguments = ["--groups", "direct", "--starts", "1", "--out", str(tmp_path)]
    variants.main(arguments)
    before = json.loads((tmp_path / "1-thread.json").read_text())["records"]
    first["no bend"] = variants.DIRECT["no bend"]
    variants.main(arguments)
    after = json.loads((tmp_path / "1-thread.json").read_text())["records"]
    assert after[:2] == before
    assert [r["variant"] for r in after] == list(first)
    assert after[2]["unchanged_seconds"] > 0
    assert "| kappa 0 | 1 |" in (tmp_path / "1-thread.md").read_text()
