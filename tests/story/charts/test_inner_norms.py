"""A norm between the heads and the linear layer behind them (Kosmos-2)."""

import pytest
import torch
from handwritten import make_writer
from story.body.test_mistaken import PLACES, AttentionPart, FeedForwardPart, Reader, draw
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.roles.listing import list_roles

WIDTH, HEADS = 15, 3


@pytest.fixture(params=[nn.LayerNorm, nn.RMSNorm])
def trace(request):
    torch.manual_seed(0)
    model = make_writer(WIDTH, HEADS)
    for layer in model.rows:
        layer.one.last = nn.Sequential(request.param(WIDTH), nn.Linear(WIDTH, WIDTH))
    return xray.trace(model, torch.arange(14).view(2, 7))


def test_what_the_heads_found_is_normalised_in_a_box_of_its_own(trace):
    boxes = compose_poster(trace, text_width).boxes
    heights = {box.lines[0][0].text: box.y for box in boxes if box.lines and "rows.0.one" in str(box.steps)}

    named = [told.rstrip() for told in sorted(heights, key=heights.__getitem__)]
    above = named[named.index("CONCAT HEADS") :]
    assert above in (["CONCAT HEADS", kind, "LINEAR O"] for kind in ("LAYER NORM", "RMS NORM"))
    assert not any("in no box" in run.text for box in boxes for line in box.lines for run in line)


def test_its_role_is_that_of_a_norm(trace):
    roles = list_roles(trace)["forward"]

    assert roles["rows.0.one.last.0#0"] == "norm of what the heads found"
    assert roles["rows.0.one.last.1#0"] == "output projection"


def test_a_norm_behind_the_activation_is_no_step_of_the_box_before_it():
    think = FeedForwardPart(wide=17)
    think.back = nn.Sequential(nn.LayerNorm(17), think.back)  # type: ignore[assignment]

    nodes = draw(Reader(AttentionPart(), think), torch.randn(2, PLACES, 7))

    assert [node.label for node in nodes if any(step.params == 2 * 17 for step in node.steps)] == ["LAYER NORM"]
