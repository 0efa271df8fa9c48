"""The joint step's system, factored: by samples or by weights; see `joint_step`."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from .. import linalg
from ..network import Layers
from .data import Shard
from .joint_step import Matrices, Residual, System, damping_blocks, pulled
from .linearisation import Linearisation, augmented, linearise, output_derivatives
from .state import Problem, State
from .sums import Columns, combine


class BySamples:
    """Direct, of order outputs x samples."""

    name = "samples"
    direct = True

    def prepare(self, problem: Problem, state: State) -> None:
        return None

    def system(self, problem: Problem, state: State, prepared: None, tau: Tensor, enough: Tensor) -> System:
        return _SampleSystem(problem, state, tau)


class _SampleSystem:
    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        self.data, layers = state.data, state.layers
        whole: Linearisation = state.data.total(lambda shard: linearise(problem, layers, shard))
        self.inputs = [A.value for A in whole.inputs]
        self.derivatives = [P.value for P in whole.derivatives]
        self.damping = damping_blocks(problem, state, [linalg.gram(A) for A in self.inputs], tau)
        order = self.derivatives[0].shape[-2] * self.derivatives[0].shape[-1]
        system = self.derivatives[0].new_zeros(*problem.batch, order, order)
        self.factors, raised = [], []
        for A, P, G in zip(self.inputs, self.derivatives, self.damping, strict=True):
            L, lifted = linalg.cholesky(G)
            _add_lower_half(system, P, torch.linalg.solve_triangular(L, A, upper=False))
            self.factors.append(L)
            raised.append(lifted)
        system.diagonal(dim1=-2, dim2=-1).add_(1)
        self.factor, lifted = linalg.cholesky(system)
        self.raised = torch.stack([*raised, lifted]).sum(0)
        self.iterations = torch.zeros_like(self.raised)

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        R: Tensor = self.data.total(lambda shard: Columns(residual(shard))).value
        return self._solve(R, term)

    def precondition(self, right: Matrices) -> Matrices:
        P = self.derivatives[-1]
        return self._solve(P.new_zeros(P.shape[:-3] + P.shape[-2:]), [-part for part in right])

    def _solve(self, R: Tensor, term: Matrices) -> Matrices:
        parts = list(zip(self.inputs, self.derivatives, self.factors, term, strict=True))
        right = R.clone()
        for A, P, L, T in parts:
            right -= (P * (torch.cholesky_solve(T.mT, L).mT @ A).unsqueeze(-2)).sum(-3)
        t = torch.cholesky_solve(right.flatten(-2).unsqueeze(-1), self.factor).squeeze(-1).unflatten(-1, R.shape[-2:])
        matrices = []
        for A, P, L, T in parts:
            gradient = T + (P * t.unsqueeze(-3)).sum(-2) @ A.mT
            matrices.append(-torch.cholesky_solve(gradient.mT, L).mT)
        return matrices


_ROWS = 256


def _add_lower_half(system: Tensor, P: Tensor, B: Tensor) -> None:
    """system += (P^T P) o (B^T B), where P has a column for every output of every sample, B one for every sample.

    Cholesky reads the lower triangle alone, so only blocks of rows up to the diagonal are computed.
    """
    outputs, samples = P.shape[-2:]
    flat = P.flatten(-2)
    for start in range(0, samples, _ROWS):
        end = min(start + _ROWS, samples)
        M = B[..., start:end].mT @ (B if outputs > 1 else B[..., :end])
        for output in range(outputs):
            row, width = output * samples, output * samples + end
            block = flat[..., row + start : row + end].mT @ flat[..., :width]
            block.mul_(torch.cat([M] * output + [M[..., :end]], -1) if output else M[..., :end])
            system[..., row + start : row + end, :width] += block


class ByWeights:
    """Direct, of the order of the number of weights."""

    name = "weights"
    direct = True

    def prepare(self, problem: Problem, state: State) -> None:
        return None

    def system(self, problem: Problem, state: State, prepared: None, tau: Tensor, enough: Tensor) -> System:
        return _WeightSystem(problem, state, tau)


class _WeightSystem:
    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        self.problem, self.layers, self.data = problem, state.layers, state.data
        layers = state.layers
        system, grams = state.data.total(lambda shard: _normal_matrix(problem, layers, shard))
        self.damping = damping_blocks(problem, state, grams, tau)
        start = 0
        for layer, G in zip(layers, self.damping, strict=True):
            for _ in range(layer.W.shape[-2]):
                end = start + G.shape[-1]
                system[..., start:end, start:end] += G
                start = end
        self.factor, raised = linalg.cholesky(system)
        self.raised = raised.long()
        self.iterations = torch.zeros_like(self.raised)

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        return [-x for x in self.precondition(pulled(self.problem, self.layers, self.data, residual, term))]

    def precondition(self, right: Matrices) -> Matrices:
        flat = torch.cat([r.flatten(-2) for r in right], -1).unsqueeze(-1)
        solution = torch.cholesky_solve(flat, self.factor).squeeze(-1)
        parts = solution.split([r.shape[-2] * r.shape[-1] for r in right], -1)
        return [part.unflatten(-1, r.shape[-2:]) for part, r in zip(parts, right, strict=True)]


_ENTRIES = 2_000_000  # of J at a time


def _normal_matrix(problem: Problem, layers: Layers, shard: Shard) -> list[Any]:
    """J^T J, and A_i A_i^T per layer. Weights are ordered by layer, output unit, input."""
    height = sum(layer.matrix.shape[-2] * layer.matrix.shape[-1] for layer in layers) * shard.V[-1].shape[-2]
    pieces = shard.pieces(max(1, _ENTRIES // height))
    return reduce(combine, (_normal_piece(problem, layers, piece) for piece in pieces))


def _normal_piece(problem: Problem, layers: Layers, shard: Shard) -> list[Any]:
    derivatives = list(output_derivatives(problem, layers, shard))[::-1]
    bias = layers[0].b is not None
    inputs = [augmented(shard.inputs(i), bias) for i in range(1, len(layers) + 1)]
    rows = [
        (P.unsqueeze(-3) * A.unsqueeze(-2).unsqueeze(-4)).flatten(-4, -3).flatten(-2)
        for P, A in zip(derivatives, inputs, strict=True)
    ]
    J = torch.cat(rows, -2)
    return [linalg.gram(J), [linalg.gram(A) for A in inputs]]
