"""Two streams whose rows meet in one attention and are split again, scaled and gated by one condition (CogView3)."""

from functools import cache

import torch
from printed import text_of, words_of
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

ROWS, WORDS = 7, 5


class Layer(nn.Module):
    """Rows of an image and of words: one linear layer makes what scales and gates both, before either is normalised."""

    def __init__(self):
        super().__init__()
        self.told = nn.Sequential(nn.SiLU(), nn.Linear(12, 96))
        self.norms = nn.ModuleList(nn.LayerNorm(12, elementwise_affine=False) for _ in range(4))
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12) for _ in range(4))
        self.think = nn.Sequential(nn.Linear(12, 29), nn.GELU(), nn.Linear(29, 12))

    def forward(self, rows, words, time):
        *parts, last = self.told(time).chunk(8, 1)
        parts = [part[:, None] for part in parts]
        read, heard = self.norms[0](rows) * (1 + parts[0]), self.norms[1](words) * (1 + parts[1])
        every = torch.cat([heard, read], dim=1)
        q, k, v = (one(every).unflatten(-1, (3, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        found = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        heard, read = found.split([words.shape[1], rows.shape[1]], dim=1)
        rows, words = rows + parts[2] * read, words + parts[3] * heard
        read, heard = self.norms[2](rows) * (1 + parts[4]), self.norms[3](words) * (1 + parts[5])
        found = self.think(torch.cat([heard, read], dim=1))
        return rows + parts[6] * found[:, WORDS:], words + last[:, None] * found[:, :WORDS]


class Diffusion(nn.Module):
    """An image of patches and words from elsewhere; what leaves is the image's."""

    def __init__(self):
        super().__init__()
        self.patches, self.words, self.time = nn.Conv2d(3, 12, 2, 2), nn.Linear(9, 12), nn.Linear(5, 12)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm, self.back = nn.LayerNorm(12), nn.Linear(12, 12)

    def forward(self, image, words, time):
        rows, words, time = self.patches(image).flatten(2).transpose(1, 2), self.words(words), self.time(time)
        for layer in self.layers:
            rows, words = layer(rows, words, time)
        return self.back(self.norm(rows))


@cache
def draw():
    trace = xray.trace(Diffusion(), torch.rand(2, 3, 2, 2 * ROWS), torch.rand(2, WORDS, 9), torch.rand(2, 5))
    return compose_poster(trace, text_width)


def list_ends(kind):
    return [curve.points[-1] for curve in draw().curves if curve.kind == kind]


def find_box(step):
    return next(box for box in draw().boxes if f"forward/{step}" in box.steps)


def test_a_condition_leads_to_the_gate_of_rows_that_are_one_part_of_several_of_a_split():
    gates = [find_box(f"layers.0.{step}") for step in ("mul#2", "mul#6")]

    assert {(box.right, box.y) for box in gates} <= {(x, y) for x, y in list_ends("condition")}


def test_no_ribbon_leaves_a_box_where_the_line_of_a_condition_ends():
    begun = [curve.points[0] for curve in draw().curves if curve.kind == "ribbon"]

    assert begun
    assert set(begun).isdisjoint(list_ends("condition"))


def test_a_layer_whose_condition_runs_before_its_norms_has_as_many_parameters_as_the_others():
    assert "layers 2–3 have" not in words_of(draw())


def test_a_later_part_of_a_split_is_told_by_its_rows():
    assert (
        words_of(draw()).count(f"{ROWS} OF {ROWS + WORDS} ROWS") == 2
    )  # behind the heads, and behind the feed-forward


class Rejoined(Diffusion):
    """The same, with one last norm for the rows of both, of which the image's go on (ConsisID)."""

    def forward(self, image, words, time):
        rows, words, time = self.patches(image).flatten(2).transpose(1, 2), self.words(words), self.time(time)
        for layer in self.layers:
            rows, words = layer(rows, words, time)
        return self.back(self.norm(torch.cat([words, rows], dim=1))[:, WORDS:])


def test_rows_of_another_stream_that_stand_beside_a_stream_behind_its_layers_are_led_there():
    trace = xray.trace(Rejoined(), torch.rand(2, 3, 2, 2 * ROWS), torch.rand(2, WORDS, 9), torch.rand(2, 5))
    layout = compose_poster(trace, text_width)
    (join,) = (box for box in layout.boxes if "forward/Rejoined.cat#0" in box.steps)
    drawn = next(box for box in layout.boxes if text_of(box.lines[0]) == "ADD" and box.x < join.left)
    ribbons = [curve.points for curve in layout.curves if curve.kind == "ribbon"]

    assert any(one[0][0] == drawn.x and one[-1] == (join.x, join.bottom) for one in ribbons)


def test_what_a_condition_is_made_of_is_counted_with_the_tower_beside_which_it_is_drawn():
    trace = xray.trace(Diffusion(), torch.rand(2, 3, 2, 2 * ROWS), torch.rand(2, WORDS, 9), torch.rand(2, 5))
    columns = read_columns(trace)
    (vision,) = (column for column in columns if column.condition is not None)
    held = {name: n for node in vision.condition.nodes for step in node.steps for name, n in step.weights.items()}

    for ordered in (columns, columns[::-1]):
        told = {name: params for name, _, params in list_shares(ordered, trace)}
        assert told["vision conditions"] >= sum(held.values()) > 0
