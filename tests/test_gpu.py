"""On a GPU the same network comes out as on the CPU, twice the same bits. Runs where torch finds a GPU."""

import numpy as np
import pytest
import torch

import sigmadmm

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")

DATA = sigmadmm.datasets.product(n=400)
OPTIONS = {"hidden": (30, 20), "method": "paper", "regularization": 1e-3, "max_iter": 20}


@pytest.mark.parametrize("activation", sigmadmm.ACTIVATIONS)
def test_gpu_agrees_with_cpu(activation):
    there, here = (
        sigmadmm.train(*DATA, **OPTIONS, activation=activation, init="lecun_normal", device=device)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=1e-7)
    np.testing.assert_allclose(there.network.predict(DATA[0]), here.network.predict(DATA[0]), rtol=1e-6, atol=1e-8)


def test_same_seed_twice_gives_the_same_bits_on_a_gpu():
    a, b = (sigmadmm.train(*DATA, **OPTIONS, device="cuda") for _ in range(2))
    for name in set(a.history) - {"seconds"}:
        assert np.array_equal(a.history[name], b.history[name]), name


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_everything_a_run_leaves_is_usable_without_thinking_of_the_device(dtype):
    result = sigmadmm.train(*DATA, **OPTIONS, dtype=dtype, device="auto")
    assert result.network.layers[0].W.device.type == "cuda"
    assert isinstance(result.network.weights[0][0], np.ndarray)
    assert np.isfinite(result.best_network.predict(DATA[0])).all()
    again = sigmadmm.train(*DATA, **OPTIONS, initial=result.network.weights, device="cpu")
    assert np.isfinite(again.history["objective"]).all()


def test_data_that_is_already_on_the_gpu():
    X, y = (torch.as_tensor(array, device="cuda") for array in DATA)
    result = sigmadmm.train(X, y, **OPTIONS)
    prediction = result.network.predict(X)
    assert prediction.device == X.device
    np.testing.assert_allclose(prediction.cpu().numpy(), result.network.predict(DATA[0]))


def test_baselines_agree_with_the_cpu():
    options = {name: OPTIONS[name] for name in ("hidden", "regularization")}
    for baseline in (sigmadmm.baselines.random_features_ridge, sigmadmm.baselines.lbfgs):
        there, here = (baseline(*DATA, **options, device=device) for device in ("cuda", "cpu"))
        np.testing.assert_allclose(there.train_mse, here.train_mse, rtol=0.5)


def test_predictions_for_a_tensor_come_back_on_its_device():
    network = sigmadmm.train(*DATA, **OPTIONS, device="cuda").network
    for device in ("cpu", "cuda"):
        rows = torch.as_tensor(DATA[0], device=device)
        assert network.predict(rows).device == rows.device


@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy"])
@pytest.mark.parametrize("solver", ["samples", "weights", "cg"])
def test_the_default_method_agrees_with_the_cpu(solver, loss):
    X, y = DATA
    y = (y > 0).astype(int) if loss == "cross_entropy" else y
    options = {"hidden": (8, 6), "regularization": 1e-3, "max_iter": 5, "solver": solver, "loss": loss}
    there, here = (sigmadmm.train(X, y, **options, init="lecun_normal", device=device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=1e-6)
    assert there.counters == here.counters
