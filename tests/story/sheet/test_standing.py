"""Towers that are too high for their page, with every layer asked for: they go on beside, or stand as they are."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

HIGH: list[type[nn.Module]] = [AttentionPart, *[FeedForwardPart] * 10]
LOWER = HIGH[:-1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kinds", [[HIGH] * 6 + [LOWER] * 6, [LOWER] * 6 + [HIGH] * 6, [LOWER] + [HIGH] * 11])
def test_all_layers_of_a_high_tower_are_drawn_when_asked_for(kinds):
    parts = [made() for kind in kinds for made in kind]
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, 8, WIDTH))

    layout = compose_poster(trace, text_width, all_layers=True)

    drawn = {step for box in layout.boxes for step in box.steps}
    assert all(any(step.path in one for one in drawn) for step in trace.steps if step.op == "softmax")
