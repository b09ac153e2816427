"""What is worked out of two towers behind both, without any attention that is known."""

import pytest
import torch
from story.entrances import WIDTH, make_layers
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Weighed(nn.Module):
    """Two towers; what one gives is weighed by what the other asks for, and a head may stand behind that (QCNet)."""

    def __init__(self, *, has_head=True):
        super().__init__()
        self.words, self.others = nn.Embedding(31, WIDTH), nn.Embedding(29, WIDTH)
        self.first, self.second = (nn.Sequential(*make_layers(WIDTH, 2)) for _ in range(2))
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 4) if has_head else nn.Identity()

    def forward(self, ids, others):
        x, y = self.first(self.words(ids)), self.second(self.others(others))
        query, key = self.query(y)[:, :, None], self.key(x)[:, None]
        weights = (query * key).sum(-1, keepdim=True).sigmoid()
        return self.head((weights * self.value(x)[:, None]).sum(2))


@pytest.mark.parametrize(("has_head", "told"), [(True, 0), (False, 3)])
def test_rows_that_a_later_head_works_on_are_no_end_of_a_tower(has_head, told):
    torch.manual_seed(0)
    trace = xray.trace(Weighed(has_head=has_head).eval(), torch.arange(22).view(2, 11), torch.arange(14).view(2, 7))

    labels = [node.label for column in read_columns(trace) if column.exit is not None for node in column.exit.nodes]
    assert labels == ["LINEAR"] * told


class Scaled(Weighed):
    """Some rows that a second tower gives are normed, and scaled by what those of the first one say (FIBO 2)."""

    def forward(self, ids, others):
        x, y = self.first(self.words(ids)), self.second(self.others(others))
        scale = 1.0 + self.key(x.mean(1)).unsqueeze(1)
        return self.head(nn.functional.layer_norm(y[:, 2:-1], (WIDTH,)) * scale)


def test_what_scales_the_rows_of_another_tower_and_these_are_ends_of_both():
    trace = xray.trace(Scaled().eval(), torch.arange(22).view(2, 11), torch.arange(14).view(2, 7))

    exits = [column.exit for column in read_columns(trace) if column.exit is not None]
    assert [chart.nodes[-1].label for chart in exits] == ["LINEAR OF A MEAN OF ROWS", "LINEAR"]
