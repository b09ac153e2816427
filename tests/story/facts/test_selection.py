"""Choosing steps by path and by shape, and being told what is near when nothing is chosen."""

import re

import pytest
from small_traces import record, small_trace, small_training_pass, step

from xray.errors import TraceError, UsageError
from xray.ir.trace import Pass, Trace
from xray.ir.work import StepWork, measure_work
from xray.story.facts.outline import outline_pass
from xray.story.facts.selection import Pick, add_up_picked, check_pick, read_shape, shape_fits


def paths(pick):
    return [row.step.path for section in outline_pass(small_training_pass(), pick=pick) for row in section.rows]


def test_a_star_stands_for_any_part_of_a_path():
    assert paths(Pick(("*.layers.0.*scores",))) == [
        "encoder.layers.0.self_attention.scores",
        "decoder.layers.0.self_attention.scores",
        "decoder.layers.0.cross_attention.scores",
    ]


@pytest.mark.parametrize("glob", ["encoder.layers.0.feed_forward", "encoder.*.0.feed_forward"])
def test_a_path_means_what_is_inside_it_too(glob):
    assert paths(Pick((glob,))) == [
        "encoder.layers.0.feed_forward",
        "encoder.layers.0.feed_forward.expand",
    ]


def test_several_paths_add_up():
    assert paths(Pick(("src_mask", "head"))) == ["src_mask", "head"]


def test_path_and_shape_must_both_fit():
    assert paths(Pick(("decoder.layers.1.*",), ("2x3x7x5",))) == [
        "decoder.layers.1.cross_attention.scores",
        "decoder.layers.1.cross_attention.mask",
    ]


def test_a_layer_that_stands_for_others_is_shown_for_all_of_them():
    (section,) = outline_pass(small_training_pass(), pick=Pick(("encoder.layers.*.self_attention.scores",)))

    assert (section.fold.layers, len(section.rows)) == ((0, 1), 1)


def test_a_layer_that_was_chosen_alone_stands_for_itself():
    (section,) = outline_pass(small_training_pass(), pick=Pick(("encoder.layers.1.self_attention.scores",)))

    assert (section.fold.layers, section.rows[0].step.path) == ((1,), "encoder.layers.1.self_attention.scores")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("8x4x10x10", (8, 4, 10, 10)),
        ("*x4x*x8", (None, 4, None, 8)),
        ("8×14×950", (8, 14, 950)),
        ("[2, 10]", (2, 10)),
        ("8", (8,)),
        ("batch x heads x * x *", ("batch", "heads", None, None)),
        ("batch, max_len", ("batch", "max_len")),
    ],
)
def test_shapes_are_read_as_they_are_typed(text, shape):
    assert read_shape(text) == shape


@pytest.mark.parametrize("text", ["()", "8xfoo*", "4x-1", "8 by 4"])
def test_what_is_no_shape_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"is not understood. Write it as \"\*x4x\*x8\""):
        read_shape(text)


def test_a_word_means_the_axis_and_not_its_size():
    heads = record("x", "batch heads src_len d_k", batch=3)

    assert shape_fits(heads, read_shape("* x heads x * x *"))
    assert not shape_fits(heads, read_shape("heads x * x * x *"))


def test_a_shape_of_another_rank_does_not_fit():
    assert not shape_fits(record("x", "batch d_k"), read_shape("*x*x*"))


def test_a_path_that_is_not_there_is_told_with_those_near_it():
    with pytest.raises(TraceError, match=re.escape("no step has the path atention. Near it: ")):
        check_pick(Trace("t", {}, {}, (Pass("forward", 0, {}, (step("attention", "a"),)),)), Pick(("atention",)))


def test_a_part_of_a_path_leads_to_the_whole():
    with pytest.raises(TraceError, match=re.escape("Near it: encoder.layers.0.self_attention")):
        check_pick(small_trace(), Pick(("self_attention",)))


def test_a_shape_that_is_not_there_is_told_with_those_of_its_rank():
    with pytest.raises(TraceError, match=re.escape("no tensor has the shape 97x97. Of 2 axes there are: 2x5")):
        check_pick(small_trace(), Pick(shapes=("97x97",)))


def test_nothing_inside_a_chosen_block_is_counted_twice():
    one_pass = small_training_pass()
    attention = measure_work(one_pass)["encoder.layers.0.self_attention#0"]

    assert add_up_picked(one_pass, Pick(("encoder.layers.0.self_attention",))) == attention != StepWork()


def test_a_choice_is_said_in_words():
    assert Pick(("a", "b.*"), ("2x*",)).words == "steps at a or b.* with a tensor of shape 2x*"
