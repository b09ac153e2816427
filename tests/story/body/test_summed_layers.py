"""Linear layers that are written as sums over an axis of rows and of a matrix, in layers with their heads first."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.projections import is_projection
from xray.story.anatomy.attentions import Attention
from xray.story.body.whole import anatomy
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, FIELDS, BATCH = 22, 2, 3, 5


class Layer(nn.Module):
    """Fields look at each other, and come by through a layer of their own (AutoInt)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.past = (nn.Parameter(torch.rand(WIDTH, WIDTH)) for _ in range(4))

    def forward(self, x):
        query, key, value = (
            torch.stack(torch.tensordot(x, one, dims=([-1], [0])).split(WIDTH // HEADS, dim=2))
            for one in (self.query, self.key, self.value)
        )
        weights = torch.einsum("bnik,bnjk->bnij", query, key).softmax(-1)
        found = torch.cat((weights @ value).split(1), dim=-1).squeeze(0)
        return torch.relu(found + torch.tensordot(x, self.past, dims=([-1], [0])))


class Fields(nn.Module):
    """Each column of one tensor of numbers is looked up in a table of its own."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(11 + number, WIDTH) for number in range(FIELDS))
        self.layers, self.out = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(FIELDS * WIDTH, 1)

    def forward(self, x):
        columns = (table(x[:, number : number + 1].long()) for number, table in enumerate(self.tables))
        rows = torch.cat(list(columns), dim=1)
        for layer in self.layers:
            rows = layer(rows)
        return self.out(rows.flatten(1))


@pytest.fixture(scope="module")
def fields():
    return xray.trace(Fields().eval(), torch.ones(BATCH, FIELDS + 4))


def test_layers_that_are_written_as_sums_are_a_tower(fields):
    (tower,) = anatomy(fields).towers

    assert (tower.layers, tower.d_model) == (2, WIDTH)
    assert [branch.heads for branch in tower.branches if isinstance(branch, Attention)] == [HEADS]


def test_heads_that_are_stacked_first_are_no_batch(fields):
    made = {step.id: step.outputs[0] for step in fields.steps if step.outputs}

    assert made["layers.0.softmax#0"].axes[:2] == ("heads", "batch")
    assert made["layers.0.softmax#0"].shape[:2] == (HEADS, BATCH)


def test_tables_that_read_a_column_each_are_led_to_by_what_holds_these(fields):
    (column,) = read_columns(fields)
    chart = column.entrance
    (given,) = (node for node in chart.nodes if node.row == 0)
    led = [chart.node(edge.target).label for edge in chart.edges if edge.source == given.key]

    assert given.record.shape == (BATCH, FIELDS + 4)
    assert led == ["TABLE LOOKUP"] * FIELDS


@pytest.mark.parametrize(
    ("sum_up", "is_layer"),
    [
        (lambda x, weight: torch.tensordot(x, weight, dims=([-1], [1])), True),
        (lambda x, weight: torch.tensordot(x, weight, dims=([1], [0])), False),
    ],
    ids=["the last axis", "another axis"],
)
def test_a_sum_over_an_axis_is_a_linear_layer_where_shapes_prove_that_it_is_the_last(sum_up, is_layer):
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3, 3))

        def forward(self, x):
            return sum_up(x * 2, self.weight)

    (forward,) = xray.trace(Sums(), torch.rand(2, 3, 7) if not is_layer else torch.rand(2, 7, 3)).passes
    flow = read_flow(forward)
    (place,) = (place for place, step in enumerate(flow.steps) if step.id == "Sums.tensordot#0")

    assert is_projection(flow, place) is is_layer
