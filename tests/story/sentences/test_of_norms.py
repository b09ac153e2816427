"""Sentences on the norms of whole models: where they stand, and what they learn."""

from dataclasses import replace

import pytest
from story.sentences.makers import EXPERTS, FALSE, NO_NORM, PLAIN, make_anatomy, make_tower, norm_layers

from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Group, Norm, Stage
from xray.story.sentences.of_norms import (
    describe_adaptive,
    describe_bare_norms,
    describe_from_one,
    describe_left_norms,
    describe_norm,
    describe_scale,
    describe_tanh,
    describe_weighed_sums,
)

BEFORE, AFTER = Norm("layer", "before"), Norm("layer", "after", on="stream")
ROOT = Norm("rms", "before")


@pytest.mark.parametrize(
    ("norms", "told"),
    [
        ((BEFORE, BEFORE), "Layer norm before each sublayer."),
        (
            (BEFORE, AFTER),
            "Layer norm before each sublayer (first); layer norm after the sum of each sublayer (second).",
        ),
        ((BEFORE, ROOT), "Layer norm before each sublayer (first); RMS norm before each sublayer (second)."),
        (
            (BEFORE, AFTER, BEFORE),
            "Layer norm before each sublayer (first, third); layer norm after the sum of each sublayer (second).",
        ),
        ((BEFORE, Norm(None, "none")), "Layer norm before some sublayers."),
        ((Norm(None, "none"), Norm(None, "none")), ""),
    ],
)
def test_norms_of_towers_that_differ_are_told_tower_by_tower(norms, told):
    names = ("first", "second", "third")
    towers = [replace(make_tower(FALSE, norm=norm), name=name) for name, norm in zip(names, norms, strict=False)]

    assert describe_norm(replace(make_anatomy(FALSE), towers=tuple(towers))) == told


TWICE, ENDED = Norm("layer", "both", on="branch"), Norm("layer", "both", on="stream")


@pytest.mark.parametrize(
    ("norms", "told"),
    [
        ((BEFORE, BEFORE, TWICE), "Layer norm before each sublayer, and again on what the experts give."),
        ((BEFORE, TWICE, BEFORE), "Layer norm before each sublayer, and again on what the feed-forward gives."),
        ((BEFORE, TWICE, TWICE), ""),
        ((BEFORE, BEFORE, ENDED), "Layer norm before each sublayer, and again behind the last sum of each layer."),
        ((BEFORE, ENDED, BEFORE), ""),
        ((BEFORE, AFTER, TWICE), ""),
    ],
)
def test_a_norm_that_follows_some_sublayers_alone_is_told(norms, told):
    (tower,) = make_anatomy(FALSE, PLAIN, EXPERTS).towers
    (group,) = tower.groups
    stages = tuple(replace(stage, norm=norm) for stage, norm in zip(group.stages, norms, strict=True))
    towers = tuple(replace(tower, name=name, groups=(replace(group, stages=stages),)) for name in ("first", "second"))

    assert describe_norm(replace(make_anatomy(FALSE), towers=towers[:1])) == told
    assert describe_norm(replace(make_anatomy(FALSE), towers=towers)) == told  # of both the same


@pytest.mark.parametrize(
    ("sites", "told"),
    [
        (((), ()), ""),
        (
            (("sublayer",), ()),
            "Norms of the second tower multiply by 1 + the weights that they have, not by the weights alone.",
        ),
        (
            (("sublayer", "attention"), ("attention", "linear attention")),
            "Some norms of the second tower multiply by 1 + the weights that they have; "
            "those inside attention and inside linear attention by their weights alone.",
        ),
    ],
)
def test_towers_whose_norms_multiply_by_one_more_are_named(sites, told):
    first = replace(make_tower(FALSE), name="first")
    second = replace(first, name="second", from_one=sites[0], not_from_one=sites[1])

    assert describe_from_one(replace(make_anatomy(FALSE), towers=(first, second))) == told


@pytest.mark.parametrize(
    ("norms", "is_said"),
    [
        ((replace(BEFORE, adaptive=False, learned=False),) * 2, True),
        ((replace(BEFORE, adaptive=False, learned=False), replace(BEFORE, adaptive=False)), False),
        ((replace(BEFORE, adaptive=True, learned=False),), False),
        ((replace(BEFORE, adaptive=False),), False),
    ],
    ids=["all", "one of them", "adaptive ones", "none"],
)
def test_norms_that_learn_nothing_are_told_where_all_do(norms, is_said):
    stages = tuple(Stage((FALSE,), False, norm) for norm in norms)
    tower = replace(make_tower(FALSE), groups=(Group((0,), stages),))

    assert bool(describe_bare_norms(replace(make_anatomy(FALSE), towers=(tower,)))) == is_said


@pytest.mark.parametrize(
    ("adaptive", "told"),
    [
        (
            (True, True),
            "Adaptive norms of sublayers: what stands beside the stream says how much each is scaled or shifted.",
        ),
        (
            (True, False),
            "Adaptive norms of some sublayers: what stands beside the stream says how much each of these is scaled or "
            "shifted.",
        ),
        ((False, False), ""),
    ],
)
def test_norms_are_adaptive_in_all_sublayers_only_where_each_is(adaptive, told):
    anatomy = make_anatomy(FALSE, PLAIN)
    (tower,) = anatomy.towers
    (group,) = tower.groups
    stages = tuple(
        replace(stage, norm=Norm("rms", "before", adaptive=one))
        for stage, one in zip(group.stages, adaptive, strict=True)
    )
    towers = (replace(tower, groups=(replace(group, stages=stages),)),)

    assert describe_adaptive(replace(anatomy, towers=towers)) == told


@pytest.mark.parametrize(
    ("conditioned", "told"), [(("scales",), "scaled."), (("scales", "shifts", "gates"), "scaled or shifted.")]
)
def test_of_adaptive_norms_is_told_what_is_done_to_them(conditioned, told):
    anatomy = make_anatomy(FALSE, norm=Norm("layer", "before", None, adaptive=True))
    towers = tuple(replace(tower, conditioned=conditioned) for tower in anatomy.towers)

    assert describe_adaptive(replace(anatomy, towers=towers)).endswith(f"how much each is {told}")


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ((("t",), ("t", "y")), ", made of t and y, says how much each is scaled."),
        ((("t",), ()), " says how much each is scaled or shifted."),
    ],
)
def test_what_adaptive_norms_are_scaled_by_is_named_where_that_of_all_towers_is_known(conditions, told):
    anatomy = make_anatomy(FALSE, norm=Norm("layer", "before", None, adaptive=True))
    (tower,) = anatomy.towers
    towers = tuple(replace(tower, conditions=one, conditioned=("scales",) * bool(one)) for one in conditions)

    assert describe_adaptive(replace(anatomy, towers=towers)).endswith(f"beside the stream{told}")


@pytest.mark.parametrize(
    ("norms", "told"),
    [
        ((NO_NORM, BEFORE), "The attention of layers 1, 2 has no norm of its own before it."),
        ((BEFORE, NO_NORM), "The attention of layers 3, 4 has no norm of its own before it."),
        ((AFTER, NO_NORM), ""),
        ((BEFORE, Norm(None, None)), ""),
        ((NO_NORM, NO_NORM), ""),
    ],
)
def test_sublayers_before_which_no_norm_stands_are_told_where_others_have_one(norms, told):
    assert describe_left_norms(norm_layers(make_anatomy(FALSE), *norms)) == told


def test_one_of_two_alike_sublayers_of_a_layer_without_a_norm_is_not_told_as_the_only_one() -> None:
    first, second = (Stage((Convolution((3,), 1),), False, norm) for norm in (NO_NORM, BEFORE))
    (tower,) = make_anatomy(FALSE).towers
    groups = (Group((0, 1), (first, second)), Group((2,), (first,)))
    whole = replace(make_anatomy(FALSE), towers=(replace(tower, groups=groups),))

    assert describe_left_norms(whole) == "In layers 1, 2, 3, a convolution has no norm of its own before it."


SOME_TANH = "Gates by tanh: what some sublayers give is"
SOME_GATES = "Gated sums: what some sublayers give and the stream are each"


@pytest.mark.parametrize(
    ("scales", "tanh", "weighed"),
    [
        (("tanh", "tanh"), "Gates by tanh: what a sublayer gives is", ""),
        (("tanh", None), SOME_TANH, ""),
        (("gates", "gates"), "", "Gated sums: what a sublayer gives and the stream are each"),
        (("tanh", "gates"), SOME_TANH, SOME_GATES),
        ((None, None), "", ""),
    ],
)
def test_gates_are_told_of_some_sublayers_only_where_others_have_none(scales, tanh, weighed):
    stages = tuple(Stage((FALSE,), False, NO_NORM, scale) for scale in scales)
    tower = replace(make_tower(FALSE), groups=(Group((0,), stages),))
    whole = replace(make_anatomy(FALSE), towers=(tower,))

    assert describe_tanh(whole).partition(" multiplied")[0] == tanh
    assert describe_weighed_sums(whole).partition(" multiplied")[0] == weighed


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ((("t",), ("t", "y")), "the stream, made of t and y, says"),
        ((("t",), ()), "the stream says"),
        (((), ()), "the stream says"),
    ],
)
def test_what_norms_are_moved_by_is_told_only_where_all_that_it_is_made_of_is_known(conditions, told):
    first, second = (
        replace(make_tower(FALSE, norm=replace(BEFORE, adaptive=True)), conditions=own, conditioned=("scales",))
        for own in conditions
    )
    assert told in describe_adaptive(replace(make_anatomy(FALSE), towers=(first, second)))


@pytest.mark.parametrize(("parallel", "told"), [(True, "before each sublayer."), (False, "norm before sublayers.")])
def test_of_sublayers_that_follow_one_another_before_one_sum_the_first_alone_has_the_norm(parallel, told):
    (tower,) = make_anatomy(FALSE, PLAIN).towers
    (group,) = tower.groups
    stage = replace(group.stages[0], branches=(FALSE, PLAIN), parallel=parallel, norm=BEFORE)
    anatomy = replace(make_anatomy(FALSE), towers=(replace(tower, groups=(replace(group, stages=(stage,)),)),))

    assert told in describe_norm(anatomy)


@pytest.mark.parametrize(("others", "told"), [((), "What is added"), ((PLAIN,), "Some of what is added")])
def test_a_number_is_said_of_what_is_added_which_may_hold_sums_of_its_own(others, told):
    whole = make_anatomy(FALSE, *others)
    stage = replace(whole.towers[0].groups[0].stages[0], branches=(FALSE, PLAIN), scale="number")
    (group,) = whole.towers[0].groups
    tower = replace(whole.towers[0], groups=(replace(group, stages=(stage, *group.stages[1:])),))

    assert describe_scale(replace(whole, towers=(tower,))).partition(" to the stream")[0] == told
