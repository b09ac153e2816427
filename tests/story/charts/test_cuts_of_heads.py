"""Heads are said to be cut where they are: one head of keys is no cut, nor is a waist normalised head by head."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.attention.ways.lanes import Part
from xray.story.attention.ways.part_names import label_part
from xray.story.body.reading import read_pass
from xray.story.poster import compose_poster

PLACES, WAIST, TURNED, D_K = 5, 7, 4, WIDTH // HEADS
NORMED = "each head normalised by itself"


class Shared(nn.Module):
    """All heads of queries look by one head of keys; `waist` makes queries of fewer numbers (DeepSeek V4)."""

    def __init__(self, *, waist):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(WIDTH, WAIST, bias=False), nn.RMSNorm(WAIST)) if waist else nn.Identity()
        self.up = nn.Linear(WAIST if waist else WIDTH, WIDTH, bias=False)
        self.key, self.value = nn.Linear(WIDTH, D_K, bias=False), nn.Linear(WIDTH, D_K, bias=False)
        self.of_query, self.of_key, self.out = nn.RMSNorm(D_K), nn.RMSNorm(D_K), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query = self.of_query(self.up(self.down(x)).unflatten(-1, (HEADS, -1)).transpose(1, 2))
        key, value = (one(x).unflatten(-1, (1, -1)).transpose(1, 2) for one in (self.key, self.value))
        weights = (query @ self.of_key(key).transpose(-1, -2) / D_K**0.5).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


class Scaled(nn.Module):
    """Queries are scaled before they are cut into heads (Whisper)."""

    def __init__(self):
        super().__init__()
        self.three = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = (one(x) for one in self.three)
        query = query * D_K**-0.5
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
        return x + self.out(((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2).flatten(2))


class Alone(Scaled):
    """Keys of several sources are put side by side, of which there is one (Evolla)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        query, key, value = (one(self.norm(x)) for one in self.three)
        key, value = (torch.cat([one], dim=1) for one in (key, value))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
        return x + self.out(((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2).flatten(2))


def lay_out(make):
    model = nn.Sequential(*(part for _ in range(2) for part in (make(), FeedForwardPart()))).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, PLACES, WIDTH)), text_width)
    return layout, {"".join(run.text for run in box.lines[0]): box for box in layout.boxes if box.lines}


def test_one_head_of_keys_is_not_said_to_be_cut():
    _, named = lay_out(lambda: Shared(waist=False))

    assert {"HEADS Q", "ONE HEAD K", "ONE HEAD V"} <= set(named)
    assert "HEADS K" not in named


def test_a_norm_of_a_waist_is_not_said_to_norm_heads():
    layout, _ = lay_out(lambda: Shared(waist=True))

    norms = [box for box in layout.boxes if box.lines and box.lines[0][0].text == "NORM Q"]
    assert [box.record.shape[-1] for box in sorted(norms, key=lambda box: box.y)] == [WAIST, D_K]
    remarks = [box for box in layout.boxes if " ".join(run.text for line in box.lines for run in line) == NORMED]
    assert remarks
    assert all(box.y > min(norm.y for norm in norms) + 1 for box in remarks)


def test_one_arrow_leads_to_what_comes_before_the_cut_and_one_for_each_head_to_the_cut():
    layout, named = lay_out(Scaled)

    ends = [curve.points[-1] for curve in layout.curves]

    def count(label):
        box = named[label]
        return sum(box.left < x < box.right and abs(y - box.bottom) < 1 for x, y in ends)

    assert (count("Q ÷ √d_k"), count("HEADS Q")) == (1, HEADS)


def test_keys_that_are_put_beside_nothing_are_not_joined():
    _, named = lay_out(Alone)

    assert {"HEADS K", "HEADS V"} <= set(named)
    assert not any(label.startswith(("JOIN", "SIDE BY SIDE")) for label in named)


class Mixed(Scaled):
    """Keys are worked out of queries, and of a linear layer of their own that stands beside these (Zaya)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 1)

    def forward(self, x):
        query, key, value = (one(x) for one in self.three)
        query, key = self.conv(torch.cat([query, key], dim=-1).transpose(1, 2)).transpose(1, 2).chunk(2, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
        return x + self.out(((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_a_linear_layer_that_another_one_reads_makes_no_queries():
    _, named = lay_out(Mixed)

    assert {"LINEAR", "LINEAR V"} <= set(named)
    assert "LINEAR Q" not in named


class Beside(nn.Module):
    """What another linear layer makes of sines stands beside each head's queries, and so do keys (Conditional DETR)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x):
        grid = torch.arange(PLACES * WIDTH).view(1, PLACES, WIDTH).sin().expand(2, -1, -1)
        made = [one(of) for one, of in zip(self.linear[:5], (x, grid, x, grid, x), strict=True)]
        query, own, key, places, value = (one.unflatten(-1, (HEADS, -1)) for one in made)
        query, key = torch.cat([query + own, own], -1), torch.cat([key, places], -1)
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        found = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        return x + self.linear[5](found.transpose(1, 2).flatten(2))


def test_rows_that_stand_beside_the_queries_are_told():
    _, named = lay_out(Beside)

    assert {"ADDED UP Q", "SIDE BY SIDE Q"} <= set(named)


def test_convolutions_that_make_queries_beside_a_row_are_named_in_their_order():
    convs = nn.Conv2d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH), nn.Conv2d(WIDTH, WIDTH, 1)
    flow = read_pass(xray.trace(nn.Sequential(*convs), torch.rand(2, WIDTH, 3, 3)).passes[0]).flow
    nodes = tuple(place for place in range(len(flow.steps)) if flow.op(place) == "conv2d")

    label = label_part(flow, Part("rotate", nodes, flow.output(nodes[-1])), "Q", narrow=True)

    assert label == "CONVOLUTION 5×5 BY CHANNEL, CONVOLUTION 1×1 Q"  # RvT


class Pooled(Scaled):
    """Heads of queries are channels of a map again while places become fewer (SAM 2)."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(2)
        query = nn.functional.max_pool1d(query.flatten(2).permute(0, 2, 1), 3, 1, padding=1)
        query = query.permute(0, 2, 1).unflatten(-1, (HEADS, -1))
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        return x + self.out(((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_heads_that_are_channels_again_are_not_said_to_be_cut():
    layout, _ = lay_out(Pooled)

    cut = [box for box in layout.boxes if box.lines and box.lines[0][0].text == "HEADS Q"]
    assert [box.record.shape for box in cut] == [(2, HEADS, PLACES, D_K)]


class TurnedAtOnce(Scaled):
    """Keys are laid on their side as they are cut into heads, and scaled then (DeBERTa)."""

    def forward(self, x):
        query, key, value = (one(x).unflatten(-1, (HEADS, -1)) for one in self.three)
        key = key.permute(0, 2, 3, 1) / D_K**0.5
        query, value = query.transpose(1, 2), value.transpose(1, 2)
        return x + self.out(((query @ key).softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_heads_of_keys_that_are_laid_on_their_side_say_so():
    _, named = lay_out(TurnedAtOnce)

    assert named["HEADS KT"].record.shape == (2, HEADS, D_K, PLACES)
    assert {"HEADS Q", "HEADS V"} <= set(named)
    assert "HEADS K" not in named


class Tabled(nn.Module):
    """Rows of a table, each times a gate that a linear layer makes, are added to the values (nanochat)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.table = nn.Linear(WIDTH, HEADS), nn.Embedding(7, WIDTH)

    def forward(self, x):
        ids = torch.arange(PLACES).remainder(7).expand(2, -1)
        query, key, value, rows = (
            one.unflatten(-1, (HEADS, -1)) for one in (*(made(x) for made in self.linear[:3]), self.table(ids))
        )
        value = value + 3 * self.gate(x).sigmoid().unsqueeze(-1) * rows
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        found = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        return x + self.linear[3](found.transpose(1, 2).flatten(2))


def test_what_a_linear_layer_only_gates_is_added_and_does_not_stand_beside():
    _, named = lay_out(Tabled)

    assert "OPERATIONS V" in named
