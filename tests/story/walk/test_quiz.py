"""The quiz: questions about recorded steps, answers read in any usual spelling."""

import pytest

from xray.story.walk.quiz import is_right, list_hints, make_quiz, read_answer
from xray.story.walk.scene import list_scenes, plain


@pytest.fixture(scope="module")
def quiz(training_trace):
    return make_quiz(list_scenes(training_trace)[0])


def test_questions_follow_the_stations(quiz):
    stations = [question.station for question in quiz]

    assert stations == sorted(stations)
    assert len(quiz) > 12


@pytest.mark.parametrize("answer", ["8x4x10x10", "8×4×10×10", "8 4 10 10", "(8, 4, 10, 10)", "[8,4,10,10]"])
def test_an_answer_may_be_spelt_in_many_ways(quiz, answer):
    question = next(one for one in quiz if one.step.path == "encoder.layers.0.self_attention.scores")

    assert is_right(question, answer)


@pytest.mark.parametrize("answer", ["8x4x10x8", "8x4x10", "", "many", "8x4x10x10x1", "8x4x-10x10"])
def test_a_wrong_answer_is_wrong(quiz, answer):
    question = next(one for one in quiz if one.step.path == "encoder.layers.0.self_attention.scores")

    assert not is_right(question, answer)


def test_what_is_no_shape_is_told_from_a_wrong_one():
    assert read_answer("eight") is None
    assert read_answer("8x3") == (8, 3)


def test_a_question_shows_what_goes_in_but_not_what_comes_out(quiz):
    question = next(one for one in quiz if one.step.path.endswith("self_attention.split_query.view"))

    assert "8×10×32" in plain(question.prompt)
    assert "8×10×4×8" not in plain(question.prompt)


def test_the_explanation_names_the_answer(quiz):
    assert quiz
    for question in quiz:
        assert plain(question.explanation).startswith(f"It is {'×'.join(map(str, question.answer.shape))} (")


def test_inference_asks_about_the_new_word(inference_trace):
    paths = [question.step.path for question in make_quiz(list_scenes(inference_trace)[-1])]

    assert {"next_word.last_row", "next_word.argmax", "append"} <= set(paths)


def test_no_hint_is_the_answer(quiz):
    for question in quiz:
        whole = "×".join(map(str, question.answer.shape))
        assert not any(whole in plain(hint) for hint in list_hints(question))


def test_the_first_hint_tells_how_many_axes_there_are(quiz):
    assert [plain(list_hints(question)[0]).split()[2] for question in quiz] == [
        str(len(question.answer.shape)) for question in quiz
    ]
