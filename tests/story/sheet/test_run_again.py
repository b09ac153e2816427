"""What one sublayer runs again, behind another one that has run it before, is counted once, and where it belongs."""

import torch
from story.body.test_mistaken import BATCH, PLACES, AttentionPart, FeedForwardPart, Reader
from story.body.test_rows_of_a_pair import WIDTH, Crossing
from story.parameter_bars import bars_of, count, poster_of
from torch import nn


class Pairs(Crossing):
    """The second of a pair looks at what attention and feed-forward have made of the first (EfficientLoFTR)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.Identity()  # type: ignore[assignment]
        self.ahead = nn.Sequential(nn.Linear(2 * WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))

    def step(self, x, other):
        return x + self.ahead(torch.cat([x, self.attend(x, other)], dim=-1))

    def forward(self, x):
        pairs = x.view(-1, 2, PLACES, WIDTH)
        first, second = pairs[:, 0], pairs[:, 1]
        first = self.step(first, second)
        second = self.step(second, first)
        return torch.stack([first, second], dim=1).view(x.shape)


def test_attention_to_the_other_of_a_pair_has_its_parameters_at_it():
    layers, attentions = [Pairs(), Pairs()], [AttentionPart(), AttentionPart()]
    inner = [part for found in zip(attentions, layers, strict=True) for part in (found[0], FeedForwardPart(), found[1])]
    bars = bars_of(poster_of(Reader(*inner), torch.randn(2 * BATCH, PLACES, 7)))

    ahead = count(*(layer.ahead for layer in layers))
    attending = sum(params for name, params in bars.items() if "attention" in name)
    assert attending == count(*attentions, *layers) - ahead
    assert sum(params for name, params in bars.items() if "feed-forward" in name) == ahead + 2 * count(
        FeedForwardPart()
    )
