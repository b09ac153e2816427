"""Images and films that come in and are laid out by moves alone, as patches or with their neighbours side by side."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray

FILM, IMAGE = (2, 3, 4, 8, 12), (2, 3, 8, 12)


class Cut(nn.Module):
    """Films, cut into patches along their time too (ViViT)."""

    def __init__(self):
        super().__init__()
        self.lay = nn.Linear(3 * 2 * 4 * 4, WIDTH)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, video):
        return self.layers(self.lay(self.cut(video)))

    def cut(self, x):
        return x.reshape(2, 3, 2, 2, 2, 4, 3, 4).permute(0, 2, 4, 6, 3, 5, 7, 1).reshape(2, 12, -1)


class Bodies(Cut):
    """The same of what may be no film."""

    def forward(self, volume):
        return self.layers(self.lay(self.cut(volume)))


class Neighbours(Cut):
    """Maps whose neighbours are laid side by side, some more than once (PiT)."""

    def __init__(self):
        super().__init__()
        self.lay, self.beside = nn.Linear(3 * 4 * 4, WIDTH), nn.Unfold(4, stride=2)

    def cut(self, x):
        return self.beside(x).transpose(1, 2)


@pytest.mark.parametrize(
    ("model", "shape", "reads"),
    [(Cut, FILM, "video"), (Bodies, FILM, "vectors"), (Neighbours, IMAGE, "map")],
)
def test_what_moves_lay_out_is_a_map_by_its_axes_and_a_film_by_its_name_too(model, shape, reads):
    (tower,) = xray.anatomy(xray.trace(model().eval(), torch.rand(shape))).towers

    assert tower.reads == reads
