"""Where one iteration of the synchronised method may go: along the joint step, bent or shortened, or by Newton."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..network import Layer, Layers, where
from .conjugate_gradients import Solution
from .data import Shard
from .joint_step import Matrices, System, inner, select
from .linearisation import as_layers, loss_residual, tangent, whitened
from .model import gradient, predicted_decrease
from .newton import newton_step
from .objective import total_objective, weight_penalty
from .state import Problem, State

LEAST_GAIN = 1e-4  # of the predicted decrease that a step must reach
PROBE = 0.1  # share of the step at which the bend of the output is measured
LARGEST_BEND = 0.5  # of the acceleration's length relative to the step's
SHARES = (0.5, 0.25, 0.125)  # of a step that is too long
TRUSTED = 10.0  # length of Newton's step relative to the joint step's
LENGTHENING, MOST_LENGTHENINGS = 4.0, 8  # of a step that ends at an open direction
FLATTER = 0.95  # of the gradient's norm: what counts as progress when F cannot tell
SLACK = 2e-15  # relative to F: its rounding, which counts as no rise then


@dataclass
class Trial:
    """Weights that may be taken, and their F."""

    layers: Layers
    F: Tensor

    def or_else(self, other: Trial, better: Tensor) -> Trial:
        """The other one for the networks in which it is better."""
        return Trial(where(better, other.layers, self.layers), torch.where(better, other.F, self.F))


class Trials:
    """Of one iteration, from weights with objective F.

    gradient   of F there
    straight   the joint step
    bend       half its acceleration, so that s straight + s^2 bend is the way to go; None without bending
    predicted  by how much the quadratic model of F falls along the straight step
    """

    def __init__(self, problem: Problem, state: State, system: System, F: Tensor, bending: bool) -> None:
        self.problem, self.state, self.system, self.F = problem, state, system, F
        self.gradient = gradient(problem, state)
        decay = [problem.decay(layer) * layer.matrix for layer in state.layers]
        self.straight = system.solve(lambda shard: loss_residual(problem, shard), decay)
        self.predicted = predicted_decrease(problem, state, self.gradient, self.straight)
        self.bend = _bend(problem, state, system, self.straight) if bending else None

    def whole(self) -> tuple[Trial, Tensor]:
        """The whole joint step, bent in those networks in which F is lower then; and which these are."""
        trial = self._at(moved(self.state.layers, self.straight))
        if self.bend is None:
            return trial, torch.zeros_like(trial.F, dtype=torch.bool)
        curve = self._along(1.0)
        bent = (curve.F < trial.F) | ~torch.isfinite(trial.F)
        return trial.or_else(curve, bent), bent

    def enough(self, trial: Trial, share: float | Tensor = 1.0) -> Tensor:
        """Whether F falls by a fair part of what the model predicts for this share of the step."""
        fall = self.F - trial.F
        return (fall >= LEAST_GAIN * share * self.predicted) & (self.predicted > 0) & (fall > 0)

    def shortened(self, trial: Trial, too_long: Tensor) -> tuple[Trial, Tensor]:
        """Ever smaller shares of the steps that are too long, while F gets lower; and for which that is enough."""
        taken, pending, enough = torch.ones_like(self.F), too_long, torch.zeros_like(too_long)
        for share in SHARES:
            shorter = self._along(share)
            lower = pending & ((shorter.F < trial.F) | ~torch.isfinite(trial.F))
            trial, taken = trial.or_else(shorter, lower), torch.where(lower, share, taken)
            enough = too_long & self.enough(trial, taken)
            pending = pending & (lower | ~enough)
            if not pending.any():
                break
        return trial, enough

    def newton(self, tau: Tensor, blurred: Tensor) -> tuple[Trial, Tensor, Solution]:
        """Newton's step; whether F falls enough for its length; and how it was found.

        blurred  where rounding disturbs the fall of F: there a share of the step is enough, too, if the gradient falls
                and F does not rise beyond rounding
        """
        length = inner(self.straight, self.straight).sqrt()
        solution = newton_step(self.problem, self.state, self.system, self.gradient, TRUSTED * length, blurred)
        trial, step = self._downhill(solution, length)
        change = as_layers(step, self.state.layers[0].b is not None)
        least = LEAST_GAIN * (weight_penalty(self.problem, change) + tau * inner(step, step))
        fall = self.F - trial.F
        enough = (fall >= least) & (fall > 0)
        if blurred.any():
            for share in (1.0, *SHARES):
                shorter = self._at(moved(self.state.layers, step, share))
                flatter = blurred & ~enough & (shorter.F <= (1 + SLACK) * self.F) & self._is_flatter(shorter)
                trial, enough = trial.or_else(shorter, flatter), enough | flatter
                if not (blurred & ~enough).any():
                    break
        return trial, enough, solution

    def _downhill(self, solution: Solution, length: Tensor) -> tuple[Trial, Matrices]:
        """Newton's step; where it ends at an open direction, ever further on along that, as long as F gets lower."""
        step, pending = solution.x, solution.open
        trial = self._at(moved(self.state.layers, step))
        share = length / inner(solution.direction, solution.direction).sqrt()
        for _ in range(MOST_LENGTHENINGS):
            if not pending.any():
                break
            further = [a + share[..., None, None] * b for a, b in zip(solution.x, solution.direction, strict=True)]
            other = self._at(moved(self.state.layers, further))
            pending = pending & (other.F < trial.F)
            trial = trial.or_else(other, pending)
            step = select(pending, further, step)
            share = LENGTHENING * share
        return trial, step

    def _is_flatter(self, trial: Trial) -> Tensor:
        there = gradient(self.problem, self.state, trial.layers)
        return inner(there, there) < FLATTER**2 * inner(self.gradient, self.gradient)

    def _along(self, share: float) -> Trial:
        bend = self.bend or [torch.zeros_like(part) for part in self.straight]
        way = [a + share * b for a, b in zip(self.straight, bend, strict=True)]
        return self._at(moved(self.state.layers, way, share))

    def _at(self, layers: Layers) -> Trial:
        return Trial(layers, total_objective(self.problem, layers, self.state.data))


def _bend(problem: Problem, state: State, system: System, step: Matrices) -> Matrices:
    """Half the step's acceleration: the Gauss-Newton answer to the output's second derivative along the step."""
    layers = state.layers
    probe, change = moved(layers, step, PROBE), as_layers(step, layers[0].b is not None)

    def second_derivative(shard: Shard) -> Tensor:
        V, beyond = (shard.at(there, problem.activation).V[-1] for there in (layers, probe))
        first = tangent(problem, layers, change, shard)
        return whitened(problem, shard, ((beyond - V) / PROBE - first) * (2 / PROBE))

    acceleration = system.solve(second_derivative, [torch.zeros_like(part) for part in step])
    relative = (inner(acceleration, acceleration) / inner(step, step)).sqrt()
    share = (LARGEST_BEND / relative).clamp(max=1)[..., None, None] / 2
    return [torch.where(torch.isfinite(relative)[..., None, None], share * part, 0.0) for part in acceleration]


def moved(layers: Layers, step: Matrices, share: float = 1.0) -> Layers:
    bias = layers[0].b is not None
    return [Layer.from_matrix(layer.matrix + share * change, bias) for layer, change in zip(layers, step, strict=True)]
