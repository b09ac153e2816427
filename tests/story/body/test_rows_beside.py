"""Rows that are worked out of a tower's own words beside its stream: no condition of something else."""

from functools import cache

import pytest
import torch
import transformers
from handwritten import Attention, Layer
from torch import nn
from transformers import Gemma3nForCausalLM, Gemma3nTextConfig

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_pass
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, NARROW, COUNT = 15, 6, 3


class Gates(nn.Module):
    """Layers that end with rows of their own, which a gate of the stream lets through."""

    def __init__(self, own_table, hidden=None, factor=None, share=None):
        super().__init__()
        self.hidden, self.factor, self.share = hidden, factor, share
        self.words = nn.Embedding(31, WIDTH)
        self.rows = nn.Embedding(31, COUNT * NARROW) if own_table else nn.Linear(WIDTH, COUNT * NARROW)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(COUNT))
        self.gates = nn.ModuleList(nn.Linear(WIDTH, NARROW) for _ in range(COUNT))
        self.back = nn.ModuleList(nn.Linear(NARROW, WIDTH) for _ in range(COUNT))

    def forward(self, input_ids):
        read = input_ids if self.hidden is None else torch.where(input_ids == self.hidden, 0, input_ids.clone())
        x = self.words(read)
        rows = self.rows(read if isinstance(self.rows, nn.Embedding) else x).unflatten(-1, (COUNT, NARROW))
        rows = rows if self.share is None else rows * self.share
        for number, (layer, gate, back) in enumerate(zip(self.layers, self.gates, self.back, strict=True)):
            x = layer(x)
            x = x + back(nn.functional.gelu(gate(x)) * rows[:, :, number])
            x = x if self.factor is None else x * self.factor
        return x


@cache
def record(*, own_table, **said):
    torch.manual_seed(0)
    return xray.trace(Gates(own_table, **said), torch.arange(14).view(2, 7))


def labels_beside(trace):
    (column,) = read_columns(trace)
    return [node.label for node in sorted(column.condition.nodes, key=lambda node: node.row)]


def texts_of(trace):
    return {"".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes}


def test_rows_of_the_same_words_are_no_condition_and_their_table_is_drawn_once():
    trace = record(own_table=False)

    assert xray.anatomy(trace).towers[0].conditions == ()
    assert labels_beside(trace) == ["LINEAR"]
    assert "ROWS BESIDE" in texts_of(trace)


def test_the_colour_of_such_rows_is_that_of_what_is_made_beside_the_stream():
    told = texts_of(record(own_table=True))

    assert "condition: made beside the stream" in told
    assert "condition: scales, shifts, gates" not in told


def test_rows_of_another_table_are_made_of_the_ids():
    trace = record(own_table=True)

    assert xray.anatomy(trace).towers[0].conditions == ("input_ids",)
    assert labels_beside(trace) == ["INPUT IDS", "LOOK UP"]


def test_rows_that_stand_between_layers_of_several_streams_are_drawn_from_the_ids_on():
    sizes = {"hidden_size": 48, "intermediate_size": 77, "num_attention_heads": 6, "num_key_value_heads": 2}
    narrow = {"hidden_size_per_layer_input": NARROW, "laurel_rank": 5, "head_dim": 8, "num_kv_shared_layers": 0}
    words = {"vocab_size": 131, "vocab_size_per_layer_input": 131, "num_hidden_layers": COUNT}
    model = Gemma3nForCausalLM(Gemma3nTextConfig(**sizes, **narrow, **words)).eval()
    trace = xray.trace(model, input_ids=torch.arange(14).view(2, 7))

    narrower, wider, half = "× 0.1443", "× 2.449", "× 0.7071"  # 48^-½, 6^½ and 2^-½, each kept as a tensor
    assert labels_beside(trace) == ["INPUT IDS", "LINEAR", "LOOK UP", narrower, wider, "RMS NORM", "ADDED UP", half]
    assert not any("Not drawn" in text for text in texts_of(trace))


@pytest.mark.parametrize(
    ("share", "boxes"),
    [(0.25, ["÷ 4"]), (torch.tensor(0.25), ["÷ 4"]), (torch.tensor([0.25]), ["× ONE NUMBER"]), (1.0, [])],
)
def test_a_number_by_which_rows_beside_are_multiplied_has_a_box(share, boxes):
    assert labels_beside(record(own_table=True, share=share)) == ["INPUT IDS", "LOOK UP", *boxes]


def test_a_question_that_is_asked_of_the_ids_is_no_box_of_them():
    assert labels_beside(record(own_table=True, hidden=5)) == ["INPUT IDS", "LOOK UP"]


def test_the_steps_of_an_entrance_are_none_of_what_stands_beside_it():
    (tower,) = read_pass(record(own_table=False).passes[0]).towers

    assert tower.condition.nodes.isdisjoint(tower.entrance)


def test_what_leads_to_the_entrance_is_none_of_what_stands_beside_it():
    trace = record(own_table=False, hidden=5)

    assert xray.anatomy(trace).towers[0].conditions == ()
    assert labels_beside(trace) == ["LINEAR"]


def test_a_number_behind_the_last_layer_stands_in_its_box():
    texts = texts_of(record(own_table=False, factor=torch.tensor([0.5])))

    assert any(text.startswith("ADD, × ONE NUMBER") for text in texts)
    assert not any("in no box" in text for text in texts)


@cache
def record_streams(*kinds):
    """Three layers of several streams, of some kinds, with gates between them (Gemma 3n)."""
    sizes = {"vocab_size": 31, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "laurel_rank": 5}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "num_kv_shared_layers": 0}
    beside = {"vocab_size_per_layer_input": 29, "hidden_size_per_layer_input": 7}
    told = {"layer_types": [f"{kind}_attention" for kind in kinds], "activation_sparsity_pattern": [0.0] * 3}
    config = transformers.Gemma3nTextConfig(**sizes, **heads, **beside, **told)
    with torch.device("meta"):
        return xray.trace(transformers.Gemma3nForCausalLM(config).eval(), torch.arange(14).view(2, 7))


def test_rows_that_gate_between_layers_are_worked_out_beside_the_streams():
    trace = record_streams("full", "full", "full")
    (column,) = read_columns(trace)

    paths = {step.path for node in column.condition.nodes for step in node.steps}
    assert "model.per_layer_model_projection" in paths
    assert any(path.startswith("model.embed_tokens_per_layer.") for path in paths)
    assert not any("Not drawn" in text for text in texts_of(trace))


def test_rows_beside_are_led_to_each_gate_and_to_each_closed_box_that_holds_one():
    layout = compose_poster(record_streams("sliding", "full", "full"), text_width)

    names = ("× ROWS FROM BESIDE", "GATED ROWS FROM BESIDE")
    gates = [box for box in layout.boxes if box.record and box.lines and box.lines[0][0].text in names]
    led = {(round(x), round(y)) for curve in layout.curves if curve.kind == "condition" for x, y in curve.points[-1:]}
    assert len(gates) == len(names)
    assert {(round(box.right), round(box.y)) for box in gates} <= led


def test_words_that_are_one_of_several_streams_are_drawn_with_their_factor():
    (column,) = read_columns(record_streams("full", "full", "full"))

    assert [node.label for node in column.entrance.nodes].count("× ONE NUMBER") == 1
