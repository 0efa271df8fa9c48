"""The ways to solve for the joint step, by name, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..network import Layers
from .conjugate_gradients import ByConjugateGradients
from .direct_solvers import BySamples, ByWeights
from .joint_step import Solver

SOLVERS: dict[str, Callable[[], Solver]] = {
    solver.name: solver for solver in (BySamples, ByWeights, ByConjugateGradients)
}
LARGEST_DIRECT = 4000  # order of a system that is chosen by itself
LARGEST_FORCED = 20_000  # order of a system that is factored at all: 3.2 GB
DIRECT_WORTH = 2


def order(solver: Solver, layers: Layers, n: int) -> int:
    """Of the system that a direct solver factors; 0 for cg."""
    outputs = n * layers[-1].W.shape[-2]
    weights = sum(layer.matrix.shape[-2] * layer.matrix.shape[-1] for layer in layers)
    return {BySamples.name: outputs, ByWeights.name: weights}.get(solver.name, 0)


def cheapest(layers: Layers, n: int) -> Solver:
    """The direct way with fewer operations, unless it is too large or its step costs much more than one by cg.

    A direct step is exact and bent, so it may cost more: DIRECT_WORTH times as much.
    """
    outputs, weights = order(BySamples(), layers, n), order(ByWeights(), layers, n)
    widths = sum(sum(layer.W.shape[-2:]) for layer in layers)
    operations: dict[Callable[[], Solver], float] = {
        BySamples: outputs**2 * widths + outputs**3 / 3 if outputs <= LARGEST_DIRECT else math.inf,
        ByWeights: weights**2 * outputs + weights**3 / 3 if weights <= LARGEST_DIRECT else math.inf,
    }
    iterative = 120 * weights * n  # twenty iterations, six products each
    best = min(operations, key=lambda way: operations[way])
    return best() if operations[best] <= DIRECT_WORTH * iterative else ByConjugateGradients()
