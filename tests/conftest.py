"""One thread: the tests' matrices are tiny, and several test processes may share the cores."""

import torch

torch.set_num_threads(1)
