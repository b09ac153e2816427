"""Numbers of rows that others take the place of between layers, as of a text that is read anew before each (FIBO)."""

import pytest
import torch
from story.entrances import make_layers
from torch import nn

import xray
from xray.story.sentences.of_links import describe_renewed

WIDTH, KEPT = 21, 8


class Told(nn.Module):
    """Rows of which the last numbers are those of another text before each layer, or all go on."""

    def __init__(self, *, anew):
        super().__init__()
        self.anew, self.given, self.layers = anew, nn.Linear(7, WIDTH), make_layers(WIDTH, 4)
        self.texts = nn.ModuleList(nn.Linear(5, WIDTH - KEPT) for _ in range(4))

    def forward(self, x, text):
        x = self.given(x)
        for layer, lead in zip(self.layers, self.texts, strict=True):
            x = torch.cat([x[..., :KEPT], lead(text)], dim=-1) if self.anew else x
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("anew", "told"),
    [(True, "Before layers 2, 3, 4 other numbers take the place of some of those of rows."), (False, "")],
)
def test_layers_before_which_others_take_the_place_of_numbers_are_named(anew, told):
    given = torch.randn(2, 6, 7), torch.randn(2, 6, 5)

    assert describe_renewed(xray.anatomy(xray.trace(Told(anew=anew).eval(), *given))) == told
