"""Streams that are multiplied by learned numbers on their way past a branch (Doge, ZAYA, Muse Spark)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from torch import nn

import xray
from xray.story.body.reading import read_pass


class Kept(FeedForwardPart):
    """A feed-forward to which the stream comes times what is worked out of learned numbers."""

    def __init__(self):
        super().__init__()
        self.keep = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return torch.sigmoid(self.keep / 2) * x + self.back(self.bend(self.wide(self.norm(x))))


class Shifted(Kept):
    """One to which the stream comes shifted by learned numbers before (ZAYA)."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return (x + self.shift) * self.keep + self.back(self.bend(self.wide(self.norm(x))))


class Both(Kept):
    """One that reads the stream as it was multiplied: that happens before both ways part."""

    def forward(self, x):
        return FeedForwardPart.forward(self, x * self.keep)


def list_scales(*parts):
    (tower,) = read(Reader(*parts), rows()).towers
    return [stage.stream_scale for group in tower.groups for stage in group.stages]


def test_a_stream_that_comes_times_learned_numbers_is_told():
    assert list_scales(AttentionPart(), Kept()) == [None, "learned"]
    assert set(list_scales(AttentionPart(), Both(), AttentionPart(), Both())) == {None}


def test_of_such_a_stream_nobody_says_that_nothing_is_lost():
    plain, scaled = (node for node in draw(Reader(AttentionPart(), Kept()), rows()) if node.key == "add")

    assert (plain.label, bool(plain.remark)) == ("ADD", True)
    assert (scaled.label, scaled.remark) == ("STREAM × LEARNED NUMBERS, ADD", "")


def test_learned_numbers_that_are_added_to_such_a_stream_first_are_told():
    _, shifted = (node for node in draw(Reader(AttentionPart(), Shifted()), rows()) if node.key == "add")

    assert shifted.label == "STREAM + LEARNED NUMBERS, × LEARNED NUMBERS, ADD"
    assert sorted(step.op for step in shifted.steps) == ["add", "add", "mul"]


class MixedIn(Reader):
    """Layers before each of which the stream and what it began with are mixed, both times a number (nanochat)."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.kept, self.first = nn.Parameter(torch.ones(len(parts))), nn.Parameter(torch.ones(len(parts)))

    def forward(self, x, kind=None):
        x = began = self.project(x)
        for number, part in enumerate(self.layers):
            x = part(self.kept[number] * x + self.first[number] * began)
        return x


def test_what_is_mixed_into_a_stream_before_each_layer_is_no_branch_of_it():
    (tower,) = read(MixedIn(*(part() for _ in range(3) for part in (AttentionPart, FeedForwardPart))), rows()).towers

    assert [len(group.stages) for group in tower.groups for _ in group.layers] == [2, 2, 2]
    assert not any(stage.replaces for group in tower.groups for stage in group.stages)


class Blended(FeedForwardPart):
    """What a part gives and what went into it, each times one number for all rows, or laid out for each (SVD)."""

    def __init__(self, *, laid):
        super().__init__()
        self.laid, self.share = laid, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        share = self.share.sigmoid()
        if self.laid:
            share = torch.where(torch.zeros(x.shape[:2]).bool(), torch.ones(1, 1), share[..., None])[..., None]
        return share * x + (1.0 - share) * FeedForwardPart.forward(self, x)


@pytest.mark.parametrize("laid", [False, True])
def test_a_stream_goes_on_through_a_blend_by_one_learned_number(laid):
    parts = (part for _ in range(3) for part in (AttentionPart(), Blended(laid=laid)))
    trace = xray.trace(Reader(*parts), rows())

    (tower,) = read_pass(trace.passes[0]).towers
    assert [len(chain.joints) for chain in tower.chains] == [6]
