"""The word for a tower's width stands beside its own rows alone, not beside those of a tower that leads into it."""

import torch
from story.test_joined_towers import SEEN, SIGN, WIDTH, Sees
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Normed(Sees):
    """The same, its patches normed before they are brought to the width of words (Qwen2-VL)."""

    def __init__(self):
        super().__init__()
        self.project = nn.Sequential(nn.LayerNorm(SEEN), nn.Linear(SEEN, WIDTH))


def test_rows_of_another_width_do_not_have_the_word_for_it():
    ids = torch.arange(14).view(2, 7).clone()
    ids[:, :4] = SIGN
    columns = read_columns(xray.trace(Normed().eval(), ids, torch.rand(2, 3, 8, 8)))

    records = [node.record for node in columns[-1].entrance.nodes if node.record is not None]
    assert {record.shape[-1] for record in records} >= {SEEN, WIDTH}
    named = {size for one in records for word, size in zip(one.axes, one.shape, strict=True) if word == "d_model"}
    assert named == {WIDTH}


class Widens(nn.Module):
    """A normed feed-forward; where it makes rows wider, what it is added to goes through a linear layer."""

    def __init__(self, given, width):
        super().__init__()
        self.norm, self.out, self.back = nn.LayerNorm(given), nn.Linear(given, 37), nn.Linear(37, width)
        self.past = nn.Linear(given, width) if given != width else None

    def forward(self, x):
        normed = self.norm(x)
        if self.past is None:
            return x + self.back(torch.relu(self.out(normed)))
        return self.past(normed) + self.back(torch.tanh(self.out(normed)))


class Staged(nn.Module):
    """Ids, and layers of which the fourth makes the stream wider."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(29, 10), nn.Linear(14, 29)
        ways = [(10, 10)] * 3 + [(10, 14)] + [(14, 14)] * 2
        self.layers = nn.ModuleList(Widens(*way) for way in ways)

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_in_a_sublayer_that_makes_rows_wider_one_width_has_the_word():
    (column,) = read_columns(xray.trace(Staged().eval(), torch.arange(14).view(2, 7)))

    nodes = [node for frame in column.frames for node in frame.panels[0].chart.nodes if frame.group.layers == (3,)]
    sizes = [(size, word) for node in nodes for size, word in zip(node.record.shape, node.record.axes, strict=True)]
    assert (10, "") in sizes
    assert {size for size, word in sizes if word == "d_model"} == {14}
