"""The catalogue: every sentence that a sheet can say."""

from typing import Any

from xray.story.sentences.of_ends import OF_ENTRANCES, OF_EXITS, OF_LOOPS, OF_WORDS
from xray.story.sentences.of_masks import OF_MASKS, OF_PICTURES
from xray.story.sentences.of_models import LEFT_OUT, OF_GROUPS, OF_MODELS, UNSAID
from xray.story.sentences.of_parts import OF_LOADS, REMARKS
from xray.story.sentences.of_rows import OF_OTHERS
from xray.story.sentences.of_runs import (
    COPIED,
    DERIVED,
    EXCHANGED,
    OF_APPENDING,
    OF_FILLERS,
    OF_LENGTHS,
    OF_LOSSES,
    OF_RECORDINGS,
    OF_RUNS,
    READ,
    SAID,
)
from xray.story.sentences.of_states import SOLVED
from xray.story.sentences.of_ways_past import OF_ADDED, OF_ARROWS, OF_ELSEWHERE, OF_PASTS, OF_SOURCES, OF_STAGES
from xray.story.sentences.sentence import Sentence
from xray.story.sentences.stations.of_memories import OF_MEMORIES
from xray.story.sentences.stations.of_stations import ASKS, OF_BRANCHES, OF_FORWARDS

CATALOGUE: tuple[Sentence[Any], ...] = (
    *OF_MODELS,
    *OF_GROUPS,
    LEFT_OUT,
    UNSAID,
    *(sentence for group in REMARKS.values() for sentence in group),
    *OF_LOADS,
    *OF_PASTS,
    *OF_ADDED,
    *OF_OTHERS,
    *OF_SOURCES,
    *OF_ELSEWHERE,
    *OF_ARROWS,
    *OF_STAGES,
    SOLVED,
    ASKS,
    *OF_BRANCHES,
    *OF_FORWARDS,
    *OF_ENTRANCES,
    *OF_WORDS,
    *OF_EXITS,
    *OF_MEMORIES,
    *OF_LOOPS,
    *OF_RUNS,
    COPIED,
    EXCHANGED,
    *OF_RECORDINGS,
    *OF_LENGTHS,
    READ,
    SAID,
    DERIVED,
    *OF_FILLERS,
    *OF_APPENDING,
    *OF_LOSSES,
    *OF_MASKS,
    *OF_PICTURES,
)
