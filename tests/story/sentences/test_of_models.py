"""What is said of a model whose layers differ: what one of them does stands not for all."""

from dataclasses import replace

import pytest
from story.sentences.makers import FALSE, PLAIN, STATE_HEADS, bridge_layers, make_anatomy, make_tower, number_blocks

from xray.story.anatomy.beside_layers import Bridge, Span
from xray.story.anatomy.branches import Convolution, Recurrence, Unknown
from xray.story.anatomy.tree import Group, Link, Untold
from xray.story.sentences.attentions.of_heads import describe_output_gate
from xray.story.sentences.attentions.of_places import describe_no_places
from xray.story.sentences.attentions.of_windows import (
    describe_chosen_keys,
    describe_kept_last,
    describe_none_chosen,
    describe_set_window,
)
from xray.story.sentences.of_layers import describe_bridges, describe_parallel, describe_shared_in_part
from xray.story.sentences.of_links import describe_added_between, describe_earlier, describe_spans
from xray.story.sentences.of_models import describe_unknown, describe_untold, list_sentences
from xray.story.sentences.of_norms import (
    describe_inner_norm,
    describe_scale,
)
from xray.story.sentences.where import of_some


def test_keys_that_some_attentions_choose_are_chosen_in_some():
    chosen = replace(FALSE, chosen_keys=True)

    assert describe_chosen_keys(make_anatomy(chosen)).startswith("Keys are chosen: ")
    assert describe_chosen_keys(make_anatomy(chosen, FALSE)).startswith("Keys are chosen in some attentions: ")
    assert describe_chosen_keys(make_anatomy(FALSE)) == ""


def test_sublayers_of_which_nothing_is_known_are_all_or_some():
    unknown = Unknown(("mixer",))

    assert describe_unknown(make_anatomy(unknown)).startswith("All sublayers are drawn by their operations: ")
    assert describe_unknown(make_anatomy(unknown, FALSE)).startswith("Some sublayers are drawn by their operations: ")
    assert describe_unknown(make_anatomy(FALSE)) == ""


def test_keys_that_are_chosen_several_at_once_are_told_so_and_where_none_is():
    chosen = replace(FALSE, chosen_keys=True, chosen_together=16)
    none = replace(chosen, none_chosen=True)

    assert describe_chosen_keys(make_anatomy(chosen)).startswith("Keys are chosen, 16 places at once: ")
    assert describe_none_chosen(make_anatomy(none)).endswith("the rows of this pass do not fill 16 places.")
    assert describe_none_chosen(make_anatomy(none, chosen)) == describe_none_chosen(make_anatomy(chosen)) == ""


def test_rows_that_become_wider_within_a_stage_are_told_with_the_others():
    anatomy = bridge_layers(make_anatomy(FALSE), Bridge(1, 4, 35, 70), Bridge(2, 4, 70, 70))
    (tower,) = anatomy.towers
    groups = tuple(Group((layer,), (), width) for layer, width in ((2, 140), (0, 35), (1, 70)))

    assert describe_bridges(anatomy) == "Stages: between them 4 places become one, and rows are 35, 70 numbers wide."
    assert describe_bridges(replace(anatomy, towers=(replace(tower, groups=groups),))) == (
        "Stages: between them 4 places become one, and rows are 35, 70, 140 numbers wide."
    )


def test_rows_that_become_wider_where_no_stage_begins_tell_of_no_stages():
    anatomy = bridge_layers(make_anatomy(FALSE), Bridge(2, 4, 70, 140))
    (tower,) = anatomy.towers
    groups = tuple(Group((layer,), (), width) for layer, width in ((0, 35), (1, 70), (2, 140)))
    wider, two = replace(tower, groups=groups), replace(anatomy, towers=(tower, tower))

    assert describe_bridges(replace(anatomy, towers=(wider,))) == ""
    assert describe_bridges(two).startswith(f"Stages of the {tower.name} tower: between them 4 places become one")


def test_it_is_told_between_which_layers_something_is_added():
    found = (Bridge(number, None, 35, 35, added=number != 4) for number in (2, 4, 6))
    anatomy = bridge_layers(make_anatomy(FALSE), *found)

    assert describe_added_between(make_anatomy(FALSE)) == ""
    assert describe_added_between(anatomy) == (
        f"Between layers 2 and 3, and 6 and 7 of the {anatomy.towers[0].name} tower, something is made of the stream "
        "and added to it."
    )


def test_groups_of_layers_that_a_sum_reaches_over_are_told():
    (tower,) = make_anatomy(FALSE).towers

    def tell(count, *spans):
        groups = (Group(tuple(range(count)), ()),)
        return describe_spans(number_blocks(make_anatomy(FALSE), groups=groups, spans=spans))

    assert tell(4) == ""
    assert tell(4, Span(0, 1, made=True), Span(2, 3, made=True)) == (
        "Groups of 2 layers: behind each, something is made of what the last gave, and what the first of them began "
        "with is added."
    )
    assert tell(5, Span(0, 1, made=True), Span(2, 3, made=False)) == (
        f"Behind layers 1 to 2, and 3 to 4 of the {tower.name} tower, what the first of them began with is added."
    )


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        ((1,), "3 layers share one set of weights, and each has others of its own beside it."),
        ((2,), "3 layers share 2 sets of weights, and each has others of its own beside one of these."),
        ((None,), "3 layers share several sets of weights, and each has others of its own beside one of these."),
        (
            (1, 2),
            "3 layers share one set of weights, and each has others of its own beside it; 3 layers share 2 sets of "
            "weights, and each has others of its own beside one of these.",
        ),
    ],
)
def test_each_group_says_how_many_sets_of_weights_its_layers_share_in_part(sets, told):
    groups = [Group((0, 1, 2), (), shared_in_part=True, shared_sets=one) for one in sets]

    assert describe_shared_in_part(number_blocks(make_anatomy(FALSE), groups=(*groups, Group((7,), ())))) == told


def test_layers_of_two_towers_that_share_weights_in_part_are_told_with_their_tower():
    towers = [replace(make_tower(FALSE), name=name, groups=(Group((0, 1), ()),)) for name in ("first", "second")]
    towers[1] = replace(towers[1], groups=(Group((0, 1), (), shared_in_part=True, shared_sets=1),))
    told = describe_shared_in_part(replace(make_anatomy(FALSE), towers=tuple(towers)))

    assert told.startswith("2 layers of the second tower share one set of weights, ")


@pytest.mark.parametrize(
    ("start", "told"), [("", "In self-attention, keys do so."), ("Some: ", "Some in self-attention: there keys do so.")]
)
def test_what_some_attentions_do_is_said_behind_where_they_are(start, told):
    whole = make_anatomy(replace(FALSE, gate=True), replace(FALSE, source="encoder"))

    assert of_some(whole, lambda branch: branch.gate, "keys do so.", start) == told


@pytest.mark.parametrize(
    ("curves", "told"), [(["sigmoid"], "The sigmoid of a gate"), (["silu", "sigmoid"], "A gate"), ([None], "A gate")]
)
def test_the_curve_of_a_gate_is_told_where_all_have_one(curves, told):
    whole = make_anatomy(*(replace(FALSE, gate=True, gate_curve=one) for one in curves))

    assert describe_output_gate(whole) == f"{told} decides how much of what the heads found goes on."


def test_counts_have_a_comma_for_thousands():
    assert describe_kept_last(make_anatomy(replace(FALSE, kept_last=8191))) == (
        "A cache keeps only the keys of the last 8,191 places: later places look no further back."
    )


def test_of_what_is_not_drawn_the_largest_parts_are_named_and_all_counted():
    parts = (("first", 3), ("second", 70), ("third", 5, True), ("fourth", 0), ("fifth", 3))
    untold = tuple(Untold(*one) for one in parts)

    told = describe_untold(replace(make_anatomy(FALSE), untold=untold))
    assert told == "Not drawn, with parameters: second (70), third (5; nothing reads what it gives), and 2 more (6)."


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("memory", "The vision tower reads what the {}."),
        ("joined", "What the {} is put into the vision tower's stream before its first layer."),
    ],
)
def test_what_is_read_behind_layers_is_told_of_who_reads_it(kind, told):
    assert describe_earlier(make_anatomy(FALSE, links=(Link(kind, "text", "vision", (0,)),))) == told.format(
        "text tower gives behind layer 1 of 2"
    )


def test_what_may_be_read_as_what_another_tower_begins_with_is_not_told_of_the_first():
    links = (Link("memory", "text", "vision", (0,)), Link("joined", "text", "audio", (0,)))
    whole = make_anatomy(FALSE, links=(*links, Link("memory", "audio", "vision")))

    assert "vision" not in describe_earlier(whole)


@pytest.mark.parametrize(("norms", "where"), [(("rms", "rms"), "attention"), (("rms", None), "some attentions")])
def test_inner_norms_are_said_of_all_attentions_only_where_each_has_one(norms, where):
    anatomy = make_anatomy(*(replace(FALSE, inner_norm=norm) for norm in norms))

    assert describe_inner_norm(anatomy).startswith(f"Inner norms: in {where}, rows")


def test_a_layer_scale_is_said_of_all_sublayers_only_where_each_has_one():
    scaled = make_anatomy(FALSE, PLAIN, scale="learned")
    (tower,) = scaled.towers
    (group,) = tower.groups
    first, *others = group.stages
    stages = (first, *(replace(stage, scale=None) for stage in others))
    some = replace(scaled, towers=(replace(tower, groups=(replace(group, stages=stages),)),))

    assert "what a sublayer gives is multiplied by learned numbers" in describe_scale(scaled)
    assert "what some sublayers give is multiplied" in describe_scale(some)


@pytest.mark.parametrize(
    ("fact", "all_say", "some_say"),
    [
        ({"fused": "qkv"}, "One linear layer makes", "In self-attention, one linear layer makes"),
        ({"kernel": "sdpa"}, "Attention runs in one kernel", "Some attentions run in one kernel"),
        ({"beside": "image"}, "Joint attention: keys", "Joint attention in some attentions: there keys"),
        ({"pooled": 4}, "Queries are pooled, 4 places", "Queries are pooled in self-attention, 4 places"),
        ({"positions": "relative"}, "Relative places: a number", "Relative places in self-attention: a number"),
    ],
)
def test_what_one_attention_does_is_said_of_some_where_one_of_a_memory_does_not(fact, all_say, some_say):
    own, memory = replace(FALSE, **fact), replace(FALSE, source="encoder")

    assert any(text.startswith(all_say) for text in list_sentences(make_anatomy(own)))
    assert any(text.startswith(some_say) for text in list_sentences(make_anatomy(own, memory)))


def test_each_way_of_knowing_places_is_told():
    told = list_sentences(make_anatomy(replace(FALSE, positions="rotary"), replace(FALSE, positions="relative")))

    assert {text.partition(":")[0] for text in told} >= {
        "Rotary places in some attentions",
        "Relative places in some attentions",
    }


@pytest.mark.parametrize(
    ("by_rows", "told"),
    [
        ((None, None), "apart two are is added"),
        ((True, True), "apart two are, and on what one or both of them hold, is added"),
        ((True, None), "apart two are, in some also on what one or both of them hold, is added"),
    ],
)
def test_relative_places_that_depend_on_rows_are_told_so(by_rows, told):
    own = [replace(FALSE, positions="relative", places_by_rows=one, heads=2 + n) for n, one in enumerate(by_rows)]

    assert [text for text in list_sentences(make_anatomy(*own)) if told in text]


@pytest.mark.parametrize(("heads", "where"), [(STATE_HEADS, " in softmax attention: there q"), (None, ": q")])
def test_rotary_places_are_not_told_of_the_queries_and_keys_of_a_state(heads, where):
    told = list_sentences(make_anatomy(replace(FALSE, positions="rotary"), Recurrence(None, None, heads=heads)))

    assert f"Rotary places{where}ueries and keys are turned by their place." in told


@pytest.mark.parametrize(
    ("cross", "where"),
    [(False, " in softmax attention of the decoder: there q"), (True, " in softmax self-attention: there q")],
)
def test_of_a_tower_that_changes_a_state_too_the_kind_of_attention_is_named(cross, where):
    rotary, plain = (replace(FALSE, positions=kind, source="self") for kind in ("rotary", "none"))
    state = Recurrence(None, None, heads=STATE_HEADS)
    other = replace(plain, source="memory") if cross else plain
    towers = (
        replace(make_tower(rotary, state), name="decoder"),
        replace(make_tower(other), name="encoder"),
    )
    told = list_sentences(replace(make_anatomy(FALSE), towers=towers))

    assert any(f"Rotary places{where}ueries and keys" in text for text in told), told


def test_a_window_that_is_not_reached_is_told_of_the_rows_of_those_attentions_alone():
    windowed = replace(FALSE, sliding_window=65)

    assert describe_set_window(make_anatomy(windowed)).endswith(
        "not seen at work here, where no row has so many places."
    )
    some = describe_set_window(make_anatomy(windowed, FALSE))
    assert some.startswith(
        "A window is set in some attentions (sliding_window = 65), and not seen at work here, where none "
    )
    assert some.endswith("none of their rows has so many places.")


def test_sublayers_stand_side_by_side_in_some_layers_where_others_follow_one_another():
    (beside,) = make_anatomy(FALSE, PLAIN, parallel=True).towers
    (behind,) = make_anatomy(FALSE, PLAIN).towers
    mixed = replace(make_anatomy(FALSE), towers=(beside, behind))

    assert describe_parallel(replace(mixed, towers=(beside,))).startswith("Sublayers side by side: they read")
    assert describe_parallel(mixed).startswith("In some layers sublayers stand side by side: they read")
    assert describe_parallel(replace(mixed, towers=(behind,))) == ""


def test_some_sublayers_stand_side_by_side_where_every_layer_has_such_and_others():
    (beside,) = make_anatomy(FALSE, PLAIN, parallel=True).towers
    (behind,) = make_anatomy(FALSE, PLAIN).towers
    (one,), (other,) = beside.groups, behind.groups
    tower = replace(beside, groups=(replace(one, stages=(*one.stages, *other.stages)),))

    told = describe_parallel(replace(make_anatomy(FALSE), towers=(tower,)))
    assert told.startswith("Some sublayers stand side by side: they read")


def test_a_state_is_said_of_some_layers_where_others_have_attention():
    state = Recurrence(kind="state space", state=(2, 3, 5))
    text = "state is changed and handed on from place to place: it does not grow with the length."
    mixed = replace(make_anatomy(FALSE), towers=(*make_anatomy(state).towers, *make_anatomy(FALSE).towers))

    assert f"A {text}" in list_sentences(make_anatomy(state))
    assert f"A {text}" in list_sentences(make_anatomy(state, FALSE))
    assert f"In some layers a {text}" in list_sentences(mixed)


HIDES = replace(FALSE, causal=True)
MAMBA = Recurrence("state space", None, kernel=(4,))
BARE = "No places are added or turned in: the mask that hides the future"


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        (make_anatomy(HIDES), f"{BARE} alone tells the order."),
        (make_anatomy(HIDES, Recurrence("state space", None)), f"{BARE}, and states, tell the order."),
        (make_anatomy(HIDES, MAMBA), f"{BARE}, states and convolutions tell the order."),
        (make_anatomy(HIDES, Convolution((3,), 1)), f"{BARE}, and convolutions, tell the order."),
        (make_anatomy(HIDES, replace(PLAIN, kernel=(3,))), f"{BARE}, and convolutions, tell the order."),
        (make_anatomy(HIDES, replace(PLAIN, kernel=(2,))), f"{BARE}, and rows of the place before, tell the order."),
        (make_anatomy(replace(HIDES, shifted=(4, 8))), f"{BARE}, and rows of the place before, tell the order."),
        (make_anatomy(replace(HIDES, chosen_keys=True)), ""),
        (make_anatomy(replace(HIDES, window=4)), ""),
        (make_anatomy(HIDES, replace(HIDES, positions="rotary")), ""),
        (make_anatomy(HIDES, replace(HIDES, positions=None)), ""),
        (make_anatomy(HIDES, Unknown(())), ""),
        (make_anatomy(replace(FALSE, causal=None)), ""),
    ],
)
def test_no_places_are_told_only_where_nothing_tells_them(whole, told):
    assert describe_no_places(number_blocks(whole, words_alone=True)) == told
    assert describe_no_places(whole) == ""
