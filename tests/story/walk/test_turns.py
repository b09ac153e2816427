from dataclasses import replace

from recorded import recorded
from small_traces import small_trace, small_training_pass, small_turn, step

from xray.story.walk.turns import list_turns, masks_grow, unlike_turns


def test_a_turn_tells_what_was_read_and_what_was_chosen():
    turn = list_turns(small_trace())[1]

    assert (turn.number, turn.words, turn.chosen, turn.tgt_len) == (2, ("<sos>", "a"), "series", 2)


def test_a_turn_knows_its_growing_shapes():
    turn = list_turns(recorded("one layer"))[2]

    shapes = [record.shape for record in (turn.mask, turn.scores, turn.cross_scores)]

    assert shapes == [(1, 1, 3, 3), (1, 4, 3, 3), (1, 4, 3, 9)]


def test_training_has_no_turns():
    assert list_turns(small_trace(small_training_pass())) == ()


def test_longer_answers_are_not_unlike():
    assert unlike_turns(small_trace()) == ()


def test_a_turn_with_another_operation_is_unlike():
    first, second = small_turn(1, ("<sos>",), "a"), small_turn(2, ("<sos>", "a"), "b")
    second = replace(second, steps=(*second.steps, step("cache", "concat")))

    assert unlike_turns(small_trace(first, second)) == (second,)


def test_the_last_mask_shows_all_masks_when_each_is_its_corner():
    assert masks_grow(list_turns(recorded("one layer")))


def test_the_last_mask_does_not_show_masks_of_another_kind():
    first, second, third = list_turns(recorded("one layer"))[:3]
    facts = replace(second.mask.mask, cells=(("..", ".."),))
    second = replace(second, mask=replace(second.mask, mask=facts))

    assert not masks_grow((first, second, third))


def test_with_a_cache_a_turn_knows_the_row_of_the_mask_that_is_read():
    turns = list_turns(recorded("cached"))

    assert [turn.mask.shape for turn in turns] == [(1, 1, 1, turn.number) for turn in turns]
    assert [turn.is_cached for turn in turns] == [False, *(True for _ in turns[1:])]


def test_without_a_cache_all_words_are_read():
    assert not any(turn.is_cached for turn in list_turns(recorded("one layer")))
