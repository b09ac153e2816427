"""Words changed by what pictures hold, and compared with these; and a point, made in the pass, that looks at them."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, WORDS, FRAMES, TEXTS = 15, 7, 5, 3


def make_layers(many=2):
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(many))


class Looks(nn.Module):
    """A layer that looks at a memory, be it behind a norm of its own."""

    def __init__(self, *, is_own):
        super().__init__()
        self.layer, self.norm = make_layers(1)[0], nn.LayerNorm(WIDTH) if is_own else nn.Identity()

    def forward(self, x, memory):
        return self.layer(x, self.norm(memory))


class Prompts(nn.Module):
    """The pictures of a video, a stack over their first rows, words, and layers by which words look at the pictures.

    What the stack works on is added to what it gives, and so are the words to theirs, times learned numbers (X-CLIP).
    """

    def __init__(self, *, is_own=False, around=True):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.eye, self.stack, self.text = (make_layers() for _ in range(3))
        self.hand, self.give, self.read = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last = nn.LayerNorm(WIDTH)
        self.norm = nn.Identity() if is_own else nn.LayerNorm(WIDTH)
        self.looks = nn.ModuleList(Looks(is_own=is_own) for _ in range(2))
        self.alpha, self.around = nn.Parameter(torch.rand(WIDTH)), around

    def join(self, first):
        video = first
        for layer in self.stack:
            video = layer(video)
        return (video + first if self.around else video).mean(1)

    def forward(self, ids, pictures):
        seen = self.patches(pictures.flatten(0, 1)).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        video = self.join(self.hand(seen[:, 0]).view(len(pictures), FRAMES, WIDTH))
        memory = self.norm(self.give(seen).view(len(pictures), FRAMES, -1, WIDTH).mean(1))
        text = self.words(ids)
        for layer in self.text:
            text = layer(text)
        told = text = self.read(self.last(text)[:, -1]).expand(len(pictures), -1, -1)
        for look in self.looks:
            told = look(told, memory)
        told = nn.functional.normalize(text + self.alpha * told, dim=-1)
        return torch.einsum("bd,bkd->bk", nn.functional.normalize(video, dim=-1), told)


def record(**how):
    torch.manual_seed(0)
    return xray.trace(
        Prompts(**how).eval(), torch.arange(TEXTS * WORDS).view(TEXTS, WORDS), torch.rand(2, FRAMES, 3, 8, 8)
    )


def list_labels(chart):
    return [node.label for node in sorted(chart.nodes, key=lambda node: node.row)]


@pytest.mark.parametrize(("is_own", "inside"), [(False, False), (True, True)])
def test_a_norm_of_a_memory_that_all_layers_read_stands_with_the_tower_that_gives_it(is_own, inside):
    columns = read_columns(record(is_own=is_own))
    looking = columns[-1].frames[0].panels[0].chart
    giving = [list_labels(column.exit) for column in columns if column.exit is not None]

    assert ("NORM BEFORE K, V" in list_labels(looking)) is inside
    assert any(labels[-2:] == [f"MEAN OF {FRAMES}", "LAYER NORM"] for labels in giving) is not inside
    assert "Not drawn" not in words_of(compose_poster(record(is_own=is_own), text_width))


@pytest.mark.parametrize("around", [True, False])
def test_a_tower_is_compared_with_the_one_whose_rows_come_in_and_not_with_what_that_began_with(around):
    trace = record(around=around)
    first, stack, _, last = (tower.name for tower in xray.anatomy(trace).towers)
    compared = [link for link in xray.anatomy(trace).links if link.kind == "compared"]

    assert [(link.source, link.target) for link in compared] == [(stack, last)]
    words = words_of(compose_poster(trace, text_width))
    assert f"COMPARED WITH THE {stack.upper()} TOWER" in words
    assert f"{first.upper()} AND" not in words


def test_sums_around_all_layers_and_what_multiplies_before_them_have_boxes_behind_these():
    trace = record()
    _, stack, _, last = read_columns(trace)

    assert list_labels(stack.exit) == ["+ WHAT CAME BEFORE THE LAYERS", "A MEAN OF ROWS ÷ ITS LENGTH"]
    assert list_labels(last.exit)[:2] == ["× LEARNED NUMBERS", "+ WHAT CAME BEFORE THE LAYERS"]
    assert "in no box" not in words_of(compose_poster(trace, text_width))


class Points(nn.Module):
    """Layers by which rows made of a point look at pictures; where none is given, the point is made in the pass."""

    def __init__(self):
        super().__init__()
        self.patches, self.tokens = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Parameter(torch.rand(1, 3, WIDTH))
        self.eye, self.looks = make_layers(), nn.ModuleList(Looks(is_own=False) for _ in range(2))
        self.place = nn.Embedding(2, WIDTH)
        self.waves = nn.Buffer(torch.rand(2, 8))

    def forward(self, pictures):
        seen = self.patches(pictures).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        point = torch.zeros(len(pictures), 1, 2) + 0.5
        point[..., 0] = point[..., 0] / 8
        point[..., 1] = point[..., 1] / 8
        turned = (2 * point - 1) @ self.waves
        point = torch.cat([turned.sin(), turned[..., :7].cos()], dim=-1)
        point = torch.where(-torch.ones(len(pictures), 1, 1) == -2, self.place.weight[:1], point)
        rows = torch.cat([self.tokens.expand(len(pictures), -1, -1), point], dim=1)
        for look in self.looks:
            rows = look(rows, seen)
        return rows


def test_what_works_on_numbers_that_the_pass_makes_and_has_no_box_is_counted():
    torch.manual_seed(0)
    words = words_of(compose_poster(xray.trace(Points().eval(), torch.rand(2, 3, 8, 8)), text_width))

    assert "Worked out, and in no box: mul, sub, add, 1 more (entrance)." in words
