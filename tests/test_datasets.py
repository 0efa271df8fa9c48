"""The paper's test functions: formulas, domain, seeds, noise."""

import numpy as np
import pytest

from sigmadmm import datasets

FORMULAS = {
    "square": lambda X: X[:, 0] ** 2,
    "product": lambda X: X[:, 0] * X[:, 1],
    "l1_radial": lambda X: np.maximum(np.abs(X[:, 0]) + np.abs(X[:, 1]) - 1, 0),
    "l2_radial": lambda X: np.where(
        (X**2).sum(1) < 1, (1 - (X**2).sum(1)) ** 5 * (8 * (X**2).sum(1) ** 2 + 5 * (X**2).sum(1) + 1), 0
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_samples_are_those_of_the_function(name):
    X, y = getattr(datasets, name)(n=200, seed=3)
    again, _ = getattr(datasets, name)(n=200, seed=3)
    other, _ = getattr(datasets, name)(n=200, seed=4)
    assert np.array_equal(X, again)
    assert not np.array_equal(X, other)
    assert (np.abs(X) <= 1).all()
    np.testing.assert_allclose(y, FORMULAS[name](X), atol=1e-14)


@pytest.mark.parametrize("name", ["l1_radial", "l2_radial"])
def test_noise_is_a_standard_deviation_and_leaves_the_points_alone(name):
    X, y = getattr(datasets, name)(n=20_000, noise=0.3)
    assert np.array_equal(X, getattr(datasets, name)(n=20_000)[0])
    assert np.std(y - FORMULAS[name](X)) == pytest.approx(0.3, rel=0.03)
