"""A sweep allocates little beyond X, Y, V and the multipliers, and never anything n x n."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sigmadmm
from helpers import small_run


class PeakMemory(TorchDispatchMode):
    """Bytes of the storages that are created while it is active and are alive at the same time."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak, self.largest = 0, 0, 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        inputs = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for output in tree_leaves(result):
            if isinstance(output, torch.Tensor):
                self._add(output.untyped_storage(), inputs)
        return result

    def _add(self, storage, inputs):
        key = storage._cdata
        if key in inputs or key in self.known:
            return
        self.known.add(key)
        size = storage.nbytes()
        self.alive += size
        self.peak = max(self.peak, self.alive)
        self.largest = max(self.largest, size)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key, size):
        self.known.discard(key)
        self.alive -= size


def test_the_meter_itself_counts():
    with PeakMemory() as meter:
        a = torch.zeros(1000, dtype=torch.float64)
        b = a + 1
        del a
        b.add_(1)
        c = b * 2
    assert meter.peak == 2 * 8000
    assert meter.largest == 8000
    assert c.sum() == 4000


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "arctan"])  # the last two take the most temporaries
@pytest.mark.parametrize("dims", [(3, 32, 32, 1), (2, 24, 48, 24, 2), (1, 40, 1), (3, *[32] * 8, 1)])
def test_at_most_six_arrays_of_the_widest_layer(dims, activation, dtype):
    """A sweep, watched or not, and the measures after it; arrays are counted in float64, in which sums are taken."""
    n = 40_000
    widest = 8 * n * max(dims)
    small = 20 * 8 * max(dims) ** 2 * len(dims)  # Gram matrices and weights: no n in them
    with PeakMemory() as meter:
        run = small_run(dims, activation, n=n, dtype=dtype)
        run.steps(1)
        at_rest = meter.alive
        for work in (
            lambda: run.method.step(run.state, False),
            lambda: run.method.step(run.state, True),
            lambda: run.method.measure(run.state, 1e-8),
        ):
            meter.peak = 0
            work()
            assert meter.peak - at_rest <= 6 * widest + small
    assert meter.largest <= widest


@pytest.mark.parametrize("activation", ["sigmoid", "arctan"])
@pytest.mark.parametrize("dims", [(3, 32, 32, 1), (2, 24, 48, 24, 2), (1, 40, 1), (2, 40, 40, 40, 1)])
def test_conjugate_gradients_take_at_most_six_arrays_of_the_widest_layer(dims, activation, monkeypatch):
    """Beyond X and Y, which the run copies into shards; V is counted, so the bound is for up to three hidden layers."""
    monkeypatch.setattr("sigmadmm.engine.in_memory._recycle_freed_memory", lambda: None)
    monkeypatch.setattr("sigmadmm.admm.synced.SLOW", 2.0)  # so that every iteration tries Newton's step
    n = 60_000
    widest, samples = 8 * n * max(dims), 8 * n * (dims[0] + dims[-1])
    generator = torch.Generator().manual_seed(0)
    X, Y = (torch.rand(n, width, dtype=torch.float64, generator=generator) for width in (dims[0], dims[-1]))
    options = {"hidden": dims[1:-1], "activation": activation, "solver": "cg", "device": "cpu"}
    with PeakMemory() as meter:
        result = sigmadmm.train(X, Y, max_iter=2, **options)
    assert result.counters["cg iterations"] > 0
    assert meter.peak - samples <= 6 * widest
    assert meter.largest <= widest
