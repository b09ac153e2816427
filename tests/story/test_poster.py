from dataclasses import replace

import pytest
from printed import lines_of, printed_shapes, recorded_shapes, text_of, words_of
from recorded import recorded

from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.walk.stations import STATIONS


@pytest.fixture(scope="module")
def layouts(training_trace, inference_trace, both_trace):
    traces = {"training": training_trace, "inference": inference_trace, "both": both_trace}
    return {phase: (trace, compose_poster(trace, text_width)) for phase, trace in traces.items()}


@pytest.mark.parametrize("phase", ["training", "inference", "both"])
def test_every_printed_shape_was_recorded(layouts, phase):
    trace, layout = layouts[phase]
    assert printed_shapes(layout) - recorded_shapes(trace) == set()


@pytest.mark.parametrize("phase", ["training", "inference", "both"])
def test_every_step_of_one_layer_is_on_the_poster(layouts, phase):
    trace, layout = layouts[phase]
    told = "\n".join(thing.tooltip for thing in (*layout.boxes, *layout.cells, *layout.curves)).split("\n")
    expected = {step.path for one in trace.passes for step in one.leaves if step.layer in (None, 0)}
    assert expected - set(told) == set()


@pytest.mark.parametrize("phase", ["training", "inference", "both"])
def test_no_two_boxes_share_an_id(layouts, phase):
    ids = [thing.id for thing in (*layouts[phase][1].boxes, *layouts[phase][1].cells)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("phase", ["training", "inference", "both"])
def test_all_nine_stations_are_marked(layouts, phase):
    numbers = {text_of(box.lines[0]) for box in layouts[phase][1].boxes if box.kind == "station"}
    assert numbers == {str(station.number) for station in STATIONS}


@pytest.mark.parametrize("phase", ["training", "inference", "both"])
def test_the_reading_order_has_nine_lines(layouts, phase):
    assert sum(box.kind == "reading" for box in layouts[phase][1].boxes) == 9


@pytest.mark.parametrize(
    "shape",
    [
        *("8×10", "8×1×1×10", "1×10×32", "8×10×32", "8×4×10×8", "8×4×8×10", "8×4×10×10", "8×10×128", "8×10×4×8"),
        *("8×14", "8×1×14×14", "8×14×32", "8×4×14×8", "8×4×8×14", "8×4×14×14", "8×4×14×10", "8×14×950", "112×950"),
        *("1×9", "1×1×1×9", "1×9×32", "1×4×9×8", "1×4×8×9", "1×4×9×9", "1×t", "1×1×t×t", "1×4×t×8", "1×4×t×t"),
        *("1×4×t×9", "1×t×32", "1×t×950", "1×950", "1×1"),
    ],
)
def test_the_inventory_of_shapes_is_complete(layouts, shape):
    assert tuple(shape.split("×")) in printed_shapes(layouts["both"][1])


def test_training_and_inference_stand_on_the_same_baselines(layouts):
    layout = layouts["both"][1]
    places = {step: box.y for box in layout.boxes for step in box.steps}
    for step in ("self_attention.scores#0", "feed_forward.expand#0", "self_attention.split_query.transpose#0"):
        assert places[f"training/encoder.layers.0.{step}"] == places[f"encode/encoder.layers.0.{step}"]


def test_the_encoder_stands_left_of_the_taller_decoder(layouts):
    places = {box.id: (box.x, box.y) for box in layouts["both"][1].boxes}
    encoder, decoder = (places[f"training/{side}.layers.0.feed_forward_norm#0"] for side in ("encoder", "decoder"))
    assert encoder[0] < decoder[0]
    assert encoder[1] < decoder[1]


@pytest.mark.parametrize(
    ("name", "times"),
    [("one layer, training", "× 1"), ("two and four layers, training", "× 4"), ("six and six layers", "× 6")],
)
def test_frames_say_how_many_layers_they_stand_for(name, times):
    assert f"DECODER LAYER {times}" in lines_of(compose_poster(recorded(name), text_width))


def test_the_real_words_are_printed(layouts):
    trace, layout = layouts["both"]
    row = [word for word in trace.passes[0].tokens["src"][3] if word != "<pad>"]
    assert " ".join(row) in words_of(layout)


def test_all_mask_cells_come_from_the_trace(layouts):
    trace, layout = layouts["training"]
    mask = trace.passes[0].by_id["src_mask#0"].outputs[0].mask
    drawn = next(cells for cells in layout.cells if cells.id == "mask_encoder")
    assert tuple("".join(row) for row in drawn.rows) == tuple(matrix[0] for matrix in mask.cells)


def test_attention_pictures_show_the_recorded_weights(layouts):
    trace, layout = layouts["inference"]
    preview = trace.passes_of("encode")[0].by_id["encoder.layers.0.self_attention.softmax#0"].outputs[0].preview
    drawn = next(cells for cells in layout.cells if cells.id == "attention_2")
    assert drawn.rows[0] == preview.rows(0, 0)[0]


def test_untrained_weights_are_owned_up_to(layouts):
    assert "Untrained weights" in words_of(layouts["both"][1])


def test_default_settings_are_not_mentioned(layouts):
    assert "mask: padding of the question is seen" not in words_of(layouts["both"][1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("norm before", "Layer norm stands before each sublayer"),
        ("no cross mask", "Cross-attention has no mask"),
        ("decoder shares", "embedding and the output layer share"),
        ("no scale", "not scaled"),
        ("minus infinity", "−infinity"),
    ],
)
def test_other_settings_are_said(setting, sentence):
    assert sentence in words_of(compose_poster(recorded(f"{setting}, training"), text_width))


def test_norm_before_stands_below_the_attention():
    layout = compose_poster(recorded("norm before, training"), text_width)
    places = {box.id.partition("/")[2]: box.y for box in layout.boxes}
    root = "encoder.layers.0.self_attention"
    assert places[f"{root}_norm#0"] < places[f"{root}.query#0"] < places[f"{root}_add#0"]


def test_the_last_norms_are_drawn_when_norm_stands_before():
    layout = compose_poster(recorded("norm before, training"), text_width)
    assert {"training/encoder.norm#0", "training/decoder.norm#0"} <= {box.id for box in layout.boxes}


def test_without_cross_mask_no_mask_node_is_drawn():
    layout = compose_poster(recorded("no cross mask, training"), text_width)
    assert "training/decoder.layers.0.cross_attention.mask#0" not in {box.id for box in layout.boxes}


def test_changing_heads_changes_the_shapes():
    layout = compose_poster(recorded("two heads, training"), text_width)
    assert ("8", "2", "10", "16") in printed_shapes(layout)
    assert ("8", "4", "10", "8") not in printed_shapes(layout)


def test_a_legend_names_only_what_occurs(layouts):
    assert "inference path" not in words_of(layouts["training"][1])
    assert "training path" not in words_of(layouts["inference"][1])


def test_the_loss_counts_the_padding_that_it_ignores(layouts):
    trace, layout = layouts["training"]
    targets = [word for row in trace.passes[0].tokens["targets"] for word in row]
    heard = sum(word != "<pad>" for word in targets)
    assert f"mean over {heard} of {len(targets)} places" in words_of(layout)


def test_a_cache_shows_one_query_row_against_growing_keys():
    layout = compose_poster(recorded("cached, inference"), text_width)
    assert ("1", "4", "1", "t") in printed_shapes(layout)
    assert "Key-value cache" in words_of(layout)


def test_our_own_model_is_recognised_in_a_plain_forward_too(training_trace):
    foreign = replace(training_trace, passes=(replace(training_trace.passes[0], kind="forward"),))

    assert "FORWARD" in words_of(compose_poster(foreign, text_width))
