"""Scores of one stream's attention that are added to those of another's: told, and led from box to box."""

from functools import cache

import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Link
from xray.story.poster import compose_poster

HEADS, D_K, WIDTHS = 3, 5, (15, 30)


class Stream(nn.Module):
    """A layer of one stream, whose scores may be given to it in part."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, HEADS * D_K) for _ in range(3))
        self.out, self.wide, self.back = nn.Linear(HEADS * D_K, width), nn.Linear(width, 37), nn.Linear(37, width)

    def cut(self, rows):
        return rows.view(*rows.shape[:2], HEADS, D_K).transpose(1, 2)

    def score(self, x):
        return self.cut(self.query(x)) @ self.cut(self.key(x)).mT / D_K**0.5

    def forward(self, x, scores):
        seen = (scores.softmax(-1) @ self.cut(self.value(x))).transpose(1, 2).flatten(2)
        x = x + self.out(seen)
        return x + self.back(self.wide(x).relu())


class Both(nn.Module):
    """Two streams of two layers; the scores of the first are added to those of the second, and back (LiLT)."""

    def __init__(self, *, back=True):
        super().__init__()
        self.back = back
        self.words, self.boxes = nn.Embedding(31, WIDTHS[0]), nn.Linear(4, WIDTHS[1])
        self.texts, self.layouts = (nn.ModuleList(Stream(width) for _ in range(2)) for width in WIDTHS)

    def forward(self, ids, boxes):
        x, y = self.words(ids), self.boxes(boxes)
        for text, layout in zip(self.texts, self.layouts, strict=True):
            own, others = text.score(x), layout.score(y)
            x, y = text(x, own + others if self.back else own), layout(y, others + own)
        return x.mean() + y.mean()


@cache
def trace_of(back):
    return xray.trace(Both(back=back).eval(), torch.arange(14).view(2, 7), torch.rand(2, 7, 4))


def test_scores_that_two_towers_add_to_each_others_link_them_both_ways():
    first, second = (tower.name for tower in xray.anatomy(trace_of(True)).towers)

    links = {Link("scored", first, second), Link("scored", second, first)}
    assert set(xray.anatomy(trace_of(True)).links) == links
    assert xray.anatomy(trace_of(False)).links == (Link("scored", first, second),)


def test_each_way_leads_from_the_scores_to_the_box_that_adds_them():
    layout = compose_poster(trace_of(True), text_width)

    def find(label):
        return [
            box for box in layout.boxes if box.lines and "".join(run.text for run in box.lines[0]).startswith(label)
        ]

    ways = [curve.points for curve in layout.curves if curve.role == curve.kind == "ribbon"]
    assert len(ways) == 2
    assert {points[-1] for points in ways} == {(box.x, box.bottom) for box in find("+ SCORES OF ANOTHER")}
    sides = {(side, box.y) for box in find("SCORES Q") for side in (box.left, box.right)}
    assert {points[0] for points in ways} < sides
