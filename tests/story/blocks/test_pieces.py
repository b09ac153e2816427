from dataclasses import replace

import pytest
from small_blocks import call, layer, model_of, tensor

from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.opening import Choice, check_choice

WIDE, NARROW = (2, 5, 7), (2, 5, 1)


def shaped(step, *shapes, role="activation", **settings):
    """A step whose inputs have these shapes, the last of them being its output's, and these settings."""
    *ins, out = shapes
    inputs = [replace(one, shape=shape, axes=("",) * len(shape)) for one, shape in zip(step.inputs, ins, strict=True)]
    made = replace(step.outputs[0], shape=out, axes=("",) * len(out), role=role)
    return replace(step, inputs=tuple(inputs), outputs=(made,), settings=settings)


def spell_norm(path, source, parent):
    """An RMS norm in five steps."""
    square = shaped(call(f"{path}.pow", "pow", [source], parent=parent), WIDE, WIDE, other=2)
    mean = shaped(call(f"{path}.mean", "mean", [square.id], parent=parent), WIDE, NARROW, dim=-1)
    more = shaped(call(f"{path}.add", "add", [mean.id], parent=parent), NARROW, NARROW, other=1e-5)
    root = shaped(call(f"{path}.rsqrt", "rsqrt", [more.id], parent=parent), NARROW, NARROW)
    return [
        square,
        mean,
        more,
        root,
        shaped(call(f"{path}.mul", "mul", [source, root.id], parent=parent), WIDE, NARROW, WIDE),
    ]


def projected(path="net.project"):
    return shaped(replace(call(path, "linear", [""], parent="net#0"), params=49), WIDE, WIDE)


def spell_angles(parent="net#0"):
    """Cosine and sine of counted places."""
    count = shaped(call("net.arange", "arange", [], parent=parent), (5, 7), role="ids")
    return [
        count,
        shaped(call("net.cos", "cos", [count.id], parent=parent), (5, 7), (5, 7)),
        shaped(call("net.sin", "sin", [count.id], parent=parent), (5, 7), (5, 7)),
    ]


def spell_turn(source, parent="net#0"):
    """A rotary turn: a product with the cosine, a product of the row rolled with the sine, and their sum."""
    straight = shaped(call("net.mul", "mul", [source, "net.cos#0"], parent=parent), WIDE, (5, 7), WIDE)
    rolled = shaped(call("net.roll", "roll", [source], parent=parent), WIDE, WIDE)
    turned = shaped(call("net.mul", "mul", [rolled.id, "net.sin#0"], parent=parent, number=1), WIDE, (5, 7), WIDE)
    total = shaped(call("net.add", "add", [straight.id, turned.id], parent=parent), WIDE, WIDE, WIDE)
    return [straight, rolled, turned, total]


def spell_scores(source, parent="net#0"):
    """A product of rows with themselves."""
    return shaped(call("net.matmul", "matmul", [source, source], parent=parent), WIDE, WIDE, (2, 5, 5))


def pieces(plan):
    return [(node.kind, node.piece.words) for node in plan.nodes if node.piece is not None]


def a_normed_model():
    start = projected()
    block = shaped(call("net.anything", "anything", [start.id], parent="net#0", module="Anything"), WIDE, WIDE)
    return model_of(start, block, *spell_norm("net.anything", start.id, block.id), shape=WIDE)


def test_a_norm_in_a_block_of_its_own_is_one_box_however_deep():
    assert pieces(plan_blocks(a_normed_model(), Choice(depth=9))) == [("closed", "RMS norm, eps 1e-05")]


def test_a_norm_among_other_steps_is_one_box():
    start = projected()
    end = shaped(call("net.end", "tanh", ["net.mul#0"], parent="net#0"), WIDE, WIDE)
    plan = plan_blocks(model_of(start, *spell_norm("net", start.id, "net#0"), end, shape=WIDE))
    assert [(node.kind, node.piece and node.piece.words) for node in plan.nodes] == [
        ("step", None),
        ("bundle", "RMS norm, eps 1e-05"),
        ("step", None),
    ]


def test_steps_that_no_spread_goes_through_are_no_norm():
    start = projected()
    norm = spell_norm("net", start.id, "net#0")
    norm[1] = replace(norm[1], op="cumsum")
    assert pieces(plan_blocks(model_of(start, *norm, shape=WIDE))) == []


@pytest.mark.parametrize("path", ["net.anything", "net.anything.rsqrt", "*"])
def test_a_norm_is_opened_by_its_path_or_that_of_any_of_its_steps(path):
    plan = plan_blocks(a_normed_model(), Choice(opened=(path,)))
    assert pieces(plan) == []
    assert "net.anything.rsqrt" in [node.heads[0].path for node in plan.nodes]


def test_a_turn_and_its_angles_are_a_box_each():
    start = projected()
    turn = spell_turn(start.id)
    plan = plan_blocks(model_of(start, *spell_angles(), *turn, spell_scores(turn[-1].id), shape=WIDE))
    assert pieces(plan) == [("bundle", "rotary angles"), ("bundle", "rotary positions")]


def test_what_is_turned_and_meets_no_other_row_has_no_rotary_positions():
    start = projected()
    turn = spell_turn(start.id)
    weighed = shaped(replace(call("net.next", "linear", [turn[-1].id], parent="net#0"), params=49), WIDE, WIDE)
    plan = plan_blocks(model_of(start, *spell_angles(), *turn, weighed, spell_scores(weighed.id), shape=WIDE))
    assert pieces(plan) == [("bundle", "made of no data")]


def test_a_constant_that_others_read_is_no_part_of_the_angles():
    start = projected()
    angles = spell_angles()
    count = shaped(call("net.zeros", "zeros", [], parent="net#0"), WIDE)
    end = shaped(call("net.add", "add", ["net.add#0", count.id], parent="net#0", number=1), WIDE, WIDE, WIDE)
    steps = [*angles, count, *spell_turn(start.id), end, spell_scores(end.id)]
    plan = plan_blocks(model_of(start, *steps, shape=WIDE))
    told = [[step.path for step in node.heads] for node in plan.nodes if node.piece and node.piece.kind == "angles"]
    assert told == [["net.arange", "net.cos", "net.sin"]]


@pytest.mark.parametrize(
    ("op", "is_first", "told"),
    [
        ("embedding", True, "which are picked"),
        ("gather", False, "which are picked"),
        ("gather", True, "made of no data"),
    ],
)
def test_what_no_data_made_is_said_to_name_what_is_picked_where_it_does_and_not_of_what_it_counts(op, is_first, told):
    start = projected()
    steps = [shaped(call("net.arange", "arange", [], parent="net#0"), (5, 7), role="ids")]
    for number in range(3):
        source = [steps[-1].id]
        steps.append(shaped(call("net.expand", "expand", source, parent="net#0", number=number), (5, 7), (5, 7)))
    read = [steps[-1].id, start.id] if is_first else [start.id, steps[-1].id]
    end = shaped(call("net.end", op, read, parent="net#0"), (5, 7), (5, 7), WIDE)

    assert pieces(plan_blocks(model_of(start, *steps, end, shape=WIDE))) == [("bundle", told)]


@pytest.mark.parametrize(("op", "told"), [("arange", ["made of no data"]), ("tensor", [])])
def test_ids_that_a_model_makes_of_a_text_are_data(op, told):
    start = projected()
    ids = shaped(call("net.ids", op, [], parent="net#0"), (5, 7), role="ids")
    read = call("net.read", "embedding", [ids.id, start.id], parent="net#0")
    steps, source = [shaped(read, (5, 7), (5, 7), WIDE)], ids.id
    for number in range(4):
        steps.append(shaped(call("net.grown", "add", [source], parent="net#0", number=number), (5, 7), (5, 7)))
        source = steps[-1].id
    end = shaped(call("net.end", "mul", [start.id, source], parent="net#0"), WIDE, WIDE, (5, 7))

    found = [words for _, words in pieces(plan_blocks(model_of(start, ids, *steps, end, shape=WIDE)))]
    assert found == told


def test_a_product_with_a_learned_table_is_no_turn():
    start = projected()
    steps = spell_turn(start.id)
    learned = tensor("weight", (5, 7), role="parameter")
    steps[0] = replace(steps[0], inputs=(steps[0].inputs[0], learned))
    steps = [*spell_angles(), *steps, spell_scores(steps[-1].id)]
    assert ("bundle", "rotary positions") not in pieces(plan_blocks(model_of(start, *steps, shape=WIDE)))


def test_the_making_of_a_mask_is_one_box_and_its_use_is_not():
    start = projected()
    count = shaped(call("net.arange", "arange", [], parent="net#0"), (7,), role="ids")
    row = shaped(call("net.unsqueeze", "unsqueeze", [count.id], parent="net#0"), (7,), (7, 1), role="ids")
    later = shaped(call("net.gt", "gt", [row.id, count.id], parent="net#0"), (7, 1), (7,), (7, 7), role="mask")
    hide = shaped(call("net.hide", "masked_fill", [start.id, later.id], parent="net#0"), WIDE, (7, 7), WIDE)
    plan = plan_blocks(model_of(start, count, row, later, hide, shape=WIDE))
    assert [node.heads[0].path for node in plan.nodes] == ["net.project", "net.arange", "net.hide"]
    assert pieces(plan) == [("bundle", "making of the mask")]


@pytest.mark.parametrize("role", ["ids", "mask"])
def test_what_is_worked_out_of_given_edges_is_data(role):
    edges = shaped(call("net.ne", "ne", [""], parent="net#0"), (7,), (7,))
    edges = replace(edges, inputs=(replace(edges.inputs[0], role=role),))
    steps = [edges]
    for op in ("long", "sum", "clamp"):
        steps.append(shaped(call(f"net.{op}", op, [steps[-1].id], parent="net#0"), (7,), (7,)))
    end = shaped(call("net.end", "mul", ["", steps[-1].id], parent="net#0"), (7,), (7,), (7,))
    assert pieces(plan_blocks(model_of(*steps, end, shape=(7,)))) == []


def test_what_weighs_most_is_opened_first():
    light = layer("net.light", "", tuple(f"op{number}" for number in range(30)), params=1)
    heavy = layer("net.heavy", light[-1].id, tuple(f"op{number}" for number in range(20)), params=1000)
    plan = plan_blocks(model_of(*light, *heavy), room=25)
    closed = [node.heads[0].path for node in plan.nodes if node.kind == "closed"]
    assert closed == ["net.light"]


def test_a_block_inside_of_a_folded_layer_is_opened_where_that_is_drawn():
    steps, source = [], ""
    for number in range(3):
        path = f"net.layer{number}"
        steps.append(call(path, "layer", [source], parent="net#0", module="Layer"))
        inner = layer(f"{path}.inner", source, ("linear", "relu"), parent=f"{path}#0")
        outer = layer(f"{path}.outer", inner[-1].id, ("conv2d", "tanh"), parent=f"{path}#0")
        steps += [*inner, *outer]
        source = steps[-1].id
    plan = plan_blocks(model_of(*steps), Choice(depth=2, opened=("net.layer2.inner",)))
    assert [(node.kind, node.heads[0].path) for node in plan.nodes] == [
        ("step", "net.layer0.inner.part0"),
        ("step", "net.layer0.inner.part1"),
        ("closed", "net.layer0.outer"),
    ]


def test_a_path_that_fits_nothing_is_told_what_comes_near():
    trace = Trace("t", {}, {}, (a_normed_model(),))
    with pytest.raises(UsageError, match=r"open='net.anythin' fits no block. Near it: net.anything. "):
        check_choice(trace, Choice(opened=("net.anythin",)))


def test_a_single_step_may_be_opened_and_not_closed():
    trace = Trace("t", {}, {}, (a_normed_model(),))
    check_choice(trace, Choice(opened=("net.anything.mul",)))
    with pytest.raises(UsageError, match=r"close='net.anything.mul' fits no block"):
        check_choice(trace, Choice(closed=("net.anything.mul",)))
