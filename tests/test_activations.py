"""Activations: derivatives, constants against the table of the specification (section A), records of one's own."""

from __future__ import annotations

from dataclasses import replace
from math import e, inf, nan, pi, sqrt

import numpy as np
import pytest
import torch

from sigmadmm import ACTIVATIONS, Activation, InvalidInput, train
from sigmadmm.activations import scaled_tanh, verify

NAMES = sorted(ACTIVATIONS)
SIGMOIDS = sorted(set(NAMES) - {"gaussian", "gaussian_half", "sin"})

# name: (L0, L1, L2), the specification's table with the sharp L2
TABLE = {
    "sigmoid": (1, 1 / 4, 1 / (6 * sqrt(3))),
    "tanh": (1, 1, 4 / (3 * sqrt(3))),
    "scaled_tanh": (1.7159, 1.7159 * 2 / 3, 1.7159 * (2 / 3) ** 2 * 4 / (3 * sqrt(3))),
    "arctan": (pi / 2, 1, 3 * sqrt(3) / 8),
    "erf": (1, 2 / sqrt(pi), 2 * sqrt(2 / (pi * e))),
    "normal_cdf": (1, 1 / sqrt(2 * pi), 1 / sqrt(2 * pi * e)),
    "algebraic": (1, 1, 48 / (25 * sqrt(5))),
    "softsign": (1, 1, 2),
    "gaussian": (1, sqrt(2 / e), 2),
    "gaussian_half": (1, sqrt(1 / e), 1),
    "sin": (1, 1, 1),
}

X = np.linspace(-1, 1, 30).reshape(-1, 1)
Y = X[:, 0] ** 2


def grid() -> torch.Tensor:
    """Fine near 0, where the extremes of s' and s'' are, and far out, where |s| comes close to its bound."""
    near = torch.linspace(-12, 12, 24001, dtype=torch.float64)
    far = torch.logspace(1, 4, 200, dtype=torch.float64)
    tiny = torch.logspace(-9, -3, 7, dtype=torch.float64)  # softsign's s'' is largest in the limit u -> 0
    return torch.cat([-far, near, far, tiny, -tiny])


def derivatives_by_autograd(activation: Activation, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    u = u.clone().requires_grad_()
    (first,) = torch.autograd.grad(activation.value(u).sum(), u, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), u)
    return first.detach(), second


def test_the_table_covers_every_built_in_activation():
    assert set(TABLE) == set(ACTIVATIONS)
    assert all(name == activation.name for name, activation in ACTIVATIONS.items())


@pytest.mark.parametrize("name", NAMES)
def test_constants_are_those_of_the_specification(name):
    activation, (L0, L1, L2) = ACTIVATIONS[name], TABLE[name]
    np.testing.assert_allclose([activation.L0, activation.L1, activation.L2], [L0, L1, L2], rtol=1e-14)
    assert activation.L0 >= 1 / 8  # what the proofs use


def test_only_sigmoid_has_a_looser_printed_constant():
    assert {name: a.printed_L2 for name, a in ACTIVATIONS.items() if a.printed_L2 is not None} == {"sigmoid": 1 / 4}


@pytest.mark.parametrize("name", NAMES)
def test_bounds_hold_and_are_attained(name):
    activation, u = ACTIVATIONS[name], grid()
    for function, bound in [
        (activation.value, activation.L0),
        (activation.derivative, activation.L1),
        (activation.second, activation.L2),
    ]:
        largest = function(u).abs().max().item()
        assert largest <= bound * (1 + 1e-12)
        assert largest >= bound * (1 - 1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_is_lipschitz_with_constant_L2(name):
    activation = ACTIVATIONS[name]
    u = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    quotients = activation.derivative(u).diff().abs() / u.diff()
    assert quotients.max() <= activation.L2 * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_autograd(name):
    activation = ACTIVATIONS[name]
    u = torch.linspace(-7.03, 7.01, 1501, dtype=torch.float64)  # without 0, where softsign has no second derivative
    first, second = derivatives_by_autograd(activation, u)
    torch.testing.assert_close(activation.derivative(u), first, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(activation.second(u), second, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_slope_from_the_value_agrees_with_the_derivative(name):
    activation, u = ACTIVATIONS[name], grid()
    torch.testing.assert_close(activation.slope(u, activation.value(u)), activation.derivative(u), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_centre_separates_where_s_is_convex_and_concave(name):
    activation, u = ACTIVATIONS[name], grid()
    assert ((activation.value(u) - activation.centre) * activation.second(u)).max() <= 1e-16


@pytest.mark.parametrize("name", SIGMOIDS)
def test_sigmoids_increase_and_are_symmetric_about_their_centre(name):
    activation, u = ACTIVATIONS[name], torch.linspace(0, 8, 801, dtype=torch.float64)
    assert (activation.derivative(u) > 0).all()
    above, below = activation.value(u) - activation.centre, activation.centre - activation.value(-u)
    torch.testing.assert_close(above, below, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_number_type_and_shape_are_kept(name, dtype):
    activation = ACTIVATIONS[name]
    u = torch.linspace(-3, 3, 24, dtype=dtype).reshape(2, 3, 4)
    for function in (activation.value, activation.derivative, activation.second):
        assert (function(u).dtype, function(u).shape) == (dtype, u.shape)
    s = activation.value(u)
    before = s.clone()
    assert activation.slope(u, s).dtype == dtype
    assert torch.equal(s, before)  # slope must not overwrite s, which the caller still needs


@pytest.mark.parametrize("name", NAMES)
def test_built_in_records_pass_the_check_of_own_records(name):
    assert verify(ACTIVATIONS[name]) is None


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.5, 0.5), (1.0, 3.0)])
def test_scaled_tanh_with_other_constants(a, b):
    activation, u = scaled_tanh(a, b), torch.tensor([-2.0, 0.0, 0.3], dtype=torch.float64)
    assert verify(activation) is None
    torch.testing.assert_close(activation.value(u), a * torch.tanh(b * u))


# Records of one's own.


def own_tanh(**changes) -> Activation:
    """The least that a record needs."""
    record = Activation(
        "my_tanh",
        value=torch.tanh,
        derivative=lambda u: 1 - torch.tanh(u) ** 2,
        L0=1.0,
        L1=1.0,
        L2=0.77,
    )
    return replace(record, **changes)


def test_own_record_trains_like_the_built_in_one():
    sharp = own_tanh(L2=ACTIVATIONS["tanh"].L2)
    own = train(X, Y, method="paper", hidden=(6, 5), activation=sharp, max_iter=5, seed=3)
    built_in = train(X, Y, method="paper", hidden=(6, 5), activation="tanh", max_iter=5, seed=3)
    np.testing.assert_allclose(own.history["objective"], built_in.history["objective"], rtol=1e-8)
    assert repr(own.network) == "Network(1-6-5-1, my_tanh, 53 parameters)"


def test_built_in_record_is_accepted_as_object():
    by_name = train(X, Y, method="paper", hidden=(4,), activation="erf", max_iter=3)
    by_record = train(X, Y, method="paper", hidden=(4,), activation=ACTIVATIONS["erf"], max_iter=3)
    assert np.array_equal(by_name.network.predict(X), by_record.network.predict(X))


def test_own_record_that_is_not_a_sigmoid_trains():
    bump = Activation(  # 1 / (1 + u^2)
        "bump",
        value=lambda u: 1 / (1 + u * u),
        derivative=lambda u: -2 * u / (1 + u * u) ** 2,
        second=lambda u: (6 * u * u - 2) / (1 + u * u) ** 3,
        L0=1.0,
        L1=3 * sqrt(3) / 8,
        L2=2.0,
        centre=3 / 4,
    )
    for curvature in ("paper", "tight", "sharp"):
        result = train(X, Y, method="paper", hidden=(10,), activation=bump, curvature=curvature, max_iter=5)
        assert np.isfinite(result.history["objective"]).all()
        assert result.history["objective"].min() < 0.5 * np.sum(Y**2)  # better than the zero network


def far(u):
    """All of its bends are beyond 12."""
    return u * 0 - 1


def hard_tanh_slope(u):
    return (u.abs() < 1).to(u.dtype)


def fails(u):
    raise RuntimeError("no kernel\nfor this")


WRONG_RECORDS = {
    "L0 too small": (own_tanh(L0=0.9), "L0=0.9 is too small, 1 occurs"),
    "L1 too small": (own_tanh(L1=0.9), "L1=0.9 is too small, 1 occurs"),
    "L2 too small": (own_tanh(L2=0.7), "L2=0.7 is too small, 0.769"),
    "printed_L2 too small": (own_tanh(printed_L2=0.5), "printed_L2=0.5 is too small"),
    "derivative of another function": (own_tanh(derivative=torch.cos), "derivative is not the derivative of its value"),
    "derivative with the wrong sign": (own_tanh(derivative=lambda u: torch.tanh(u) ** 2 - 1), "not the derivative"),
    "wrong derivative_from_value": (
        own_tanh(derivative_from_value=lambda s: s * (1 - s)),
        "derivative_from_value disagrees with derivative",
    ),
    "second with the wrong sign": (
        own_tanh(second=lambda u: 2 * torch.tanh(u) * (1 - torch.tanh(u) ** 2)),
        "second is not the derivative of its derivative",
    ),
    "centre of the sigmoid": (own_tanh(centre=0.5), "occurs for its centre m=0.5"),
    "s' jumps": (own_tanh(value=torch.nn.functional.hardtanh, derivative=hard_tanh_slope), "L2=0.77 is too small, 200"),
    "unbounded": (own_tanh(value=torch.relu, derivative=lambda u: (u > 0).to(u.dtype)), "L0=1 is too small, 12"),
    "NaN": (own_tanh(value=lambda u: u * nan), "not the derivative"),
    "L1 is NaN": (own_tanh(L1=nan), "L1=nan is not a positive finite number"),
    "L2 is infinite": (own_tanh(L2=inf), "L2=inf is not a positive finite number"),
    "L2 is zero": (own_tanh(L2=0.0), "L2=0.0 is not a positive finite number"),
    "L0 is a string": (own_tanh(L0="1"), "L0='1' is not a positive finite number"),
    "float64 only": (own_tanh(value=lambda u: torch.tanh(u.double())), "its value turns float32 into float64"),
    "centre out of sight": (
        own_tanh(value=far, derivative=lambda u: far(u) * 0, L2=1.0, centre=0.0),
        "its centre cannot be checked",
    ),
    "NumPy function": (own_tanh(value=lambda u: np.tanh(u.numpy())), "cannot be evaluated on a tensor"),
    "function that raises": (own_tanh(value=fails), "cannot be evaluated on a tensor (no kernel for this)"),
}


@pytest.mark.parametrize("case", WRONG_RECORDS)
def test_wrong_record_is_refused_with_a_sentence_before_iteration_1(case):
    record, problem = WRONG_RECORDS[case]
    seen = []
    with pytest.raises(InvalidInput) as caught:
        train(X, Y, method="paper", hidden=(4,), activation=record, callbacks=[seen.append])
    message = str(caught.value)
    assert message.startswith('activation "my_tanh" cannot be used: ')
    assert problem in message
    assert message.endswith("; correct its record")
    assert "\n" not in message
    assert seen == []


def test_kink_of_the_derivative_at_0_is_allowed():
    softsign = ACTIVATIONS["softsign"]
    own = replace(softsign, name="my_softsign")
    assert verify(own) is None
    assert np.isfinite(train(X, Y, method="paper", hidden=(4,), activation=own, max_iter=3).history["objective"]).all()
