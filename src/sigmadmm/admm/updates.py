"""The blocks of Algorithm 1 as pure functions, one per equation.

Letters are the paper's. All layers share the same formulas: the output layer is a layer whose
activation is the identity (written None here), for which the parabola below is exact with curvature
h = 2. With one hidden layer, V_1 = V_{N-1} therefore sees the linear output, as it must.

In scaled form U_i = Lambda_i / beta_i and B_i = V_i - U_i, and no penalty enters a per-sample formula.
The W_i- and V_{i-1}-blocks replace 1/2 |s(Z) - B_i|^2, around the old Z', by
    1/2 |s(Z') - B_i|^2 + <G, Z - Z'> + h/4 |Z - Z'|^2,    G = (s(Z') - B_i) . s'(Z'),
with h from a curvature rule. Every scalar that may differ between networks (h, beta, lambda) has the
shape (..., 1, 1).
"""

from __future__ import annotations

from torch import Tensor

from .. import linalg
from ..activations import Activation

EXACT_CURVATURE = 2.0  # of u -> (u - c)^2, for the output layer


def surrogate_gradient(activation: Activation | None, Z: Tensor, s: Tensor, B: Tensor) -> Tensor:
    """G = (s(Z) - B) . s'(Z), where s = s(Z) is known and is overwritten."""
    if activation is None:
        return s.sub_(B)
    slope = activation.slope(Z, s)
    return s.sub_(B).mul_(slope)


def weight_block(matrix: Tensor, gram: Tensor, cross: Tensor, h: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    """W = argmin  1/2 |W|^2_ridge + <G, (W - W') A> + h/4 |(W - W') A|^2,    ridge = lambda / beta.

    From the sums gram = A A^T and cross = G A^T alone:
        W = W' - (ridge W' + G A^T) (ridge I + h/2 A A^T)^{-1}.
    `matrix` is W' = [W b]; `ridge` is the diagonal of ridge I, (..., d+1), so that thresholds may go free.
    Returns W and, per network, whether the system's diagonal had to be raised.
    """
    system = (h / 2) * gram
    system.diagonal(dim1=-2, dim2=-1).add_(ridge)
    gradient = ridge.unsqueeze(-2) * matrix + cross
    step, raised = linalg.solve(system, gradient.mT)
    return matrix - step.mT, raised


def feature_gain(W: Tensor, h: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor]:
    """K = (ratio I + h/2 W^T W)^{-1} W^T with W = W_{j+1}, ratio = beta_j / beta_{j+1}; for the V_j-block.

    The same matrix is 2/h W^T (2 ratio/h I + W W^T)^{-1}; the smaller of the two systems is factored.
    """
    wide = W.shape[-2] <= W.shape[-1]
    system = linalg.gram(W if wide else W.mT)
    system.diagonal(dim1=-2, dim2=-1).add_((2 * ratio / h).squeeze(-1))
    K, raised = linalg.solve(system, 2 / h * (W if wide else W.mT))
    return (K.mT.contiguous() if wide else K), raised


def feature_block(C: Tensor, V: Tensor, G: Tensor, half_hW: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    """V_j = argmin  ratio/2 |V_j - C|^2 + <G, W (V_j - V)> + h/4 |W (V_j - V)|^2,    C = s(Z_j) + U_j.

    V_j = C - K (G + h/2 W (C - V)), with K from `feature_gain` and V the old V_j. The multiplier follows
    at once: U_j + (s(Z_j) - V_j) = C - V_j is the term that was subtracted. Returns both. C, V and G are
    overwritten, which on a CPU is faster than fresh memory.
    """
    U = K @ linalg.subtract_product_(G, half_hW, V.sub_(C))
    return C.sub_(U), U


def scaled_multiplier(C: Tensor, V: Tensor) -> Tensor:
    """U_N + (Z_N - V_N) = C - V_N, since C = Z_N + U_N holds the old U_N."""
    return C - V
