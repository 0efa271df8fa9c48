"""Batched dense algebra: solves with small symmetric positive definite matrices by Cholesky, products in place."""

from __future__ import annotations

import torch
from torch import Tensor

_ATTEMPTS = 14
_SMALLEST_SPLIT = 100  # below this, smaller products cost more than they save


def cholesky(M: Tensor) -> tuple[Tensor, Tensor]:
    """L with L L^T = M, or of M with its diagonal raised where rounding made M indefinite. Reads M's lower half.

    The shift starts at the rounding level of M and grows by powers of ten, only for the matrices that
    failed. Returns L and, per matrix, whether it was raised. A matrix that is not finite gives NaN, never an
    error: the caller's breakdown check names the block.
    """
    L, info = torch.linalg.cholesky_ex(M)
    failed = info != 0
    if not failed.any():
        return L, failed
    finite = torch.isfinite(M).all(-1).all(-1)
    L = torch.where(finite[..., None, None], L, torch.nan)
    failed = failed & finite
    level = torch.finfo(M.dtype).eps * M.diagonal(dim1=-2, dim2=-1).abs().amax(-1)
    identity = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    pending = failed
    for attempt in range(_ATTEMPTS):
        if not pending.any():
            break
        raised, info = torch.linalg.cholesky_ex(M + (level * 10.0**attempt)[..., None, None] * identity)
        done = pending & (info == 0)
        L = torch.where(done[..., None, None], raised, L)
        pending = pending & ~done
    return torch.where(pending[..., None, None], torch.nan, L), failed


def solve(M: Tensor, R: Tensor) -> tuple[Tensor, Tensor]:
    """M^{-1} R for symmetric positive definite M, and per matrix whether it had to be raised."""
    L, raised = cholesky(M)
    return torch.cholesky_solve(R, L), raised


def eigh(M: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric M; NaN, not an error, for a matrix that is not finite."""
    finite = torch.isfinite(M).all(-1).all(-1)
    values, vectors = torch.linalg.eigh(torch.where(finite[..., None, None], M, 0.0))
    return torch.where(finite[..., None], values, torch.nan), vectors


def subtract_product_(out: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """out -= A @ B, where possible without a temporary of the size of out."""
    if out.ndim == 2:
        return out.addmm_(A, B, alpha=-1)
    return out.baddbmm_(A, B, alpha=-1) if out.ndim == 3 else out.sub_(A @ B)


def gram(V: Tensor) -> Tensor:
    """V V^T in three quarters of the operations: the upper off-diagonal block is the transpose of the lower one."""
    d = V.shape[-2]
    if d < _SMALLEST_SPLIT:
        return V @ V.mT
    upper, lower = V[..., : d // 2, :], V[..., d // 2 :, :]
    left, corner = V @ upper.mT, lower @ lower.mT
    return torch.cat([left, torch.cat([left[..., d // 2 :, :].mT, corner], -2)], -1)
