"""Every measure against its definition: autograd of the Lagrangian for the KKT groups, plain formulas for the rest."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from helpers import augmented_lagrangian, network, small_run
from sigmadmm.activations import ACTIVATIONS
from sigmadmm.network import Layer, forward
from sigmadmm.theory import lyapunov_weights

CASES = [
    ((2, 5, 1), {}),
    ((3, 6, 4, 2), {"bias": False}),
    ((1, 5, 7, 4, 3), {"regularize_bias": False}),
    ((2, 6, 5, 4, 5, 1), {"penalty": [0.5, 2.0, 1.0, 3.0, 0.7]}),
]


def measured(run, tol=1e-8):
    run.method.step(run.state, True)
    return SimpleNamespace(**run.method.measure(run.state, tol))


def weights(run):
    return lyapunov_weights(run.problem, run.state.layers, run.beta, run.state.data)


def kkt_by_autograd(run, it):
    """Gradients of the (not augmented) Lagrangian in W, V and Lambda, as the eight groups."""
    layers = [
        Layer(W.clone().requires_grad_(), None if b is None else b.clone().requires_grad_()) for W, b in it.layers
    ]
    V = [v.clone().requires_grad_() for v in it.V]
    Lam = [m.clone().requires_grad_() for m in it.Lam]
    lam, N = run.problem.regularization.item(), len(layers)
    value, A = (V[-1] - run.Y).square().sum() / 2, run.X
    for i, (W, b) in enumerate(layers):
        Z = W @ A if b is None else W @ A + b
        value = value + (Lam[i] * ((Z if i == N - 1 else run.problem.activation.value(Z)) - V[i])).sum()
        value = value + lam / 2 * W.square().sum()
        if b is not None and run.problem.regularize_bias:
            value = value + lam / 2 * b.square().sum()
        A = V[i]
    blocks = [[t for t in layer if t is not None] for layer in layers]
    blocks += [[v] for v in V] + [[m] for m in Lam]
    gradients = [
        torch.stack([g.square().sum() for g in torch.autograd.grad(value, block, retain_graph=True)]).sum()
        for block in blocks
    ]
    W, V_, R = gradients[:N], gradients[N : 2 * N], gradients[2 * N :]
    zero = torch.zeros((), dtype=torch.float64)
    groups = [W[0], sum(W[1:-1], zero), W[-1], sum(V_[:-2], zero), V_[-2], V_[-1], sum(R[:-1], zero), R[-1]]
    return torch.stack(groups).sqrt()


@pytest.mark.parametrize(("dims", "options"), CASES, ids=[str(len(dims) - 1) for dims, _ in CASES])
@pytest.mark.parametrize("activation", ["sigmoid", "arctan", "sin"])
def test_kkt_groups_are_the_gradients_of_the_lagrangian(dims, options, activation):
    run = small_run(dims, activation, **options)
    run.steps(2)
    measures = measured(run)
    expected = kkt_by_autograd(run, run.iterate())
    torch.testing.assert_close(measures.kkt, expected, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(measures.dual_residual, expected[:6].norm(), rtol=1e-10, atol=0)
    torch.testing.assert_close(measures.primal_residual, expected[6:].norm(), rtol=1e-10, atol=0)
    it = run.iterate()
    Z_N = it.layers[-1](it.V[-2])
    norm = (Z_N.square().sum() + it.V[-1].square().sum()).sqrt()
    torch.testing.assert_close(measures.kkt_relative[7], (Z_N - it.V[-1]).norm() / (1 + norm), rtol=1e-10, atol=1e-12)
    scale = measures.kkt / measures.kkt_relative
    assert (scale[measures.kkt > 1e-12] > 1).all()


@pytest.mark.parametrize(("dims", "options"), CASES, ids=[str(len(dims) - 1) for dims, _ in CASES])
def test_objective_error_and_lagrangians(dims, options):
    run = small_run(dims, **options)
    xi = weights(run)
    run.steps(1)
    old = run.iterate()
    measures = measured(run)
    it, lam = run.iterate(), run.problem.regularization.item()
    output = forward(it.layers, run.problem.activation, run.X)
    error = (output - run.Y).square()
    ridge = sum(W.square().sum() for W, _ in it.layers)
    if run.problem.regularize_bias:
        ridge = ridge + sum(b.square().sum() for _, b in it.layers if b is not None)
    torch.testing.assert_close(measures.objective, error.sum() / 2 + lam / 2 * ridge)
    torch.testing.assert_close(measures.train_mse, error.mean())
    torch.testing.assert_close(measures.lagrangian, augmented_lagrangian(run, it))
    motion = [(new - before).square().sum() for new, before in zip(it.V, old.V, strict=True)]
    expected = augmented_lagrangian(run, it) + sum(x * m for x, m in zip(xi, motion, strict=True))
    torch.testing.assert_close(measures.lyapunov, expected)


def test_saturation_counts_units_whose_slope_is_below_one_percent_of_its_maximum():
    run = small_run((2, 50, 40, 1), scale=8.0, n=200)
    measures = measured(run)
    A, shares = run.X, []
    for W, b in run.state.layers[:-1]:
        s = torch.sigmoid(W @ A + b)
        shares.append((s * (1 - s) < 0.01 / 4).double().mean())
        A = s
    torch.testing.assert_close(measures.saturation, torch.stack(shares))
    assert measures.saturation.max() > 0.02


def test_measures_of_a_batch_are_those_of_its_networks():
    run = small_run((2, 6, 5, 1), batch=3)
    run.steps(2)
    measures = measured(run)
    assert measures.kkt.shape == (3, 8)
    assert measures.saturation.shape == (3, 2)
    for b in range(3):
        it = network(run, b)
        output = forward(it.layers, run.problem.activation, run.X[b])
        torch.testing.assert_close(measures.train_mse[b], (output - run.Y[b]).square().mean())


def test_measures_do_not_depend_on_the_shards():
    whole, pieces = small_run((2, 6, 5, 1), n=50), small_run((2, 6, 5, 1), n=50, shard_columns=13)
    a, b = measured(whole), measured(pieces)
    for name in vars(a):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-12)


def test_tolerances_are_absolute_plus_relative():
    """tol * (sqrt(number of entries) + norms): zero norms leave the absolute part, and it is linear in tol."""
    run = small_run((2, 6, 5, 1), n=20)
    run.method.step(run.state, True)
    small, large = (SimpleNamespace(**run.method.measure(run.state, tol)) for tol in (1e-6, 1e-3))
    torch.testing.assert_close(large.primal_tolerance, 1e3 * small.primal_tolerance)
    torch.testing.assert_close(large.dual_tolerance, 1e3 * small.dual_tolerance)
    V = run.iterate().V
    s = [torch.sigmoid(layer(A)) for layer, A in zip(run.state.layers[:-1], [run.X, V[0]], strict=True)]
    terms = [*s, run.state.layers[-1](V[1])]
    norms = sum(v.square().sum() for v in [*V, *terms]).sqrt()
    torch.testing.assert_close(large.primal_tolerance, 1e-3 * ((20 * (6 + 5 + 1)) ** 0.5 + norms))


def test_the_absolute_part_of_the_dual_tolerance_counts_samples_and_weights():
    """All terms vanish for zero data and weights: what stays is sqrt(entries of V and W)."""
    run = small_run((2, 6, 5, 1), "tanh", n=20)
    zero = [Layer(torch.zeros_like(W), torch.zeros_like(b)) for W, b in run.state.layers]
    run.restart(zero, torch.zeros_like(run.X), torch.zeros_like(run.Y))
    entries, weights = 20 * (6 + 5 + 1), 6 * 3 + 5 * 7 + 1 * 6
    torch.testing.assert_close(measured(run).dual_tolerance.item(), 1e-8 * (entries + weights) ** 0.5)


def test_lyapunov_weights_of_a_worked_example():
    """xi written out by hand for N = 3: only earlier layers make xi_2 and xi_3, and xi_1 has no sum."""
    run = small_run((2, 4, 3, 1), "tanh", bias=False, penalty=[900.0, 60.0, 4.0], n=15)
    s = ACTIVATIONS["tanh"]
    g = max(W.norm().item() for W, _ in run.state.layers)
    L3 = 2 * (s.L1**2 + s.L2 * s.L0 + s.L2)
    Y = run.Y.norm().item()
    C3 = max(Y / (3 * g**2), Y / g**2, 2 * s.L0 * (15 * 4) ** 0.5, 2 * s.L0 * (15 * 3) ** 0.5 / g)
    b1, b2, b3 = 900.0, 60.0, 4.0
    u2 = (s.L1**2 + 2 * L3 * C3 * g) * g**2 + s.L2 * C3 * g**3
    xi_1 = 4 * (u2 * b2) ** 2 * 3 / b1
    xi_2 = 4 * b2**2 * (3 / b1) * (s.L1 * g) ** 2
    xi_3 = 3 * g**2 * b3**2 / b2 + 4 * b3**2 / s.L1**2 * (3 / b1) * (s.L1 * g) ** 4
    xi = weights(run)
    torch.testing.assert_close(torch.stack(xi), torch.tensor([xi_1, xi_2, xi_3], dtype=torch.float64))


@pytest.mark.parametrize("last", [3.2, 1.0])
def test_lyapunov_weights_when_the_targets_decide(last):
    """|Y| so large that C3 is |Y| / ((beta_N - 3) g^2), or |Y| / (3 g^2) for beta_N <= 3."""
    run = small_run((2, 4, 3, 1), "tanh", bias=False, penalty=[900.0, 60.0, last], n=15)
    run.restart(run.state.layers, run.X, 1e6 * run.Y)
    g = max(W.norm().item() for W, _ in run.state.layers)
    C3 = run.Y.norm().item() / ((last - 3 if last > 3 else 3) * g**2)
    s = ACTIVATIONS["tanh"]
    L3 = 2 * (s.L1**2 + s.L2 * s.L0 + s.L2)
    u2 = (s.L1**2 + 2 * L3 * C3 * g) * g**2 + s.L2 * C3 * g**3
    torch.testing.assert_close(weights(run)[0].item(), 4 * (u2 * 60.0) ** 2 * 3 / 900.0)


def test_for_one_hidden_layer_the_first_lyapunov_weight_is_zero():
    run = small_run((2, 4, 1), bias=False)
    xi = weights(run)
    assert xi[0] == 0
    assert xi[1] > 0


def test_the_lyapunov_function_falls_under_the_theorems_conditions():
    """N = 2 with penalties and lambda of the worked example (beta 56, 3.5; lambda 168 000): never rises from k = 2."""
    generator = torch.Generator().manual_seed(0)
    run = small_run((5, 10, 1), bias=False, n=100, penalty=[56.0, 3.5], regularization=168_000.0)
    X, Y = (torch.randn(size, 100, dtype=torch.float64, generator=generator) for size in (5, 1))
    layers = [Layer(W / W.norm(), None) for W, _ in run.state.layers]
    run.restart(layers, X / X.norm(), Y / Y.norm())
    values = [measured(run).lyapunov.item() for _ in range(60)]
    assert all(b <= a + 1e-12 * max(1, abs(a)) for a, b in pairwise(values))
    assert values[-1] < values[0]
