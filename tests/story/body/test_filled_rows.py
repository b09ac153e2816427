from dataclasses import replace

import pytest
from small_blocks import call, forward, tensor

from xray.ir.flow.dataflow import read_flow
from xray.story.attention.ways.lanes import cut_way


def write_into(width):
    """Rows of 7 that a step makes empty, a cut of them, and numbers written into that."""
    empty = call("empty", "new_empty", [], (2, 5, 7))
    cut = call("index", "index", [empty.id], (2, 5, width))
    cut = replace(cut, inputs=(tensor("input", (2, 5, 7), empty.id),))
    return [empty, cut, call("copy_", "copy_", [cut.id, ""], (2, 5, width))]


def parts_of(steps):
    return [(part.kind, part.record.shape) for part in cut_way(read_flow(forward(*steps)), range(len(steps)), None)]


def test_two_parts_of_each_row_beside_each_other_are_no_cache():
    assert ("beside", (2, 5, 7)) in parts_of(write_into(3))


def test_whole_rows_written_into_others_that_the_pass_made_are_no_cache():
    kinds = [kind for kind, _ in parts_of(write_into(7))]

    assert "join" in kinds
    assert "cache" not in kinds


@pytest.mark.parametrize(
    ("written", "read", "kind"),
    [(":2, 0:4", ":2, :4", "kept"), (":2, 2:4", ":2, :4", "cache"), (":2, 0:4", ":2", "cache")],
    ids=["all", "some", "all places"],
)
def test_rows_that_are_read_back_as_they_were_written_are_with_no_others(written, read, kind):
    put = replace(call("put", "index_put_", ["", ""], (3, 5, 7)), settings={"index": written})
    taken = replace(call("taken", "index", [put.id], (3, 5, 7)), settings={"index": read})

    assert next(one for one, _ in parts_of([put, taken])) == kind
