"""A bias by distance that the first layer looks up, and hands on to all others, or that each looks up for itself."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, rows
from torch import nn

import xray
from xray.story.sentences.of_parts import SHARED_NUMBERS
from xray.story.sheet.columns import read_columns

LAYERS, FAR = 3, 9


class Near(nn.Module):
    """Attention with numbers by distance, of a table of its own or of the layer before, and a share of each place."""

    def __init__(self, *, first, gated=True):
        super().__init__()
        self.near = nn.Embedding(FAR, HEADS) if first else None
        self.gate = nn.Linear(WIDTH, HEADS) if gated else None
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, near):
        if self.near is not None:
            places = torch.arange(x.shape[1])
            near = self.near(places[:, None] - places[None, :] + FAR // 2).permute(2, 0, 1)[None]
        bias = near if self.gate is None else self.gate(x).sigmoid().mT[..., None] * near
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query @ key.mT / query.shape[-1] ** 0.5 + bias).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2)), near


class Stack(nn.Module):
    """Layers that hand a bias on (WavLM, T5), which is looked up in one of them, in each, or before all."""

    def __init__(self, tables, *, gated=True):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.before = None if tables else nn.Embedding(FAR, HEADS)
        self.looking = nn.ModuleList(Near(first=number < tables, gated=gated) for number in range(LAYERS))
        self.wide = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))

    def forward(self, x):
        x, near = self.given(x), None
        if self.before is not None:
            places = torch.arange(x.shape[1])
            near = self.before(places[:, None] - places[None, :] + FAR // 2).permute(2, 0, 1)[None]
        for look, widen in zip(self.looking, self.wide, strict=True):
            x, near = look(x, near)
            x = widen(x)
        return x


def draw_bias(model):
    (column,) = read_columns(xray.trace(model.eval(), rows()))
    (bias,) = [node for node in column.frames[0].panels[0].chart.nodes if "BIAS" in node.label]
    return bias


TOLD = (f"its table is looked up once, for {LAYERS} attentions",)
SHARED = (SHARED_NUMBERS.format(parameters=f"{FAR * HEADS} parameters", many=LAYERS),)
OWN = WIDTH * HEADS + HEADS


@pytest.mark.parametrize(
    ("tables", "gated", "params", "told"),
    [
        (1, True, FAR * HEADS + OWN, TOLD),
        (1, False, FAR * HEADS, TOLD),
        (LAYERS, True, FAR * HEADS + OWN, ()),
        (0, True, OWN, SHARED),
    ],
)
def test_a_table_of_the_first_layer_counts_there_and_says_for_how_many_it_is(tables, gated, params, told):
    bias = draw_bias(Stack(tables, gated=gated))

    assert bias.extra == f"{params} parameters"
    assert bias.told == told


def test_a_table_before_all_layers_is_told_in_the_box_of_what_is_added():
    trace = xray.trace(Stack(0, gated=False).eval(), rows())

    told = [node.told for node in read_columns(trace)[0].frames[0].panels[0].chart.nodes if "BIAS" in node.label]
    assert told == [SHARED]
