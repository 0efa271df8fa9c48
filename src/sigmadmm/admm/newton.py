"""A step by the whole second derivative of F, for the last digits; see `synced`.

The joint step's model leaves out how the network itself bends, which is what remains where the fit keeps a residual:
there its steps gain a fixed factor each. Here conjugate gradients solve with the second derivative of F itself, the
joint step's system serving as preconditioner, so that the last digits come a few steps after the first ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .conjugate_gradients import Solution, conjugate_gradients
from .joint_step import Matrices, System
from .linearisation import as_layers, hessian_times
from .state import Problem, State

MOST, ENOUGH = 20, 1e-2
MOST_AT_LAST, ENOUGH_AT_LAST = 200, 1e-4


def newton_step(
    problem: Problem, state: State, system: System, gradient: Matrices, longest: Tensor, at_last: Tensor
) -> Solution:
    """An approximate solution of (H + lambda I + tau M) dW = -gradient.

    longest  norm of a step that may be trusted
    at_last  the networks that are near their end: for them it is solved more exactly
    """
    layers, most = state.layers, torch.where(at_last, MOST_AT_LAST, MOST)
    enough = torch.where(at_last, ENOUGH_AT_LAST, ENOUGH)

    def times(p: Matrices) -> Matrices:
        step = as_layers(p, layers[0].b is not None)
        product = state.data.total(lambda shard: hessian_times(problem, layers, step, shard))
        return [h + x @ G for h, x, G in zip(product, p, system.damping, strict=True)]

    return conjugate_gradients(times, system.precondition, [-g for g in gradient], most, enough, longest)
