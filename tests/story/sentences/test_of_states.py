"""What the card says of the heads that read and change a state, and how an anatomy tells of them."""

from dataclasses import replace

import pytest
from story.sentences.makers import FALSE, make_anatomy

from xray.story.anatomy.branch_words import describe_sizes, describe_traits
from xray.story.anatomy.branches import Convolution, Recurrence, StateHeads
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.of_states import describe_convolutions, describe_order, describe_state_heads
from xray.story.sentences.sentence import say_first
from xray.story.sentences.stations.of_stations import OF_BRANCHES

SHARED = StateHeads(3, 6, 5, 5, by_length=True, corrects=True, in_order=True)


def hold(heads):
    return make_anatomy(Recurrence("linear attention", (2, 6, 5, 5), heads=heads))


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        (SHARED, "3 heads of queries and keys, each for 2 of the 6 of values; 5 numbers in each"),
        (replace(SHARED, key_heads=6), "6 heads of queries, keys and values; 5 numbers in each"),
        (
            replace(SHARED, key_heads=6, d_v=7),
            "6 heads of queries, keys and values; 5 numbers of queries and keys in each, 7 of values",
        ),
        (replace(SHARED, value_heads=7), "3 heads of queries and keys, 7 of values; 5 numbers in each"),
    ],
)
def test_heads_of_a_state_are_told_with_how_many_values_each_key_serves(heads, told):
    assert describe_state_heads(hold(heads)).startswith(f"Linear attention: {told}. The state is ")


def test_the_numbers_of_a_state_are_told_of_each_head():
    one, several = replace(SHARED, key_heads=6, d_v=7), SHARED

    assert describe_state_heads(hold(one)).endswith(" The state is 5 × 7 numbers for each head.")
    assert describe_state_heads(hold(several)).endswith(" The state is 5 × 5 numbers for each head of values.")


def test_heads_that_differ_from_state_to_state_are_not_told():
    others = hold(replace(SHARED, value_heads=9))
    both = replace(others, towers=(*others.towers, *hold(SHARED).towers))

    assert describe_state_heads(both) == ""


def test_that_queries_read_a_state_is_said_where_its_heads_are_known():
    told = "Linear attention: keys and values change the state, and queries read it."

    assert [told in list_sentences(hold(heads)) for heads in (SHARED, None)] == [True, False]


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        (replace(SHARED, writes="sigmoid"), "a sigmoid for each head of values"),
        (replace(SHARED, key_heads=6, writes="exp"), "an exponential for each head"),
    ],
)
def test_how_much_is_written_is_told_by_its_bend(heads, told):
    sentence = f"How much each row writes into a state is worked out of the rows: {told}."

    assert sentence in list_sentences(hold(heads))
    assert not any("writes into" in one for one in list_sentences(hold(SHARED)))


@pytest.mark.parametrize("kind", ["linear attention", "state space"])
@pytest.mark.parametrize(
    ("filled", "told"),
    [((1, 11), "one piece of 11, which reads the state as it began"), ((3, 11), "3 pieces of 11")],
)
def test_rows_that_fill_up_pieces_are_told(kind, filled, told):
    sentence = f"Rows of {kind} are filled up with rows of 0 to {told}."

    assert sentence in list_sentences(make_anatomy(Recurrence(kind, (2, 6, 5, 5), by_pieces=True, filled=filled)))


def test_a_state_in_some_layers_of_one_of_two_towers_is_told_with_its_tower():
    states, others = hold(SHARED), make_anatomy(FALSE)
    (text,) = states.towers
    (group,) = text.groups
    (own,) = others.towers
    text = replace(text, name="text", groups=(group, *own.groups))
    told = "In some layers of the text tower a state is changed and handed on from place to place"
    sentences = list_sentences(replace(states, towers=(replace(own, name="vision"), text)))

    assert any(one.startswith(told) for one in sentences)


def test_an_order_of_rows_is_said_of_some_layers_where_other_states_have_none():
    both = replace(hold(SHARED), towers=(*hold(SHARED).towers, *hold(None).towers))

    assert describe_order(both).endswith(" in some layers.")


def test_nothing_is_said_of_heads_that_are_not_known():
    assert [one for one in list_sentences(hold(None)) if "heads" in one or "Delta" in one] == []
    assert [one for one in list_sentences(make_anatomy(FALSE)) if "Linear attention" in one] == []


def test_an_anatomy_tells_the_heads_of_a_state_beside_its_shape():
    state = Recurrence("linear attention", (2, 6, 5, 7), heads=replace(SHARED, d_v=7))

    assert describe_sizes(state) == "state 2×6×5×7 · 6 heads · 3 of keys · d_k 5 · d_v 7"
    assert describe_traits(state) == "linear attention · queries and keys ÷ length · delta rule"


def test_an_anatomy_tells_a_factor_of_each_head_that_no_row_changes():
    state = Recurrence("linear attention", (2, 6, 5, 7), heads=StateHeads(6, 6, 5, 7, fades_alike=True))

    assert describe_traits(state) == "linear attention · one factor for each head"


@pytest.mark.parametrize(
    ("causal", "told"),
    [
        ([True], "Convolutions of layers mix each place with those just before it."),
        ([None], "Convolutions mix places near each other."),
        ([True, None], "Convolutions mix places near each other."),
    ],
)
def test_convolutions_that_all_look_back_alone_are_told_as_such(causal, told):
    known = make_anatomy(*(Convolution((3,), 1, causal=one) for one in causal))

    assert describe_convolutions(known) == told


@pytest.mark.parametrize("one_piece", [True, None])
def test_a_state_whose_rows_are_one_piece_is_not_told_as_if_there_were_more(one_piece):
    branch = Recurrence("gated", (2, 6, 5, 5), by_pieces=True, one_piece=one_piece)

    card, station = " ".join(list_sentences(make_anatomy(branch))), say_first(OF_BRANCHES, branch)
    assert ("Here all rows are one piece." in card) == bool(one_piece)
    assert station.endswith("is changed by each; here all rows are one piece.") == bool(one_piece)
