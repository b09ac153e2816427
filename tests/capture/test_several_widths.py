"""Two networks of different widths in one: the heads of one may be as wide as the stream of the other (π0)."""

import pytest
import torch
from capture.recorded_axes import axes_of
from capture.test_axis_words import Grouped
from torch import nn


class Beside(nn.Module):
    """A network of width 15 whose heads are 42 wide together, and one of width 42 whose heads are so too."""

    def __init__(self, *, narrow_first):
        super().__init__()
        self.narrow, self.wide = Grouped(15, 6, 2, 7, by_hand=True), Grouped(42, 6, 2, 7, by_hand=True)
        self.narrow_first = narrow_first

    def forward(self, ids):
        order = (self.narrow, self.wide) if self.narrow_first else (self.wide, self.narrow)
        return [one(ids) for one in order]


@pytest.mark.parametrize("narrow_first", [True, False])
def test_heads_are_not_called_by_the_width_of_another_network(narrow_first):
    found = axes_of(Beside(narrow_first=narrow_first), torch.zeros(6, 5, dtype=torch.long))

    assert found["narrow.words"][0][-1] == found["wide.words"][0][-1] == "d_model"
    assert found["narrow.query"] == found["wide.query"] == [("batch", "seq_len", "heads*d_k")]
