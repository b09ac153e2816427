"""Axis words come from where an axis was made, never from its size."""

from dataclasses import replace

import pytest
import torch

from xray.capture.axes.twin import TWIN_WORDS, name_axes, trace_twin
from xray.capture.targets.passes import record_inference, record_training
from xray.config import ModelConfig
from xray.errors import TraceError
from xray.model.transformer import Transformer

EQUAL = ModelConfig(src_vocab=8, tgt_vocab=8, d_model=8, heads=1, d_ff=8, encoder_layers=1, decoder_layers=1, max_len=9)


def spell(ids):
    return tuple(tuple(str(number) for number in row) for row in ids.tolist())


def trace_passes(config, batch, src_len, tgt_len):
    torch.manual_seed(13)
    model = Transformer(config)
    src = torch.randint(4, config.src_vocab, (batch, src_len))
    tgt = torch.randint(4, config.tgt_vocab, (batch, tgt_len + 1))
    training = record_training(model, src, tgt, src_words=spell(src), tgt_words=spell(tgt), label_smoothing=0.0)
    inference = record_inference(model, src[:1], src_words=spell(src[:1]), spell=spell, max_turns=2)
    return training.passes + inference.passes


def axes_by_id(passes):
    return {(one.kind, one.number, step.id): [r.axes for r in step.outputs] for one in passes for step in one.steps}


def test_no_two_words_share_a_size_in_the_twin():
    assert len(set(TWIN_WORDS.values())) == len(TWIN_WORDS) == 13


def test_equal_sizes_keep_their_own_names():
    """Batch, both lengths, d_model, d_k, d_ff and both vocabularies are all 8."""
    passes = name_axes(trace_passes(EQUAL, batch=8, src_len=8, tgt_len=8), EQUAL)
    steps = passes[0].by_id

    shapes = {record.shape for step in passes[0].leaves for record in step.outputs if len(record.shape) == 4}
    assert shapes >= {(8, 1, 8, 8)}
    cross = "decoder.layers.0.cross_attention"
    assert steps[f"{cross}.split_key.transpose#0"].outputs[0].axes == ("batch", "heads", "src_len", "d_k")
    assert steps[f"{cross}.split_query.transpose#0"].outputs[0].axes == ("batch", "heads", "tgt_len", "d_k")
    assert steps[f"{cross}.transpose_key#0"].outputs[0].axes == ("batch", "heads", "d_k", "src_len")
    assert steps[f"{cross}.scores#0"].outputs[0].axes == ("batch", "heads", "tgt_len", "src_len")
    assert steps["encoder.layers.0.feed_forward.expand#0"].outputs[0].axes == ("batch", "src_len", "d_ff")
    assert steps["head#0"].outputs[0].axes == ("batch", "tgt_len", "tgt_vocab")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("norm", ["after", "before"])
@pytest.mark.parametrize("cross_mask", ["padding", "none"])
@pytest.mark.parametrize("sharing", ["none", "decoder", "all"])
def test_the_words_do_not_depend_on_the_sizes(norm, cross_mask, sharing):
    equal = replace(EQUAL, norm=norm, cross_mask=cross_mask, sharing=sharing)
    other = replace(equal, d_model=33, heads=3, d_ff=13, src_vocab=29, tgt_vocab=29)

    from_equal = axes_by_id(name_axes(trace_passes(equal, 8, 8, 8), equal))
    from_other = axes_by_id(name_axes(trace_passes(other, 2, 5, 7), other))

    assert from_equal == from_other


def test_every_axis_of_our_own_model_has_a_word():
    passes = name_axes(trace_passes(EQUAL, 8, 8, 8), EQUAL)

    nameless = [s.id for one in passes for s in one.steps for r in (*s.inputs, *s.outputs) if "" in r.axes]
    assert nameless == []


def test_the_twin_draws_no_random_number():
    before = torch.get_rng_state()

    trace_twin(EQUAL)

    assert torch.equal(torch.get_rng_state(), before)


def test_a_shape_that_contradicts_the_configuration_is_refused():
    passes = trace_passes(EQUAL, 2, 5, 7)
    step = passes[0].by_id["head#0"]
    wrong = replace(step, inputs=(replace(step.inputs[0], shape=(2, 7, 64)),))
    steps = tuple(wrong if one is step else one for one in passes[0].steps)

    with pytest.raises(TraceError, match=r"head expected \(batch=2, tgt_len=7, d_model=8\), got \(2, 7, 64\)\."):
        name_axes((replace(passes[0], steps=steps),), EQUAL)


def test_scores_over_the_vocabulary_are_logits_until_softmax():
    decode = name_axes(trace_passes(EQUAL, 2, 5, 7), EQUAL)[-1]

    assert decode.by_id["next_word.last_row#0"].outputs[0].role == "logits"
    assert decode.by_id["next_word.softmax#0"].outputs[0].role == "activation"
