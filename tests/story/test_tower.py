"""Layers that stand apart: each has a row or a frame with its own shapes, and memory reaches all of the decoder."""

import pytest
from poster_cases import make_case
from printed import lines_of, text_of

from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


@pytest.fixture(scope="module")
def drawn():
    def compose(case):
        trace, options = make_case(case)
        return trace, compose_poster(trace, text_width, **options)

    return compose


def test_layers_that_are_alike_stand_in_one_frame(drawn):
    named = {box.id for box in drawn("both")[1].boxes if box.id.startswith("layer_name_")}
    assert named == {"layer_name_encoder_0", "layer_name_decoder_0"}


@pytest.mark.parametrize(
    ("case", "count"), [("all layers", 3), ("all of six layers", 6), ("all of fourteen layers", 14)]
)
def test_asked_for_all_each_layer_has_a_frame(drawn, case, count):
    layout = drawn(case)[1]
    named = {box.id for box in layout.boxes if box.id.startswith("layer_name_")}
    assert named == {f"layer_name_{side}_{layer}" for side in ("encoder", "decoder") for layer in range(count)}


def test_every_step_of_every_layer_is_on_the_poster(drawn):
    trace, layout = drawn("all layers")
    told = {step for box in layout.boxes for step in box.steps}
    training = trace.passes[0]
    expected = {f"training/{step.id}" for step in training.leaves if step.layer is not None}
    assert expected - told == set()


def test_a_frame_says_the_sizes_of_its_own_layer(drawn):
    lines = [line.split("  ") for line in lines_of(drawn("layers not alike")[1])]
    assert {tuple(line) for line in lines if line[0] == "FEED-FORWARD" and len(line) > 1} == {
        ("FEED-FORWARD", "d_ff 64"),
        ("FEED-FORWARD", "d_ff 256"),
    }


def test_the_large_frame_says_which_layer_it_shows(drawn):
    assert "ENCODER LAYER 1 of 3" in lines_of(drawn("all layers")[1])
    assert "DECODER LAYERS 1–2 × 2" in lines_of(drawn("layers not alike")[1])


@pytest.mark.parametrize(
    ("case", "count"), [("all layers", 2), ("all of fourteen layers", 13), ("all of six and one layers", 0)]
)
def test_memory_reaches_every_layer_that_stands_apart(drawn, case, count):
    layout = drawn(case)[1]
    frames = [box for box in layout.boxes if box.id.startswith("layer_name_decoder") and box.on != "page"]
    tips = [curve.points[-1] for curve in layout.curves if curve.kind == "ribbon" and curve.head]
    assert {round(y) for _, y in tips} == {round(box.y) for box in frames}
    assert len(tips) == len(frames) == count


def test_memory_reaches_an_attention_that_is_drawn_in_full_elsewhere(drawn):
    layout = drawn("layers not alike")[1]
    nodes = [box for box in layout.boxes if "step training" in box.kind]
    closed = next(box for box in nodes if "CROSS-ATTENTION" in text_of(box.lines[0]))
    tips = [curve.points[-1] for curve in layout.curves if curve.kind == "ribbon" and curve.head]
    assert [(round(x), round(y)) for x, y in tips] == [(round(closed.left - 1), round(closed.y))]


def test_no_two_boxes_share_an_id(drawn):
    ids = [thing.id for thing in (*drawn("all layers")[1].boxes, *drawn("all layers")[1].cells)]
    assert len(ids) == len(set(ids))
