"""The trace reader given traces that were changed at random: a trace comes out, or one plain sentence."""

import json

import pytest
from trust.amount import try_many
from trust.mutations import change_bytes, change_tree
from trust.outcomes import assert_one_line

from xray import render
from xray.errors import XRayError
from xray.ir.json_form import trace_from_json, trace_to_json


def read_or_refuse(text):
    """The trace, or None after a refusal in one plain line."""
    try:
        return trace_from_json(text)
    except XRayError as error:
        assert_one_line(error)
        return None


@pytest.fixture(scope="module")
def short(trace_text):
    """The form of a trace of few steps: a mask, a softmax with its preview, a block, a loss."""
    tree = json.loads(trace_text)
    first = tree["passes"][0]
    wanted = ("src_mask", "tgt_mask", "encoder.layers.0.self_attention", "loss", "tokenize", "decoder.embedding")
    tree["passes"] = [first | {"steps": [step for step in first["steps"] if step["path"].startswith(wanted)][:24]}]
    seen = {step["id"] for step in tree["passes"][0]["steps"]}
    for step in tree["passes"][0]["steps"]:
        step["parent"] = step["parent"] if step["parent"] in seen else None
    return tree


def test_the_short_trace_is_one(short):
    assert len(trace_from_json(json.dumps(short)).passes[0].steps) == 24


def test_a_changed_tree_is_read_or_refused(short):
    def case(chance):
        trace = read_or_refuse(json.dumps(change_tree(chance, short)))
        assert trace is None or trace_from_json(trace_to_json(trace)) == trace

    try_many(2000, case)


def test_changed_bytes_are_read_or_refused(short):
    whole = json.dumps(short).encode()
    try_many(3000, lambda chance: read_or_refuse(change_bytes(chance, whole)))


def test_any_bytes_are_refused():
    def case(chance):
        assert read_or_refuse(chance.randbytes(chance.randrange(200))) is None

    try_many(1000, case)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"schema":' * 100_000, '{"schema": 1, "title": ' + "[" * 100_000])
def test_what_is_nested_without_end_is_refused(deep):
    assert read_or_refuse(deep) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["table", "json", "dot", "html"])
def test_a_changed_trace_is_drawn_or_refused(trace_text, form):
    tree = json.loads(trace_text)

    def case(chance):
        changed = read_or_refuse(json.dumps(change_tree(chance, tree, most=2)))
        if changed is not None:
            draw_or_refuse(changed, form)

    try_many(20, case)


def draw_or_refuse(trace, form):
    try:
        assert render(trace, form)
    except XRayError as error:
        assert_one_line(error)
