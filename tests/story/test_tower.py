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


@pytest.mark.sampled(3)
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


def rows_of(layout, layer):
    """What the boxes in the row of a layer say, from the left."""
    name = next(box for box in layout.boxes if box.id == f"layer_name_{layer}" and box.on != "page")
    boxes = [
        box for box in layout.boxes if "step " in box.kind and abs(box.y - name.y) < 2 and abs(box.x - name.x) < 560
    ]
    side = layer.partition("_")[0]
    return [text_of(line) for box in sorted(boxes, key=lambda box: box.x) if side in box.kind for line in box.lines]


def test_a_row_says_the_shapes_of_its_own_layer(drawn):
    layout = drawn("layers not alike")[1]
    assert rows_of(layout, "encoder_1") == ["SCORES", "8×4×10×10", "WIDEST", "8×10×64", "LAYER 2", "1×9×32"]
    assert rows_of(layout, "decoder_2")[-4:] == ["WIDEST", "8×14×256", "LAYER 3", "1×t×32"]


def test_the_large_frame_says_which_layer_it_shows(drawn):
    assert "ENCODER LAYER 1 of 3" in lines_of(drawn("all layers")[1])
    assert "DECODER LAYERS 1–2 × 2" in lines_of(drawn("layers not alike")[1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("case", "count"),
    [("all layers", 2), ("all of fourteen layers", 13), ("all of six and one layers", 0), ("layers not alike", 1)],
)
def test_memory_reaches_every_layer_that_stands_apart(drawn, case, count):
    layout = drawn(case)[1]
    frames = [box for box in layout.boxes if box.id.startswith("layer_name_decoder") and box.on != "page"]
    tips = [curve.points[-1] for curve in layout.curves if curve.kind == "ribbon" and curve.head]
    assert {round(y) for _, y in tips} == {round(box.y) for box in frames}
    assert len(tips) == len(frames) == count


def test_no_two_boxes_share_an_id(drawn):
    ids = [thing.id for thing in (*drawn("all layers")[1].boxes, *drawn("all layers")[1].cells)]
    assert len(ids) == len(set(ids))
