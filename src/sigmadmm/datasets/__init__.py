"""Data to try things on."""

from .functions import l1_radial, l2_radial, product, square

__all__ = ["l1_radial", "l2_radial", "product", "square"]
