"""The baselines are what they say: an exact ridge solution on untrained features, and L-BFGS on the same F."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sigmadmm import InvalidInput
from sigmadmm.baselines import Baseline, lbfgs, random_features_ridge
from sigmadmm.initializers import initial_weights

N = 60
X = np.random.default_rng(3).uniform(-1, 1, (N, 2))
Y = np.stack([X[:, 0] * X[:, 1], np.cos(2 * X[:, 0])], axis=1)
LAMBDA = 1e-2  # large enough for normal equations in float64

SHORT = {random_features_ridge: {}, lbfgs: {"max_iter": 40}}
BIASES = [
    pytest.param({}, id="thresholds"),
    pytest.param({"regularize_bias": False}, id="free thresholds"),
    pytest.param({"bias": False}, id="no thresholds"),
]


def ridge(x=X, y=Y, **arguments) -> Baseline:
    return random_features_ridge(x, y, **{"hidden": (8, 6), "regularization": LAMBDA} | arguments)


def features_of(weights, x: np.ndarray) -> np.ndarray:
    """V_{N-1} of a sigmoid network, samples as rows."""
    for W, b in weights[:-1]:
        x = 1 / (1 + np.exp(-(x @ W.T + b)))
    return x


def objective_and_mse(weights, x, y, regularization, regularize_bias=True) -> tuple[float, float]:
    """F and the mean squared error, from the weights alone."""
    W, b = weights[-1]
    error = features_of(weights, x) @ W.T + b - y.reshape(len(y), -1)
    squares = sum(np.sum(W**2) + (np.sum(b**2) if regularize_bias else 0) for W, b in weights)
    return np.sum(error**2) / 2 + regularization / 2 * squares, np.mean(error**2)


# Random features and ridge


@pytest.mark.parametrize("biases", BIASES)
@pytest.mark.parametrize("targets", [Y, Y[:, 0]], ids=["two outputs", "one output"])
def test_ridge_equals_the_normal_equations(biases, targets):
    weights = ridge(y=targets, **biases).network.weights
    W, b = weights[-1]
    A, y = features_of(weights, X), targets.reshape(N, -1)
    decay = np.full(A.shape[1], LAMBDA)
    solution = W.T
    if biases.get("bias", True):
        A, solution = np.column_stack([A, np.ones(N)]), np.vstack([W.T, b])
        decay = np.append(decay, LAMBDA if biases.get("regularize_bias", True) else 0)
    expected = np.linalg.solve(A.T @ A + np.diag(decay), A.T @ y)
    np.testing.assert_allclose(solution, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("biases", BIASES)
@pytest.mark.parametrize("regularization", [1.0, 1e-2, 1e-6, 1e-10])
def test_gradient_of_the_objective_in_the_output_layer_vanishes(biases, regularization):
    weights = ridge(**biases, regularization=regularization).network.weights
    W, b = weights[-1]
    A = features_of(weights, X)
    error = A @ W.T + b - Y
    gradient_W = error.T @ A + regularization * W
    size = np.linalg.norm(W) * np.linalg.norm(A) ** 2  # of what cancels
    assert np.linalg.norm(gradient_W) <= 1e-13 * size
    if biases.get("bias", True):
        decay = regularization if biases.get("regularize_bias", True) else 0
        assert np.linalg.norm(error.sum(0) + decay * b) <= 1e-13 * size
    else:
        assert (b == 0).all()


def test_no_other_output_layer_is_better():
    result = ridge()
    *hidden, (W, b) = result.network.weights
    random = np.random.default_rng(0)
    for size in (1e-1, 1e-3, 1e-5):
        moved = [*hidden, (W + size * random.normal(size=W.shape), b + size * random.normal(size=b.shape))]
        assert objective_and_mse(moved, X, Y, LAMBDA)[0] > result.objective


@pytest.mark.parametrize("scheme", ["msra", "orthogonal_normal"])
def test_ridge_leaves_the_hidden_layers_as_they_were_drawn(scheme):
    weights = ridge(init=scheme, init_scale=3.0, seed=4).network.weights
    drawn = initial_weights((2, 8, 6, 2), scheme, 3.0, 4)
    for (W, b), expected in zip(weights[:-1], drawn[:-1], strict=True):
        assert np.array_equal(W, expected.numpy())
        assert (b == 0).all()
    assert not np.array_equal(weights[-1][0], drawn[-1].numpy())


@pytest.mark.parametrize("baseline", [random_features_ridge, lbfgs])
def test_baselines_start_from_initial_and_do_not_modify_it(baseline):
    generator = torch.Generator().manual_seed(0)
    shapes = [(8, 2), (6, 8), (2, 6)]
    pairs = [tuple(torch.randn(*s, generator=generator, dtype=torch.float64) for s in (wb, wb[:1])) for wb in shapes]
    before = [(W.clone(), b.clone()) for W, b in pairs]
    result = baseline(X, Y, hidden=(8, 6), regularization=LAMBDA, initial=pairs, **SHORT[baseline])
    assert all(torch.equal(W, V) and torch.equal(b, c) for (W, b), (V, c) in zip(pairs, before, strict=True))
    assert result.objective < objective_and_mse([(W.numpy(), b.numpy()) for W, b in before], X, Y, LAMBDA)[0]
    if baseline is random_features_ridge:
        for (W, b), (V, c) in zip(result.network.weights[:-1], before[:-1], strict=True):
            assert np.array_equal(W, V.numpy())
            assert np.array_equal(b, c.numpy())


def test_the_network_does_not_share_memory_with_initial():
    W1, W2 = torch.ones(4, 2, dtype=torch.float64), torch.ones(2, 4, dtype=torch.float64)
    network = ridge(hidden=(4,), initial=[(W1, None), (W2, None)]).network
    before = network.predict(X)
    W1.zero_()
    assert np.array_equal(network.predict(X), before)


def test_outputs_are_independent_problems():
    both = ridge().network.predict(X)
    np.testing.assert_allclose(both[:, 0], ridge(y=Y[:, 0], initial=first_output()).network.predict(X), atol=1e-10)


def first_output() -> list:
    *hidden, (W, b) = ridge().network.weights
    return [*hidden, (W[:1], b[:1])]


def test_ridge_interpolates_when_it_can():
    result = ridge(X[:10], Y[:10], hidden=(50,), init_scale=8.0, regularization=1e-10)
    assert result.train_mse < 1e-12


def test_ridge_with_nearly_singular_features_is_finite_and_better_than_zero():
    """The square with one hidden layer and zero thresholds: all features are odd about 1/2."""
    x = np.linspace(-1, 1, 100).reshape(-1, 1)
    y = x[:, 0] ** 2
    result = random_features_ridge(x, y, hidden=(100,), regularization=1e-6)
    assert result.train_mse == pytest.approx(np.var(y), rel=1e-3)  # the constant predictor


def test_float32_ridge_is_close_and_measured_in_float64():
    single, double = ridge(dtype="float32"), ridge()
    assert single.objective == pytest.approx(double.objective, rel=1e-5)
    x, y = X.astype("float32").astype("float64"), Y.astype("float32").astype("float64")
    F, mse = objective_and_mse(single.network.weights, x, y, LAMBDA)
    assert single.objective == pytest.approx(F, rel=1e-12)
    assert single.train_mse == pytest.approx(mse, rel=1e-12)


# L-BFGS


def fit_lbfgs(**arguments) -> Baseline:
    return lbfgs(X, Y, **{"hidden": (8, 6), "regularization": LAMBDA, "max_iter": 150} | arguments)


def test_lbfgs_trains_the_hidden_layers_and_gets_below_ridge():
    assert fit_lbfgs().objective < 0.5 * ridge().objective


def test_lbfgs_is_deterministic():
    one, other = fit_lbfgs(seed=2), fit_lbfgs(seed=2)
    assert (one.objective, one.n_iter) == (other.objective, other.n_iter)
    assert np.array_equal(one.network.predict(X), other.network.predict(X))
    assert fit_lbfgs(seed=3).objective != one.objective


def test_more_iterations_of_lbfgs_never_raise_the_objective():
    objectives = [fit_lbfgs(max_iter=count).objective for count in (1, 5, 20, 80)]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[0] > objectives[-1]


def test_lbfgs_keeps_to_max_iter():
    assert fit_lbfgs(max_iter=7).n_iter == 7


@pytest.mark.parametrize("biases", BIASES)
def test_lbfgs_reaches_a_stationary_point(biases):
    result = lbfgs(X, Y, hidden=(4,), regularization=0.1, max_iter=2000, **biases)
    weights = [tuple(torch.tensor(part, requires_grad=True) for part in pair) for pair in result.network.weights]
    (W1, b1), (W2, b2) = weights
    output = torch.sigmoid(torch.tensor(X) @ W1.T + b1) @ W2.T + b2
    decayed = [W1, W2, b1, b2] if biases == {} else [W1, W2]
    F = (output - torch.tensor(Y)).square().sum() / 2 + 0.05 * sum(part.square().sum() for part in decayed)
    F.backward()
    free = [W1, W2] if biases == {"bias": False} else [W1, W2, b1, b2]
    assert max(part.grad.abs().max().item() for part in free) < 1e-5
    assert F.item() == pytest.approx(result.objective, rel=1e-12)


def test_lbfgs_in_float32():
    single = fit_lbfgs(dtype="float32", max_iter=40)
    assert np.isfinite(single.objective)
    assert single.objective < 0.8 * ridge().objective
    assert all(W.dtype == np.float64 for W, _ in single.network.weights)


def test_lbfgs_inside_no_grad():
    with torch.no_grad():
        assert fit_lbfgs(max_iter=10).objective == fit_lbfgs(max_iter=10).objective


# Both


@pytest.mark.parametrize("baseline", [random_features_ridge, lbfgs])
@pytest.mark.parametrize("biases", BIASES)
@pytest.mark.parametrize("targets", [Y, Y[:, 0]], ids=["two outputs", "one output"])
def test_reported_numbers_follow_from_the_weights(baseline, biases, targets):
    result = baseline(X, targets, hidden=(8, 6), regularization=LAMBDA, **biases, **SHORT[baseline])
    F, mse = objective_and_mse(result.network.weights, X, targets, LAMBDA, biases.get("regularize_bias", True))
    assert result.objective == pytest.approx(F, rel=1e-12)
    assert result.train_mse == pytest.approx(mse, rel=1e-12)
    assert result.network.predict(X).shape == targets.shape
    assert result.seconds > 0
    assert result.n_iter >= 1


@pytest.mark.parametrize("activation", ["tanh", "softsign", "sin"])
def test_baselines_take_other_activations(activation):
    assert lbfgs(X, Y, hidden=(8,), activation=activation, max_iter=50).train_mse < np.var(Y) / 4
    assert random_features_ridge(X, Y, hidden=(30,), activation=activation, init_scale=3.0).train_mse < np.var(Y)


def test_ridge_copes_with_features_that_are_all_the_same():
    """By normal equations or plain QR this was 1e238."""
    assert ridge(np.zeros((50, 2)), np.arange(50.0), hidden=(50,), regularization=1e-300).train_mse <= np.var(range(50))


@pytest.mark.parametrize("baseline", SHORT)
def test_an_objective_that_overflows_is_refused(baseline):
    with pytest.raises(InvalidInput, match="the objective overflows"):
        baseline(X, Y * 1e180, **SHORT[baseline])


def test_lbfgs_works_where_gradients_are_switched_off():
    with torch.inference_mode():
        inside = lbfgs(X, Y, hidden=(4,), max_iter=5)
    assert inside.objective == lbfgs(X, Y, hidden=(4,), max_iter=5).objective


@pytest.mark.parametrize("baseline", SHORT)
def test_an_unknown_argument_is_refused_with_the_nearest_known_one(baseline):
    with pytest.raises(TypeError, match='regularisation is not an argument; did you mean "regularization"'):
        baseline(X, Y, regularisation=1.0)
