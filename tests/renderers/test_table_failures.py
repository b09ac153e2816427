"""A failure in the tables: what was raised, and the operands with the axis that does not fit in brackets."""

import pytest
from small_traces import record, step

from xray.ir.trace import Pass, Trace
from xray.renderers.table.table import draw_tables


def draw(*steps, width=100, **options):
    return draw_tables(Trace("net", {}, {}, (Pass("forward", 0, {}, steps),)), width=width, **options)


@pytest.fixture
def failed():
    pair = [record("left", "batch d_k"), record("right", "d_ff batch")]
    return step("net.scores", "matmul", pair, error="RuntimeError: [no] such shapes", parent="net")


@pytest.mark.parametrize("width", [160, 100, 80, 40])
def test_the_operands_stand_side_by_side_at_any_width(failed, width):
    assert "left 2×[11]   right [13]×2" in draw(failed, width=width)


def test_the_rule_and_the_error_are_told(failed):
    text = " ".join(draw(failed).split())
    assert "failed: RuntimeError: [no] such shapes" in text
    assert "the inner axes have to be equal: 11 and 13" in text


def test_a_block_leaves_the_operands_to_the_step_inside_it(failed):
    block = step("net", "net", [record("x", "batch d_k")], error="RuntimeError: [no] such shapes")
    assert draw(block, failed).count("[11]") == 1


def test_an_old_terminal_gets_plain_letters(failed):
    assert "left 2x[11]" in draw(failed, ascii_only=True)


def test_many_operands_are_counted():
    tensors = [record(f"tensors.{place}", "batch d_k", d_k=place + 2) for place in range(9)]
    joined = step("net", "cat", tensors, error="RuntimeError: Sizes of tensors must match")
    assert "and 3 more" in draw(joined)
