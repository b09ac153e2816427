"""What is said at a station whose stage does one thing several times in a row."""

from dataclasses import replace

import pytest
from story.sentences.pools import EXPERTS, FALSE, PLAIN, make_tower

from xray.story.anatomy.tree import Group, Stage
from xray.story.sentences.of_stations import describe_stage, describe_station


def test_what_happens_several_times_in_a_row_is_told_once_with_its_number() -> None:
    tower = make_tower(FALSE, PLAIN)
    alone, looks, chosen = (describe_station(tower, branch) for branch in (PLAIN, FALSE, EXPERTS))

    stage = Stage((PLAIN, FALSE, PLAIN, PLAIN, PLAIN, EXPERTS), False, None)
    assert describe_stage(tower, stage) == f"{alone} {looks} {alone.removesuffix('.')}, 3 times. {chosen}"


def test_what_branches_side_by_side_do_is_told_once_with_how_many_they_are() -> None:
    tower = make_tower(PLAIN)
    alone = describe_station(tower, PLAIN).removesuffix(".")

    assert describe_stage(tower, Stage((PLAIN, PLAIN), True, None)) == f"{alone}, in 2 branches."


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"causal": True, "sliding_window": 9}, ", in 2 of 5 layers."),
        ({"causal": True, "heads": 3}, "."),  # told in the same words
        ({"causal": True, "sliding_window": 9, "source": "encoder"}, "."),  # another kind of stage
    ],
)
def test_in_how_many_layers_something_is_done_is_told_where_others_do_something_else(others, told) -> None:
    own, other = replace(FALSE, causal=True), replace(FALSE, **others)
    groups = (Group((0, 3), (Stage((own,), False, None),)), Group((1, 2, 4), (Stage((other,), False, None),)))
    tower = replace(make_tower(own), groups=groups)

    assert describe_stage(tower, groups[0].stages[0]) == f"Every place looks back, never ahead{told}"


def test_what_is_alike_in_all_layers_is_not_said_of_some() -> None:
    own, other = replace(FALSE, causal=True), replace(FALSE, causal=True, sliding_window=9)
    groups = (Group((0, 3), (Stage((own, PLAIN), True, None),)), Group((1,), (Stage((other, PLAIN), True, None),)))
    tower = replace(make_tower(own, PLAIN), groups=groups)

    looks, alone = "Every place looks back, never ahead, in 2 of 3 layers.", describe_station(tower, PLAIN)
    assert describe_stage(tower, groups[0].stages[0]) == f"{looks} {alone}"


def test_what_one_stage_of_each_layer_does_and_another_one_does_not_is_not_said_of_some() -> None:
    looks, windowed = replace(FALSE, causal=True), replace(FALSE, causal=True, window=9)
    stages = (Stage((looks,), False, None), Stage((windowed,), False, None))
    tower = replace(make_tower(looks, windowed), groups=(Group((0, 1), stages),))

    assert describe_stage(tower, stages[0]) == "Every place looks back, never ahead."


@pytest.mark.parametrize(
    ("causal", "partial", "looks"),
    [(True, None, "looks back at"), (True, True, "looks at"), (False, None, "looks at"), (None, None, "looks at")],
)
def test_places_of_a_window_look_back_only_where_that_is_known_of_all(causal, partial, looks) -> None:
    branch = replace(FALSE, window=4, causal=causal, partial=partial)

    assert describe_station(make_tower(branch), branch) == f"Every place {looks} no more than 4 places."
