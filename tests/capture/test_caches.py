"""Generation: each turn a pass of its own, caches as state that grows, and what was chosen."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from xray.capture.recorder import record, trace


class Kept:
    """A plain object that a model keeps its keys in."""

    def __init__(self):
        self.layers = []


class KeptLayer:
    def __init__(self, keys, values):
        self.keys, self.values = keys, values


class Slots:
    __slots__ = ("memory", "note")

    def __init__(self, memory):
        self.memory, self.note = memory, "kept"


class Speaker(nn.Module):
    """One attention over all that it has read so far."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(23, 6), nn.Linear(6, 23)

    def forward(self, ids, cache):
        x = self.words(ids)[:, None]
        if cache.layers:
            layer = cache.layers[0]
            layer.keys, layer.values = torch.cat([layer.keys, x], 2), torch.cat([layer.values, x], 2)
        else:
            cache.layers.append(KeptLayer(x, x + 0))
        layer = cache.layers[0]
        return self.head(functional.scaled_dot_product_attention(x, layer.keys, layer.values)[:, 0])


@pytest.fixture(scope="module")
def spoken():
    torch.manual_seed(3)
    model, cache, ids = Speaker(), Kept(), torch.tensor([[2, 5, 7]])
    with record(model) as recorder, torch.no_grad():
        for _ in range(3):
            ids = model(ids, cache)[:, -1:].argmax(-1)
    return recorder.trace


def test_each_turn_is_a_pass_with_its_number(spoken):
    assert [(one.kind, one.number) for one in spoken.passes] == [("forward", 0), ("forward", 1), ("forward", 2)]


def test_what_is_kept_is_state_with_a_name_that_says_where_it_stands(spoken):
    kept = [record for record in spoken.passes[1].steps[0].inputs if record.role == "state"]

    assert [record.name for record in kept] == ["cache.0.key", "cache.0.value"]


def test_kept_tensors_grow_from_turn_to_turn(spoken):
    shapes = [[record.shape[2] for record in one.steps[0].inputs if record.role == "state"] for one in spoken.passes]

    assert shapes == [[], [3, 3], [4, 4]]


def test_a_kept_tensor_comes_from_the_step_of_an_earlier_turn(spoken):
    first, later = (
        {record.name: record.source for record in spoken.passes[number].steps[0].inputs} for number in (1, 2)
    )

    assert first["cache.0.value"] == "Speaker.add#0"
    assert later["cache.0.value"] == "forward1:Speaker.cat#1"


def test_what_extends_the_cache_reads_it_as_state(spoken):
    extend = spoken.passes[2].by_id["Speaker.cat#0"]

    assert [record.role for record in extend.inputs] == ["state", "activation"]


def test_the_chosen_word_and_the_words_read_are_told(spoken):
    chosen = [one.by_id["argmax#0"].outputs[0].preview.values for one in spoken.passes]
    read = [one.steps[0].inputs[0].preview.values for one in spoken.passes]

    assert read[0] == (2, 5, 7)
    assert chosen[:2] == read[1:]


def test_objects_with_slots_are_opened_too():
    class Reader(nn.Module):
        def forward(self, x, state):
            return x + state.memory

    top = trace(Reader(), torch.ones(3), Slots(torch.zeros(3))).steps[0]

    assert [(record.name, record.role) for record in top.inputs] == [("x", "activation"), ("state.memory", "state")]


def test_the_blocks_inside_do_not_repeat_the_whole_cache():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Speaker()

        def forward(self, ids, cache):
            return self.inner(ids, cache)

    model, cache = Outer(), Kept()
    model(torch.tensor([[1]]), cache)
    steps = {step.path: step for step in trace(model, torch.tensor([[2]]), cache).steps}

    assert len(steps["Outer"].inputs) == 3
    assert len(steps["inner"].inputs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True])
def test_generate_of_a_pretrained_class_shows_its_cache_turn_by_turn(static):
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    config = transformers.LlamaConfig(
        hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        vocab_size=101, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(3)
    model, ids = transformers.LlamaForCausalLM(config).eval(), torch.tensor([[5, 6, 7], [8, 9, 10]])
    settings = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    if static:
        settings["cache_implementation"] = "static"
    plain = model.generate(ids, **settings)

    with record(model) as recorder:
        recorded = model.generate(ids, **settings)

    assert torch.equal(plain, recorded)
    turns = recorder.trace.passes
    kept = [{r.name: r.shape[2] for r in turn.steps[0].inputs if r.name.endswith("0.key")} for turn in turns]
    lengths = (5, 5) if static else (3, 4)
    assert kept == [{}, *({"past_key_values.0.key": length} for length in lengths)]
