"""sigmadmm: deep sigmoid-type networks trained by ADMM instead of back-propagation."""

from importlib.metadata import version

from . import baselines, datasets, theory
from .activations import ACTIVATIONS, Activation
from .admm.history import History
from .admm.status import Status
from .callbacks import Callback, PrintProgress, ProgressBar
from .errors import InvalidInput
from .network import Network
from .result import Result
from .training import train

__version__ = version("sigmadmm")

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Callback",
    "History",
    "InvalidInput",
    "Network",
    "PrintProgress",
    "ProgressBar",
    "Result",
    "Status",
    "baselines",
    "datasets",
    "theory",
    "train",
]
