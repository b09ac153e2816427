"""One norm that branches side by side read, each times a number of its own: it is drawn once."""

import pytest
import torch
from handwritten import Attention
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH = 15


class Layer(nn.Module):
    """Attention beside a feed-forward on one norm, which each of them multiplies by a number (Falcon-H1)."""

    def __init__(self, factors):
        super().__init__()
        self.weight, self.factors = nn.Parameter(torch.ones(WIDTH)), factors
        self.attention, self.wide, self.back = Attention(WIDTH, 3), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        read = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        one, other = (read * factor for factor in self.factors)
        return x + (self.attention(one, one) + self.back(nn.functional.gelu(self.wide(other))))


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.5, 0.25)])
def test_a_norm_that_two_branches_read_is_drawn_once(factors):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(Layer(factors) for _ in range(3)), nn.Linear(WIDTH, 31))
    layout = compose_poster(xray.trace(model, torch.arange(14).view(2, 7)), text_width)

    texts = ["".join(run.text for line in box.lines for run in line) for box in layout.boxes]
    assert len([text for text in texts if text.startswith("RMS NORM  ")]) == 1
    assert any("in no box" in text or "× 0.5" in text for text in texts) == (factors != (1.0, 1.0))
