"""Rows of another tower that are put beside those of the stream before the norm of both (the class row of CaiT)."""

import torch
from story.body.test_kept_waist import WIDTH, Layer
from story.body.test_mixed_heads import D_K, HEADS, LENGTH, ByLinear, Talking
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class ClassLayer(nn.Module):
    """One row looks at itself and at all others, normalised with them."""

    def __init__(self):
        super().__init__()
        self.before, self.think = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, HEADS * D_K) for _ in range(3))
        self.out, self.wide, self.back = nn.Linear(HEADS * D_K, WIDTH), nn.Linear(WIDTH, 33), nn.Linear(33, WIDTH)

    def forward(self, row, others):
        both = self.before(torch.cat((row, others), dim=1))
        q, k, v = (
            one.unflatten(-1, (HEADS, D_K)).transpose(1, 2)
            for one in (self.query(both[:, :1]), self.key(both), self.value(both))
        )
        row = row + self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return row + self.back(torch.relu(self.wide(self.think(row))))


class ClassRow(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.row = nn.Embedding(11, WIDTH), nn.Parameter(torch.rand(1, 1, WIDTH))
        self.layers = nn.Sequential(*(Layer(Talking(ByLinear(), ByLinear())) for _ in range(2)))
        self.looking, self.head = nn.ModuleList(ClassLayer() for _ in range(2)), nn.Linear(WIDTH, 7)

    def forward(self, ids):
        others = self.layers(self.embed(ids))
        row = self.row.expand(len(ids), -1, -1)
        for layer in self.looking:
            row = layer(row, others)
        return self.head(row[:, 0])


def test_rows_that_are_normalised_together_have_boxes_and_are_led_there():
    layout = compose_poster(xray.trace(ClassRow(), torch.arange(2 * LENGTH).view(2, LENGTH) % 11), text_width)
    heads = {"".join(run.text for run in one.lines[0]): one for one in layout.boxes if one.lines and one.steps}
    told = ["".join(run.text for run in line) for one in layout.boxes for line in one.lines]

    joined = heads[f"END TO END: 1 + {LENGTH}"]
    ends = [one.points[-1] for one in layout.curves if one.kind == "ribbon" and one.head]
    assert [joined.left - 1 <= x <= joined.right + 1 and joined.bottom - 1 <= y <= joined.top + 1 for x, y in ends] == [
        True
    ]
    assert any(one.steps[0] == "forward/looking.0.before#0" for one in layout.boxes if one.steps)
    assert "MEMORY" in told
    assert not any("in no box" in line for line in told)
