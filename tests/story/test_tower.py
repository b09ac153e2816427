"""The towers: each group of layers has a frame with its own shapes, and memory reaches all of the decoder."""

import pytest
from poster_cases import make_case
from printed import lines_of, text_of, words_of

from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


@pytest.fixture(scope="module")
def drawn():
    def compose(case):
        trace, options = make_case(case)
        return trace, compose_poster(trace, text_width, **options)

    return compose


def cells_of(layout, path):
    return [text_of(line)[2:] for box in layout.boxes if box.id.endswith(f"{path}#0") for line in box.lines]


def test_without_layers_apart_there_is_no_tower(drawn):
    assert "EVERY LAYER" not in words_of(drawn("both")[1])


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
    assert {step for step in expected if not any(step.startswith(seen.removesuffix("#0")) for seen in told)} == set()


def test_a_frame_says_the_shapes_of_its_own_layer(drawn):
    layout = drawn("layers not alike")[1]
    assert cells_of(layout, "decoder.layers.2.feed_forward.expand") == ["8×14×256", "1×t×256"]
    assert cells_of(layout, "tower/training/decoder.layers.0.feed_forward.expand") == ["8×14×128", "1×t×128"]


def test_what_is_not_alike_is_said(drawn):
    assert "encoder layer 2 is not like layer 1: feed_forward.expand: 8×10×64, not 8×10×128" in lines_of(
        drawn("layers not alike")[1]
    )


def test_the_large_frame_says_which_layer_it_shows(drawn):
    assert "ENCODER LAYER 1 of 3" in lines_of(drawn("all layers")[1])
    assert "DECODER LAYERS 1–2 of 3" in lines_of(drawn("layers not alike")[1])


@pytest.mark.parametrize("case", ["all layers", "all of six and one layers", "layers not alike"])
def test_memory_reaches_every_frame_of_the_decoder(drawn, case):
    layout = drawn(case)[1]
    frames = [box for box in layout.boxes if box.id.startswith("layer_name_decoder")]
    tips = [curve.points[-1] for curve in layout.curves if curve.kind == "ribbon" and curve.head]
    assert sorted(round(y) for _, y in tips) == sorted(round(box.y) for box in frames)


def test_no_two_boxes_share_an_id(drawn):
    ids = [thing.id for thing in (*drawn("all layers")[1].boxes, *drawn("all layers")[1].cells)]
    assert len(ids) == len(set(ids))
