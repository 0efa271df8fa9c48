"""Small runs of Algorithm 1 at the level of states, for tests that look at single blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sigmadmm.activations import ACTIVATIONS, Activation
from sigmadmm.admm.data import Shard
from sigmadmm.admm.paper import PaperADMM
from sigmadmm.admm.state import Problem, State
from sigmadmm.curvature import curvature_rule
from sigmadmm.engine.in_memory import InMemory, split
from sigmadmm.initializers import initial_weights
from sigmadmm.losses import squared_error
from sigmadmm.network import Layer, Layers


@dataclass
class Iterate:
    """A copy of W, V and Lambda; X and Y beside them."""

    layers: Layers
    V: list[Tensor]
    Lam: list[Tensor]


@dataclass
class SmallRun:
    problem: Problem
    method: PaperADMM
    state: State

    @property
    def beta(self) -> list[Tensor]:
        return self.method.penalty

    @property
    def shard(self) -> Shard:
        """The only one, or the first."""
        return self.state.data.shards[0]

    @property
    def X(self) -> Tensor:
        return self.shard.X

    @property
    def Y(self) -> Tensor:
        return self.shard.Y

    def curvatures(self) -> list[Tensor]:
        return self.method.curvatures(self.state)

    def restart(self, layers: Layers, X: Tensor | None = None, Y: Tensor | None = None) -> None:
        """From other weights, and perhaps on other samples."""
        if X is not None and Y is not None:
            self.state.data = InMemory([Shard(X, Y)])
        self.state = State.begin(self.problem, layers, self.state.data)
        self.method.start(self.state)

    def iterate(self) -> Iterate:
        Lam = [beta * U for beta, U in zip(self.beta, self.shard.U, strict=True)]
        return Iterate(list(self.state.layers), [V.clone() for V in self.shard.V], Lam)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.method.step(self.state, False)


def small_run(
    dims: tuple[int, ...],
    activation: str | Activation = "sigmoid",
    *,
    n: int = 23,
    bias: bool = True,
    regularize_bias: bool = True,
    batch: int | None = None,
    penalty: float | list[float] | list[Tensor] = 1.0,
    regularization: float | Tensor = 1e-2,
    curvature: str = "paper",
    scale: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    shard_columns: int = 10**9,
) -> SmallRun:
    """A run before its first iteration. With a batch, the networks have different weights, thresholds and data."""
    record = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    generator = torch.Generator().manual_seed(seed + 1000)
    shape = () if batch is None else (batch,)

    def draw(*size: int) -> Tensor:
        return torch.randn(*shape, *size, dtype=torch.float64, generator=generator)

    seeds = seed if batch is None else list(range(seed, seed + batch))
    weights = initial_weights(dims, "lecun_normal", scale, seeds)
    layers = [Layer(W, 0.3 * draw(W.shape[-2], 1) if bias else None) for W in weights]
    X, Y = draw(dims[0], n), draw(dims[-1], n)
    betas = penalty if isinstance(penalty, list) else [penalty] * len(layers)
    problem = Problem(record, squared_error, tensor(regularization), regularize_bias, shape)
    state = State.begin(problem, layers, InMemory(split(X.to(dtype), Y.to(dtype), shard_columns)))
    method = PaperADMM(
        problem, [b if isinstance(b, Tensor) else tensor(b) for b in betas], curvature_rule(curvature, record)
    )
    method.start(state)
    return SmallRun(problem, method, state)


def tensor(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((1, 1), value, dtype=torch.float64)


def network(run: SmallRun, b: int) -> Iterate:
    """Network b of a batch, alone."""
    whole = run.iterate()
    layers = [Layer(W[b], None if t is None else t[b]) for W, t in whole.layers]
    return Iterate(layers, [V[b] for V in whole.V], [Lam[b] for Lam in whole.Lam])


def augmented_lagrangian(run: SmallRun, it: Iterate) -> Tensor:
    """Written out from the definition, independently of the library's diagnostics. One network."""
    lam = run.problem.regularization.item()
    value = (it.V[-1] - run.Y).square().sum() / 2
    A = run.X
    for i, (W, b) in enumerate(it.layers):
        Z = W @ A if b is None else W @ A + b
        R = (Z if i == len(it.layers) - 1 else run.problem.activation.value(Z)) - it.V[i]
        value = value + run.beta[i].item() / 2 * R.square().sum() + (it.Lam[i] * R).sum()
        value = value + lam / 2 * W.square().sum()
        if b is not None and run.problem.regularize_bias:
            value = value + lam / 2 * b.square().sum()
        A = it.V[i]
    return value
