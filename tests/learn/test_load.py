"""Chatbots from run folders, and what is said of folders that hold none."""

import json
import re
import shutil
import sys

import pytest
import torch
from small_runs import MODEL, PAIRS, begin_small, finish_small, write_pairs

from xray.config import UNK
from xray.data.pairs import Pair
from xray.errors import ConfigError, RunError, UsageError
from xray.learn.answers.right_answers import count_right_answers
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.load import load_run, untrained_chatbot
from xray.learn.runs.run_folder import LAST, PREVIOUS, RunFolder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish_small(tmp_path_factory.mktemp("finished"), lessons={"epochs": 60, "batch": 5, "learning_rate": 0.01})


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    return untrained_chatbot(write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.csv"), MODEL, device="cpu")


def flip_byte(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_loaded_chatbot_knows_what_it_was_taught(finished):
    chatbot = load_run(finished, "cpu")
    assert count_right_answers(chatbot, PAIRS)[0] >= 14


def test_an_answer_is_spelt_like_the_corpus(finished):
    assert load_run(finished, "cpu").answer("who is RIPLEY ?") == "The bravest woman aboard."


def test_the_poster_batch_is_as_large_as_those_that_were_trained_with(finished):
    chatbot = load_run(finished, "cpu")

    assert [pair.question for pair in chatbot.poster_pairs] == [pair.question for pair in PAIRS[:5]]
    assert (chatbot.batch, len(chatbot.poster_batch().src)) == (5, 5)


@pytest.mark.parametrize(
    ("lessons", "count"),
    [({"batch": 11}, 11), ({"batch": 500}, 16), ({"batch_tokens": 24}, 3), ({"batch_tokens": 1}, 1)],
)
def test_the_poster_shows_pairs_of_a_batch_that_are_learnt(tmp_path, lessons, count):
    with begin_small(tmp_path, lessons=lessons) as training:
        facts = training.facts

    learnt = [pair.question for number, pair in enumerate(PAIRS) if number not in facts.held_out]
    assert [pair.question for pair in facts.poster] == learnt[:count]


def test_no_poster_shows_more_than_64_pairs(tmp_path):
    pairs = [Pair(f"what is {number}", "a number") for number in range(90)]
    with begin_small(tmp_path, pairs=pairs, lessons={"batch": 80}) as training:
        assert len(training.facts.poster) == 64


def test_a_chatbot_asks_itself_one_of_its_own_questions_neither_bare_nor_long(finished):
    chatbot = load_run(finished, "cpu")

    assert chatbot.own_question in {pair.question for pair in PAIRS}
    assert len(chatbot.tokenisers.src.split(chatbot.own_question)) == 5


def test_words_that_it_does_not_know_go_in_as_unk(untrained):
    assert untrained.read("Who is zorblax?").seen == ("who", "is", "<unk>", "?")


def test_suggestions_are_questions_it_was_taught(finished):
    assert set(load_run(finished, "cpu").suggestions) < {pair.question for pair in PAIRS}


def test_best_and_last_can_both_be_loaded(finished):
    assert load_run(finished, "cpu", "best").trained


def test_an_unfinished_run_says_so(tmp_path):
    with begin_small(tmp_path) as training:
        next(training.go_on())
        training.save()
    notes = load_run(tmp_path / "run", "cpu").notes
    assert notes == ("training stopped after epoch 0 of 5: it goes on with xray train --resume",)


def test_no_run_is_explained(tmp_path):
    message = f'no trained model in {tmp_path}/nothing: run "xray train FILE.csv" first.'
    with pytest.raises(RunError, match=f"^{re.escape(message)}$"):
        load_run(tmp_path / "nothing")


@pytest.mark.parametrize("place", [20, 700, 9_000, -1])
def test_a_flipped_byte_is_noticed(copy, place):
    (copy / PREVIOUS).unlink()
    flip_byte(copy / LAST, place)
    with pytest.raises(RunError, match=r"last\.safetensors is damaged \("):
        load_run(copy)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(copy):
    flip_byte(copy / LAST, -1)
    assert load_run(copy, "cpu").notes[0].endswith("The one before it is used now.")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02}q\x00."], ids=["empty", "text", "pickle"])
def test_what_is_no_checkpoint_is_damaged(copy, content):
    (copy / PREVIOUS).unlink()
    (copy / LAST).write_bytes(content)
    with pytest.raises(
        RunError, match=r'last\.safetensors is damaged .*Train again with "xray train FILE\.csv --overwrite"'
    ):
        load_run(copy)


def test_a_truncated_checkpoint_is_damaged(copy):
    (copy / PREVIOUS).unlink()
    (copy / LAST).write_bytes((copy / LAST).read_bytes()[:-7])
    with pytest.raises(RunError, match="is damaged"):
        load_run(copy)


@pytest.mark.parametrize("name", ["questions.json", "answers.json", "spelling.json", "pairs.json"])
def test_a_changed_vocabulary_is_noticed(copy, name):
    flip_byte(copy / name, -9)
    with pytest.raises(RunError, match=rf"{name} is damaged: it is not what training wrote\."):
        load_run(copy)


def change_run(copy, **changes):
    path = copy / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_another_configuration_names_the_first_difference(copy):
    change_run(copy, model={**json.loads((copy / "run.json").read_text())["model"], "d_ff": 17})
    with pytest.raises(RunError, match=r"last\.safetensors has d_ff=13, this run asks for 17\."):
        load_run(copy)


def test_a_newer_format_is_named(copy):
    change_run(copy, format=3, xray="1.4")
    with pytest.raises(RunError, match=r"was made by xray 1\.4 \(run format 3, newer\); this is .* \(format 2\)\."):
        load_run(copy)


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', "{"])
def test_a_damaged_run_file_is_damaged(copy, content):
    (copy / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json is damaged: "):
        load_run(copy)


def test_an_untrained_chatbot_has_the_shapes_of_its_corpus(untrained):
    assert (untrained.config.src_vocab, untrained.config.tgt_vocab, untrained.trained) == (33, 37, False)


def test_an_untrained_chatbot_is_the_same_every_time(untrained, tmp_path):
    again = untrained_chatbot(write_pairs(tmp_path / "pairs.csv"), MODEL, device="cpu")
    assert torch.equal(again.model.head.weight, untrained.model.head.weight)


def test_an_untrained_chatbot_draws_nothing_from_the_caller(tmp_path):
    before = torch.get_rng_state()
    untrained_chatbot(write_pairs(tmp_path / "pairs.csv"), MODEL, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_one_shared_vocabulary_fits_shared_weights(tmp_path):
    chatbot = untrained_chatbot(write_pairs(tmp_path / "pairs.csv"), {**MODEL, "sharing": "all"}, device="cpu")
    assert chatbot.model.encoder.embedding.words.weight is chatbot.model.head.weight


def test_shared_weights_survive_the_run_folder(tmp_path):
    with begin_small(tmp_path, settings={"sharing": "all"}) as training:
        expected = training.trainer.model.head.weight.clone()
    chatbot = load_run(tmp_path / "run", "cpu")
    assert torch.equal(chatbot.model.encoder.embedding.words.weight, expected)


def test_unknown_words_are_told_apart(untrained):
    read = untrained.read("Who is zorblax?")
    assert (read.unknown, read.ids[2]) == (("zorblax",), UNK)


def test_a_long_question_is_cut_and_counted(untrained):
    read = untrained.read("who " * 23)
    assert (len(read.ids), read.cut) == (19, 4)


def test_an_answer_never_outgrows_the_positions(untrained):
    assert len(untrained.answer("who " * 23).split()) <= 19


@pytest.mark.parametrize("question", ["", "  ", "\x00\t"])
def test_an_empty_question_is_refused(untrained, question):
    with pytest.raises(UsageError, match=r"^the question is empty\."):
        untrained.answer(question)


def test_a_device_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^device='tpu' is unknown\. Choose auto, cpu, cuda or mps\.$"):
        untrained_chatbot(write_pairs(tmp_path / "pairs.csv"), MODEL, device="tpu")


def test_a_link_is_never_written_through(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "last.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="it is not an ordinary file"):
        RunFolder(tmp_path).write(LAST, b"ours")
    assert (tmp_path / "elsewhere").read_text() == "mine"


def interrupt_call(number):
    """Have Ctrl-C come in the so many-th call from now on; that call's name is in the list once it did."""
    names = []

    def trace(frame, event, argument):
        nonlocal number
        number -= 1
        if number == 0:
            names.append(frame.f_code.co_name)
            raise KeyboardInterrupt

    sys.settrace(trace)
    return names


def test_ctrl_c_while_a_checkpoint_is_read_is_not_taken_for_damage(finished):
    before, number, interrupted = sys.gettrace(), 0, ["first"]
    while interrupted:
        number += 1
        interrupted = interrupt_call(number)
        try:
            read_checkpoint(RunFolder(finished), LAST)
        except KeyboardInterrupt:
            assert interrupted
        finally:
            sys.settrace(before)
    assert number > 100
