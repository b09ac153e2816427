from dataclasses import replace

from poster_cases import make_case
from printed import words_of
from small_traces import small_trace

from xray.renderers.fonts import text_width
from xray.renderers.table.table import draw_tables
from xray.story.facts.savings import count_savings
from xray.story.poster import compose_poster
from xray.story.sentences.of_runs import describe_savings

COUNTS = {"multiplications": 781_184, "multiplications_without_cache": 1_761_408}


def test_a_trace_without_a_cache_saves_nothing():
    assert count_savings(small_trace()) is None


def test_the_saving_is_told_in_numbers_and_as_a_share():
    assert (
        describe_savings(small_trace(**COUNTS)) == "It takes 781,184 multiplications instead of 1,761,408: 56% saved."
    )


def test_a_saving_of_nothing_from_nothing_is_not_told():
    assert count_savings(small_trace(multiplications=0, multiplications_without_cache=0)) is None


def test_the_poster_tells_the_saving():
    trace = make_case("cached")[0]
    told = words_of(compose_poster(replace(trace, config={**trace.config, **COUNTS}), text_width))
    assert "781,184 multiplications instead of 1,761,408: 56% saved." in told


def test_the_tables_tell_the_saving():
    assert "781,184 multiplications instead of 1,761,408: 56% saved." in draw_tables(small_trace(**COUNTS))
