"""Writing word by word: each forward of `generate()` is a pass of its own, and the keys grow by one each time."""

import pytest
import torch
from families.invariants import find_changes
from families.recordings import recorded_writing
from families.specimens import BY_NAME
from recorders import TRANSLATORS, TURNS, WRITERS, prompt_of, write


def sizes_of_scores(one_pass, cross=False):
    """Queries and keys of the attentions of a pass that read the decoder's own words, or the encoder's."""
    softmaxes = [step.outputs[0].shape for step in one_pass.steps if step.op == "softmax"]
    return {shape[-2:] for shape in softmaxes if (shape[-1] == 11) == cross}


@pytest.mark.parametrize("name", WRITERS)
def test_each_turn_of_a_decoder_only_model_is_a_pass(name):
    assert [one.number for one in recorded_writing(name).passes] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_encoder_runs_once_and_the_decoder_each_turn(name):
    passes = recorded_writing(name).passes

    assert [one.number for one in passes] == [0, 1, 2, 3, 4]
    assert ["encoder" in one.steps[0].path for one in passes] == [True, False, False, False, False]


@pytest.mark.parametrize("name", WRITERS)
def test_the_prompt_is_a_square_and_each_turn_a_row_one_key_longer(name):
    first, *rest = recorded_writing(name).passes

    assert sizes_of_scores(first, cross=True) == {(11, 11)}
    assert [sizes_of_scores(one) for one in rest] == [{(1, 12)}, {(1, 13)}, {(1, 14)}]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_keys_of_a_translator_grow_and_those_of_the_source_stay(name):
    _, *turns = recorded_writing(name).passes

    assert [sizes_of_scores(one) for one in turns] == [{(1, 1)}, {(1, 2)}, {(1, 3)}, {(1, 4)}]
    assert [sizes_of_scores(one, cross=True) for one in turns] == [{(1, 11)}] * 4


@pytest.mark.parametrize("name", WRITERS)
def test_without_a_cache_every_turn_is_a_square(name):
    passes = recorded_writing(name, " without a cache").passes

    sizes = [sizes_of_scores(one) | sizes_of_scores(one, cross=True) for one in passes]
    assert sizes == [{(n, n)} for n in (11, 12, 13, 14)]


@pytest.mark.parametrize("name", ["GPT-2", "BART"])
def test_beams_stand_in_the_batch(name):
    last = recorded_writing(name, " with beams").passes[-1]

    assert {step.outputs[0].shape[0] for step in last.steps if step.op == "softmax"} == {6}


@pytest.mark.parametrize("name", [*WRITERS, "BART"])
def test_recording_changes_nothing_about_what_is_written(name):
    changes = find_changes(
        BY_NAME[name].build, lambda: prompt_of(name), call=lambda model, inputs: write(model, inputs)
    )

    assert changes == []


def test_sampled_words_are_the_same_recorded_or_not():
    def sample(model, inputs):
        return model.generate(**inputs, max_new_tokens=TURNS, do_sample=True, top_k=5)

    assert find_changes(BY_NAME["GPT-2"].build, lambda: prompt_of("GPT-2"), call=sample) == []


def lengths_of_caches(one_pass):
    """How many keys, or values, each cache holds that the model is given."""
    return {one.shape[-2] for one in one_pass.steps[0].inputs if one.role == "state"}


@pytest.mark.parametrize("name", WRITERS)
def test_the_cache_that_a_writer_is_given_grows(name):
    assert [lengths_of_caches(one) for one in recorded_writing(name).passes[1:]] == [{11}, {12}, {13}]


def test_the_cache_that_a_translator_is_given_grows_beside_that_of_the_source():
    turns = recorded_writing("BART").passes[2:]

    assert [lengths_of_caches(one) for one in turns] == [{1, 11}, {2, 11}, {3, 11}]


def test_the_users_cache_is_filled_as_without_recording():
    from transformers import DynamicCache

    def call(model, inputs):
        with torch.no_grad():
            model(input_ids=inputs["input_ids"][:, :5], past_key_values=inputs["past_key_values"], use_cache=True)
            return model(input_ids=inputs["input_ids"][:, 5:], past_key_values=inputs["past_key_values"])

    def make_inputs():
        return prompt_of("Llama") | {"past_key_values": DynamicCache()}

    assert find_changes(BY_NAME["Llama"].build, make_inputs, call=call) == []
