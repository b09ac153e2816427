from dataclasses import replace

from small_blocks import call, chain_of_layers, flat_chain, forward, layer, model_of, tensor

from xray.story.blocks.block_lines import list_entrances, list_exits, list_flows, thin_flows
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.opening import Choice


def ways(plan):
    names = [node.heads[0].path for node in plan.nodes]
    return {(names[flow.start], names[flow.end]) for flow in list_flows(plan)}


def test_each_way_between_two_nodes_is_drawn_once():
    first = call("net.first", "linear", [""], parent="net#0")
    twice = call("net.twice", "mul", [first.id, first.id], parent="net#0")
    assert ways(plan_blocks(model_of(first, twice))) == {("net.first", "net.twice")}


def test_a_folded_stack_is_entered_at_its_start_and_left_at_its_end():
    before = call("net.before", "linear", [""], parent="net#0")
    steps, source = [], before.id
    for number in range(3):
        steps += layer(f"net.layer{number}", source)
        source = steps[-1].id
    after = call("net.after", "linear", [source], parent="net#0")
    assert ways(plan_blocks(model_of(before, *steps, after))) == {
        ("net.before", "net.layer0.part0"),
        ("net.layer0.part0", "net.layer0.part1"),
        ("net.layer0.part1", "net.after"),
    }


def test_a_closed_block_takes_the_place_of_what_is_inside():
    steps, source = chain_of_layers(1)
    odd = layer("net.odd", source, ("conv2d",))
    assert ways(plan_blocks(model_of(*steps, *odd), Choice(depth=1))) == {("net.layer0", "net.odd")}


def test_what_is_given_to_the_model_comes_in_once():
    first = call("net.first", "linear", [""], parent="net#0")
    second = call("net.second", "tanh", [""], parent="net#0")
    (gate,) = list_entrances(plan_blocks(model_of(first, second)))
    assert (gate.kind, gate.name, gate.nodes) == ("input", "x", (0, 1))


def test_parameters_do_not_come_in():
    step = call("net.first", "linear", [""], parent="net#0")
    weight = tensor("weight", (7, 7), role="parameter")
    one_pass = model_of(replace(step, inputs=(*step.inputs, weight)))
    assert [gate.name for gate in list_entrances(plan_blocks(one_pass))] == ["x"]


def test_what_an_earlier_pass_made_is_said_to_come_from_before():
    step = call("net.first", "cat", [""], parent="net#0")
    cache = tensor("tensors.0", (2, 5), source="forward3:net.layers.0.cat#0")
    gates = list_entrances(plan_blocks(model_of(replace(step, inputs=(*step.inputs, cache)))))
    assert [(gate.kind, gate.name) for gate in gates if gate.kind == "before"] == [("before", "0.cat")]


def test_a_constant_of_a_step_stands_by_itself():
    step = call("net.first", "add", [""], parent="net#0")
    constant = tensor("other", (3,))
    gates = list_entrances(plan_blocks(model_of(replace(step, inputs=(*step.inputs, constant)))))
    assert [(gate.kind, gate.record.shape) for gate in gates] == [("input", (2, 7)), ("constant", (3,))]


def test_an_argument_is_told_apart_from_another_of_its_shape():
    first = call("net.first", "ne", [""], parent="net#0")
    second = call("net.second", "index", [""], parent="net#0")
    steps = [replace(one, inputs=(argument("input", name),)) for one, name in ((first, "ids"), (second, "times"))]
    root, *inner = model_of(*steps).steps
    root = replace(root, inputs=(argument("ids", "ids"), argument("times", "times")))

    gates = list_entrances(plan_blocks(forward(root, *inner)))
    assert [(gate.kind, gate.name, gate.nodes) for gate in gates] == [("input", "ids", (0,)), ("input", "times", (1,))]


def argument(name, of):
    return replace(tensor(name, (2, 7)), argument=of)


def test_the_models_outputs_leave_it():
    steps = flat_chain(3, ["linear", "relu", "tanh"])
    (gate,) = list_exits(plan_blocks(model_of(*steps)))
    assert (gate.kind, gate.name, gate.nodes) == ("output", "output", (2,))


def test_many_outputs_are_counted():
    steps = flat_chain(9, [f"op{number}" for number in range(9)])
    one_pass = model_of(*steps)
    root = replace(one_pass.steps[0], outputs=tuple(step.outputs[0] for step in steps))
    gates = list_exits(plan_blocks(forward(root, *one_pass.steps[1:])))
    assert (len(gates), gates[0].rest) == (4, 5)


def test_a_thicket_is_thinned_and_what_is_left_out_is_told():
    made = []
    for number in range(12):
        sources = [step.id for step in made] or [""]
        step = call(f"net.op{number}", f"op{number}", sources[:3], parent="net#0")
        made.append(replace(step, inputs=tuple(tensor(f"x{n}", (2, 7), one or None) for n, one in enumerate(sources))))
    plan = plan_blocks(model_of(*made))
    kept, left = thin_flows(plan, list_flows(plan))
    assert [flow.start for flow in kept if flow.end == 11] == [9, 10]
    assert left[11] == tuple(range(9))


def test_an_ordinary_drawing_is_not_thinned():
    plan = plan_blocks(model_of(*flat_chain(5, ["linear", "relu"])))
    flows = list_flows(plan)
    assert thin_flows(plan, flows) == (flows, {})
