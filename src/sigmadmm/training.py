"""`train`: arguments in the user's terms, checked by name; one run of the loop; a `Result`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from . import arguments
from .activations import Activation
from .admm.history import History
from .admm.loop import iterate
from .admm.methods import Method
from .admm.paper import PaperADMM
from .admm.state import Problem, State
from .admm.status import Status
from .callbacks import as_callbacks
from .curvature import curvature_rule
from .engine import in_memory
from .network import Network
from .setup import scalar, set_up
from .theory import lyapunov_weights


@dataclass
class Result:
    """What a run leaves.

    network          the last iterate
    best_network     the checked iterate with the lowest objective F
    best_iteration   which one that was (0: the initial network, if no iteration was finite)
    status, message  how the run ended, as an enum member and as a sentence
    n_iter           iterations done
    history          columns by name, one entry per checked iteration; see `History`
    shifts           factorisations whose diagonal had to be raised to stay positive definite
    settings         every argument of `train`, to repeat the run
    state            W, V and the multipliers at the end
    """

    network: Network
    best_network: Network
    best_iteration: int
    status: Status
    message: str
    n_iter: int
    history: History
    shifts: int
    settings: dict[str, Any]
    state: State

    def __repr__(self) -> str:
        return f"Result({self.network!r}, {self.status}, {self.n_iter} iterations)"


def train(
    X: Any,
    Y: Any,
    hidden: Sequence[int] | int = (100, 100),
    activation: str | Activation = "sigmoid",
    method: str = "paper",
    loss: str = "squared_error",
    regularization: float = 1e-6,
    regularize_bias: bool = True,
    penalty: float | Sequence[float] = 1.0,
    curvature: str = "paper",
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
) -> Result:
    """Train a network by ADMM, without back-propagation and without a learning rate.

    X, Y             (samples, features) and (samples,) or (samples, outputs): NumPy, torch, pandas or lists
    hidden           widths of the hidden layers, at least one
    activation       a name from `sigmadmm.ACTIVATIONS` or an `Activation` record
    method           "paper": Algorithm 1
    loss             "squared_error"
    regularization   lambda in F = 1/2 |Phi(X) - Y|^2 + lambda/2 sum |W|^2, positive
    regularize_bias  whether the sum contains the thresholds
    penalty          beta > 0: a number, or one per layer (hidden layers and the output)
    curvature        "paper", "tight", "sharp" or "max" (the authors' demo)
    init, init_scale one of the paper's six schemes, and a factor for all weights
    initial          [(W_1, b_1), ..., (W_N, b_N)] instead, W_i of shape (d_i, d_{i-1}); b_i may be None
    max_iter, tol    at most so many iterations; stop when both residuals are below tol * (sqrt(size) + norms)
    check_every      measure iterations 1, 1 + check_every, ... and the last
    seed             of the initial weights
    dtype            "float64" or "float32" for the samples; sums and solves are float64 always
    device           "cpu", "cuda", ... or "auto": the GPU if there is one
    callbacks        functions called with the run after every check, or `Callback` objects
    bias             whether layers have thresholds
    """
    settings = {name: value for name, value in locals().items() if name not in ("X", "Y", "callbacks")}
    task = set_up(
        X,
        Y,
        hidden=hidden,
        activation=activation,
        loss=loss,
        regularization=regularization,
        regularize_bias=regularize_bias,
        init=init,
        init_scale=init_scale,
        initial=initial,
        seed=seed,
        dtype=dtype,
        device=device,
        bias=bias,
    )
    penalties = [scalar(beta, task.X.device) for beta in arguments.penalties(penalty, len(task.layers))]
    algorithm = arguments.choice("method", method, METHODS)(task.problem, penalties, curvature)
    max_iter = arguments.whole("max_iter", max_iter, least=1)
    check_every = arguments.whole("check_every", check_every, least=1)
    tol = arguments.positive("tol", tol, zero=True)
    hooks = as_callbacks(callbacks)
    state = State.begin(task.problem, task.layers, in_memory.shards(task.X, task.Y, task.layers))
    ledger, history = iterate(
        algorithm,
        task.problem,
        state,
        max_iter=max_iter,
        tol=tol,
        check_every=check_every,
        callbacks=hooks,
        xi=lyapunov_weights(task.problem, task.layers, penalties, task.Y),
        flat_output=task.flat,
    )
    return Result(
        network=Network(ledger.last, task.problem.activation, task.flat),
        best_network=Network(ledger.best, task.problem.activation, task.flat),
        best_iteration=int(ledger.best_iteration),
        status=ledger.status.item(),
        message=ledger.message.item(),
        n_iter=int(ledger.n_iter),
        history=history,
        shifts=algorithm.shifts,
        settings=settings,
        state=state,
    )


def _paper(problem: Problem, penalty: list[Tensor], curvature: str) -> Method:
    return PaperADMM(problem, penalty, curvature_rule(curvature, problem.activation))


METHODS: dict[str, Callable[[Problem, list[Tensor], str], Method]] = {"paper": _paper}
