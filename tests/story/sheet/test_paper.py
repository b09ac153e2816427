"""Which way the paper lies: on its side where what stands beside each other is read in larger letters then."""

import re

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.sheet.poster import draw_poster
from xray.story.sheet.compose import choose_ratio


@pytest.mark.parametrize(
    ("width", "height", "is_upright"),
    [(1000, 1400, True), (1000, 1000, True), (1000, 900, False), (1000, 700, False), (1000, 920, True)],
)
def test_a_sheet_lies_on_its_side_where_letters_become_a_tenth_larger(width, height, is_upright):
    assert (choose_ratio(width, height) > 1) == is_upright


class Towers(nn.Module):
    """So many stacks side by side, of which the last looks at all that the others made."""

    def __init__(self, count):
        super().__init__()
        self.into = nn.ModuleList(nn.Linear(width, WIDTH) for width in range(7, 7 + count))
        self.stacks = nn.ModuleList(
            nn.Sequential(*(part for _ in range(2) for part in (AttentionPart(), FeedForwardPart())))
            for _ in range(count)
        )
        self.last = nn.Sequential(*(part for _ in range(2) for part in (AttentionPart(), FeedForwardPart())))

    def forward(self, *given):
        made = [stack(into(one)) for stack, into, one in zip(self.stacks, self.into, given, strict=True)]
        return self.last(torch.cat(made, 1))


@pytest.mark.parametrize(("count", "is_upright"), [(1, True), (4, False)])
def test_the_paper_is_turned_with_the_sheet(count, is_upright):
    given = [torch.rand(BATCH, PLACES, width) for width in range(7, 7 + count)]
    svg = draw_poster(xray.trace(Towers(count).eval(), *given), "svg")

    across, up = map(float, re.findall(r'viewBox="0\.00 0\.00 (\S+) (\S+)"', svg)[0])
    assert max(across, up) == pytest.approx(1684, abs=1)
    assert (up > across) == is_upright
