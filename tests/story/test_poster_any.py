"""The poster of transformers that are not X-Ray's own: the same parts, told of no more than was recorded."""

from dataclasses import replace

import pytest
import torch
from families.recordings import RECORDINGS, recorded_writing
from poster_cases import OTHERS, make_case
from printed import lines_of, printed_shapes, text_of, words_of
from recorded import recorded
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.canvas import AGAIN
from xray.story.marks import Mark, Marks, mark_failures
from xray.story.poster import compose_poster

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
STATIONS = {
    "Llama": ["4", "5", "7", "8"],
    "GPT-2": ["4", "5", "7", "8"],
    "BERT": ["1", "2", "3", "8"],
    "ViT": ["1", "2", "3", "8"],
    "T5": ["1", "2", "3", "4", "5", "6", "7", "8"],
    "Whisper": ["1", "2", "3", "4", "5", "6", "7", "8"],
}


@pytest.fixture(scope="module")
def layouts():
    cache = {}

    def compose(name, phase="inference"):
        if (name, phase) not in cache:
            trace = recorded_writing(name) if phase == "writes" else RECORDINGS[phase](name)
            cache[name, phase] = compose_poster(trace, text_width)
        return cache[name, phase]

    return compose


def surfaces_of(layout):
    return {box.on for box in layout.boxes if "step " in box.kind}


@pytest.mark.parametrize("name", STATIONS)
def test_a_model_has_the_stations_of_its_parts(layouts, name):
    marked = sorted(text_of(box.lines[0]) for box in layouts(name).boxes if box.kind == "station")

    assert marked == STATIONS[name]


@pytest.mark.parametrize("name", STATIONS)
def test_the_reading_order_tells_the_stations_that_are_there(layouts, name):
    read = [text_of(box.lines[0]) for box in layouts(name).boxes if box.kind == "reading"]

    assert sorted(read) == STATIONS[name]


def test_a_decoder_alone_has_no_colour_of_an_encoder(layouts):
    assert surfaces_of(layouts("Llama")) == {"decoder", "mask"}


def test_an_encoder_alone_has_no_colour_of_a_decoder(layouts):
    assert surfaces_of(layouts("BERT")) == {"encoder", "mask"}


def test_keys_and_values_of_the_memory_have_the_colour_of_the_encoder(layouts):
    boxes = {box.id: box.on for box in layouts("BART").boxes}

    crossing = {on for name, on in boxes.items() if "decoder.layers.0.encoder_attn.k_proj" in name}

    assert crossing == {"encoder"}


def test_a_forward_pass_is_neither_training_nor_inference(layouts):
    phases = {box.kind.split()[1] for box in layouts("T5").boxes if box.kind.startswith("step ")}

    assert phases == {"forward"}


@pytest.mark.parametrize("name", ["Llama", "BERT", "T5"])
def test_no_loss_and_no_loop_are_drawn_that_were_not_recorded(layouts, name):
    assert {curve.kind for curve in layouts(name).curves} & {"backprop", "loop"} == set()


def test_turns_go_round_again(layouts):
    assert "loop" in {curve.kind for curve in layouts("GPT-2", "writes").curves}


def test_each_turn_has_a_row_in_the_table(layouts):
    assert "TURN BY TURN   4 turns" in lines_of(layouts("GPT-2", "writes"))


@pytest.mark.parametrize("case", OTHERS)
def test_nodes_have_the_ids_of_the_steps_that_were_recorded(case):
    trace, options = make_case(case)
    layout = compose_poster(trace, text_width, **options)
    ran = {f"{one.kind}{one.number or ''}/{step.id}" for one in trace.passes for step in one.steps}

    shown = {box.id.partition(AGAIN)[0] for box in layout.boxes if box.kind.startswith("step ")}

    assert {name for name in shown - ran if not name.startswith("tower/")} == set()


@pytest.mark.parametrize("case", ["Llama, inference", "BERT, training", "T5, inference"])
def test_tooltips_begin_with_the_path_that_was_recorded(case):
    trace, _ = make_case(case)
    paths = {step.path for step in trace.steps}

    tips = {box.tooltip.split("\n")[0] for box in compose_poster(trace, text_width).boxes if "step " in box.kind}

    assert tips - paths == set()


def test_no_two_boxes_share_an_id(layouts):
    ids = [box.id for box in layouts("GPT-2").boxes]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Llama", "Grouped queries: each key head serves 3 query heads."),
        ("Llama", "Rotary places"),
        ("Llama", "RMS norm, before each sublayer"),
        ("Llama", "Gated feed-forward: SILU"),
        ("GPT-2", "One linear layer makes Q, K and V at once"),
        ("GPT-2", "The norm stands before each sublayer"),
        ("T5", "Relative places"),
    ],
)
def test_what_is_special_is_said(layouts, name, sentence):
    assert sentence in words_of(layouts(name)).replace("  ", " ")


@pytest.mark.parametrize("name", ["BERT", "BART"])
def test_what_is_as_in_the_paper_is_not_said(layouts, name):
    told = words_of(layouts(name))

    assert [word for word in ("Rotary", "Grouped", "Gated", "RMS", "Relative") if word in told] == []


@pytest.mark.parametrize("name", ["Llama", "T5"])
def test_a_norm_without_a_mean_is_named_so(layouts, name):
    labels = {line.split("  ")[0] for line in lines_of(layouts(name)) if "NORM" in line}

    assert labels == {"RMS NORM", "LAST RMS NORM"}


def test_derived_steps_are_marked(layouts):
    assert any(line.startswith("SOFTMAX") and "derived" in line for line in lines_of(layouts("BERT")))


def test_stored_steps_are_not_marked_as_derived():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.ways = nn.ModuleList(nn.Linear(10, 10) for _ in range(4))
            self.wide, self.narrow = nn.Linear(10, 13), nn.Linear(13, 10)

        def forward(self, x):
            q, k, v = (way(x).view(2, 7, 5, 2).transpose(1, 2) for way in self.ways[:3])
            weights = (q @ k.transpose(-2, -1) / 2**0.5).softmax(-1)
            x = x + self.ways[3]((weights @ v).transpose(1, 2).reshape(2, 7, 10))
            return x + self.narrow(self.wide(x).relu())

    layout = compose_poster(xray.trace(Plain(), torch.randn(2, 7, 10)), text_width)

    assert not any("derived" in line for line in lines_of(layout))


def test_mask_cells_come_from_the_record(layouts):
    trace = RECORDINGS["inference"]("BERT")
    masks = {
        matrix
        for step in trace.steps
        for record in (*step.inputs, *step.outputs)
        for matrix in (record.mask.cells or () if record.mask is not None else ())
    }

    drawn = [cells.rows for cells in layouts("BERT").cells if cells.kind == "mask"]

    assert drawn
    for rows in drawn:
        lines = tuple("".join(row) for row in rows)
        assert lines in masks or all((line,) in masks for line in lines)


def test_a_causal_mask_that_is_too_large_shows_its_first_corner():
    layout = compose_poster(recorded("large Llama"), text_width)
    corner = next(cells for cells in layout.cells if cells.kind == "mask")

    assert all(
        (value == ".") == (key <= query) for query, row in enumerate(corner.rows) for key, value in enumerate(row)
    )
    assert "its first corner, by its kind" in words_of(layout)


def test_the_shapes_of_a_large_model_are_printed():
    shapes = printed_shapes(compose_poster(recorded("large Llama"), text_width))

    assert {("1", "128", "8192", "8192"), ("1", "8", "8192", "128"), ("1", "8192", "53248")} <= shapes


def test_the_large_model_counts_its_layers():
    assert "DECODER LAYER × 4" in lines_of(compose_poster(recorded("large Llama"), text_width))


def test_a_mark_on_a_recorded_step_is_outlined():
    trace = RECORDINGS["inference"]("Llama")
    step = next(step.id for step in trace.steps if step.path.endswith("layers.2.mlp.down_proj"))
    marks = Marks("change", "1 STEP CHANGED", (Mark("forward", 0, step, "is new"),))

    layout = compose_poster(trace, text_width, marks=marks)

    tips = [curve.tooltip for curve in layout.curves if curve.kind == "mark"]
    assert tips == [f"{step} is new"] * 2


def test_a_mark_on_a_fused_kernel_is_outlined_on_what_it_computes():
    trace = RECORDINGS["inference"]("GPT-2")
    kernel = next(step.id for step in trace.steps if step.path.endswith("h.0.attn.scaled_dot_product_attention"))
    marks = Marks("change", "1 STEP CHANGED", (Mark("forward", 0, kernel, "is new"),))

    layout = compose_poster(trace, text_width, marks=marks)

    assert {curve.tooltip for curve in layout.curves if curve.kind == "mark"} == {f"{kernel} is new"}


def test_a_failure_that_was_not_recognised_is_left_to_the_other_drawing():
    trace = RECORDINGS["inference"]("Llama")
    one = trace.passes[0]
    last = replace(
        one.steps[-1], error="RuntimeError: shapes do not fit", outputs=(), path="elsewhere", id="elsewhere#0"
    )
    broken = replace(trace, passes=(replace(one, steps=(*one.steps, last)),))

    assert compose_poster(broken, text_width, marks=mark_failures(broken)) is None
