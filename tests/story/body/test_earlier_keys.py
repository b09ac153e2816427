"""Keys and values of one layer that later layers read again (YOCO; Gemma 3n)."""

import torch
from story.body.test_mistaken import HEADS, PLACES, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.charts.sum_chart import describe_sizes
from xray.story.facts.kept_keys import measure_growth
from xray.story.poster import compose_poster


class Look(nn.Module):
    def __init__(self, *, has_keys, hands_queries=False):
        super().__init__()
        self.norm, self.q, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kv, self.hands_queries = nn.Linear(WIDTH, 2 * WIDTH) if has_keys else None, hands_queries

    def forward(self, x, known):
        rows = self.norm(x)
        if self.kv is not None:
            known = tuple(cut(one) for one in self.kv(rows).chunk(2, dim=-1))
        queries = cut(self.q(rows))
        made = functional.scaled_dot_product_attention(queries, *known, is_causal=True)
        handed = (queries, known[1]) if self.hands_queries else known
        return x + self.out(made.transpose(1, 2).flatten(-2)), handed


def cut(rows):
    return rows.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Sharing(nn.Module):
    """Three layers, of which the last two look with the keys and values of the first, or with its queries as keys."""

    def __init__(self, *, hands_queries=False):
        super().__init__()
        self.words, self.think = nn.Embedding(19, WIDTH), nn.ModuleList(FeedForwardPart() for _ in range(3))
        self.look = nn.ModuleList(
            Look(has_keys=number == 0, hands_queries=hands_queries and number == 0) for number in range(3)
        )

    def forward(self, ids):
        x, known = self.words(ids), None
        for look, think in zip(self.look, self.think, strict=True):
            x, known = look(x, known)
            x = think(x)
        return x


def record(**told):
    return xray.trace(Sharing(**told).eval(), torch.zeros(2, PLACES, dtype=torch.long))


def test_keys_of_an_earlier_layer_are_told():
    (tower,) = anatomy(record()).towers

    looks = [one for one in tower.branches if isinstance(one, Attention)]
    assert [group.layers for group in tower.groups] == [(0,), (1, 2)]
    assert [(one.source, one.earlier_keys) for one in looks] == [("self", None), ("self", True)]


def test_queries_of_an_earlier_layer_are_no_keys_of_it():
    looks = [one for one in anatomy(record(hands_queries=True)).towers[0].branches if isinstance(one, Attention)]

    assert [one.earlier_keys for one in looks] == [None] * len(looks)


def test_keys_of_an_earlier_layer_are_drawn_as_such_and_not_made_anew():
    reading = read_pass(record().passes[0])

    labels = [node.label for node in chart_stage(reading.flow, reading.towers[0].layers[1][0]).nodes]

    assert {"LINEAR Q", "EARLIER K", "EARLIER V"} <= set(labels)
    assert not {"LINEAR K", "LINEAR V", "HEADS K", "HEADS V"} & set(labels)


def test_layers_that_look_with_keys_of_an_earlier_one_say_so_where_layers_are_told_apart():
    texts = [
        "".join(run.text for line in box.lines for run in line) for box in compose_poster(record(), text_width).boxes
    ]

    told = "2–3: self-attention (keys and values of an earlier layer), feed-forward"
    assert told in " ".join(texts)


def test_an_attention_with_keys_of_an_earlier_layer_says_so_where_it_stands_closed():
    stagings = [layer[0] for layer in read_pass(record().passes[0]).towers[0].layers]

    told = [describe_sizes(staging.branches[0].branch) for staging in stagings]
    sizes = f"{HEADS} heads of {WIDTH // HEADS}"
    assert told == [sizes, *[f"{sizes}, keys and values of an earlier layer"] * 2]


def test_keys_that_several_layers_read_are_kept_once():
    growth = measure_growth(record())

    assert growth is not None
    assert growth.per_word == 2 * WIDTH * 4
