"""What stands behind the last layer: the mean of the first rows, rows cut into several each, one of every few."""

import re

import pytest
import torch
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.renderers.sheet.poster import draw_poster
from xray.story.sheet.columns import read_columns


class Ends(Reader):
    """A norm of all rows, and what is made of these."""

    def __init__(self, end):
        super().__init__(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.norm, self.end = nn.LayerNorm(WIDTH), end

    def forward(self, x, kind=None):
        return self.end(self.norm(super().forward(x, kind)))


def words_of(end):
    with torch.no_grad():
        drawn = draw_poster(xray.trace(Ends(end).eval(), rows()), "svg")
    return [word for word in re.split("<[^>]+>", drawn) if word.strip()]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda x: (x[:, 0] + x[:, 1]) / 2, ["A MEAN OF THE FIRST 2 ROWS"]),
        (lambda x: (x[:, 0] + x[:, 1]) * 0.5, ["A MEAN OF THE FIRST 2 ROWS"]),
        (lambda x: (x[:, 0] + x[:, 1]) / 3, []),
        (lambda x: (x[:, 0] + x[:, 2]) / 2, []),
        (lambda x: (x[:, 0] - x[:, 1]) / 2, []),
    ],
)
def test_a_mean_of_the_first_rows_with_which_all_ends_is_drawn(end, told):
    words = words_of(end)

    assert [word for word in words if "MEAN OF" in word] == told
    assert any("in no box" in word for word in words) != bool(told)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda x: x.reshape(len(x), 2 * PLACES, WIDTH // 2), ["EACH ROW CUT INTO 2"]),
        (lambda x: x.reshape(len(x), PLACES, 2, WIDTH // 2), []),
        (lambda x: x.reshape(len(x), 1, PLACES * WIDTH), []),
    ],
)
def test_rows_that_are_cut_into_several_at_last_are_drawn(end, told):
    assert [word for word in words_of(end) if "CUT INTO" in word] == told


KEPT = torch.arange(PLACES) % 2 > 0


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda x: x[KEPT.expand(len(x), -1)], ["ROWS THAT A MASK LETS THROUGH"]),
        (lambda x: x[:, KEPT], []),
        (lambda x: x[torch.tensor([1, 0])], []),
    ],
)
def test_rows_that_a_mask_lets_through_at_last_are_drawn(end, told):
    assert [word for word in words_of(end) if "MASK LETS" in word] == told


def exit_of(end):
    with torch.no_grad():
        (column,) = read_columns(xray.trace(Ends(end).eval(), rows()))
    return column.exit


@pytest.mark.parametrize(
    ("end", "shape"),
    [
        (lambda x: x.mT, (2, WIDTH, PLACES)),  # SAM's maps
        (lambda x: x.reshape(len(x) * PLACES, WIDTH), (2, PLACES, WIDTH)),
        (lambda x: (x.mT, x), (2, PLACES, WIDTH)),
    ],
)
def test_the_last_box_has_the_shape_that_leaves_where_axes_are_swapped(end, shape):
    chart = exit_of(end)

    assert chart.node(chart.head).record.shape == shape


LEAVES, CHANGED = "What leaves the tower.", "Made of what the tower gives; it leaves changed once more."


@pytest.mark.parametrize(
    ("end", "told"),
    [(lambda x: x, LEAVES), (lambda x: x.mT, LEAVES), (lambda x: torch.fft.fft(x).real, CHANGED)],
)
def test_what_is_changed_in_no_box_is_not_told_to_leave(end, told):
    assert [word for word in words_of(end) if "leaves" in word and word[0].isupper()] == [told]


@pytest.mark.parametrize(
    ("end", "told"), [(lambda x: x[:, ::2], ["1 OF EVERY 2 ROWS"]), (lambda x: x[:, :3], []), (lambda x: x[::2], [])]
)
def test_one_of_every_few_rows_that_go_on_is_told(end, told):
    assert [word for word in words_of(end) if "OF EVERY" in word] == told


def make_sines():
    angles = torch.arange(11)[:, None] / 100 ** (torch.arange(WIDTH) // 2 / 5)
    return torch.where(torch.arange(WIDTH) % 2 > 0, angles.cos(), angles.sin())


class Looks(nn.Module):
    """Rows of a table added to those that came in, one for each place, or by what is highest in each row.

    The table is no parameter where it is held, be it of sines, and not trained where it is frozen.
    """

    held: torch.Tensor

    def __init__(self, *, by_place=True, is_held=False, is_of_sines=False, is_frozen=False):
        super().__init__()
        self.places, self.by_place, self.is_held = nn.Embedding(11, WIDTH), by_place, is_held
        self.places.requires_grad_(not is_frozen)
        self.register_buffer("held", make_sines() if is_of_sines else torch.rand(11, WIDTH))

    def forward(self, x):
        ids = torch.arange(PLACES) if self.by_place else x[..., :11].argmax(-1)
        return x + (nn.functional.embedding(ids, self.held) if self.is_held else self.places(ids))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["+ LEARNED PLACES"]),
        ({"is_held": True}, []),
        ({"is_held": True, "is_of_sines": True}, ["+ SINES OF PLACES"]),
        ({"is_frozen": True}, ["+ PLACES"]),
        ({"by_place": False}, []),
    ],
    ids=["learned", "held", "sines", "frozen", "by what came in"],
)
def test_places_that_are_looked_up_and_added_at_last_are_drawn_with_their_table(given, told):
    words = [" ".join(one.split()) for one in words_of(Looks(**given))]

    assert [word for word in words if word.startswith("+") and word.endswith("PLACES")] == told


class SideBySide(nn.Module):
    """A head over the last of the rows, with the one that stands above it beside it (Pyraformer)."""

    def __init__(self):
        super().__init__()
        self.head, self.order = nn.Linear(2 * WIDTH, 4), torch.tensor([0, 1, 0, 2])

    def forward(self, x):
        order = self.order.repeat(len(x), 1)[:, :, None].repeat(1, 1, WIDTH)
        return self.head(x.gather(1, order).view(len(x), -1, 2 * WIDTH)[:, -1])


def test_rows_that_lie_side_by_side_are_not_told_as_the_last_one():
    (column,) = read_columns(xray.trace(Ends(SideBySide()).eval(), rows()))

    assert [node.label for node in column.exit.nodes] == ["LAST NORM", "LINEAR"]
