"""The demo's experiment on tiny networks, and its sentences on made-up numbers."""

from __future__ import annotations

import json
import math
import signal
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

import sigmadmm
from sigmadmm import baselines, datasets, demo, demo_report
from sigmadmm.callbacks import Callback
from sigmadmm.demo import ALGORITHM, LBFGS, RIDGE, SYNCED, Record, Task
from sigmadmm.demo_report import findings

TINY = (
    Task("x^2", datasets.square, (4, 4), 2, 1e-3, n=20),
    Task("uv", datasets.product, (3, 5), 3, 2e-3, n=25),
)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return demo.run(TINY, iterations=4, seed=1)


# The experiment.


def test_every_method_runs_on_every_task_from_every_scale(records):
    starts = [
        (task, scale, method)
        for task in ("x^2", "uv")
        for scale in (8, 1)
        for method in (ALGORITHM, RIDGE, LBFGS, SYNCED)
    ]
    assert [(record.task, record.scale, record.method) for record in records] == starts


def test_algorithm_1_reports_the_lowest_error_over_its_iterations(records):
    X, y = datasets.square(20, 1)
    result = sigmadmm.train(X, y, hidden=(4, 4), method="paper", init_scale=8, max_iter=4, seed=1, device="cpu")
    errors = result.history["train_mse"]
    record = records[0]
    assert record.best_mse == pytest.approx(errors.min(), rel=1e-6)
    assert record.best_iteration == errors.argmin() + 1
    assert record.last_mse == pytest.approx(np.mean((result.network.predict(X) - y) ** 2), rel=1e-6)
    assert record.objective == pytest.approx(result.history["objective"].min(), rel=1e-6)
    assert (record.n_iter, record.status) == (4, "max_iter")


def test_the_baselines_start_from_the_same_weights_and_report_one_network(records):
    X, y = datasets.product(25, 1)
    ridge = baselines.random_features_ridge(X, y, hidden=(3, 5), init_scale=1, seed=1, device="cpu")
    assert records[-3].last_mse == pytest.approx(ridge.train_mse, rel=1e-6)
    assert records[-3].objective == pytest.approx(ridge.objective, rel=1e-6)
    assert records[-3].best_mse is None
    assert records[-3].mse == records[-3].last_mse


def test_lbfgs_gets_its_share_of_iterations(records):
    assert [record.n_iter for record in records if record.method == LBFGS] == [8, 8, 12, 12]


def test_the_constant_is_the_mean_of_y(records):
    y = datasets.square(20, 1)[1]
    assert records[0].constant_mse == pytest.approx(np.mean((y - y.mean()) ** 2))
    assert {record.paper_mse for record in records} == {1e-3, 2e-3}


def test_the_same_seed_gives_the_same_numbers(records):
    def numbers(runs: list[Record]) -> list[float]:
        return [number for run in runs for number in (run.mse, run.last_mse, run.objective)]

    assert numbers(demo.run(TINY, iterations=4, seed=1)) == pytest.approx(numbers(records), rel=1e-9)
    assert numbers(demo.run(TINY, iterations=4, seed=2)) != pytest.approx(numbers(records), rel=1e-2)


def test_one_thread_while_it_runs_and_as_many_as_before_afterwards():
    seen = []

    class Spy(demo.Watch):
        def busy(self, title):
            seen.append(torch.get_num_threads())
            return super().busy(title)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        demo.run(TINY[:1], scales=(1.0,), iterations=1, watch=Spy())
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_watch_sees_every_method_begin_and_end():
    events = []

    class Count(Callback):
        def on_check(self, run):
            events.append(run.iteration)

    class Spy(demo.Watch):
        def callbacks(self, title):
            events.append(title)
            return [Count()]

        @contextmanager
        def busy(self, title):
            events.append(title)
            yield
            events.append("done")

    demo.run(TINY[:1], scales=(8.0,), iterations=2, watch=Spy())
    assert events == ["x^2 x8", 1, 2, f"x^2 x8: {RIDGE}", "done", f"x^2 x8: {LBFGS}", "done", f"x^2 x8: {SYNCED}", 1, 2]


class _CtrlC(Callback):
    def on_check(self, run):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_algorithm_1_runs_ends_the_demo(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)  # also where it is ignored

    class Impatient(demo.Watch):
        def callbacks(self, title):
            return [_CtrlC()]

    with pytest.raises(KeyboardInterrupt):
        demo.run(TINY, iterations=3, watch=Impatient())


def test_a_run_without_one_finite_iteration_has_no_numbers(monkeypatch):
    """`train` then leaves an empty history."""

    class Nothing:
        status = sigmadmm.Status.BROKEN
        history = sigmadmm.History()

    monkeypatch.setattr(demo, "train", lambda **arguments: Nothing())
    broken = demo.run(TINY[:1], scales=(1.0,), iterations=2)[0]
    assert math.isnan(broken.last_mse)
    assert math.isnan(broken.objective)
    assert (broken.best_mse, broken.n_iter, broken.status) == (None, 0, "broken")
    assert demo_report.document([broken], 2, 0)["records"][0]["last_mse"] is None


def test_the_document_is_json_with_every_number_and_sentence(records):
    document = json.loads(json.dumps(demo_report.document(records, 4, 1), allow_nan=False))
    assert document["settings"]["iterations"] == 4
    assert document["settings"]["seed"] == 1
    assert document["settings"]["regularization"] == 1e-6
    assert document["tasks"][0] == {"name": "x^2", "hidden": [100, 100], "samples": 1000}
    assert document["records"][0]["best_mse"] == records[0].best_mse
    assert len(document["records"]) == 16
    assert document["findings"] == findings(records)


def test_the_tasks_are_those_of_the_paper():
    square, product = demo.TASKS
    assert (square.hidden, square.n, square.paper_mse) == ((100, 100), 1000, 2.53e-9)
    assert (product.hidden, product.n, product.paper_mse) == ((300, 300), 1000, 2.62e-9)
    assert demo.SCALES == (8, 1)


def test_the_introduction_says_how_much_less_than_the_paper_this_is():
    text = demo_report.introduction(50, 3)
    assert "50 of Algorithm 1, where the paper ran 2000 epochs" in text
    assert "100 (x^2) and 150 (uv) of L-BFGS" in text
    assert "Seed 3" in text


def test_the_explanations_say_which_iterate_is_the_best_and_what_the_paper_averaged():
    text = " ".join(demo_report.explanations())
    assert "best: the lowest over all iterations" in text
    assert "what the paper's authors report" in text
    assert "mean over 20 trials after 2000 epochs" in text
    assert "2x100 for x^2, 2x300 for uv" in text


def test_the_lines_for_own_data_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = datasets.square(15)
    np.savetxt("data.csv", np.column_stack([X, y]), delimiter=",", header="x,y", comments="")
    assert max(map(len, demo_report.OWN_DATA.splitlines())) <= 78  # two more for the indent
    names: dict[str, object] = {}
    exec(demo_report.OWN_DATA, names)
    result = names["result"]
    assert isinstance(result, sigmadmm.Result)
    printed = capsys.readouterr().out
    assert printed.startswith(result.message + "\n")
    assert len(printed.split(" for ")[-1].split()) >= 5


def test_the_default_method_stands_beside_the_others(records):
    X, y = datasets.square(20, 1)
    result = sigmadmm.train(X, y, hidden=(4, 4), init_scale=8, max_iter=4, seed=1, device="cpu")
    assert records[3].objective == pytest.approx(result.history["objective"][-1], rel=1e-6)
    assert records[3].n_iter == result.n_iter


# The sentences. One record of each method, all alike, from which each test departs.


def ours(best=1e-3, last=None, at=7, F=1.0, **others) -> Record:
    given = {"task": "x^2", "scale": 8.0, "status": "max_iter", "constant_mse": 100.0, "paper_mse": 1e-12, "n_iter": 50}
    last = best if last is None else last
    return Record(
        method=ALGORITHM, best_mse=best, best_iteration=at, last_mse=last, objective=F, seconds=1.0, **given | others
    )


def rival(method, mse=1e-3, F=1.0, **others) -> Record:
    return replace(ours(last=mse, F=F, **others), method=method, best_mse=None, best_iteration=None, status="done")


def sentence(records, containing) -> str:
    (found,) = [text for text in findings(records) if containing in text]
    return found


def test_much_better_than_the_untrained_baseline():
    text = sentence([ours(1e-4), rival(RIDGE, 3.6e-4)], RIDGE + ":")
    assert text == "Algorithm 1's best mse against random features + ridge: lower in x^2 at scale 8 (3.6 times)."


@pytest.mark.parametrize("mse", [1.9e-4, 1e-4, 0.51e-4])
def test_about_equal_to_the_untrained_baseline(mse):
    text = sentence([ours(1e-4), rival(RIDGE, mse)], RIDGE + ":")
    assert "about equal (within a factor 2) in x^2 at scale 8." in text
    assert text.endswith("hidden layers that were never trained do about as well.")


def test_worse_than_the_untrained_baseline():
    text = sentence([ours(1e-2), rival(RIDGE, 1e-4)], RIDGE + ":")
    assert text.endswith("ridge: higher in x^2 at scale 8 (100 times).")


def test_different_verdicts_share_a_sentence():
    records = [
        *(ours(1e-4), rival(RIDGE, 1e-3)),
        *(ours(1e-4, scale=1.0), rival(RIDGE, 1e-4, scale=1.0)),
        *(ours(1e-4, task="uv"), rival(RIDGE, 1e-5, task="uv")),
    ]
    assert sentence(records, RIDGE + ":").startswith(
        "Algorithm 1's best mse against random features + ridge: lower in x^2 at scale 8 (10 times); "
        "about equal (within a factor 2) in x^2 at scale 1; higher in uv at scale 8 (10 times). Where it is about equal"
    )


def test_equal_everywhere_is_said_shortly():
    records = [ours(), rival(RIDGE), ours(scale=1.0), rival(RIDGE, scale=1.0)]
    assert "about equal (within a factor 2) in all 2 cases." in sentence(records, RIDGE + ":")


def test_lbfgs_is_compared_with_the_best_and_with_the_last_iterate():
    records = [ours(best=1e-6, last=1.0), rival(LBFGS, 1e-3)]
    best, last = "Algorithm 1's best mse against L-BFGS", "Algorithm 1's last mse against L-BFGS"
    assert sentence(records, best) == f"{best}: lower in x^2 at scale 8 (1,000 times)."
    assert sentence(records, last) == f"{last}: higher in x^2 at scale 8 (1,000 times)."


def test_the_moral_is_drawn_for_the_untrained_baseline_only():
    assert "never trained" not in " ".join(findings([ours(), rival(LBFGS)]))


def test_a_last_iterate_that_got_worse():
    text = sentence([ours(best=1e-9, last=1.8e-5)], "last iterate is")
    assert text == "Algorithm 1's last iterate is worse than its best in x^2 at scale 8 (18,000 times)."


def test_a_last_iterate_that_is_as_good_as_the_best():
    text = sentence([ours(best=1e-9, last=1.05e-9)], "last iterate is")
    assert text == "Algorithm 1's last iterate is as good as its best, to 10%, in x^2 at scale 8."


def test_some_got_worse_and_some_did_not():
    records = [ours(last=1e-2), ours(scale=1.0), ours(task="uv", last=3e-3)]
    assert sentence(records, "last iterate is") == (
        "Algorithm 1's last iterate is worse than its best in x^2 at scale 8 (10 times) and uv at scale 8 (3.0 times); "
        "as good as its best, to 10%, in x^2 at scale 1."
    )


def test_a_collapse_to_a_constant_is_named():
    collapsed, fine = ours(last=0.08, constant_mse=0.087), ours(last=0.001, scale=1.0, constant_mse=0.087)
    assert sentence([collapsed, fine], "a constant").endswith("or worse, in x^2 at scale 8.")
    assert "constant" not in " ".join(findings([fine]))


def test_the_lowest_objective_belongs_to_someone():
    records = [ours(F=2.0), rival(RIDGE, F=3.0), rival(LBFGS, F=1.0)]
    assert sentence(records, "lowest F") == "The lowest F was reached by L-BFGS in x^2 at scale 8."


def test_the_lowest_objective_may_be_shared():
    records = [ours(F=1.0), rival(RIDGE, F=1.005), rival(LBFGS, F=1.5)]
    records += [ours(F=1.0, scale=1.0), rival(LBFGS, F=1.02, scale=1.0)]
    assert sentence(records, "lowest F") == (
        "The lowest F was reached by Algorithm 1 and random features + ridge (equal to 1%) in x^2 at scale 8; "
        "by Algorithm 1 in x^2 at scale 1."
    )


def test_one_method_alone_is_not_called_the_lowest():
    assert "lowest F" not in " ".join(findings([ours()]))


def test_who_reached_the_error_that_the_paper_reports_and_from_which_start():
    given = {"paper_mse": 1e-9}
    records = [
        *(ours(1.9e-9, **given), rival(RIDGE, 2.1e-9, **given)),
        *(ours(1e-5, scale=1.0, **given), rival(LBFGS, 2e-6, scale=1.0, **given)),
    ]
    assert sentence(records, "The paper's mse") == (
        "The paper's mse for x^2 (1.00e-09): at scale 8 reached by Algorithm 1 (within a factor 2); "
        "at scale 1 the lowest here is 2,000 times that, by L-BFGS."
    )
    records[1] = rival(RIDGE, 5e-10, **given)
    assert "reached by Algorithm 1 and random features + ridge (" in sentence(records, "The paper's mse")


def test_each_task_has_its_own_error_in_the_paper():
    records = [ours(1e-3, paper_mse=1e-9), ours(1e-3, task="uv", paper_mse=1e-3)]
    assert sentence(records, "mse for x^2 (1.00e-09)").endswith("1.0e+06 times that, by Algorithm 1.")
    assert sentence(records, "mse for uv (1.00e-03)").endswith("reached by Algorithm 1 (within a factor 2).")


def test_a_breakdown_and_a_convergence_are_told():
    broken, converged = ours(status="broken", n_iter=12), ours(status="converged", n_iter=9, scale=1.0)
    assert findings([broken, converged])[:2] == [
        "Algorithm 1 in x^2 at scale 8 broke down after iteration 12, the last one counted.",
        "Algorithm 1 in x^2 at scale 1 met its stopping tolerances at iteration 9.",
    ]


@pytest.mark.parametrize("field", ["last_mse", "objective"])
def test_a_method_without_a_finite_result_is_named_and_left_out_of_comparisons(field):
    lost = replace(rival(LBFGS), **{field: math.nan})
    texts = findings([ours(), rival(RIDGE), lost])
    assert texts[0] == "L-BFGS in x^2 at scale 8: no finite result."
    assert not [text for text in texts[1:] if LBFGS in text]


def test_no_records_no_sentences():
    assert findings([]) == []
    assert findings([rival(RIDGE, 1e-13)]) == [
        "The paper's mse for x^2 (1.00e-12): at scale 8 reached by random features + ridge (within a factor 2)."
    ]


@pytest.mark.parametrize(
    ("mse", "factor"),
    [(0.021, "2.1"), (0.5, "50"), (12.34, "1,200"), (9876.0, "990,000"), (1e5, "1.0e+07")],
)
def test_factors_have_two_digits(mse, factor):
    assert sentence([ours(0.01), rival(RIDGE, mse)], RIDGE + ":").endswith(f"({factor} times).")


def test_a_perfect_fit_is_not_divided_by():
    assert "(inf times)" in sentence([ours(0.0), rival(RIDGE, 1.0)], RIDGE + ":")


def test_the_default_method_is_praised_where_its_objective_is_far_below_the_rest_only():
    better, alike = (replace(ours(F=F), method=SYNCED, scale=scale) for F, scale in ((0.1, 8.0), (0.9, 1.0)))
    others = [replace(ours(F=1.0), scale=scale) for scale in (8.0, 1.0)]
    sentence = f"{SYNCED} reaches an F below that of every other method in x^2 at scale 8 (10 times)."
    assert sentence in findings([others[0], better, others[1], alike])
    assert not [line for line in findings([others[1], alike]) if "below that of every other" in line]
