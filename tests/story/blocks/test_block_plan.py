import pytest
from measured import count_calls
from small_blocks import call, chain_of_layers, flat_chain, forward, layer, model_of

from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.story.blocks.block_plan import MOST_NEIGHBOURS, READABLE, plan_blocks
from xray.story.blocks.opening import Choice, check_choice


def outline(items):
    """The items as nested lists of kind, name and count."""
    return [(item.kind, item.heads[0].path, item.count, outline(item.inside)) for item in items]


def kinds(plan):
    return [(node.kind, node.heads[0].path) for node in plan.nodes]


@pytest.fixture
def two_layers():
    """A model of two layers that differ."""
    first = layer("net.first", "")
    return model_of(*first, *layer("net.second", first[-1].id, ("conv2d", "tanh")))


def test_depth_0_is_the_whole_model_as_one_node(two_layers):
    assert kinds(plan_blocks(two_layers, Choice(depth=0))) == [("closed", "net")]


def test_depth_1_opens_the_model_and_nothing_in_it(two_layers):
    assert kinds(plan_blocks(two_layers, Choice(depth=1))) == [("closed", "net.first"), ("closed", "net.second")]


def test_without_a_depth_a_small_model_is_opened_to_the_end(two_layers):
    plan = plan_blocks(two_layers)
    assert {kind for kind, _ in kinds(plan)} == {"step"}
    assert (plan.depth, plan.levels) == (2, 2)


def test_a_block_that_holds_one_block_alone_is_opened_together_with_it():
    body = call("net.body", "body", [""], parent="net#0", module="Body", params=11)
    core = call("net.body.core", "core", [""], parent=body.id, module="Core", params=11)
    steps = layer("net.body.core.layer", "", parent=core.id)
    plan = plan_blocks(model_of(body, core, *steps, call("net.pool", "mean", [steps[-1].id], parent="net#0")))
    assert {kind for kind, _ in kinds(plan)} == {"step"}


def test_a_drawing_that_shows_next_to_nothing_may_grow_taller_than_others():
    body = layer("net.body", "", [f"op{number}" for number in range(33)])
    assert {kind for kind, _ in kinds(plan_blocks(model_of(*body)))} == {"step"}
    before = flat_chain(10, lambda number: f"own{number}")
    plan = plan_blocks(model_of(*before, *layer("net.body", before[-1].id, [f"op{number}" for number in range(33)])))
    assert ("closed", "net.body") in kinds(plan)


def test_a_named_block_is_opened_with_all_around_it(two_layers):
    plan = plan_blocks(two_layers, Choice(depth=0, opened=("net.first",)))
    assert kinds(plan) == [("step", "net.first.part0"), ("step", "net.first.part1"), ("closed", "net.second")]


def test_a_closed_block_stays_closed_however_deep(two_layers):
    plan = plan_blocks(two_layers, Choice(depth=9, closed=("*.first",)))
    assert kinds(plan) == [("closed", "net.first"), ("step", "net.second.part0"), ("step", "net.second.part1")]


def test_opening_any_of_alike_layers_opens_the_one_that_is_drawn():
    steps, _ = chain_of_layers(3)
    plan = plan_blocks(model_of(*steps), Choice(depth=1, opened=("net.layer2",)))
    assert kinds(plan) == [("step", "net.layer0.part0"), ("step", "net.layer0.part1")]


def test_a_pattern_that_fits_no_block_is_refused(two_layers):
    trace = Trace("t", {}, {}, (two_layers,))
    with pytest.raises(UsageError, match=r"open='decoder.\*' fits no block. Blocks: net, net.first, net.second"):
        check_choice(trace, Choice(opened=("decoder.*",)))


def test_a_depth_below_0_is_refused(two_layers):
    with pytest.raises(UsageError, match=r"depth=-1 is below 0"):
        check_choice(Trace("t", {}, {}, (two_layers,)), Choice(depth=-1))


def test_alike_layers_stand_once():
    steps, _ = chain_of_layers(126)
    plan = plan_blocks(model_of(*steps))
    assert outline(plan.items) == [
        (
            "open",
            "net",
            1,
            [
                (
                    "open",
                    "net.layer0",
                    126,
                    [("step", "net.layer0.part0", 1, []), ("step", "net.layer0.part1", 1, [])],
                )
            ],
        )
    ]


def test_all_layers_stand_when_asked_for():
    steps, _ = chain_of_layers(5)
    assert len(plan_blocks(model_of(*steps), all_layers=True).nodes) == 10


def test_folds_nest():
    steps, source = [], ""
    for number in range(3):
        path = f"net.layer{number}"
        steps.append(call(path, "layer", [source], parent="net#0", module="Layer"))
        experts = [layer(f"{path}.expert{one}", source, parent=f"{path}#0") for one in range(4)]
        steps += [step for one in experts for step in one]
        steps.append(call(f"{path}.cat", "cat", [one[-1].id for one in experts], parent=f"{path}#0"))
        source = steps[-1].id
    model = model_of(*steps)
    frame = plan_blocks(model).items[0].inside[0]
    assert (frame.count, frame.inside[0].count, frame.inside[0].heads[0].path) == (3, 4, "net.layer0.expert0")


def test_every_step_has_a_node_unless_it_is_an_opened_block():
    steps, _ = chain_of_layers(7)
    plan = plan_blocks(model_of(*steps))
    without = {plan.tree.steps[place].op for place, owner in enumerate(plan.owners) if owner < 0}
    assert without == {"net", "layer"}


def test_a_folded_layers_steps_are_shown_by_those_of_the_first():
    steps, _ = chain_of_layers(4)
    plan = plan_blocks(model_of(*steps))
    assert plan.holder("net.layer3.part1#0") == plan.holder("net.layer0.part1#0") == 1


def test_a_block_that_only_wraps_another_stays_closed():
    inner = layer("net.outer.inner", "", parent="net.outer#0")
    model = model_of(call("net.outer", "outer", [""], parent="net#0", module="Outer"), *inner)
    assert kinds(plan_blocks(model, Choice(depth=2))) == [("closed", "net.outer")]


def test_layers_that_differ_in_size_only_stand_once_where_they_are_many():
    steps, source = [], ""
    for number in range(200):
        steps += layer(f"net.layer{number}", source, shape=(2, 7 + number))
        source = steps[-1].id
    plan = plan_blocks(model_of(*steps))
    frame = plan.items[0].inside[0]
    assert (frame.count, frame.differ) == (200, "sizes")
    first = plan.variants[plan.tree.places["net.layer0.part0#0"]]
    assert [step.outputs[0].shape for step in first[::199]] == [(2, 7), (2, 206)]


def test_layers_that_do_not_differ_are_not_said_to_where_many_neighbours_do():
    steps, source = chain_of_layers(3)
    steps += layer("net.wide", source, ("conv2d", "tanh"))
    source = steps[-1].id
    for number in range(100):
        steps += layer(f"net.grown{number}", source, ("tanh",) * (1 + number % 7) + ("relu",) * (number // 7))
        source = steps[-1].id
    for number in range(9):
        steps += layer(f"net.last{number}", source, ("sin",), shape=(2, 7 + number))
        source = steps[-1].id
    inside = plan_blocks(model_of(*steps), Choice(depth=1)).items[0].inside
    assert [(item.count, item.differ) for item in inside if item.count > 1] == [(3, ""), (9, "sizes")]


def test_very_many_unlike_steps_are_gathered():
    ops = [f"op{number}" for number in range(1000)]
    plan = plan_blocks(model_of(*flat_chain(1000, ops)))
    assert len(plan.nodes) <= MOST_NEIGHBOURS < READABLE
    assert sum(len(node.heads) for node in plan.nodes) == 1000


def test_steps_from_one_line_are_gathered_together():
    ops = [f"op{number}" for number in range(120)]
    steps = flat_chain(120, ops)
    places = [f"model.py:{number // 12}" for number in range(120)]
    steps = [type(one)(**{**vars(one), "location": place}) for one, place in zip(steps, places, strict=True)]
    plan = plan_blocks(model_of(*steps))
    assert [{step.location for step in node.heads} for node in plan.nodes] == [{f"model.py:{n}"} for n in range(10)]


def test_many_operations_beside_the_model_are_one_bundle(two_layers):
    glue = [call(f"glue{number}", f"op{number}") for number in range(9)]
    plan = plan_blocks(forward(*glue, *two_layers.steps), Choice(depth=0))
    assert [(node.kind, len(node.heads)) for node in plan.nodes] == [("bundle", 9), ("closed", 1)]


def test_an_empty_pass_has_an_empty_plan():
    assert plan_blocks(forward()).items == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [1_500, 3_000, 12_000])
def test_a_model_that_hardly_repeats_is_planned_in_a_few_calls_for_each_step(steps):
    ops = [f"op{(number * 7919) % 1013 % 6}" for number in range(steps)]
    one_pass = model_of(*flat_chain(steps, ops))
    assert count_calls(lambda: plan_blocks(one_pass)) < 200 * steps
    assert len(plan_blocks(one_pass).nodes) <= READABLE
