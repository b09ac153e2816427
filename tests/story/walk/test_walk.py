"""The walk: nine chapters for each scene, with the words and numbers of the run and every question answered."""

import re
from dataclasses import replace

import pytest
from recorded import recorded
from scrambled import scramble

from xray.story.walk.scene import list_scenes, plain
from xray.story.walk.telling import list_chapters, write_chapters

QUESTIONS = {
    "where do K and V come from": ("Where do K and V come from?", "last encoder layer, 8×10×32"),
    "which layer gets the encoder's output": ("Which decoder layer gets", "Every one: all 3 decoder layers"),
    "why a mask, and where": ("Which mask goes where?", "everything that comes later"),
    "why the shift": ("Why the shift?", "must say"),
    "what <sos> and <eos> do": ("What do <sos> and <eos> do?", "the loop stops"),
    "why sqrt(d_k)": ("Why are the scores divided by sqrt(d_k)?", "√8 = 2.83"),
    "why softmax on the last axis": ("Why is softmax taken on the last axis?", "sum to 1"),
    "what sharing the embedding means": ("What does it mean to share the embedding?", "950×32"),
    "why biased variance": ("Why does layer norm use the biased variance?", "by 32, not by 31"),
    "why padding is ignored in the loss": ("Why is padding ignored in the loss?", "69 others"),
    "what differs at inference": ("What differs between training and inference?", "encoded once"),
}


@pytest.fixture(scope="module")
def training(training_trace):
    return list_chapters(training_trace)


def all_answers(chapters):
    return {answer.question: plain(answer.text) for chapter in chapters for answer in chapter.answers}


def test_a_training_step_has_nine_chapters(training):
    assert [chapter.station for chapter in training] == list(range(1, 10))


def test_every_turn_has_nine_chapters(inference_trace):
    told = [(chapter.station, chapter.turn) for chapter in list_chapters(inference_trace)]

    assert sorted(told) == [(station, turn) for station in range(1, 10) for turn in range(1, 6)]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_questions_of_the_texts_are_answered(training, name):
    question, part = QUESTIONS[name]
    answers = all_answers(training)
    found = next(answers[one] for one in answers if one.startswith(question))

    assert part in found


def test_the_shapes_are_those_of_the_trace(training, training_trace):
    text = " ".join(plain(text) for text in training[1].text)
    path = "encoder.layers.0.self_attention"
    for name in ("query", "split_query.view", "split_query.transpose", "transpose_key", "scores", "weighted_sum"):
        shape = training_trace.passes[0].by_id[f"{path}.{name}#0"].outputs[0].shape
        assert "×".join(map(str, shape)) in text


def test_the_words_are_those_of_the_run(inference_trace):
    first = list_chapters(inference_trace)[0]

    assert " ".join(inference_trace.passes_of("encode")[0].tokens["src"][0]) in plain(first.text[0])


def test_the_loss_is_that_of_the_run(training, training_trace):
    value = training_trace.passes[0].by_id["loss.cross_entropy#0"].outputs[0].preview.values[0]

    assert f"{value:.4f}" in plain(training[7].text[1])


def test_the_new_word_is_that_of_the_turn(inference_trace):
    last = [chapter for chapter in list_chapters(inference_trace) if chapter.station == 9]

    assert [chapter.turn for chapter in last] == [1, 2, 3, 4, 5]
    for chapter in last:
        word = inference_trace.passes_of("decode")[chapter.turn - 1].tokens["new"][0][0]
        assert f"“{word}”" in plain(chapter.text[0])


def test_every_step_named_was_recorded(training, training_trace):
    known = set(training_trace.passes[0].by_id)

    assert all(set(chapter.steps) <= known and chapter.steps for chapter in training)


@pytest.mark.parametrize(
    ("setting", "value", "topic", "used"),
    [
        ("cross_mask", "padding", "cross-attention", 0),
        ("cross_mask", "none", "cross-attention", 1),
        ("norm", "after", "layer norm", 0),
        ("norm", "before", "layer norm", 1),
        ("mask_value", "-inf", "hidden score", 0),
        ("mask_value", "finite", "hidden score", 1),
    ],
)
def test_a_debate_marks_what_this_run_does(training_trace, setting, value, topic, used):
    trace = replace(training_trace, config={**training_trace.config, setting: value})
    debates = [debate for chapter in list_chapters(trace) for debate in chapter.debates if topic in debate.topic]

    assert [opinion.is_used for opinion in debates[0].opinions] == [place == used for place in range(2)]


def test_a_cross_mask_debate_shows_the_cells_of_the_run(training_trace):
    debate = list_chapters(training_trace)[5].debates[0]
    cells = training_trace.passes[0].by_id["src_mask#0"].outputs[0].mask.cells[0][0]

    assert debate.opinions[0].example.startswith("".join("□" if cell == "." else "■" for cell in cells))


def test_another_models_trace_has_no_walk(training_trace):
    one = training_trace.passes[0]

    assert list_chapters(replace(training_trace, passes=(replace(one, kind="forward"),))) == ()


def test_with_a_cache_only_the_newest_word_goes_in(cached_trace):
    chapter = write_chapters(list_scenes(cached_trace)[-1])[3]

    assert "only the newest token goes in" in plain(chapter.text[1])


def test_norm_before_is_walked_too():
    chapters = list_chapters(recorded("norm before, training"))

    assert [chapter.station for chapter in chapters] == list(range(1, 10))
    assert all(chapter.text and all(map(plain, chapter.text)) for chapter in chapters)


@pytest.mark.parametrize("name", ["untrained, training", "untrained, inference"])
def test_no_word_is_said_twice_in_a_row(name):
    told = [
        plain(text)
        for chapter in list_chapters(recorded(name))
        for text in (*chapter.text, *(answer.text for answer in chapter.answers))
    ]

    assert told
    assert [found[0] for text in told for found in re.finditer(r"\b([a-z]+) \1\b", text)] == []


def test_every_text_that_is_quoted_has_an_author_or_a_title(training):
    quoted = {opinion.who for chapter in training for debate in chapter.debates for opinion in debate.opinions}

    assert quoted
    assert [who for who in quoted if not re.search(r"“.+”|[A-Z]\w+'s ", who)] == []


@pytest.mark.parametrize("name", ["one layer", "untrained, cached", "norm before"])
def test_names_play_no_part(name):
    trace = recorded(name)
    scrambled, _ = scramble(trace)

    def told(chapters):
        return [(one.station, one.phase, one.turn, [*map(plain, one.text)], all_answers([one])) for one in chapters]

    assert told(list_chapters(scrambled)) == told(list_chapters(trace))
