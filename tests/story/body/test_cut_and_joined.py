"""Rows of one stream that each layer cuts in two, hands on apart and puts end to end again: they are one stream."""

import pytest
import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster

WIDTH, HEADS, AHEAD, ROWS, BATCH = 12, 3, 2, 7, 5


class Look(nn.Module):
    """Attention among two sorts of rows, which are handed in apart; rows remembered come before, of which none are."""

    def __init__(self):
        super().__init__()
        self.ask, self.answer, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, rows, ahead, memory):
        query = self.ask(torch.cat([ahead, rows, rows.new_empty(0, *rows.shape[1:])]))
        key, value = self.answer(torch.cat([memory, ahead, rows])).chunk(2, dim=2)
        query, key, value = (one.unflatten(2, (HEADS, -1)).permute(1, 2, 0, 3) for one in (query, key, value))
        found = (query @ key.mT * (WIDTH // HEADS) ** -0.5).softmax(dim=-1) @ value
        made = self.back(found.permute(2, 0, 1, 3).flatten(2))
        return made[: AHEAD + ROWS], made[AHEAD + ROWS :].clamp(-10, 10)


class Layer(nn.Module):
    """Attention and a feed-forward, before which the rows are put together, and behind which they are cut again."""

    def __init__(self):
        super().__init__()
        self.norm, self.last, self.look = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Look()
        self.think = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.ReLU(), nn.Linear(3 * WIDTH, WIDTH)
        )

    def forward(self, rows, ahead, memory):
        normed = self.norm(torch.cat([ahead, rows]))
        found, memory = self.look(normed[AHEAD:], normed[:AHEAD], memory)
        made = found + torch.cat([ahead, rows])
        made = self.last(made + self.think(made))
        return made[AHEAD:], made[:AHEAD], memory


class Ahead(nn.Module):
    """Rows of sound, and some of them once more in front, through four layers (Emformer)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x):
        x = x.transpose(0, 1)
        ahead, rows = torch.cat([x[2:3], x[ROWS:]]), x[:ROWS]
        memory = x.new_empty(0, *x.shape[1:])
        for layer in self.layers:
            rows, ahead, memory = layer(rows, ahead, memory)
        return rows.transpose(0, 1)


def list_texts(trace):
    boxes = compose_poster(trace, text_width).boxes
    return [" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes]


@pytest.fixture(scope="module")
def trace():
    return xray.trace(Ahead().eval(), torch.rand(BATCH, ROWS + 1, WIDTH))


def test_the_layers_are_one_tower_alike(trace):
    (tower,) = xray.anatomy(trace).towers

    assert [group.count for group in tower.groups] == [4]


def test_no_rows_are_no_other_stream(trace):
    (tower,) = xray.anatomy(trace).towers

    assert {one.beside for one in tower.branches if isinstance(one, Attention)} == {None}


def test_what_is_put_together_as_it_stood_has_no_box(trace):
    texts = list_texts(trace)

    assert not [one for one in texts if "CUT ANEW" in one or "LAID OUT" in one or "JOINT" in one]
    assert [one for one in texts if one.startswith("LAYER NORM")]


def test_work_on_no_rows_is_not_told(trace):
    assert not [one for one in list_texts(trace) if "clamp" in one]
