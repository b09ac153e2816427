"""A model by its name that answers: its prompt, its turns, its words, and what is said of all that."""

import json
from pathlib import Path

import pytest
from settings import JETMOE, LLAMA, T5, VIT

from xray.capture.targets.target import run_target
from xray.errors import TraceError, UsageError
from xray.sources.loading import load_source
from xray.sources.request import Asked, Request

pytest.importorskip("transformers", reason="the library whose models are built here")
tokenizers = pytest.importorskip("tokenizers", reason="it comes with the library")

WORDS = {"who": 7, "is": 11, "Ripley": 13}


def write_folder(folder, settings, words=WORDS):
    (folder / "config.json").write_text(json.dumps(settings))
    if words:
        inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({**words, "?": 60}, unk_token="?"))
        inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        inner.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    return lambda settings, words=WORDS: write_folder(tmp_path, settings, words)


def answer(source, prompt="who is Ripley", turns=3, **asked):
    outcome = run_target(load_source(source, Request(answer=Asked(prompt, turns), **asked)))
    assert outcome.error is None, outcome.error
    return outcome


def read_ids(one_pass):
    return next((one.shape, one.preview) for one in one_pass.steps[0].inputs if one.role == "ids")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return answer(write_folder(tmp_path_factory.mktemp("llama"), LLAMA))


def test_the_prompt_is_read_at_once_and_then_one_word_a_turn(llama):
    passes = llama.trace.passes

    assert [read_ids(one)[0] for one in passes] == [(1, 3), (1, 1), (1, 1)]
    assert read_ids(passes[0])[1].values == (7, 11, 13)


def test_what_is_kept_grows_from_turn_to_turn(llama):
    _, *turns = llama.trace.passes

    kept = [{one.shape[-2] for one in turn.steps[0].inputs if one.role == "state"} for turn in turns]
    assert kept == [{3}, {4}]


def test_words_are_spelt_where_their_ids_are_known(llama):
    passes = llama.trace.passes

    assert "".join(passes[0].tokens["input"][0]) == "who is Ripley"
    assert [dict(one.tokens) for one in passes[1:]] == [{}, {}]


def test_without_numbers_no_word_is_chosen_and_that_is_said(llama):
    assert llama.trace.config["chosen"] == "not at all, for want of numbers"
    assert "its prompt is 3 ids of its tokenizer, its 3 new words are not chosen" in llama.told
    assert [read_ids(one)[1] for one in llama.trace.passes[1:]] == [None, None]


def test_with_chance_weights_the_likeliest_word_is_read_next(folder):
    outcome = answer(folder(JETMOE))
    first, second, _ = outcome.trace.passes

    assert "those that chance weights like best" in outcome.told
    (chosen,) = [step.outputs[0].preview.values for step in first.steps if step.parent is None and step.op == "argmax"]
    assert read_ids(second)[1].values == chosen
    assert first.tokens["new"][0][0].strip() == second.tokens["input"][0][0].strip()


def test_an_encoder_reads_the_prompt_once(folder):
    encode, *turns = answer(folder(T5)).trace.passes

    assert encode.steps[0].path == "encoder"
    assert read_ids(encode)[1].values == (7, 11, 13)
    assert len(turns) == 3


@pytest.mark.parametrize(("words", "prompt", "why"), [(None, "who is", "no tokenizer.json"), (WORDS, None, "none was")])
def test_ids_are_made_where_there_are_none_and_that_is_said(folder, words, prompt, why):
    outcome = answer(folder(LLAMA, words), prompt)

    assert "made ids" in outcome.trace.config["prompt"]
    assert why in outcome.told
    assert read_ids(outcome.trace.passes[0])[0] == (1, 10)


def test_the_tokenizer_of_another_model_is_refused(folder):
    with pytest.raises(TraceError, match="makes id 60, and its settings have 50 words"):
        answer(folder({**LLAMA, "vocab_size": 50}), "what")


def test_a_broken_tokenizer_is_refused(folder):
    source = folder(LLAMA)
    (Path(source) / "tokenizer.json").write_text("{")

    with pytest.raises(TraceError, match=r"cannot read .*tokenizer.json"):
        answer(source)


def test_a_prompt_without_words_is_refused(folder):
    with pytest.raises(TraceError, match="makes no ids of ' '"):
        answer(folder(LLAMA), " ")


def test_a_class_that_does_not_answer_names_those_that_do(folder):
    with pytest.raises(TraceError, match=r"LlamaModel does not answer word by word. .* --as causal-lm"):
        answer(folder(LLAMA), kind="base")


def test_a_model_that_knows_no_words_is_refused(folder):
    with pytest.raises(TraceError, match=r"does not answer word by word. Leave out --phase and --ask"):
        answer(folder(VIT))


@pytest.mark.parametrize("source", ["timm:vit_base_patch16_224", "my_model.py:build", "model.pt2"])
def test_only_models_of_the_library_answer(source):
    with pytest.raises(UsageError, match="is called once"):
        load_source(source, Request(answer=Asked("who")))
