"""Masks in block characters: each cell right, the words beside it, large ones cut to a corner."""

import re

import pytest
from recorded import recorded
from small_traces import mask_cells, record, small_trace, small_training_pass, src_mask, step

from xray.ir.records import MaskFacts
from xray.ir.trace import Pass
from xray.renderers.table.masks import choose_squares, draw_legend, draw_mask
from xray.renderers.table.words import ASCII, UNICODE, Words
from xray.renderers.themes import load_theme
from xray.story.facts.masks import list_masks


@pytest.fixture(scope="module")
def words():
    return Words(load_theme(), UNICODE)


def plain(lines):
    return [line.plain.rstrip() for line in lines]


def causal_story(length, cells=True):
    facts = MaskFacts("causal", 0.5 - 0.5 / length, cells=(mask_cells(length, length),) if cells else None)
    mask = record("out", "1 1 tgt_len tgt_len", "mask", mask=facts, tgt_len=length)
    return list_masks(Pass("forward", 0, {}, (step("mask", "causal_mask", [], [mask]),)))[0]


def test_a_padding_mask_is_a_strip_for_each_sequence(words):
    story = list_masks(small_training_pass())[0]

    lines = plain(draw_mask(story, words, 158))

    assert lines[-2:] == ["1 ████████▒▒  who is ripley ? <pad>", "2 ██████████  what is the expanse ?"]


def test_the_decoders_mask_tells_padding_and_future_apart(words):
    story = list_masks(small_training_pass())[1]

    lines = plain(draw_mask(story, words, 30))

    assert lines[-4:-1] == ["5 nostromo ██████████··░░", "6 .        ████████████░░", "7 <pad>    ████████████▒▒"]


def test_sequences_stand_side_by_side(words):
    story = list_masks(small_training_pass())[1]

    lines = plain(draw_mask(story, words, 78))

    assert "2 she      ████········░░  2 a        ████··░░░░░░░░" in lines


def test_the_head_of_a_mask_says_who_reads_it(words):
    story = list_masks(recorded("two and four layers").passes[0])[0]

    head = next(draw_mask(story, words, 158)).plain

    assert re.fullmatch(
        r"src_mask · 8×1×1×10 · padding, \d+% hidden · read by encoder self-attention × 2 and cross-attention × 4", head
    )


def test_a_chosen_few_are_the_first_the_darkest_and_the_lightest():
    cells = tuple((("." * visible + "p" * (5 - visible)),) * 2 for visible in (3, 4, 5, 1, 2))
    mask = record("out", "batch 1 tgt_len tgt_len", "mask", mask=MaskFacts("padding", 0.4, cells=cells), batch=5)
    squares = list_masks(Pass("forward", 0, {}, (step("mask", "mask", [], [mask]),)))[0].squares

    assert [square.index[0] for square in choose_squares(squares, 3)] == [0, 2, 3]


def test_all_sequences_are_drawn_on_request(words):
    story = list_masks(small_training_pass())[1]

    lines = plain(draw_mask(story, words, 30, everything=True))

    assert [line for line in lines if line.startswith("sequence")] == ["sequence 1", "sequence 2"]


def test_a_large_mask_is_cut_to_its_corner(words):
    lines = plain(draw_mask(causal_story(101), words, 78))

    assert lines[-1] == "The first 24 of 101 rows and 32 of 101 columns."
    assert len(lines) == 1 + 1 + 24 + 1


def test_a_mask_too_large_to_keep_is_told_by_its_share(words):
    lines = plain(draw_mask(causal_story(101, cells=False), words, 78))

    assert lines == ["mask · 1×1×101×101 · causal, 50% hidden", "Its cells were too many to keep."]


def test_a_mask_that_hides_nothing_says_so(words):
    mask = src_mask(((".....",),))
    story = list_masks(Pass("encode", 0, {}, (step("src_mask", "padding_mask", [], [mask]),)))[0]

    assert "hides nothing" in next(draw_mask(story, words, 78)).plain


def test_a_mask_of_numbers_that_may_hide_is_not_said_to_hide_nothing(words):
    mask = record("out", "1 1 1 src_len", "mask", mask=MaskFacts("none", 0.0, "additive", weighs=True))
    story = list_masks(Pass("forward", 0, {}, (step("mask", "mask", [], [mask]),)))[0]

    assert next(draw_mask(story, words, 78)).plain == "mask · 1×1×1×5 · numbers of its own"


def test_a_share_that_is_not_nothing_is_never_rounded_to_nothing(words):
    mask = record("out", "1 1 1 src_len", "mask", mask=MaskFacts("custom", 0.001))
    story = list_masks(Pass("forward", 0, {}, (step("mask", "mask", [], [mask]),)))[0]

    assert "<1% hidden" in next(draw_mask(story, words, 78)).plain


def test_the_legend_names_only_what_occurs(words):
    legend = draw_legend(list_masks(small_trace().passes[1]), words, 158)

    assert legend[0].plain.strip() == "██ may be read"


def test_the_legend_tells_all_kinds_of_cells_apart(words):
    legend = draw_legend(list_masks(small_training_pass()), words, 158)

    assert legend[0].plain.split("  ") == ["██ may be read", "▒▒ padding", "·· future", "░░ padding and future "]


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
def test_every_kind_of_cell_has_a_pattern_of_its_own(signs):
    assert len(set(signs.cells.values())) == len(signs.cells)
