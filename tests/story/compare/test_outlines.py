"""Marks on the poster: what is outlined, what is numbered, what is listed."""

import pytest
from poster_cases import make_case
from printed import lines_of, text_of, words_of

from xray.renderers.fonts import text_width
from xray.story.canvas import Canvas
from xray.story.compare.marks import Mark, Marks
from xray.story.compare.outlines import card_blocks
from xray.story.poster import compose_poster


@pytest.fixture(scope="module")
def drawn():
    def compose(case):
        trace, options = make_case(case)
        return compose_poster(trace, text_width, **options)

    return compose


def outlined(layout, role="change"):
    """The steps of every box that an outline stands around."""
    around = [curve for curve in layout.curves if curve.kind == "mark" and curve.role == role]
    edges = {(round(min(x for x, _ in c.points) + 2), round(max(y for _, y in c.points) - 2)) for c in around}
    return {step for box in layout.boxes if (round(box.left), round(box.top)) in edges for step in box.steps}


def test_every_step_that_changed_and_has_a_box_is_outlined(drawn):
    _, options = make_case("other vocabulary")
    layout = drawn("other vocabulary")
    drawn_steps = {step for box in layout.boxes for step in box.steps}
    changed = {f"{mark.kind}{mark.number or ''}/{mark.step}" for mark in options["marks"].steps}
    assert changed & drawn_steps == changed & outlined(layout) != set()


def test_what_did_not_change_is_not_outlined(drawn):
    assert "training/encoder.layers.0.self_attention.scores#0" not in outlined(drawn("other vocabulary"))


def test_the_first_outline_is_the_thickest(drawn):
    widths = [curve.width for curve in drawn("other heads").curves if curve.role == "change" and curve.kind == "mark"]
    assert widths[0] > max(widths[1:])


def test_the_numbers_on_the_poster_are_those_of_the_list(drawn):
    layout = drawn("other heads")
    placed, listed = (
        {text_of(box.lines[0]) for box in layout.boxes if box.kind == "mark" and box.id.startswith(kind)}
        for kind in ("mark_", "listed_")
    )
    assert {"1", "2", "3", "4", "5"} <= placed <= listed == {"1", "2", "3", "4", "5", "6"}


def test_the_list_shows_both_shapes_with_the_axis_in_brackets(drawn):
    assert any(
        "head  training" in line and "8×14×[950]   is  8×14×[951]" in line
        for line in lines_of(drawn("other vocabulary"))
    )


def test_the_legend_says_what_an_outline_means(drawn):
    assert "changed" in lines_of(drawn("other heads"))
    assert "changed" not in lines_of(drawn("both"))
    assert "failed" in lines_of(drawn("head fails"))


def test_a_mask_that_is_gone_is_said(drawn):
    assert "No longer there:" in words_of(drawn("no cross mask any more"))


def test_without_a_difference_nothing_is_outlined(drawn):
    layout = drawn("no difference")
    assert outlined(layout) == set()
    assert "NO DIFFERENCE" in lines_of(layout)


def test_a_layer_that_differs_is_outlined_in_the_tower(drawn):
    assert "training/decoder.layers.2.feed_forward.expand#0" in outlined(drawn("a layer that differs now"))


def test_a_step_of_a_folded_layer_is_outlined_on_the_one_that_stands_for_it(drawn):
    assert "training/encoder.layers.0.self_attention.split_query.view#0" in outlined(drawn("other heads"))


def test_a_head_that_fails_is_drawn_with_what_it_was_given(drawn):
    layout = drawn("head fails")
    head = next(box for box in layout.boxes if box.id == "training/head#0")
    assert [text_of(line) for line in head.lines] == ["LINEAR TO VOCABULARY  failed", "8×14×32  batch×tgt_len×d_model"]
    assert head.on == "failure"


def test_the_operands_of_a_failure_stand_side_by_side(drawn):
    assert any("input  8×14×[32]   weight  950×[64]" in line for line in lines_of(drawn("head fails")))


def test_nothing_is_drawn_of_what_did_not_run(drawn):
    ids = {box.id for box in drawn("head fails").boxes}
    assert not {"training/loss.cross_entropy#0", "training/loss.flatten_logits#0"} & ids


def test_a_loss_that_fails_has_no_number(drawn):
    loss = next(box for box in drawn("loss fails").boxes if box.id == "training/loss.cross_entropy#0")
    assert [text_of(line) for line in loss.lines][1:] == ["failed", "no number came out"]


def test_a_long_name_of_a_step_stands_whole_over_the_line_that_called_it():
    path, place = (
        "cross_modal_text_layers.0.attention.self.softmax",
        "transformers/models/bridged/modeling_bridged.py:425",
    )
    mark = Mark("forward", 0, f"{path}#0", text="says one thing and does another, all along " * 2, location=place)
    blocks = card_blocks(Canvas(text_width), Marks("alarm", "1 ALARM", (mark,)), 400)

    assert [text_of(line) for line in blocks[0][1]][:2] == [path, place]
