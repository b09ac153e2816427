import pytest
from recorded import recorded

from xray.errors import UsageError
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.walk.worksheet import Choice, choose_blanks, list_questions


@pytest.fixture(scope="module")
def layout():
    return compose_poster(recorded("batch 7, lengths 11 and 13"), text_width)


def paths(blanks):
    return [blank.question.box.id for blank in blanks]


@pytest.mark.parametrize(
    ("node", "answer", "station"),
    [
        ("training/encoder.embedding.words#0", "7×11×32", 1),
        ("training/encoder.layers.0#0", "7×11×32", 2),
        ("training/encoder.layers.0.self_attention.scores#0", "7×4×11×11", 2),
        ("training/encoder.layers.0.feed_forward.expand#0", "7×11×128", 3),
        ("training/decoder.layers.0#0", "7×13×32", 5),
        ("training/decoder.layers.0.cross_attention.softmax#0", "7×4×13×11", 6),
        ("training/head#0", "7×13×950", 8),
        ("training/loss.flatten_targets#0", "91", 8),
        ("decode1/decoder.layers.0.self_attention.scores#0", "1×4×t×t", 5),
    ],
)
def test_a_node_asks_for_its_shape(layout, node, answer, station):
    found = {question.box.id: (question.answer, question.station) for question in list_questions(layout)}
    assert found[node] == (answer, station)


def test_what_is_no_node_asks_for_nothing(layout):
    kinds = {question.box.kind.split()[0] for question in list_questions(layout)}
    assert kinds == {"step"}


def test_one_number_is_not_asked_for(layout):
    assert "training/loss.cross_entropy#0" not in {question.box.id for question in list_questions(layout)}


def test_a_share_of_the_shapes_is_left_out(layout):
    count = len(list_questions(layout))
    assert count * 0.25 <= len(choose_blanks(layout, Choice(share=0.25))) <= count * 0.25 + 3


def test_all_of_them_can_be_left_out(layout):
    assert len(choose_blanks(layout, Choice(share=1))) == len(list_questions(layout))


def test_the_smallest_share_asks_for_one_group(layout):
    assert 1 <= len(choose_blanks(layout, Choice(share=0.0001))) <= 3


def test_only_the_named_stations_are_asked(layout):
    blanks = choose_blanks(layout, Choice((2, 6), 1))
    assert {blank.question.station for blank in blanks} == {2, 6}


def test_blanks_are_numbered_in_reading_order(layout):
    blanks = choose_blanks(layout, Choice(seed=5))
    order = [(blank.question.station, blank.question.box.y, blank.question.box.x) for blank in blanks]
    assert order == sorted(order)
    assert [blank.number for blank in blanks] == list(range(1, len(blanks) + 1))


def test_the_same_seed_asks_the_same(layout):
    assert choose_blanks(layout, Choice(seed=7)) == choose_blanks(layout, Choice(seed=7))


def test_the_choice_does_not_change_with_the_version(layout):
    assert paths(choose_blanks(layout, Choice((3,), 0.5, 7))) == [
        "training/encoder.layers.0.feed_forward.expand#0",
        "encode/encoder.layers.0.feed_forward.expand#0",
        "encode/encoder.layers.0.feed_forward_norm#0",
    ]


def test_another_seed_asks_something_else(layout):
    assert paths(choose_blanks(layout, Choice(seed=7))) != paths(choose_blanks(layout, Choice(seed=8)))


def test_a_larger_share_asks_the_same_and_more(layout):
    few, many = (set(paths(choose_blanks(layout, Choice(share=share)))) for share in (0.2, 0.6))
    assert few < many


@pytest.mark.parametrize("seed", range(12))
def test_alike_neighbours_are_asked_together(layout, seed):
    chosen = set(paths(choose_blanks(layout, Choice(seed=seed))))
    root = "training/encoder.layers.0.self_attention."
    triple = {f"{root}{part}#0" for part in ("query", "key", "value")}
    assert len(triple & chosen) in (0, 3)


def test_queries_of_another_length_are_asked_alone(layout):
    root = "training/decoder.layers.0.cross_attention."
    seen = {
        frozenset(part for part in ("query", "key", "value") if f"{root}{part}#0" in chosen)
        for chosen in (paths(choose_blanks(layout, Choice(seed=seed))) for seed in range(12))
    }
    assert seen <= {
        frozenset(),
        frozenset({"query"}),
        frozenset({"key", "value"}),
        frozenset({"query", "key", "value"}),
    }
    assert len(seen) > 2


@pytest.mark.parametrize("stations", [(0,), (2, -3)])
def test_a_station_below_one_is_refused(stations):
    with pytest.raises(UsageError, match=rf"^{stations[-1]} is no station\. They count from 1, as in --stations 2,5\."):
        Choice(stations)


@pytest.mark.parametrize("share", [0, -0.5, 1.01, float("nan")])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(UsageError, match=r"^share=.* is out of range\. It must be above 0 and at most 1"):
        Choice(share=share)


def test_a_station_without_shapes_is_refused_with_those_that_have_some(layout):
    with pytest.raises(UsageError, match=r"^station 9 of this trace has no shapes to ask for\. Choose among 1, 2, 3,"):
        choose_blanks(layout, Choice((9,)))


def test_another_model_asks_for_every_shape_that_its_poster_prints():
    layout = compose_poster(recorded("Llama, inference"), text_width)
    printed = [box for box in layout.boxes if box.record is not None]

    assert len(list_questions(layout)) == len(printed) > 15


def test_stations_of_another_model_count_from_one():
    layout = compose_poster(recorded("Llama, inference"), text_width)

    assert sorted({question.station for question in list_questions(layout)}) == [1, 2, 3, 4]
