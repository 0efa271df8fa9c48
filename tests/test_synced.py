"""The synchronised method: its step against dense algebra, its promises on random and degenerate problems."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sigmadmm
from helpers import small_run, tensor
from sigmadmm import InvalidInput, Status
from sigmadmm.activations import ACTIVATIONS
from sigmadmm.admm.conjugate_gradients import ByConjugateGradients, Solution
from sigmadmm.admm.joint_step import KAPPA
from sigmadmm.admm.linearisation import (
    as_layers,
    hessian_times,
    loss_gradient,
    loss_residual,
    multipliers,
    pull_back,
    tangent,
)
from sigmadmm.admm.model import gradient, predicted_decrease
from sigmadmm.admm.newton import newton_step
from sigmadmm.admm.objective import total_objective
from sigmadmm.admm.paper import Solved
from sigmadmm.admm.solvers import SOLVERS, cheapest
from sigmadmm.admm.state import Problem, State
from sigmadmm.admm.synced import SyncedADMM
from sigmadmm.admm.trials import SHARES, Trial, Trials, moved
from sigmadmm.admm.updates import EXACT_CURVATURE, feature_gain
from sigmadmm.engine.in_memory import InMemory, split
from sigmadmm.initializers import initial_weights
from sigmadmm.losses import LOSSES
from sigmadmm.network import Layer, forward

SHAPES = [(2, 5, 1), (3, 4, 6, 2), (1, 4, 3, 5, 3)]


def problem_of(dims, loss="squared_error", activation="sigmoid", n=11, bias=True, regularize_bias=True, **options):
    """A problem and a state with V of the forward pass."""
    batch, seed = options.get("batch"), options.get("seed", 0)
    generator = torch.Generator().manual_seed(seed + 1000)
    shape = () if batch is None else (batch,)

    def draw(*size):
        return torch.randn(*shape, *size, dtype=torch.float64, generator=generator)

    weights = initial_weights(
        dims, "lecun_normal", options.get("scale", 2.0), seed if batch is None else [*range(batch)]
    )
    layers = [Layer(W, 0.3 * draw(W.shape[-2], 1) if bias else None) for W in weights]
    X, Y = draw(dims[0], n), draw(dims[-1], n)
    if loss == "binary_cross_entropy":
        Y = (Y > 0).double()
    elif loss == "cross_entropy":
        Y = torch.softmax(3 * Y, -2)
    lam = tensor(options.get("regularization", 1e-2))
    problem = Problem(ACTIVATIONS[activation], LOSSES[loss], lam, regularize_bias, shape)
    return problem, State.begin(problem, layers, InMemory(split(X, Y, options.get("columns", 4))))


def flat(matrices):
    return torch.cat([matrix.flatten() for matrix in matrices])


def function_of_weights(problem, state, read):
    """`read(output V_N of all samples)` as a function of all [W b] in one vector, and that vector."""
    shapes = [layer.matrix.shape for layer in state.layers]
    bias = state.layers[0].b is not None
    X = torch.cat([shard.X for shard in state.data.shards], -1)

    def function(w):
        parts = w.split([rows * columns for rows, columns in shapes])
        layers = as_layers([part.view(shape) for part, shape in zip(parts, shapes, strict=True)], bias)
        return read(forward(layers, problem.activation, X), layers)

    return function, flat([layer.matrix for layer in state.layers])


def decay_of(problem, state):
    return torch.cat([problem.decay(layer).expand(layer.matrix.shape).flatten() for layer in state.layers])


def targets(state):
    return torch.cat([shard.Y for shard in state.data.shards], -1)


def objective_of(problem, state):
    Y, decay = targets(state), decay_of(problem, state)

    def F(V, layers):
        w = flat([layer.matrix for layer in layers])
        return problem.loss.value(V, Y) + (decay * w * w).sum() / 2

    return function_of_weights(problem, state, F)


def system_of(problem, state, way, tau):
    """Solved exactly by conjugate gradients too."""
    solver = ByConjugateGradients(most=500) if way == "cg" else SOLVERS[way]()
    return solver.system(problem, state, solver.prepare(problem, state), tensor(tau), tensor(1e-11))


CASES = [(dims, loss, bias) for dims in SHAPES for loss in LOSSES for bias in (True, False)]


@pytest.mark.parametrize(("dims", "loss", "bias"), CASES)
def test_gradient_of_f_is_that_of_autograd(dims, loss, bias):
    problem, state = problem_of(dims, loss, bias=bias, regularize_bias=dims[0] != 1)
    F, w = objective_of(problem, state)
    expected = torch.autograd.functional.jacobian(F, w)
    found = flat(gradient(problem, state))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_tangent_and_pull_back_are_those_of_autograd(activation):
    problem, state = problem_of((2, 4, 3, 2), activation=activation, columns=100)
    shard = state.data.shards[0]
    output, w = function_of_weights(problem, state, lambda V, layers: V)
    generator = torch.Generator().manual_seed(1)
    step = [torch.randn(layer.matrix.shape, dtype=torch.float64, generator=generator) for layer in state.layers]
    D = torch.randn(shard.V[-1].shape, dtype=torch.float64, generator=generator)
    _, forward_mode = torch.autograd.functional.jvp(output, w, flat(step))
    _, reverse_mode = torch.autograd.functional.vjp(output, w, D)
    change = as_layers(step, True)
    torch.testing.assert_close(tangent(problem, state.layers, change, shard), forward_mode, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(flat(pull_back(problem, state.layers, shard, D)), reverse_mode, rtol=1e-9, atol=1e-10)


FAR = torch.tensor(1e9, dtype=torch.float64)


def hessian_of(problem, state):
    F, w = objective_of(problem, state)
    return torch.autograd.functional.hessian(F, w)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dims", "loss", "activation"),
    [
        *((dims, loss, "sigmoid") for dims in SHAPES for loss in LOSSES if loss != "huber"),
        *(((2, 4, 3, 2), "squared_error", name) for name in ACTIVATIONS),
    ],
)
def test_second_derivative_of_f_is_that_of_autograd(dims, loss, activation, bias):
    problem, state = problem_of(dims, loss, activation, bias=bias)
    generator = torch.Generator().manual_seed(1)
    step = [torch.randn(layer.matrix.shape, dtype=torch.float64, generator=generator) for layer in state.layers]
    parts = state.data.total(lambda shard: hessian_times(problem, state.layers, as_layers(step, bias), shard))
    expected = hessian_of(problem, state) @ flat(step) - decay_of(problem, state) * flat(step)
    torch.testing.assert_close(flat(parts), expected, rtol=1e-9, atol=1e-9)


def metric_of(problem, state):
    """M, dense."""
    metrics, n = [], state.data.n_samples
    for i, layer in enumerate(state.layers, 1):
        A = torch.cat([shard.inputs(i) for shard in state.data.shards], -1)
        if layer.b is not None:
            A = torch.cat([A, torch.ones(1, n, dtype=A.dtype)])
        M = torch.eye(len(A), dtype=A.dtype) + (KAPPA / n * A @ A.mT if i < len(state.layers) else 0)
        metrics.extend([M] * layer.W.shape[0])
    return torch.block_diag(*metrics)


@pytest.mark.parametrize("way", SOLVERS)
@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy"])
def test_newton_step_solves_with_the_second_derivative(loss, way, monkeypatch):
    monkeypatch.setattr("sigmadmm.admm.newton.MOST", 500)
    monkeypatch.setattr("sigmadmm.admm.newton.ENOUGH", 1e-11)
    problem, state = problem_of((2, 4, 3, 2), loss, regularization=1.0)
    tau = 10.0  # enough for the second derivative to be positive
    F, w = objective_of(problem, state)
    system = system_of(problem, state, way, tau)
    solution = newton_step(problem, state, system, gradient(problem, state), FAR, torch.tensor(False))
    dense = hessian_of(problem, state) + tau * metric_of(problem, state)
    expected = -torch.linalg.solve(dense, torch.autograd.functional.jacobian(F, w))
    assert (flat(solution.x) - expected).norm() <= 1e-8 * expected.norm()
    assert 0 < solution.iterations < 500
    assert not solution.open


def test_newton_step_finds_a_direction_of_negative_curvature_and_is_lengthened_along_it():
    problem, state = problem_of((2, 4, 3, 2), regularization=1e-9)
    H = hessian_of(problem, state)
    assert torch.linalg.eigvalsh(H)[0] < -0.1
    trials = trials_of(problem, state, tau=1e-9)
    solution = newton_step(problem, state, trials.system, trials.gradient, FAR, torch.tensor(False))
    p = flat(solution.direction)
    assert solution.open
    assert p @ H @ p < 0
    assert p @ flat(trials.gradient) < 0
    trial, step = trials._downhill(solution, FAR * 1e-12)
    beyond = flat(step) - flat(solution.x)
    assert beyond @ p == pytest.approx(beyond.norm() * p.norm())
    assert trial.F - trials._at(moved(state.layers, solution.x)).F < 0


def dense_step(problem, state, tau):
    """-(J^T H J + lambda I + tau M)^{-1} grad F from autograd's Jacobian, H = C C^T per sample."""
    output, w = function_of_weights(problem, state, lambda V, layers: V)
    J = torch.autograd.functional.jacobian(output, w)  # (outputs, samples, weights)
    V, Y = output(w), targets(state)
    if problem.loss.root is not None:
        J = torch.einsum("aon,anw->onw", problem.loss.root(V, Y).dense(), J)
    J = J.flatten(0, 1)
    system = J.mT @ J + torch.diag(decay_of(problem, state)) + tau * metric_of(problem, state)
    F, w = objective_of(problem, state)
    return -torch.linalg.solve(system, torch.autograd.functional.jacobian(F, w))


@pytest.mark.parametrize("way", SOLVERS)
@pytest.mark.parametrize(("dims", "loss", "bias"), CASES)
def test_every_solver_finds_the_damped_gauss_newton_step(dims, loss, bias, way):
    problem, state = problem_of(dims, loss, bias=bias, regularize_bias=dims[0] != 1)
    tau = 0.03
    system = system_of(problem, state, way, tau)
    decay = [problem.decay(layer) * layer.matrix for layer in state.layers]
    found = flat(system.solve(lambda shard: loss_residual(problem, shard), decay))
    expected = dense_step(problem, state, tau)
    assert (found - expected).norm() <= 1e-8 * expected.norm()
    assert (system.iterations > 0) == (way == "cg")


@pytest.mark.parametrize("loss", LOSSES)
def test_predicted_decrease_is_that_of_the_quadratic_model(loss):
    problem, state = problem_of((2, 4, 3, 2), loss)
    step = dense_step(problem, state, 0.03)
    F, w = objective_of(problem, state)
    g = torch.autograd.functional.jacobian(F, w)
    output, _ = function_of_weights(problem, state, lambda V, layers: V)
    dV = torch.autograd.functional.jvp(output, w, step)[1]
    if problem.loss.root is not None:
        dV = torch.einsum("aon,an->on", problem.loss.root(output(w), targets(state)).dense(), dV)
    expected = -g @ step - dV.square().sum() / 2 - (decay_of(problem, state) * step * step).sum() / 2
    sizes = [layer.matrix.numel() for layer in state.layers]
    parts = [p.view(layer.matrix.shape) for p, layer in zip(step.split(sizes), state.layers, strict=True)]
    torch.testing.assert_close(
        predicted_decrease(problem, state, gradient(problem, state), parts), expected, rtol=1e-8, atol=0
    )


def test_steps_that_are_too_long_are_shortened_along_the_parabola():
    problem, state = problem_of((2, 6, 5, 2), n=30, regularization=1e-6)
    trials = trials_of(problem, state, tau=1e-2)
    whole, _ = trials.whole()
    short, enough = trials.shortened(whole, ~trials.enough(whole))
    assert not trials.enough(whole)
    assert enough
    ways = {}
    for share in SHARES:
        parts = [share * a + share**2 * b for a, b in zip(trials.straight, trials.bend, strict=True)]
        layers = as_layers([layer.matrix + part for layer, part in zip(state.layers, parts, strict=True)], bias=True)
        ways[share] = total_objective(problem, layers, state.data)
    assert short.F in ways.values()
    assert short.F < trials.F
    assert ways[0.5] >= short.F


def trials_of(problem, state, tau, way="samples"):
    system = system_of(problem, state, way, tau)
    return Trials(problem, state, system, total_objective(problem, state.layers, state.data), bending=True)


def test_newton_is_tried_less_often_after_it_failed():
    problem, state = problem_of((2, 6, 5, 2), n=30)
    method = SyncedADMM(problem, SOLVERS["samples"]())
    method.start(state)
    trial, accepted = Trial(state.layers, state.memory.objective), torch.tensor(True)

    class Failing:
        predicted, tries = torch.tensor(1.0, dtype=torch.float64), 0

        def newton(self, tau, blurred):
            self.tries += 1
            return trial, torch.tensor(False), Solution([], torch.tensor(5), torch.tensor(False), [])

    trials, tried = Failing(), []
    for iteration in range(300):
        before = trials.tries
        _, taken, _, _ = method._newton(state.memory, trials, trial, accepted)
        assert not taken
        if trials.tries > before:
            tried.append(iteration)
    assert np.diff(tried).tolist() == [3, 5, 9, 17, 33, 65, 65, 65]


@pytest.mark.parametrize("loss", ["squared_error", "cross_entropy"])
@pytest.mark.parametrize("way", SOLVERS)
def test_the_last_digits_come_quickly_where_a_residual_stays(loss, way):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 3))
    Y = generator.standard_normal((60, 2)) if loss == "squared_error" else generator.integers(0, 3, 60)
    result = sigmadmm.train(
        X, Y, hidden=(8, 8), loss=loss, regularization=0.1, solver=way, max_iter=300, tol=1e-10, device="cpu"
    )
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.history["kkt_relative"][-1].max() < 1e-8
    assert result.counters["newton steps"] > 0
    F = result.history["objective"]
    assert (np.diff(F) <= 1e-14 * F[:-1]).all()


def test_without_a_second_derivative_there_are_no_newton_steps():
    nameless = dataclasses.replace(ACTIVATIONS["sigmoid"], name="mine", second=None)
    result = sigmadmm.train(X, Y, **SMALL | {"max_iter": 60}, activation=nameless)
    assert result.counters["newton steps"] == 0
    assert result.history["objective"][-1] < 0.1 * result.history["objective"][0]


@pytest.mark.parametrize("loss", LOSSES)
def test_all_optimality_conditions_but_those_of_the_weights_hold(loss):
    problem, state = problem_of((2, 4, 5, 3, 2), loss)
    method = SyncedADMM(problem, SOLVERS["samples"]())
    method.start(state)
    measures = method.measure(state, 1e-8)
    assert (measures["kkt"][3:] <= 1e-13).all()
    norm = flat(gradient(problem, state)).norm()
    torch.testing.assert_close(measures["dual_residual"], norm, rtol=1e-10, atol=0)
    torch.testing.assert_close(measures["lagrangian"], measures["objective"], rtol=1e-12, atol=0)


def test_it_is_admm_with_the_sweeps_run_to_their_fixed_point():
    """With W held fixed, Algorithm 1's own V- and multiplier sweeps converge to what this method sets at once."""
    run = small_run((2, 6, 5, 4, 1), "sigmoid", penalty=[16.0**3, 16.0**2, 16.0, 1.0], n=30, curvature="sharp")
    layers, memory = run.state.layers, run.state.memory
    generator = torch.Generator().manual_seed(0)
    for V in run.shard.V:
        V += 0.1 * torch.randn(V.shape, dtype=V.dtype, generator=generator)
    for _ in range(60):
        memory.sums = run.method._initial_sums(layers, run.shard)
        h = [*run.curvatures()[1:-1], torch.full((1, 1), EXACT_CURVATURE, dtype=torch.float64)]
        gains = [feature_gain(W, h_i, ratio)[0] for (W, _), h_i, ratio in zip(layers[1:], h, memory.ratio, strict=True)]
        halves = [h_i / 2 * W for (W, _), h_i in zip(layers[1:], h, strict=True)]
        run.method.sweep(Solved(layers, halves, gains), run.shard, False)
    fixed = run.shard.at(layers, run.problem.activation)
    for found, expected in zip(run.shard.V, fixed.V, strict=True):
        assert (found - expected).norm() <= 1e-8 * expected.norm()
    for found, expected in zip(run.iterate().Lam, multipliers(run.problem, layers, fixed), strict=True):
        assert (found - expected).norm() <= 1e-6 * expected.norm()


@st.composite
def problems(draw):
    depth = draw(st.integers(1, 4))
    dims = (draw(st.integers(1, 3)), *(draw(st.integers(1, 6)) for _ in range(depth)), draw(st.integers(1, 3)))
    return problem_of(
        dims,
        draw(st.sampled_from(sorted(LOSSES))),
        draw(st.sampled_from(sorted(ACTIVATIONS))),
        n=draw(st.integers(2, 15)),
        bias=draw(st.booleans()),
        regularization=10 ** draw(st.floats(-14, 4)),
        scale=10 ** draw(st.floats(-1, 1)),
        seed=draw(st.integers(0, 10**6)),
    )


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(sorted(SOLVERS)))
def test_f_never_rises_and_never_breaks(problem_and_state, way):
    problem, state = problem_and_state
    method = SyncedADMM(problem, SOLVERS[way]())
    method.start(state)
    last = state.memory.objective.clone()
    for _ in range(15):
        method.step(state, True)
        F = method.measure(state, 1e-8)["objective"]
        assert last * (1 + 1e-13) >= F
        last = F


# What users see.

X, Y = sigmadmm.datasets.square(100)
SMALL = {"hidden": (10, 10), "init": "lecun_normal", "regularization": 1e-4, "max_iter": 500}


def certificate(result, X, y, lam):
    """|grad F| by autograd, from the weights alone."""
    tensors = [torch.tensor(part, requires_grad=True) for pair in result.network.weights for part in pair]
    A = torch.tensor(X)
    for W, b in zip(tensors[:-2:2], tensors[1:-2:2], strict=True):
        A = torch.sigmoid(A @ W.T + b)
    output = A @ tensors[-2].T + tensors[-1]
    F = (output[:, 0] - torch.tensor(y)).square().sum() / 2 + lam / 2 * sum(t.square().sum() for t in tensors)
    return torch.cat([g.flatten() for g in torch.autograd.grad(F, tensors)]).norm().item()


@pytest.mark.parametrize("lam", [1e-4, 1e-6])
def test_it_converges_and_autograd_agrees(lam):
    X, y = sigmadmm.datasets.square(500)
    result = sigmadmm.train(X, y, hidden=(30, 30), init="lecun_normal", regularization=lam, max_iter=2000, tol=2e-9)
    assert result.status is Status.CONVERGED
    assert "kkt residual" in result.message
    assert certificate(result, X, y, lam) < 1e-8
    assert (result.history["kkt_relative"][-1] < 1e-8).all()


def test_precision_far_below_what_the_paper_reports():
    """x^2 from an ordinary start: the paper's best mean squared error is 2.5e-9."""
    X, y = sigmadmm.datasets.square(200)
    result = sigmadmm.train(X, y, hidden=(30, 30), init="lecun_normal", regularization=1e-12, max_iter=300)
    assert np.mean((result.network.predict(X) - y) ** 2) < 1e-12


def test_when_rounding_hides_every_further_decrease_it_says_stalled():
    result = sigmadmm.train(X, Y, **SMALL | {"regularization": 1.0}, tol=0.0)
    assert result.status is Status.STALLED
    assert "can fall no further within rounding, though kkt residual" in result.message
    assert result.history["kkt_residual"][-1] < 1e-7


def test_out_of_iterations_gives_its_own_advice():
    result = sigmadmm.train(X, Y, **SMALL | {"max_iter": 3})
    assert result.status is Status.MAX_ITER
    assert "F never rises" in result.message
    assert "paper's algorithm" not in result.message


def test_last_is_best_and_the_counters_add_up():
    result = sigmadmm.train(X, Y, **SMALL)
    F = result.history["objective"]
    assert (np.diff(F) <= 0).all()
    assert result.best_iteration == 1 + F.argmin()
    assert result.counters["accepted steps"] + result.counters["rejected steps"] == result.n_iter
    kinds = [result.counters[f"{kind} steps"] for kind in ("bent", "short", "newton")]
    assert min(kinds) > 0
    assert sum(kinds) <= result.counters["accepted steps"]
    assert result.counters["cg iterations"] > 0  # those of Newton's steps
    assert (np.diff(result.history["accepted"]) >= 0).all()


def test_same_seed_twice_gives_the_same_bits():
    a, b = (sigmadmm.train(X, Y, **SMALL | {"max_iter": 30}) for _ in range(2))
    assert np.array_equal(a.history["objective"], b.history["objective"])


def test_the_cheapest_way_is_chosen_and_shown():
    expected = [
        ((1, 100, 100, 1), 1000, "samples"),
        ((4, 10, 1), 5000, "weights"),
        ((10, 50, 50, 1), 1000, "samples"),
        ((10, 50, 50, 1), 5000, "cg"),  # order 3151, but forty times the cost of a step by cg
        ((784, 200, 10), 60_000, "cg"),
    ]
    for sizes, n, way in expected:
        layers = [Layer(W, W.new_zeros(len(W), 1)) for W in initial_weights(sizes)]
        assert cheapest(layers, n).name == way
    assert sigmadmm.train(X, Y, **SMALL | {"max_iter": 2}).settings["solver"] in ("samples", "weights")


@pytest.mark.parametrize("way", SOLVERS)
def test_a_way_can_be_forced(way):
    result = sigmadmm.train(X, Y, **SMALL | {"max_iter": 40}, solver=way)
    assert result.settings["solver"] == way
    assert (result.counters["cg iterations"] >= result.n_iter) == (way == "cg")
    assert result.history["objective"][-1] < 0.1 * result.history["objective"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"solver": "cholesky"}, 'solver=\'cholesky\' is unknown. Valid: "auto", "samples", "weights", "cg"'),
        ({"solver": "cg", "method": "paper"}, "solver='cg' is for method=\"synced\" only"),
        ({"penalty": 2.0}, 'penalty=2.0 is for method="paper" only'),
        ({"penalty": [1.0, 1.0, 1.0]}, 'is for method="paper" only'),
        ({"curvature": "tight"}, "curvature='tight' is for method=\"paper\" only"),
    ],
)
def test_an_option_of_another_method_is_refused_by_name(arguments, words):
    with pytest.raises(InvalidInput) as caught:
        sigmadmm.train(X, Y, **SMALL | arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(("way", "n", "hidden"), [("samples", 30_000, (2,)), ("weights", 5, (200, 200))])
def test_a_system_that_would_not_fit_is_refused(way, n, hidden):
    with pytest.raises(InvalidInput, match=f'solver="{way}" would factor a matrix of order .* use solver="cg"'):
        sigmadmm.train(np.zeros((n, 1)), np.zeros(n), hidden=hidden, solver=way)


@pytest.mark.parametrize("way", SOLVERS)
def test_overflow_is_broken_not_stalled(way):
    result = sigmadmm.train(rows() * 1e160, SMOOTH, hidden=(6, 5), solver=way)
    assert result.status is Status.BROKEN
    assert "the W block became NaN" in result.message
    assert np.isfinite(result.best_network.predict(rows())).all()


@pytest.mark.parametrize("way", SOLVERS)
def test_networks_of_a_batch_do_what_they_do_alone(way):
    dims, lams = (2, 6, 5, 2), torch.tensor([1e-3, 1e-2, 1.0], dtype=torch.float64)[:, None, None]
    problem, state = problem_of(dims, batch=3, n=20, regularization=lams)
    start = state.layers
    method = SyncedADMM(problem, SOLVERS[way]())
    method.start(state)
    for _ in range(4):
        method.step(state, False)
    for b in range(3):
        X, Y = (torch.cat([getattr(shard, name)[b] for shard in state.data.shards], -1) for name in ("X", "Y"))
        alone = Problem(problem.activation, problem.loss, lams[b], True)
        one = State.begin(alone, [Layer(W[b], t[b]) for W, t in start], InMemory(split(X, Y, 100)))
        single = SyncedADMM(alone, SOLVERS[way]())
        single.start(one)
        for _ in range(4):
            single.step(one, False)
        rtol = 1e-6 if way == "cg" else 1e-8  # ended early, it passes rounding on enlarged
        torch.testing.assert_close(state.memory.objective[b], one.memory.objective, rtol=rtol, atol=0)
        assert state.counters["accepted steps"][b] == one.counters["accepted steps"]


def rows(n=40, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2))


SMOOTH = rows()[:, 0] * rows()[:, 1]
DEGENERATE = {
    "a constant feature": (np.c_[rows(), np.ones(40)], SMOOTH, {}),
    "a feature of zeros": (np.c_[rows(), np.zeros(40)], SMOOTH, {}),
    "duplicate rows": (np.r_[rows()[:20], rows()[:20]], np.r_[SMOOTH[:20], SMOOTH[:20]], {}),
    "contradicting duplicate rows": (np.r_[rows()[:20], rows()[:20]], SMOOTH, {}),
    "duplicate columns": (np.c_[rows(), rows()], SMOOTH, {}),
    "two samples": (rows(2), np.array([1.0, -1.0]), {}),
    "far fewer samples than weights": (rows(5), SMOOTH[:5], {"hidden": (16, 16)}),
    "constant targets": (rows(), np.full(40, 3.0), {}),
    "zero targets": (rows(), np.zeros(40), {}),
    "targets of size 1e8": (rows(), 1e8 * SMOOTH, {}),
    "targets of size 1e-8": (rows(), 1e-8 * SMOOTH, {"regularization": 1e-20, "tol": 0.0}),
    "features of size 1e6": (1e6 * rows(), SMOOTH, {}),
    "features of size 1e-6": (1e-6 * rows(), SMOOTH, {}),
    "lambda 1e-14": (rows(), SMOOTH, {"regularization": 1e-14}),
    "lambda 1e4": (rows(), SMOOTH, {"regularization": 1e4}),
    "one class only": (rows(), np.eye(3)[np.zeros(40, int)], {"loss": "cross_entropy"}),
    "a class that never occurs": (rows(), np.eye(3)[(SMOOTH > 0).astype(int)], {"loss": "cross_entropy"}),
    "separable classes": (rows(), (rows()[:, 0] > 0) * 1.0, {"loss": "binary_cross_entropy", "regularization": 1e-10}),
    "outliers": (rows(), np.where(np.arange(40) == 7, 1e6, SMOOTH), {"loss": "huber"}),
}


@pytest.mark.parametrize("way", SOLVERS)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_work(case, way):
    """F falls to at most what the best constant network reaches, nothing breaks, and the end has a name."""
    X, y, arguments = DEGENERATE[case]
    options = {"hidden": (6, 5), "init": "lecun_normal", "regularization": 1e-6, "max_iter": 120} | arguments
    result = sigmadmm.train(X, y, **options, solver=way)
    F = result.history["objective"]
    assert result.status in (Status.CONVERGED, Status.STALLED, Status.MAX_ITER)
    assert (np.diff(F) <= 0).all()
    assert np.isfinite(result.network.predict(X)).all()
    if "loss" not in arguments and case != "features of size 1e6":  # there the untrained units are flat
        constant = np.var(y) * len(y) / 2 + options["regularization"] / 2 * np.mean(y) ** 2
        assert F[-1] <= constant * (1 + 1e-6) + (0 if constant else 1e-12)


@pytest.mark.parametrize("lam", [1.0, 2.0, 3.0, 4.0])
def test_a_saddle_is_left(lam):
    """With a lambda of this size most units end at zero, and F is flat and concave on the way there."""
    X = rows(200)
    options = {"hidden": (8, 8), "init": "lecun_uniform", "regularization": lam, "device": "cpu"}
    result = sigmadmm.train(X, np.sign(X[:, 0]), **options, max_iter=150)
    reference = sigmadmm.baselines.lbfgs(X, np.sign(X[:, 0]), **options, max_iter=2000)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.history["objective"][-1] <= reference.objective * (1 + 1e-3)


def test_float32_samples_are_fitted_to_the_last_digit_too():
    """V is float64, else the gradient would be that of another function than F."""
    options = SMALL | {"regularization": 1e-2, "max_iter": 300, "dtype": "float32"}
    result = sigmadmm.train(X, Y, **options)
    F = result.history["objective"]
    assert result.status is Status.CONVERGED
    assert (np.diff(F) <= 2e-15 * F[:-1]).all()


def test_rejections_that_drown_in_rounding_end_the_run():
    result = sigmadmm.train(rows(), 1e8 * SMOOTH, hidden=(6, 5), solver="cg", max_iter=600, device="cpu")
    assert result.status in (Status.STALLED, Status.CONVERGED)


def test_float32_samples_are_trained_to_single_precision():
    double, single = (
        sigmadmm.train(X, Y, **SMALL | {"max_iter": 100}, dtype=dtype) for dtype in ("float64", "float32")
    )
    assert np.isfinite(single.history["objective"]).all()
    assert single.history["objective"][-1] < 2 * double.history["objective"][-1]
    assert (np.diff(single.history["objective"]) <= 0).all()


def test_regularization_of_thresholds_can_be_left_out():
    shifted = sigmadmm.train(X, Y + 100, **SMALL | {"regularization": 10.0}, regularize_bias=False)
    plain = sigmadmm.train(X, Y + 100, **SMALL | {"regularization": 10.0})
    assert shifted.history["objective"][-1] < plain.history["objective"][-1] / 5
    assert abs(shifted.network.predict(X).mean() - 100.33) < 0.1


def test_loss_gradient_is_what_the_multiplier_of_the_output_is():
    problem, state = problem_of((2, 4, 2), "cross_entropy", columns=100)
    shard = state.data.shards[0]
    assert torch.equal(multipliers(problem, state.layers, shard)[-1], loss_gradient(problem, shard))
