"""Boxes beside a stream, in small models: told where each layer corrects those that the next one reads."""

import pytest
from story.body.boxes_corrected import (
    BATCH,
    DEPTH,
    ROWS,
    Anew,
    Begun,
    Beside,
    Detector,
    Early,
    Far,
    Kept,
    Learned,
    NoPlaces,
    Sampled,
    Samples,
    Scored,
    Summed,
    Twice,
    Waves,
    draw,
    read,
    record,
)
from unsaid import list_unsaid

from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.beside_layers import Boxes
from xray.story.cards.undrawn import list_unboxed
from xray.story.poster import compose_poster
from xray.story.regions.drawn_steps import list_drawn
from xray.story.sentences.of_links import describe_boxes
from xray.story.sheet.columns import read_columns, set_beside
from xray.story.sheet.shares import list_shares
from xray.story.wording import spell_layers


@pytest.mark.parametrize("shared", [True, False])
def test_boxes_that_each_layer_corrects_are_told(shared):
    assert read(Detector(shared=shared)) == Boxes(tuple(range(DEPTH)), shared)


def test_numbers_at_which_a_map_is_sampled_are_boxes():
    assert read(Samples()) == Boxes(tuple(range(DEPTH)), shared=False)


def test_boxes_that_are_made_of_numbers_added_up_begin_behind_the_first_layer():
    assert read(Summed()) == Boxes(tuple(range(1, DEPTH)), shared=False, begun=0, steps=2)


def test_boxes_that_the_first_layer_read_are_corrected_behind_it_where_later_ones_are_worked_out_of_them():
    assert read(Twice()) == Boxes(tuple(range(DEPTH)), shared=False, begun=0, steps=2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "model",
    [NoPlaces(), Anew(), Kept(), Learned(), Beside(), Detector(sides=3), Detector(depth=2)],
    ids=lambda one: type(one).__name__,
)
def test_nothing_is_told_where_no_boxes_are_corrected_for_the_next_layer(model):
    assert read(model) is None


def test_the_sentence_says_behind_which_layers_and_with_what_weights():
    assert describe_boxes(anatomy(record(Detector()))) == (
        "Boxes, 4 numbers for each row, are corrected behind each layer of the stack tower by what it gives, each time "
        "with other weights; the next layer reads them."
    )
    assert describe_boxes(anatomy(record(Summed()))) == (
        "Boxes, 4 numbers for each row, are made behind layer 1 of the stack tower, and corrected behind each later "
        "one by what it gives, each time with other weights; the next layer reads them. From there on layers add to 2 "
        "numbers for each of the 4: a softmax of these weighs 2 others, the same for every row, and boxes are worked "
        "out of the means."
    )
    assert describe_boxes(anatomy(record(Twice()))) == (
        "Boxes, 4 numbers for each row, are corrected behind each layer of the stack tower by what it gives, each time "
        "with other weights; the next layer reads them. Behind layer 1 they are corrected by other weights first. From "
        "there on layers add to 2 numbers for each of the 4: a softmax of these weighs 2 others, the same for every "
        "row, and boxes are worked out of the means and of those corrected first."
    )
    assert describe_boxes(anatomy(record(Anew()))) == ""


def test_the_frame_shows_what_corrects_boxes_and_what_the_next_layer_makes_of_them():
    _, frame = draw(Detector())

    assert frame.corrected is not None
    assert [(node.label, node.extra, node.told) for node in frame.corrected.nodes] == [
        ("LINEAR + ReLU", "176 parameters", ()),
        ("LINEAR", "48 parameters", ()),
        ("+ BOXES SO FAR", "", ()),
        ("SIGMOID", "", ("for the next layer",)),
        ("LINEAR OF SINES", "", ("135 parameters", "for the next layer")),
    ]
    assert frame.correcting == 176 + 48 + 135


@pytest.mark.parametrize(
    ("model", "told"), [(Far(), "LINEAR OF LOGARITHMS"), (Far(is_bent=True), "LINEAR"), (Sampled(), "LINEAR OF SINES")]
)
def test_what_is_made_of_boxes_before_linear_layers_read_it_is_told(model, told):
    _, frame = draw(model)

    assert frame.corrected is not None
    assert [node.label for node in frame.corrected.nodes if "135 parameters" in node.told] == [told]


def test_what_corrects_boxes_says_how_many_more_parameters_it_has():
    boxes = compose_poster(record(Detector()), text_width).boxes

    assert "359 more parameters" in ["".join(run.text for run in line) for box in boxes for line in box.lines]


def test_a_frame_says_behind_which_of_its_layers_boxes_are_corrected_for_the_next():
    layout = compose_poster(record(Detector()), text_width)
    column, frame = draw(Detector())
    titles = [box for box in layout.boxes if box.lines and box.lines[0][0].text == "BOXES CORRECTED"]

    *others, last = frame.group.layers
    assert last == sum(len(one.group.layers) for one in column.frames) - 1
    assert frame.corrected_behind == tuple(others)
    assert [box.lines[1][0].text for box in titles] == [f"behind layers {spell_layers(others)}"]


def test_numbers_of_which_boxes_are_made_are_not_called_boxes():
    _, frame = draw(Summed())

    assert frame.corrected is not None
    labels = [node.label for node in frame.corrected.nodes]
    assert labels == ["LINEAR + ReLU", "LINEAR", "+ THESE NUMBERS SO FAR", "BOXES OF THESE", "LINEAR OF SINES"]


def test_what_corrects_boxes_counts_as_drawn_nowhere_where_two_phases_stand_beside_each_other():
    column, frame = draw(Detector())
    head = {step.id for node in frame.corrected.nodes for step in node.steps if step.path.startswith("heads")}
    together = set_beside(column, column)

    drawn = [set().union(*list_drawn([one]).values()) for one in (column, together)]

    assert head
    assert head <= drawn[0]
    assert head.isdisjoint(drawn[1])


def test_a_frame_shows_nothing_where_no_boxes_are_corrected():
    _, frame = draw(Anew())

    assert frame.corrected is None


def test_the_places_that_are_made_of_boxes_are_called_places_in_the_layer():
    labels = [[node.label for node in draw(model)[1].panels[0].chart.nodes] for model in (Detector(), Anew())]

    assert [sum("PLACES" in label for label in some) for some in labels] == [1, 0]
    assert "+ PLACES" in labels[0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_points_say_that_they_are_measured_from_boxes(is_whole):
    nodes = [node for panel in draw(Sampled(is_whole=is_whole))[1].panels for node in panel.chart.nodes]
    (points,) = [node for node in nodes if node.label == "POINTS"]

    assert points.told == (("from each row's box",) if is_whole else ())


@pytest.mark.parametrize(
    ("model", "told"), [(Waves(), "+ 2 LINEAR LAYERS OF SINES Q"), (Waves(is_whole=False), "ADDED UP Q")]
)
def test_a_sum_says_through_what_the_sines_go_that_it_adds(model, told):
    labels = [node.label for node in draw(model)[1].panels[0].chart.nodes]

    assert labels.count(told) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_linear_layers_that_a_sum_names_are_not_said_to_be_drawn_nowhere(is_whole):
    columns = read_columns(record(Waves(is_whole=is_whole)))

    untold = list_unboxed(columns)
    assert ("places" in {one.path for one in untold}) is not is_whole


def test_what_corrects_the_last_layers_boxes_is_told_at_the_end():
    column, _ = draw(Detector())

    assert column.exit is not None
    assert "+ BOXES SO FAR" in [node.label for node in column.exit.nodes]


def test_numbers_that_the_last_layer_adds_to_and_their_boxes_are_told_at_the_end():
    column, _ = draw(Scored())

    assert column.exit is not None
    labels = {node.key: node.label for node in column.exit.nodes}
    ways = [(labels[one.source], labels[one.target]) for one in column.exit.edges]
    (boxes,) = [node for node in column.exit.nodes if node.label == "BOXES OF THESE"]
    assert ("+ WHAT THE LAYER BEFORE GAVE", "LINEAR") in ways
    assert ("LINEAR", "+ THESE NUMBERS SO FAR") in ways
    assert {two for one, two in ways if one == "+ THESE NUMBERS SO FAR"} == {"BOXES OF THESE", "LINEAR"}
    assert (boxes.record.shape, boxes.extra) == ((BATCH, ROWS, 4), "")


@pytest.mark.parametrize(
    ("shared", "row", "sets"), [(False, "boxes corrected × 3", 3), (True, "boxes corrected × 4, weights of 1", 1)]
)
def test_the_heads_and_the_places_of_boxes_have_rows_of_their_own(shared, row, sets):
    trace = record(Detector(shared=shared))
    columns = read_columns(trace)
    shares = {name: count for name, _, count in list_shares(columns, trace)}

    assert shares[row] == sets * (176 + 48)
    assert shares["places of boxes"] == 135


def test_learned_boxes_are_not_counted_with_what_corrects_them():
    trace = record(Begun())
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["first boxes"] == 4 * ROWS
    assert shares["boxes corrected × 4, weights of 1"] == 176 + 48
    assert shares["places of boxes"] == 135


def test_what_corrects_the_first_layers_boxes_alone_is_not_counted_with_what_each_layer_adds_to():
    trace = record(Twice())
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["first boxes"] == 176 + 48
    assert shares["boxes corrected × 3"] == 3 * (176 + 96)


def test_weights_that_corrected_before_the_layers_are_told_to_be_of_one_set():
    trace = record(Early())
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["boxes corrected × 4, weights of 1"] == 176 + 48


def test_no_head_of_an_earlier_layer_is_said_to_be_drawn_nowhere():
    columns = read_columns(record(Detector()))
    held = [read_columns(record(Kept())), columns]

    untold = [[one.path for one in list_unboxed(some)] for some in held]

    assert [path for path in untold[0] if path.startswith("heads")] == ["heads.0", "heads.1", "heads.2"]
    assert [path for path in untold[1] if path.startswith("heads")] == []
    assert "between layers" not in dict(list_unsaid(columns))


def test_what_corrects_the_first_boxes_in_a_way_of_its_own_is_said_to_stand_in_no_box():
    found = dict(list_unsaid(read_columns(record(Twice()))))

    assert found["elsewhere"] == {"linear": 2, "relu": 1, "logit": 1, "add": 1}
    assert "elsewhere" not in dict(list_unsaid(read_columns(record(Summed()))))
