"""Solves with small symmetric positive definite matrices, batched, by Cholesky."""

from __future__ import annotations

import torch
from torch import Tensor

_ATTEMPTS = 14


def cholesky(M: Tensor) -> tuple[Tensor, int]:
    """L with L L^T = M, or of M with its diagonal raised where rounding made M indefinite.

    The shift starts at the rounding level of M and grows by powers of ten, only for the matrices that
    failed. Returns L and how many matrices needed a shift. A matrix with NaN gives NaN, never an error:
    the caller's breakdown check names the block.
    """
    L, info = torch.linalg.cholesky_ex(M)
    if not info.any():
        return L, 0
    failed = info != 0
    shifts = int(failed.sum())
    level = torch.finfo(M.dtype).eps * M.diagonal(dim1=-2, dim2=-1).abs().amax(-1)
    identity = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    for attempt in range(_ATTEMPTS):
        shift = torch.where(failed, level * 10.0**attempt, 0.0)
        L, info = torch.linalg.cholesky_ex(M + shift[..., None, None] * identity)
        if not info.any():
            return L, shifts
    return torch.where((info != 0)[..., None, None], torch.nan, L), shifts


def solve(M: Tensor, R: Tensor) -> tuple[Tensor, int]:
    """M^{-1} R for symmetric positive definite M, and the number of shifted matrices."""
    L, shifts = cholesky(M)
    return torch.cholesky_solve(R, L), shifts
