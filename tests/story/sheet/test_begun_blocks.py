"""A first layer whose attention nothing goes past: its frame shows what comes behind that, and says so (Fun-ASR)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.cards.test_pattern import Narrow
from story.charts.test_heads_first import PLACES, Late
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Begun(nn.Module):
    """Three layers, and what comes before them: of the same list, or not."""

    def __init__(self, before, *first):
        super().__init__()
        self.before = before
        self.layers = nn.Sequential(*first, *(nn.Sequential(Late(turned=False), FeedForwardPart()) for _ in range(3)))

    def forward(self, x):
        return self.layers(self.before(x))


def texts_of(*parts):
    """What is written on the poster of such layers."""
    layout = compose_poster(xray.trace(Begun(*parts).eval(), torch.ones(2, PLACES, WIDTH)), text_width)
    return {"".join(run.text for run in line).strip() for box in layout.boxes for line in box.lines}


def count(model):
    return f"{sum(one.numel() for one in model.parameters()):,}"


def test_the_frame_of_a_begun_block_tells_how_much_of_it_stands_there():
    first = nn.Sequential(Narrow(), FeedForwardPart())
    told = texts_of(nn.Identity(), first)

    assert {"LAYER 1 of 4", "what comes behind its self-attention"} <= told
    assert f"{count(first[1])} of its {count(first)} parameters" in told
    assert "BEHIND ITS SELF-ATTENTION" in told
    assert "LAYER INPUT" not in told


class Convolved(nn.Module):
    """Attention that is added to its values, convolved and with them themselves (FSMN)."""

    def __init__(self):
        super().__init__()
        self.looks, self.values = Narrow(), nn.Linear(WIDTH, WIDTH)
        self.convolves = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        values = self.values(x)
        return self.looks(x) + (values + self.convolves(values.transpose(1, 2)).transpose(1, 2))


def test_values_convolved_beside_an_attention_that_nothing_goes_past_are_no_layer():
    first = nn.Sequential(Convolved(), FeedForwardPart())
    told = texts_of(nn.Identity(), first)

    assert f"{count(first[1])} of its {count(first)} parameters" in told
    assert "BEHIND ITS SELF-ATTENTION" in told


@pytest.mark.parametrize("before", [nn.Sequential(Narrow()), nn.Identity()], ids=["of no layer", "none"])
def test_a_frame_whose_block_begins_with_it_says_nothing_of_the_kind(before):
    told = texts_of(before)

    assert "LAYER INPUT" in told
    assert not [one for one in told if "behind its" in one.lower() or " of its " in one]
