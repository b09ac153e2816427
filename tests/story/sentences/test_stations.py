"""What is said at a station whose stage does one thing several times in a row."""

from dataclasses import replace

import pytest
from story.sentences.makers import EXPERTS, FALSE, PLAIN, make_tower

from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Group, Stage
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sentences.stations.of_stations import describe_station


def test_what_happens_several_times_in_a_row_is_told_once_with_its_number() -> None:
    tower = make_tower(FALSE, PLAIN)
    alone, looks, chosen = (describe_station(tower, branch) for branch in (PLAIN, FALSE, EXPERTS))

    stage = Stage((PLAIN, FALSE, PLAIN, PLAIN, PLAIN, EXPERTS), False, None)
    assert describe_stage(tower, stage) == f"{alone} {looks} {alone.removesuffix('.')}, 3 times. {chosen}"


def test_what_branches_side_by_side_do_is_told_once_with_how_many_they_are() -> None:
    tower = make_tower(PLAIN)
    alone = describe_station(tower, PLAIN).removesuffix(".")

    assert describe_stage(tower, Stage((PLAIN, PLAIN), True, None)) == f"{alone}, in 2 branches."


SET = "Every place looks back, never ahead; sliding_window = 9 is set"


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"causal": True}, f"{SET}, in 2 of 5 layers."),
        ({"causal": True, "sliding_window": 9, "heads": 3}, f"{SET}."),  # told in the same words
        ({"causal": True, "source": "encoder"}, f"{SET}."),  # another kind of stage
    ],
)
def test_in_how_many_layers_a_window_is_set_is_told_where_others_do_something_else(others, told) -> None:
    own, other = replace(FALSE, causal=True, sliding_window=9), replace(FALSE, **others)
    groups = (Group((0, 3), (Stage((own,), False, None),)), Group((1, 2, 4), (Stage((other,), False, None),)))
    tower = replace(make_tower(own), groups=groups)

    assert describe_stage(tower, groups[0].stages[0]) == told


def test_layers_whose_windows_are_smaller_see_no_more_than_a_window_either() -> None:
    windows = {(0,): 5, (1, 2): 3, (3, 4, 5): None, (6, 7): 13}
    groups = tuple(Group(own, (Stage((replace(FALSE, window=many),), False, None),)) for own, many in windows.items())
    tower = replace(make_tower(FALSE), groups=groups)

    told = [describe_stage(tower, group.stages[0]) for group in groups]
    assert told[0] == "Every place looks at no more than 5 places, in 3 of 8 layers; at fewer in 2 of these."
    assert told[1] == "Every place looks at no more than 3 places, in 2 of 8 layers."
    assert told[3] == "Every place looks at no more than 13 places, in 5 of 8 layers; at fewer in 3 of these."


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"window": None, "all_places": 5}, "."),
        ({"window": None, "all_places": 4}, ", in 5 of 5 layers; at fewer in 3 of these."),
        ({"window": None}, ", in 2 of 5 layers; in the others it looks at every other."),
        ({"window": None, "partial": True}, ", in at least 2 of 5 layers."),
    ],
)
def test_layers_that_have_no_more_places_than_a_window_are_not_told_as_others(other, told) -> None:
    own = replace(FALSE, window=5, causal=False)
    groups = [Group((0, 1), (Stage((own,), False, None),))]
    groups.append(Group((2, 3, 4), (Stage((replace(own, rolled=None, **other),), False, None),)))
    tower = replace(make_tower(own), groups=tuple(groups))

    assert describe_stage(tower, groups[0].stages[0]) == f"Every place looks at no more than 5 places{told}"


def test_what_layers_without_a_window_do_is_not_said_of_some_where_the_others_do_it_too() -> None:
    own, other = replace(FALSE, causal=True), replace(FALSE, causal=True, window=9)
    groups = (Group((0, 3), (Stage((own, PLAIN), True, None),)), Group((1,), (Stage((other, PLAIN), True, None),)))
    tower = replace(make_tower(own, PLAIN), groups=groups)

    alone = describe_station(tower, PLAIN)
    assert describe_stage(tower, groups[0].stages[0]) == f"Every place looks back, never ahead. {alone}"
    windowed = (
        "Every place looks back at no more than 9 places, in 1 of 3 layers; in the others it looks back, never ahead."
    )
    assert describe_stage(tower, groups[1].stages[0]) == f"{windowed} {alone}"


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (((0, 2), (1,)), "; in the other it looks at every other"),
        (((0,), (1, 2)), "; in the others it looks at every other"),
        (((0,), (1,), (2,)), ""),  # two others
    ],
)
def test_what_places_do_in_layers_without_a_window_is_told_where_it_is_one_thing(groups, told) -> None:
    looks = [replace(FALSE, causal=False, window=7), replace(FALSE, causal=False), replace(FALSE, causal=True)]
    whole = [Group(own, (Stage((one,), False, None),)) for own, one in zip(groups, looks, strict=False)]
    tower = replace(make_tower(FALSE), groups=tuple(whole))

    some = f"in {len(groups[0])} of {tower.layers} layers"
    assert describe_stage(tower, whole[0].stages[0]) == f"Every place looks at no more than 7 places, {some}{told}."


def test_a_window_that_each_layer_has_beside_an_attention_without_one_is_not_said_of_some() -> None:
    looks, windowed = replace(FALSE, causal=True), replace(FALSE, causal=True, window=9)
    stages = (Stage((looks,), False, None), Stage((windowed,), False, None))
    tower = replace(make_tower(looks, windowed), groups=(Group((0, 1), stages),))

    assert describe_stage(tower, stages[1]) == "Every place looks back at no more than 9 places."


@pytest.mark.parametrize(
    ("own", "other", "told"),
    [
        (
            {"together": 7, "partial": True},
            {"together": 11, "partial": True},
            ", in 2 of 5 layers; in the others it looks at every other of the 11 in its sequence.",
        ),
        ({"together": 7, "partial": True}, {"together": 7, "partial": True, "heads": 3}, "."),
        ({}, {"window": 11}, "."),  # it looks at every other of a window
        ({}, {"partial": True}, "."),  # it is not known at how many it looks
    ],
)
def test_what_does_not_hold_of_layers_without_a_station_is_said_of_some(own, other, told) -> None:
    drawn, closed = (Stage((replace(FALSE, causal=False, **one),), False, None) for one in (own, other))
    tower = replace(make_tower(FALSE), groups=(Group((0, 3), (drawn,)), Group((1, 2, 4), (closed,))))

    found = describe_stage(tower, drawn, [closed])
    assert found == describe_station(tower, drawn.branches[0]).removesuffix(".") + told


@pytest.mark.parametrize("branches", [(), (PLAIN, FALSE)])
def test_convolutions_that_reach_over_a_smaller_map_mix_places_as_others_do(branches) -> None:
    near, wide = (Convolution((7, 7), 1, is_wide=one) for one in (False, True))
    drawn, closed = (Stage((*branches, one), False, None) for one in (near, wide))
    tower = replace(make_tower(FALSE), groups=(Group((0, 3), (drawn,)), Group((1, 2, 4), (closed,))))

    assert describe_stage(tower, drawn, [closed]).endswith("Each place is mixed with places near it.")
    assert describe_stage(tower, closed, [drawn]).endswith("Each place is mixed with others.")


@pytest.mark.parametrize(
    ("causal", "partial", "looks"),
    [(True, None, "looks back at"), (True, True, "looks at"), (False, None, "looks at"), (None, None, "looks at")],
)
def test_places_of_a_window_look_back_only_where_that_is_known_of_all(causal, partial, looks) -> None:
    branch = replace(FALSE, window=4, causal=causal, partial=partial)

    assert describe_station(make_tower(branch), branch) == f"Every place {looks} no more than 4 places."


def test_layers_that_look_at_as_many_places_are_not_told_to_do_what_says_no_number() -> None:
    own = replace(FALSE, window=5, causal=False, foreign_queries=True)
    groups = [Group((0, 1), (Stage((own,), False, None),))]
    groups.append(Group((2, 3, 4), (Stage((replace(FALSE, all_places=5, causal=False),), False, None),)))
    tower = replace(make_tower(own), groups=tuple(groups))

    told = "Queries are made beside the stream; keys and values are its own, in 2 of 5 layers"
    assert describe_stage(tower, groups[0].stages[0]).startswith(told)
