"""In what keys and values of a memory are painted: as the tower that made them, wherever that stands on the sheet."""

from types import SimpleNamespace

import pytest

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.sheet.columns import colour_memory


def attend(**facts):
    return Attention(heads=3, kv_heads=3, d_k=7, d_v=7, **facts)


def stand(name, *branches):
    """A tower of that name in a pass, as far as its colours ask."""
    return None, SimpleNamespace(tower=SimpleNamespace(name=name, branches=branches))


@pytest.mark.parametrize(
    ("looks", "colour"),
    [
        (attend(source="vision"), "encoder"),  # a Q-Former before a text tower (BLIP-2)
        (attend(source="text"), "decoder"),  # words and images look at each other (LXMERT)
        (attend(source="self", beside="text"), "decoder"),
        (FeedForward(17, None, None), "encoder"),
    ],
)
def test_a_tower_before_the_last_paints_its_memory_as_what_it_looks_at(looks, colour):
    towers = [stand("vision"), stand("decoder", looks), stand("text")]
    assert colour_memory(towers, 1, "encoder") == colour


def test_the_last_tower_paints_its_memory_as_those_before_it():
    assert colour_memory([stand("encoder"), stand("decoder", attend(source="encoder"))], 1, "decoder") == "encoder"


def test_what_a_lone_tower_looks_at_has_another_colour_than_its_own():
    assert colour_memory([stand("encoder", attend(source=None))], 0, "encoder") == "decoder"
