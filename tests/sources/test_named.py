"""Models of the transformers library from their settings alone."""

import json
from types import SimpleNamespace

import pytest
import torch
from settings import (
    DEEPSEEK,
    GRANITE_DOCLING,
    IDEFICS,
    JETMOE,
    KOSMOS,
    LLAMA,
    LLAVA,
    LLAVA_NEXT,
    MLLAMA,
    QWEN_AUDIO,
    T5,
    VIT,
)

import xray
from xray.capture.targets.target import run_target
from xray.errors import TraceError, UsageError
from xray.sources.family_inputs import make_ids
from xray.sources.loading import load_source
from xray.sources.media import place_media
from xray.sources.named import list_settings
from xray.sources.request import Request
from xray.sources.sizes import Sizes, Wishes

pytest.importorskip("transformers", reason="the library whose models are built here")


@pytest.fixture
def folder(tmp_path):
    def write(settings):
        (tmp_path / "config.json").write_text(json.dumps(settings))
        return str(tmp_path)

    return write


def record(source, **asked):
    outcome = run_target(load_source(source, Request(**asked)))
    assert outcome.error is None, outcome.error
    return outcome


def top_inputs(trace):
    return {one.name: one.shape for one in trace.passes[0].steps[0].inputs}


def test_a_folder_with_settings_is_a_model(folder):
    outcome = record(folder(LLAMA))

    assert outcome.trace.title == "LlamaForCausalLM"
    assert outcome.told.startswith("without storage")
    assert top_inputs(outcome.trace) == {"input_ids": (2, 10)}


def test_a_file_of_settings_is_a_model(folder):
    assert record(folder(VIT) + "/config.json").trace.title == "ViTForImageClassification"


def test_the_type_of_the_weights_is_that_of_the_settings(folder):
    steps = record(folder(LLAMA)).trace.passes[0].steps

    assert steps[0].outputs[0].dtype == "bfloat16"


def test_an_image_is_of_the_type_of_the_weights(folder):
    steps = record(folder({**VIT, "dtype": "float16"})).trace.passes[0].steps

    assert steps[0].inputs[0].dtype == "float16"


def test_an_encoder_decoder_gets_a_question_and_an_answer(folder):
    assert top_inputs(record(folder(T5)).trace) == {"input_ids": (2, 10), "decoder_input_ids": (2, 7)}


def test_an_image_has_the_size_of_the_settings(folder):
    assert top_inputs(record(folder(VIT)).trace) == {"pixel_values": (2, 3, 12, 12)}


def test_as_many_signs_stand_among_the_words_as_an_image_becomes_rows(folder):
    inputs = top_inputs(record(folder(LLAVA)).trace)

    assert inputs["input_ids"] == (2, 10 + 9)
    assert inputs["pixel_values"] == (2, 3, 12, 12)


def test_sounds_that_are_filled_up_to_a_length_of_the_settings_have_as_many_signs():
    settings = SimpleNamespace(audio_token_id=60, audio_soft_tokens_per_image=13)
    words = {"input_ids": torch.full((2, 5), 8), "input_features": torch.rand(2, 7, 3)}

    made = place_media(torch.nn.Linear(2, 2), settings, words, {})
    assert (made["input_ids"] == 60).sum(dim=1).tolist() == [13, 13]


def test_a_sign_that_somebody_typed_stays_as_typed():
    typed = {"input_ids": torch.tensor([[8, 60, 9]])}

    made = place_media(torch.nn.Linear(2, 2), SimpleNamespace(image_token_id=60), typed, {})
    assert made["input_ids"].tolist() == [[8, 60, 9]]


def test_images_are_as_large_as_they_are_cropped():
    assert Sizes(SimpleNamespace(crop_size=26), Wishes()).image() == (26, 26)


def test_a_word_made_by_chance_is_no_sign():
    config = SimpleNamespace(vocab_size=12, image_token_id=7)

    made = make_ids((4, 50), Sizes(config, Wishes()))
    assert 7 not in made
    assert set(made.unique().tolist()) <= set(range(5, 12))


def test_an_image_in_pieces_comes_with_its_size(folder):
    """Two pieces side by side and the whole beside them; between rows of patches stands a learned one."""
    outcome = record(folder(LLAVA_NEXT))

    inputs = top_inputs(outcome.trace)
    assert (inputs["pixel_values"], inputs["image_sizes"]) == ((2, 3, 3, 12, 12), (2, 2))
    assert inputs["input_ids"][1] > 10 + 2 * 9
    assert [tower.name for tower in xray.anatomy(outcome.trace).towers] == ["vision", "text"]


def test_images_whose_own_numbers_are_asked_for_need_no_weights(folder):
    outcome = record(folder(IDEFICS))

    assert outcome.told.startswith("without storage")
    assert top_inputs(outcome.trace) == {"input_ids": (2, 10 + 4), "pixel_values": (2, 1, 3, 16, 16)}


@pytest.mark.slow
def test_a_small_image_fills_the_first_of_its_tiles(folder):
    inputs = top_inputs(record(folder(MLLAMA)).trace)

    assert inputs["pixel_values"] == (2, 1, 4, 3, 12, 12)
    assert inputs["cross_attention_mask"] == (2, 10, 1, 4)


@pytest.mark.slow
def test_flat_patches_tell_their_row_and_column_first(folder):
    trace = record(folder(KOSMOS)).trace

    assert top_inputs(trace)["flattened_patches"] == (2, 9, 2 + 48)
    eye, words = xray.anatomy(trace).towers
    assert (eye.name, eye.reads, words.name) == ("vision", "image", "text")


@pytest.mark.slow
def test_what_only_the_inner_method_for_images_needs_is_made_too(folder):
    inputs = top_inputs(record(folder(GRANITE_DOCLING)).trace)

    assert (inputs["pixel_values"], inputs["pixel_attention_mask"]) == ((2, 1, 3, 16, 16), (2, 1))


@pytest.mark.slow
def test_as_many_signs_stand_for_a_sound_as_its_encoder_tells(folder):
    inputs = top_inputs(record(folder(QWEN_AUDIO)).trace)

    assert inputs == {"input_ids": (2, 10 + 10), "input_features": (2, 8, 40), "feature_attention_mask": (2, 40)}


def test_two_images_one_below_the_other_are_as_large_as_the_settings_say(folder):
    settings = {
        "architectures": ["SegGptForImageSegmentation"],
        "model_type": "seggpt",
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "image_size": [16, 8],
        "patch_size": 4,
        "decoder_hidden_size": 8,
        "intermediate_hidden_state_indices": [0, 1],
        "merge_index": 0,
    }
    outcome = record(folder(settings))

    assert {one.shape for one in outcome.trace.steps[0].inputs} >= {(2, 3, 8, 8)}


@pytest.mark.slow
def test_patches_of_all_images_may_lie_in_one_row(folder):
    settings = {
        "architectures": ["MiniCPMOcrForConditionalGeneration"],
        "model_type": "minicpm_ocr",
        "image_token_id": 90,
        "vision_config": {
            "hidden_size": 24,
            "intermediate_size": 37,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "image_size": 16,
            "patch_size": 4,
        },
        "text_config": {
            "model_type": "qwen3_5_text",
            "vocab_size": 99,
            "hidden_size": 24,
            "intermediate_size": 37,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
        },
    }
    trace = record(folder(settings)).trace

    row = (1, 3, 4, 2 * 16 * 4)
    assert top_inputs(trace) == {"input_ids": (2, 10 + 4), "pixel_values": row, "target_sizes": (2, 2)}
    assert [tower.name for tower in xray.anatomy(trace).towers] == ["vision", "text"]


def test_sound_is_as_wide_as_the_layer_that_reads_it(folder):
    settings = {
        "architectures": ["GraniteSpeech5Encoder"],
        "model_type": "granite_speech5_encoder",
        "hidden_size": 24,
        "intermediate_size": 37,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_mel_bins": 10,
    }
    (features,) = (one for one in record(folder(settings)).trace.steps[0].inputs if one.name == "input_features")

    assert features.shape[-1] != 10


def test_learned_queries_get_something_to_look_at(folder):
    settings = {
        "architectures": ["Blip2QFormerModel"],
        "model_type": "blip_2_qformer",
        "hidden_size": 24,
        "intermediate_size": 37,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "encoder_hidden_size": 11,
    }
    names = {one.name: one.shape for one in record(folder(settings)).trace.steps[0].inputs}

    assert names["encoder_hidden_states"] == (2, 13, 11)


def test_experts_run_without_storage(folder):
    outcome = record(folder(DEEPSEEK))

    assert outcome.told.startswith("without storage")
    assert any("grouped_mm" in step.op for step in outcome.trace.steps)


def test_batch_and_length_are_as_asked(folder):
    outcome = record(folder(LLAMA), wishes=Wishes(batch=3, seq_len=17))

    assert top_inputs(outcome.trace) == {"input_ids": (3, 17)}


def test_given_inputs_stand_in_for_made_ones(folder):
    outcome = record(folder(LLAMA), inputs=("int64[1,5]<60",))

    assert top_inputs(outcome.trace) == {"input_ids": (1, 5)}


def test_axes_have_their_words(folder):
    steps = record(folder(LLAMA)).trace.passes[0].steps

    assert steps[0].inputs[0].axes == ("batch", "seq_len")


def test_masks_are_read_without_storage(folder):
    mistral = {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 4}

    masks = {one.mask for step in record(folder(mistral)).trace.steps for one in step.inputs if one.mask}

    (facts,) = masks
    windows = [[max(0, query - 3) <= key <= query for key in range(10)] for query in range(10)]
    assert [[letter == "." for letter in row] for row in facts.cells[0]] == windows


def test_another_class_can_be_chosen(folder):
    outcome = record(folder(LLAMA), kind="sequence-classification")

    assert outcome.trace.title == "LlamaForSequenceClassification"


def test_a_model_that_asks_for_numbers_runs_with_chance_weights(folder):
    assert record(folder(JETMOE)).told == "with chance weights"


def test_recording_leaves_the_random_state(folder):
    source = folder(LLAMA)
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)

    record(source)

    assert torch.rand(2).tolist() == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**LLAMA, "architectures": None}, "name no architectures. Choose one with --as base, causal-lm"),
        ({**LLAMA, "model_type": None}, "name no model_type"),
        ({**LLAMA, "model_type": "llama99"}, "has not the model type 'llama99'"),
        ({**LLAMA, "architectures": ["Llama9ForCausalLM"]}, "has not the class Llama9ForCausalLM"),
        ({"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}, "run it with --trust-remote-code"),
        ({**LLAMA, "num_attention_heads": "many"}, "cannot take the settings|cannot be built"),
        ([1], "holds a list. A config.json is an object"),
    ],
)
def test_settings_that_give_no_model_are_told_in_one_sentence(folder, settings, message):
    with pytest.raises(TraceError, match=message) as caught:
        load_source(folder(settings))

    assert "\n" not in str(caught.value)


def test_a_kind_that_the_model_does_not_come_as_is_refused(folder):
    with pytest.raises(UsageError, match=r"does not come as 'ctc'. Choose --as base, causal-lm"):
        load_source(folder(LLAMA), Request(kind="ctc"))


def test_a_folder_without_settings_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"has no config.json"):
        load_source(str(tmp_path))


def test_broken_settings_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{")

    with pytest.raises(TraceError, match="cannot read"):
        load_source(str(tmp_path))


def test_options_for_names_are_refused_for_own_code():
    with pytest.raises(UsageError, match="leave out --as, --batch"):
        load_source("my_model.py:build", Request(wishes=Wishes(batch=5)))


def test_settings_are_listed_with_their_defaults(folder):
    settings = list_settings(folder(LLAMA))

    assert settings["num_attention_heads"] == 3
    assert settings["rope_parameters.rope_theta"] == 10_000.0


def test_settings_that_differ_by_layer_are_no_settings_of_all(folder):
    """Reading such a setting for all layers raises an error that is no AttributeError."""
    windows = {
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 4,
        "per_layer_config": {"1": {"sliding_window": None}},
    }
    sizes = {**LLAMA, **windows, "num_attention_heads": 4, "hidden_size": 64, "head_dim": 16, "embedding_rank": 16}

    outcome = record(folder({**sizes, "model_type": "neomme", "architectures": ["NeoMMEForMaskedLM"]}))

    assert outcome.told.startswith("without storage")


def test_noise_alone_makes_no_model_that_acts(folder):
    """ViTMAE takes noise, and images of four axes all the same."""
    outcome = record(folder({**VIT, "hidden_size": 24, "model_type": "vit_mae", "architectures": ["ViTMAEModel"]}))

    assert len(top_inputs(outcome.trace)["pixel_values"]) == 4


def test_a_kind_that_the_library_names_and_does_not_have_is_passed_over(folder):
    with pytest.raises(TraceError, match="has not the class VoxtralRealtimeTextModel"):
        record(folder({"model_type": "voxtral_realtime_text", "architectures": ["VoxtralRealtimeTextModel"]}))
