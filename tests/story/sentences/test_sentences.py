"""Every sentence of the sheet needs a fact: where the fact is false or unknown, the sentence is not there."""

from dataclasses import replace

import pytest

from xray.story.anatomy.tree import (
    Anatomy,
    Attention,
    Convolution,
    Experts,
    FeedForward,
    Group,
    Head,
    Latent,
    Link,
    Norm,
    Recurrence,
    Stage,
    Tower,
    Unknown,
)
from xray.story.cards.sentences import CATALOGUE, list_sentences
from xray.story.cards.stations import describe_entrance, describe_station

SILENT = Attention(source="self", heads=None, kv_heads=None, d_k=None, d_v=None)
"""An attention of which nothing is known."""
FALSE = replace(
    SILENT, heads=5, kv_heads=5, d_k=7, d_v=7, positions="none", qk_norm=False, sinks=False, gate=False, kernel="plain"
)
"""An attention of which all that is special is known not to be there."""
NO_NORM = Norm(None, "none")


def make_anatomy(*branches, norm=NO_NORM, shared=False, parallel=False, head=None, links=(), scale=None):
    stages = (
        (Stage(branches, True, norm),) if parallel else tuple(Stage((one,), False, norm, scale) for one in branches)
    )
    group = Group((0, 1), stages, 35, shared)
    tower = Tower("text", "ids", None, 35, 61, (), (group,), None)
    return Anatomy((tower,), links, head, None, None)


TRUE = {
    "norm": make_anatomy(FALSE, norm=Norm("rms", "before")),
    "adaptive norm": make_anatomy(FALSE, norm=Norm("layer", "before", None, adaptive=True)),
    "parallel": make_anatomy(FALSE, FeedForward(140, "gelu", gated=False), parallel=True),
    "joint attention": make_anatomy(replace(FALSE, beside="vision")),
    "positions": make_anatomy(replace(FALSE, positions="rotary")),
    "grouped queries": make_anatomy(replace(FALSE, heads=10, kv_heads=5)),
    "latent": make_anatomy(replace(FALSE, latent=Latent(None, 11))),
    "norm of queries and keys": make_anatomy(replace(FALSE, qk_norm=True)),
    "score cap": make_anatomy(replace(FALSE, cap=50.0)),
    "inner norms": make_anatomy(replace(FALSE, inner_norm="rms")),
    "layer scale": make_anatomy(FALSE, scale="learned"),
    "sinks": make_anatomy(replace(FALSE, sinks=True)),
    "gate of the output": make_anatomy(replace(FALSE, gate=True)),
    "fused projection": make_anatomy(replace(FALSE, fused="qkv")),
    "windows": make_anatomy(replace(FALSE, window=4)),
    "gate": make_anatomy(FALSE, FeedForward(140, "silu", gated=True)),
    "experts": make_anatomy(FALSE, Experts(8, 2, 0, 140, "silu", gated=False)),
    "recurrence": make_anatomy(Recurrence(None, None)),
    "convolution": make_anatomy(Convolution((3, 3), 1)),
    "shared layers": make_anatomy(FALSE, shared=True),
    "tied": make_anatomy(FALSE, head=Head("vocabulary", 61, tied=True)),
    "links": make_anatomy(FALSE, links=(Link("joined", "vision", "text"),)),
    "kernel": make_anatomy(replace(FALSE, kernel="scaled_dot_product_attention")),
    "unknown": make_anatomy(Unknown(("mixer",))),
}
"""For each sentence an anatomy in which its fact is proven, and little else."""
KNOWN_NOT_TO_BE = make_anatomy(FALSE, FeedForward(140, "relu", gated=False), head=Head("vocabulary", 61, tied=False))
NOT_KNOWN = make_anatomy(
    SILENT, FeedForward(None, None, gated=None), shared=None, head=Head("vocabulary", 61, tied=None)
)
BY_NAME = {sentence.name: sentence for sentence in CATALOGUE}


def test_every_sentence_is_tried():
    assert set(TRUE) == set(BY_NAME)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_sentence_is_said_where_its_fact_is_proven(name):
    assert BY_NAME[name].tell(TRUE[name])


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_sentence_is_not_said_where_its_fact_is_false(name):
    assert not BY_NAME[name].tell(KNOWN_NOT_TO_BE)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_sentence_is_not_said_where_its_fact_is_unknown(name):
    assert not BY_NAME[name].tell(NOT_KNOWN)


def test_nothing_is_said_of_what_is_not_known():
    assert list_sentences(NOT_KNOWN) == []


@pytest.mark.parametrize(
    ("causal", "text"),
    [
        (True, "Every place looks back, never ahead."),
        (False, "Every place looks at every other."),
        (None, "Places look at each other."),
    ],
)
def test_a_station_tells_of_the_future_only_what_is_proven(causal, text):
    tower = TRUE["norm"].towers[0]

    assert describe_station(tower, replace(FALSE, causal=causal)) == text


def test_an_image_is_in_patches_only_where_it_was_cut():
    tower = replace(TRUE["norm"].towers[0], reads="image")

    assert describe_entrance(tower) == "An image becomes vectors."


def test_windows_are_not_said_of_layers_that_have_none():
    told = list_sentences(make_anatomy(replace(FALSE, window=4), FALSE))

    assert "Windows in some layers: there each place sees at most 4 places." in told


def test_weights_are_not_said_to_be_shared_where_a_group_has_its_own():
    shared = make_anatomy(FALSE, shared=True)
    (tower,) = shared.towers
    both = replace(shared, towers=(replace(tower, groups=(*tower.groups, replace(tower.groups[0], shared=False))),))

    assert "All layers use one and the same set of weights." in list_sentences(shared)
    assert "All layers use one and the same set of weights." not in list_sentences(both)
