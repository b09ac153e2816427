"""What is told of ids for pairs of places, and of tables that turn rows by their place, by their numbers."""

import pytest
import torch

from xray.capture.values import goes_by_distance, turns_nothing

ROW = torch.arange(12)
FAR = ROW - ROW[:, None]


def pairs_of_a_map(asking, asked, step=1):
    """A number for how far apart two places of maps are, (rows, columns) each; every `step`-th asks."""
    from_, to = (torch.cartesian_prod(*map(torch.arange, sides)) for sides in (asking, asked))
    return ((to - step * from_[:, None] + 10) * torch.tensor([50, 1])).sum(-1)


def behind_a_class(pairs):
    """The same with a class before all places, which has numbers of its own."""
    whole = torch.full((len(pairs) + 1, len(pairs) + 1), 998)
    whole[0, 0], whole[:1, 1:], whole[1:, 1:] = 997, 999, pairs
    return whole


BLOCKS = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(2))
OF_A_MAP = pairs_of_a_map((4, 3), (4, 3))


@pytest.mark.parametrize(
    ("ids", "is_told"),
    [
        (FAR, True),
        (FAR.abs()[None, None].expand(2, 3, 12, 12), True),
        (FAR[:5], True),
        (torch.cat((FAR, FAR)), True),
        (OF_A_MAP, True),
        (OF_A_MAP.flatten(), True),
        (pairs_of_a_map((4, 4), (7, 7), 2), True),
        (pairs_of_a_map((3, 3), (5, 5)), True),
        (((BLOCKS - BLOCKS[:, None] + 10) * torch.tensor([999, 50, 1])).sum(-1), True),
        (behind_a_class(OF_A_MAP), True),
        (behind_a_class(OF_A_MAP) + torch.diag(torch.arange(13)), False),
        (OF_A_MAP[:4, :4], False),
        (ROW + 20 * ROW[:, None], False),
        (ROW.expand(12, 12), False),
        (torch.stack((FAR, FAR + 1)), False),
        (torch.zeros(12, 12).long(), False),
        (FAR[:1], False),
        (FAR.float(), False),
        (FAR.to("meta"), False),
    ],
    ids=[
        *(
            "in a row",
            "of heads",
            "fewer ask",
            "one below the other",
            "on a map",
            "laid flat",
            "every second asks",
            "seen beyond",
            "of frames",
        ),
        *(
            "behind a class",
            "each to itself",
            "a corner",
            "of each pair",
            "of keys",
            "of two kinds",
            "all one",
            "a single one asks",
            "no ids",
            "unknown",
        ),
    ],
)
def test_ids_that_hang_on_how_far_apart_two_places_are_are_known_by_their_numbers(ids, is_told):
    assert goes_by_distance(ids) == is_told


ANGLES = torch.arange(6.0)[:, None] * torch.tensor([1.0, 0.1])
PAIRS = torch.stack((ANGLES.cos(), ANGLES.sin()), -1)


@pytest.mark.parametrize(
    ("table", "is_still"),
    [
        (PAIRS, False),
        (torch.view_as_complex(PAIRS), False),
        (PAIRS[..., 1], False),
        (torch.cat((torch.zeros(1, 2, 2), PAIRS)), True),
        (torch.view_as_complex(torch.cat((torch.zeros(1, 2, 2), PAIRS))), True),
        (PAIRS[:1].expand(6, -1, -1), True),
        (torch.ones(1, 6, 4), True),
        (torch.zeros(6, 4), True),
        (PAIRS.flatten(1).expand(2, -1, -1), False),
        (PAIRS[:1], False),
        (PAIRS.to("meta"), False),
    ],
    ids=[
        *("turning", "complex", "sines alone", "behind zeros", "complex behind zeros", "one row at all places", "ones"),
        *("never filled", "of two sequences", "of one place", "unknown"),
    ],
)
def test_a_table_that_turns_nothing_is_known_by_its_rows(table, is_still):
    assert turns_nothing(table) == is_still
