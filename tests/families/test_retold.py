"""Each family retold in the words of X-Ray's own model: its kind, layers and attention, all of it out of the record."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pytest
import torch
from families.recordings import RECORDINGS, recorded_writing
from families.specimens import BY_NAME
from printed import printed_shapes, recorded_shapes
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.retelling import retell

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
CASES = [
    pytest.param(name, phase, marks=() if phase == "inference" else pytest.mark.slow)
    for name in BY_NAME
    for phase in RECORDINGS
]
SITES = {
    "encoder": "encoder.layers.{}.self_attention.scores",
    "decoder": "decoder.layers.{}.self_attention.scores",
    "cross": "decoder.layers.{}.cross_attention.scores",
}

SIDES = {"encoder-decoder": ["decoder", "encoder"], "decoder-only": ["decoder"], "encoder-only": ["encoder"]}


@cache
def retold_of(name, phase):
    told = retell(RECORDINGS[phase](name))
    assert told is not None
    return told


@cache
def poster_of(name, phase):
    return compose_poster(RECORDINGS[phase](name), text_width)


def layers_of(told, side):
    paths = {step.path for one in told.trace.passes for step in one.steps}
    return sum(re.fullmatch(rf"{side}\.layers\.\d+", path) is not None for path in paths)


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_the_family_is_recognised(name, phase):
    assert retold_of(name, phase).family == BY_NAME[name].family


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_layer_is_found(name, phase):
    told = retold_of(name, phase)

    assert (layers_of(told, "encoder"), layers_of(told, "decoder")) == BY_NAME[name].layers


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_attention_stands_where_it_belongs(name, phase):
    specimen = BY_NAME[name]
    encoders, decoders = specimen.layers
    counts = {"encoder": encoders, "decoder": decoders, "cross": decoders}
    expected = {
        SITES[kind].format(layer): shape for kind, shape in specimen.scores.items() for layer in range(counts[kind])
    }

    steps = [step for one in retold_of(name, phase).trace.passes for step in one.steps]

    assert {step.path: step.outputs[0].shape for step in steps if step.path.endswith("attention.scores")} == expected


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_retold_tensor_that_is_not_derived_has_a_shape_that_was_recorded(name, phase):
    told = retold_of(name, phase)
    recorded = {record.shape for step in RECORDINGS[phase](name).steps for record in (*step.inputs, *step.outputs)}

    shapes = {record.shape for step in told.trace.steps if not step.settings.get("derived") for record in step.outputs}

    assert shapes <= recorded


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_retold_step_knows_the_recorded_one(name, phase):
    told = retold_of(name, phase)
    known = {step.id for step in RECORDINGS[phase](name).steps}

    origins = [(step.id, told.origins["forward"].get(step.id)) for one in told.trace.passes for step in one.leaves]

    assert [identity for identity, origin in origins if origin is None or origin.id not in known] == []


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_scores_say_their_axes(name, phase):
    told = retold_of(name, phase)

    axes = {
        step.path.split(".")[0] + ("+" if "cross" in step.path else ""): step.outputs[0].axes
        for step in told.trace.steps
        if step.path.endswith("attention.scores")
    }

    lengths = {"encoder": ("src_len", "src_len"), "decoder": ("tgt_len", "tgt_len"), "decoder+": ("tgt_len", "src_len")}
    assert axes == {side: ("batch", "heads", *lengths[side]) for side in axes}


@pytest.mark.parametrize("name", [name for name, one in BY_NAME.items() if "cross" in one.scores])
def test_cross_attention_reads_what_the_encoder_made(name):
    told = retold_of(name, "inference")
    one_pass = told.trace.passes[0]
    key = next(step for step in one_pass.steps if step.path == "decoder.layers.1.cross_attention.key")

    assert key.inputs[0].source is not None
    assert key.inputs[0].source.startswith("encoder.")


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_what_a_decoder_only_model_writes_is_a_turn_for_each_word(name):
    told = retell(recorded_writing(name))

    assert told is not None
    assert [(one.kind, one.number) for one in told.trace.passes] == [("decode", turn) for turn in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", ["T5", "BART", "Marian", "Whisper"])
def test_what_a_translator_writes_is_encoded_once_and_decoded_each_turn(name):
    told = retell(recorded_writing(name))

    assert told is not None
    turns = [("decode", turn) for turn in (1, 2, 3, 4)]
    assert [(one.kind, one.number) for one in told.trace.passes] == [("encode", 0), *turns]


@pytest.mark.parametrize("name", ["T5", "BERT", "Llama", "nn.Transformer"])
def test_names_of_modules_play_no_part(name):
    trace = RECORDINGS["training"](name)

    found, renamed = retell(trace), retell(rename(trace))

    assert found is not None
    assert renamed is not None
    assert Counter(step.path for step in renamed.trace.steps) == Counter(step.path for step in found.trace.steps)


def rename(trace):
    """The same trace with a meaningless word for each part of a path that a module gave its name."""
    words = {}

    def hide(path):
        return ".".join(words.setdefault(part, f"part{len(words)}") for part in path.split("."))

    def hide_id(identity):
        return None if identity is None else f"{hide(identity.rpartition('#')[0])}#{identity.rpartition('#')[2]}"

    def hide_records(records):
        return tuple(replace(one, source=hide_id(one.source)) for one in records)

    def hide_step(step):
        return replace(
            step,
            id=hide_id(step.id),
            path=hide(step.path),
            parent=hide_id(step.parent),
            module=words.setdefault(step.module, f"Part{len(words)}") if "orm" not in step.module else step.module,
            inputs=hide_records(step.inputs),
            outputs=hide_records(step.outputs),
        )

    passes = tuple(replace(one, steps=tuple(map(hide_step, one.steps))) for one in trace.passes)
    return replace(trace, passes=passes)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (nn.LSTM(5, 7), torch.randn(3, 2, 5)),
        (nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 7)), torch.randn(2, 3, 8, 8)),
        (nn.Sequential(nn.Linear(5, 7), nn.Softmax(-1)), torch.randn(2, 5)),
    ],
)
def test_what_is_no_transformer_is_not_retold(model, given):
    assert retell(xray.trace(model, given)) is None


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_the_family_is_drawn_as_the_poster(name, phase):
    layout = poster_of(name, phase)

    assert layout is not None
    painted = {box.on.split("_")[0] for box in layout.boxes}
    assert sorted(painted & {"encoder", "decoder"}) == SIDES[BY_NAME[name].family]


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_every_shape_on_the_poster_was_recorded_or_derived(name, phase):
    allowed = recorded_shapes(RECORDINGS[phase](name)) | recorded_shapes(retold_of(name, phase).trace)

    assert printed_shapes(poster_of(name, phase)) - allowed == set()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_scores_of_every_attention_are_on_the_poster(name):
    expected = {tuple(str(size) for size in shape) for shape in BY_NAME[name].scores.values()}

    assert expected <= printed_shapes(poster_of(name, "inference"))


@pytest.mark.parametrize("name", ["GPT-2", "BART"])
def test_what_was_written_is_drawn(name):
    drawn = ElementTree.fromstring(xray.render(recorded_writing(name), "svg"))

    assert len(list(drawn.iter())) > 200
