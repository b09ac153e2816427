from dataclasses import replace
from xml.etree import ElementTree

import pytest

from xray.ir.trace import Trace
from xray.renderers.module_nodes import MOST_NODES, choose_nodes, shown_steps
from xray.renderers.poster import draw_poster
from xray.renderers.themes import load_theme
from xray.story.difference import diff
from xray.story.marks import mark_changes


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


def with_steps(trace, change):
    first = trace.passes[0]
    return replace(trace, passes=(replace(first, steps=tuple(map(change, first.steps))),))


def broken(trace, path, error):
    return with_steps(trace, lambda step: replace(step, outputs=(), error=error) if step.path == path else step)


def test_a_step_that_failed_shows_its_operands_with_the_misfit_in_brackets(stranger):
    failed = with_steps(
        stranger,
        lambda step: (
            replace(step, outputs=(), error="RuntimeError: no", settings={"in_features": 64, "out_features": 32})
            if step.path.endswith("feed_forward.contract")
            else step
        ),
    )
    texts = texts_of(draw_poster(failed, "svg"))
    assert {"THE FORWARD FAILED HERE", "FAILED HERE", "[128]", "[64]", "RuntimeError: no"} <= texts


def test_a_failure_that_is_not_about_shapes_is_still_marked(stranger):
    path = "encoder.layers.0.self_attention.softmax"
    texts = texts_of(draw_poster(broken(stranger, path, "ValueError: <odd>"), "svg"))
    assert {"FAILED HERE", "ValueError: <odd>"} <= texts


def test_what_changed_is_outlined_and_listed(stranger):
    after = with_steps(
        stranger, lambda step: replace(step, outputs=()) if step.path.endswith("feed_forward.activation") else step
    )
    svg = draw_poster(after, "svg", marks=mark_changes(diff(stranger, after), after))
    assert {"1 STEP CHANGED", "1 · CHANGED"} <= texts_of(svg)
    assert load_theme().lines["change"].lower() in svg.lower()


def forward_of(training_trace):
    return replace(training_trace, passes=(replace(training_trace.passes[0], kind="forward"),))


def test_alike_layers_are_drawn_once(training_trace):
    folded = draw_poster(forward_of(training_trace), "svg")
    assert "× 3" in "".join(text or "" for text in texts_of(folded))
    assert "decoder.layers.1.self_attention" not in texts_of(folded)


def test_all_layers_are_drawn_when_asked_for(training_trace):
    assert "decoder.layers.1.self_attention" in texts_of(
        draw_poster(forward_of(training_trace), "svg", all_layers=True)
    )


def test_what_follows_a_folded_stack_is_joined_to_it(training_trace):
    dot = draw_poster(forward_of(training_trace), "dot")
    nodes = choose_nodes(forward_of(training_trace).passes[0], 0)
    start = nodes.holder("decoder.layers.2.feed_forward_norm#0")
    assert start == nodes.names["decoder.layers.0.feed_forward_norm#0"]
    assert f"{start} -> {nodes.names['head#0']}" in dot
