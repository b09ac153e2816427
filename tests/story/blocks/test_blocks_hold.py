"""What holds for every model, whatever its blocks: nothing is lost, nothing is folded that is not alike."""

from hypothesis import given
from hypothesis import strategies as st
from small_blocks import call, model_of
from trust.amount import cases

from xray.story.blocks.block_lines import list_entrances, list_exits, list_flows, thin_flows
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.items import NOBODY
from xray.story.blocks.opening import Choice
from xray.story.blocks.repeats import portray_steps

OPS = ("linear", "relu", "add", "cat")


@st.composite
def models(draw):
    """A model of nested blocks whose steps read what any step before them made; many are alike by chance."""
    made, steps, blocks = [], [], ["net#0"]
    for number in range(draw(st.integers(1, 40))):
        parent = draw(st.sampled_from(blocks[-3:]))
        path = f"{parent.removesuffix('#0')}.s{number}"
        if draw(st.integers(0, 4)) == 0:
            steps.append(call(path, "block", [made[-1] if made else ""], parent=parent, module="Block"))
            blocks.append(f"{path}#0")
            continue
        sources = [draw(st.sampled_from(["", *made[-3:]])) for _ in range(draw(st.integers(1, 2)))]
        steps.append(call(path, draw(st.sampled_from(OPS)), sources, parent=parent))
        made.append(steps[-1].id)
    return model_of(*steps)


choices = st.builds(Choice, st.one_of(st.none(), st.integers(0, 5)))


@cases(150)
@given(models(), choices)
def test_every_leaf_has_a_node(model, choice):
    plan = plan_blocks(model, choice)
    leaves = [place for place, held in enumerate(plan.tree.inside) if not held]
    assert all(plan.owners[place] != NOBODY for place in leaves)


@cases(150)
@given(models(), choices)
def test_what_stands_for_a_step_does_the_same(model, choice):
    plan = plan_blocks(model, choice)
    portraits = portray_steps(plan.tree)
    assert all(portraits[place] == portraits[shown] for place, shown in enumerate(plan.shown))


@cases(150)
@given(models(), choices)
def test_what_a_shown_step_reads_is_led_to_it(model, choice):
    plan = plan_blocks(model, choice)
    ways = {(flow.start, flow.end) for flow in list_flows(plan)}
    for place, step in enumerate(plan.tree.steps):
        end = plan.owners[place]
        if plan.shown[place] == place and end != NOBODY and step.id not in plan.one_pass.blocks:
            starts = {plan.owners[source] for source in plan.tree.sources[place] if source >= 0}
            assert {(start, end) for start in starts - {end, NOBODY}} <= ways


@cases(150)
@given(models(), choices)
def test_what_is_not_drawn_of_a_thicket_is_told(model, choice):
    plan = plan_blocks(model, choice)
    flows = list_flows(plan)
    kept, left = thin_flows(plan, flows)
    told = {(start, end) for end, starts in left.items() for start in starts}
    assert {(flow.start, flow.end) for flow in kept} | told == {(flow.start, flow.end) for flow in flows}


@cases(100)
@given(models())
def test_gates_lead_to_nodes_that_there_are(model):
    plan = plan_blocks(model)
    gates = (*list_entrances(plan), *list_exits(plan))
    assert all(0 <= node < len(plan.nodes) for gate in gates for node in gate.nodes)
