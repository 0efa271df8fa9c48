"""The synchronised method: ADMM whose V- and multiplier sweeps are run to their fixed point.

With W held fixed, the sweeps of Algorithm 1 converge to V of the forward pass and the multipliers that satisfy
every optimality condition but those of W. Both are closed forms, so they are set, not iterated, and the W-blocks are
given the penalty that the layers above them induce. What is left is a damped Gauss-Newton (Levenberg-Marquardt)
step in all W at once, see `joint_step`, bent along the geodesic where that helps, and accepted only if F falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..network import Layer, Layers, where
from .data import Shard
from .diagnostics import measure
from .joint_step import Matrices, Solver, System, inner
from .linearisation import as_layers, loss_gradient, loss_residual, multipliers, pull_back, tangent, whitened
from .objective import total_objective, weight_penalty
from .state import Problem, State

ACCEPTED, REJECTED, BENT = "accepted steps", "rejected steps", "bent steps"
RAISED, CG = "raised diagonals", "cg iterations"

FIRST_DAMPING, LEAST_DAMPING = 1e-1, 1e-20
LEAST_GAIN = 1e-4  # of the predicted decrease that a step must reach
ROUNDING = 1e-15  # relative to F: a predicted decrease below it cannot be seen
PROBE = 0.1  # share of the step at which the bend of the output is measured
LARGEST_BEND = 0.5  # of the acceleration's length relative to the step's


@dataclass
class SyncedMemory:
    """Per network: F, the damping tau, the factor nu of the next rejection, whether F can fall no more."""

    objective: Tensor
    tau: Tensor
    nu: Tensor
    stalled: Tensor


class SyncedADMM:
    """One step in all W, or its rejection, per iteration."""

    criteria = ("kkt",)
    blocks: ClassVar[list[str]] = ["W"]
    advice = "Allow more iterations or loosen tol; F never rises, so what is there is the best so far."

    def __init__(self, problem: Problem, solver: Solver) -> None:
        self.problem = problem
        self.solver = solver

    @property
    def settings(self) -> dict[str, Any]:
        return {"solver": self.solver.name}

    def start(self, state: State) -> None:
        F = total_objective(self.problem, state.layers, state.data)
        zero = torch.zeros(self.problem.batch, dtype=torch.int64, device=F.device)
        state.counters = dict.fromkeys((ACCEPTED, REJECTED, BENT, RAISED, CG), zero)
        state.memory = SyncedMemory(F, torch.full_like(F, FIRST_DAMPING), torch.full_like(F, 2.0), zero.bool())

    def step(self, state: State, watch: bool) -> Tensor:
        problem, memory, layers = self.problem, state.memory, state.layers
        gradient = self.gradient(state)
        system = self.solver.system(problem, state, memory.tau[..., None, None])
        decay = [problem.decay(layer) * layer.matrix for layer in layers]
        straight = system.solve(lambda shard: loss_residual(problem, shard), decay)
        predicted = self._predicted(state, gradient, straight)
        trial = moved(layers, straight)
        F = total_objective(problem, trial, state.data)
        bent = torch.zeros_like(F, dtype=torch.bool)
        if self.solver.direct:
            curve = moved(layers, self._bend(state, system, straight))
            F_curve = total_objective(problem, curve, state.data)
            bent = (F_curve < F) | ~torch.isfinite(F)
            trial, F = where(bent, curve, trial), torch.where(bent, F_curve, F)
        gain = (memory.objective - F) / predicted
        accepted = (gain >= LEAST_GAIN) & (predicted > 0) & (memory.objective > F)
        memory.stalled = ~accepted & (predicted <= ROUNDING * memory.objective)
        state.layers = where(accepted, trial, layers)
        state.data.total(lambda shard: shard.forward(problem.activation, state.layers))
        self._adapt(memory, accepted, gain, F)
        self._count(state, system, accepted, bent & accepted)
        state.iteration += 1
        return torch.where(torch.isfinite(predicted), memory.objective, predicted).unsqueeze(0)

    def measure(self, state: State, tol: float) -> dict[str, Tensor]:
        one = [torch.ones_like(self.problem.regularization)] * len(state.layers)
        measures = vars(measure(self.problem, state, one, tol, lambda shard: self._completed(state.layers, shard)))
        largest = measures["kkt_relative"].amax(-1)
        return measures | {
            "kkt_residual": largest,
            "kkt_tolerance": torch.full_like(largest, tol),
            "damping": state.memory.tau,
            "accepted": state.counters[ACCEPTED],
        }

    def stalled(self, state: State) -> Tensor:
        stalled: Tensor = state.memory.stalled
        return stalled

    def gradient(self, state: State) -> Matrices:
        """Of F in [W_i b_i], per layer."""
        problem, layers = self.problem, state.layers
        parts = state.data.total(lambda shard: pull_back(problem, layers, shard, loss_gradient(problem, shard)))
        return [part + problem.decay(layer) * layer.matrix for part, layer in zip(parts, layers, strict=True)]

    def _completed(self, layers: Layers, shard: Shard) -> Shard:
        return Shard(shard.X, shard.Y, shard.V, multipliers(self.problem, layers, shard))

    def _predicted(self, state: State, gradient: Matrices, step: Matrices) -> Tensor:
        """By how much the quadratic model of F falls."""
        problem, layers = self.problem, state.layers
        change = as_layers(step, layers[0].b is not None)
        squares = state.data.total(
            lambda shard: whitened(problem, shard, tangent(problem, layers, change, shard)).square().sum((-2, -1))
        )
        return -inner(gradient, step) - squares / 2 - weight_penalty(problem, change)

    def _bend(self, state: State, system: System, step: Matrices) -> Matrices:
        """The step with half its acceleration: the Gauss-Newton answer to the output's second derivative along it."""
        problem, layers = self.problem, state.layers
        probe, change = moved(layers, step, PROBE), as_layers(step, layers[0].b is not None)

        def second_derivative(shard: Shard) -> Tensor:
            V, beyond = (shard.at(there, problem.activation).V[-1] for there in (layers, probe))
            first = tangent(problem, layers, change, shard)
            return whitened(problem, shard, ((beyond - V) / PROBE - first) * (2 / PROBE))

        acceleration = system.solve(second_derivative, [torch.zeros_like(part) for part in step])
        relative = (inner(acceleration, acceleration) / inner(step, step)).sqrt()
        share = (LARGEST_BEND / relative).clamp(max=1)[..., None, None] / 2
        return [a + share * b for a, b in zip(step, acceleration, strict=True)]

    def _adapt(self, memory: SyncedMemory, accepted: Tensor, gain: Tensor, F: Tensor) -> None:
        """Nielsen's rule: less damping after a step that went as predicted, ever more after rejections."""
        factor = (1 - (2 * gain - 1) ** 3).clamp(1 / 3, 2)
        memory.tau = (memory.tau * torch.where(accepted, factor, memory.nu)).clamp_min(LEAST_DAMPING)
        memory.nu = torch.where(accepted, 2.0, 2 * memory.nu)
        memory.objective = torch.where(accepted, F, memory.objective)

    def _count(self, state: State, system: System, accepted: Tensor, bent: Tensor) -> None:
        new = {ACCEPTED: accepted, REJECTED: ~accepted, BENT: bent, RAISED: system.raised, CG: system.iterations}
        state.counters = {name: state.counters[name] + count for name, count in new.items()}


def moved(layers: Layers, step: Matrices, share: float = 1.0) -> Layers:
    bias = layers[0].b is not None
    return [Layer.from_matrix(layer.matrix + share * change, bias) for layer, change in zip(layers, step, strict=True)]
