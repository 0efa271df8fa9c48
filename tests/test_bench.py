"""The benchmark counts what the issue's floor counts, times what it says, and prints it."""

import json

import pytest
import torch

from sigmadmm import bench


@pytest.mark.parametrize("hidden_layers", [2, 3, 5])
def test_between_narrow_ends_the_floor_counts_6H_minus_4_square_products(hidden_layers):
    d = 10_000  # so wide that the ends do not matter
    counted = bench.needed_products((1, *[d] * hidden_layers, 1)) / d**2
    assert counted == pytest.approx(6 * hidden_layers - 4, rel=1e-3)


def test_the_count_of_a_small_network_by_hand():
    """2-3-1: W_1 X and G_1 X^T (2 x 6), W_2 V_1 new and old, G_2 V_1^T, W_2^T (...) (4 x 3), Gram and gain (2 x 9)."""
    assert bench.needed_products((2, 3, 1)) == 12 + 12 + 18


def test_a_timing_is_consistent_with_itself():
    timing = bench.measure((2, 20, 20, 1), 100, rounds=3, seconds=0.01)
    best_rate = max(timing.shape_gflops, timing.square_gflops)
    assert timing.needed_gflop == pytest.approx(2 * bench.needed_products((2, 20, 20, 1)) * 100 / 1e9)
    assert 0 < timing.ratio_low <= timing.ratio <= timing.ratio_high
    assert timing.floor_ms > 0.2 * 1e3 * timing.needed_gflop / best_rate
    assert timing.iteration_ms > timing.floor_ms
    assert timing.ratio_low / 3 < timing.iteration_ms / timing.floor_ms < 3 * timing.ratio_high


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "CASES", (((1, 8, 8, 1), 50), ((3, 6, 2), 40)))
    return ["--rounds", "2", "--seconds", "0.01", "--threads", "1"]


def test_the_table_names_every_network_and_the_threads(small, capsys):
    bench.main(small)
    printed = capsys.readouterr().out
    assert "1-8-8-1" in printed
    assert "3-6-2" in printed
    assert "threads 1" in printed
    assert "floor: " in printed


def test_json_holds_what_the_table_shows(small, capsys):
    bench.main([*small, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert [timing["network"] for timing in report["timings"]] == ["1-8-8-1", "3-6-2"]
    assert report["environment"]["torch"] == torch.__version__
    assert all(timing["iteration_ms"] > 0 for timing in report["timings"])


@pytest.mark.parametrize("option", ["--threads", "--rounds"])
def test_counts_below_one_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        bench.main([option, "0"])
    assert "at least 1" in capsys.readouterr().err
