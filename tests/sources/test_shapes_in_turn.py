"""Of images and sounds together those inputs are tried first in which few have another than their likeliest shape."""

from typing import cast

import torch

from xray.sources.family_inputs import guess
from xray.sources.rules import Rule
from xray.sources.sizes import Sizes


class Written:
    """Shapes that are written as they are."""

    def are_mels(self):
        return False

    def knows(self, words):
        return bool(words)

    def shape(self, words):
        return tuple(map(int, words.split()))


def list_shapes(*, in_turn):
    rules = {"pixel_values": Rule(("8 2", "8 3", "8 4")), "input_values": Rule(("2 9", "2 1 9", "2 3 3"))}
    made = guess(list(rules), rules, cast(Sizes, Written()), torch.float32, has_storage=True, in_turn=in_turn)
    return [tuple(tuple(one.shape) for one in each.values.values()) for each in made]


def test_each_argument_takes_its_other_shapes_while_the_rest_keep_their_likeliest():
    found = list_shapes(in_turn=True)

    assert found[:5] == [((8, 2), (2, 9)), ((8, 2), (2, 1, 9)), ((8, 2), (2, 3, 3)), ((8, 3), (2, 9)), ((8, 4), (2, 9))]
    assert sorted(found) == sorted(list_shapes(in_turn=False))
    assert list_shapes(in_turn=False)[3] == ((8, 3), (2, 9))
