"""The weights xi_i of the Lyapunov function  L(Q^k) + sum_i xi_i |V_i^k - V_i^{k-1}|^2.

From the generic convergence theorem, for networks without thresholds. The theorem needs penalties that
satisfy its conditions; with others (beta = 1, say) the formulas still give numbers, but nothing is proved
about the function they define.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor

from ..network import Layers
from .data import Data
from .state import Problem


def lyapunov_weights(problem: Problem, layers: Layers, penalty: Sequence[Tensor], data: Data) -> list[Tensor]:
    """xi_1..xi_N for a run with penalties beta_1..beta_N that starts from these layers."""
    N = len(layers)
    L0, L1, L2 = problem.activation.L0, problem.activation.L1, problem.activation.L2
    L3 = 2 * (L1**2 + L2 * L0 + L2)
    g = torch.stack([layer.W.square().sum((-2, -1)).sqrt() for layer in layers]).amax(0)
    beta = [b.squeeze((-2, -1)) for b in penalty]
    target_norm = data.total(lambda shard: shard.Y.to(torch.float64).square().sum((-2, -1))).sqrt()
    C3 = _bound(L0, g, [layer.W.shape[-2] for layer in layers], data.n_samples, target_norm, beta[-1])

    def weighted(j: int, i: int, p: int) -> Tensor:  # beta_j^-1 (N - j + p) (L1 g)^{2 (i - j)}
        return (N - j + p) * (L1 * g) ** (2 * (i - j)) / beta[j - 1]

    def tail(i: int, upto: int) -> Tensor:
        return sum((weighted(j, i, 1) for j in range(1, upto + 1)), torch.zeros_like(g))

    xi = []
    for i in range(1, N - 1):
        u1 = (L1**2 + 2 * L3 * C3 * g**i) * g**2
        u2 = u1 + L2 * C3 * g ** (i + 2)
        above = beta[i]
        xi.append(
            4 * (beta[i - 1] + u2 * above) ** 2 * tail(i, i - 1) + 4 * (u2 * above) ** 2 * (N - i + 1) / beta[i - 1]
        )
    xi.append(4 * beta[N - 2] ** 2 * tail(N - 1, N - 2))
    xi.append(3 * g**2 * beta[-1] ** 2 / beta[N - 2] + 4 * beta[-1] ** 2 / L1**2 * tail(N, N - 2))
    return xi


def _bound(L0: float, g: Tensor, widths: Sequence[int], n: int, target_norm: Tensor, last_penalty: Tensor) -> Tensor:
    """C3, with the term that the paper's boundedness proof forgets at k = 1; its own has no meaning for beta_N <= 3."""
    C3 = target_norm / (3 * g ** (len(widths) - 1))
    C3 = torch.maximum(C3, torch.where(last_penalty > 3, 3 * C3 / (last_penalty - 3), C3))
    for j, width in enumerate(widths[:-1]):
        C3 = torch.maximum(C3, 2 * L0 * sqrt(n * width) / g**j)
    return C3
