"""Facts that hold for every lambda, beta and start: the paper's lemmas (errata applied), on random networks."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import augmented_lagrangian, small_run
from sigmadmm.activations import ACTIVATIONS


@st.composite
def runs(draw):
    N = draw(st.integers(2, 5))
    width = st.integers(1, 7)
    dims = (draw(st.integers(1, 4)), *(draw(width) for _ in range(N - 1)), draw(st.integers(1, 3)))
    return small_run(
        dims,
        draw(st.sampled_from(sorted(ACTIVATIONS))),
        n=draw(st.integers(2, 25)),
        bias=draw(st.booleans()),
        regularization=10 ** draw(st.floats(-6, 2)),
        penalty=[10 ** draw(st.floats(-1, 1)) for _ in range(N)],
        curvature=draw(st.sampled_from(["paper", "tight", "sharp"])),
        scale=10 ** draw(st.floats(-0.5, 0.7)),
        seed=draw(st.integers(0, 10**6)),
    )


def affine(layer, A):
    return layer.W @ A if layer.b is None else layer.W @ A + layer.b


def close(a, b, *sizes):
    """a = b up to rounding of quantities of the given sizes."""
    scale = sum(size.norm() for size in (a, b, *sizes)) + 1e-300
    return (a - b).norm() <= 1e-7 * scale


def square(x):
    return x.square().sum().item()


@settings(max_examples=80, deadline=None)
@given(runs(), st.integers(0, 3))
def test_dual_expressed_by_primal(run, before):
    """Lambda_N = V_N - Y; Lambda_{N-1} = W_N^T (Lambda_N + beta_N (V_N - V_N^old)); the formula for j <= N-2."""
    run.steps(before)
    old = run.iterate()
    h = run.curvatures()
    run.steps(1)
    new = run.iterate()
    s, s_prime = run.problem.activation.value, run.problem.activation.derivative
    N, beta = len(new.layers), run.beta
    assert close(new.Lam[-1], new.V[-1] - run.Y, new.V[-1], beta[-1] * new.V[-1])
    for j in range(1, N):
        above = new.layers[j]
        moved = new.V[j] - old.V[j]
        if j == N - 1:
            inner = new.Lam[j] + beta[j] * moved
        else:
            before_move, after_move = affine(above, old.V[j - 1]), affine(above, new.V[j - 1])
            slope = s_prime(before_move)
            parabola = h[j] / 2 * (above.W @ (new.V[j - 1] - old.V[j - 1]))
            inner = new.Lam[j] * slope + beta[j] * ((s(before_move) - s(after_move) + moved) * slope + parabola)
        expected = above.W.mT @ inner
        assert close(new.Lam[j - 1], expected, beta[j - 1] * new.V[j - 1], above.W.norm() * inner)


@settings(max_examples=80, deadline=None)
@given(runs(), st.integers(0, 3))
def test_one_step_progress(run, before):
    """The augmented Lagrangian falls by the primal steps (h_N = mu_{N-1} = 2) and rises by the dual ones at most."""
    run.steps(before)
    old = run.iterate()
    h = [x.item() for x in run.curvatures()]
    run.steps(1)
    new = run.iterate()
    beta = [b.item() for b in run.beta]
    lam = run.problem.regularization.item()
    N = len(new.layers)
    bound = L_old = augmented_lagrangian(run, old).item()
    A = run.X
    for i in range(N):
        change = affine(new.layers[i], A) - affine(old.layers[i], A)
        bound -= lam / 2 * square(new.layers[i].matrix - old.layers[i].matrix) + beta[i] * h[i] / 4 * square(change)
        A = old.V[i]
    for j in range(N - 1):
        step = new.V[j] - old.V[j]
        bound -= beta[j] / 2 * square(step) + beta[j + 1] * h[j + 1] / 4 * square(new.layers[j + 1].W @ step)
    bound -= (1 + beta[-1]) / 2 * square(new.V[-1] - old.V[-1])
    for i in range(N):
        bound += square(new.Lam[i] - old.Lam[i]) / beta[i]
    L_new = augmented_lagrangian(run, new).item()
    assert L_new <= bound + 1e-9 * (1 + abs(L_old) + abs(L_new) + abs(bound))


@settings(max_examples=60, deadline=None)
@given(runs(), st.integers(0, 2))
def test_the_parabola_majorises(run, before):
    """1/2 |s(Z) - B|^2 lies below its parabola for the curvature that the run uses, at random Z, entry by entry."""
    run.steps(before)
    it = run.iterate()
    h = run.curvatures()
    s, s_prime = run.problem.activation.value, run.problem.activation.derivative
    generator = torch.Generator().manual_seed(0)
    for i in range(len(it.layers) - 1):
        B = it.V[i] - it.Lam[i] / run.beta[i]
        old = 4 * torch.randn(B.shape, dtype=B.dtype, generator=generator)
        step = 6 * torch.randn(B.shape, dtype=B.dtype, generator=generator)
        parabola = (s(old) - B).square() / 2 + (s(old) - B) * s_prime(old) * step + h[i] / 4 * step.square()
        assert ((s(old + step) - B).square() / 2 <= parabola + 1e-9 * (1 + B.square())).all()


@settings(max_examples=30, deadline=None)
@given(runs())
def test_the_first_iteration_never_sees_the_targets_in_the_hidden_weights(run):
    """With zero multipliers every constraint holds at the start, so hidden weights only shrink in iteration 1."""
    old = run.iterate()
    run.steps(1)
    for before, after in zip(old.layers[:-1], run.state.layers[:-1], strict=True):
        assert after.matrix.norm() <= before.matrix.norm() * (1 + 1e-9)
    if run.beta[-1].item() == 1:
        torch.testing.assert_close(run.iterate().V[-1] - run.iterate().Lam[-1], run.Y)
