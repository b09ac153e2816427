"""Layers that are alike but for their masks are told apart, and what differs is said."""

import pytest
import torch
from printed import text_of
from story.body.test_kept_waist import WIDTH, Layer
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

LENGTH = 5


class Masked(nn.Module):
    """A single head that hides what it is told to hide."""

    def __init__(self, mask):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mask = mask

    def forward(self, x):
        query, key, value = (made(x)[:, None] for made in (self.query, self.key, self.value))
        return self.out(scaled_dot_product_attention(query, key, value, attn_mask=self.mask)[:, 0])


def model_of(*masks):
    return nn.Sequential(
        nn.Embedding(11, WIDTH), *(Layer(mask if isinstance(mask, nn.Module) else Masked(mask)) for mask in masks)
    )


ODD = torch.eye(LENGTH, dtype=torch.bool) | torch.eye(LENGTH, dtype=torch.bool).flip(0)
MORE = ODD | (torch.arange(LENGTH) == 0)
"""Two masks without a name, of which one shows more."""


@pytest.mark.parametrize(
    ("masks", "layers"),
    [((ODD, MORE, ODD, MORE), [(0, 2), (1, 3)]), ((ODD, ODD, ODD, ODD), [(0, 1, 2, 3)])],
)
def test_layers_are_told_apart_by_their_masks_alone(masks, layers):
    trace = xray.trace(model_of(*masks), torch.arange(LENGTH)[None])

    assert [group.layers for group in xray.anatomy(trace).towers[0].groups] == layers
    boxes = compose_poster(trace, text_width).boxes
    told = [text for box in boxes if "feed-forward; hides " in (text := " ".join(map(text_of, box.lines)))]
    assert [text.rpartition("hides ")[2] for text in told] == (
        ["64% of its cells", "52% of its cells"] if len(layers) > 1 else []
    )


class Filled(Masked):
    """A bias of places, and a mask filled in twice: a number far below where keys are hidden, nothing elsewhere."""

    def __init__(self, mask):
        super().__init__(mask)
        self.table = nn.Parameter(torch.zeros(LENGTH * LENGTH, 1))

    def forward(self, x):
        query, key, value = (made(x)[:, None] for made in (self.query, self.key, self.value))
        groups = self.mask.float()
        hidden = groups.masked_fill(groups != 0, -100.0).masked_fill(groups == 0, 0.0)
        bias = self.table[torch.arange(LENGTH * LENGTH)].view(LENGTH, LENGTH, -1).permute(2, 0, 1)[None]
        added = bias + hidden[None, None].expand(len(x), -1, -1, -1)
        return self.out(scaled_dot_product_attention(query, key, value, attn_mask=added)[:, 0])


def test_what_is_filled_with_nothing_hides_nothing():
    told = " ".join(text_of(line) for line in lines_of_poster(model_of(*[Filled(ODD)] * 2)))

    assert "hides 36% of its cells" in told
    assert "hides nothing" not in told


def lines_of_poster(model):
    boxes = compose_poster(xray.trace(model, torch.arange(LENGTH)[None]), text_width).boxes
    return [line for box in boxes for line in box.lines]
