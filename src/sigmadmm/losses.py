"""Losses as records: what the output block V_N minimises.

A loss is a function of the prediction V and the target Y, both (..., outputs, samples), summed over
both. Leading dimensions are networks and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import InvalidInput

_TINY = 1e-30  # keeps square roots of probabilities away from 0


@dataclass(frozen=True)
class Root:
    """C = diag(scale) - mean scale^T per sample; without mean, diag(scale). Both are (..., outputs, samples)."""

    scale: Tensor
    mean: Tensor | None = None

    def times(self, D: Tensor) -> Tensor:
        """C D."""
        scaled = self.scale * D
        return scaled if self.mean is None else scaled - self.mean * scaled.sum(-2, keepdim=True)

    def transposed_times(self, D: Tensor) -> Tensor:
        """C^T D."""
        return self.scale * (D if self.mean is None else D - (self.mean * D).sum(-2, keepdim=True))

    def dense(self) -> Tensor:
        """(..., outputs, outputs, samples)."""
        diagonal = torch.diag_embed(self.scale.mT).movedim(-3, -1)
        return diagonal if self.mean is None else diagonal - self.mean.unsqueeze(-2) * self.scale.unsqueeze(-3)


@dataclass(frozen=True)
class Loss:
    """A convex loss of the network's output.

    name      how messages and files call it
    value     loss(V, Y), summed over outputs and samples
    gradient  d loss / d V
    root      C with C C^T, per sample, the Hessian or a bound of it; None: identity
    residual  R with C R = gradient: the loss is like 1/2 |R + C^T dV|^2 near V
    prox      argmin over V of loss(V, Y) + beta/2 |V - C|^2, called as prox(C, Y, beta)
    mean      what V predicts on the scale of Y: V itself, or probabilities
    targets   from the user's targets (samples, columns) to Y's rows, or a refusal
    """

    name: str
    value: Callable[[Tensor, Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor], Tensor]
    root: Callable[[Tensor, Tensor], Root] | None
    residual: Callable[[Tensor, Tensor], Tensor]
    prox: Callable[[Tensor, Tensor, Tensor], Tensor]
    mean: Callable[[Tensor], Tensor] = lambda V: V
    targets: Callable[[Tensor], Tensor] = lambda Y: Y

    def __reduce__(self) -> Any:
        """A built-in record travels by its name, since its functions cannot be pickled."""
        return (_built_in, (self.name,)) if LOSSES.get(self.name) is self else super().__reduce__()


def _built_in(name: str) -> Loss:
    return LOSSES[name]


def newton_prox(
    value: Callable[[Tensor, Tensor], Tensor],
    gradient: Callable[[Tensor, Tensor], Tensor],
    solve: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A proximal step by Newton's method, sample by sample, safeguarded by halving.

    value     the loss per sample, (..., 1, samples), or per entry where the entries of a sample are independent
    solve     (H + beta I)^{-1} times its last argument, called as solve(V, Y, beta, right side)
    """

    def prox(C: Tensor, Y: Tensor, beta: Tensor) -> Tensor:
        def total(V: Tensor) -> Tensor:
            loss, distance = value(V, Y), (V - C).square()
            return loss + beta / 2 * (distance if loss.shape == V.shape else distance.sum(-2, keepdim=True))

        V, best, rounding = C, total(C), 4 * torch.finfo(C.dtype).eps
        for _ in range(_NEWTON_STEPS):
            slope = gradient(V, Y) + beta * (V - C)
            step, share = solve(V, Y, beta, slope), torch.ones_like(best)
            trial = V - step
            reached = total(trial)
            for _ in range(_HALVINGS):
                worse = ~(reached <= best + rounding * best.abs())
                share = torch.where(worse, share / 2, share)
                trial = V - share * step
                reached = total(trial)
            better = reached <= best + rounding * best.abs()
            V, best = torch.where(better, trial, V), torch.where(better, reached, best)
        return V

    return prox


_NEWTON_STEPS, _HALVINGS = 25, 5  # fixed, so that nothing waits for the host


squared_error = Loss(
    "squared_error",
    value=lambda V, Y: (V - Y).square().sum((-2, -1)) / 2,
    gradient=lambda V, Y: V - Y,
    root=None,
    residual=lambda V, Y: V - Y,
    prox=lambda C, Y, beta: (Y + beta * C) / (1 + beta),
)


# Huber's loss with its corner at 1: quadratic near the target, linear beyond.


def _huber_bound(V: Tensor, Y: Tensor) -> Tensor:
    """min(1, 1/|V - Y|): the curvature of the parabola through V that lies above the loss."""
    return 1 / (V - Y).abs().clamp_min(1)


def _huber_each(V: Tensor, Y: Tensor) -> Tensor:
    r = (V - Y).abs()
    return torch.where(r <= 1, r.square() / 2, r - 0.5)


huber = Loss(
    "huber",
    value=lambda V, Y: _huber_each(V, Y).sum((-2, -1)),
    gradient=lambda V, Y: (V - Y).clamp(-1, 1),
    root=lambda V, Y: Root(_huber_bound(V, Y).sqrt()),
    residual=lambda V, Y: (V - Y) * _huber_bound(V, Y).sqrt(),
    # The minimiser of |v - y| linear or quadratic + beta/2 (v - c)^2: whichever piece it falls into.
    prox=lambda C, Y, beta: torch.where(
        (C - Y).abs() <= 1 + 1 / beta, (Y + beta * C) / (1 + beta), C - torch.sign(C - Y) / beta
    ),
)


# Binary cross-entropy: every output is the log-odds of a label between 0 and 1 of its own.


def _binary_each(V: Tensor, Y: Tensor) -> Tensor:
    """log(1 + exp(V)) - Y V, without cancellation for large log-odds that are right."""
    return V.clamp_min(0) - Y * V + torch.exp(-V.abs()).log1p()


def _binary_root(V: Tensor) -> Tensor:
    return (torch.sigmoid(V) * torch.sigmoid(-V)).clamp_min(_TINY).sqrt()


def _labels(Y: Tensor) -> Tensor:
    outside = int(((Y < 0) | (Y > 1)).sum())
    if outside:
        raise InvalidInput(
            f'Y has {outside} value(s) outside [0, 1], but loss="binary_cross_entropy" needs labels or probabilities; '
            'encode two classes as 0 and 1, or use loss="cross_entropy" for more'
        )
    return Y


binary_cross_entropy = Loss(
    "binary_cross_entropy",
    value=lambda V, Y: _binary_each(V, Y).sum((-2, -1)),
    gradient=lambda V, Y: torch.sigmoid(V) - Y,
    root=lambda V, Y: Root(_binary_root(V)),
    residual=lambda V, Y: (torch.sigmoid(V) - Y) / _binary_root(V),
    prox=newton_prox(
        _binary_each,
        lambda V, Y: torch.sigmoid(V) - Y,
        lambda V, Y, beta, R: R / (_binary_root(V).square() + beta),
    ),
    mean=torch.sigmoid,
    targets=_labels,
)


# Cross-entropy of a softmax: the outputs are log-probabilities of classes up to a constant.


def _softmax_each(V: Tensor, Y: Tensor) -> Tensor:
    """log sum exp(V) - <Y, V> for Y that adds up to 1, without cancellation for large V."""
    return torch.logsumexp(V - (Y * V).sum(-2, keepdim=True), -2, keepdim=True)


def _probabilities(V: Tensor) -> Tensor:
    return torch.softmax(V, -2)


def _softmax_root(V: Tensor) -> Root:
    """diag(root p) - p root(p)^T, whose square is diag(p) - p p^T."""
    p = _probabilities(V).clamp_min(_TINY)
    return Root(p.sqrt(), p)


def _softmax_solve(V: Tensor, Y: Tensor, beta: Tensor, R: Tensor) -> Tensor:
    """(diag(p) - p p^T + beta I)^{-1} R by Sherman and Morrison."""
    p = _probabilities(V)
    D = 1 / (p + beta)
    share = (p * D * R).sum(-2, keepdim=True) / (1 - (p * D * p).sum(-2, keepdim=True))
    return D * (R + p * share)


def _classes(Y: Tensor) -> Tensor:
    """One-hot columns from one column of classes 0..K-1; columns of probabilities stay."""
    if Y.shape[1] == 1:
        labels = Y[:, 0]
        present = labels.unique()
        if len(present) < 2 or not torch.equal(present, torch.arange(len(present)).to(present)):
            raise InvalidInput(
                'Y must hold classes 0, 1, ..., K-1 without gaps (at least two) for loss="cross_entropy"; number the '
                "classes so, for example by numpy.unique(y, return_inverse=True)[1], or pass one column per class"
            )
        return torch.nn.functional.one_hot(labels.long()).to(Y.dtype)
    if (Y < 0).any() or ((Y.sum(1) - 1).abs() > 1e-6).any():
        raise InvalidInput(
            'Y must hold one column of classes, or columns of probabilities that add up to 1, for loss="cross_entropy"'
        )
    return Y / Y.sum(1, keepdim=True)  # exactly 1, as the gradient assumes


cross_entropy = Loss(
    "cross_entropy",
    value=lambda V, Y: _softmax_each(V, Y).sum((-2, -1)),
    gradient=lambda V, Y: _probabilities(V) - Y,
    root=lambda V, Y: _softmax_root(V),
    residual=lambda V, Y: (_probabilities(V) - Y) / _probabilities(V).clamp_min(_TINY).sqrt(),
    prox=newton_prox(_softmax_each, lambda V, Y: _probabilities(V) - Y, _softmax_solve),
    mean=_probabilities,
    targets=_classes,
)

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (squared_error, huber, binary_cross_entropy, cross_entropy)}
