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
LARGEST_DIRECT = 4000  # order of a system that is still factored


def cheapest(layers: Layers, n: int) -> Solver:
    """The direct way with fewer operations if its order is small enough, else conjugate gradients."""
    outputs = n * layers[-1].W.shape[-2]
    weights = sum(layer.matrix.shape[-2] * layer.matrix.shape[-1] for layer in layers)
    widths = sum(sum(layer.W.shape[-2:]) for layer in layers)
    operations: dict[Callable[[], Solver], float] = {
        BySamples: outputs**2 * widths + outputs**3 / 3 if outputs <= LARGEST_DIRECT else math.inf,
        ByWeights: weights**2 * outputs + weights**3 / 3 if weights <= LARGEST_DIRECT else math.inf,
    }
    best = min(operations, key=lambda way: operations[way])
    return best() if math.isfinite(operations[best]) else ByConjugateGradients()
