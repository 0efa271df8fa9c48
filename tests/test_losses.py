"""Losses: gradients, Hessian roots and proximal steps against autograd and plain search; what targets they take."""

import math

import numpy as np
import pytest
import torch

import sigmadmm
from sigmadmm import InvalidInput
from sigmadmm.losses import LOSSES

TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}


def example(name, outputs=3, samples=9, size=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    V = size * torch.randn(outputs, samples, dtype=torch.float64, generator=generator)
    Y = torch.randn(outputs, samples, dtype=torch.float64, generator=generator)
    if name == "binary_cross_entropy":
        Y = (Y > 0).double()
    elif name == "cross_entropy":
        Y = torch.softmax(4 * Y, -2)
    return V, Y


@pytest.mark.parametrize("size", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name, size):
    V, Y = example(name, size=size)
    V.requires_grad_()
    (expected,) = torch.autograd.grad(LOSSES[name].value(V, Y), V)
    torch.testing.assert_close(LOSSES[name].gradient(V.detach(), Y), expected, **TOLERANCE)


def curvature(loss, V, Y):
    """C C^T per sample, (samples, outputs, outputs)."""
    outputs, samples = V.shape
    if loss.root is None:
        return torch.eye(outputs, dtype=V.dtype).expand(samples, -1, -1)
    C = loss.root(V, Y).dense().movedim(-1, 0)
    return C @ C.mT


@pytest.mark.parametrize("name", ["squared_error", "binary_cross_entropy", "cross_entropy"])
def test_the_square_of_the_root_is_the_hessian(name):
    loss, (V, Y) = LOSSES[name], example(name)
    found = curvature(loss, V, Y)
    for n in range(V.shape[1]):
        column = Y[:, n : n + 1]
        hessian = torch.autograd.functional.hessian(lambda v, y=column: loss.value(v[:, None], y), V[:, n])
        torch.testing.assert_close(found[n], hessian, **TOLERANCE)


def test_hubers_parabola_touches_the_loss_and_lies_above_it():
    loss, (V, Y) = LOSSES["huber"], example("huber", samples=40)
    step = 3 * torch.randn(V.shape, dtype=V.dtype, generator=torch.Generator().manual_seed(1))
    for share in (0.01, 0.3, 1.0):
        moved = V + share * step
        root = torch.diagonal(curvature(loss, V, Y), dim1=1, dim2=2).mT
        parabola = loss.value(V, Y) + (loss.gradient(V, Y) * (moved - V) + root * (moved - V).square() / 2).sum()
        assert loss.value(moved, Y) <= parabola + 1e-9


@pytest.mark.parametrize("size", [0.5, 10.0])
@pytest.mark.parametrize("name", LOSSES)
def test_root_times_residual_is_the_gradient(name, size):
    loss, (V, Y) = LOSSES[name], example(name, size=size)
    residual = loss.residual(V, Y)
    product = residual if loss.root is None else torch.einsum("aon,on->an", loss.root(V, Y).dense(), residual)
    torch.testing.assert_close(product, loss.gradient(V, Y), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("beta", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("size", [0.5, 40.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_proximal_step_is_stationary(name, size, beta):
    loss, (C, Y) = LOSSES[name], example(name, size=size)
    beta = torch.full((1, 1), beta, dtype=torch.float64)
    V = loss.prox(C, Y, beta)
    gradient = loss.gradient(V, Y) + beta * (V - C)
    assert gradient.norm() <= 1e-10 * (1 + loss.gradient(C, Y).norm() + (beta * C).norm())


@pytest.mark.parametrize("name", LOSSES)
def test_networks_of_a_batch_are_treated_alone(name):
    loss = LOSSES[name]
    pairs = [example(name, seed=seed) for seed in (1, 2)]
    V, Y = (torch.stack(column) for column in zip(*pairs, strict=True))
    beta = torch.tensor([0.5, 2.0], dtype=torch.float64)[:, None, None]
    for b, (v, y) in enumerate(pairs):
        torch.testing.assert_close(loss.value(V, Y)[b], loss.value(v, y))
        torch.testing.assert_close(loss.prox(V, Y, beta)[b], loss.prox(v, y, beta[b]))
        if loss.root is not None:
            torch.testing.assert_close(loss.root(V, Y).dense()[b], loss.root(v, y).dense())


X = np.random.default_rng(0).normal(size=(60, 2))
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)


def fit(y, loss, **arguments):
    return sigmadmm.train(X, y, **{"hidden": (6,), "method": "paper", "max_iter": 30, "loss": loss} | arguments)


def test_classes_become_one_output_each():
    result = fit(CLASSES, "cross_entropy", regularization=1e-2)
    assert result.network.predict(X).shape == (60, 3)
    one_hot = fit(np.eye(3)[CLASSES], "cross_entropy", regularization=1e-2)
    assert np.array_equal(one_hot.history["objective"], result.history["objective"])


@pytest.mark.parametrize("name", LOSSES)
def test_algorithm_1_lowers_every_loss(name):
    y = CLASSES if name == "cross_entropy" else (CLASSES > 0).astype(float)
    result = fit(y, name, regularization=1e-2, init_scale=4.0)
    assert result.history["objective"].min() < 0.9 * result.history["objective"][0]
    assert np.isfinite(result.history["kkt"]).all()


@pytest.mark.parametrize(
    ("y", "loss", "words"),
    [
        (X[:, 0], "cross_entropy", "classes 0, 1, ..., K-1"),
        (CLASSES - 1, "cross_entropy", "classes 0, 1, ..., K-1"),
        (np.zeros(60), "cross_entropy", "at least two"),
        (CLASSES + 10**9, "cross_entropy", "classes 0, 1, ..., K-1"),
        (2 * CLASSES, "cross_entropy", "without gaps"),
        (np.ones(60), "cross_entropy", "without gaps (at least two)"),
        (np.ones((60, 3)), "cross_entropy", "add up to 1"),
        (CLASSES, "binary_cross_entropy", 'outside [0, 1], but loss="binary_cross_entropy"'),
        (CLASSES, "softmax", 'Valid: "squared_error"'),
    ],
)
def test_targets_that_do_not_fit_the_loss_are_refused(y, loss, words):
    with pytest.raises(InvalidInput) as caught:
        fit(y, loss)
    assert words in str(caught.value)


def test_ridge_refuses_a_loss_it_cannot_minimise():
    with pytest.raises(InvalidInput, match='loss="huber" has no exact output layer'):
        sigmadmm.baselines.random_features_ridge(X, X[:, 0], hidden=(4,), loss="huber")


def test_lbfgs_minimises_every_loss():
    baseline = sigmadmm.baselines.lbfgs(X, CLASSES, hidden=(6,), loss="cross_entropy", regularization=1e-2)
    assert baseline.objective < fit(CLASSES, "cross_entropy", regularization=1e-2).history["objective"].min()


def test_probabilities_in_single_precision_are_scaled_to_add_up_to_one():
    """Else the gradient, p - Y, was not that of the loss, and a run stalled."""
    Y = torch.softmax(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), 1).double()
    assert (Y.sum(1) - 1).abs().max() > 1e-12
    assert (LOSSES["cross_entropy"].targets(Y).sum(1) - 1).abs().max() < 1e-15


@pytest.mark.parametrize("odds", [-800.0, -30.0, 0.3, 20.001, 30.0, 800.0])
def test_losses_of_classes_keep_their_digits_far_from_the_boundary(odds):
    V, right = torch.tensor([[odds]], dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    exact = math.log1p(math.exp(-odds)) if odds > 0 else -odds + math.log1p(math.exp(odds))
    assert LOSSES["binary_cross_entropy"].value(V, right).item() == pytest.approx(exact, rel=1e-14)
    both, first = torch.cat([V + 5, 0 * V + 5]), torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert LOSSES["cross_entropy"].value(both, first).item() == pytest.approx(exact, rel=1e-14, abs=5e-16)
