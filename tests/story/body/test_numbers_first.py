"""Attention to maps, whose numbers stand before their places: its heads, how wide they are, and that it sees all."""

import pytest
import torch
from any_writing_sheet import list_texts
from story.body.test_mistaken import BATCH, read
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster

WIDTH, HEADS, SIDE = 16, 2, 3


class Looking(nn.Module):
    """Channels are cut into heads by one step, and summed over, as letters say (guided diffusion).

    Queries and keys are scaled before or behind it, and nothing is told of heads behind.
    """

    def __init__(self, *, is_scaled_before):
        super().__init__()
        self.is_scaled_before = is_scaled_before
        self.norm = nn.GroupNorm(4, WIDTH)
        self.qkv, self.out = nn.Conv1d(WIDTH, 3 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, image):
        x = image.flatten(2)
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=1)
        if self.is_scaled_before:
            q, k = q * 8**-0.25, k * 8**-0.25
        q, k, v = (one.reshape(BATCH * HEADS, WIDTH // HEADS, SIDE * SIDE) for one in (q, k, v))
        if not self.is_scaled_before:
            q, k = q * 8**-0.25, k * 8**-0.25
        scores = torch.einsum("bct,bcs->bts", q, k)
        found = torch.einsum("bts,bcs->bct", torch.softmax(scores, dim=-1), v)
        return (x + self.out(found.reshape(x.shape))).reshape(image.shape)


class Convolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, image):
        return image + self.conv(nn.functional.silu(self.norm(image)))


@pytest.mark.parametrize("is_scaled_before", [True, False])
def test_numbers_before_places_are_those_that_letters_sum_over_and_no_window_is_told(is_scaled_before):
    layers = (part for _ in range(3) for part in (Convolving(), Looking(is_scaled_before=is_scaled_before)))
    found = read(nn.Sequential(nn.Conv2d(3, WIDTH, 1), *layers), torch.rand(BATCH, 3, SIDE, SIDE))

    (tower,) = found.towers
    attentions = [one for one in tower.branches if isinstance(one, Attention)]
    told = {(one.heads, one.d_k, one.d_v, one.window) for one in attentions}
    assert told == {(HEADS if is_scaled_before else None, WIDTH // HEADS, WIDTH // HEADS, None)}


def test_scores_are_divided_by_the_root_of_the_numbers_that_letters_sum_over_and_not_of_the_places():
    class Dividing(Looking):
        def forward(self, image):
            q, k, v = self.qkv(self.norm(image.flatten(2))).reshape(BATCH, 3, HEADS, WIDTH // HEADS, -1).unbind(1)
            weights = (torch.einsum("bhci,bhcj->bhij", q, k) * (WIDTH // HEADS) ** -0.5).softmax(-1)
            return image + self.out(torch.einsum("bhij,bhcj->bhci", weights, v).flatten(1, 2)).reshape(image.shape)

    layers = (part for _ in range(3) for part in (Convolving(), Dividing(is_scaled_before=False)))
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 1), *layers)
    texts = list_texts(
        compose_poster(xray.trace(model, torch.rand(BATCH, 3, WIDTH // HEADS, WIDTH // HEADS)), text_width)
    )

    assert any(text.startswith("SCORES Q·K^T ÷ √d_k") for text in texts)
