"""Data to try things on."""

from .functions import product, square

__all__ = ["product", "square"]
