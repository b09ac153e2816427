"""The sheet of transformers that are not X-Ray's own: what it prints was recorded, and nothing stands on anything."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from poster_cases import OTHERS, make_case
from printed import lines_of, printed_shapes, text_of, words_of
from recorded import FAMILIES, recorded
from scrambled import scramble
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.canvas import AGAIN
from xray.story.compare.marks import Mark, Marks, mark_failures
from xray.story.entrance.tables import says_places
from xray.story.facts.totals import count_params
from xray.story.poster import compose_poster

SCORES = {
    "nn.Transformer": {"2×4×11×11", "2×4×7×7", "2×4×7×11"},
    "T5": {"2×5×11×11", "2×5×7×7", "2×5×7×11"},
    "GPT-2": {"2×5×11×11"},
    "Llama": {"2×6×11×11"},
}
"""The shapes of the scores of each kind of attention."""


@pytest.fixture(scope="module")
def drawn():
    cache = {}

    def compose(case):
        if case not in cache:
            trace, options = make_case(case)
            cache[case] = trace, compose_poster(trace, text_width, **options)
        return cache[case]

    return compose


def nodes_of(layout):
    """The boxes that stand for steps."""
    return [box for box in layout.boxes if box.kind.startswith("step ")]


def shapes_of(trace, steps):
    """The shapes of each tensor of some steps, in all passes or in the first one alone, each with its pass's number."""
    for name in steps:
        key, _, step_id = name.partition("/")
        kind = key.rstrip("0123456789")
        ran = [(one.number, one.by_id[step_id]) for one in trace.passes_of(kind) if step_id in one.by_id]
        for side in ("inputs", "outputs"):
            for records in zip(*(getattr(step, side) for _, step in ran), strict=False):
                shapes = [(number, record.shape) for (number, _), record in zip(ran, records, strict=True)]
                yield from (shapes, shapes[:1])


def spell(sizes):
    """How a size may be printed that passes have, each with its number: as it is, as a range, as the turn's number."""
    values = {size for _, size in sizes}
    if len(values) == 1:
        return {str(*values)}
    turns = {"t"} if all(size == number for number, size in sizes) else set()
    return turns | {f"{min(values)}–{max(values)}"}


def fits(printed, shapes):
    """Whether printed sizes are those of a tensor."""
    if any(len(shape) != len(printed) for _, shape in shapes):
        return False
    axes = ([(number, shape[place]) for number, shape in shapes] for place in range(len(printed)))
    return all(text in spell(sizes) for text, sizes in zip(printed, axes, strict=True))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", OTHERS)
def test_every_shape_in_a_box_is_that_of_a_step_that_it_stands_for(drawn, case):
    trace, layout = drawn(case)

    wrong = [
        (box.id, shape)
        for box in nodes_of(layout)
        for shape in printed_shapes(replace(layout, boxes=(box,)))
        if not any(fits(shape, shapes) for shapes in shapes_of(trace, box.steps))
    ]

    assert nodes_of(layout)
    assert wrong == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_nodes_have_the_ids_of_the_steps_that_were_recorded(drawn, case):
    trace, layout = drawn(case)
    ran = {f"{one.kind}{one.number or ''}/{step.id}" for one in trace.passes for step in one.steps}

    shown = {box.id.partition(AGAIN)[0] for box in nodes_of(layout)} | {
        step for box in nodes_of(layout) for step in box.steps
    }

    assert shown - ran == set()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_no_two_things_share_an_id(drawn, case):
    layout = drawn(case)[1]
    ids = [thing.id for thing in (*layout.boxes, *layout.cells)]

    assert len(ids) == len(set(ids))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_no_node_stands_on_another(drawn, case):
    nodes = nodes_of(drawn(case)[1])

    covered = [
        (one.id, other.id)
        for one, other in combinations(nodes, 2)
        if one.left < other.right and other.left < one.right and one.bottom < other.top and other.bottom < one.top
    ]

    assert covered == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_what_was_never_stored_is_marked_as_derived(drawn, case):
    trace, layout = drawn(case)
    derived = {
        f"{one.kind}{one.number or ''}/{step.id}"
        for one in trace.passes
        for step in one.steps
        if step.settings.get("derived")
    }

    told = {box.id: "derived" in box.tooltip for box in nodes_of(layout)}
    marked = {box.id for box in nodes_of(layout) if any("derived" in text_of(line) for line in box.lines)}

    assert told == {name: name.partition(AGAIN)[0] in derived for name in told}
    assert marked == {name for name, is_derived in told.items() if is_derived}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_mask_cells_come_from_the_record(drawn, case):
    trace, layout = drawn(case)
    masks = {
        matrix
        for step in trace.steps
        for record in (*step.inputs, *step.outputs)
        for matrix in (record.mask.cells or () if record.mask is not None else ())
    }

    for cells in (one for one in layout.cells if one.kind == "mask"):
        lines = tuple("".join(row) for row in cells.rows)
        assert lines in masks or all((line,) in masks for line in lines) or "by its kind" in words_of(layout)


def bars_of(layout):
    """The counts on the card of parameters."""
    return [
        int(text_of(box.lines[0]).replace(",", "")) for box in layout.boxes if (box.on, box.align) == ("card", "right")
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_the_parameters_on_the_card_come_to_those_of_the_model(drawn, case):
    trace, layout = drawn(case)

    assert sum(bars_of(layout)) == count_params(trace)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", OTHERS)
def test_stations_count_from_one(drawn, case):
    layout = drawn(case)[1]
    numbers, read = (
        sorted(int(text_of(box.lines[0])) for box in layout.boxes if box.kind == kind)
        for kind in ("station", "reading")
    )

    assert numbers == read == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("name", SCORES)
def test_the_scores_of_every_attention_are_printed(drawn, name):
    shapes = {"×".join(shape) for shape in printed_shapes(drawn(f"{name}, inference")[1])}

    assert SCORES[name] <= shapes


def said(layout):
    """All that is printed, but the one sentence that names modules."""
    return sorted(
        lines_of(replace(layout, boxes=[box for box in layout.boxes if "Not drawn" not in words_of_box(box)]))
    )


def words_of_box(box):
    return " ".join(map(text_of, box.lines))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_names_of_modules_play_no_part_but_those_that_say_places(drawn, name):
    trace, layout = drawn(f"{name}, inference")
    scrambled, _ = scramble(trace, kept=says_places)

    other = compose_poster(scrambled, text_width)

    assert [box.on for box in nodes_of(other)] == [box.on for box in nodes_of(layout)]
    assert said(other) == said(layout)


def test_an_encoder_and_a_decoder_have_a_colour_each(drawn):
    boxes = nodes_of(drawn("BART, inference")[1])

    assert {box.on for box in boxes if "/model.encoder." in box.id} <= {"encoder", "mask"}
    assert {box.on for box in boxes if "/model.decoder.layers.0.self_attn." in box.id} == {"decoder", "mask"}


def test_keys_and_values_of_the_memory_have_the_colour_of_the_encoder(drawn):
    colours = {box.on for box in nodes_of(drawn("BART, inference")[1]) if "encoder_attn.k_proj" in box.id}

    assert colours == {"encoder"}


def test_what_grows_from_turn_to_turn_is_told_as_a_range(drawn):
    trace, layout = drawn("GPT-2 writes")
    keys = [step.outputs[0].shape for step in trace.steps if step.path.endswith("h.0.attn.cat") and step.call == 0]

    assert ("2", "5", f"{keys[0][2]}–{keys[-1][2]}", "7") in printed_shapes(layout)


def test_the_shapes_of_a_large_model_are_printed(drawn):
    shapes = printed_shapes(drawn("hundreds of billions")[1])

    assert {("1", "128", "8192", "8192"), ("1", "8", "8192", "128"), ("1", "8192", "53248")} <= shapes


def test_a_causal_mask_that_is_too_large_shows_its_first_corner(drawn):
    layout = drawn("hundreds of billions")[1]
    corner = next(cells for cells in layout.cells if cells.kind == "mask")

    assert all(
        (value == ".") == (key <= query) for query, row in enumerate(corner.rows) for key, value in enumerate(row)
    )
    assert "its first corner, by its kind" in words_of(layout)


def test_a_frame_says_how_many_layers_it_stands_for(drawn):
    assert "LAYER × 4" in lines_of(drawn("hundreds of billions")[1])


def test_weights_that_two_modules_share_are_said_to_be(drawn):
    trace, layout = drawn("T5, inference")

    users = {(name, step.path) for step in trace.steps for name in step.weights if step.op in ("linear", "embedding")}
    assert len(users) > len({name for name, _ in users})
    assert "one set of numbers for both" in words_of(layout)


def outlined(trace, *steps, kind="forward", number=0):
    """The marked steps that are outlined, and the boxes that stand in an outline."""
    marks = Marks("change", f"{len(steps)} STEPS CHANGED", tuple(Mark(kind, number, step, "new") for step in steps))
    layout = compose_poster(trace, text_width, marks=marks)
    curves = [curve for curve in layout.curves if curve.kind == "mark"]
    edges = {(round(min(x for x, _ in one.points) + 2), round(max(y for _, y in one.points) - 2)) for one in curves}
    around = {box.id.partition("/")[2] for box in layout.boxes if (round(box.left), round(box.top)) in edges}
    return {curve.tooltip.removesuffix(" new") for curve in curves}, around - {""}, layout


def find(trace, path):
    return next(step.id for step in trace.steps if step.path.endswith(path))


def test_a_mark_on_a_recorded_step_is_outlined():
    trace = recorded("Llama, inference")
    step = find(trace, "layers.0.mlp.down_proj")

    assert outlined(trace, step)[:2] == ({step}, {step})


def test_a_mark_in_a_layer_that_another_stands_for_is_outlined_on_that_one():
    trace = recorded("Llama, inference")
    step = find(trace, "layers.2.mlp.down_proj")

    assert outlined(trace, step)[:2] == ({step}, {find(trace, "layers.0.mlp.down_proj")})


def test_a_mark_on_a_fused_kernel_is_outlined_on_what_it_computes():
    trace = recorded("GPT-2, inference")
    kernel = find(trace, "h.1.attn.scaled_dot_product_attention")

    around = outlined(trace, kernel)[1]

    assert around
    assert all("h.0.attn.scaled_dot_product_attention." in step for step in around)


def test_a_mark_in_a_pass_that_another_stands_for_is_outlined_on_that_one():
    trace = recorded("GPT-2 writes")
    step = find(trace, "h.0.mlp.c_proj.addmm")

    assert [outlined(trace, step, number=number)[0] for number in (0, 1, 3)] == [{step}] * 3


def test_only_marks_that_are_listed_have_a_number():
    trace = recorded("Llama, inference")
    steps = [step.id for step in trace.steps if step.path.endswith("proj")]

    layout = outlined(trace, *steps)[2]

    placed, listed = (
        {text_of(box.lines[0]) for box in layout.boxes if box.kind == "mark" and box.id.startswith(kind)}
        for kind in ("mark_", "listed_")
    )
    assert placed <= listed == {"1", "2", "3", "4", "5", "6"}


def fail_last(trace, **changes):
    """The trace with one step more, which failed."""
    one = trace.passes[0]
    error = "RuntimeError: shapes do not fit"
    last = replace(one.steps[-1], error=error, outputs=(), path="elsewhere", id="elsewhere#0", **changes)
    return replace(trace, passes=(replace(one, steps=(*one.steps, last)),))


def test_a_failure_is_shown_where_it_happened():
    broken = fail_last(recorded("Llama, inference"))
    layout = compose_poster(broken, text_width, marks=mark_failures(broken))

    failed = [box for box in layout.boxes if box.on == "failure" and "forward/elsewhere#0" in box.steps]
    assert len(failed) == 1
    assert "failed" in words_of_box(failed[0])


def test_a_failure_without_a_place_on_the_sheet_is_left_to_the_other_drawing():
    broken = fail_last(recorded("Llama, inference"), inputs=())

    assert compose_poster(broken, text_width, marks=mark_failures(broken)) is None


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (nn.LSTM(5, 7), torch.randn(3, 2, 5)),
        (nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 7)), torch.randn(2, 3, 8, 8)),
        (nn.Sequential(nn.Linear(5, 7), nn.Softmax(-1)), torch.randn(2, 5)),
        (nn.Identity(), torch.randn(2, 5)),
    ],
)
def test_without_a_residual_stream_there_is_no_sheet(model, given):
    assert compose_poster(xray.trace(model, given), text_width) is None
