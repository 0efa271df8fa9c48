"""How a run ended: a status, and a sentence that a user can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import isfinite


class Status(Enum):
    """How a run ended.

    CONVERGED    all residuals that the method judges by are below their tolerances
    STALLED      nothing better can be found within rounding, though the residuals are above their tolerances
    MAX_ITER     the iterations ran out first
    BROKEN       a number was not finite; the last finite and the best network are kept
    INTERRUPTED  Ctrl-C
    STOPPED      a callback asked for it
    """

    CONVERGED = "converged"
    STALLED = "stalled"
    MAX_ITER = "max_iter"
    BROKEN = "broken"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"

    def __str__(self) -> str:
        return self.value


def converged(line: Mapping[str, float], criteria: Sequence[str]) -> str:
    met = " and ".join(_compare(criterion, line) for criterion in criteria)
    return f"Converged after {_iterations(line['iteration'])}: {met}."


def stalled(line: Mapping[str, float], criteria: Sequence[str]) -> str:
    failed = " and ".join(_compare(criterion, line) for criterion in criteria if not _met(criterion, line))
    return (
        f"Stalled after {_iterations(line['iteration'])}: the objective can fall no further within rounding, though "
        f"{failed}. This is as precise as it gets; if it is far from converged, bring X and Y to unit size."
    )


def out_of_iterations(line: Mapping[str, float], criteria: Sequence[str], advice: str) -> str:
    failed = " and ".join(_compare(criterion, line) for criterion in criteria if not _met(criterion, line))
    return f"Not converged after {_iterations(line['iteration'])} (max_iter): {failed}. {advice}"


def broken(what: str, best_iteration: int) -> str:
    kept = f"the best network, of iteration {best_iteration}," if best_iteration else "the initial network"
    return (
        f"Stopped: {what}; {kept} is kept. Scale the data, use a larger regularization or a smaller init_scale, "
        'or dtype="float64" if it was float32.'
    )


def interrupted(iteration: int) -> str:
    return f"Interrupted after {_iterations(iteration)}; the last and the best network are kept."


def stopped(iteration: int, reason: str) -> str:
    return f"Stopped after {_iterations(iteration)} by a callback: {reason}"


def is_converged(line: Mapping[str, float], criteria: Sequence[str]) -> bool:
    return all(_met(criterion, line) for criterion in criteria)


def _met(criterion: str, line: Mapping[str, float]) -> bool:
    residual = line[f"{criterion}_residual"]
    return isfinite(residual) and residual <= line[f"{criterion}_tolerance"]


def _compare(criterion: str, line: Mapping[str, float]) -> str:
    residual, tolerance = line[f"{criterion}_residual"], line[f"{criterion}_tolerance"]
    relation = "within" if _met(criterion, line) else "above"
    return f"{criterion} residual {residual:.2e} is {relation} its tolerance {tolerance:.2e}"


def _iterations(count: float) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"
