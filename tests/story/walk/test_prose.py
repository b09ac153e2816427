"""The texts of `templates/walk`, filled in."""

import pytest
from jinja2 import UndefinedError
from recorded import recorded

from xray.assets import template_names
from xray.ir.records import TensorRecord
from xray.story.walk import prose
from xray.story.walk.chapters import Opinion
from xray.story.walk.prose import fill_in
from xray.story.walk.scene import plain
from xray.story.walk.telling import TEXTS
from xray.story.walk.tour import list_stops

SHAPE = TensorRecord("out", (2, 3, 5), ("", "", ""), "float32", "cpu", "activation")
WRITTEN = """
First lines of
one paragraph, {{ shape }} inside.

{% if more %}
A second one.
{% endif %}

? Why?

Because {{ shape }}.

! Which way?

* one text [here]
- says this
> a = b | c

* another
- says that,
  at length
> d

And a remark.
"""


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr(prose, "read_template", lambda name: WRITTEN)
    prose.make_environment.cache_clear()
    yield
    prose.make_environment.cache_clear()


def test_lines_of_a_paragraph_are_one_text_with_the_shape_in_its_place(written):
    assert fill_in("any", {"shape": SHAPE, "more": False}).text == (
        ("First lines of one paragraph, ", SHAPE, " inside."),
    )


def test_a_question_has_its_answer(written):
    (answer,) = fill_in("any", {"shape": SHAPE, "more": True}).answers

    assert (answer.question, plain(answer.text)) == ("Why?", "Because 2×3×5.")


def test_a_debate_has_every_side_and_says_which_is_taken_here(written):
    (debate,) = fill_in("any", {"shape": SHAPE, "more": True}).debates

    assert debate.opinions == (
        Opinion("one text", "says this", "a = b | c", is_used=True),
        Opinion("another", "says that, at length", "d", is_used=False),
    )
    assert debate.remark == "And a remark."


def test_what_is_not_known_is_an_error_and_no_gap(written):
    with pytest.raises(UndefinedError):
        fill_in("any", {"more": True})


def test_every_text_is_told():
    told = {name for name, _ in TEXTS}

    assert {name for name in template_names("walk", ".md") if not name.startswith(("any_", "README"))} == told


def test_a_model_of_another_kind_is_asked_what_holds_for_it_too():
    stops = list_stops(recorded("GPT-2, inference"))
    questions = [answer.question for stop in stops for answer in stop.chapter.answers]

    assert questions == [
        "Why are the scores divided by sqrt(d_k)?",
        "Why is softmax taken on the last axis?",
        "Why must the future be hidden?",
        "Why is the input added back?",
        "Why does layer norm use the biased variance?",
        "Does attention not do the thinking?",
        "Do places mix here?",
    ]


def test_what_does_not_hold_of_a_model_is_not_asked():
    questions = {answer.question for stop in list_stops(recorded("T5, inference")) for answer in stop.chapter.answers}

    assert "Why are the scores divided by sqrt(d_k)?" not in questions
    assert "Why does layer norm use the biased variance?" not in questions
