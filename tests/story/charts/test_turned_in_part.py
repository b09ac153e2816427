"""Rows of places that are turned, behind rows that have no place: how many of how many are."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.whole import anatomy
from xray.story.sentences.attentions.of_places import describe_turned

HEADS, LONE = 2, 2


class Turning(nn.Module):
    """Attention whose queries and keys are turned by their place, but for the first rows (DINOv3)."""

    def __init__(self, lone):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.lone = lone

    def turn(self, x):
        first, places = x.split([self.lone, x.shape[-2] - self.lone], dim=-2)
        angles = torch.outer(torch.arange(places.shape[-2]), torch.rand(x.shape[-1] // 2)).repeat(1, 2)
        left, right = places.chunk(2, -1)
        turned = places * angles.cos() + torch.cat([-right, left], -1) * angles.sin()
        return torch.cat([first, turned], dim=-2) if self.lone else turned

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(self.turn(q), self.turn(k), v)
        return x + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("lone", [LONE, 0])
def test_a_turn_of_some_rows_says_of_how_many(lone):
    torch.manual_seed(0)
    given = rows()
    labels = {node.label for node in draw(Reader(Turning(lone), FeedForwardPart()), given) if "ROTATE" in node.label}

    many = given.shape[1]
    told = f"ROTATE {many - lone} OF {many} ROWS" if lone else "ROTATE"
    assert labels == {f"{told} Q", f"{told} K"}


class TurnedBehind(Turning):
    """Rows behind the lone ones are turned and laid behind these, be there none (timm's rotary attention)."""

    def turn(self, x):
        return torch.cat([x[:, :, : self.lone], Turning.turn(self, x)[:, :, self.lone :]], dim=2)


def test_no_rows_that_are_not_turned_are_no_heads():
    torch.manual_seed(0)
    given = rows()
    nodes = draw(Reader(TurnedBehind(0), FeedForwardPart()), given)

    heads = {node.label: node.record.shape for node in nodes if "HEADS" in node.label and "CONCAT" not in node.label}
    assert heads == {"HEADS OF Q, K, V": (len(given), HEADS, given.shape[1], WIDTH // HEADS)}


class TurnedInPart(Turning):
    """The first numbers of each head are normed, multiplied by 1, turned and put before the others."""

    def turn(self, x):
        normed = functional.normalize(x, dim=-1) * 1
        some = x.shape[-1] // 3 * 2
        first, rest = normed[..., :some], normed[..., some:]
        angles = torch.outer(torch.arange(x.shape[-2]), torch.rand(some // 2)).repeat(1, 2)
        left, right = first.chunk(2, -1)
        turned = first * angles.cos() * angles.exp() + torch.cat([-right, left], -1) * angles.sin() * angles.exp()
        return torch.cat([turned, rest], dim=-1)


def test_numbers_that_are_not_turned_go_the_same_way_where_all_are_cut_behind_a_product_with_1():
    torch.manual_seed(0)

    labels = [node.label for node in draw(Reader(TurnedInPart(0), FeedForwardPart()), rows())]
    assert [label for label in labels if label.endswith(" Q")] == ["NORM Q", "OPERATIONS Q"]


class TurnedAside(Turning):
    """Queries and keys are turned before they are cut into heads: those of the first head alone (CosyVoice 3)."""

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k = (torch.cat([self.turn(one[..., :4]), one[..., 4:]], -1) for one in (q, k))
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (q, k, v))
        return x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_numbers_that_are_turned_before_the_cut_into_heads_are_of_all_heads():
    trace = xray.trace(Reader(TurnedAside(0), FeedForwardPart()).eval(), rows())

    told = describe_turned(anatomy(trace))
    assert told == f"Partly turned: 4 of the {WIDTH} numbers of all heads are turned, not the others."


class TurnedWhole(Turning):
    """What is turned stands between what is not, of which there is nothing here (lucidrains' rotary places)."""

    def turn(self, x):
        left, middle, right = x[..., :0], x[..., 0 : x.shape[-1]], x[..., x.shape[-1] :]
        return torch.cat([left, super().turn(middle), right], dim=-1)


def test_no_head_is_told_to_be_without_numbers():
    torch.manual_seed(0)
    nodes = draw(Reader(TurnedWhole(0), FeedForwardPart()), rows())

    assert {"ROTATE Q", "ROTATE K"} <= {node.label for node in nodes}
    assert not [node.label for node in nodes if node.record is not None and 0 in node.record.shape]
