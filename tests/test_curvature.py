"""Curvature rules: h is an upper bound of the second derivative of u -> (s(u) - c)^2 for all c in [low, high]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmadmm import ACTIVATIONS, Activation, InvalidInput, train
from sigmadmm.activations import scaled_tanh
from sigmadmm.curvature import RULES, curvature_rule, max_rule_threshold

NAMES = sorted(ACTIVATIONS)
MAJORISED_BY_MAX = ["normal_cdf", "sigmoid"]
VALID = [(name, rule) for name in NAMES for rule in RULES if rule != "max" or name in MAJORISED_BY_MAX]

# The specification's table: L(0), L(1) of the rule "paper"; sup f'' at c = 0, 1.
TABLE = {
    "sigmoid": (0.625, 1.125, 0.154, 0.154),
    "tanh": (3.540, 5.079, 2, 2.465),
    "scaled_tanh": (4.632, 5.806, 2.617, 2.834),
    "arctan": (4.041, 5.340, 2, 2.447),
    "erf": (4.482, 6.418, 2.546, 3.027),
    "normal_cdf": (0.802, 1.286, 0.378, 0.378),
    "algebraic": (3.717, 5.435, 2, 2.657),
    "softsign": (6, 10, 2, 6),
    "gaussian": (5.47, 9.47, 1.79, 1.64),
    "gaussian_half": (2.74, 4.74, 0.89, 0.82),
    "sin": (4, 6, 2, 2.25),
}

X = np.linspace(-1, 1, 20).reshape(-1, 1)
Y = X[:, 0] ** 2


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def h_of(activation: str | Activation, rule: str, low: float, high: float) -> float:
    record = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    return curvature_rule(rule, record)(number(low), number(high)).item()


def second_derivative(activation: Activation, u: torch.Tensor, c: torch.Tensor | float) -> torch.Tensor:
    """f_c'' for f_c(u) = (s(u) - c)^2."""
    return 2 * activation.derivative(u) ** 2 + 2 * (activation.value(u) - c) * activation.second(u)


def supremum(activation: Activation, c: float, width: float = 1.0) -> float:
    near_0 = torch.tensor([-1e-9, 1e-9], dtype=torch.float64)  # where softsign's is, in the limit
    u = width * torch.cat([torch.linspace(-14, 14, 56001, dtype=torch.float64), near_0])
    return second_derivative(activation, u, c).max().item()


# Values of the table.


def test_the_table_covers_every_built_in_activation():
    assert set(TABLE) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("c", [0, 1])
def test_paper_rule_has_the_value_of_the_table(name, c):
    assert h_of(name, "paper", c, c) == pytest.approx(TABLE[name][c], rel=2e-3)


def test_paper_rule_for_sigmoid_uses_the_printed_constant_and_would_be_half_as_large_with_the_sharp_one():
    assert h_of("sigmoid", "paper", 0, 0) == 2 / 4 * 1 + 2 / 16
    assert h_of("sigmoid", "paper", 0, 1) == 2 / 4 * 2 + 2 / 16
    sharp = replace(ACTIVATIONS["sigmoid"], printed_L2=None)
    assert h_of(sharp, "paper", 0, 0) == pytest.approx(0.317, abs=5e-4)
    assert h_of(sharp, "paper", 0, 1) == pytest.approx(0.510, abs=5e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("c", [0, 1])
def test_sharp_rule_is_the_supremum_to_a_tenth_of_a_percent(name, c):
    exact = supremum(ACTIVATIONS[name], c)
    assert exact == pytest.approx(TABLE[name][2 + c], rel=6e-3)  # two digits are printed for some
    assert exact <= h_of(name, "sharp", c, c) <= 1.0015 * exact


def test_sharp_rule_for_sigmoid_has_the_closed_form():
    s = torch.linspace(0, 1, 200001, dtype=torch.float64)
    for c in (-2.0, 0.0, 0.3, 1.0, 4.0):
        exact = (2 * s * (1 - s) * (s * (1 - s) + (s - c) * (1 - 2 * s))).max().item()
        assert exact <= h_of("sigmoid", "sharp", c, c) <= 1.0015 * exact


def test_tight_rule_has_the_stated_formulas():
    for c in (-3.0, 0.0, 0.5, 0.8, 6.0):
        assert h_of("sigmoid", "tight", c, c) == pytest.approx(1 / 8 + 0.19245 * abs(c - 1 / 2), rel=1e-5)
        assert h_of("tanh", "tight", c, c) == pytest.approx(2 + 1.5396 * abs(c), rel=1e-5)


def test_rules_look_at_the_worse_end_of_the_interval():
    assert h_of("tanh", "paper", -3, 1) == h_of("tanh", "paper", -3, -3) == h_of("tanh", "paper", -1, 3)
    assert h_of("sigmoid", "tight", -1, 1.5) == h_of("sigmoid", "tight", -1, -1)  # -1 is farther from 1/2
    assert h_of("sigmoid", "sharp", -1, 1.5) == h_of("sigmoid", "sharp", -1, -1)
    assert h_of("sigmoid", "max", -2, 1) == 2


# Every rule majorises.


@pytest.mark.parametrize(("name", "rule"), VALID)
@given(ends=st.tuples(st.floats(-6, 6), st.floats(-6, 6)))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_every_rule_is_a_majoriser(name, rule, ends):
    activation, (low, high) = ACTIVATIONS[name], sorted(ends)
    h = h_of(activation, rule, low, high)
    c = torch.linspace(low, high, 5, dtype=torch.float64).reshape(-1, 1, 1)
    u = torch.linspace(-9, 9, 361, dtype=torch.float64).reshape(-1, 1)
    t = torch.tensor([-7.0, -1.0, -0.1, -1e-3, 1e-2, 0.5, 3.0], dtype=torch.float64)
    assert second_derivative(activation, u, c).max() <= h
    s = activation.value(u)
    moved, value = (activation.value(u + t) - c) ** 2, (s - c) ** 2
    parabola = value + 2 * (s - c) * activation.derivative(u) * t + h / 2 * t**2
    assert (moved - parabola).max() <= 1e-12 * (1 + value.max())


@pytest.mark.parametrize("width", [1e-3, 0.05, 40.0, 1e4])
def test_sharp_rule_majorises_activations_that_are_very_wide_or_narrow(width):
    """Its grid once ended at |u| = 16 with steps of 1/250, whatever the activation: no majoriser for these."""
    tanh = ACTIVATIONS["tanh"]
    stretched = Activation(
        "stretched",
        value=lambda u: tanh.value(u / width),
        derivative=lambda u: tanh.derivative(u / width) / width,
        second=lambda u: tanh.second(u / width) / width**2,
        L0=tanh.L0,
        L1=tanh.L1 / width,
        L2=tanh.L2 / width**2,
    )
    for c in (0.0, 1.0, -3.0):
        exact = supremum(stretched, c, width)
        assert exact <= h_of(stretched, "sharp", c, c) <= 1.0015 * exact


def test_sharp_rule_bears_formulas_that_overflow_far_out():
    sigmoid = ACTIVATIONS["sigmoid"]
    naive = replace(
        sigmoid,
        value=lambda u: torch.exp(u) / (1 + torch.exp(u)),  # NaN for u > 710
        derivative=lambda u: torch.exp(u) / (1 + torch.exp(u)) ** 2,
        second=lambda u: torch.exp(u) * (1 - torch.exp(u)) / (1 + torch.exp(u)) ** 3,
    )
    assert h_of(naive, "sharp", 0, 1) == pytest.approx(h_of(sigmoid, "sharp", 0, 1), rel=1e-12)


# The rules compared.


@pytest.mark.parametrize("name", NAMES)
def test_sharp_is_at_most_tight_and_tight_at_most_paper(name):
    for low, high in [(0, 0), (0, 1), (-1, 1), (-4, 0.5), (0.4, 0.6), (2, 30)]:
        sharp, tight, paper = (h_of(name, rule, low, high) for rule in ("sharp", "tight", "paper"))
        assert sharp <= 1.001 * tight + 1e-12  # "sharp" is rounded up by 0.1 %
        assert tight <= paper


def test_tight_saves_the_stated_factors():
    def gain(name, c):
        return h_of(name, "paper", c, c) / h_of(name, "tight", c, c)

    assert gain("sigmoid", 0) == pytest.approx(2.8, abs=0.05)
    assert gain("sigmoid", 1) == pytest.approx(5.1, abs=0.05)
    assert gain("tanh", 0) == pytest.approx(1.8, abs=0.05)
    assert gain("tanh", 1) == pytest.approx(1.4, abs=0.05)


# The rule "max" of the authors' demo.


def test_max_rule_for_sigmoid_majorises_from_0_1753_on():
    sigmoid = ACTIVATIONS["sigmoid"]
    assert max_rule_threshold(sigmoid) == pytest.approx(0.1753, rel=2e-3)
    assert supremum(sigmoid, -0.1740) > 0.1740  # the demo's h = max|B| is then no majoriser
    assert supremum(sigmoid, -0.1755) <= 0.1755
    assert supremum(sigmoid, -0.5) <= 0.5


@pytest.mark.parametrize("name", MAJORISED_BY_MAX)
def test_max_rule_is_max_b_but_never_below_its_threshold(name):
    threshold = max_rule_threshold(ACTIVATIONS[name])
    assert h_of(name, "max", -0.01, 0.02) == threshold
    assert h_of(name, "max", 0, 0) == threshold
    assert h_of(name, "max", -2.5, 1) == 2.5
    assert h_of(name, "max", 0.3, 2.5) == 2.5


def test_max_rule_threshold_may_lie_above_1():
    wide = scaled_tanh(1.0, 0.75)  # 2 L2 = 0.87
    threshold = max_rule_threshold(wide)
    assert threshold > 1
    assert supremum(wide, -threshold) <= threshold
    assert supremum(wide, -0.99 * threshold) > 0.99 * threshold


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(MAJORISED_BY_MAX)))
def test_max_rule_is_refused_by_name_before_iteration_1(name):
    seen = []
    with pytest.raises(InvalidInput) as caught:
        train(X, Y, method="paper", hidden=(4,), activation=name, curvature="max", callbacks=[seen.append])
    message = str(caught.value)
    assert f'curvature="max" is no majoriser for activation "{name}"' in message
    assert 'use "paper", "tight" or "sharp"' in message
    assert seen == []


@pytest.mark.parametrize(("name", "rule"), VALID)
def test_valid_rules_train(name, rule):
    result = train(X, Y, method="paper", hidden=(4, 3), activation=name, curvature=rule, max_iter=3)
    assert np.isfinite(result.history["lagrangian"]).all()


# Own records, names, batches.


@pytest.mark.parametrize(
    ("rule", "missing", "word"),
    [("tight", "centre", "centre"), ("sharp", "second", "second"), ("max", "second", "second")],
)
def test_rules_are_refused_for_records_that_do_not_state_what_they_need(rule, missing, word):
    own = replace(ACTIVATIONS["sigmoid"], name="my_sigmoid", **{missing: None})
    seen = []
    with pytest.raises(InvalidInput) as caught:
        train(X, Y, method="paper", hidden=(4,), activation=own, curvature=rule, callbacks=[seen.append])
    message = str(caught.value)
    assert f'curvature="{rule}"' in message
    assert '"my_sigmoid"' in message
    assert word in message
    assert 'use curvature="paper"' in message
    assert seen == []
    assert train(X, Y, method="paper", hidden=(4,), activation=own, curvature="paper", max_iter=1).n_iter == 1


@pytest.mark.parametrize(
    ("wrong", "right"), [("papr", "paper"), ("Sharp", "sharp"), ("thight", "tight"), ("maxx", "max")]
)
def test_unknown_rule_suggests_the_nearest(wrong, right):
    with pytest.raises(InvalidInput, match=rf"curvature='{wrong}' is unknown; did you mean \"{right}\"\? Valid: "):
        curvature_rule(wrong, ACTIVATIONS["sigmoid"])


@pytest.mark.parametrize("rule", [["paper"], None, 3])
def test_rule_that_is_no_name_is_refused(rule):
    """A list once ended in "unhashable type"."""
    with pytest.raises(InvalidInput, match=r'is unknown.*Valid: "paper"'):
        curvature_rule(rule, ACTIVATIONS["sigmoid"])


@pytest.mark.parametrize(("name", "rule"), VALID)
def test_a_batch_of_extremes_gives_the_same_bits_as_each_alone(name, rule):
    low = torch.tensor([[-3.0, -0.01, 0.2], [0.0, -1.0, 1.5]], dtype=torch.float64)
    high = torch.tensor([[-2.0, 0.02, 0.9], [0.0, 4.0, 1.5]], dtype=torch.float64)
    h = curvature_rule(rule, ACTIVATIONS[name])(low, high)
    assert h.shape == low.shape
    for i in range(2):
        for j in range(3):
            assert h[i, j].item() == h_of(name, rule, low[i, j].item(), high[i, j].item())


@pytest.mark.parametrize("rule", RULES)
def test_nan_in_b_is_not_hidden(rule):
    """A run must be able to see that V became NaN, so no rule may replace it by a number."""
    assert np.isnan(h_of("sigmoid", rule, np.nan, np.nan))


def steep(slope, place):
    """A sigmoid that bends far from 0."""

    def value(u):
        return torch.sigmoid(slope * (u - place))

    def bend(u):
        s = value(u)
        return slope**2 * s * (1 - s) * (1 - 2 * s)

    L2 = slope**2 / (6 * 3**0.5) * (1 + 1e-9)
    return Activation("steep", value, lambda u: slope * value(u) * (1 - value(u)), 1.0, slope / 4, L2, second=bend)


@pytest.mark.parametrize(("slope", "place"), [(20, 50), (10, 20), (100, 5)])
def test_sharp_refuses_a_record_whose_bend_its_search_misses(slope, place):
    """Its bound was once too small by up to a factor 6, without a word."""
    with pytest.raises(InvalidInput, match=r'curvature="sharp" cannot be shown to majorise activation "steep"'):
        curvature_rule("sharp", steep(slope, place))


def test_sharp_accepts_a_record_whose_bend_it_finds():
    low, high = torch.tensor([0.0, 1.0], dtype=torch.float64)
    sigmoid, same = curvature_rule("sharp", ACTIVATIONS["sigmoid"]), curvature_rule("sharp", steep(1, 0))
    torch.testing.assert_close(same(low, high), sigmoid(low, high), rtol=1e-6, atol=0)
