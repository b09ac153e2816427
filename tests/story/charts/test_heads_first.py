"""What is done to heads that are cut already: brought before the places, or their pairs laid back behind a turn."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_pass
from xray.story.charts.chart import MIDDLE, Node
from xray.story.charts.stage_chart import chart_stage
from xray.story.poster import compose_poster
from xray.story.sheet.panels import tell_row

PLACES = 5


class Late(nn.Module):
    """Heads are normalised, or turned in pairs, where they were cut, and brought before the places then (AFMoE)."""

    def __init__(self, *, turned):
        super().__init__()
        self.three = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.norm, self.out = nn.RMSNorm(WIDTH // HEADS), nn.Linear(WIDTH, WIDTH)
        self.turned = turned

    def forward(self, x):
        query, key, value = (one(x).unflatten(-1, (HEADS, -1)) for one in self.three)
        change = self.turn if self.turned else self.norm
        query, key, value = change(query).transpose(1, 2), change(key).transpose(1, 2), value.transpose(1, 2)
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def turn(self, rows):
        angles = torch.arange(PLACES)[:, None, None] / 10_000 ** (torch.arange(0, rows.shape[-1], 2) / rows.shape[-1])
        sin, cos, first, second = angles.sin(), angles.cos(), rows[..., ::2], rows[..., 1::2]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)


@pytest.mark.parametrize(("turned", "done"), [(False, "NORM"), (True, "ROTATE")])
def test_heads_are_cut_in_one_box_and_brought_before_the_places_in_another(turned, done):
    model = nn.Sequential(*(part for _ in range(2) for part in (Late(turned=turned), FeedForwardPart()))).eval()
    boxes = compose_poster(xray.trace(model, torch.ones(2, PLACES, WIDTH)), text_width).boxes

    named = {"".join(run.text for run in box.lines[0]): box for box in boxes if box.lines}
    way = [named[told] for told in ("LINEAR Q", "HEADS Q", f"{done} Q", "HEADS FIRST Q", "SCORES Q·KT ÷ √d_k")]
    assert [box.y for box in way] == sorted(box.y for box in way)
    assert way[2].record.shape == (2, PLACES, HEADS, WIDTH // HEADS)
    assert way[3].record.shape == (2, HEADS, PLACES, WIDTH // HEADS)
    assert [told for told in named if told.startswith("HEADS") and told.endswith(" Q")] == ["HEADS Q", "HEADS FIRST Q"]
    assert "all places of a head together" in named


class Biased(Late):
    """Heads are given a learned row before they are turned (Chameleon)."""

    def __init__(self):
        super().__init__(turned=True)
        self.norm = nn.LayerNorm(WIDTH // HEADS, elementwise_affine=False)  # type: ignore[assignment]
        self.scale, self.bias = (nn.Parameter(torch.ones(HEADS, WIDTH // HEADS)) for _ in range(2))

    def turn(self, rows):
        rows = (self.norm(rows) * self.scale + self.bias).transpose(1, 2)
        half = rows.shape[-1] // 2
        angles = torch.arange(PLACES)[:, None] / 10_000 ** (torch.arange(half) / half).repeat(2)
        turned = torch.cat([-rows[..., half:], rows[..., :half]], dim=-1)
        return (rows * angles.cos() + turned * angles.sin()).transpose(1, 2)


def test_a_bias_before_a_turn_is_not_said_to_turn():
    model = nn.Sequential(*(part for _ in range(2) for part in (Biased(), FeedForwardPart()))).eval()
    chart = chart_stage(*draw_first(model))

    said = {node.label: node.remark for node in chart.nodes}
    assert {"+ A BIAS Q", "ROTATE Q"} <= set(said)
    assert (said["+ A BIAS Q"], bool(said["ROTATE Q"])) == ("", True)


def draw_first(model):
    reading = read_pass(xray.trace(model, torch.ones(2, PLACES, WIDTH)).passes[0])
    return reading.flow, reading.towers[0].stagings[0]


class Fused(Late):
    """One linear layer makes heads of all three; they are turned, and brought before the places (Qwen's eye)."""

    def __init__(self):
        super().__init__(turned=True)
        self.three = nn.Linear(WIDTH, 3 * WIDTH)  # type: ignore[assignment]

    def forward(self, x):
        query, key, value = self.three(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 1, 3, 4).unbind(0)
        query, key, value = (one.transpose(1, 2) for one in (self.turn(query), self.turn(key), value))
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_heads_that_were_turned_are_not_said_to_be_cut_behind_that():
    model = nn.Sequential(*(part for _ in range(2) for part in (Fused(), FeedForwardPart()))).eval()
    chart = chart_stage(*draw_first(model))

    said = {node.label: node for node in chart.nodes}
    assert said["ROTATE Q"].row < said["HEADS FIRST Q"].row
    assert said["HEADS FIRST Q"].remark == "all places of a head together"
    assert not {"HEADS Q", "HEADS K"} & set(said)


def test_what_stands_beside_a_row_of_different_boxes_says_of_which_it_is():
    first, cut = (
        Node("first_q", "HEADS FIRST Q", 0, MIDDLE, remark="heads first"),
        Node("cut_k", "CUT ANEW K", 0, MIDDLE),
    )
    others = [Node(f"first_{lane}", "HEADS FIRST", 0, MIDDLE, remark="heads first") for lane in "kv"]

    assert tell_row([first, *others]) == "heads first"
    assert tell_row([first, cut]) == "Q: heads first"
    assert tell_row([cut, *others]) == "K, V: heads first"
    assert tell_row([cut]) == ""


class Segments(Late):
    """Heads that stand before the places are normalised there, and the places cut into pieces then (Titans)."""

    def __init__(self):
        super().__init__(turned=False)

    def forward(self, x):
        query, key, value = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.three)
        query, key, value = (self.cut(one) for one in (self.norm(query), self.norm(key), value))
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        made = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return x + self.out(made.reshape(x.shape))

    def cut(self, rows):
        return rows.unflatten(2, (2, PLACES)).permute(0, 2, 1, 3, 4).reshape(-1, HEADS, PLACES, rows.shape[-1])


def test_heads_that_stood_before_the_places_are_not_brought_there_by_what_cuts_these():
    model = nn.Sequential(*(part for _ in range(2) for part in (Segments(), FeedForwardPart()))).eval()
    boxes = compose_poster(xray.trace(model, torch.ones(2, 2 * PLACES, WIDTH)), text_width).boxes

    named = {"".join(run.text for run in box.lines[0]) for box in boxes if box.lines}
    assert "CUT ANEW Q" in named
    assert "HEADS FIRST Q" not in named
