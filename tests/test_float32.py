"""float32 samples: sums and solves stay in float64, so the result is finite where a plain version gives NaN."""

import numpy as np
import pytest
import torch

import sigmadmm
from sigmadmm.admm.stats import cross_moment, gram_moment


@pytest.mark.parametrize("scale", [1.0, 8.0])
@pytest.mark.parametrize("regularization", [1e-6, 1e-12])
@pytest.mark.parametrize("hidden", [(40,), (40, 40), (20, 20, 20)])
def test_float32_is_finite_on_ill_posed_problems(scale, regularization, hidden):
    X, y = sigmadmm.datasets.square(n=300)
    result = sigmadmm.train(
        X,
        y,
        hidden=hidden,
        method="paper",
        dtype="float32",
        init_scale=scale,
        regularization=regularization,
        max_iter=30,
    )
    assert result.status is sigmadmm.Status.MAX_ITER
    for name in result.history:
        assert np.isfinite(result.history[name]).all(), name
    assert np.isfinite(result.network.predict(X)).all()


def test_float32_agrees_with_float64_on_a_well_posed_problem():
    X, y = sigmadmm.datasets.product(n=200)
    options = {"hidden": (15, 15), "method": "paper", "regularization": 1e-1, "max_iter": 20, "init": "lecun_normal"}
    single, double = (sigmadmm.train(X, y, dtype=dtype, **options) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single.history["objective"], double.history["objective"], rtol=1e-4)
    for (W, b), (W2, b2) in zip(single.network.weights, double.network.weights, strict=True):
        np.testing.assert_allclose(W, W2, atol=1e-3)
        np.testing.assert_allclose(b, b2, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_sums_over_float32_samples_are_taken_in_float64(bias):
    generator = torch.Generator().manual_seed(0)
    G, V = (torch.randn(rows, 4000, generator=generator) for rows in (3, 5))
    exact = torch.cat([V.double(), torch.ones(1, 4000, dtype=torch.float64)]) if bias else V.double()
    torch.testing.assert_close(cross_moment(G, V, bias), G.double() @ exact.mT, rtol=1e-13, atol=1e-11)
    torch.testing.assert_close(gram_moment(V, bias), exact @ exact.mT, rtol=1e-13, atol=1e-11)
