"""Several streams that are mixed by weights before an attention are neither its places, nor its heads, nor its keys."""

import torch
from story.body.test_mistaken import WIDTH
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

PLACES, STREAMS, HEADS = 7, 4, 8


class Streams(nn.Module):
    """Attention on a row of four streams that are weighed by numbers worked out of them, and by learned ones."""

    def __init__(self):
        super().__init__()
        self.norm, self.before = nn.LayerNorm(2 * WIDTH), nn.LayerNorm(2 * WIDTH)
        self.moving = nn.Parameter(torch.rand(2 * WIDTH, STREAMS + 1))
        self.still = nn.Parameter(torch.rand(STREAMS, STREAMS + 1))
        self.lead, self.back = nn.Linear(2 * WIDTH, 3 * 64, bias=False), nn.Linear(64, 2 * WIDTH)
        self.given = nn.Parameter(torch.rand(STREAMS, 1))

    def forward(self, x):
        batch = len(x) // STREAMS
        streams = x.unflatten(0, (batch, STREAMS)).permute(0, 2, 1, 3).unsqueeze(2)
        weights = (self.norm(streams) @ self.moving).tanh() + self.still.unsqueeze(0)
        mixed = torch.einsum("bnfst,bnfsd->bnftd", weights, streams)
        rows = self.before(mixed[..., 0, :].flatten(2))
        query, key, value = self.lead(rows).view(batch, -1, 3, HEADS, 8).permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(query, key, value)
        made = self.back(found.transpose(1, 2).flatten(2)).unsqueeze(2)
        spread = torch.einsum("bnfd,bnfst->bnfsd", made, (self.given + 0 * weights[..., :1]))
        kept = mixed[..., 1:, :].permute(0, 3, 1, 2, 4).reshape(x.shape)
        return x + (spread.permute(0, 3, 1, 2, 4).reshape(x.shape) + kept)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(5, 2 * WIDTH), nn.ModuleList(Streams() for _ in range(3))

    def forward(self, x):
        x = self.first(x).unsqueeze(1).expand(-1, STREAMS, -1, -1).reshape(-1, PLACES, 2 * WIDTH)
        for layer in self.layers:
            x = layer(x)
        return x.unflatten(0, (-1, STREAMS)).sum(1)


def test_weights_of_streams_are_no_places_and_no_queries_and_streams_are_no_heads():
    trace = xray.trace(Model().eval(), torch.rand(2, PLACES, 5))
    layout = compose_poster(trace, text_width)
    assert layout is not None
    text = "\n".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "SCORES Q·K" in text
    assert "PLACES" not in text
    assert "Places are added" not in text
    assert "Grouped queries" not in text
    assert "ONE LINEAR FOR Q, K, V" not in text
