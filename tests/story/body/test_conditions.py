"""One model has one anatomy, however it is called, named, or recorded."""

import sys
from dataclasses import replace

import pytest
import torch
from scrambled import scramble
from story.body.building import build_family, ids, record_family
from story.body.pairs import SMALL
from story.body.table import FAMILIES
from story.body.truth import list_differences

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Head, Link
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

WORDS = {"vocab_size": 131}
HEARD = {"max_source_positions": 20, "pad_token_id": 0, "num_mel_bins": 8}
TINY = {
    "llama": {
        "hidden_size": 48,
        "intermediate_size": 77,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 131,
    },
    "gpt2": {"n_embd": 48, "n_head": 3, "n_positions": 64} | WORDS,
    "bert": {"hidden_size": 48, "intermediate_size": 77, "num_attention_heads": 3} | WORDS,
    "t5": {"d_model": 48, "d_kv": 11, "num_heads": 3, "d_ff": 77} | WORDS,
    "whisper": SMALL | HEARD,
    "vit": {"hidden_size": 48, "intermediate_size": 77, "num_attention_heads": 3, "image_size": 32, "patch_size": 8},
}

NAMES = [pytest.param(name, marks=() if name == "llama" else pytest.mark.slow) for name in TINY]


def record_tiny(name, *, change=lambda model, given: (model, given), **config):
    family = replace(FAMILIES[name], tiny=True)
    config = TINY[name] | config
    settings, model, given = build_family(family, **config)
    model, given = change(model, given)
    with torch.no_grad():
        return settings, xray.trace(model, **given)


def use_eager(model, given):
    model.set_attn_implementation("eager")
    return model, given


def train(model, given):
    return model.train(), given


def use_half(model, given):
    return model.to(torch.bfloat16), {
        name: value.to(torch.bfloat16) if value.is_floating_point() else value for name, value in given.items()
    }


def make_longer(model, given):
    longer = {
        name: ids(13, batch=3) if name.endswith("input_ids") else torch.cat([value, value[:1]])
        for name, value in given.items()
    }
    return model, longer


def without_kernels(found):
    """An anatomy without what computed its attentions, and without what only the numbers of a table tell."""

    def settle(stage):
        return replace(
            stage,
            branches=tuple(
                replace(branch, kernel=None) if isinstance(branch, Attention) else branch for branch in stage.branches
            ),
        )

    towers = tuple(
        replace(
            tower,
            groups=tuple(replace(group, stages=tuple(map(settle, group.stages))) for group in tower.groups),
            entrance=tuple(replace(part, sines=None) for part in tower.entrance),
        )
        for tower in found.towers
    )
    return replace(found, towers=towers)


@pytest.mark.parametrize("change", [use_eager, train, use_half, make_longer])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "llama" else pytest.mark.slow) for name in TINY]
)
def test_a_model_called_otherwise_has_the_same_anatomy(name, change):
    settings, trace = record_tiny(name, change=change)

    found, truth = without_kernels(anatomy(trace)), without_kernels(FAMILIES[name].truth(settings))

    assert list_differences(found, truth) == []


def test_names_make_no_difference(both_trace):
    assert anatomy(scramble(both_trace)[0]) == anatomy(both_trace)


def test_the_chatbot_is_what_its_settings_say(training_trace):
    encoder, decoder = anatomy(training_trace).towers

    assert [encoder.name, decoder.name] == ["encoder", "decoder"]
    assert (encoder.causal, decoder.causal) == (False, True)
    assert [part.part for part in decoder.entrance] == ["words", "scale", "positions"]
    for tower in (encoder, decoder):
        (group,) = tower.groups
        assert (group.count, group.d_model, tower.final_norm) == (3, 32, None)
        assert {stage.norm.place for stage in group.stages} == {"after"}
    assert [branch.part for branch in decoder.branches] == ["attention", "attention", "feed_forward"]
    assert [(one.heads, one.d_k) for one in decoder.branches if isinstance(one, Attention)] == [(4, 8), (4, 8)]


def test_answering_shows_the_same_towers_as_training(training_trace, inference_trace):
    learning, answering = anatomy(training_trace), anatomy(inference_trace)

    def describe(found):  # what padding hides is of one pass alone
        return repr(found.towers).replace("partial=True", "partial=None").replace("hides=True", "hides=None")

    assert describe(answering) == describe(learning)
    assert answering.links == learning.links == (Link("memory", "encoder", "decoder"),)
    assert answering.params == learning.params


@pytest.mark.slow
def test_a_loop_that_writes_has_both_towers():
    family = replace(FAMILIES["t5"], tiny=True)
    _, model, given = build_family(family, **TINY["t5"], decoder_start_token_id=0, pad_token_id=0)
    with xray.record(model) as recorder:
        model.generate(given["input_ids"], max_new_tokens=3, do_sample=False)

    found = anatomy(recorder.trace)

    assert [tower.name for tower in found.towers] == ["encoder", "decoder"]
    assert found.links == (Link("memory", "encoder", "decoder"),)
    assert [one.source for one in found.towers[1].branches if isinstance(one, Attention)] == ["self", "encoder"]


@pytest.mark.parametrize("training", [True, False])
def test_torchs_own_transformer_has_both_towers(training):
    model = torch.nn.Transformer(32, 4, 2, 2, 77, batch_first=True).train(training)

    found = anatomy(xray.trace(model, torch.rand(2, 5, 32), torch.rand(2, 7, 32)))

    assert [(one.name, one.layers, one.final_norm) for one in found.towers] == [
        ("encoder", 2, "layer"),
        ("decoder", 2, "layer"),
    ]
    assert found.links == (Link("memory", "encoder", "decoder"),)
    assert {one.d_ff for tower in found.towers for one in tower.branches if isinstance(one, FeedForward)} == {77}
    assert found.head == Head("none")
    assert found.untold == ()


@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
@pytest.mark.slow
def test_work_grows_in_step_with_the_layers(name):
    work = [count_calls(record_family(FAMILIES[name], num_hidden_layers=layers)[1]) for layers in (4, 8, 16)]

    assert (work[2] - work[1]) < 2.2 * (work[1] - work[0])


def count_calls(trace):
    """How many functions are called to read a trace."""
    count = 0

    def note(frame, event, value):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        anatomy(trace)
    finally:
        sys.setprofile(before)
    return count


def test_rows_of_all_sequences_in_one_are_not_called_heads():
    model = torch.nn.Transformer(32, 4, 1, 1, 77, batch_first=True).eval()
    reading = read_pass(xray.trace(model, torch.rand(2, 5, 32), torch.rand(2, 7, 32)).passes[0])

    nodes = [node for staging in reading.towers[1].stagings for node in chart_stage(reading.flow, staging).nodes]

    assert {len(node.record.shape) for node in nodes if node.label.startswith("HEADS")} == {4}
