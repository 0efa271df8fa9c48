"""The comparison of accuracies: the right files, clean splits, lambda by the held-out part, accuracy by the weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import accuracy, accuracy_report, competitors, real_data
from benchmarks.accuracy import METHODS, Method
from benchmarks.competitors import COMPETITORS, LOSSES, forward
from benchmarks.real_data import DATA_SETS, SHA256, DataError, DataSet, Samples

import sigmadmm

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
SEED = 0


def blobs(n=120, classes=3, per_group=1):
    """Classes that a line separates almost."""
    random = np.random.default_rng(5)
    group = np.arange(n) // per_group
    y = group % classes
    return Samples.of(random.normal(size=(n, 4)) + 2.5 * np.eye(4)[y], y, group)


# The files


def test_a_missing_folder_is_named_with_what_to_do():
    with pytest.raises(DataError, match=r"^Yale B is read from yaleb_32x32_2432.npz, .* pass the folder .* as --data"):
        DATA_SETS["Yale B"].load(None)
    with pytest.raises(DataError, match=r"^there is no folder nowhere, .* correct --data, or leave Yale B out"):
        DATA_SETS["Yale B"].load(Path("nowhere"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"has no jma_intensity_1919_1985.npz, from which JMA is read"):
        DATA_SETS["JMA"].load(tmp_path)


def test_an_altered_file_is_refused_and_the_right_one_is_read(tmp_path, monkeypatch):
    path = tmp_path / "jma_intensity_1919_1985.npz"
    X, rows = np.arange(60.0).reshape(10, 6), np.array([1, 3, 5])
    np.savez(path, X=X, intensity=np.array([1, 2, 1, 3, 1, 6, 1, 1, 1, 1]), subset8173=rows)
    with pytest.raises(DataError, match=r"is not the file that JMA was defined on: its sha256 is \w+, expected 357f27"):
        DATA_SETS["JMA"].load(tmp_path)
    monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    samples = DATA_SETS["JMA"].load(tmp_path)
    assert samples.X.tolist() == X[rows].tolist()
    assert samples.y.tolist() == [0, 1, 1]


def test_the_program_refuses_before_it_fits_anything(capsys):
    with pytest.raises(SystemExit):
        accuracy.main(["--sets", "PTB random"])
    assert "PTB random is read from ptb_beats_rebuilt.npz" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        accuracy.main(["--device", "cuda", "--methods", "MLP adam"])
    assert "MLP adam cannot run on cuda" in capsys.readouterr().err


# Splits and preprocessing


def test_a_split_is_stratified_and_repeatable():
    samples = blobs(n=100, classes=2)
    rest, taken = samples.split(0.3, SEED)
    assert (len(rest.y), np.bincount(taken.y).tolist()) == (70, [15, 15])
    assert sorted([*rest.group, *taken.group]) == list(range(100))
    assert taken.group.tolist() == samples.split(0.3, SEED)[1].group.tolist()
    assert taken.group.tolist() != samples.split(0.3, SEED + 1)[1].group.tolist()


def test_patients_stay_together_also_in_what_is_held_out():
    train, test = blobs(n=240, classes=2, per_group=6).split(0.5, SEED)
    rest, held_out = train.split(accuracy.HELD_OUT, [SEED, 1])
    parts = [set(part.group) for part in (rest, held_out, test)]
    assert [len(part) for part in parts] == [16, 4, 20]
    assert len(set.union(*parts)) == 40
    assert set(held_out.y) == {0, 1}


def test_small_is_a_random_choice_of_at_most_so_many():
    samples = blobs(n=50)
    assert samples.at_most(None, 1) is samples
    assert samples.at_most(50, 1) is samples
    some = samples.at_most(20, 1)
    assert len(set(some.group)) == 20
    assert some.group.tolist() != list(range(20))


def test_features_are_standardised_by_the_training_part_and_constant_ones_are_guarded():
    train, test = blobs().split(0.5, SEED)
    train.X[:, 2] = test.X[:, 2] = 7.0
    scaled, other = real_data.standardised(train, test)
    np.testing.assert_allclose(scaled.X.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.X.std(0), [1, 1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(other.X[:, 0], (test.X[:, 0] - train.X[:, 0].mean()) / train.X[:, 0].std())


def test_images_are_standardised_one_by_one_and_a_constant_one_is_guarded():
    images = real_data.images_to_unit_size(np.array([[1.0, 3.0], [5.0, 5.0]]))
    assert images.tolist() == [[-1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "train", "test", "features"),
    [("PTB random", 7000, 7541, 187), ("Yale B", 1216, 1216, 1024), ("JMA", 4173, 4000, 6)],
)
def test_the_real_data_have_the_papers_sizes(name, train, test, features):
    if not REAL.is_dir():
        pytest.skip("the real data are not here")
    samples = DATA_SETS[name].load(REAL)
    parts = DATA_SETS[name].parts(samples, SEED)
    assert [part.X.shape for part in parts] == [(train, features), (test, features)]
    assert all(np.isfinite(part.X).all() and set(part.y) == set(samples.y) for part in parts)


def test_no_patient_of_the_real_data_is_in_two_parts():
    if not REAL.is_dir():
        pytest.skip("the real data are not here")
    train, test = DATA_SETS["PTB patients"].parts(DATA_SETS["PTB patients"].load(REAL), SEED)
    rest, held_out = train.split(accuracy.HELD_OUT, [SEED, 1])
    parts = [set(part.group) for part in (rest, held_out, test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 190
    assert all(set(part.y) == {0, 1} for part in (rest, held_out, test))


# Accuracy and fits

X, Y = torch.tensor([[1.0], [-1.0], [3.0]], dtype=torch.float64), torch.tensor([0, 1, 1])
SIGN = [(np.array([[1.0], [-1.0]]), np.zeros(2)), (np.eye(2), np.array([0.0, 0.5]))]


@pytest.mark.parametrize(("activation", "hidden"), [("relu", [3.0, 0.0]), ("sigmoid", [0.9525741, 0.0474259])])
def test_accuracy_comes_from_the_weights(activation, hidden):
    np.testing.assert_allclose(forward(SIGN, X, activation)[2], np.add(hidden, [0, 0.5]), atol=1e-7)
    # relu: (1, .5), (0, 1.5), (3, .5); sigmoid: (.73, .77), (.27, 1.23), (.95, .55)
    assert accuracy.accuracy(SIGN, activation, X, Y) == pytest.approx({"relu": 2 / 3, "sigmoid": 1 / 3}[activation])


def test_outputs_that_are_not_finite_are_wrong():
    assert accuracy.accuracy([(np.array([[np.nan], [0.0]]), np.zeros(2))], "sigmoid", X, torch.zeros(3).long()) == 0


def test_the_forward_pass_is_that_of_the_library():
    result = sigmadmm.train(X, X**2, hidden=(4, 3), max_iter=3)
    np.testing.assert_allclose(forward(result.network.weights, X), result.network.predict(X), rtol=1e-12)


def start(method, samples, lam=1e-1):
    return method.start(samples, 3, (5,), lam, SEED, "cpu")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_lowers_its_loss_from_its_initial_weights(name):
    method, samples = METHODS[name], blobs()
    if method.cpu_only:
        pytest.importorskip("sklearn")
    begin = start(method, samples)
    accuracy.fit(method, begin, 0.0)  # warms up
    done = accuracy.fit(method, begin, 0.3)
    before, after = (
        LOSSES[method.loss](forward(weights, torch.tensor(samples.X), method.activation), torch.tensor(begin.Y))
        for weights in (begin.weights(), done.weights)
    )
    assert after < before
    assert 0 < done.seconds <= 0.3
    assert done.iterates > 0
    assert not done.ending.startswith(accuracy_report.BREAKS)


def test_synced_learns_three_classes():
    method, samples = METHODS["synced cross-entropy"], blobs()
    weights = accuracy.fit(method, start(method, samples), 0.5).weights
    assert accuracy.accuracy(weights, "sigmoid", torch.tensor(samples.X), torch.tensor(samples.y)) > 0.9


@pytest.mark.parametrize("solver", ["MLP lbfgs", "MLP adam"])
def test_scikit_learn_starts_from_the_same_weights_also_with_two_classes(solver):
    ConvergenceWarning = pytest.importorskip("sklearn.exceptions").ConvergenceWarning
    samples = blobs(classes=2)
    begin = METHODS[solver].start(samples, 2, (5,), 1e-1, SEED, "cpu")
    with pytest.warns(ConvergenceWarning):  # of the iteration that builds the model
        model, _ = competitors._mlp(begin, solver.removeprefix("MLP "))
    Z = forward(competitors._mlp_weights(model), torch.tensor(samples.X)).numpy()
    expected = forward(begin.weights(), torch.tensor(samples.X)).numpy()
    np.testing.assert_allclose(Z[:, 1] - Z[:, 0], expected[:, 1] - expected[:, 0], atol=1e-12)


@pytest.mark.parametrize("name", ["L-BFGS", "MLP lbfgs"])
def test_a_line_search_that_finds_nothing_lower_still_ends(name):
    method = METHODS[name]
    if method.cpu_only:
        pytest.importorskip("sklearn")
    done = accuracy.fit(method, start(method, blobs(), lam=100.0), 0.5)
    assert done.ending in ("time", "finished")


def stub(monkeypatch, train):
    monkeypatch.setitem(COMPETITORS, "stub", train)
    return Method("stub")


def test_a_fit_that_breaks_keeps_what_it_has_shown_and_says_so(monkeypatch):
    def breaks(begin, show):
        show(lambda: SIGN)
        raise RuntimeError("no memory")

    method = stub(monkeypatch, breaks)
    done = accuracy.fit(method, start(method, blobs()), 1.0)
    assert done.weights is SIGN
    assert done.ending == "error: RuntimeError: no memory"


def test_weights_shown_too_late_do_not_count(monkeypatch):
    method = stub(monkeypatch, lambda begin, show: [show(lambda: SIGN) for _ in range(3)] and None)
    begin = start(method, blobs())
    done = accuracy.fit(method, begin, 0.0)
    assert done.ending == accuracy_report.NOTHING
    assert done.weights[0][0].tolist() == begin.weights()[0][0].tolist()


# The choice of lambda


def test_the_best_lambda_on_the_held_out_part_is_chosen_of_equal_ones_the_largest():
    assert accuracy.chosen({0.1: 0.8, 1.0: 0.9, 10.0: 0.7}) == 1.0
    assert accuracy.chosen({0.1: 0.9, 1.0: 0.9, 10.0: 0.7}) == 1.0


CASE = {
    "data": "blobs",
    "seed": SEED,
    "method": "stub",
    "seconds": 1.0,
    "threads": 1,
    "lambdas": [0.1, 1.0, 10.0],
    "quarters": 1,
}


@pytest.fixture
def toy(monkeypatch):
    """A data set, and a method that is right only with lambda = 1, unless it is told to be wrong."""

    def train(begin, show):
        right = 100.0 if begin.regularization == 1.0 else -100.0
        seen.append((len(begin.X), begin.regularization))
        show(lambda: [(np.eye(5, 4), np.zeros(5)), (right * np.eye(3, 5), np.zeros(3))])

    seen = []
    samples = Samples.of(np.eye(4)[np.arange(120) % 3], np.arange(120) % 3)
    monkeypatch.setitem(DATA_SETS, "blobs", DataSet("blobs", "made up", (5,), lambda _: samples, 0.5))
    monkeypatch.setitem(COMPETITORS, "stub", train)
    for name in ("stub", *accuracy_report.LOSSES):
        monkeypatch.setitem(METHODS, name, Method("stub"))
    return seen, samples


def test_a_cell_chooses_lambda_on_a_quarter_and_fits_again_to_all(toy):
    seen, samples = toy
    train, test = DATA_SETS["blobs"].parts(samples, SEED)
    record = accuracy.run_cell(CASE, train, test, "cpu")
    assert seen == [(60, 10.0), (45, 0.1), (45, 1.0), (45, 10.0), (60, 1.0)]  # the first is the warm-up
    assert (record["lambda"], record["held-out accuracy"], record["accuracy"]) == (1.0, 1.0, 1.0)
    assert [(fit["part"], fit["accuracy"]) for fit in record["fits"]][1:] == [
        ("held-out", 1.0),
        ("held-out", 0.0),
        ("test", 1.0),
    ]
    assert (record["dims"], record["train"], record["test"]) == ("4-5-3", 60, 60)


def test_several_quarters_are_drawn_anew_and_averaged(toy):
    seen, samples = toy
    train, test = DATA_SETS["blobs"].parts(samples, SEED)
    record = accuracy.run_cell(CASE | {"quarters": 3}, train, test, "cpu")
    assert len(seen) == 1 + 3 * 3 + 1
    assert [fit["lambda"] for fit in record["fits"]] == [0.1] * 3 + [1.0] * 3 + [10.0] * 3 + [1.0]
    assert (record["lambda"], record["held-out accuracy"]) == (1.0, 1.0)


def test_a_run_goes_on_where_it_was_interrupted_and_parts_are_joined(toy, tmp_path):
    seen, _ = toy
    arguments = ["--sets", "blobs", "--lambdas", "1", "--seconds", "1", "--out", str(tmp_path)]
    accuracy.main([*arguments, "--methods", "stub", "--seeds", "0"])
    accuracy.main([*arguments, "--methods", "stub", "--seeds", "0", "1"])
    assert len(seen) == 2 * 3
    accuracy.main([*arguments, "--methods", *accuracy_report.LOSSES, "--seeds", "0", "--part", "a"])
    accuracy.main(["--report", "--out", str(tmp_path)])
    document = json.loads((tmp_path / "cpu-full.json").read_text())
    assert [(r["method"], r["seed"]) for r in document["records"]][:2] == [("stub", 0), ("stub", 1)]
    assert len(document["records"]) == 4
    assert not list(tmp_path.glob("*part*"))
    text = (tmp_path / "cpu-full.md").read_text()
    assert "made up. Network 4-5-3, 60 training samples, 60 test samples" in text
    assert "| **synced** | 1 | 100.00% |" in text


# The report


def record(method, seed, test, held_out=0.9, ending="time", data="JMA", **more):
    fits = [
        {"part": part, "lambda": 0.1, "accuracy": value, "seconds": 1.0, "iterates": 3, "ending": how}
        for part, value, how in (("held-out", held_out, ending), ("test", test, "time"))
    ]
    sizes = {"dims": "6-2", "train": 10 + seed, "test": 5, "majority": 0.6}
    return CASE | sizes | more | {
        "data": data, "method": method, "seed": seed, "lambda": 0.1, "held-out accuracy": held_out, "accuracy": test,
        "fits": fits,
    }  # fmt: skip


def reported(records, size=None):
    order = {"data": list(DATA_SETS), "method": list(METHODS)}
    return accuracy_report.report({"environments": [{"python": "3"}], "records": records}, "cpu", size, order)


OURS = [
    record("synced squared error", 0, 0.70, held_out=0.8),
    record("synced cross-entropy", 0, 0.80, held_out=0.9),
    record("synced squared error", 1, 0.82, held_out=0.9),
    record("synced cross-entropy", 1, 0.60, held_out=0.8),
]


def test_synced_takes_the_loss_that_the_held_out_part_prefers():
    rows = accuracy_report.by_method(OURS)
    assert [rows["synced"][seed]["accuracy"] for seed in (0, 1)] == [0.80, 0.82]
    tie = accuracy_report.by_method([record(loss, 0, 0.5) for loss in accuracy_report.LOSSES])
    assert tie["synced"][0]["method"] == "synced cross-entropy"


def test_verdicts_on_real_data_are_against_adam():
    text = reported([*OURS, *(record(name, s, 0.815) for name in ("Adam ReLU", "Adam sigmoid") for s in (0, 1))])
    assert "**holds**: synced not below Adam ReLU by more than 0.5 points: -0.50 points over 2 seeds" in text
    assert "**does not hold**: synced above Adam sigmoid: -0.50 points over 2 seeds, standard error 1.00" in text
    assert "10 to 11 training samples" in text
    assert "undecided" not in text
    assert "undecided: synced above Adam sigmoid: there are no results of Adam sigmoid" in reported(OURS)


def test_the_verdict_on_small_data_is_against_the_best_of_the_others():
    ours = [r | {"data": "digits"} for r in OURS]
    rivals = [record("L-BFGS", 0, 0.81, data="digits"), record("features + ridge", 0, 0.70, data="digits")]
    text = reported([*ours, *rivals], size=2000)
    assert "**does not hold**: synced not below the best of the others (L-BFGS) by more than 0.5 points: -1.00" in text
    assert "(cut to at most 2000)" in text


def test_results_of_other_seconds_or_grids_are_not_mixed():
    text = reported([OURS[0], OURS[1], record("Adam ReLU", 0, 0.5, seconds=9.0)])
    assert text.count("## JMA") == 2
    assert "undecided: synced not below Adam ReLU" in text


def test_breaks_are_named_and_counted():
    text = reported([*OURS, record("L-BFGS", 0, 0.7, ending="broken: W became NaN")])
    assert "- break: L-BFGS, seed 0, lambda 0.1, held-out: broken: W became NaN (accuracy 90.00%)" in text
    assert "| 1 broken |" in text
