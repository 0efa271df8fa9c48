"""What shards contribute adds up, except where the largest counts."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from sigmadmm.admm.sums import Largest, combine


@dataclass
class Contribution:
    total: Tensor
    peak: Largest
    parts: list[Tensor]
    absent: Tensor | None = None


def contribution(total, peak, part):
    return Contribution(torch.tensor(total), Largest(torch.tensor(peak)), [torch.tensor(part)])


def test_records_are_combined_field_by_field():
    both = combine(contribution(1.0, [1.0, 5.0], 10.0), contribution(2.0, [3.0, 4.0], 20.0))
    assert both.total == 3
    assert both.peak.value.tolist() == [3, 5]
    assert both.parts[0] == 30
    assert both.absent is None


def test_nan_is_never_lost():
    both = combine(contribution(torch.nan, [torch.nan], 0.0), contribution(2.0, [3.0], 0.0))
    assert both.total.isnan()
    assert both.peak.value.isnan()


def test_what_cannot_be_combined_is_named():
    with pytest.raises(TypeError, match="str is no sum"):
        combine("a", "b")
