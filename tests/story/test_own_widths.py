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
