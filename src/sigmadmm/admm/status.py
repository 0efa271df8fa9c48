"""How a run ended: a status, and a sentence that a user can act on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Status(Enum):
    """How a run ended.

    CONVERGED    both residuals are below their tolerances
    MAX_ITER     the iterations ran out first
    BROKEN       a number was not finite; the last finite and the best network are kept
    INTERRUPTED  Ctrl-C
    STOPPED      a callback asked for it
    """

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    BROKEN = "broken"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"

    def __str__(self) -> str:
        return self.value


def converged(line: Mapping[str, float]) -> str:
    return f"Converged after {line['iteration']} iterations: {_compare('primal', line)} and {_compare('dual', line)}."


def out_of_iterations(line: Mapping[str, float]) -> str:
    failed = [_compare(kind, line) for kind in ("primal", "dual") if not _met(kind, line)]
    return (
        f"Not converged after {line['iteration']} iterations (max_iter): {' and '.join(failed)}. "
        "Allow more iterations, loosen tol, or look at the history: with small regularization and penalty 1 "
        "the paper's algorithm need not converge."
    )


def broken(what: str, best_iteration: int) -> str:
    kept = f"the best network, of iteration {best_iteration}," if best_iteration else "the initial network"
    return (
        f"Stopped: {what}; {kept} is kept. Scale the data, use a larger regularization or a smaller init_scale, "
        'or dtype="float64" if it was float32.'
    )


def interrupted(iteration: int) -> str:
    return f"Interrupted after {iteration} iterations; the last and the best network are kept."


def stopped(iteration: int, reason: str) -> str:
    return f"Stopped after {iteration} iterations by a callback: {reason}"


def _met(kind: str, line: Mapping[str, float]) -> bool:
    return line[f"{kind}_residual"] <= line[f"{kind}_tolerance"]


def is_converged(line: Mapping[str, float]) -> bool:
    return _met("primal", line) and _met("dual", line)


def _compare(kind: str, line: Mapping[str, float]) -> str:
    residual, tolerance = line[f"{kind}_residual"], line[f"{kind}_tolerance"]
    return (
        f"{kind} residual {residual:.2e} is {'within' if _met(kind, line) else 'above'} its tolerance {tolerance:.2e}"
    )
