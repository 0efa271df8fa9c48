"""Ways to solve for the step that are no part of the library, for one network; see `benchmarks.variants`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from operator import add

import torch
from torch import Tensor

from sigmadmm import linalg
from sigmadmm.admm.conjugate_gradients import conjugate_gradients
from sigmadmm.admm.direct_solvers import BySamples, _add_lower_half
from sigmadmm.admm.joint_step import Matrices, Residual, System, damping_blocks
from sigmadmm.admm.linearisation import linearise
from sigmadmm.admm.state import Problem, State
from sigmadmm.admm.sums import Columns


class _Layer:
    """Inputs A_i, derivatives P_i and damping G_i of one layer, where J_i dW = P_i^T dW A_i per sample."""

    def __init__(self, A: Tensor, P: Tensor, G: Tensor) -> None:
        self.A, self.P, self.G = A, P, G
        self.L, _ = linalg.cholesky(G)

    def moved(self, step: Tensor) -> Tensor:
        """J_i dW."""
        return (self.P * (step @ self.A).unsqueeze(-2)).sum(-3)

    def gradient(self, t: Tensor) -> Tensor:
        """J_i^T t."""
        return (self.P * t.unsqueeze(-3)).sum(-2) @ self.A.mT

    def step(self, gradient: Tensor) -> Tensor:
        """-gradient G_i^{-1}."""
        return -torch.cholesky_solve(gradient.mT, self.L).mT

    def add_system(self, system: Tensor) -> None:
        """system += K_i, in the precision of the system; the lower half."""
        B = torch.linalg.solve_triangular(self.L, self.A, upper=False)
        _add_lower_half(system, self.P.to(system.dtype), B.to(system.dtype))


def _layers(problem: Problem, state: State, tau: Tensor) -> list[_Layer]:
    whole = state.data.total(lambda shard: linearise(problem, state.layers, shard))
    inputs = [A.value for A in whole.inputs]
    damping = damping_blocks(problem, state, [linalg.gram(A) for A in inputs], tau)
    return [_Layer(A, P.value, G) for A, P, G in zip(inputs, whole.derivatives, damping, strict=True)]


class _LayerSystem:
    """J_i^T J_i + G_i of one layer, factored: of the order of its weights or of all outputs, whichever is less."""

    def __init__(self, layer: _Layer) -> None:
        self.layer = layer
        A, P = layer.A, layer.P
        weights, outputs = P.shape[-3] * A.shape[-2], P.shape[-2] * P.shape[-1]
        self.by_weights = weights <= outputs
        if self.by_weights:
            J = (P.unsqueeze(-3) * A.unsqueeze(-2).unsqueeze(-4)).flatten(-4, -3).flatten(-2)
            matrix = linalg.gram(J).add_(torch.block_diag(*[layer.G] * P.shape[-3]))
        else:
            matrix = torch.eye(outputs, dtype=P.dtype, device=P.device)
            layer.add_system(matrix)
        self.factor, _ = linalg.cholesky(matrix)

    def solve(self, R: Tensor, term: Tensor) -> Tensor:
        """-(J_i^T J_i + G_i)^{-1} (J_i^T R + term)."""
        layer = self.layer
        if self.by_weights:
            right = layer.gradient(R) + term
            return -self._inverse(right)
        t = self._inverse(R + layer.moved(layer.step(term)))
        return layer.step(layer.gradient(t) + term)

    def _inverse(self, right: Tensor) -> Tensor:
        return torch.cholesky_solve(right.flatten().unsqueeze(-1), self.factor).view(right.shape)


class _System(ABC):
    """What the two systems below share."""

    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        self.data = state.data
        self.layers = _layers(problem, state, tau)
        self.damping = [layer.G for layer in self.layers]
        self.raised = self.iterations = torch.zeros((), dtype=torch.int64, device=tau.device)

    def solve(self, residual: Residual, term: Matrices) -> Matrices:
        return self._solve(self.data.total(lambda shard: Columns(residual(shard))).value, term)

    @abstractmethod
    def _solve(self, R: Tensor, term: Matrices) -> Matrices:
        """As `solve`, for the residual R of all samples."""


class _Sweep(_System):
    """From the output inwards, every layer solves for the residual that the layers before it have left."""

    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        super().__init__(problem, state, tau)
        self.systems = [_LayerSystem(layer) for layer in self.layers]

    def _solve(self, R: Tensor, term: Matrices) -> Matrices:
        steps = []
        for system, T in zip(reversed(self.systems), reversed(term), strict=True):
            steps.append(system.solve(R, T))
            R = R + system.layer.moved(steps[-1])
        return steps[::-1]

    def precondition(self, right: Matrices) -> Matrices:
        """Layer by layer without regard to the others, which is symmetric, as a preconditioner has to be."""
        R = torch.zeros_like(self.layers[-1].P[0])
        return [system.solve(R, -part) for system, part in zip(self.systems, right, strict=True)]


class LayerByLayer:
    """The Gauss-Seidel step."""

    name = "layers"
    direct = False  # the bend needs the joint system

    def prepare(self, problem: Problem, state: State) -> None:
        return None

    def system(self, problem: Problem, state: State, prepared: None, tau: Tensor, enough: Tensor) -> System:
        return _Sweep(problem, state, tau)


class LayersThenJoint(LayerByLayer):
    """The Gauss-Seidel step until F falls by less than 1 %; from then on the joint one, with its bend."""

    name = "layers, then samples"

    def __init__(self) -> None:
        self.joint = BySamples()

    def system(self, problem: Problem, state: State, prepared: None, tau: Tensor, enough: Tensor) -> System:
        fall = float(state.memory.fall)
        self.direct = self.direct or 0 < fall < 1e-2  # a rejection, with no fall, says nothing
        way = self.joint if self.direct else super()
        return way.system(problem, state, prepared, tau, enough)


class _SingleSystem(_System):
    """The joint system by samples in single precision, as preconditioner for itself in double precision."""

    MOST, ENOUGH = 10, 1e-10

    def __init__(self, problem: Problem, state: State, tau: Tensor) -> None:
        super().__init__(problem, state, tau)
        system = torch.eye(self.layers[-1].P[0].numel(), dtype=torch.float32, device=tau.device)
        for layer in self.layers:
            layer.add_system(system)
        self.factor, raised = linalg.cholesky(system)
        self.raised = raised.long()

    def _solve(self, R: Tensor, term: Matrices) -> Matrices:
        parts = list(zip(self.layers, term, strict=True))
        right = reduce(add, (layer.moved(layer.step(T)) for layer, T in parts), R)
        (t,) = conjugate_gradients(self._times, self._inverse, [right], self.MOST, self.ENOUGH).x
        return [layer.step(layer.gradient(t) + T) for layer, T in parts]

    def precondition(self, right: Matrices) -> Matrices:
        return self._solve(torch.zeros_like(self.layers[-1].P[0]), [-part for part in right])

    def _times(self, t: Matrices) -> Matrices:
        """(I + sum_i K_i) t."""
        moved = (layer.moved(layer.step(layer.gradient(t[0]))) for layer in self.layers)
        return [t[0] - reduce(add, moved)]

    def _inverse(self, right: Matrices) -> Matrices:
        solution = torch.cholesky_solve(right[0].float().flatten().unsqueeze(-1), self.factor)
        return [solution.double().view(right[0].shape)]


class SinglePrecision(BySamples):
    """By samples, assembled and factored in single precision."""

    name = "samples, single precision"

    def system(self, problem: Problem, state: State, prepared: None, tau: Tensor, enough: Tensor) -> System:
        return _SingleSystem(problem, state, tau)
