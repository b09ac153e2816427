"""Every sentence of a sheet needs a fact: where the fact is false or unknown, the sentence is not there."""

import ast
import re
from dataclasses import replace

import pytest
from documents import ROOT
from printed import words_of
from recorded import FAMILIES, recorded
from story.sentences import pools, pools_of_parts, pools_of_runs
from story.sentences.makers import FALSE, make_anatomy, make_tower
from story.sentences.pools_of_parts import TOWER

from xray.renderers.fonts import text_width
from xray.story.body.whole import anatomy
from xray.story.poster import compose_poster
from xray.story.sentences import of_ends, of_masks, of_models, of_parts, of_rows, of_runs, of_states, of_ways_past
from xray.story.sentences.catalogue import CATALOGUE
from xray.story.sentences.of_ends import describe_entrance
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.stations import of_memories, of_stations
from xray.story.sentences.stations.of_stations import describe_station

REMARKS = [sentence for group in of_parts.REMARKS.values() for sentence in group]
GROUPS = (
    (of_models.OF_MODELS, pools.MODELS, pools.OF_MODELS),
    (REMARKS, pools_of_parts.PARTS, pools_of_parts.OF_PARTS),
    ((of_stations.ASKS,), pools_of_parts.ASKING, {"asks": {"memory", "no source"}}),
    (of_parts.OF_LOADS, pools_of_runs.LOADS, pools_of_runs.OF_LOADS),
    (of_ways_past.OF_PASTS, pools_of_runs.PASTS, pools_of_runs.OF_PASTS),
    (of_ways_past.OF_ADDED, pools_of_runs.ADDED, pools_of_runs.OF_ADDED),
    (of_rows.OF_OTHERS, pools_of_runs.OTHER_ROWS, pools_of_runs.OF_OTHER_ROWS),
    (of_ways_past.OF_SOURCES, pools_of_runs.SOURCES, pools_of_runs.OF_SOURCES),
    (of_ways_past.OF_ELSEWHERE, pools_of_runs.ELSEWHERE, pools_of_runs.OF_ELSEWHERE),
    (of_ways_past.OF_ARROWS, pools_of_runs.ARROWS, pools_of_runs.OF_ARROWS),
    (of_ways_past.OF_STAGES, pools_of_runs.SUMS, pools_of_runs.OF_STAGES),
    (of_models.OF_GROUPS, pools_of_runs.GROUPS, pools_of_runs.OF_GROUPS),
    ((of_models.UNSAID,), pools_of_runs.LEFT, pools_of_runs.OF_LEFT),
    ((of_models.LEFT_OUT,), pools_of_runs.LEFT_OUT, pools_of_runs.OF_LEFT_OUT),
    ((of_states.SOLVED,), pools.INSIDE, {"solved inside": {"solved"}}),
    ((of_runs.DERIVED,), pools_of_runs.MADE, {"derived": {"derived"}}),
    (of_stations.OF_BRANCHES, pools_of_parts.BRANCHES, pools_of_parts.OF_BRANCHES),
    (of_stations.OF_FORWARDS, pools_of_parts.THINKING, pools_of_parts.OF_FORWARDS),
    (of_ends.OF_ENTRANCES, pools_of_parts.TOWERS, pools_of_parts.OF_ENTRANCES),
    (of_memories.OF_MEMORIES, pools_of_parts.TOWERS, pools_of_parts.OF_MEMORIES),
    (of_ends.OF_WORDS, pools_of_runs.READING, pools_of_runs.OF_WORDS),
    (of_ends.OF_EXITS, pools_of_runs.LEAVING, pools_of_runs.OF_EXITS),
    (of_ends.OF_LOOPS, pools_of_runs.LOOPS, pools_of_runs.OF_LOOPS),
    (of_runs.OF_RUNS, pools_of_runs.RUNS, pools_of_runs.OF_RUNS),
    ((of_runs.COPIED,), pools_of_runs.COPIES, pools_of_runs.OF_COPIES),
    ((of_runs.EXCHANGED,), pools_of_runs.EXCHANGES, pools_of_runs.OF_EXCHANGES),
    (of_runs.OF_RECORDINGS, pools_of_runs.RECORDINGS, pools_of_runs.OF_RECORDINGS),
    (of_runs.OF_LENGTHS, pools_of_runs.WORDS, pools_of_runs.OF_LENGTHS),
    ((of_runs.READ, of_runs.SAID), pools_of_runs.WORDS, pools_of_runs.SHIFTED),
    (of_runs.OF_FILLERS, pools_of_runs.WORDS, pools_of_runs.OF_FILLERS),
    (of_runs.OF_APPENDING, pools_of_runs.LOOPS, pools_of_runs.OF_APPENDING),
    (of_runs.OF_LOSSES, pools_of_runs.STEPS, pools_of_runs.OF_LOSSES),
    (of_masks.OF_MASKS, pools_of_runs.FACTS, pools_of_runs.OF_MASKS),
    (of_masks.OF_PICTURES, pools_of_runs.PICTURES, pools_of_runs.OF_PICTURES),
)
TRIED = [(sentence, pool, proving[sentence.name]) for told, pool, proving in GROUPS for sentence in told]
PROSE = re.compile(r"(?<![\w.])[a-z]{2,}[,;:]? [a-z]{1,}[,;:]? [a-z]{2,}(?![\w.])")
ROOMS = ("attention", "cards", "charts", "regions", "sheet", "states")
CAPTIONS = (
    "legend.py",
    "width of one head, d_k",
    ") , 0 where a mask says so )",
    "split into heads: no number changes",
    "cut behind layer ",
    " (gate above a threshold)",
    ", above a threshold",
    " (keys of an earlier choice)",
    " (without a norm)",
    ", on the way back",
    ", with windows not yet full",
    "on the way back,",
    "used for each place",
    ", word table whole",
    " from bottom to top. ",
    ". Every box names its step, shapes and axes.",
    "of these unused",
    "and the gate",
    "what is read of it",
    "what rows of a piece give each other, and what is read of it",
    ", as it began",
    "the others made beside",
    "the others normed",
    " parameters in all",
    "what comes behind its ",
    "places of boxes",
    "scores of other parts",
    "what is made of Q",
)
"""What is said of the drawing itself, and what numbers are called."""


def test_every_sentence_is_tried_and_has_a_name_of_its_own():
    assert {sentence.name for sentence, _, _ in TRIED} == {sentence.name for sentence in CATALOGUE}
    assert len(TRIED) == len(CATALOGUE)
    assert len({sentence.name for sentence in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize(("sentence", "pool", "proving"), TRIED, ids=[sentence.name for sentence, _, _ in TRIED])
def test_a_sentence_is_said_where_its_fact_is_proven_and_nowhere_else(sentence, pool, proving):
    assert {name for name, fact in pool.items() if sentence.tell(fact)} == set(proving)


def test_nothing_is_said_of_what_is_not_known():
    assert list_sentences(pools.MODELS["not known"]) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_poster_says_of_a_family_what_its_facts_prove_and_nothing_else(name):
    trace = recorded(f"{name}, inference")
    whole = anatomy(trace)
    said = words_of(compose_poster(trace, text_width))

    told = {sentence.name: sentence.tell(whole) for sentence in of_models.OF_MODELS}
    texts = {sentence.name: sentence.tell(pools.MODELS[sentence.name]) for sentence in of_models.OF_MODELS}
    assert [text for text in told.values() if text and text not in said] == []
    assert [text for one, text in texts.items() if not told[one] and text in said] == []


def list_literals(path):
    """The texts of a file that are no docstring and no error."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left = {id(one) for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.Expr) for one in ast.walk(node)}
    told = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    }
    inside = {id(one) for node in ast.walk(tree) if id(node) in told for one in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left - inside:
            yield node.value


def test_no_sentence_stands_outside_the_catalogue():
    paths = [path for room in ROOMS for path in sorted((ROOT / "xray" / "story" / room).glob("*.py"))]

    found = [(path.name, text) for path in paths for text in list_literals(path) if PROSE.search(text)]

    assert [one for one in found if not {*one} & {*CAPTIONS}] == []


@pytest.mark.parametrize(
    ("causal", "hides", "text"),
    [
        (True, True, "Every place looks back, never ahead."),
        (False, None, "Every place looks at every other."),
        (None, None, "Places look at other places."),
        (None, True, "Places look at those that they may see."),
    ],
)
def test_a_station_tells_of_the_future_and_of_what_is_hidden_only_what_is_proven(causal, hides, text):
    assert describe_station(TOWER, replace(FALSE, causal=causal, hides=hides)) == text


def test_an_image_is_in_patches_only_where_it_was_cut():
    assert describe_entrance(replace(TOWER, reads="image")) == "An image becomes vectors."


def test_windows_are_not_said_of_attentions_that_have_none():
    told = list_sentences(make_anatomy(replace(FALSE, window=4), FALSE))

    assert "Windows in some attentions: there each place sees at most 4 places." in told


def test_norms_of_queries_are_not_said_of_attentions_that_have_none():
    own = replace(FALSE, qk_norm=True, qk_norm_over="width")

    assert "Queries and keys are normalised before they meet, all heads of a row at once." in list_sentences(
        make_anatomy(own)
    )
    assert "Queries and keys are normalised in some attentions before they meet." in list_sentences(
        make_anatomy(replace(own, qk_norm_over=None), FALSE)
    )


@pytest.mark.parametrize(
    ("kinds", "by"),
    [(("rms", "rms"), " by RMS norms"), (("layer",), " by layer norms"), (("rms", None), ""), ((None,), "")],
)
def test_the_kind_of_norms_of_queries_is_told_where_it_is_known_of_all(kinds, by):
    own = [replace(FALSE, qk_norm=True, qk_norm_over="head", qk_norm_kind=kind) for kind in kinds]

    assert f"Queries and keys are normalised{by} before they meet, head by head." in list_sentences(make_anatomy(*own))


def test_weights_are_not_said_to_be_shared_where_a_group_has_its_own():
    shared = make_anatomy(FALSE, shared=True)
    own = make_tower(FALSE).groups[0]
    both = replace(shared, towers=(replace(shared.towers[0], groups=(*shared.towers[0].groups, own)),))

    assert "All layers use one and the same set of weights." in list_sentences(shared)
    assert "All layers use one and the same set of weights." not in list_sentences(both)
    two = replace(shared, towers=(*shared.towers, *shared.towers))
    assert "All layers use one and the same set of weights." not in list_sentences(two)


def test_a_cap_is_said_of_the_layers_alone():
    """What is read behind them may have none (VideoPrism)."""
    assert any(said.startswith("Scores are capped") for said in list_sentences(pools.MODELS["score cap"]))
