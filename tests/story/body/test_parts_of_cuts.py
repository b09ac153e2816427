"""Of what one layer makes and a step cuts in parts, each part is led to what reads it, and to nothing else."""

import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from story.layered import list_arrows
from torch import nn

import xray
from xray.story.attention.chart import chart_attention
from xray.story.body.reading import read_pass
from xray.story.sheet.columns import read_columns

PIECES, PIECE = 5, 7
D_K = WIDTH // HEADS


class GatedWithin(nn.Module):
    """Values and what multiplies what is found are halves of what one layer made of a map (iFormer)."""

    def __init__(self):
        super().__init__()
        layers = ((nn.Conv2d(WIDTH, wide, 1), nn.BatchNorm2d(wide)) for wide in (WIDTH, WIDTH, 2 * WIDTH, WIDTH))
        self.q, self.k, self.both, self.out = (nn.Sequential(*one) for one in layers)

    def forward(self, x):
        x = x.transpose(1, 2).unflatten(2, (PIECES, PIECE))
        value, gate = self.both(x).sigmoid().chunk(2, dim=1)
        q, k, v = (one.flatten(2).transpose(1, 2).unsqueeze(1) for one in (self.q(x), self.k(x), value))
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(found.transpose(-1, -2).reshape(x.shape) * gate)
        return x.flatten(2).transpose(1, 2)


class Sorted(nn.Module):
    """Pieces of keys and of values are mixed by how their means meet those of the queries (Sinkhorn attention)."""

    def __init__(self):
        super().__init__()
        self.q, self.both, self.out = (nn.Linear(WIDTH, wide * WIDTH) for wide in (1, 2, 1))

    def forward(self, x):
        made = (self.q(x), *self.both(x).chunk(2, dim=-1))
        rows = (one.view(BATCH, -1, HEADS, D_K).transpose(1, 2).reshape(BATCH * HEADS, -1, D_K) for one in made)
        q, k, v = (one.view(BATCH * HEADS, PIECES, PIECE, D_K) for one in rows)
        best = torch.einsum("bie,bje->bij", q.mean(2), k.mean(2)).softmax(-1).topk(1)
        order = x.new_zeros(len(q), PIECES, PIECES).scatter(-1, best.indices, best.values)
        k, v = (torch.cat([torch.einsum("buv,bvtd->butd", order, one), one], dim=2) for one in (k, v))
        weights = (torch.einsum("buie,buje->buij", q, k) * D_K**-0.5).softmax(-1)
        found = torch.einsum("buij,buje->buie", weights, v).view(BATCH, HEADS, -1, D_K)
        return x + self.out(found.transpose(1, 2).reshape(x.shape))


def record(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), kind(), FeedForwardPart(), kind(), FeedForwardPart()).eval()
    return xray.trace(model, torch.rand(BATCH, PIECES * PIECE, WIDTH))


def chart(kind):
    reading = read_pass(record(kind).passes[0])
    return chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0])


def test_what_multiplies_comes_of_the_cut_and_not_of_the_values():
    sources = {source for source, target in list_arrows(chart(GatedWithin)) if target == "MULTIPLIED"}

    assert sources == {"CONCAT HEADS", "SIGMOID V AND MORE"}
    assert list_unproven(read_columns(record(GatedWithin))) == []


def test_values_do_not_come_of_the_heads_of_the_keys():
    found = chart(Sorted)

    assert ("ONE LINEAR FOR K, V", "HEADS V") in list_arrows(found)
    assert list_unproven(read_columns(record(Sorted))) == []


def test_a_layer_by_whose_queries_keys_and_values_are_mixed_makes_queries_alone():
    found = chart(Sorted)

    labels = [node.label for node in found.nodes if "LINEAR" in node.label]
    assert labels == ["LINEAR Q", "ONE LINEAR FOR K, V", "LINEAR O"]


class Slid(nn.Module):
    """Of one layer's rows queries are the first part; keys and values are neighbours of the rest (Halo)."""

    def __init__(self):
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, rest = self.all(self.norm(x)).split([WIDTH, 2 * WIDTH], dim=-1)
        spread = nn.functional.avg_pool1d(rest.mT, 3, 1, 1).mT
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, *spread.chunk(2, dim=-1)))
        found = (q @ k.mT * D_K**-0.5).softmax(-1) @ v
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_what_is_worked_on_of_a_later_part_comes_of_the_layer_that_made_all_and_not_of_what_that_reads():
    arrows = list_arrows(chart(Slid))

    assert ("ONE LINEAR FOR Q, K, V", "AXES SWAPPED") in arrows
    assert "AXES SWAPPED" not in {chart(Slid).node(key).label for key in chart(Slid).feet}
    assert list_unproven(read_columns(record(Slid))) == []


class Gated(nn.Module):
    """Queries and keys are scaled of one bent part of what a layer makes, the others gate what is found (MEGA)."""

    def __init__(self):
        super().__init__()
        self.norm, self.values, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.all, self.scales = nn.Linear(WIDTH, 2 * WIDTH + D_K), nn.Parameter(torch.rand(2, D_K))

    def forward(self, x):
        rows = self.norm(x)
        gate, asked, more = self.all(rows).split([WIDTH, D_K, WIDTH], dim=-1)
        q, k = (nn.functional.silu(asked).unsqueeze(2) * self.scales).unbind(2)
        found = (q @ k.mT * D_K**-0.5).softmax(-1) @ self.values(rows)
        return x + self.out(found * gate.sigmoid() + more)


def test_one_of_unequal_parts_is_no_heads_and_leads_on_what_is_read_of_it():
    drawn = chart(Gated)

    assert not [node.label for node in drawn.nodes if node.label.startswith("HEADS") and node.record.shape[-1] != D_K]
    assert {node.record.shape[-1] for node in drawn.nodes if node.label.startswith("CUT: ")} == {D_K}
    assert "SiLU Q" not in {drawn.node(key).label for key in drawn.feet}
