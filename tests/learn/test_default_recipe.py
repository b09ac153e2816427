"""The promise of the README: a minute of training, and the chatbot knows its films by heart."""

import pytest

from xray.learn.answers.right_answers import count_right_answers
from xray.learn.runs.begin import resume_training
from xray.learn.runs.load import load_run


@pytest.mark.slow
def test_the_default_recipe_teaches_the_movies_word_for_word(taught_folder):
    with resume_training(taught_folder / "runs" / "movie_qa", device="cpu") as training:
        taught = training.train_pairs
    chatbot = load_run(taught_folder / "runs" / "movie_qa", "cpu")

    right, asked = count_right_answers(chatbot, taught)

    assert asked > 1_000
    assert right / asked >= 0.99
    assert chatbot.answer("What's your favourite character in The Expanse series?") == "Naomi Nagata definitely!"
    assert f"answers {right:,} of {asked:,} questions word for word" in (taught_folder / "demo.log").read_text()
