"""Algorithm 1 of the paper, as sweep and solve.

All W-blocks of an iteration read V and the multipliers of the one before, so they depend on the data
only through the sums that the previous sweep left: `solve` is small dense algebra. `sweep` then passes
over the samples once: it updates V_j and, since no later block reads it, the multiplier of layer j at
once, and from the pre-activations that this needed anyway gathers the sums for the next W-blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..activations import Activation
from ..curvature import Rule
from ..network import Layer, Layers
from . import updates
from .data import Shard
from .diagnostics import measure
from .lyapunov import lyapunov_weights
from .state import Problem, State
from .stats import LayerSums, cross_moment, extremes, gram_moment

RAISED = "raised diagonals"  # of systems that rounding had made indefinite


@dataclass
class PaperMemory:
    """What one iteration leaves for the next, and what is computed once.

    sums         per layer, what the next W-block needs of the samples
    motion       |V_i^k - V_i^{k-1}|^2 per layer, from the last watched step
    input_gram   A A^T of the first layer
    ridge        per layer, the diagonal of (lambda / beta_i) I; 0 for thresholds that are not regularised
    ratio        beta_j / beta_{j+1} for the hidden layers
    xi           the Lyapunov function's weights of the motion
    """

    sums: list[LayerSums]
    motion: list[Tensor]
    input_gram: Tensor
    ridge: list[Tensor]
    ratio: list[Tensor]
    xi: list[Tensor]


@dataclass
class Solved:
    """What a sweep needs: the new weights, and for V_1..V_{N-1} the layer above as h/2 W and as its gain."""

    layers: Layers
    half_hW: list[Tensor]
    gains: list[Tensor]

    def to(self, dtype: torch.dtype) -> Solved:
        return Solved(
            [layer.to(dtype) for layer in self.layers],
            [W.to(dtype) for W in self.half_hW],
            [K.to(dtype) for K in self.gains],
        )


class PaperADMM:
    """Algorithm 1: W_N..W_1, then V_1..V_N, then all multipliers."""

    criteria = ("primal", "dual")
    advice = (
        "Allow more iterations, loosen tol, or look at the history: with small regularization and penalty 1 "
        "the paper's algorithm need not converge."
    )

    def __init__(self, problem: Problem, penalty: Sequence[Tensor], curvature: Rule) -> None:
        self.problem = problem
        self.penalty = [beta.expand(*problem.batch, 1, 1) for beta in penalty]
        self.curvature = curvature

    @property
    def settings(self) -> dict[str, Any]:
        return {"penalty": [beta.item() for beta in self.penalty]} if not self.problem.batch else {}

    @property
    def blocks(self) -> list[str]:
        N = len(self.penalty)
        return [f"W_{i}" for i in range(N, 0, -1)] + [f"V_{i}" for i in range(1, N + 1)]

    def start(self, state: State) -> None:
        layers, data, bias = state.layers, state.data, state.layers[0].b is not None
        data.total(_zero_multipliers)
        input_gram = data.total(lambda shard: gram_moment(shard.X, bias))
        none = torch.zeros(self.problem.batch, dtype=torch.int64, device=input_gram.device)
        state.counters = {RAISED: none}
        state.memory = PaperMemory(
            sums=data.total(lambda shard: self._initial_sums(layers, shard)),
            motion=[],
            # An overflow here would freeze W_1 (its system is infinite, its step zero); as NaN it is found and named.
            input_gram=torch.where(torch.isfinite(input_gram), input_gram, torch.nan),
            ridge=[
                (self.problem.decay(layer) / beta).squeeze(-2) for layer, beta in zip(layers, self.penalty, strict=True)
            ],
            ratio=[beta / above for beta, above in zip(self.penalty[:-1], self.penalty[1:], strict=True)],
            xi=lyapunov_weights(self.problem, layers, self.penalty, data),
        )

    def step(self, state: State, watch: bool) -> Tensor:
        solved = self.solve(state)
        memory = state.memory
        memory.sums = state.data.total(lambda shard: self.sweep(solved, shard, watch))
        memory.motion = [sums.motion for sums in memory.sums if sums.motion is not None]
        state.layers = solved.layers
        state.iteration += 1
        return self._marks(state)

    def measure(self, state: State, tol: float) -> dict[str, Tensor]:
        measures = vars(measure(self.problem, state, self.penalty, tol))
        motion = sum(xi * moved for xi, moved in zip(state.memory.xi, state.memory.motion, strict=True))
        return measures | {"lyapunov": measures["lagrangian"] + motion}

    def stalled(self, state: State) -> None:
        return None

    def solve(self, state: State) -> Solved:
        """All W-blocks, and what the V-blocks need of the new weights."""
        old, memory = state.layers, state.memory
        h = self.curvatures(state)
        layers, half_hW, gains = [], [], []
        raised = state.counters[RAISED]
        for layer, sums, h_i, ridge in zip(old, memory.sums, h, memory.ridge, strict=True):
            gram = memory.input_gram if sums.gram is None else sums.gram
            matrix, failed = updates.weight_block(layer.matrix, gram, sums.cross, h_i, ridge)
            layers.append(Layer.from_matrix(matrix, layer.b is not None))
            raised = raised + failed
        for layer, h_i, ratio in zip(layers[1:], h[1:], memory.ratio, strict=True):
            K, failed = updates.feature_gain(layer.W, h_i, ratio)
            half_hW.append(h_i / 2 * layer.W)
            gains.append(K)
            raised = raised + failed
        state.counters[RAISED] = raised
        return Solved(layers, half_hW, gains)

    def curvatures(self, state: State) -> list[Tensor]:
        """h_1..h_N of the coming W-blocks; h_{j+1} is also the mu_j of the V_j-block that follows."""
        hidden = [self.curvature(*sums.extremes)[..., None, None] for sums in state.memory.sums if sums.extremes]
        return [*hidden, torch.full_like(self.penalty[-1], updates.EXACT_CURVATURE)]

    def sweep(self, solved: Solved, shard: Shard, watch: bool) -> list[LayerSums]:
        """V_1..V_N and the multipliers of these samples, and their share of the next W-blocks' sums."""
        solved = solved.to(shard.X.dtype)
        layers, activation, N = solved.layers, self.problem.activation, len(solved.layers)
        sums = []
        A = shard.X
        for j in range(1, N):
            layer, above = layers[j - 1], layers[j]
            V = shard.V[j - 1]
            G = _gradient(activation if j < N - 1 else None, above(V), shard.V[j] - shard.U[j])
            Z = layer(A)
            s = activation.value(Z)
            C, old = shard.U[j - 1].add_(s), V.clone() if watch else None
            shard.V[j - 1], shard.U[j - 1] = updates.feature_block(C, V, G, solved.half_hW[j - 1], solved.gains[j - 1])
            del C, G, V  # what is no longer needed goes before others take its place
            motion = None if old is None else _squared_distance(shard.V[j - 1], old)
            del old
            sums.append(_layer_sums(activation, A, Z, s, shard, j, layer.b is not None, motion))
            A = shard.V[j - 1]
            del Z, s
        Z = layers[-1](A)
        C = Z + shard.U[-1]
        V = shard.V[-1]
        shard.V[-1] = self.problem.loss.prox(C, shard.Y, self.penalty[-1].to(C.dtype))
        shard.U[-1] = updates.scaled_multiplier(C, shard.V[-1])
        motion = _squared_distance(shard.V[-1], V) if watch else None
        sums.append(_layer_sums(None, A, Z, Z, shard, N, layers[-1].b is not None, motion))
        return sums

    def _initial_sums(self, layers: Layers, shard: Shard) -> list[LayerSums]:
        """The sums of the V and multipliers that a run starts from."""
        sums = []
        for i, layer in enumerate(layers, start=1):
            A = shard.inputs(i)
            activation = self.problem.activation if i < len(layers) else None
            Z = layer.to(A.dtype)(A)
            s = Z if activation is None else activation.value(Z)
            sums.append(_layer_sums(activation, A, Z, s, shard, i, layer.b is not None, None))
        return sums

    def _marks(self, state: State) -> Tensor:
        """A number per block, which is finite if the block is."""
        sums = state.memory.sums
        weights = [layer.matrix.sum((-2, -1)) for layer in reversed(state.layers)]
        hidden = [layer.extremes[0] + layer.extremes[1] for layer in sums if layer.extremes]
        return torch.stack([*weights, *hidden, sums[-1].cross.sum((-2, -1))])


def _zero_multipliers(shard: Shard) -> None:
    shard.U = [torch.zeros_like(V) for V in shard.V]


def _gradient(activation: Activation | None, Z: Tensor, B: Tensor) -> Tensor:
    return updates.surrogate_gradient(activation, Z, Z if activation is None else activation.value(Z), B)


def _layer_sums(
    activation: Activation | None,
    A: Tensor,
    Z: Tensor,
    s: Tensor,
    shard: Shard,
    i: int,
    bias: bool,
    motion: Tensor | None,
) -> LayerSums:
    """The sums of layer i, once its V and multiplier are up to date. s = s(Z) is overwritten."""
    B = shard.V[i - 1] - shard.U[i - 1]
    highest, minus_lowest = (None, None) if activation is None else extremes(B)
    G = updates.surrogate_gradient(activation, Z, s, B)
    gram = None if i == 1 else gram_moment(A, bias)
    return LayerSums(gram, cross_moment(G, A, bias), highest, minus_lowest, motion)


def _squared_distance(V: Tensor, old: Tensor) -> Tensor:
    return torch.linalg.vector_norm(V - old, dim=(-2, -1), dtype=torch.float64).square()
