"""Masks explained cell by cell, and previews."""

from typing import Any

import pytest
import torch

import xray
from xray.capture.masks.facts import MAX_CELLS, look_at_mask
from xray.capture.values import (
    count_zeros,
    describe_constants,
    describe_triangle,
    is_of_sines,
    preview_everything_small,
    read_all_slowed,
    read_base,
    read_constant,
    read_slowed,
    take_preview,
)
from xray.ir.json_form import preview_fits
from xray.sources.known_values import build_on_meta


def mask_of(*rows):
    return torch.tensor([[letter == "." for letter in row] for row in rows])


@pytest.mark.parametrize(
    ("rows", "kind", "cells"),
    [
        (("...", "..."), "none", ("...", "...")),
        (("..x",), "padding", ("..p",)),
        ((".x..x.",), "custom", (".x..x.",)),
        ((".x..xx",), "padding", (".p..pp",)),
        ((".xx", "..x", "..."), "causal", (".ff", "..f", "...")),
        ((".xx", "..x", "..x"), "padding+causal", (".fb", "..b", "..p")),
        (("xxx", "x.x", "x.."), "padding+causal", ("pff", "p.f", "p..")),
        ((".xxxx", "..xxx", "...xx"), "causal", (".ffff", "..fff", "...ff")),
        ((".xxxx", "...xx", "...xx"), "custom", (".xxxx", "...xx", "...xx")),
        (("x..", "...", "..."), "custom", ("x..", "...", "...")),
        (("x..", "xx.", "xxx"), "custom", ("x..", "xx.", "xxx")),
        ((".x.", "...", "x.."), "custom", (".x.", "...", "x..")),
        ((".xx", "x.x", "xx."), "custom", (".xx", "x.x", "xx.")),
    ],
)
def test_the_reason_of_every_hidden_cell_is_read_off_the_mask(rows, kind, cells):
    facts = look_at_mask(mask_of(*rows), None).to_facts()

    assert (facts.kind, facts.cells) == (kind, (cells,))


def test_keys_after_which_queries_see_nothing_are_not_told_as_padding():
    mask = torch.stack([mask_of(".xxx", "..xx", "xxxx", "xxxx"), mask_of(".xxx", "..xx", "...x", "....")])

    facts = look_at_mask(mask, None).to_facts()
    assert (facts.kind, facts.cells[0]) == ("custom", (".fff", "..ff", "xxxf", "xxxx"))


def test_what_the_module_says_of_its_mask_goes_before_the_guess():
    facts = look_at_mask(mask_of("."), "padding+causal").to_facts()

    assert facts.kind == "padding+causal"


def test_the_share_hidden_counts_cells():
    assert look_at_mask(mask_of(".xx", "..x", "..."), None).to_facts().hidden_share == pytest.approx(3 / 9, abs=1e-6)


def test_leading_axes_give_a_matrix_each():
    mask = torch.stack([mask_of("..", ".."), mask_of(".x", ".x"), mask_of("..", "..")])[:, None]

    assert look_at_mask(mask, None).to_facts().cells == (("..", ".."), (".p", ".p"), ("..", ".."))


def test_a_large_mask_keeps_its_share_only():
    mask = torch.ones(MAX_CELLS // 2 + 1, 2, dtype=torch.bool)

    facts = look_at_mask(mask, "padding").to_facts()

    assert (facts.kind, facts.hidden_share, facts.cells) == ("padding", 0.0, None)


def test_ones_and_zeros_are_multiplied_with_and_hide_nothing_where_they_are_added():
    assert look_at_mask(torch.tensor([[1.0, 1.0], [1.0, 0.0]]), None) is None
    assert look_at_mask(torch.zeros(2, 2), None).to_facts().kind == "none"


def test_a_mask_without_values_has_no_facts():
    assert look_at_mask(torch.ones(3, 3, dtype=torch.bool, device="meta"), "causal") is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.12345678, 0.123457),
        (-1.5e-30, -1.5e-30),
        (1e6, 1e6),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
    ],
)
def test_floats_are_written_to_six_digits_and_what_is_no_number_as_a_word(value, written):
    assert take_preview(torch.tensor([2.0, value], dtype=torch.float64), (2,)).values == (2.0, written)


def test_ids_are_kept_in_full():
    preview = preview_everything_small("tokenize.src", "tokenize", torch.arange(6).view(2, 3))

    assert (preview.shape, preview.values) == ((2, 3), (0, 1, 2, 3, 4, 5))


def test_attention_weights_are_kept_for_the_first_sequence_in_every_head():
    preview = preview_everything_small("a.softmax", "softmax", torch.rand(2, 3, 5, 7))

    assert preview.shape == (1, 3, 5, 7)
    assert preview_fits(preview, (2, 3, 5, 7))


def test_the_rows_of_a_preview_are_those_of_the_tensor():
    weights = torch.arange(2 * 3 * 5 * 7).view(2, 3, 5, 7).float()

    preview = take_preview(weights, (1, 3, 5, 7))

    assert preview.rows(0, 2)[4] == tuple(weights[0, 2, 4].tolist())


def test_other_activations_are_not_kept():
    assert preview_everything_small("encoder", "linear", torch.rand(2, 3)) is None


def test_numbers_that_json_cannot_write_are_spelt_out():
    preview = take_preview(torch.tensor([float("nan"), float("inf"), float("-inf"), 0.5]), (4,))

    assert preview.values == ("nan", "inf", "-inf", 0.5)


def test_yes_and_no_are_kept_as_numbers_that_a_trace_can_be_read_back_with():
    preview = take_preview(torch.tensor([[True, False, True]]), (1, 3))

    assert [type(value) for value in preview.values] == [int, int, int]
    assert preview.values == (1, 0, 1)


@pytest.mark.parametrize(
    ("constants", "zeros"),
    [([0.5, 0.0, 0.0], 2), ([0.5, 0.25, 1.0], 0), ([0.0, 1.0, 2.0], 0), ([0.0, 0.0], 0), ([], 0)],
)
def test_zeros_are_counted_in_a_row_that_holds_no_places(constants, zeros):
    assert count_zeros(torch.tensor(constants)) == zeros


@pytest.mark.parametrize("constants", [torch.empty(3, device="meta"), torch.zeros(3).to(torch.float8_e4m3fn)])
def test_zeros_that_nobody_can_tell_are_not_counted(constants):
    assert count_zeros(constants) == 0


TURNS = torch.arange(40)[:, None] * torch.tensor([1.0, 0.3, 0.05, 1.0, 0.3, 0.05])
SINES = torch.cat((TURNS[:, :3].sin(), TURNS[:, 3:].cos()), 1)
ACROSS, DOWN = SINES[:11].repeat(11, 1), SINES[:11].repeat_interleave(11, 0)
MAP = torch.cat((ACROSS, DOWN), 1)
WIDE = torch.cat([bend(torch.arange(4)[:, None] * 0.9 ** torch.arange(37)) for bend in (torch.sin, torch.cos)], 1)


@pytest.mark.parametrize(
    "table",
    [
        SINES,
        SINES[None],
        SINES.bfloat16(),
        3 * SINES[11:],
        torch.cat((SINES[:1], torch.zeros(1, 6), SINES[2:])),
        torch.cat((SINES, torch.zeros(40, 1)), 1),
        MAP,
        torch.cat((torch.zeros(1, 12), MAP)),
        torch.cat((torch.zeros(1, 74), WIDE)),
    ],
    ids=[
        *("sines", "of one sequence", "in half", "of later places", "with a row for padding", "with a column of zeros"),
        *("of a map", "of a map behind a class", "of few frames"),
    ],
)
def test_a_table_of_sines_is_known_by_its_numbers(table):
    assert is_of_sines(table)


@pytest.mark.parametrize(
    "table",
    [
        torch.rand(40, 6, generator=torch.Generator().manual_seed(0)),
        SINES + 0.01 * torch.rand(40, 6, generator=torch.Generator().manual_seed(0)),
        torch.arange(40.0)[:, None].expand(40, 6),
        torch.ones(40, 6),
        torch.zeros(40, 6),
        TURNS.exp().clamp(max=1e4),
        SINES[:5],
        SINES.to("meta"),
        torch.arange(240).view(40, 6),
        torch.cat((ACROSS, DOWN * ACROSS), 1),
        torch.cat((torch.ones(1, 12), MAP)),
        torch.cat((ACROSS, torch.arange(11.0).repeat_interleave(11)[:, None]), 1),
        torch.rand(5, 67, generator=torch.Generator().manual_seed(0)),
    ],
    ids=[
        *("chance", "nearly", "lines", "ones", "zeros", "growing", "too few", "unknown", "whole"),
        *("of both ways at once", "behind a row of ones", "with lines down", "few by chance"),
    ],
)
def test_other_tables_are_none_of_sines(table):
    assert not is_of_sines(table)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (torch.ones(5, 5).tril(), (1, 0)),
        (torch.ones(1, 1, 5, 5).tril(), (1, 0)),
        (torch.ones(5, 5, dtype=torch.bool).tril(), (1, 0)),
        (torch.ones(5, 5, dtype=torch.uint8).triu(1), (0, 1)),
        (torch.full((5, 5), float("-inf")).triu(1), (0, float("-inf"))),
        (2 * torch.ones(5, 5).tril(), (2, 0)),
        (torch.ones(5, 5), None),
        (torch.ones(5, 5).triu(), None),
        (torch.ones(5, 5).tril(-1), None),
        (torch.ones(5, 5).tril().triu(-2), None),
        (torch.ones(5, 7).tril(), None),
        (torch.ones(2, 5, 5).tril(), None),
        (torch.ones(1, 1), None),
        (torch.ones(5, 5, device="meta").tril(), None),
        (torch.ones(5, 5).tril().to(torch.float8_e4m3fn), None),
    ],
)
def test_a_triangle_is_known_by_its_numbers(table, told):
    assert describe_triangle(table) == ([] if told is None else [("triangle", told[0]), ("behind", told[1])])


def make_powers(base, size, *, zeros=0, counted=0):
    return torch.cat((base ** -(torch.arange(float(size)) / (size + counted)), torch.zeros(zeros)))


@pytest.mark.parametrize(
    ("row", "base"),
    [
        (make_powers(10_000.0, 32), 10_000.0),
        (make_powers(11_158_840.0, 64), 11_158_840.0),
        (make_powers(10_000.0, 11, counted=-0.5), 10_000.0),  # of 21 numbers turned, not 22 with base 15,505.16
        (make_powers(12_345.6, 11), None),  # a base is a whole number
        (torch.tensor([1, 1e-150, 1e-300], dtype=torch.float64), None),  # too large for a number
        (make_powers(1e6, 8, zeros=24, counted=24), 1e6),
        (make_powers(50_000.0, 8, zeros=24), 50_000.0),
        (make_powers(1e6, 8, zeros=24), None),  # or 10²⁴, were the zeros counted
        (make_powers(1e6, 32, zeros=32, counted=32), 1e6),  # or 1,000, were they not, less than any in use
        (make_powers(11_158_840.0, 8, zeros=24), None),
        (make_powers(10_000.0, 32) / 8, None),
        (torch.cat([make_powers(10_000.0, 32)[start::2] for start in (0, 1)]), 10_000.0),
        (make_powers(10_000.0, 2), None),
        (make_powers(10_000.0, 32).bfloat16(), None),
        (torch.linspace(1, 0.1, 8), None),
        (torch.ones(8), None),
        (torch.arange(8), None),
        (torch.zeros(8), None),
        (make_powers(10_000.0, 32).to("meta"), None),
    ],
)
def test_the_base_of_powers_is_read_off_them_in_any_order(row, base):
    assert read_base(row) == base


def make_slowed(base, size, *, fast=5, slow=5, factor=8.0):
    """Powers of which the last are over a factor, and those between over ever more of it."""
    over = torch.cat(
        (torch.ones(fast), torch.linspace(1, factor, size - fast - slow + 2)[1:-1], torch.full((slow,), factor))
    )
    return make_powers(base, size) / over


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (make_slowed(500_000.0, 64), (500_000.0, 8.0)),
        (make_slowed(150_000.0, 32, factor=32.0).flip(0), (150_000.0, 32.0)),
        (make_slowed(10_000.0, 32, factor=2.5), (10_000.0, 2.5)),
        (make_powers(10_000.0, 32), None),  # none is slower
        (make_slowed(10_000.0, 32, factor=0.5), None),  # none is slower, but some are faster
        (make_slowed(10_000.0, 32) / 2, None),  # all are slower
        (make_slowed(10_000.0, 32, slow=2), None),  # too few are slower by one number
        (make_slowed(10_000.0, 32, fast=2), None),  # too few are as fast as their base says
        (make_slowed(12_345.6, 32), None),  # not a base in use
        (torch.cat((make_slowed(10_000.0, 32), torch.zeros(3))), None),
        (make_powers(10_000.0, 32) * torch.linspace(1, 0.1, 32), None),  # no powers
        ((0.1 ** torch.arange(512.0)).clamp(min=1e-6), None),  # too steep for any base
    ],
)
def test_by_how_much_the_last_powers_are_slowed_is_read_off_them(row, told):
    assert read_slowed(row) == told


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (make_powers(1_000_000.0, 128) / 8, (1_000_000.0, 8.0)),
        (make_powers(10_000.0, 11).flip(0) / 3, (10_000.0, 3.0)),
        (make_powers(10_000.0, 11), None),
        (make_powers(10_000.0, 11) / 2.0123, None),  # none is slowed by such a number
        (make_powers(10_000.0, 11) * 2, None),
        (torch.linspace(0.5, 0.1, 11), None),
        (torch.zeros(11), None),
    ],
)
def test_by_how_much_all_powers_are_slowed_is_read_off_them(row, told):
    assert read_all_slowed(row) == told


def test_what_is_told_of_powers_are_their_base_zeros_and_what_slows_them():
    powers = make_powers(10_000.0, 11)

    assert describe_constants(powers) == [("base", 10_000.0)]
    assert describe_constants(make_powers(10_000.0, 11, zeros=5)) == [("zeros", 5), ("base", 10_000.0)]
    assert describe_constants(powers / 4) == [("base", 10_000.0), ("all_slowed", 4.0)]
    assert describe_constants(make_slowed(10_000.0, 32)) == [("base", 10_000.0), ("slowed", 8.0)]
    assert describe_constants(torch.linspace(1, 0.1, 11)) == []


def test_a_number_that_a_model_holds_is_read_where_weights_do_not_bring_it():
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("fixed", torch.tensor(2.5), persistent=False)
            self.register_buffer("saved", torch.tensor(3.5))

    held = dict(build_on_meta(Holder).named_buffers())

    assert [read_constant(one) for one in (held["fixed"], held["saved"], torch.tensor(3))] == [2.5, None, None]


def test_by_how_much_a_row_is_made_longer_is_read_where_tensors_hold_it():
    class Longer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.front = torch.nn.Buffer(torch.tensor(3), persistent=False)

        def forward(self, x):
            sizes: Any = (self.front, self.front * 0)
            longer = torch.nn.functional.pad(x, sizes)
            return longer + torch.nn.functional.pad(x, (1, x.shape[-1] - 5))

    trace = xray.trace(Longer(), torch.ones(2, 7))

    assert [one.settings["pad"] for one in trace.steps if one.op == "pad"] == ["3x0", "1x2"]
