from dataclasses import replace
from xml.etree import ElementTree

import pytest
from drawn import overlapping_texts, read_drawing
from small_blocks import blind_attention, call, chain_of_layers, flat_chain, layer, model_of, tensor

from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.renderers.render import render
from xray.renderers.sheet.poster import draw_poster
from xray.renderers.themes import load_theme
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.opening import Choice
from xray.story.compare.difference import diff
from xray.story.compare.marks import mark_changes

DEEP = Choice(depth=9)


@pytest.fixture(scope="module")
def stranger(training_trace):
    """The steps of one encoder layer alone, in a forward pass; drawn by blocks when asked for."""
    whole = training_trace.passes[0]
    kept = [step for step in whole.steps if step.path.startswith("encoder.layers.0")]
    ids = {step.id for step in kept}
    steps = tuple(replace(step, parent=step.parent if step.parent in ids else None) for step in kept)
    return Trace(title='A <b>model</b> "];', sizes={}, config={}, passes=(replace(whole, kind="forward", steps=steps),))


def draw(trace, form="svg", blocks=DEEP, **options):
    return draw_poster(trace, form, blocks=blocks, **options)


def small(*steps):
    return Trace("Small", {}, {}, (model_of(*steps),))


def texts_of(svg):
    return {(text.text or "").strip() for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("}text")}


def test_every_leaf_of_a_strange_model_is_drawn(stranger):
    texts = texts_of(draw(stranger))
    assert {step.path.rpartition(".")[2] for step in stranger.passes[0].leaves} <= texts


def test_a_model_that_is_no_transformer_is_drawn_by_blocks_without_being_asked():
    steps, _ = chain_of_layers(3)
    assert {"layer0 … layer2", "× 3"} <= texts_of(draw_poster(small(*steps), "svg"))


@pytest.mark.parametrize("both", [False, True])
def test_a_closed_block_of_several_outputs_tells_the_one_that_goes_on_alone(both):
    body, first, second = layer("net.body", "", ("conv2d", "conv2d"))
    first = replace(first, outputs=(tensor("out", (2, 5, 11), first.id),))
    second = replace(second, outputs=(tensor("out", (2, 3, 13), second.id),))
    body = replace(body, outputs=(*first.outputs, *second.outputs))
    steps = (body, first, second, call("net.pool", "mean", [second.id], (2, 3, 13), parent="net#0"))
    steps += (call("net.pool", "mean", [first.id], (2, 5, 11), parent="net#0"),) * both
    texts = texts_of(draw(small(*steps), blocks=Choice(depth=1)))
    assert f"11 parameters, 2 steps inside{', output 2 of 2 goes on' * (not both)}" in texts
    assert "13" in texts
    assert ("11" in texts) == both


def test_the_title_of_a_strange_model_is_shown_as_it_is(stranger):
    assert 'A <b>model</b> "];' in texts_of(draw(stranger))


@pytest.mark.parametrize("form", ["png", "pdf", "dot"])
def test_a_strange_model_comes_in_every_form(stranger, form):
    assert len(draw(stranger, form, dpi=40)) > 1_000


def test_no_text_covers_another(stranger):
    assert overlapping_texts(read_drawing(draw(stranger))) == []


def test_a_trace_without_steps_can_be_drawn(stranger):
    empty = replace(stranger, passes=(replace(stranger.passes[0], steps=()),))
    assert 'A <b>model</b> "];' in texts_of(draw(empty))


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
    assert {"THE FORWARD FAILED HERE", "FAILED HERE", "[128]", "[64]", "RuntimeError: no"} <= texts_of(draw(failed))


def test_a_failure_that_is_not_about_shapes_is_still_marked(stranger):
    path = "encoder.layers.0.self_attention.softmax"
    texts = texts_of(draw(broken(stranger, path, "ValueError: <odd>")))
    assert {"FAILED HERE", "ValueError: <odd>"} <= texts


def test_a_failure_in_a_closed_block_is_marked_there(stranger):
    path = "encoder.layers.0.self_attention.softmax"
    texts = texts_of(draw(broken(stranger, path, "ValueError: <odd>"), blocks=Choice(depth=1)))
    assert "FAILED HERE" in texts


def test_what_changed_is_outlined_and_listed(stranger):
    after = with_steps(
        stranger, lambda step: replace(step, outputs=()) if step.path.endswith("feed_forward.activation") else step
    )
    svg = draw(after, marks=mark_changes(diff(stranger, after), after))
    assert {"1 STEP CHANGED", "1 · CHANGED"} <= texts_of(svg)
    assert load_theme().lines["change"].lower() in svg.lower()


def forward_of(training_trace):
    return replace(training_trace, passes=(replace(training_trace.passes[0], kind="forward"),))


def test_alike_layers_are_drawn_once(training_trace):
    texts = texts_of(draw(forward_of(training_trace)))
    assert {"layers.0 … layers.2", "× 3"} <= texts
    assert "decoder.layers.1.self_attention" not in texts


def test_all_layers_are_drawn_when_asked_for(training_trace):
    texts = texts_of(draw(forward_of(training_trace), all_layers=True))
    assert {"layers.0", "layers.1", "layers.2"} <= texts


def test_what_follows_a_folded_stack_is_joined_to_it(training_trace):
    trace = forward_of(training_trace)
    plan = plan_blocks(trace.passes[0], DEEP)
    start = plan.holder("decoder.layers.2.feed_forward_norm#0")
    assert start == plan.holder("decoder.layers.0.feed_forward_norm#0")
    assert f"p0_n{start} -> p0_n{plan.holder('head#0')} " in draw(trace, "dot")


def test_a_closed_block_says_what_is_inside():
    steps, _ = chain_of_layers(1, ops=("linear", "relu", "tanh"))
    texts = texts_of(draw(small(*steps), blocks=Choice(depth=1)))
    assert {"layer0", "11 parameters, 3 steps inside", "Layer"} <= texts


def test_the_user_reads_where_in_the_code_a_step_is():
    steps = [replace(one, location="deep/folder/model.py:41") for one in flat_chain(1, ["linear"])]
    assert "model.py:41" in " ".join(texts_of(draw(small(*steps))))


def test_a_line_inside_torch_is_not_told():
    steps = [replace(one, location="torch/nn/modules/container.py:253") for one in flat_chain(1, ["linear"])]
    assert "container" not in " ".join(texts_of(draw(small(*steps))))


def test_a_mask_says_what_it_hides_and_what_true_means():
    texts = texts_of(draw(small(*blind_attention())))
    assert {"1 ALARM", "ALARM: rows see nothing"} <= texts


def test_many_turns_are_one_frame_with_a_row_for_each():
    def turn(number):
        steps = flat_chain(2, ["linear", "relu"])
        return replace(model_of(*steps, shape=(1, number + 2)), number=number)

    trace = Trace("Turns", {}, {}, tuple(map(turn, range(60))))
    assert {"passes 1 to 60", "× 60", *map(str, range(1, 61))} <= texts_of(draw(trace))


def test_passes_that_are_all_unlike_are_counted():
    def other(number):
        steps = flat_chain(2, [f"op{number}"])
        return replace(model_of(*(replace(one, module=f"M{number}") for one in steps)), number=number)

    passes = tuple(
        replace(one, steps=tuple(replace(step, id=f"{step.id}{one.number}", parent=None) for step in one.steps))
        for one in map(other, range(12))
    )
    assert "and 4 passes that are unlike these, not drawn" in texts_of(draw(Trace("Many", {}, {}, passes)))


def test_the_public_door_chooses_the_blocks():
    steps, _ = chain_of_layers(1)
    closed = render(small(*steps), "svg", depth=9, close=["net.layer*"])
    assert "11 parameters, 2 steps inside" in texts_of(closed)
    assert "part1" in texts_of(render(small(*steps), "svg", depth=0, open=["*.layer0"]))


def test_a_transformer_is_drawn_by_blocks_when_asked_for(training_trace):
    assert "closed block" not in texts_of(render(training_trace, "svg"))
    assert "closed block" in texts_of(render(training_trace, "svg", blocks=True))


def test_a_pattern_that_fits_nothing_is_told(training_trace):
    with pytest.raises(UsageError, match="close='nothing' fits no block"):
        render(training_trace, "svg", close=["nothing"])


@pytest.mark.slow
def test_twelve_thousand_unlike_steps_make_a_small_drawing():
    ops = [f"op{number * number % 9973}" for number in range(12_000)]
    assert len(draw_poster(small(*flat_chain(12_000, ops)), "svg")) < 200_000


def convolution(step, **settings):
    given = {"kernel_size": "3x3", "stride": "1x1", "groups": 1, "in_channels": 6}
    return replace(step, settings=step.settings | given | settings)


def test_a_closed_block_of_few_steps_names_them_with_their_kernels():
    body, first, second = layer("net.body", "", ("conv2d", "conv2d"))
    norm = call("net.body.norm", "batch_norm2d", [second.id], (2, 3, 13), parent=body.id)
    first = convolution(first, groups=6, stride="2x2")
    steps = body, first, convolution(second, kernel_size="1x1"), norm
    after = call("net.pool", "mean", [norm.id], (2, 3, 13), parent="net#0")
    texts = texts_of(draw(small(*steps, after), blocks=Choice(depth=1)))

    assert {"conv2d 3×3 by channel step 2, conv2d 1×1,", "batch_norm2d"} <= texts


def test_a_closed_block_names_the_step_along_each_axis_where_it_moves_on_along_one_alone():
    body, first, second = layer("net.body", "", ("conv2d", "conv2d"))
    steps = body, convolution(first, stride="2x1"), convolution(second, kernel_size="1x1")
    after = call("net.pool", "mean", [second.id], (2, 3, 13), parent="net#0")
    texts = texts_of(draw(small(*steps, after), blocks=Choice(depth=1)))

    assert "conv2d 3×3 step 2×1, conv2d 1×1" in texts


def test_a_convolution_that_stands_alone_tells_its_kernel_too():
    body, first = layer("net.body", "", ("conv2d",))
    second = convolution(call("net.last", "conv2d", [first.id], (2, 3, 13), parent="net#0"), kernel_size="5x5")
    texts = texts_of(draw(small(body, convolution(first, groups=6), second), blocks=Choice(depth=1)))

    assert {"conv2d 3×3 by channel", "conv2d 5×5"} <= {text.strip("\xa0 ") for text in texts}


def test_neighbours_that_all_read_the_same_say_so_where_they_stand_together():
    before = call("net.stem", "relu", [], (2, 3, 13), parent="net#0")
    steps, last = [before], before
    for number in range(3):
        made = call(f"net.way{number}", "linear", [before.id], (2, 3, 13), parent="net#0")
        last = call(f"net.sum{number}", "add", [made.id, last.id], (2, 3, 13), parent="net#0")
        steps += [made, last]
    in_a_row = [before]
    for number in range(3):
        made = call(f"net.way{number}", "linear", [in_a_row[-1].id], (2, 3, 13), parent="net#0")
        in_a_row += [made, call(f"net.sum{number}", "add", [made.id, in_a_row[-1].id], (2, 3, 13), parent="net#0")]

    assert {"together", "each of the same input"} <= texts_of(draw(small(*steps)))
    assert "together" in texts_of(draw(small(*in_a_row)))
    assert "each of the same input" not in texts_of(draw(small(*in_a_row)))


def test_a_frame_around_neighbours_does_not_tell_the_shapes_of_the_block_around_it():
    steps = [call("net.stem", "relu", [], (2, 3, 13), parent="net#0")]
    for number in range(3):
        made = call(f"net.way{number}", "linear", [steps[-1].id], (2, 3, 13), parent="net#0")
        steps += [made, call(f"net.sum{number}", "add", [made.id, steps[-1].id], (2, 3, 13), parent="net#0")]
    frames = [one for one in ElementTree.fromstring(draw(small(*steps))).iter() if one.get("class") == "cluster"]

    told = {bool(one.findall("{*}title")) for one in frames if "together" in one.itertext()}

    assert (len(frames), told) == (2, {False})
