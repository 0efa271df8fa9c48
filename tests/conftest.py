"""One thread: the tests' matrices are tiny, and several test processes may share the cores.

Continuous integration draws the same random networks every time; a developer's machine goes on looking for others.
"""

import os

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
