"""What stands in no part of a sheet is counted with none, be it that a part reads what it makes."""

import torch
from story.body.test_mistaken import HEADS, WIDTH
from story.charts.test_combined_keys import ASKING, LENGTH, Detects, LooksByPlace
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class LooksByPoint(LooksByPlace):
    """Cross-attention to whose queries a linear layer of where they look is added."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, memory, places):
        rows = self.query(x) + self.turn(places), self.key(memory), self.value(memory)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


class Points(Detects):
    """A decoder that finds once, of learned rows, where it looks; all its cross-attentions read that (DETR)."""

    def __init__(self):
        super().__init__()
        self.rows, self.point = nn.Parameter(torch.rand(ASKING, WIDTH)), nn.Linear(WIDTH, 2)
        self.look = nn.ModuleList(LooksByPoint() for _ in range(2))

    def forward(self, rows):
        memory, asked = self.encoder(self.lead(rows)), self.ask.weight.expand(len(rows), -1, -1)
        points = self.point(self.rows).sigmoid()
        turned = (points[..., None] * torch.arange(1, WIDTH // 2 + 1)).sin().flatten(1)
        for attend, look, wide in zip(self.attend, self.look, self.wide, strict=True):
            asked = wide(look(attend(asked), memory, turned))
        return asked


def test_what_is_not_drawn_is_counted_with_no_part():
    torch.manual_seed(0)
    model = Points().eval()
    trace = xray.trace(model, torch.rand(2, LENGTH, WIDTH))
    boxes = compose_poster(trace, text_width).boxes
    texts = ["".join(run.text for line in box.lines for run in line) for box in boxes]
    point, rows = (sum(one.numel() for one in some) for some in (model.point.parameters(), [model.rows]))
    turn = sum(one.numel() for one in LooksByPoint().turn.parameters())
    turned = ", ".join(f"look.{number}.turn ({turn})" for number in range(2))
    looks = sum(one.numel() for one in model.look.parameters())

    assert any(text.startswith(f"Not drawn, with parameters: {turned}, and 2more ({point + rows}).") for text in texts)
    assert texts[texts.index("decoder cross-attention × 2") + 1] == f"{looks - 2 * turn:,}"
    assert f"{looks // 2 - turn:,} parameters" in texts
    assert texts[texts.index("all else") + 1] == f"{point + rows + 2 * turn:,}"
