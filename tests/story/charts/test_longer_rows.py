"""Keys and values of the rows that a stream had before they became fewer, as where queries alone are pooled."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.charts.sum_chart import describe_sizes
from xray.story.sentences.stations.of_stations import describe_station
from xray.story.sheet.columns import read_columns

PLACES = 9


class Pooled(nn.Module):
    """Rows of which two become one; these ask, and keys and values are made of all (Funnel)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        few = functional.avg_pool2d(x[:, None], (2, 1), stride=(2, 1), ceil_mode=True)[:, 0]
        query, key, value = (
            made.reshape(len(x), -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for made in (self.query(few), self.key(x), self.value(x))
        )
        return few + self.out(((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2))


def column_of(*parts):
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.rand(2, PLACES, WIDTH)))
    return column


def test_keys_of_more_rows_than_ask_are_of_the_stream_itself_and_say_how_many():
    column = column_of(AttentionPart(), FeedForwardPart(), Pooled(), FeedForwardPart())
    chart = column.frames[-1].panels[0].chart

    told = {node.key: node.told for node in chart.nodes if node.told}
    assert told == dict.fromkeys(("linear0_k", "linear0_v"), (f"of {PLACES} rows, before these became fewer",))
    assert not chart.memory
    assert {node.surface for node in chart.nodes} == {"own"}


def test_an_attention_whose_keys_have_more_rows_than_ask_says_so_in_its_station_and_where_it_stands_closed():
    layers = (AttentionPart(), FeedForwardPart(), Pooled(), FeedForwardPart())
    (tower,) = xray.anatomy(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, PLACES, WIDTH))).towers
    looks = [one for one in tower.branches if isinstance(one, Attention)]

    assert [one.longer_keys for one in looks] == [None, True]
    assert [describe_station(tower, one) for one in looks] == [
        "Every place looks at every other.",
        "Every place looks at all places that there were before these became fewer.",
    ]
    sizes = f"{HEADS} heads of {WIDTH // HEADS}"
    assert describe_sizes(looks[1]) == f"{sizes}, keys and values of the rows before these became fewer"


def test_a_pool_between_layers_is_drawn_be_the_rows_not_divided_evenly():
    column = column_of(AttentionPart(), FeedForwardPart(), Pooled(), FeedForwardPart())

    assert [node.label for node in column.frames[-1].bridge.nodes] == ["MEAN POOL 2×1"]


def test_keys_of_as_many_rows_as_ask_say_nothing():
    chart = column_of(AttentionPart(), FeedForwardPart()).frames[0].panels[0].chart

    assert not any(node.told for node in chart.nodes)


def test_an_axis_of_a_pool_is_taken_off_before_the_layer_and_not_of_its_queries_alone():
    column = column_of(AttentionPart(), FeedForwardPart(), Pooled(), FeedForwardPart())
    frame = column.frames[-1]

    assert frame.bridge.node(frame.bridge.head).record.shape == (2, 5, WIDTH)
    assert [node.label for node in frame.panels[0].chart.nodes if "AXIS" in node.label] == []
