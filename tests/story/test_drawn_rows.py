"""Patches of an image that are picked by chance before they become a stream (ViLT)."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH, LatentAttention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

SIDE, PATCHES = 3, 9


class Drawing(nn.Module):
    """So many patches of each image, picked by chance or not, and their places by the same."""

    def __init__(self, kept, *, by_chance=True):
        super().__init__()
        self.kept, self.by_chance = kept, by_chance
        self.patches = nn.Conv2d(5, WIDTH, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, PATCHES, WIDTH))
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))

    def forward(self, image):
        rows = self.patches(image).flatten(2).mT
        table = torch.cat([self.pick(number) for number in range(len(rows))])
        picked = rows[table[:, 0], table[:, 1]].view(len(rows), self.kept, WIDTH)
        places = self.places.expand(len(rows), -1, -1)
        places = places[table[:, 0], table[:, 1]].view(len(rows), self.kept, WIDTH)
        return self.layers(picked + places)

    def pick(self, number):
        rows = torch.stack([torch.full((PATCHES,), number), torch.arange(PATCHES)], dim=-1)
        return rows[torch.multinomial(torch.ones(PATCHES), self.kept)] if self.by_chance else rows[: self.kept]


def labels_of(model):
    torch.manual_seed(0)
    trace = xray.trace(model.eval(), torch.randn(2, 5, 4 * SIDE, 4 * SIDE))
    boxes = compose_poster(trace, text_width).boxes
    return [" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes]


@pytest.mark.parametrize(
    ("kept", "told"), [(PATCHES, "9 ROWS PICKED BY CHANCE 2"), (7, "7 ROWS PICKED BY CHANCE OF 9")]
)
def test_patches_that_are_picked_by_chance_say_so(kept, told):
    labels = labels_of(Drawing(kept))

    assert any(label.startswith(told) for label in labels)


def test_patches_that_are_picked_in_order_say_nothing_of_chance():
    assert not [label for label in labels_of(Drawing(7, by_chance=False)) if "CHANCE" in label or "ALIKE" in label]
