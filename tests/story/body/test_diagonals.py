"""Scores laid out in columns, one for each distance: how far each place looks is told where each weight says so."""

import torch
from story.body.test_context import Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.weights.found import list_attentions

WIDTH, HEADS, SIDE, PLACES, BATCH = 21, 3, 4, 24, 2


class Slides(nn.Module):
    """Attention to the places around: pieces that lie over each other meet, and diagonals become columns (Longformer).

    Columns go back as diagonals one place further where they are `shifted`; all scores ahead are written over where a
    place is `blind` to them. All look at the first place too where it is `seen`, by scores that are written over.
    """

    def __init__(self, *, shifted=False, blind=False, seen=False):
        super().__init__()
        self.norm, self.shifted, self.blind, self.seen = nn.LayerNorm(WIDTH), shifted, blind, seen
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def cut(self, x):
        rows = x.view(BATCH, PLACES, HEADS, -1).transpose(1, 2).reshape(BATCH * HEADS, PLACES, -1)
        return rows.unfold(1, 2 * SIDE, SIDE).transpose(2, 3)

    def lay_out(self, scores):
        pieces, columns = scores.shape[1], 2 * SIDE + 1
        skewed = nn.functional.pad(scores, (0, 0, 0, 1)).view(len(scores), pieces, 2 * SIDE, columns)
        laid = skewed.new_zeros(len(scores), pieces + 1, SIDE, columns)
        laid[:, :-1, :, SIDE:] = skewed[:, :, :SIDE, : SIDE + 1]
        laid[:, -1, :, SIDE:] = skewed[:, -1, SIDE:, : SIDE + 1]
        laid[:, 1:, :, :SIDE] = skewed[:, :, -(SIDE + 1) : -1, SIDE + 1 :]
        laid = laid.view(BATCH, HEADS, PLACES, columns).transpose(1, 2)
        outside = torch.ones(SIDE, SIDE + 1).tril().flip(0)[None, :, None, :]
        for rows, cells, hidden in (
            (slice(0, SIDE), slice(0, SIDE + 1), outside),
            (slice(PLACES - SIDE, PLACES), slice(SIDE, None), outside.flip(1).flip(3)),
        ):
            kept = laid[:, rows, :, cells]
            laid[:, rows, :, cells] = torch.full_like(kept, -torch.inf).where(hidden.expand_as(kept).bool(), kept)
        if self.blind:
            kept = laid[:, :, :, SIDE + 1 :]
            laid[:, :, :, SIDE + 1 :] = torch.full_like(kept, -torch.inf).where(torch.ones_like(kept).bool(), kept)
        return laid

    def lay_back(self, weights):
        columns, pieces = 2 * SIDE + 1, PLACES // SIDE
        cut = weights.transpose(1, 2).reshape(BATCH * HEADS, pieces, SIDE, columns)
        before = int(self.shifted)
        longer = nn.functional.pad(cut, (before, SIDE + 1 - before)).view(BATCH * HEADS, pieces, -1)
        return longer[:, :, :-SIDE].view(BATCH * HEADS, pieces, SIDE, 3 * SIDE + 1)[..., :-1]

    def forward(self, x):
        y = self.norm(x)
        query, key = self.cut(self.query(y) / 7**0.5), self.cut(self.key(y))
        scores = self.lay_out(torch.einsum("bcxd,bcyd->bcxy", query, key))
        if self.seen:
            every, first = (one(y).view(BATCH, PLACES, HEADS, -1) for one in (self.query, self.key))
            own = torch.einsum("blhd,bshd->blhs", every, first[:, :1])
            own[:, :1] = 0.0
            scores = torch.cat([own, scores], dim=-1)
        weights = self.lay_back(scores.softmax(-1)[..., int(self.seen) :])
        value = self.value(y).view(BATCH, PLACES, HEADS, -1).transpose(1, 2).reshape(BATCH * HEADS, PLACES, -1)
        padded = nn.functional.pad(value, (0, 0, SIDE, SIDE), value=-1.0)
        first, second, third = padded.stride()
        sizes = (BATCH * HEADS, PLACES // SIDE, 3 * SIDE, padded.shape[-1])
        pieces = padded.as_strided(sizes, (first, SIDE * second, second, third))
        found = torch.einsum("bcwd,bcdh->bcwh", weights, pieces)
        return x + self.back(found.view(BATCH, HEADS, PLACES, -1).transpose(1, 2).reshape(BATCH, PLACES, WIDTH))


def record(**how):
    torch.manual_seed(0)
    layers = [make() for _ in range(3) for make in (lambda: Slides(**how), lambda: Thinks(WIDTH))]
    return xray.trace(nn.Sequential(nn.Embedding(61, WIDTH), *layers), torch.randint(61, (BATCH, PLACES)))


def read_attention(trace):
    (group,) = xray.anatomy(trace).towers[0].groups
    return next(one for stage in group.stages for one in stage.branches if isinstance(one, Attention))


def test_the_small_model_mixes_the_places_around_each_and_no_others():
    torch.manual_seed(0)
    layer, x = Slides(), torch.rand(BATCH, PLACES, WIDTH)

    changed = x.clone()
    changed[:, 11] = torch.rand(BATCH, WIDTH)

    moved = (layer(changed) - layer(x)).abs().amax(dim=(0, 2)) > 1e-6
    assert moved.nonzero().flatten().tolist() == list(range(11 - SIDE, 11 + SIDE + 1))


def test_each_place_looks_at_as_many_on_each_side_as_its_weights_reach():
    found = read_attention(record())

    assert (found.window, found.each_side, found.causal) == (2 * SIDE + 1, SIDE, False)
    assert (found.heads, found.kv_heads, found.d_k, found.positions) == (HEADS, HEADS, 7, "none")


def test_the_poster_draws_scores_columns_and_diagonals():
    boxes = compose_poster(record(), text_width).boxes
    texts = ["".join(run.text for run in line) for box in boxes for line in box.lines]
    labels = ["".join(run.text for run in box.lines[0]) for box in boxes if box.lines]

    named = ("LINEAR Q", "SCORES", "DIAGONALS AS COLUMNS", "MASK", "SOFTMAX", "COLUMNS AS DIAGONALS", "WEIGHTS · V")
    assert [one for one in named if any(label.startswith(one) for label in labels)] == [*named]
    assert f"Every place looks at no more than {2 * SIDE + 1} places: itself and {SIDE} on each side." in texts


def test_no_window_is_told_where_some_weights_go_back_so_far_that_they_meet_nothing():
    found = read_attention(record(shifted=True))

    assert (found.window, found.each_side, found.causal) == (None, None, None)


def test_nothing_is_said_of_the_future_where_all_scores_ahead_are_written_over():
    assert read_attention(record(blind=True)).causal is None


def test_pieces_of_rows_are_not_called_heads():
    steps = record().passes[0].steps
    products = [one for one in steps if one.op == "einsum" and "xd" in str(one.settings)]

    assert {word for one in products for record in (*one.inputs, *one.outputs) for word in record.axes} == {""}


def test_scores_that_others_stand_beside_are_not_taken_for_columns_alone():
    (group,) = xray.anatomy(record(seen=True)).towers[0].groups

    assert [branch.part for stage in group.stages for branch in stage.branches] == ["unknown", "feed_forward"]


def test_columns_of_distances_are_shown_in_no_picture_of_words():
    trace = record()

    assert list_attentions(trace, trace.passes[0]) == ()
