"""The network a user gets: prediction, weights, sizes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from sigmadmm import ACTIVATIONS, Callback, Network, train
from sigmadmm.baselines import random_features_ridge
from sigmadmm.network import Layer, new_layers

N = 15
X = np.random.default_rng(2).uniform(-1, 1, (N, 2))
Y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 0])], axis=1)


def fit(x=X, y=Y, **arguments):
    return train(x, y, **{"hidden": (4, 3), "max_iter": 3, "method": "paper", "keep_state": True} | arguments)


def sigmoid_network(weights, x: np.ndarray) -> np.ndarray:
    """The forward pass, written out in NumPy."""
    *hidden, (W_last, b_last) = weights
    for W, b in hidden:
        x = 1 / (1 + np.exp(-(x @ W.T + b)))
    return x @ W_last.T + b_last


def same_weights(one, other) -> bool:
    return all(np.array_equal(W, V) and np.array_equal(b, c) for (W, b), (V, c) in zip(one, other, strict=True))


class Start(Callback):
    """Keeps the weights that a run starts from."""

    def on_start(self, run):
        self.weights = run.network.weights


# Prediction


def test_predict_is_the_forward_pass_of_the_weights():
    network = fit().network
    np.testing.assert_allclose(network.predict(X), sigmoid_network(network.weights, X), rtol=0, atol=1e-13)


def test_predict_without_thresholds():
    network = fit(bias=False).network
    assert all((b == 0).all() for _, b in network.weights)
    np.testing.assert_allclose(network.predict(X), sigmoid_network(network.weights, X), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_predict_uses_the_activation_in_hidden_layers_only(name):
    s = ACTIVATIONS[name].value
    network = fit(activation=name, max_iter=1).network
    (W1, b1), (W2, b2), (W3, b3) = [(torch.tensor(W), torch.tensor(b)) for W, b in network.weights]
    expected = s(s(torch.tensor(X) @ W1.T + b1) @ W2.T + b2) @ W3.T + b3
    np.testing.assert_allclose(network.predict(X), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_the_last_network_has_the_recorded_error_and_the_best_the_lowest_objective():
    result = fit(max_iter=12)
    error = np.mean((result.network.predict(X) - Y) ** 2)
    assert error == pytest.approx(result.history["train_mse"][-1], rel=1e-12)
    best = result.best_iteration - 1
    assert best == np.argmin(result.history["objective"])
    best_error = np.mean((result.best_network.predict(X) - Y) ** 2)
    assert best_error == pytest.approx(result.history["train_mse"][best], rel=1e-12)


@pytest.mark.parametrize(
    ("targets", "shape"), [(Y[:, 0], (N,)), (Y[:, :1], (N, 1)), (Y, (N, 2)), (Y[:, 0].tolist(), (N,))]
)
def test_predictions_have_the_shape_of_the_targets(targets, shape):
    result = fit(y=targets)
    assert result.network.predict(X).shape == shape
    assert result.best_network.predict(X).shape == shape
    assert result.network.predict(X[:1]).shape == (1, *shape[1:])
    assert result.network.predict(torch.tensor(X)).shape == shape


def test_predict_returns_a_tensor_for_a_tensor_and_numpy_for_the_rest():
    network = fit().network
    from_numpy, from_tensor = network.predict(X), network.predict(torch.tensor(X, requires_grad=True))
    assert isinstance(from_numpy, np.ndarray)
    assert isinstance(from_tensor, torch.Tensor)
    assert not from_tensor.requires_grad
    assert from_numpy.dtype == np.float64
    assert from_tensor.dtype == torch.float64
    assert np.array_equal(from_numpy, from_tensor.numpy())
    assert np.array_equal(network.predict(X.tolist()), from_numpy)


def test_predict_takes_frames():
    pandas = pytest.importorskip("pandas")
    network = fit().network
    predicted = network.predict(pandas.DataFrame(X, columns=["a", "b"]))
    assert isinstance(predicted, np.ndarray)
    assert np.array_equal(predicted, network.predict(X))


def test_predict_converts_integers_and_does_not_modify_its_input():
    network = fit().network
    rows = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    before = rows.clone()
    expected = network.predict(rows).numpy()
    assert torch.equal(rows, before)
    assert np.array_equal(network.predict(np.array([[0, 1], [2, -1]])), expected)
    assert np.array_equal(network.predict(rows.to(torch.float16)).numpy(), expected)


def test_samples_are_independent_of_each_other():
    network = fit().network
    one_by_one = np.concatenate([network.predict(X[i : i + 1]) for i in range(N)])
    np.testing.assert_allclose(one_by_one, network.predict(X), rtol=1e-11)


# Weights


@pytest.mark.parametrize("bias", [True, False])
def test_weights_go_round_through_initial_bit_for_bit(bias):
    network, start = fit(bias=bias, max_iter=7).network, Start()
    fit(initial=network.weights, bias=bias, callbacks=[start])
    assert same_weights(start.weights, network.weights)


def test_initial_takes_tensors_lists_and_no_threshold():
    weights, start = fit().network.weights, Start()
    (W1, b1), (W2, _), (W3, b3) = weights
    initial = ((torch.tensor(W1, requires_grad=True), b1.tolist()), [W2.tolist(), None], (np.asfortranarray(W3), b3))
    fit(initial=initial, callbacks=[start])
    assert same_weights(start.weights, [(W1, b1), (W2, np.zeros(3)), (W3, b3)])


def test_initial_weights_stay_float64_in_a_float32_run():
    weights, start = fit().network.weights, Start()
    fit(initial=weights, dtype="float32", callbacks=[start])
    assert same_weights(start.weights, weights)


def test_weights_are_copies():
    network = fit().network
    before = network.predict(X)
    for W, b in network.weights:
        W[:] = 0
        b[:] = 0
    assert np.array_equal(network.predict(X), before)


def test_initial_ignores_the_seed():
    weights = fit().network.weights
    assert same_weights(fit(initial=weights, seed=1).network.weights, fit(initial=weights, seed=2).network.weights)


# Sizes


def test_sizes_with_thresholds():
    network = fit(hidden=(4, 3)).network
    assert network.dims == (2, 4, 3, 2)
    assert network.n_parameters == (2 + 1) * 4 + (4 + 1) * 3 + (3 + 1) * 2
    assert repr(network) == "Network(2-4-3-2, sigmoid, 35 parameters)"
    assert [(W.shape, b.shape) for W, b in network.weights] == [((4, 2), (4,)), ((3, 4), (3,)), ((2, 3), (2,))]


def test_sizes_without_thresholds():
    network = fit(y=Y[:, 0], hidden=5, bias=False, activation="tanh").network
    assert network.dims == (2, 5, 1)
    assert network.n_parameters == 2 * 5 + 5
    assert repr(network) == "Network(2-5-1, tanh, 15 parameters)"


@pytest.mark.parametrize("hidden", [(4,), [4], 4, np.array([4]), np.int64(4), range(4, 5), torch.tensor([4])])
def test_hidden_takes_one_width_or_any_list_of_widths(hidden):
    assert fit(hidden=hidden, max_iter=1).network.dims == (2, 4, 2)


def test_result_says_what_it_is():
    assert repr(fit()) == "Result(Network(2-4-3-2, sigmoid, 35 parameters), max_iter, 3 iterations)"


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), torch.float32, "torch.float32"])
def test_dtype_may_be_a_name_or_a_type(dtype):
    assert fit(dtype=dtype).state.data.shards[0].X.dtype == torch.float32


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "auto"])
def test_device_may_be_a_name_or_a_torch_device(device):
    expected = "cuda" if device == "auto" and torch.cuda.is_available() else "cpu"
    assert fit(device=device).state.data.shards[0].X.device.type == expected


# float32 runs


def test_network_of_a_float32_run_is_a_float64_network_close_to_the_float64_run():
    single, double = fit(dtype="float32"), fit()
    assert all(W.dtype == b.dtype == np.float64 for W, b in single.network.weights)
    assert single.network.predict(X).dtype == np.float64
    np.testing.assert_allclose(single.network.predict(X), double.network.predict(X), rtol=1e-3, atol=1e-4)
    assert not np.array_equal(single.network.predict(X), double.network.predict(X))


def test_error_of_a_float32_run_is_measured_in_float64():
    result = fit(dtype="float32")
    x, y = X.astype("float32").astype("float64"), Y.astype("float32").astype("float64")
    error = np.mean((result.network.predict(x) - y) ** 2)
    assert error == pytest.approx(result.history["train_mse"][-1], rel=1e-12)


# The pieces


def test_layer_matrix_and_back():
    layer = Layer(torch.arange(6.0).reshape(2, 3), torch.tensor([[7.0], [8.0]]))
    again = Layer.from_matrix(layer.matrix, bias=True)
    assert torch.equal(again.W, layer.W)
    assert torch.equal(again.b, layer.b)
    assert layer.matrix.tolist() == [[0, 1, 2, 7], [3, 4, 5, 8]]
    assert Layer.from_matrix(layer.W, bias=False).b is None


def test_network_can_be_built_by_hand():
    layers = new_layers([torch.tensor([[2.0]]), torch.tensor([[3.0]])], bias=True)
    network = Network(layers, ACTIVATIONS["tanh"], flat_output=True)
    np.testing.assert_allclose(network.predict([[0.5], [-1.0]]), 3 * np.tanh([1.0, -2.0]), rtol=1e-6)


def test_ridge_baseline_and_train_start_from_the_same_hidden_layers():
    start = Start()
    fit(callbacks=[start], seed=5)
    assert same_weights(random_features_ridge(X, Y, hidden=(4, 3), seed=5).network.weights[:-1], start.weights[:-1])


def test_a_network_survives_pickling():
    network = fit().network
    again = pickle.loads(pickle.dumps(network))
    assert again.activation is network.activation
    assert np.array_equal(again.predict(X), network.predict(X))
