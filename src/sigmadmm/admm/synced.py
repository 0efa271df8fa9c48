"""The synchronised method: ADMM whose V- and multiplier sweeps are run to their fixed point.

With W held fixed, the sweeps of Algorithm 1 converge to V of the forward pass and the multipliers that satisfy
every optimality condition but those of W. Both are closed forms, so they are set, not iterated, and the W-blocks are
given the penalty that the layers above them induce. What is left is a damped Gauss-Newton (Levenberg-Marquardt)
step in all W at once, see `joint_step`, bent along the geodesic where that helps, shortened where it is too long,
replaced by Newton's where it has become slow, and taken only if F falls; see `trials`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..network import Layers, where
from .data import Shard
from .diagnostics import measure
from .joint_step import Solver
from .linearisation import multipliers
from .objective import total_objective
from .state import Problem, State
from .trials import Trial, Trials

ACCEPTED, REJECTED = "accepted steps", "rejected steps"
BENT, SHORT, NEWTON = "bent steps", "short steps", "newton steps"
RAISED, CG = "raised diagonals", "cg iterations"

FIRST_DAMPING, LEAST_DAMPING = 1e-1, 1e-20
LESS, MORE = 1 / 3, 2.0  # factors of the damping after a step that went well, and after one that was too long
COARSEST, FINEST = 0.3, 1e-2  # how exactly to solve by conjugate gradients: as F's relative fall, in these bounds
SLOW = 1e-2  # relative decrease of F below which Newton's step is tried
FIRST_PAUSE, LONGEST_PAUSE = 2, 64  # iterations without Newton's step after it failed
VISIBLE, ROUNDING = 1e-10, 1e-13  # relative to F: predicted decreases that rounding disturbs, and that drown in it
PATIENCE = 8  # such rejections without a step between them: the network is stalled


@dataclass
class SyncedMemory:
    """Per network.

    objective    F
    prepared     what the solver knows of X
    fall         the last relative decrease of F
    tau, nu      the damping, and its factor at the next rejection
    wait, pause  iterations until Newton's step is tried again, and how many to wait after its next failure
    failures     rejections since the last step whose predicted decrease drowns in the rounding of F
    """

    objective: Tensor
    prepared: Any
    fall: Tensor
    tau: Tensor
    nu: Tensor
    wait: Tensor
    pause: Tensor
    failures: Tensor


class SyncedADMM:
    """One step in all W, or its rejection, per iteration."""

    criteria = ("kkt",)
    blocks: ClassVar[list[str]] = ["W"]
    advice = (
        "Allow more iterations or loosen tol; F never rises (but by rounding), so what is there is the best so far."
    )

    def __init__(self, problem: Problem, solver: Solver) -> None:
        self.problem = problem
        self.solver = solver

    @property
    def settings(self) -> dict[str, Any]:
        return {"solver": self.solver.name}

    def start(self, state: State) -> None:
        self._forward(state)
        F = total_objective(self.problem, state.layers, state.data)
        zero = torch.zeros(self.problem.batch, dtype=torch.int64, device=F.device)
        state.counters = dict.fromkeys((ACCEPTED, REJECTED, BENT, SHORT, NEWTON, RAISED, CG), zero)
        # At least lambda, else the first step may pull all weights to zero, where a stationary point is.
        tau = self.problem.regularization.squeeze((-2, -1)).clamp_min(FIRST_DAMPING).expand(F.shape)
        nu = torch.full_like(F, MORE)
        prepared = self.solver.prepare(self.problem, state)
        state.memory = SyncedMemory(F, prepared, torch.ones_like(F), tau, nu, zero, zero + FIRST_PAUSE, zero)

    def step(self, state: State, watch: bool) -> Tensor:
        memory: SyncedMemory = state.memory
        enough = memory.fall.clamp(FINEST, COARSEST)
        system = self.solver.system(self.problem, state, memory.prepared, memory.tau[..., None, None], enough)
        trials = Trials(self.problem, state, system, memory.objective, bending=self.solver.direct)
        trial, bent = trials.whole()
        whole = trials.enough(trial)
        gain = (memory.objective - trial.F) / trials.predicted
        short = torch.zeros_like(whole)
        if not whole.all():
            trial, short = trials.shortened(trial, ~whole)
        trial, newton, closed, iterations = self._newton(memory, trials, trial, whole | short)
        accepted = whole | short | newton
        state.layers = where(accepted, trial.layers, state.layers)
        self._forward(state)
        drowned = ~accepted & (trials.predicted <= ROUNDING * memory.objective)
        self._adapt(memory, gain, whole & ~closed, short & ~closed, closed, drowned)
        memory.failures = torch.where(accepted, 0, memory.failures + drowned)
        before, memory.objective = memory.objective, torch.where(accepted, trial.F, memory.objective)
        memory.fall = 1 - memory.objective / before.clamp_min(torch.finfo(before.dtype).tiny)
        kinds = {ACCEPTED: accepted, REJECTED: ~accepted, NEWTON: newton}
        kinds |= {BENT: bent & whole & ~newton, SHORT: short & ~newton}
        kinds |= {RAISED: system.raised, CG: system.iterations + iterations}
        state.counters = {name: state.counters[name] + count for name, count in kinds.items()}
        state.iteration += 1
        return torch.where(torch.isfinite(trials.predicted), memory.objective, trials.predicted).unsqueeze(0)

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
        stalled: Tensor = state.memory.failures >= PATIENCE
        return stalled

    def _forward(self, state: State) -> None:
        """V in float64 whatever the samples' type, as F is: else its gradient would be that of another function."""
        state.data.total(lambda shard: shard.forward(self.problem.activation, state.layers, torch.float64))

    def _completed(self, layers: Layers, shard: Shard) -> Shard:
        return Shard(shard.X, shard.Y, shard.V, multipliers(self.problem, layers, shard))

    def _newton(
        self, memory: SyncedMemory, trials: Trials, trial: Trial, accepted: Tensor
    ) -> tuple[Trial, Tensor, Tensor, Tensor]:
        """Newton's step in those networks in which F falls slowly and it leads lower.

        Also returns in which it is taken, in which of these it was solved for to the end, and its iterations.
        """
        F = memory.objective
        reached = torch.where(accepted, trial.F, F)
        blurred = trials.predicted <= VISIBLE * F
        due = (F - reached < SLOW * F) & (blurred | (memory.wait == 0))
        memory.wait = (memory.wait - 1).clamp_min(0)
        if self.problem.activation.second is None or not due.any():
            return trial, torch.zeros_like(due), torch.zeros_like(due), torch.zeros_like(memory.wait)
        newton, enough, solution = trials.newton(memory.tau, blurred)
        lower = reached - newton.F > 0
        better = due & enough & (blurred | lower)
        failed = due & ~better
        memory.wait = torch.where(failed, memory.pause, memory.wait)
        longer = torch.where(failed, (2 * memory.pause).clamp_max(LONGEST_PAUSE), memory.pause)
        memory.pause = torch.where(better, FIRST_PAUSE, longer)
        return trial.or_else(newton, better), better, better & ~solution.open, solution.iterations * due

    def _adapt(
        self, memory: SyncedMemory, gain: Tensor, whole: Tensor, short: Tensor, newton: Tensor, drowned: Tensor
    ) -> None:
        """Nielsen's rule: less damping after a step that went as predicted, ever more after rejections.

        Where F could not tell whether a step was good, more damping would not help; less gives another step to try.
        A Newton step that ended at an open direction says nothing of the damping: what it replaced decides.
        """
        factor = torch.where(whole, (1 - (2 * gain - 1) ** 3).clamp(LESS, MORE), memory.nu)
        factor = torch.where(newton | drowned, LESS, torch.where(short, MORE, factor))
        memory.tau = (memory.tau * factor).clamp_min(LEAST_DAMPING)
        rejected = ~(whole | short | newton | drowned)
        memory.nu = torch.where(rejected, MORE * memory.nu, torch.where(short, memory.nu, MORE))
