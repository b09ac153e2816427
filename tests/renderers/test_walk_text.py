"""Chapters and questions as lines of text."""

import pytest
from rich.cells import cell_len

from xray.renderers.table.walk import Screen, draw_chapter, draw_prompt, draw_text
from xray.story.walk.quiz import make_quiz
from xray.story.walk.scene import list_scenes, plain
from xray.story.walk.telling import write_chapters


@pytest.fixture(scope="module")
def scene(inference_trace):
    return list_scenes(inference_trace)[-1]


def draw(scene, station, **screen):
    chapter = write_chapters(scene)[station - 1]
    steps = [scene.answer.by_id.get(name) or scene.question.by_id[name] for name in chapter.steps]
    return draw_chapter(chapter, scene.answer, steps, Screen(**screen))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("station", range(1, 10))
@pytest.mark.parametrize("width", [24, 60, 80, 200])
def test_no_line_is_wider_than_the_screen(scene, station, width):
    assert max(cell_len(line) for line in draw(scene, station, width=width).split("\n")) <= min(width, 100)


@pytest.mark.parametrize("station", range(1, 10))
def test_a_chapter_is_told_whole(scene, station):
    told = " ".join(draw(scene, station, width=90).split())
    chapter = write_chapters(scene)[station - 1]

    assert chapter.text
    for text in (*chapter.text, *(answer.text for answer in chapter.answers)):
        assert " ".join(plain(text).split()) in told


def test_every_side_of_a_debate_is_told(scene):
    told = draw(scene, 6, width=90)

    assert "Does cross-attention need a mask?" in told
    assert told.count("this run →") == 1


def test_without_colours_there_are_no_escapes(scene):
    assert "\x1b" not in draw(scene, 2)
    assert "\x1b" in draw(scene, 2, colour="truecolor")


def test_an_ascii_terminal_gets_its_own_signs(scene):
    shown = draw(scene, 2, ascii_only=True)

    assert "1x4x9x9" in shown
    assert "×" not in shown


def test_words_are_not_torn_from_their_commas():
    assert draw_text(("one ", "two", ", three"), Screen(width=40)) == "one two, three"


def test_a_prompt_has_its_number(scene):
    question = make_quiz(scene)[0]

    assert draw_prompt(question, 1, 7, Screen(width=100)).startswith("1 of 7 · question in: src_mask reads ids 1×9")
