"""The comparison of methods measures what it says: its own objective, its own clock, and every run once."""

from __future__ import annotations

import json
from itertools import pairwise
from time import sleep

import numpy as np
import pytest
from benchmarks import methods, precision
from benchmarks.competitors import COMPETITORS, Start
from benchmarks.tasks import TASKS, Task

import sigmadmm

X = np.linspace(-1, 1, 30)[:, None]
START = Start(X, X**2, (4, 3), 1e-2, "lecun_normal", 1.0, 0)


def test_the_objective_is_that_of_the_library():
    result = sigmadmm.train(X, X**2, hidden=(4, 3), regularization=1e-2, max_iter=5)
    assert methods.objective(result.network.weights, X, X**2, 1e-2) == pytest.approx(
        result.history["objective"][-1], rel=1e-12
    )


@pytest.mark.parametrize("method", COMPETITORS)
def test_every_competitor_starts_from_the_same_weights_and_lowers_f(method):
    if method == "LM (package)":
        pytest.importorskip("torch_levenberg_marquardt")
    if method.startswith("MLP"):
        pytest.importorskip("sklearn")
    methods.warm_up(method)
    points = methods.trajectory(method, START, 0.3)
    first = methods.objective(START.weights(), X, X**2, 1e-2)
    assert points
    assert all(later[1] < earlier[1] for earlier, later in pairwise(points))
    assert points[-1][1] < first
    assert 0 <= points[0][0] <= points[-1][0] <= 0.3


def test_the_own_levenberg_marquardt_leaves_our_method_as_it_was():
    before = methods.trajectory("synced", START, 0.2)
    methods.trajectory("LM (own)", START, 0.1)
    after = methods.trajectory("synced", START, 0.2)
    common = min(len(before), len(after))
    assert [F for _, F in before[:common]] == [F for _, F in after[:common]]


def test_the_clock_stands_still_while_weights_are_shown(monkeypatch):
    def slow_to_show(start, show):
        while show(lambda: (sleep(0.02), start.weights())[1]):
            sleep(0.001)

    monkeypatch.setitem(COMPETITORS, "slow", slow_to_show)
    shown = []
    original = methods.objective
    monkeypatch.setattr(methods, "objective", lambda *args: (shown.append(1), original(*args))[1])
    methods.trajectory("slow", START, 0.05)
    assert len(shown) > 10  # 0.05 s of its own work, but more than 0.2 s of showing


def test_the_lowest_value_by_a_time():
    points = [(0.1, 5.0), (0.4, 2.0), (1.5, 1.0)]
    assert [methods.at(points, t) for t in (0.05, 0.1, 1.0, 2.0)] == [np.inf, 5.0, 2.0, 1.0]


def record(task, method, F, seed=0):
    return {"task": task, "init": "msra", "lambda": 1e-6, "seed": seed, "method": method, "seconds": 2, "F": {"2.0": F}}


def test_comparison_counts_function_tasks_only():
    records = [
        record("x^2", "synced", 1.0),
        record("x^2", "Adam", 4.0),
        record("uv", "synced", 3.0),
        record("uv", "Adam", 2.0),
        record("digits", "synced", 9.0),
        record("digits", "Adam", 1.0),
    ]
    (line,) = methods.compare(records, "2.0")
    assert (line["rival"], line["runs"], line["lower"], line["worst"]) == ("Adam", 2, 0.5, 1.5)
    assert line["geometric_mean"] == pytest.approx((0.25 * 1.5) ** 0.5)
    assert "| Adam | 2 | 2 | 50.0% | 1.50 |" in methods.table([line])


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setitem(TASKS, "x^2", Task("x^2", (3,), lambda seed: (X, X**2 + seed), True))
    monkeypatch.setattr(methods, "LAMBDAS", (1e-2,))
    monkeypatch.setattr(methods, "MARKS", (0.02, 2.0))
    arguments = ["--tasks", "x^2", "--inits", "lecun", "--methods", "synced", "Adam", "--out", str(tmp_path)]
    return tmp_path, [*arguments, "--seconds", "0.02"]


def records_in(path):
    return json.loads(path.read_text())["records"]


def test_a_run_goes_on_where_it_was_interrupted(tiny):
    folder, arguments = tiny
    methods.main([*arguments, "--seeds", "0"])
    first = records_in(folder / "1-thread.json")
    assert [(r["seed"], r["method"]) for r in first] == [(0, "synced"), (0, "Adam")]
    methods.main([*arguments, "--seeds", "0", "1"])
    both = records_in(folder / "1-thread.json")
    assert both[:2] == first
    assert [(r["seed"], r["method"]) for r in both[2:]] == [(1, "synced"), (1, "Adam")]


def test_parts_are_joined_with_their_environments(tiny):
    pytest.importorskip("matplotlib")
    folder, arguments = tiny
    methods.main([*arguments, "--seeds", "0", "--part", "a"])
    methods.main([*arguments, "--seeds", "1", "--part", "b"])
    methods.main(["--report", "--out", str(folder)])
    document = json.loads((folder / "1-thread.json").read_text())
    assert [r["seed"] for r in document["records"]] == [0, 0, 1, 1]
    assert len(document["environments"]) == 1
    assert not list(folder.glob("*part*"))


def test_table_and_picture_are_made(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "1-thread.json"
    records = [record("x^2", "synced", 1.0), record("x^2", "Adam", 4.0)]
    path.write_text(json.dumps({"environments": [], "records": records}))
    methods.main(["--report", "--out", str(tmp_path)])
    assert "| Adam |" in (tmp_path / "1-thread.md").read_text()
    assert (tmp_path / "1-thread.png").stat().st_size > 1000


@pytest.mark.parametrize("name", TASKS)
def test_tasks_have_columns_of_about_unit_size(name):
    if name not in ("x^2", "uv", "L1 radial", "L2 radial"):
        pytest.importorskip("sklearn")
    X, Y = TASKS[name].sample(1)
    assert len(X) == len(Y)
    assert X.ndim == Y.ndim == 2
    assert np.abs(X).max() < 13
    assert np.isfinite(Y).all()


def test_the_precision_benchmark_says_how_a_run_ended_and_how_precise_it_is():
    assert " stopped: |grad F| " in precision.certificate(1e-4, "lecun_uniform", 0.2)
    assert " mse " in precision.interpolation("lecun_uniform", 0.2)
