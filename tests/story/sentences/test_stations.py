"""What is said at a station whose stage does one thing several times in a row."""

from story.sentences.pools import EXPERTS, FALSE, PLAIN, make_tower

from xray.story.anatomy.tree import Stage
from xray.story.sentences.of_stations import describe_stage, describe_station


def test_what_happens_several_times_in_a_row_is_told_once_with_its_number() -> None:
    tower = make_tower(FALSE, PLAIN)
    alone, looks, chosen = (describe_station(tower, branch) for branch in (PLAIN, FALSE, EXPERTS))

    stage = Stage((PLAIN, FALSE, PLAIN, PLAIN, PLAIN, EXPERTS), False, None)
    assert describe_stage(tower, stage) == f"{alone} {looks} {alone.removesuffix('.')}, 3 times. {chosen}"
