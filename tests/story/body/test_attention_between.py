"""Attention between stages that nothing goes past: fewer places look at more, and layers behind are wider (LeViT)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.body.reading import read_pass
from xray.story.cards.title import list_sizes
from xray.story.cards.told import Scored
from xray.story.charts.bridge_chart import chart_bridge
from xray.story.passages.bridges import count_joined
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

PLACES, LEFT, WIDER, HEAD = 10, 5, 14, 7


class Fewer(nn.Module):
    """Every other place looks at all of them; what they find is cut into no sum, or added to what they were."""

    def __init__(self, *, skip, heads=HEADS, looks_up=False):
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(WIDTH, heads * HEAD), nn.Linear(WIDTH, 2 * heads * HEAD)
        self.out, self.past = nn.Linear(heads * HEAD, WIDER), nn.Linear(WIDTH, WIDER) if skip else None
        self.biases = nn.Parameter(torch.rand(heads, PLACES))
        self.table = nn.Embedding(PLACES, heads) if looks_up else None
        self.register_buffer("apart", (torch.arange(0, PLACES, 2)[:, None] - torch.arange(PLACES)).abs())

    def forward(self, x):
        q = self.q(x[:, ::2]).unflatten(-1, (self.heads, HEAD)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (self.heads, 2 * HEAD)).transpose(1, 2).chunk(2, dim=-1)
        near = self.biases[:, self.apart] if self.table is None else self.table(self.apart).permute(2, 0, 1)[None] / 3
        found = (q @ k.transpose(-1, -2) + near).softmax(dim=-1) @ v
        made = self.out(nn.functional.hardswish(found.transpose(1, 2).flatten(2)))
        return made if self.past is None else made + self.past(x[:, ::2])


class Wider(FeedForwardPart):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDER), nn.Linear(WIDER, 19), nn.Linear(19, WIDER)


class Stages(nn.Module):
    def __init__(self, **between):
        super().__init__()
        before = (nn.Linear(7, WIDTH), AttentionPart(), FeedForwardPart())
        self.parts = nn.Sequential(*before, Fewer(**between), Wider(), Wider())

    def forward(self, image):
        return self.parts(image)


def read_tower(*, skip):
    reading = read_pass(xray.trace(Stages(skip=skip).eval(), torch.randn(BATCH, PLACES, 7)).passes[0])
    return reading.flow, reading.towers[-1]


@pytest.fixture(scope="module")
def bridge():
    flow, towering = read_tower(skip=False)
    (found,) = towering.tower.bridges
    assert (found.joined, found.d_in, found.d_out, found.heads) == (2, WIDTH, WIDER, HEADS)
    return chart_bridge(flow, towering, (found.before,))


def test_attention_that_nothing_goes_past_is_a_box_between_layers(bridge):
    labels = [node.label for node in bridge.nodes]
    assert labels == [f"{LEFT} PLACES LOOK AT {PLACES} WITH {HEADS} HEADS", "HARDSWISH", "LINEAR"]


def test_sizes_tell_the_heads_of_attention_between_layers_too():
    trace = xray.trace(Stages(skip=False, heads=4 * HEADS).eval(), torch.randn(BATCH, PLACES, 7))

    sizes = list_sizes(read_pass(trace.passes[0]).towers[-1].tower, Scored())

    assert ("heads", "heads", f"{HEADS} or {4 * HEADS}") in sizes


def test_a_box_of_attention_between_layers_has_all_its_parameters(bridge):
    held = sum(one.numel() for part in (Fewer(skip=False).q, Fewer(skip=False).kv) for one in part.parameters())
    assert bridge.nodes[0].extra == f"{held + HEADS * PLACES:,} parameters"


def test_what_is_added_to_the_scores_between_layers_is_counted_with_what_stands_there():
    trace = xray.trace(Stages(skip=False).eval(), torch.randn(BATCH, PLACES, 7))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["between layers × 1"] == sum(one.numel() for one in Fewer(skip=False).parameters())
    assert "all else" not in shares


def test_attention_with_a_way_past_it_is_no_box_between_layers():
    flow, towering = read_tower(skip=True)
    charts = [chart_bridge(flow, towering, (one.before,)) for one in towering.tower.bridges]
    assert not [node for chart in charts if chart is not None for node in chart.nodes if "LOOK AT" in node.label]


def test_biases_that_are_looked_up_for_scores_are_no_words_and_begin_no_tower():
    trace = xray.trace(Stages(skip=False, looks_up=True).eval(), torch.randn(BATCH, PLACES, 7))

    (towering,) = read_pass(trace.passes[0]).towers

    assert (towering.tower.reads, towering.tower.vocab, towering.tower.layers) == ("image", None, 3)
    assert [one.joined for one in towering.tower.bridges] == [2]


class Merges(nn.Module):
    """A few learned rows make new ones of all that came (PatchMerger), or each is made of two neighbours."""

    def __init__(self, *, asks):
        super().__init__()
        self.norm, self.asks = nn.LayerNorm(WIDTH), nn.Parameter(torch.rand(LEFT, WIDTH)) if asks else None
        self.joins = None if asks else nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = self.norm(x)
        if self.joins is not None:
            return self.joins(x.reshape(len(x), LEFT, 2 * WIDTH))
        return (self.asks @ x.mT / WIDTH**0.5).softmax(dim=-1) @ x


@pytest.mark.parametrize(("asks", "joined"), [(True, None), (False, 2)])
def test_rows_that_are_made_of_all_join_no_neighbours(asks, joined):
    layers = [part for _ in range(2) for part in (AttentionPart(), FeedForwardPart())]
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers, Merges(asks=asks), AttentionPart(), FeedForwardPart())

    anatomy = xray.anatomy(xray.trace(model.eval(), torch.randn(BATCH, PLACES, 7)))

    assert [one.joined for one in anatomy.towers[-1].bridges] == [joined]
    assert any("become one" in text for text in list_sentences(anatomy)) == (not asks)


def test_a_mean_of_all_rows_of_a_sequence_joins_no_neighbours():
    assert count_joined((BATCH, PLACES, WIDTH), (BATCH, WIDTH), WIDTH, WIDTH) is None
    assert count_joined((BATCH, WIDTH, 4, 4), (BATCH, WIDER, 2, 2), WIDTH, WIDER) == 4
