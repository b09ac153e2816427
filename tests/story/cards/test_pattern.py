"""The card that says which layer is which."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_heads_first import PLACES, Late
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


def tell_layers(*turned):
    """What the card says, line by line, of layers that turn queries and keys, or do not."""
    parts = [part for one in turned for part in (Late(turned=one), FeedForwardPart())]
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.ones(2, PLACES, WIDTH))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]
    return [text for text in texts if text[:1].isdigit() and ": " in text]


def test_layers_that_turn_no_queries_say_so_where_others_do():
    assert tell_layers(True, True, False) == [
        "1–2: self-attention, feed-forward",
        "3: self-attention (without rotary), feed-forward",
    ]


def test_layers_of_which_none_turns_say_nothing_of_it():
    assert tell_layers(False, False) == []
