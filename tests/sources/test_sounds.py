"""Sounds that a model hears: as long as its settings say, and as long in samples as in frames where it hears both."""

import json

import pytest

from xray.capture.targets.target import run_target
from xray.sources.loading import load_source

pytest.importorskip("transformers", reason="the library whose models are built here")

EAR = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 7}
BERT = {**EAR, "model_type": "wav2vec2-bert", "feature_projection_input_dim": 14, "output_hidden_size": 32}
CODEC = {
    **EAR,
    "architectures": ["Xcodec2Model"],
    "model_type": "xcodec2",
    "num_key_value_heads": 2,
    "head_dim": 16,
    "encoder_hidden_size": 3,
    "downsampling_ratios": [2, 5],
    "quantization_dim": 64,
    "semantic_model_config": BERT,
}
WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "vocab_size": 31,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 3),
    "num_mel_bins": 6,
    "d_model": 10,
    "max_source_positions": 55,
    **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 1), ("ffn_dim", 7))},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
}


def list_shapes(tmp_path, settings):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    outcome = run_target(load_source(str(tmp_path)))
    assert outcome.error is None, outcome.error
    return {one.name: one.shape for one in outcome.trace.passes[0].steps[0].inputs}


def list_axes(tmp_path, settings):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    outcome = run_target(load_source(str(tmp_path)))
    return {one.name: one.axes for one in outcome.trace.passes[0].steps[0].inputs}


def test_what_a_frame_holds_is_called_mels_where_the_settings_say_so(tmp_path):
    assert list_axes(tmp_path, WHISPER)["input_features"] == ("batch", "mels", "frames")


def test_what_a_frame_holds_keeps_its_number_where_it_may_be_more_than_mels(tmp_path):
    settings = {**BERT, "architectures": ["Wav2Vec2BertModel"]}

    assert list_axes(tmp_path, settings)["input_features"] == ("batch", "frames", "")


def test_a_sound_that_is_heard_in_two_ways_is_as_long_in_both(tmp_path):
    shapes = list_shapes(tmp_path, CODEC)

    assert shapes["input_features"] == (2, 200, 14)
    assert shapes["input_values"] == (2, 1, 200 * 2 * 5)


def test_an_ear_for_one_length_hears_that(tmp_path):
    assert list_shapes(tmp_path, WHISPER)["input_features"] == (2, 6, 2 * 55)


def test_the_most_places_that_there_may_be_are_not_all_taken_up(tmp_path):
    settings = {**BERT, "architectures": ["Wav2Vec2BertModel"], "max_source_positions": 5000}

    assert list_shapes(tmp_path, settings)["input_features"] == (2, 200, 14)


def test_a_text_that_is_written_while_it_is_heard_has_a_word_for_each_stretch_of_sound(tmp_path):
    heard = {
        **EAR,
        "head_dim": 16,
        "num_key_value_heads": 2,
        "num_mel_bins": 6,
        "model_type": "voxtral_realtime_encoder",
    }
    settings = {
        "architectures": ["VoxtralRealtimeForConditionalGeneration"],
        "model_type": "voxtral_realtime",
        "audio_length_per_tok": 8,
        "audio_config": heard,
        "text_config": {**EAR, "head_dim": 16, "num_key_value_heads": 2, "vocab_size": 31},
    }
    shapes = list_shapes(tmp_path, settings)

    assert shapes["input_features"] == (2, 6, 200)
    assert shapes["input_ids"] == (2, 200 // 8)
