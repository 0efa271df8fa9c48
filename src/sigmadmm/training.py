"""`train`: arguments in the user's terms, checked by name; one run of the loop; a `Result`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from . import arguments, checks
from .activations import Activation
from .admm.loop import Run, iterate
from .admm.methods import Method
from .admm.paper import PaperADMM
from .admm.solvers import LARGEST_FORCED, SOLVERS, cheapest, order
from .admm.state import State
from .admm.synced import SyncedADMM
from .curvature import curvature_rule
from .engine.in_memory import in_memory
from .errors import InvalidInput, shown
from .network import Network
from .result import Result
from .settings import Start
from .setup import Setup, scalar, set_up


def train(
    X: Any,
    Y: Any,
    hidden: Sequence[int] | int = (100, 100),
    activation: str | Activation = "sigmoid",
    method: str = "synced",
    loss: str = "squared_error",
    regularization: float = 1e-6,
    regularize_bias: bool = True,
    penalty: float | Sequence[float] = 1.0,
    curvature: str = "paper",
    solver: str = "auto",
    init: str = "msra",
    init_scale: float = 1.0,
    initial: Sequence[tuple[Any, Any]] | None = None,
    max_iter: int = 200,
    tol: float = 1e-8,
    check_every: int = 1,
    seed: int = 0,
    dtype: Any = "float64",
    device: Any = "auto",
    callbacks: Iterable[object] = (),
    bias: bool = True,
    keep_state: bool = False,
) -> Result:
    """Train a sigmoid-type network, without a learning rate.

    X, Y             (samples, features) and (samples,) or (samples, outputs): NumPy, torch, pandas or lists
    hidden           widths of the hidden layers, at least one
    activation       a name from `sigmadmm.ACTIVATIONS` or an `Activation` record
    method           "synced" (trains, converges and says so) or "paper" (Algorithm 1 of the paper)
    loss             "squared_error", "huber", "cross_entropy" (classes) or "binary_cross_entropy" (labels in [0, 1])
    regularization   lambda in F = 1/2 |Phi(X) - Y|^2 + lambda/2 sum |W|^2, positive
    regularize_bias  whether the sum contains the thresholds
    penalty          method="paper": beta > 0, a number, or one per layer (hidden layers and the output)
    curvature        method="paper": "paper", "tight", "sharp" or "max" (the authors' demo)
    solver           method="synced": "samples" or "weights" (direct), "cg", or "auto": by their cost
    init, init_scale one of the paper's six schemes, and a factor for all weights
    initial          [(W_1, b_1), ..., (W_N, b_N)] instead, W_i of shape (d_i, d_{i-1}); b_i may be None
    max_iter, tol    at most so many iterations; converged when the residuals are below tol ("synced": the largest
                     relative KKT residual; "paper": primal and dual, below tol * (sqrt(size) + norms))
    check_every      measure iterations 1, 1 + check_every, ... and the last; measuring costs about an iteration
    seed             of the initial weights
    dtype            "float64" or "float32" for the samples; sums and solves are float64 always
    device           "cpu", "cuda", ... or "auto": the GPU if there is one
    callbacks        functions called with the run after every check, or `Callback` objects
    bias             whether layers have thresholds
    keep_state       whether the result keeps samples, V and multipliers too (`result.state`)
    """
    settings = {name: value for name, value in locals().items() if name not in ("X", "Y", "callbacks")}
    task = set_up(X, Y, Start.of({field.name: settings[field.name] for field in fields(Start)}))
    algorithm = new_method(task, method, settings)
    settings |= {"hidden": task.hidden} | algorithm.settings
    if initial is not None:
        settings["initial"] = Network(task.layers, task.problem.activation).weights
    max_iter = checks.whole("max_iter", max_iter, least=1)
    check_every = checks.whole("check_every", check_every, least=1)
    tol = checks.positive("tol", tol, zero=True)
    keep_state = checks.flag("keep_state", keep_state)
    hooks = arguments.callback_list(callbacks)
    run = Run(algorithm, task.problem, begin(task), max_iter, tol, check_every, flat_output=task.flat)
    iterate(run, hooks)
    return Result.of(run, settings, keep_state)


def begin(task: Setup) -> State:
    """The state before iteration 1, with all samples in memory."""
    return State.begin(task.problem, task.layers, in_memory(task.X, task.Y, task.layers, task.problem.batch))


def new_method(task: Setup, name: str, options: Mapping[str, Any] | None = None) -> Method:
    """The method of that name; `options` are arguments of `train`, of which each method has its own."""
    build = checks.choice("method", name, METHODS)
    chosen = OPTIONS | {key: value for key, value in (options or {}).items() if key in OPTIONS}
    for key, (owner, default) in OWNERS.items():
        if owner != name and not _equal(chosen[key], default):
            raise InvalidInput(f'{key}={shown(chosen[key])} is for method="{owner}" only; leave it out, or choose that')
    return build(task, chosen)


OWNERS: dict[str, tuple[str, Any]] = {
    "penalty": ("paper", 1.0),
    "curvature": ("paper", "paper"),
    "solver": ("synced", "auto"),
}
OPTIONS = {key: default for key, (_, default) in OWNERS.items()}


def _equal(value: Any, default: Any) -> bool:
    return type(value) is not bool and np.ndim(value) == 0 and bool(value == default)


def _paper(task: Setup, options: Mapping[str, Any]) -> Method:
    penalty = [scalar(beta, task.X.device) for beta in arguments.penalties(options["penalty"], len(task.layers))]
    return PaperADMM(task.problem, penalty, curvature_rule(options["curvature"], task.problem.activation))


def _synced(task: Setup, options: Mapping[str, Any]) -> Method:
    ways = {"auto": lambda: cheapest(task.layers, task.X.shape[-1])} | SOLVERS
    solver = checks.choice("solver", options["solver"], ways)()
    size = order(solver, task.layers, task.X.shape[-1])
    if size > LARGEST_FORCED:
        raise InvalidInput(
            f'solver="{solver.name}" would factor a matrix of order {size} ({8 * size**2 / 1e9:.0f} GB); '
            'use solver="cg" or "auto"'
        )
    return SyncedADMM(task.problem, solver)


METHODS: dict[str, Callable[[Setup, Mapping[str, Any]], Method]] = {"synced": _synced, "paper": _paper}
