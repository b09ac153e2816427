"""Where things stand on the chatbot's poster says nothing false: lines lead where data goes, remarks have nodes."""

from dataclasses import replace
from itertools import pairwise

import pytest
from printed import lines_of, text_of, words_of
from recorded import recorded

from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


def poster_of(name, **options):
    return compose_poster(recorded(name), text_width, **options)


def boxes_saying(layout, words, kind=""):
    return [box for box in layout.boxes if kind in box.kind and any(words in text_of(line) for line in box.lines)]


def box_of(layout, step):
    """The node of a step at inference; the first that stands for it."""
    return next(box for box in layout.boxes if step in box.steps and "inference" in box.kind)


def is_joined(layout, lower, upper):
    """Whether a line leads from the top of one node to the foot of another."""
    return any(
        abs(curve.points[0][1] - lower.top) < 1
        and lower.left < curve.points[0][0] < lower.right
        and abs(curve.points[-1][1] - upper.bottom) < 1
        and upper.left < curve.points[-1][0] < upper.right
        for curve in layout.curves
    )


@pytest.fixture(scope="module", params=["one layer", "cached"])
def both(request):
    return poster_of(request.param)


@pytest.fixture(scope="module")
def default():
    return poster_of("both")


@pytest.fixture(scope="module")
def each_layer():
    return poster_of("both", all_layers=True)


@pytest.mark.parametrize(("lower", "upper"), [("key", "split_query.transpose"), ("query", "split_key.transpose")])
def test_keys_and_queries_of_cross_attention_go_their_own_ways_at_inference(both, lower, upper):
    path = "decode1/decoder.layers.0.cross_attention"

    assert not is_joined(both, box_of(both, f"{path}.{lower}#0"), box_of(both, f"{path}.{upper}#0"))


def test_memory_that_another_pass_made_is_no_tensor_from_outside(both, default):
    assert not any(boxes_saying(one, "of another") for one in (both, default))


@pytest.mark.parametrize("part", ["split_query.transpose", "transpose_key"])
@pytest.mark.parametrize("name", ["self_attention", "cross_attention"])
def test_queries_and_turned_keys_meet_in_the_scores(both, name, part):
    path = f"decode1/decoder.layers.0.{name}"

    assert is_joined(both, box_of(both, f"{path}.{part}#0"), box_of(both, f"{path}.scores#0"))


@pytest.mark.parametrize("name", ["self_attention", "cross_attention"])
def test_keys_are_turned_and_queries_are_not(both, name):
    path = f"decode1/decoder.layers.0.{name}"
    query, key, turned = (
        box_of(both, f"{path}.{part}#0") for part in ("split_query.transpose", "split_key.transpose", "transpose_key")
    )

    grown = [box for box in both.boxes if f"decode2/decoder.layers.0.{name}.extend_key#0" in box.steps]
    way = [key, *grown, turned]

    assert all(is_joined(both, lower, upper) for lower, upper in pairwise(way))
    assert query is key or not is_joined(both, query, turned)


def test_with_a_cache_keys_and_values_join_those_of_the_turns_before():
    layout = poster_of("cached")
    cache = boxes_saying(layout, "+ CACHE", "inference")

    assert [text_of(box.lines[-1]) for box in cache] == ["1×4×t×8"]
    assert {"extend_key#0", "extend_value#0"} <= {step.rpartition(".")[2] for step in cache[0].steps}


def test_the_parameters_of_a_layer_stand_with_its_name(default):
    name = boxes_saying(default, "ENCODER LAYER")[0]

    assert [text_of(line) for line in name.lines][1].endswith("parameters each")


def test_nothing_stands_under_the_shapes_of_memory_as_if_they_went_on(default):
    memory = boxes_saying(default, "keys and values for")[0]
    below = [box for box in default.boxes if not box.filled and abs(box.left - memory.left) < 30]

    assert [box for box in below if 0 <= memory.bottom - box.top < 30] == []


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(("phase", "batch"), [("training", "8×"), ("inference", "1×")])
def test_the_other_layers_stand_above_the_one_that_is_shown(each_layer, side, phase, batch):
    named = {box.id: box.y for box in each_layer.boxes if box.id.startswith(f"layer_name_{side}")}
    rows = [
        box
        for box in each_layer.boxes
        if f"step {phase} {side}" in box.kind and any(f"{side}.layers.2." in step for step in box.steps)
    ]

    assert [*named] == [f"layer_name_{side}_{layer}" for layer in range(3)]
    assert list(named.values()) == sorted(named.values())
    assert {round(box.y) for box in rows} == {round(named[f"layer_name_{side}_2"])}
    assert all(text_of(box.lines[-1]).startswith(batch) for box in rows)


def top_of_row(layout, layer):
    """How high the row of a layer reaches."""
    name = next(box for box in layout.boxes if box.id == f"layer_name_{layer}")
    frames = [panel for panel in layout.panels if panel.fill == name.on]
    return max(y for panel in frames for _, y in panel.path if 0 < y - name.y < 30)


def test_memory_leaves_from_the_last_layer(each_layer):
    starts = {curve.points[0][1] for curve in each_layer.curves if curve.kind == "ribbon" and curve.width > 8}

    assert round(top_of_row(each_layer, "encoder_2")) in {round(y) for y in starts}


def test_logits_are_made_of_the_last_layer(each_layer):
    head = boxes_saying(each_layer, "LINEAR TO VOCABULARY")[0]
    ways = [curve.points for curve in each_layer.curves if abs(curve.points[-1][1] - head.bottom) < 1]

    assert any(0 < points[0][1] - top_of_row(each_layer, "decoder_2") < 6 for points in ways)


def test_a_frame_that_stands_for_all_layers_has_none_above_it(default):
    assert [box.id for box in default.boxes if box.id.startswith("layer_name") and box.on != "page"] == []


def test_with_a_cache_each_turn_reads_one_id():
    layout = poster_of("cached")
    listed = next(box for box in layout.boxes if text_of(box.lines[0]) == "turn 1  2")

    assert any(line.startswith("IDS 1×1 ") for line in lines_of(layout))
    assert {len(text_of(line).split()) for line in listed.lines[:-1]} == {3}


def test_with_a_cache_each_turn_has_one_row_of_the_mask():
    layout = poster_of("cached")
    masks = [cells.rows for cells in layout.cells if cells.id.startswith("mask_turn_")]

    assert any(line.endswith("MASK 1×1×1×t") for line in lines_of(layout))
    assert [(len(rows), len(rows[0])) for rows in masks] == [(1, place + 1) for place in range(len(masks))]


@pytest.mark.parametrize(("name", "many"), [("three layers, two turns", False), ("length 40", True)])
def test_turns_that_are_left_out_leave_a_mark(name, many):
    layout = poster_of(name)
    ids = next(box for box in layout.boxes if text_of(box.lines[0]) == "turn 1  2")
    last = [cells for cells in layout.cells if cells.id.startswith("mask_turn_")][-1]
    beside = [box for box in boxes_saying(layout, "…") if box.left > last.x and abs(box.y - last.y) < 30]

    assert (text_of(ids.lines[-1]) == "…") == many
    assert (beside != []) == many


def test_all_attention_pictures_are_of_one_phase(both):
    remarks = [line for line in lines_of(both) if "head 1, " in line]

    assert len(remarks) == 3
    assert len({"training" in remark for remark in remarks}) == 1


def test_cross_attention_is_asked_by_the_words_of_the_answer_and_looks_at_those_of_the_question(both):
    question, answer, cross = (
        next(cells.rows for cells in both.cells if cells.id == f"attention_{station}") for station in (2, 5, 6)
    )

    assert (len(cross), len(cross[0])) == (len(answer), len(question))


def test_a_cache_gives_a_row_of_its_picture_from_every_turn():
    rows = next(cells.rows for cells in poster_of("cached").cells if cells.id == "attention_5")

    assert len(rows) > 2
    assert [sum(value is not None for value in row) for row in rows] == [*range(1, len(rows) + 1)]


@pytest.mark.parametrize("tower", ["encoder", "decoder"])
def test_words_times_the_root_and_the_sines_added_to_them_stand_in_boxes_of_their_own(both, tower):
    labels = {step: text_of(box.lines[0]) for box in both.boxes for step in box.steps}
    words, scale, places = (labels[f"training/{tower}.embedding.{part}#0"] for part in ("words", "scale", "positions"))

    assert (words, scale, places) == ("EMBED × √d_model", "EMBED × √d_model", "POSITIONS")


def test_no_mask_is_drawn_where_a_wide_box_leaves_it_no_room():
    trace = recorded("one layer, training")
    steps = (replace(step, settings={}) if ".embedding.scale" in step.id else step for step in trace.steps)
    layout = compose_poster(replace(trace, passes=(replace(trace.passes[0], steps=tuple(steps)),)), text_width)

    assert boxes_saying(layout, "+ PLACES")
    assert [cells.id for cells in layout.cells if cells.id.startswith("mask_")] == []
    assert boxes_saying(layout, "a row for each sequence") == []


def test_another_batch_than_the_run_was_trained_with_is_said():
    trace = recorded("one layer, training")
    layout = compose_poster(replace(trace, config={**trace.config, "batch": 500}), text_width)

    assert "Trained with batches of up to 500 pairs: 8 pairs here." in words_of(layout)


@pytest.mark.parametrize("settings", [{}, {"batch": 8}])
def test_the_batch_that_the_run_was_trained_with_needs_no_word(settings):
    trace = recorded("one layer, training")
    layout = compose_poster(replace(trace, config={**trace.config, **settings}), text_width)

    assert "Trained with" not in words_of(layout)


def test_a_word_that_it_does_not_know_is_explained():
    trace = recorded("one layer, inference")
    asked = replace(trace.passes[0], tokens={"src": (("who", "is", "<unk>", "?"),)})
    layout = compose_poster(replace(trace, passes=(asked, *trace.passes[1:])), text_width)

    assert "<unk> stands for a word that it does not know." in words_of(layout)


@pytest.mark.parametrize("name", ["both", "cached", "inference"])
def test_what_a_pass_hands_out_on_its_way_is_no_trait_of_the_model(name):
    texts = [text_of(line) for box in poster_of(name).boxes for line in box.lines]

    assert texts
    assert not [text for text in texts if "handed out" in text or "in no box" in text]
