"""Every closed form minimises its subproblem: the gradient, by autograd, vanishes at the new block.

The subproblems are written out here from the paper's definitions, in unscaled multipliers.
"""

import pytest
import torch

from helpers import network, small_run
from sigmadmm.activations import ACTIVATIONS
from sigmadmm.network import Layer

SHAPES = {2: (3, 7, 2), 3: (2, 6, 9, 3), 4: (3, 8, 5, 7, 1), 5: (1, 6, 6, 4, 5, 2)}
PENALTIES = [1.3, 0.7, 2.0, 0.4, 1.1]
TOLERANCE = 1e-10


def relative_gradient(terms, variables):
    """|sum of the terms' gradients| / sum of their norms, over all variables."""
    gradients = [torch.autograd.grad(term, variables, retain_graph=True, allow_unused=True) for term in terms]
    columns = [[g for g in column if g is not None] for column in zip(*gradients, strict=True)]
    total = sum(sum(column).square().sum() for column in columns).sqrt()
    size = sum(g.norm() for column in columns for g in column)
    return (total / size).item()


def affine(W, b, A):
    return W @ A if b is None else W @ A + b


def variables_of(layer):
    W, b = layer
    return (
        W.detach().clone().requires_grad_(),
        None if b is None else b.detach().clone().requires_grad_(),
    )


def surrogate(s, old_Z, new_Z, B, h):
    """The parabola that replaces 1/2 |s(Z) - B|^2; returned as its two terms."""
    old_Z = old_Z.detach().requires_grad_()
    value = (s(old_Z) - B).square().sum() / 2
    (G,) = torch.autograd.grad(value, old_Z)
    step = new_Z - old_Z.detach()
    return (G * step).sum(), h / 4 * step.square().sum()


def weight_gradient(run, old, new, h, i):
    """The W_i-subproblem at the new W_i."""
    N = len(new.layers)
    A = run.X if i == 1 else old.V[i - 2]
    V, Lam, beta = old.V[i - 1], old.Lam[i - 1], run.beta[i - 1].item()
    W, b = variables_of(new.layers[i - 1])
    lam = run.problem.regularization.item()
    ridge = lam / 2 * W.square().sum()
    if b is not None and run.problem.regularize_bias:
        ridge = ridge + lam / 2 * b.square().sum()
    Z = affine(W, b, A)
    if i == N:
        terms = [beta / 2 * (Z - V).square().sum(), (Lam * (Z - V)).sum()]
    else:
        old_Z = affine(*old.layers[i - 1], A)
        terms = [beta * term for term in surrogate(run.problem.activation.value, old_Z, Z, V - Lam / beta, h[i - 1])]
    return relative_gradient([ridge, *terms], [W] if b is None else [W, b])


def feature_gradient(run, old, new, h, j):
    """The V_j-subproblem at the new V_j."""
    N = len(new.layers)
    s = run.problem.activation.value
    below = run.X if j == 1 else new.V[j - 2]
    beta = run.beta[j - 1].item()
    Z = affine(*new.layers[j - 1], below)
    V = new.V[j - 1].detach().clone().requires_grad_()
    if j == N:
        distance = (Z + old.Lam[-1] / beta - V).square().sum()
        return relative_gradient([(V - run.Y).square().sum() / 2, beta / 2 * distance], [V])
    fit = beta / 2 * (s(Z) + old.Lam[j - 1] / beta - V).square().sum()
    above, W = run.beta[j].item(), new.layers[j]
    B = old.V[j] - old.Lam[j] / above
    if j == N - 1:
        return relative_gradient([fit, above / 2 * (affine(*W, V) - B).square().sum()], [V])
    terms = surrogate(s, affine(*W, old.V[j - 1]), affine(*W, V), B, h[j])
    return relative_gradient([fit, *(above * term for term in terms)], [V])


def check_all_blocks(run, which):
    """One iteration of `run`; then every block of network `which` (None: the only one) is a stationary point."""
    pick = run.iterate if which is None else lambda: network(run, which)
    run.steps(2)
    old = pick()
    h = [(x if which is None or x.ndim == 2 else x[which]).item() for x in run.curvatures()]
    run.steps(1)
    new = pick()
    one = run if which is None else single(run, which)
    N = len(new.layers)
    for i in range(1, N + 1):
        assert weight_gradient(one, old, new, h, i) < TOLERANCE, f"W_{i}"
    for j in range(1, N + 1):
        assert feature_gradient(one, old, new, h, j) < TOLERANCE, f"V_{j}"


def single(run, b):
    """The data and settings of network b, for the subproblems."""

    class One:
        problem = run.problem
        beta, X, Y = [beta[b] for beta in run.beta], run.X[b], run.Y[b]

    return One()


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("N", SHAPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_block_of_one_network(activation, N, bias):
    check_all_blocks(small_run(SHAPES[N], activation, bias=bias, penalty=PENALTIES[:N]), None)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("N", SHAPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_block_of_a_batch(activation, N, bias):
    check_all_blocks(small_run(SHAPES[N], activation, bias=bias, batch=3, penalty=PENALTIES[:N]), 1)


@pytest.mark.parametrize("curvature", ["paper", "tight", "sharp", "max"])
def test_every_curvature_rule(curvature):
    check_all_blocks(small_run((2, 6, 5, 1), "sigmoid", curvature=curvature), None)


@pytest.mark.parametrize("N", SHAPES)
def test_thresholds_that_are_not_regularised(N):
    check_all_blocks(small_run(SHAPES[N], "tanh", regularize_bias=False, penalty=PENALTIES[:N]), None)


def test_one_hidden_layer_sees_the_linear_output():
    """The authors' demo updates V_1 of a one-hidden-layer network as if the output were a sigmoid; its fixed
    points are not KKT points. Ours must head for one: the output group r5 goes to zero."""
    run = small_run((1, 12, 1), n=60, regularization=1e-3)
    run.steps(3000)
    it = run.iterate()
    W_N = it.layers[-1].W
    assert (W_N.mT @ it.Lam[-1] - it.Lam[-2]).norm() < 1e-3 * (1 + it.Lam[-2].norm())


def test_the_order_of_a_wide_or_narrow_gain_does_not_matter():
    """K is the same from the d_j x d_j and the d_{j+1} x d_{j+1} system."""
    from sigmadmm.admm.updates import feature_gain

    W = torch.randn(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    h, ratio = torch.full((1, 1), 0.8, dtype=torch.float64), torch.full((1, 1), 1.7, dtype=torch.float64)
    shift = 2 * 1.7 / 0.8
    for V in (W, W.mT):
        K, raised = feature_gain(V, h, ratio)
        expected = 2 / 0.8 * V.mT @ torch.linalg.inv(shift * torch.eye(V.shape[0], dtype=V.dtype) + V @ V.mT)
        torch.testing.assert_close(K, expected, rtol=1e-12, atol=1e-13)
        assert not raised


def test_layer_round_trip():
    W, b = torch.randn(3, 4), torch.randn(3, 1)
    again = Layer.from_matrix(Layer(W, b).matrix, True)
    assert torch.equal(again.W, W)
    assert torch.equal(again.b, b)
