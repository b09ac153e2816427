import pytest
from recorded import recorded
from small_traces import record, step

from xray.ir.trace import Pass
from xray.story.facts.outline import outline_pass


@pytest.fixture
def one_pass():
    return recorded("two and four layers").passes[0]


def titles(sections):
    return [section.station.number for section in sections]


def names(section):
    return [row.name for row in section.rows]


def test_sections_follow_the_stations(one_pass):
    assert titles(outline_pass(one_pass)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_every_layer_has_its_own_sections_when_all_are_asked_for(one_pass):
    sections = outline_pass(one_pass, all_layers=True)

    assert titles(sections) == [1, 2, 3, 2, 3, 4, *(5, 6, 7) * 4, 8, 9]


def test_preparation_that_ran_early_stands_where_it_is_needed(one_pass):
    answer_in = outline_pass(one_pass)[3]

    assert names(answer_in)[0] == "tokenize.tgt"


def test_rows_keep_the_number_of_their_place_in_the_pass(one_pass):
    rows = [row for section in outline_pass(one_pass) for row in section.rows]

    assert all(one_pass.steps[row.number - 1] is row.step for row in rows)


def test_blocks_that_span_stations_have_no_row(one_pass):
    rows = [row.step.path for section in outline_pass(one_pass) for row in section.rows]

    assert not {"encoder", "decoder", "encoder.layers.0"} & set(rows)


def test_no_operation_is_lost(one_pass):
    rows = [row.step for section in outline_pass(one_pass, all_layers=True) for row in section.rows]

    assert set(map(id, one_pass.leaves)) <= set(map(id, rows))


def test_rows_inside_a_block_are_indented_and_named_below_it(one_pass):
    attention = outline_pass(one_pass)[1]

    assert [(row.indent, row.name) for row in attention.rows][:2] == [(0, "self_attention"), (1, "query")]


def test_a_row_names_the_mask_that_it_reads(one_pass):
    attention = outline_pass(one_pass)[1]

    row = next(row for row in attention.rows if row.name == "mask")

    assert row.mask is not None
    assert row.mask.mask == one_pass.by_id["src_mask#0"].outputs[0].mask


def test_a_model_without_stations_is_one_section_for_each_run_of_steps():
    x = record("x", "batch d_model")
    steps = (
        step("net", "net", [x], [x]),
        step("net.stem", "linear", [x], [x], parent="net"),
        step("net.blocks.0", "block", [x], [x], parent="net"),
        step("net.blocks.1", "block", [x], [x], parent="net"),
        step("net.head", "linear", [x], [x], parent="net"),
    )

    sections = outline_pass(Pass("forward", 0, {}, steps))

    assert [names(section) for section in sections] == [["net", "stem"], ["net.blocks.0"], ["net.head"]]
