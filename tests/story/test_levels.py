"""Maps of several sizes that an eye gives, each made of its end alone: in boxes, and their places told (SAM 3)."""

import pytest
import torch
from printed import words_of
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart, Reader
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

SIDE, CHANNELS = 4, 5


class Level(nn.Sequential):
    """A map of another size, and two convolutions."""

    def __init__(self, scale, width=WIDTH):
        super().__init__(*scale, nn.Conv2d(width, CHANNELS, 1), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))


class Eye(Reader):
    """Three maps of what the last layer gives, and sines of their places, if any; `earlier` is one layer's map."""

    def __init__(self, *, levels=3, earlier=False, placed=False):
        super().__init__(*(part() for _ in range(3) for part in (AttentionPart, FeedForwardPart)))
        scales = (nn.ConvTranspose2d(WIDTH, 7, 2, stride=2),), (), (nn.MaxPool2d(2),)
        self.levels = nn.ModuleList(Level(one, 7 if number == 0 else WIDTH) for number, one in enumerate(scales))
        self.levels, self.earlier, self.placed = self.levels[:levels], earlier, placed

    def forward(self, x, kind=None):
        x, given = self.project(x), []
        for layer in self.layers:
            x = layer(x)
            given.append(x)
        maps = [x.transpose(1, 2).unflatten(-1, (SIDE, SIDE)) for x in (*given[1:2], x)]
        made = [level(maps[-1]) for level in self.levels]
        made = [*made[:-1], made[-1] + self.levels[-1](maps[0])] if self.earlier else made
        places = [torch.sin(torch.arange(one.shape[-1]) * 0.1) for one in made if self.placed]
        return [*made, *places]


def record(**ways):
    torch.manual_seed(0)
    return xray.trace(Eye(**ways).eval(), torch.randn(BATCH, SIDE * SIDE, 7))


def test_each_map_that_leaves_stands_in_a_lane_of_its_own_in_the_order_of_the_model():
    (column,) = read_columns(record())
    lanes = {}
    for node in sorted(column.exit.nodes, key=lambda node: node.row):
        lanes.setdefault(node.place[0], []).append(node.label)

    both = ["CONVOLUTION 1×1", "CONVOLUTION 3×3"]
    assert [lanes[place] for place in sorted(lanes)] == [
        ["TRANSPOSED CONVOLUTION 2×2, STEP 2", *both],
        both,
        ["MAX POOL 2×2", *both],
    ]
    assert len(column.exit.feet) == len(lanes)


@pytest.mark.parametrize("ways", [{"levels": 1}, {"earlier": True}])
def test_one_map_alone_and_maps_of_earlier_layers_have_no_lanes(ways):
    (column,) = read_columns(record(**ways))

    assert column.exit is None or len({node.place[0] for node in column.exit.nodes}) == 1


@pytest.mark.parametrize("placed", [True, False])
def test_what_is_handed_out_and_of_no_data_is_said_where_it_has_no_box(placed):
    words = words_of(compose_poster(record(placed=placed), text_width))

    told = "Worked out, and in no box: sin × 3, mul × 3 (handed out, of nothing that comes in)."
    assert (told in words) == ("in no box" in words) == placed
