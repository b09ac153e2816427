"""Attention weights as pictures, with words, hidden cells and entropy."""

from math import log2

import pytest

from xray.ir.records import Preview
from xray.ir.trace import Pass
from xray.story.weights import mean_entropy, read_pictures, row_entropy


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
