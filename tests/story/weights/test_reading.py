"""Attention weights as pictures, with words, hidden cells and entropy."""

from math import log2

import pytest
import torch
from families.specimens import BY_NAME
from handwritten import make_writer

from xray.capture.recorder import Recorder
from xray.capture.values import preview_attention
from xray.ir.records import Preview
from xray.ir.trace import Pass
from xray.story.weights.found import list_kinds
from xray.story.weights.picture import mean_entropy, row_entropy
from xray.story.weights.reading import read_pictures


def test_there_is_a_picture_for_every_layer_head_and_sequence_kept(training_trace):
    pictures = read_pictures(training_trace, training_trace.passes[0], "cross")

    assert [(one.layer, one.head, one.sequence) for one in pictures] == [
        (layer, head, 0) for layer in range(3) for head in range(4)
    ]


def test_rows_are_answer_words_and_columns_question_words_in_cross_attention(inference_trace):
    last = inference_trace.passes[-1]
    picture = read_pictures(inference_trace, last, "cross")[0]

    assert picture.queries == last.tokens["decoder_input"][0]
    assert picture.keys == inference_trace.passes_of("encode")[0].tokens["src"][0]


def test_the_question_of_an_answer_is_its_own_and_not_that_of_the_training_step_before(both_trace):
    picture = read_pictures(both_trace, both_trace.passes[-1], "cross")[0]

    assert picture.keys == both_trace.passes_of("encode")[0].tokens["src"][0]


def test_every_row_sums_to_one(inference_trace):
    pictures = read_pictures(inference_trace, inference_trace.passes[-1], "decoder")

    assert len(pictures) == 3 * 4
    for picture in pictures:
        assert [sum(row) for row in picture.weights] == pytest.approx([1.0] * len(picture.weights), abs=1e-4)


def test_the_future_is_hidden(inference_trace):
    picture = read_pictures(inference_trace, inference_trace.passes[-1], "decoder")[0]

    assert all(
        hidden == (column > row) for row, line in enumerate(picture.hidden) for column, hidden in enumerate(line)
    )


def test_with_a_cache_the_newest_word_asks_alone(cached_trace):
    picture = read_pictures(cached_trace, cached_trace.passes[-1], "decoder")[0]

    assert picture.queries == cached_trace.passes[-1].tokens["decoder_input"][0][-1:]
    assert len(picture.weights) == 1


@pytest.mark.parametrize(("row", "bits"), [((1.0, 0.0), 0.0), ((0.5, 0.5), 1.0), ((1 / 7,) * 7, log2(7))])
def test_entropy_is_counted_in_bits(row, bits):
    assert row_entropy(row) == pytest.approx(bits)


def test_padding_has_no_say_in_the_entropy():
    assert mean_entropy(((1.0, 0.0), (0.5, 0.5)), ("hello", "<pad>")) == 0.0


def test_without_weights_there_are_no_pictures(training_trace):
    assert read_pictures(training_trace, Pass("forward", 0, {}, ()), "encoder") == ()


def test_a_preview_of_several_sequences_is_read_in_its_order():
    preview = Preview((0, 0, 0, 0), (2, 3, 1, 2), tuple(float(number) for number in range(12)))

    assert preview.rows(1, 2) == ((10.0, 11.0),)


def record_weights(model, *args, **kwargs):
    recorder = Recorder(model, operations=True, preview=preview_attention, shows_ids=True, weighs=True)
    with torch.no_grad(), recorder:
        model(*args, **kwargs)
    return recorder.trace


@pytest.fixture(scope="module")
def writer_trace():
    return record_weights(make_writer(), torch.arange(14).view(2, 7))


def test_a_model_of_your_own_has_a_picture_for_every_layer_and_head(writer_trace):
    pictures = [one for one in read_pictures(writer_trace, writer_trace.passes[0], "tokens") if one.sequence == 0]

    assert [(one.layer, one.head) for one in pictures] == [(layer, head) for layer in range(2) for head in range(3)]
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for one in pictures for row in one.weights)


def test_its_words_are_the_ids_that_it_reads(writer_trace):
    picture = read_pictures(writer_trace, writer_trace.passes[0], "tokens")[0]

    assert picture.keys == picture.queries == tuple(f"id {number}" for number in range(7))


def test_what_its_mask_hides_is_read_off_the_steps(writer_trace):
    picture = read_pictures(writer_trace, writer_trace.passes[0], "tokens")[0]

    assert all(
        hidden == (column > row) for row, line in enumerate(picture.hidden) for column, hidden in enumerate(line)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_every_family_shows_whom_it_looks_at(name):
    specimen = BY_NAME[name]
    trace = record_weights(specimen.build().train(), **specimen.make_inputs())
    encoders, decoders = specimen.layers
    expected = {"encoder": encoders, "decoder": decoders, "cross": decoders, "text": 3, "tokens": 3, "vision": 3}

    for kind in list_kinds(trace):
        pictures = read_pictures(trace, trace.passes[0], kind.name)
        assert len({one.layer for one in pictures}) == min(expected[kind.name], encoders + decoders)
        assert all(sum(row) == pytest.approx(1, abs=1e-3) for one in pictures for row in one.weights)
