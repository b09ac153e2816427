from dataclasses import replace
from xml.etree import ElementTree

import pytest

from xray.ir.trace import Trace
from xray.renderers.modules import MOST_NODES, shown_steps
from xray.renderers.poster import draw_poster


@pytest.fixture(scope="module")
def stranger(training_trace):
    """A trace that is of no transformer we know: the encoder's steps alone, in a forward pass."""
    whole = training_trace.passes[0]
    kept = [step for step in whole.steps if step.path.startswith("encoder.layers.0")]
    ids = {step.id for step in kept}
    steps = tuple(replace(step, parent=step.parent if step.parent in ids else None) for step in kept)
    return Trace(title='A <b>model</b> "];', sizes={}, config={}, passes=(replace(whole, kind="forward", steps=steps),))


def texts_of(svg):
    return {text.text for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("}text")}


def test_every_leaf_of_a_strange_model_is_drawn(stranger):
    texts = texts_of(draw_poster(stranger, "svg"))
    assert {step.path.rpartition(".")[2] for step in stranger.passes[0].leaves} <= texts


def test_the_title_of_a_strange_model_is_shown_as_it_is(stranger):
    assert 'A <b>model</b> "];' in texts_of(draw_poster(stranger, "svg"))


@pytest.mark.parametrize("form", ["png", "pdf", "dot"])
def test_a_strange_model_comes_in_every_form(stranger, form):
    assert len(draw_poster(stranger, form, dpi=40)) > 1_000


def test_too_many_steps_are_folded_into_their_blocks(training_trace):
    one_pass = training_trace.passes[0]
    leaves = one_pass.leaves
    many = replace(one_pass, steps=one_pass.steps + tuple(replace(leaf, id=f"{leaf.id}x") for leaf in leaves))
    assert len(many.leaves) > MOST_NODES >= len(shown_steps(many))


def test_a_trace_without_steps_can_be_drawn(stranger):
    empty = replace(stranger, passes=(replace(stranger.passes[0], steps=()),))
    assert 'A <b>model</b> "];' in texts_of(draw_poster(empty, "svg"))
