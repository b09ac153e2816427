"""Pieces of a packed row that attend by themselves: it is not said that every place looks at every other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from story.body.test_mistaken import AttentionPart, FeedForwardPart, Reader, read
from story.sentences.makers import FALSE, PLAIN, make_tower
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import are_pieces
from xray.story.body.told_layers import is_cut
from xray.story.branches.scored.visible import count_blocks
from xray.story.sentences.stations.of_stations import describe_station

PLACES, WIDTH, HEADS = 6, 12, 3
MANY = 1031


class MaskedPart(nn.Module):
    """Attention of which a mask hides some places from some others."""

    def __init__(self, sees):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.sees = sees

    def forward(self, x):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.sees)
        return x + self.out(made.transpose(-2, -3).flatten(-2))


class RolledPart(MaskedPart):
    """The same of places that are rolled before, and back behind: a window as long as the row (TransMorph)."""

    def forward(self, x):
        rows = self.qkv(self.norm(x).roll(-2, 1)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=self.sees)
        return x + self.out(made.transpose(-2, -3).flatten(-2)).roll(2, 1)


class CoarsePart(nn.Module):
    """Attention of rows that are each made of several places, and spread over these behind it (EfficientLoFTR)."""

    def __init__(self, times):
        super().__init__()
        self.pool, self.norm, self.times = nn.Conv1d(WIDTH, WIDTH, times, times), nn.LayerNorm(WIDTH), times
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        coarse = self.norm(self.pool(x.transpose(1, 2)).transpose(1, 2))
        rows = self.qkv(coarse).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        made = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2))
        return x + functional.interpolate(made.transpose(1, 2), scale_factor=float(self.times)).transpose(1, 2)


class ChunkedPart(nn.Module):
    """Attention within pieces of a row, heads before the pieces, of what convolutions made (ActionFormer)."""

    def __init__(self, size):
        super().__init__()
        self.norm, self.mix, self.size = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 3 * WIDTH, 3, padding=1), size
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        made = self.mix(self.norm(x).mT).unflatten(1, (3, HEADS, -1))[0].mT
        q, k, v = made.unflatten(2, (-1, self.size)).unbind()
        found = (torch.einsum("hcqd,hckd->hcqk", q, k) * 0.5).softmax(-1) @ v
        return x + self.out(found.flatten(1, 2).transpose(0, 1).reshape(x.shape))


class AcrossBatch(nn.Module):
    """One number for each place: each sequence looks at the other ones, and no place at another (CSATv2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.three, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3), nn.Linear(1, WIDTH)

    def forward(self, x):
        q, k, v = self.three(self.norm(x)).unbind(-1)
        return x + self.back(((q @ k.transpose(-1, -2)).softmax(dim=-1) @ v).unsqueeze(-1))


class BehindNothing(MaskedPart):
    """Attention whose keys are put behind rows that there are none of, as a class token might be."""

    def forward(self, x):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        k = torch.cat([k[..., :0, :], 0.5 * k], dim=-2)
        return x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2))


def read_attention(part, batch=1):
    found = read(Reader(part, FeedForwardPart()), torch.randn(batch, PLACES, 7))
    (tower,) = found.towers
    (attention,) = (one for one in tower.branches if isinstance(one, Attention))
    return attention, describe_station(tower, attention)


def test_pieces_of_a_row_are_counted():
    attention, told = read_attention(AttentionPart(pieces=3))

    assert (attention.pieces, attention.window, attention.causal) == (3, None, False)
    assert told == "3 pieces lie end to end; places look at those of their own."


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (1, 3, 2)])
def test_pieces_that_a_mask_cuts_are_counted(sizes):
    attention, told = read_attention(MaskedPart(torch.block_diag(*(torch.ones(one, one) for one in sizes)).bool()))

    assert (attention.pieces, attention.partial) == (len(sizes), None)
    assert "every other" not in told


def test_what_a_mask_keeps_apart_of_rolled_places_are_no_pieces():
    attention, told = read_attention(RolledPart(torch.block_diag(torch.ones(4, 4), torch.ones(2, 2)).bool()))

    assert (attention.pieces, attention.rolled, attention.partial) == (None, True, True)
    assert told == "Places look at those that they may see."


def test_pieces_in_which_places_look_back_are_no_windows():
    attention, told = read_attention(MaskedPart(torch.block_diag(torch.ones(4, 4), torch.ones(2, 2)).tril().bool()))

    assert (attention.pieces, attention.window, attention.causal) == (2, None, True)
    assert told == "2 pieces lie end to end; places look back at those of their own."


def test_places_in_front_that_see_themselves_alone_are_no_pieces():
    alone = torch.block_diag(torch.ones(1, 1), torch.ones(1, 1), torch.ones(4, 4))
    attention, _ = read_attention(MaskedPart(alone.tril().bool()))

    assert (attention.pieces, attention.window) == (None, None)


def test_a_mask_that_hides_some_places_from_some_leaves_it_unsaid_what_they_see():
    sees = torch.ones(PLACES, PLACES, dtype=torch.bool)
    sees[1, 4] = sees[5, 0] = False
    attention, told = read_attention(MaskedPart(sees))

    assert (attention.pieces, attention.partial, attention.causal) == (None, True, False)
    assert told == "Places look at those that they may see."


def test_places_do_not_look_at_padding_that_is_hidden():
    sees = torch.ones(PLACES, PLACES, dtype=torch.bool)
    sees[:, 4:] = False
    attention, told = read_attention(MaskedPart(sees))

    assert (attention.pieces, attention.partial, attention.causal) == (None, True, False)
    assert told == "Places look at those that they may see."


def test_rows_made_of_several_places_are_told_as_coarse():
    attention, told = read_attention(CoarsePart(2), batch=2)

    assert attention.coarse == 2
    assert told == "2 places become one row, the rows look at each other, and are spread out again."


def test_pieces_that_stand_behind_heads_are_no_rows_made_of_several_places():
    assert read_attention(ChunkedPart(2))[0].coarse is None


def test_sequences_that_score_each_other_are_no_places():
    found = read(
        Reader(AttentionPart(), FeedForwardPart(), AcrossBatch(), FeedForwardPart()), torch.randn(2, PLACES, 7)
    )

    assert [one.part for one in found.towers[0].branches] == ["attention", "feed_forward", "unknown", "feed_forward"]


def test_rows_that_there_are_none_of_are_no_other_rows():
    attention, _ = read_attention(BehindNothing(None), batch=2)

    assert (attention.source, attention.other_rows) == ("self", None)


class Parted(MaskedPart):
    """Attention of the first half of the rows and of the second, end to end, or taken in another way."""

    def __init__(self, way):
        super().__init__(None)
        self.way = way

    def forward(self, x):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).movedim(-2, 1).unbind(-2)
        half = x.shape[1] // 2
        spans = {
            "split": [one.split(half, 2) for one in rows],
            "crossed": [one.split(half, 2)[::step] for one, step in zip(rows, (1, -1, -1), strict=True)],
            "by turns": [(one[:, :, ::2], one[:, :, 1::2]) for one in rows],
            "sequences": [one.split(1, 0) for one in rows],
            "heads": [one.split(1, 1) for one in rows],
        }[self.way]
        found = [functional.scaled_dot_product_attention(*one) for one in zip(*spans, strict=True)]
        joined = torch.cat(found, {"sequences": 0, "heads": 1}.get(self.way, 2))
        return x + self.out(joined.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("way", "pieces"),
    [("split", 2), ("crossed", None), ("by turns", None), ("sequences", None), ("heads", None)],
)
def test_pieces_are_the_next_rows_of_one_tensor_each_time(way, pieces):
    found, told = read_attention(Parted(way), batch=2)

    assert found.pieces == pieces
    assert ("pieces lie end to end" in told) == bool(pieces)


class Tied(MaskedPart):
    """Attention along an alignment: what all its rows ask and are asked makes one set of weights, or each makes its."""

    def __init__(self, letters):
        super().__init__(None)
        self.letters = letters

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        weights = (torch.einsum(f"rihd,rjhd->{self.letters}", q, k) / 4).softmax(-1)
        return x + self.out(torch.einsum(f"{self.letters},rjhd->rihd", weights, v).flatten(2))


@pytest.mark.parametrize(("letters", "sees_all"), [("hij", False), ("rhij", True)])
def test_places_of_rows_that_share_their_weights_do_not_look_at_every_other(letters, sees_all):
    found, told = read_attention(Tied(letters), batch=5)

    assert found.causal is False
    assert (told == "Every place looks at every other.") is sees_all


def test_many_towers_of_a_layer_or_two_are_none():
    small = make_tower(FALSE, PLAIN)
    large = replace(small, groups=(replace(small.groups[0], layers=tuple(range(5))),))

    assert are_pieces([small] * 6)
    assert not are_pieces([small] * 3)
    assert not are_pieces([large] * 6)


class OwnSums(nn.Module):
    """Attention, and experts for chosen rows, each of which adds to what it is given before all are weighed."""

    def __init__(self):
        super().__init__()
        self.look = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(FeedForwardPart() for _ in range(3))

    def forward(self, x):
        seen = self.norm(x)
        x = x + self.look(seen, seen, seen, need_weights=False)[0]
        weights, chosen = self.gate(x.flatten(0, 1)).topk(2)
        rows, given = x.flatten(0, 1).repeat_interleave(2, 0), torch.empty(2 * x.shape[0] * x.shape[1], WIDTH)
        for number, expert in enumerate(self.experts):
            mine = chosen.flatten() == number
            given[mine] = expert(rows[mine][None])[0]
        weighed = given.view(-1, 2, WIDTH) * weights.softmax(-1)[..., None]
        return weighed.sum(1).view(x.shape)


def test_blocks_of_one_list_are_no_tower_each():
    model, given = Reader(OwnSums(), OwnSums(), OwnSums()).eval(), torch.rand(2, PLACES, 7)

    assert read(model, given).towers == ()


def test_a_square_whose_cells_are_not_all_known_has_no_blocks():
    square = np.where(np.eye(4, dtype=bool), 0.0, -np.inf)[None]

    assert count_blocks(square) == 4
    assert count_blocks(np.where(square == 0, np.nan, square)) is None


class Single(nn.Module):
    """One number without axes, laid out anew."""

    def forward(self, x):
        return x.sum().reshape(1, 1)


def test_a_number_without_axes_is_cut_into_no_windows():
    flow = read_flow(xray.trace(Single(), torch.zeros(2, 3)).passes[0])

    assert not is_cut(flow, [place for place in range(len(flow.steps)) if flow.op(place) == "reshape"])


class Padded(MaskedPart):
    """Attention in which padding does not see padding: a product of where it lies, far too large to keep (Mllama)."""

    def forward(self, x):
        hidden = 1 - self.sees
        mask = hidden[:, None] @ hidden[None] * torch.finfo(x.dtype).min
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(made.transpose(-2, -3).flatten(-2))


def test_of_a_large_mask_with_a_rule_of_its_own_it_is_not_said_that_every_place_sees_every_other():
    sees = torch.ones(MANY)
    sees[7:] = 0
    found = read(Reader(Padded(sees), FeedForwardPart()), torch.randn(1, MANY, 7))
    (tower,) = found.towers
    (attention,) = (one for one in tower.branches if isinstance(one, Attention))

    assert (attention.partial, attention.causal) == (True, False)
    assert describe_station(tower, attention) == "Places look at those that they may see."


class Cleared(MaskedPart):
    """Attention to the places of a piece alone: in a large mask that hides all, the squares of pieces are cleared."""

    def __init__(self, pieces):
        super().__init__(None)
        self.pieces = pieces

    def forward(self, x):
        mask = torch.full((MANY, MANY), torch.finfo(x.dtype).min)
        for begin, end in self.pieces:
            mask[begin:end, begin:end] = 0
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        made = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None])
        return x + self.out(made.transpose(-2, -3).flatten(-2))


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ([(0, 500), (500, MANY)], 2),
        ([(0, 7), (400, MANY), (7, 400)], 3),
        ([(0, 500), (400, MANY)], None),
        ([(0, 400), (500, MANY)], None),
        ([(0, MANY)], None),
    ],
    ids=["two", "three", "over each other", "with a gap", "one"],
)
def test_pieces_that_are_cleared_in_a_large_mask_are_counted(pieces, count):
    found = read(Reader(Cleared(pieces), FeedForwardPart()), torch.randn(1, MANY, 7))
    (attention,) = (one for one in found.towers[0].branches if isinstance(one, Attention))

    assert attention.pieces == count
