"""Values sampled at points that queries choose, in small models: told where all of it is proven, and nowhere else."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, AttentionPart, FeedForwardPart, draw, read
from torch import nn
from torch.nn import functional

from xray.story.anatomy.attentions import DeformableAttention
from xray.story.anatomy.branch_words import describe_sizes
from xray.story.anatomy.tree import Link
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.stations.of_stations import describe_station

SIDES, POINTS, QUERIES = (5, 3), 2, 7
WIDE = WIDTH // HEADS


class Sampling(nn.Module):
    """Samples at points of maps, each head at its own; what comes out of a linear layer weighs them."""

    def __init__(self, *, projects=True, width=WIDTH):
        super().__init__()
        self.wide, count = width // HEADS, HEADS * len(SIDES) * POINTS
        self.offsets, self.scores = nn.Linear(width, 2 * count), nn.Linear(width, count)
        self.value = nn.Linear(width, width) if projects else nn.Identity()
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def weigh(self, scores):
        return scores.softmax(dim=-1)

    def locate(self, x, reference):
        offsets = self.offsets(x).view(*x.shape[:2], HEADS, len(SIDES), POINTS, 2)
        return reference[:, :, None, None, None] + offsets / 10

    def forward(self, x, maps, place, reference):
        asks = x + place
        points = self.locate(asks, reference)
        weights = self.weigh(self.scores(asks).view(*x.shape[:2], HEADS, len(SIDES) * POINTS))
        values = self.value(maps).view(x.shape[0], -1, HEADS, self.wide)
        found = []
        for level, rows in enumerate(values.split([side * side for side in SIDES], dim=1)):
            grid = rows.flatten(2).transpose(1, 2).reshape(-1, self.wide, SIDES[level], SIDES[level])
            at = points[:, :, :, level].transpose(1, 2).flatten(0, 1)
            found.append(functional.grid_sample(grid, at, align_corners=False))
        weights = weights.transpose(1, 2).reshape(-1, 1, x.shape[1], len(SIDES) * POINTS)
        made = (torch.stack(found, dim=-2).flatten(-2) * weights).sum(-1)
        return self.norm(x + self.out(made.view(x.shape[0], HEADS * self.wide, -1).transpose(1, 2)))


class ByNoSoftmax(Sampling):
    """Weights that do not add up to 1."""

    def weigh(self, scores):
        return scores.sigmoid()


class AtFixedPoints(Sampling):
    """The points are the same for every query: none of them says where it looks."""

    def locate(self, x, reference):
        self.offsets(x)
        return reference[:, :, None, None, None].expand(*x.shape[:2], HEADS, len(SIDES), POINTS, 2)


class Detector(nn.Module):
    """Layers over two maps, of which some sample these, and queries that sample what they give."""

    def __init__(self, kind=Sampling, **settings):
        super().__init__()
        self.maps, self.queries = nn.Linear(5, WIDTH), nn.Linear(3, WIDTH)
        self.own = nn.ModuleList(kind(**settings) for _ in range(2))
        self.asks = nn.ModuleList(kind(**settings) for _ in range(2))
        self.looks = nn.ModuleList(AttentionPart() for _ in range(2))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(4))

    def forward(self, maps, queries, where):
        x, places = self.maps(maps), torch.sin(maps[..., :1])
        for sample, think in zip(self.own, self.thinks[:2], strict=True):
            x = think(sample(x, x, places, maps[..., :2]))
        y = self.queries(queries)
        for look, sample, think in zip(self.looks, self.asks, self.thinks[2:], strict=True):
            y = think(sample(look(y), x, where[..., :1], where))
        return y


def given():
    count = sum(side * side for side in SIDES)
    return torch.rand(BATCH, count, 5), torch.rand(BATCH, QUERIES, 3), torch.rand(BATCH, QUERIES, 2)


def list_parts(found):
    return [[branch.part for branch in tower.branches] for tower in found.towers]


@pytest.mark.parametrize("projects", [True, False])
def test_values_sampled_at_chosen_points_are_deformable_attention(projects):
    found = read(Detector(projects=projects), *given())

    maps, queries = found.towers
    first, other = (
        next(one for one in tower.branches if isinstance(one, DeformableAttention)) for tower in (maps, queries)
    )
    assert first == DeformableAttention("self", HEADS, WIDE, len(SIDES), POINTS)
    assert other == DeformableAttention("encoder", HEADS, WIDE, len(SIDES), POINTS)
    assert (maps.name, queries.name) == ("encoder", "decoder")
    assert Link("memory", "encoder", "decoder") in found.links
    assert describe_station(maps, first) == "Places pick points in maps of their own: 2 a head in each of 2 maps."
    assert describe_station(queries, other).startswith("Places pick points in maps from the encoder: ")
    assert any("values are sampled, 2 a head in each of 2 maps, and" in line for line in list_sentences(found))
    assert describe_sizes(first) == f"{HEADS} heads · d_v {WIDE} · points 2 a head in each of 2 maps"


@pytest.mark.parametrize("kind", [ByNoSoftmax, AtFixedPoints])
def test_without_weights_or_points_of_its_own_it_is_none(kind):
    found = read(Detector(kind), *given())

    assert "deformable_attention" not in str(list_parts(found))
    assert not any(line.startswith("Deformable attention") for line in list_sentences(found))


def test_every_box_of_the_chart_shows_what_its_step_gave():
    nodes = {node.key: node for node in draw(Detector(), *given()) if node.steps}
    places = sum(side * side for side in SIDES)

    shapes = {key: nodes[key].record.shape for key in ("offsets", "softmax", "points", "heads0_v", "sampled", "values")}
    assert shapes == {
        "offsets": (BATCH, places, HEADS * len(SIDES) * POINTS * 2),
        "softmax": (BATCH, places, HEADS, len(SIDES) * POINTS),
        "points": (BATCH, places, HEADS, len(SIDES), POINTS, 2),
        "heads0_v": (BATCH, places, HEADS, WIDE),
        "sampled": (BATCH * HEADS, WIDE, places, len(SIDES), POINTS),
        "values": (BATCH * HEADS, WIDE, places),
    }
    assert all(nodes[key].record in nodes[key].steps[0].outputs for key in shapes)
