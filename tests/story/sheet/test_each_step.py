"""Each step of a pass stands in a box, or is said to stand in none, or is of a kind that is left out."""

import re
from collections import Counter
from string import digits

import pytest
import torch
from recorded import FOLDER, recorded
from story.body.elsewhere import kept
from story.body.test_mistaken import FeedForwardPart
from story.body.test_streams_apart import CutInTwo, Joint
from story.sheet.test_unsaid import WIDTH, Layer
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from unsaid import list_unsaid

import xray
from xray.ir.flow.attention_sites import hides_places
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.ir.kinds import only_moves
from xray.story.body.towers import list_results
from xray.story.cards.boxless import find_unsaid, list_drawn_once, list_stood_for, span_stage
from xray.story.charts.sum_chart import list_behind
from xray.story.facts.unsaid import is_bias, is_lost, list_of_numbers
from xray.story.recognition.between import is_times_one, puts_around
from xray.story.regions.drawn_steps import list_drawn
from xray.story.sheet.columns import read_columns

NAMES = sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir())


def is_left_out(flow, node):
    """Whether a step is of a kind that no list tells: moves, what changes nothing or leads nowhere, masks and ids."""
    op = flow.op(node)
    moves = op in CARRYING | DROPOUTS or (
        only_moves(op) and not puts_around(flow, node) and not hides_places(flow, node)
    )
    changes_nothing = is_times_one(flow, node) or is_bias(flow, node) or flow.steps[node].settings.get("other") == 0
    is_of_masks = not flow.output(node).is_float or node not in list_of_numbers(flow)
    return not flow.is_leaf(node) or moves or changes_nothing or is_of_masks or is_lost(flow, node)


def list_alike(flow, phases):
    """The steps for which the boxes of others stand: of like layers, and what the box of a sum holds beside it."""
    open_ones = {id(panel.staging) for one in phases for frame in one.frames for panel in frame.panels if panel.is_open}
    found = set().union(*map(list_drawn_once, phases), *map(list_stood_for, phases))
    for staging in (staging for one in phases for staging in one.towering.stagings):
        found |= {*list_behind(flow, staging), *staging.past}
        found |= set() if id(staging) in open_ones else {*staging.nodes, *span_stage(staging)}
    return found


def list_missed(columns):
    """The steps of all passes of which nothing is told."""
    drawn, missed = list_drawn(columns), []
    unsaid = [(flow, {*nodes}) for _, flow, nodes in find_unsaid(columns)]
    phases = [phase for column in columns for phase in column.phases]
    for flow in {id(phase.reading.flow): phase.reading.flow for phase in phases}.values():
        told = list_alike(flow, [phase for phase in phases if phase.reading.flow is flow])
        told = told.union(*(nodes for other, nodes in unsaid if other is flow))
        left = (node for node in range(len(flow.steps)) if node not in told and not is_left_out(flow, node))
        missed += [flow.steps[node].id for node in left if flow.steps[node].id not in drawn[id(flow)]]
    return missed


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_no_step_of_a_recorded_run_is_missed(name):
    assert list_missed(read_columns(recorded(name))) == []


def list_twice(columns):
    """The steps of a pass that stand in boxes of two charts; what is given to a box is told where it is read."""
    found = Counter()
    for phase in (phase for column in columns for phase in column.phases):
        for chart in phase.charts:
            boxes = (node for node in chart.nodes if node.key.rstrip(digits) != "given")
            found.update({(id(phase.reading.flow), step.id) for node in boxes for step in node.steps})
    return [step for (_, step), times in found.items() if times > 1]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_no_step_of_a_recorded_run_stands_in_two_charts(name):
    assert list_twice(read_columns(recorded(name))) == []


def list_astray(phase):
    """The lowest boxes above a tower's layers, by their paths, to which a line leads from these, and that read none."""
    chart, flow, own = phase.exit, phase.reading.flow, phase.towering.nodes | list_results_of(phase)
    boxed = {flow.places[step.id] for node in chart.nodes for step in node.steps if step.id in flow.places}
    found = []
    for node in (chart.node(key) for key in chart.feet if key not in chart.memory):
        steps = {flow.places[step.id] for step in node.steps if step.id in flow.places}
        free = set(range(len(flow.steps))) - boxed | steps | own
        way = {*flow.behind(*steps, within=free.__contains__, ends=own.__contains__)}
        found += [node.steps[0].path] if steps and way.isdisjoint(own) else []
    return found


def list_results_of(phase):
    """What the layers of a tower end with."""
    return {*list_results(phase.reading.flow, phase.towering), phase.towering.last_layer}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_no_line_leads_from_the_layers_of_a_recorded_run_to_what_does_not_read_them(name):
    phases = [phase for column in read_columns(recorded(name)) for phase in column.phases if phase.exit is not None]

    assert [path for phase in phases for path in list_astray(phase)] == []


def name_likes(step):
    """What a step does, where in its layer, and the how manieth there: the same in all layers but for their numbers."""
    return re.sub(r"\d+", "N", step.path), step.op, step.id.rpartition("#")[-1]


def count_recorded(columns):
    """How often each operation runs that is said to stand in no box, in all layers that do it: each step once."""
    drawn, found, listed = list_drawn(columns), Counter(), {}
    flows = {id(flow): (flow, listed.setdefault(id(flow), set())) for _, flow, _ in find_unsaid(columns)}
    for _, flow, nodes in find_unsaid(columns):
        listed[id(flow)].update(name_likes(flow.steps[node]) for node in nodes)
    for key, (flow, likes) in flows.items():
        apart = (node for node, step in enumerate(flow.steps) if flow.is_leaf(node) and step.id not in drawn[key])
        found.update(flow.op(node).rstrip("_") for node in apart if name_likes(flow.steps[node]) in likes)
    return found


def count_told(columns):
    """How often each operation is said to stand in no box, of all parts."""
    return sum((ops for _, ops in list_unsaid(columns)), Counter())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_what_stands_in_no_box_is_counted_as_often_as_it_was_recorded(name):
    columns = read_columns(recorded(name))

    assert count_told(columns) == count_recorded(columns)


@pytest.mark.parametrize("name", ["AuraFlowTransformer2DModel", "davit_tiny", "tnt_s_patch16_224"])
def test_what_streams_leave_out_is_counted_as_often_as_it_was_recorded(name):
    columns = read_columns(kept(name)[0])

    assert count_told(columns) == count_recorded(columns) != {}


class OneByOne(Joint):
    """Two streams attend together, each of a batch by itself; the last layer goes on with one of them (Mochi).

    Keys are weighed by what a linear layer makes of places alone.
    """

    def __init__(self):
        super().__init__()
        self.other_out, self.other_think, self.is_last = Joint().out, FeedForwardPart(), False
        self.places = nn.Linear(1, 1)

    def forward(self, one, other):
        rows = torch.cat([self.norm(one), self.norm(other)], dim=1)
        q, k, v = (layer(rows).unflatten(-1, (3, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k = k * self.places(torch.linspace(0, 1, k.shape[2])[:, None]).sin()
        each = [scaled_dot_product_attention(*(part[i : i + 1] for part in (q, k, v))) for i in range(len(q))]
        found = torch.cat(each).transpose(1, 2).flatten(-2)
        one = self.think(one + self.out(found[:, : one.shape[1]]))
        return one, None if self.is_last else self.other_think(other + self.other_out(found[:, one.shape[1] :]))


def test_what_layers_of_two_streams_leave_out_counts_for_that_which_has_more_of_them():
    model = CutInTwo(OneByOne)
    (*_, last) = model.layers
    assert isinstance(last, OneByOne)
    last.is_last = True
    columns = read_columns(xray.trace(model.eval(), torch.randn(2, 5, 7), torch.randn(2, 3, 4, 4)))

    assert [len({*column.towering.sums}) for column in columns] == [6, 4]
    told = count_told(columns)
    assert told == count_recorded(columns)
    assert (told["softmax"], told["sin"]) == (3, 3)


class Given(nn.Module):
    """The highest number of each row is taken for given, and taken off (Performer)."""

    def forward(self, x):
        return x - torch.sin(x).amax(-1, keepdim=True).detach()


class Raised(nn.Module):
    """A learned row is added to a product, in no linear layer; the highest number of each row is taken for given."""

    def __init__(self):
        super().__init__()
        self.weight, self.row = nn.Parameter(torch.rand(50, 50)), nn.Parameter(torch.rand(1, 1, 50))

    def forward(self, x):
        return x - (self.row + x @ self.weight).amax(-1, keepdim=True).detach()


class Apart(nn.Module):
    """Layers, and how far the rows that come in are from nothing, with which the last are multiplied (iTransformer)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(Layer(nn.Identity()) for _ in range(2)))

    def forward(self, x):
        return self.layers(x) * (x.var(1, keepdim=True) + 1).log()


def weigh(x):
    """Numbers are kept where they are below what is bent of them: flags of two tensors (ST-MoE)."""
    return x * (x < torch.sin(x)).float()


def unsaid_of(model):
    columns = read_columns(xray.trace(model.eval(), torch.rand(2, 5, WIDTH)))
    assert list_missed(columns) == []
    return dict(list_unsaid(columns))


@pytest.mark.parametrize(
    ("between", "told"),
    [
        (Given(), {"sin": 2, "amax": 2}),
        (Raised(), {"matmul": 2, "add": 2, "amax": 2}),
        (weigh, {"lt": 2, "sin": 2}),
        (nn.Identity(), {}),
    ],
)
def test_what_is_taken_for_given_and_flags_of_two_tensors_are_told(between, told):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Layer(between), Layer(between), nn.Linear(WIDTH, 12))

    (ops,) = unsaid_of(model).values() or [{}]
    assert {op: ops[op] for op in told} == told


def test_what_runs_within_no_part_is_told_too():
    assert unsaid_of(Apart())["elsewhere"]["log"] == 1


class Lost(nn.Module):
    """A loss that is written out: one number of all scores (x-transformers)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Layer(nn.Identity()) for _ in range(2)))

    def forward(self, x):
        return -torch.log(self.layers(x).softmax(-1)).sum()


def test_the_steps_to_one_number_of_all_stand_in_its_box():
    columns = read_columns(xray.trace(Lost(), torch.randn(2, 5, WIDTH)))

    (drawn,) = list_drawn(columns).values()
    assert {"sum", "neg"} <= {step.split("/")[-1].split(".")[-1].split("#")[0] for step in drawn}
    assert not list_missed(columns)
