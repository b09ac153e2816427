from dataclasses import replace

from small_blocks import call, forward, tensor

from xray.ir.records import Preview
from xray.ir.trace import Step, Trace
from xray.story.blocks.pass_groups import group_passes, read_sizes
from xray.story.blocks.turn_rows import list_turns


def turn(number, fed, keys, *more, ids=None, tokens=None):
    """One forward pass of a decoder: `fed` ids in, attention over `keys`, logits for 17 words out."""
    root = call("net", "net", [""], (1, fed), module="Net")
    given = tensor("input_ids", (1, fed), role="ids", dtype="int64", preview=ids)
    logits = tensor("logits", (1, fed, 17), "net.head#0", role="logits")
    steps = [
        Step(**{**vars(root), "inputs": (given,), "outputs": (logits,)}),
        call("net.attention", "attention", [""], (1, fed, 5), parent="net#0", module="Attention"),
        call("net.attention.softmax", "softmax", [""], (1, 3, fed, keys), parent="net.attention#0"),
        call("net.head", "linear", ["net.attention.softmax#0"], (1, fed, 17), parent="net#0", module="Linear"),
    ]
    return forward(*steps, *more, number=number, tokens=tokens)


def generation(turns=5):
    return Trace("t", {}, {}, (turn(0, 5, 5), *(turn(number, 1, 5 + number) for number in range(1, turns))))


def test_the_turns_of_a_generation_are_one_group():
    (group,) = group_passes(generation(60))
    assert len(group.passes) == 60


def test_passes_through_other_modules_are_another_group():
    other = forward(call("other", "other", [""], module="Other"), call("other.a", "relu", parent="other#0"), number=1)
    groups = group_passes(Trace("t", {}, {}, (turn(0, 5, 5), other, turn(2, 1, 6))))
    assert [group.places for group in groups] == [(1, 3), (2,)]


def test_a_module_that_ran_in_the_first_turn_only_is_told():
    once = call("net.once", "linear", [""], parent="net#0", module="Linear")
    (group,) = group_passes(Trace("t", {}, {}, (turn(0, 5, 5, once), turn(1, 1, 6), turn(2, 1, 7))))
    assert (group.shown.number, group.missing()) == (2, ("net.once",))


def test_sizes_that_grow_are_told_from_the_first_to_the_last():
    (group,) = group_passes(generation())
    records = [step.outputs[0] for step in group.same_step("net.attention.softmax#0")]
    assert read_sizes(records).sizes == ("1", "3", "5→1", "5→9")


def test_sizes_that_go_up_and_down_are_told_as_a_range():
    assert read_sizes([tensor("x", (size,)) for size in (3, 7, 3)]).sizes == ("3–7",)


def test_a_turn_has_its_query_and_key_lengths_and_what_came_from_the_cache():
    rows = list_turns(group_passes(generation())[0])
    assert [(row.place, row.fed, row.attends, row.cached, row.output) for row in rows[:3]] == [
        (1, "1×5", "5×5", "0", "1×5×17"),
        (2, "1×1", "1×6", "5", "1×1×17"),
        (3, "1×1", "1×7", "6", "1×1×17"),
    ]


def test_the_chosen_token_is_the_one_that_the_next_turn_was_fed():
    ids = [Preview((0, 0), (1, 2), (11, 13)), Preview((0, 0), (1, 1), (7,))]
    trace = Trace("t", {}, {}, (turn(0, 2, 2, ids=ids[0]), turn(1, 1, 3, ids=ids[1])))
    rows = list_turns(group_passes(trace)[0])
    assert [(row.fed, row.chosen) for row in rows] == [("1×2: 11 13", "7"), ("1×1: 7", "")]


def test_the_chosen_word_is_told_where_the_pass_knows_it():
    tokens = {"decoder_input": (("<sos>", "she"),), "new": (("flies",),)}
    (row, _) = list_turns(group_passes(Trace("t", {}, {}, (turn(0, 2, 2, tokens=tokens), turn(1, 1, 3))))[0])
    assert (row.fed, row.chosen) == ("<sos> she", "flies")


def test_every_sequence_of_a_batch_chooses_its_own_token():
    pick = call("argmax", "argmax", [""], (2,))
    pick = replace(pick, outputs=(replace(pick.outputs[0], preview=Preview((0,), (2,), (7, 11))),))
    (row, _) = list_turns(group_passes(Trace("t", {}, {}, (turn(0, 5, 5, pick), turn(1, 1, 6))))[0])
    assert row.chosen == "7 / 11"


def test_the_ids_of_two_sequences_are_told_apart():
    ids = Preview((0, 0), (2, 5), (2, 3, 5, 7, 11, 13, 17, 19, 23, 29))
    (row, _) = list_turns(group_passes(Trace("t", {}, {}, (turn(0, 5, 5, ids=ids), turn(1, 1, 6))))[0])
    assert row.fed == "1×5: … 5 7 11 / … 19 23 29"
