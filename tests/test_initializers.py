"""The six schemes as the paper defines them (thresholds zero, msra by the fan-out), and their reproducibility."""

from __future__ import annotations

from math import sqrt

import pytest
import torch

from sigmadmm import Callback, InvalidInput, train
from sigmadmm.initializers import SCHEMES, initial_weights

DIMS = (250, 400, 200, 300)  # wide enough for the statistics; one tall, one wide and one tall matrix
SHAPES = [(400, 250), (200, 400), (300, 200)]

# Standard deviation of W (rows x columns = fan-out x fan-in); the last flag says "output layer".
DEVIATIONS = {
    "lecun_uniform": lambda rows, columns, last: 1 / sqrt(columns),
    "lecun_normal": lambda rows, columns, last: 1 / sqrt(columns),
    "xavier": lambda rows, columns, last: sqrt(2 / (rows + columns)),
    "msra": lambda rows, columns, last: sqrt((1 if last else 2) / rows),
}
BOUNDS = {
    "lecun_uniform": lambda rows, columns: sqrt(3 / columns),
    "xavier": lambda rows, columns: sqrt(6 / (rows + columns)),
}


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_shapes_and_type(scheme):
    weights = initial_weights(DIMS, scheme)
    assert [tuple(W.shape) for W in weights] == SHAPES
    assert all(W.dtype == torch.float64 for W in weights)


@pytest.mark.parametrize("scheme", DEVIATIONS)
def test_mean_and_variance(scheme):
    weights = initial_weights(DIMS, scheme, seed=11)
    for i, W in enumerate(weights):
        expected = DEVIATIONS[scheme](*W.shape, i == len(weights) - 1)
        assert W.std().item() == pytest.approx(expected, rel=0.02)
        assert abs(W.mean().item()) < 5 * expected / sqrt(W.numel())


def test_msra_divides_by_the_fan_out_as_the_paper_prints_it():
    first, last = initial_weights((1, 5000, 4), "msra", seed=5)
    assert first.std().item() == pytest.approx(sqrt(2 / 5000), rel=0.05)  # fan-in would give sqrt(2)
    assert last.std().item() == pytest.approx(sqrt(1 / 4), rel=0.05)


@pytest.mark.parametrize("scheme", BOUNDS)
def test_uniform_schemes_fill_their_interval(scheme):
    for W in initial_weights(DIMS, scheme, seed=2):
        bound = BOUNDS[scheme](*W.shape)
        assert 0.999 * bound < W.abs().max().item() <= bound
        quarters = torch.histc(W, 4, -bound, bound) / W.numel()
        assert torch.allclose(quarters, quarters.new_full((4,), 0.25), atol=0.01)


@pytest.mark.parametrize("scheme", ["lecun_normal", "msra"])
def test_normal_schemes_are_normal(scheme):
    for W in initial_weights(DIMS, scheme, seed=2):
        z = W / W.std()
        assert (z.abs() < 1).to(torch.float64).mean().item() == pytest.approx(0.6827, abs=0.01)
        assert z.abs().max() > 3.5


@pytest.mark.parametrize("scheme", ["orthogonal_uniform", "orthogonal_normal"])
@pytest.mark.parametrize("dims", [(3, 8), (8, 3), (5, 5), (1, 6), (6, 1)])
def test_orthogonal_schemes_are_orthogonal(scheme, dims):
    (W,) = initial_weights(dims, scheme, seed=4)
    short = W.mT @ W if W.shape[0] >= W.shape[1] else W @ W.mT
    torch.testing.assert_close(short, torch.eye(min(dims), dtype=torch.float64), rtol=0, atol=1e-14)


def test_the_two_orthogonal_schemes_draw_differently():
    assert not same(initial_weights((4, 4), "orthogonal_uniform"), initial_weights((4, 4), "orthogonal_normal"))


def test_orthogonal_matrices_have_both_signs():
    """QR with a fixed sign convention would make an entry of every matrix positive; here signs are random."""
    signs = {torch.sign(initial_weights((3, 3), "orthogonal_normal", seed=seed)[0][0, 0]).item() for seed in range(12)}
    assert signs == {-1.0, 1.0}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scale_multiplies_every_weight(scheme):
    plain, scaled = initial_weights((3, 7, 2), scheme, seed=1), initial_weights((3, 7, 2), scheme, 8.0, seed=1)
    assert same([8 * W for W in plain], scaled)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_same_seed_same_bits_and_another_seed_other_weights(scheme):
    assert same(initial_weights((3, 7, 2), scheme, seed=9), initial_weights((3, 7, 2), scheme, seed=9))
    assert not torch.equal(initial_weights((3, 7), scheme, seed=9)[0], initial_weights((3, 7), scheme, seed=10)[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_batch_of_seeds_equals_each_seed_alone_bit_for_bit(scheme):
    seeds = [5, 0, 2**63 - 1]
    batch = initial_weights((3, 7, 6, 2), scheme, 1.5, seeds)
    assert [tuple(W.shape) for W in batch] == [(3, 7, 3), (3, 6, 7), (3, 2, 6)]
    for position, seed in enumerate(seeds):
        assert same([W[position] for W in batch], initial_weights((3, 7, 6, 2), scheme, 1.5, seed))


def test_the_users_random_state_is_neither_read_nor_changed():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = initial_weights((3, 7, 2), "msra", seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(first, initial_weights((3, 7, 2), "msra", seed=0))


@pytest.mark.parametrize(("wrong", "right"), [("MSRA", "msra"), ("lecun", "lecun_normal"), ("xaviar", "xavier")])
def test_unknown_scheme_suggests_the_nearest(wrong, right):
    with pytest.raises(InvalidInput, match=rf"init='{wrong}' is unknown; did you mean \"{right}\"\? Valid: "):
        initial_weights((2, 3), wrong)


def test_scheme_that_is_no_name_is_refused():
    """A list once ended in "unhashable type"."""
    with pytest.raises(InvalidInput, match=r"init=\['msra'\] is unknown"):
        initial_weights((2, 3), ["msra"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_train_starts_from_these_weights_and_zero_thresholds(scheme):
    started = []

    class Look(Callback):
        def on_start(self, run):
            started.extend(run.network.weights)

    X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(-1, 2)
    train(X, X[:, 0], hidden=(4, 3), init=scheme, init_scale=2.0, seed=6, max_iter=1, callbacks=[Look()])
    expected = initial_weights((2, 4, 3, 1), scheme, 2.0, 6)
    assert same([torch.tensor(W) for W, _ in started], expected)
    assert all((b == 0).all() for _, b in started)
