"""Layers in groups: alike neighbours together, others apart, and in what they differ."""

from dataclasses import replace

import pytest
from changed_traces import resize
from recorded import recorded

from xray.story.journey import read_tale
from xray.story.layer_groups import group_layers


@pytest.fixture(scope="module")
def trace():
    return recorded("three layers, two turns")


def change_step(trace, kind, path, change):
    passes = tuple(
        replace(one, steps=tuple(change(step) if step.path == path else step for step in one.steps))
        if one.kind == kind
        else one
        for one in trace.passes
    )
    return replace(trace, passes=passes)


def groups_of(trace, side="encoder", **options):
    tale = read_tale(trace)
    return group_layers(tale.encoder if side == "encoder" else tale.decoder, **options)


def test_alike_layers_are_one_group(trace):
    assert [group.layers for group in groups_of(trace)] == [(0, 1, 2)]


def test_asked_for_all_each_layer_is_a_group_without_a_difference(trace):
    groups = groups_of(trace, all_layers=True)

    assert [(group.layers, group.unlike) for group in groups] == [((0,), ""), ((1,), ""), ((2,), "")]


def test_a_layer_of_another_width_stands_apart(trace):
    groups = groups_of(resize(trace, "encoder.layers.2", d_ff=64))

    assert [(group.layers, group.unlike) for group in groups] == [
        ((0, 1), ""),
        ((2,), "feed_forward.expand: 8×10×64, not 8×10×128"),
    ]


def test_one_pass_that_differs_is_enough(trace):
    path = "decoder.layers.1.feed_forward.activation"
    odd = change_step(trace, "decode", path, lambda step: replace(step, op="gelu"))

    assert [(group.layers, group.unlike) for group in groups_of(odd, "decoder")] == [
        ((0,), ""),
        ((1,), "feed_forward.activation: gelu, not relu"),
        ((2,), "feed_forward.activation: relu, not gelu"),
    ]


def test_another_setting_is_told(trace):
    path = "encoder.layers.1.self_attention.dropout"
    odd = change_step(trace, "training", path, lambda step: replace(step, settings={**step.settings, "p": 0.5}))

    assert groups_of(odd)[1].unlike == "self_attention.dropout: p 0.5, not 0.0"


def test_other_parameters_are_told(trace):
    path = "encoder.layers.1.feed_forward.expand"
    odd = change_step(trace, "training", path, lambda step: replace(step, params=step.params + 1))

    assert groups_of(odd)[1].unlike == "feed_forward.expand: 4,225 parameters, not 4,224"


def test_a_step_that_is_missing_is_told(trace):
    whole = trace.passes[0]
    steps = tuple(step for step in whole.steps if step.path != "encoder.layers.2.self_attention.mask")
    odd = replace(trace, passes=(replace(whole, steps=steps), *trace.passes[1:]))

    assert groups_of(odd)[1].unlike == "no self_attention.mask"


def test_layers_are_counted_from_one(trace):
    assert [group.title for group in groups_of(resize(trace, "encoder.layers.2", d_ff=64))] == ["LAYERS 1–2", "LAYER 3"]
