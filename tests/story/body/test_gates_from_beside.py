"""What gates a sublayer from beside the stream, and what does not."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Gated(nn.Module):
    """Layers whose attention is let through by numbers made of the rows that it reads, or of a row that came in."""

    def __init__(self, of_rows, bend=lambda gate: gate):
        super().__init__()
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(2))
        self.gates, self.of_rows, self.bend = nn.ModuleList(nn.Linear(15, 15) for _ in range(2)), of_rows, bend
        self.lead, self.last = nn.Linear(4, 15), nn.Linear(15, 15)

    def forward(self, x, beside):
        x = self.lead(x)
        for layer, gate in zip(self.layers, self.gates, strict=True):
            told, y = x.mean(1, keepdim=True) if self.of_rows else beside[:, None], layer.three(x)
            x = x + layer.one(y, y) * self.bend(gate(told))
            x = x + layer.two(layer.four(x))
        x = nn.functional.layer_norm(x, (15,))
        return x if self.of_rows else x * self.last(beside)[:, None]


GIVEN = torch.rand(2, 7, 4), torch.rand(2, 15)


@pytest.mark.parametrize("of_rows", [True, False])
def test_what_is_made_of_the_rows_themselves_gates_from_no_place_beside_them(of_rows):
    words = words_of(compose_poster(xray.trace(Gated(of_rows).eval(), *GIVEN), text_width))
    assert ("how much goes on, what stands beside the stream says" in words) is not of_rows
    assert ("Not drawn, with parameters: last (240)." in words) is not of_rows


def test_a_direction_that_stands_beside_the_stream_gates_nothing():
    model = Gated(of_rows=False, bend=lambda gate: nn.functional.normalize(gate, dim=-1)).eval()
    words = words_of(compose_poster(xray.trace(model, *GIVEN), text_width))
    assert "how much goes on, what stands beside the stream says" not in words


class Tagged(nn.Module):
    """A feed-forward on normed rows that are scaled and shifted by rows of a time's, each by its tag (MiniMax H3)."""

    def __init__(self):
        super().__init__()
        self.norm, self.by = nn.RMSNorm(WIDTH), nn.Linear(7, 2 * WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x, time, tags):
        scale, shift = (one.index_select(0, tags) for one in self.by(time).chunk(2, dim=-1))
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x) * (1 + scale) + shift)))


class ByTags(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.layers = nn.Linear(5, WIDTH), nn.ModuleList((AttentionPart(), Tagged()) * 2)

    def forward(self, x, time, tags):
        x = self.begin(x)
        for layer in self.layers:
            x = layer(x, time, tags) if isinstance(layer, Tagged) else layer(x)
        return x


def test_what_multiplies_and_shifts_rows_before_a_feed_forward_has_boxes_where_each_row_has_its_own():
    trace = xray.trace(ByTags().eval(), torch.rand(2, 8, 5), torch.rand(4, 7), torch.arange(8) % 4)
    (column,) = read_columns(trace)

    chart = column.frames[0].panels[1].chart
    assert [node.label for node in chart.nodes][:4] == ["RMS NORM", "MULTIPLIED", "ADDED UP", "LINEAR + GELU"]
