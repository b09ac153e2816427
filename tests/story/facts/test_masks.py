from dataclasses import replace

import pytest
import torch
from small_traces import SRC_WORDS, TGT_WORDS, small_training_pass, src_mask, step

from xray.capture.masks.spans import read_rows
from xray.ir.records import MaskFacts
from xray.ir.trace import Pass
from xray.story.facts.mask_names import name_mask
from xray.story.facts.masks import list_masks, place_of
from xray.story.sentences.of_masks import describe_hidden


def test_masks_that_only_went_into_another_are_not_told():
    assert [story.step.path for story in list_masks(small_training_pass())] == ["src_mask", "tgt_mask.combine"]


def test_a_mask_knows_who_reads_it():
    src_story, _ = list_masks(small_training_pass())

    assert list(src_story.readers) == [
        "encoder.layers.0.self_attention.mask",
        "encoder.layers.1.self_attention.mask",
        "decoder.layers.0.cross_attention.mask",
        "decoder.layers.1.cross_attention.mask",
    ]


def test_each_sequence_has_its_own_words():
    src_story, tgt_story = list_masks(small_training_pass())

    assert [square.key_words for square in src_story.squares] == list(SRC_WORDS)
    assert [square.query_words for square in tgt_story.squares] == list(TGT_WORDS)


def test_words_that_do_not_fit_the_axis_are_left_out():
    one_pass = replace(small_training_pass(), tokens={"src": (("too", "few"),) * 2})

    assert all(square.key_words == () for square in list_masks(one_pass)[0].squares)


def test_a_mask_without_cells_has_no_squares():
    mask = replace(src_mask(), mask=replace(src_mask().mask, cells=None))

    story = list_masks(Pass("forward", 0, {}, (step("src_mask", "padding_mask", [], [mask]),)))[0]

    assert story.squares == ()


def test_places_are_counted_in_row_major_order():
    assert place_of(4, (2, 3)) == (1, 1)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("..", ".."), "custom"),
        ((".ff", "..f", "x.."), "window"),
        ((".ff", "..f", "..."), "custom"),
        ((".ff", "x.f", "xx."), "itself alone"),
        ((".ff", "..f", ".x."), "custom"),
        ((".", "x"), "custom"),
        (("..xx", "...x", "x...", "xx.."), "window on both sides"),
        (("..xx", "...x", "....", "xx.."), "custom"),
        (("..x", "x..", "xx."), "custom"),
    ],
)
def test_a_mask_is_called_a_window_only_where_its_cells_are_one(rows, told):
    assert name_mask(MaskFacts("custom", 0.5, cells=(rows,))) == told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("p..xxxx", "px..xxx", "pxx..xx"), "window that moves along"),
        (("p..xxxx", "px..xxx", "pxxxxxx"), "window that moves along"),
        (("p..xxxx", "px.xxxx", "pxx..xx"), "custom"),
        (("p.x.xxx", "px.x.xx", "pxx.x.x"), "custom"),
        (("p.xxxxx", "px.xxxx", "pxx.xxx"), "custom"),
        (("x..xxxx", "x..xxxx", "x..xxxx"), "custom"),
        ((".....xx", "......x", "......."), "custom"),
    ],
)
def test_a_mask_of_blocks_is_called_a_window_where_what_is_seen_moves_along(rows, told):
    assert name_mask(MaskFacts("custom", 0.5, cells=(rows, rows))) == told


def test_what_moves_along_is_a_stretch_be_it_long_or_short():
    facts = MaskFacts("custom", 0.4, cells=(("x...xx", "xx...x", "xxx..."),))

    assert (
        describe_hidden(facts) == "hides from each place all but a stretch that moves along with it: 40% of its cells"
    )


WHOLE = torch.ones(300, 300, dtype=torch.bool)


@pytest.mark.parametrize(
    ("visible", "told"),
    [
        (WHOLE.tril().triu(-100), "window"),
        (WHOLE.tril(7).triu(-7), "window on both sides"),
        (WHOLE.tril(1), "custom"),
        (WHOLE, "custom"),
        (WHOLE.tril().triu(-100) & (torch.arange(300) > 3), "custom"),
        (torch.block_diag(*[torch.ones(100, 100)] * 3).bool().tril(), "custom"),
        (torch.block_diag(*[torch.ones(100, 100)] * 3).bool() | WHOLE.tril(), "block by block"),
        (torch.block_diag(*[torch.ones(100, 100)] * 3).bool() | WHOLE.tril(9), "custom"),
        (torch.stack([WHOLE.tril().triu(-100), WHOLE.tril().triu(-50)]), "window"),
        (torch.stack([WHOLE.tril().triu(-100), WHOLE.tril()]), "custom"),
    ],
)
def test_a_mask_too_large_for_cells_is_called_a_window_where_its_rows_are_one(visible, told):
    found = read_rows(visible)

    assert name_mask(MaskFacts("custom", found.hidden_share, spans=found.spans)) == told


@pytest.mark.parametrize(
    ("visible", "told"),
    [
        (WHOLE.tril().triu(-100), "itself and 100 before it"),
        (WHOLE.tril(7).triu(-7), "itself and 7 on each side"),
        (WHOLE.tril(3).triu(-7), "itself and 7 before it and 3 behind it"),
        (torch.stack([WHOLE.tril().triu(-100), WHOLE.tril().triu(-50)]), "itself and 100 before it or 50 before it"),
        (torch.stack([WHOLE.tril(7).triu(-7)] * 2), "itself and 7 on each side"),
        (WHOLE.tril().triu(), "itself"),
    ],
)
def test_of_a_window_it_is_told_how_far_it_goes(visible, told):
    found = read_rows(visible)

    text = describe_hidden(MaskFacts("custom", found.hidden_share, spans=found.spans))
    assert text.split(":")[0] == f"hides from each place all but {told}"


def test_a_mask_whose_cells_are_not_known_is_called_by_its_kind():
    assert name_mask(MaskFacts("custom", 0.5)) == "custom"
    assert name_mask(MaskFacts("none", 0.0)) == "none"
    assert name_mask(MaskFacts("none", 0.0, weighs=True)) == "numbers of its own"
    assert name_mask(MaskFacts("causal", 0.5, cells=((".f", ".."),))) == "causal"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("..fff", "..fff", "....f", "....f", "....."), "its own block of 2 and those before"),
        (("..fff", "..fff", "....f", "....f", "xx..."), "its own block of 2 and 1 before it"),
        (("..fff", "..fff", "xx..f", "xx..f", "xxxx."), "its own block of 2"),
        (("...ff", "...ff", "...ff", ".....", "....."), "its own block of 3 or 2 and those before"),
        (("..fff", "..fff", "....f", "....f", "x...."), ""),
        (("..fff", "...ff", "....f", "....f", "....."), ""),
        (("....f", "....f", "....f", "....f", "....."), ""),
        (("....f", "....f", "....f", "....f", "....f"), ""),
    ],
)
def test_a_mask_block_by_block_says_which_blocks_a_place_sees(rows, told):
    facts = MaskFacts("custom", 0.4, cells=(rows,))

    assert (name_mask(facts) == "block by block") is bool(told)
    assert describe_hidden(facts).startswith(f"hides from each place all but {told}: " if told else "hides 40%")
