"""The paper's theory as quantities one can compute."""

from ..admm.lyapunov import lyapunov_weights

__all__ = ["lyapunov_weights"]
