"""Rows of one tower that are turned by their time before they are put among another one's words."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

TURNED = 8


class Sung(nn.Module):
    """Times are counted from where the ids of a sound stand, and turn its rows in part (Music Flamingo)."""

    def __init__(self, *, turns=True):
        super().__init__()
        self.turns, self.table = turns, nn.Embedding(9, WIDTH)
        self.sound, self.project = Reader(*self.make_layers()), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(*self.make_layers())

    def make_layers(self):
        return [part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)]

    def forward(self, ids, sound):
        x, heard = self.table(ids), self.sound(sound)
        heard = self.turn(heard, ids) if self.turns else heard
        is_sound = (ids == 1)[..., None].expand_as(x)
        return self.layers(x.masked_scatter(is_sound, self.project(heard)))

    def turn(self, heard, ids):
        first = (ids == 1).int().argmax(-1)
        times = first[:, None] + torch.arange(heard.shape[1]) * 0.25
        angles = (times[..., None] * torch.rand(TURNED // 2)).repeat_interleave(2, -1)
        turned, left = heard[..., :TURNED], heard[..., TURNED:]
        one, other = turned.unflatten(-1, (-1, 2)).unbind(-1)
        moved = torch.stack([-other, one], -1).flatten(-2)
        return torch.cat([turned * angles.cos() + moved * angles.sin(), left], -1)


def trace(*, turns=True):
    torch.manual_seed(0)
    ids = torch.tensor([[3, 1, 1, 1, 1, 1, 4], [5, 6, 1, 1, 1, 1, 1]])
    return xray.trace(Sung(turns=turns).eval(), ids, rows())


def test_rows_of_a_tower_that_are_turned_by_another_ones_ids_are_between_the_two():
    *_, text = read_columns(trace())

    surfaces = {node.label: node.surface for node in text.entrance.nodes}
    assert surfaces[f"ROTATE {TURNED} OF {WIDTH} NUMBERS"] == surfaces["LINEAR"] == "ghost"
    assert surfaces["TABLE LOOKUP"] == "own"


class Heard(Sung):
    """Rows of a sound of which a mask keeps some, or all, before they are put among words (MOSS Transcribe)."""

    def forward(self, ids, sound, mask):  # type: ignore[override]
        heard = self.project(self.sound(sound)[mask])
        x = self.table(ids)
        x = x.masked_scatter((ids == 1)[..., None].expand_as(x), heard)
        return self.layers(x)


def test_rows_of_a_tower_that_a_mask_keeps_have_a_box_between_the_two():
    torch.manual_seed(0)
    ids = torch.tensor([[3, 1, 1, 1, 1, 1, 4], [5, 6, 1, 1, 1, 1, 1]])
    *_, text = read_columns(xray.trace(Heard().eval(), ids, rows(), torch.ones(2, 5, dtype=torch.bool)))

    (kept,) = (node for node in text.entrance.nodes if node.label == "ROWS THAT A MASK LETS THROUGH")
    assert (kept.record.shape, kept.surface) == ((10, WIDTH), "ghost")
