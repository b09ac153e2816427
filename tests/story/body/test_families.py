"""The anatomy of models that are not ours, held to what their configurations and their code say."""

from pathlib import Path

import pytest
from story.body.arrows import list_unproven
from story.body.axis_words import list_misnamed
from story.body.building import record_family
from story.body.counted import count_in_boxes
from story.body.routers import ROUTERS, list_routings
from story.body.table import FAMILIES, MODULES
from story.body.truth import list_differences
from story.body.whole_layers import list_beyond

from xray import anatomy
from xray.story.alarms.whole import audit
from xray.story.cards.undrawn import list_unboxed
from xray.story.facts.totals import count_params
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

TABLE = [
    pytest.param(family, id=name, marks=() if family.fast else pytest.mark.slow) for name, family in FAMILIES.items()
]
WORDS_ALONE = {
    (0,): {
        "bloom",
        "falcon_mamba",
        "granitemoehybrid",
        "jamba",
        "mamba",
        "mamba2",
        "mpt",
        "nemotron_h",
        "rwkv",
        "xlstm",
    }
    | {"zamba", "zamba2"},
    (0, 1): {"longt5", "switch_transformers", "t5", "t5_gated", "umt5"},
    (1,): {"udop"},
}
"""The towers whose first layer reads rows of words alone: slopes, biases, states or masks tell places, or none."""
DENOISING = "model.denoising_class_embed"  # modeling_rt_detr.py:1654, d_fine:1776, deimv2:1894: with labels alone
QUALITY = "model.decoder.lqe_layers.*", "model.decoder.class_embed.*"  # d_fine:1267: of the last layer alone
GLOBAL = tuple(f"{name}_global" for name in ("query", "key", "value"))  # longformer:962, led:606: of such places
EXPERTS = "mlp.experts.expert_*"  # chosen by chance weights
UNUSED = {
    "rt_detr": {DENOISING},
    "rt_detr_v2": {DENOISING},
    "d_fine": {DENOISING, *QUALITY},
    "deimv2": {DENOISING, *QUALITY},
    "esm": {"esm.contact_head"},  # modeling_esm.py:791, a method that nobody calls
    "xlnet": {
        *(f"transformer.layer.*.rel_attn.{name}" for name in ("seg_embed", "r_s_bias")),  # 118: with segments alone
        "transformer.mask_emb",  # 1120: with a mapping of targets alone
    },
    "longformer": {f"longformer.encoder.layer.*.attention.self.{name}" for name in GLOBAL},
    "led": {f"led.encoder.layers.*.self_attn.longformer_self_attn.{name}" for name in GLOBAL},
    "dinov2": {"dinov2.embeddings.mask_token"},  # modeling_dinov2.py:135, with masked places alone
    "dinov2_with_registers": {"dinov2_with_registers.embeddings.mask_token"},
    "dinov3_vit": {"embeddings.mask_token"},
    "wav2vec2": {"masked_spec_embed"},  # modeling_wav2vec2.py:1245, with masked places alone
    "hubert": {"masked_spec_embed"},
    "sew_d": {"masked_spec_embed"},
    "data2vec_audio": {"data2vec_audio.masked_spec_embed"},
    "speecht5": {"speecht5.encoder.prenet.masked_spec_embed"},
    "wavlm": {"wavlm.masked_spec_embed"},
    "neucodec": {"semantic_encoder.masked_spec_embed"},
    "granite_docling": {"model.vision_model.connector.fine"},  # modeling_granite_docling.py:666, on request alone
    "blip": {"text_model.encoder.layer.*.crossattention"},  # modeling_blip_text.py:303, with an image to look at alone
    "dpt": {"neck.fusion_stage.layers.0.residual_layer1"},  # modeling_dpt.py:700, not of the first layer
    "deepseek_v4": {  # modeling_deepseek_v4.py:426, which ten places are too few for
        f"model.layers.*.self_attn.compressor.{name}" for name in ("position_bias", "kv_norm")
    },
    "udop": {  # modeling_udop.py:1144 and 1216, of the encoder alone
        "decoder.relative_bias.biases.*",
        "decoder.embed_patches",
    },
    "switch_transformers": {f"{part}.block.*.layer.*.{EXPERTS}" for part in ("encoder", "decoder")},
    "decision_transformer": {"encoder.wte"},  # modeling_decision_transformer.py:391, which is given vectors
    "rf_detr": {  # modeling_rf_detr.py:1505, twelve of thirteen groups of queries serve training alone; 137
        "model.backbone.backbone.embeddings.mask_token",
        *(f"model.enc_{name}.*" for name in ("output", "output_norm", "out_class_embed", "out_bbox_embed")),
    },
    "csm": {  # modeling_csm.py:820, 843, 1039: with words, with sound and with labels to learn from alone
        "codec_model",
        "embed_text_tokens",
        *(f"depth_decoder.{name}" for name in ("codebooks_head", "model.inputs_embeds_projector", "model.layers")),
        "depth_decoder.model.norm",
    },
    "t5gemma2": {  # modeling_t5gemma2.py:914, with an image alone
        *(f"model.encoder.{name}" for name in ("multi_modal_projector", "vision_tower")),
    },
    "sam": {  # modeling_sam.py:601, 607, 611, with a mask or a point to ask for alone
        *(f"prompt_encoder.{name}" for name in ("mask_embed", "point_embed", "not_a_point_embed")),
    },
    "pi0": {"model.dit.embed_tokens"},  # modeling_pi0.py:207, which is given vectors
    "pocket_tts": {"flow_head", "loss_weighting", "model.audio_prompt_proj"},  # modeling_pocket_tts.py:564, 786
    "kyutai_speech_to_text": {"codec_model"},  # modeling_kyutai_speech_to_text.py:761, while it writes alone
    "lw_detr": {  # modeling_lw_detr.py:1395, twelve of thirteen groups of queries serve training alone
        f"model.enc_{name}.*" for name in ("output", "output_norm", "out_class_embed", "out_bbox_embed")
    },
    "sam3": {  # modeling_sam3.py:2389, with boxes to ask for alone; 2040
        "geometry_encoder",
        *(f"mask_decoder.pixel_decoder.{name}.2" for name in ("conv_layers", "norms")),
    },
    "omdet_turbo": {"vision_backbone.layer_norms"},  # modeling_omdet_turbo.py:288, which a setting takes away
    "lightglue": {"match_assignment_layers.*.final_projection"},  # modeling_lightglue.py:568, of the last alone
}
"""What of a family takes no part; of all others everything does."""
EVERYWHERE = ("sublayer", "last"), ()
WITH_HEADS = ("sublayer", "attention", "last"), ()
FROM_ONE = {
    "gemma": {"text": EVERYWHERE},  # modeling_gemma.py:76
    "gemma2": {"text": EVERYWHERE},  # modeling_gemma2.py:61
    "gemma3": {"text": WITH_HEADS},  # modeling_gemma3.py:148
    "paligemma": {"text": EVERYWHERE},  # modeling_gemma.py:76
    "vaultgemma": {"text": EVERYWHERE},  # modeling_vaultgemma.py:58
    "recurrent_gemma": {"text": EVERYWHERE},  # modeling_recurrent_gemma.py:57
    "t5gemma2": dict.fromkeys(("encoder", "decoder"), WITH_HEADS),  # modeling_t5gemma2.py:67
    "pi0": {"stack": EVERYWHERE, "text": (("sublayer",), ())},  # modeling_gemma.py:76
    "nemotron": {"text": EVERYWHERE},  # modeling_nemotron.py:76
    "minimax_m3_vl": {"text": WITH_HEADS},  # modeling_minimax_m3_vl.py:155
    "step3p7": {"text": WITH_HEADS},  # modeling_step3p7.py:516
    "qwen3_next": {"text": (("sublayer", "attention", "last"), ("linear attention",))},  # modeling_qwen3_next:139, 79
    "muse_glimmer_text": {"text": (("sublayer",), ("last",))},  # modeling_muse_glimmer.py:135, 457
    "videoprism_vision": dict.fromkeys(("vision", "stack"), EVERYWHERE),  # modeling_videoprism.py:413
}
"""Of which towers norms multiply by 1 + their weights, and where; then where others stand in these."""
ATTENDING_ELSEWHERE = {
    "kosmos2_5",  # modeling_kosmos2_5.py:1034
    "siglip",  # modeling_siglip.py:637
    "aimv2",  # modeling_aimv2.py:384
    "deepseek_vl",  # modeling_siglip.py:637
    "aria",  # modeling_aria.py:217
    "siglip2_eye",  # modeling_siglip2.py:702
    "sam3",  # modeling_sam3.py:2125
}
"""Where attention is part of no layer: a learned row looks at what an eye gives, learned rows do, or other rows."""


@pytest.fixture(scope="module", params=TABLE)
def read(request):
    """A family with its configuration and its trace, which are made once for both tests."""
    return request.param, *record_family(request.param)


@pytest.fixture(scope="module")
def columns(read):
    """The columns of its sheet."""
    return read_columns(read[2])


@pytest.fixture(scope="module")
def shares(read, columns):
    """What the parts of its card hold: names and counts."""
    _, _, trace = read
    undrawn = {one.path for one in list_unboxed(columns)}
    listed = list_shares(columns, trace, undrawn)
    return [(what, count) for what, _, count in listed if not what.startswith("of these")]


@pytest.fixture
def name(request):
    """The name of the family that is read."""
    return next(name for name, family in FAMILIES.items() if family is request.getfixturevalue("read")[0])


def test_the_anatomy_is_true(read):
    family, config, trace = read

    assert list_differences(anatomy(trace), family.truth(config)) == []


def test_towers_of_words_to_which_nothing_tells_places_before_their_layers_are_known(read):
    family, _, trace = read
    name = next(one for one, other in FAMILIES.items() if other is family)

    found = tuple(number for number, tower in enumerate(anatomy(trace).towers) if tower.words_alone)

    assert found == next((towers for towers, names in WORDS_ALONE.items() if name in names), ())


def test_the_bases_of_rotary_places_are_those_of_the_configuration(read):
    _, config, trace = read

    towers = anatomy(trace).towers
    found = {getattr(branch, "rotary_base", None) for tower in towers for branch in tower.branches}
    ways = ("rotary_slowed", "rotary_all_slowed")
    slowed = {getattr(branch, way, None) for tower in towers for branch in tower.branches for way in ways}
    assert found - {None} <= set(list_set(config.to_dict(), "theta", "base"))
    assert slowed - {None} <= set(list_set(config.to_dict(), "factor"))


def list_set(settings, *words):
    """Every number of a configuration, or of a part of it, whose name has one of these words."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from list_set(value, *words)
        elif isinstance(value, int | float) and any(word in str(name) for word in words):
            yield float(value)


def test_what_weighs_experts_is_true(read, name):
    _, config, trace = read

    noted = ROUTERS[name](config) if name in ROUTERS else set()
    assert list_routings(anatomy(trace)) == (noted if isinstance(noted, set) else {noted})


def test_where_norms_multiply_by_one_more_than_their_weights_is_true(read, name):
    _, _, trace = read

    found = {one.name: (one.from_one, one.not_from_one) for one in anatomy(trace).towers if one.from_one}
    assert found == FROM_ONE.get(name, {})


def test_attention_that_is_part_of_no_layer_is_known(read, name):
    _, _, trace = read

    assert anatomy(trace).attends_elsewhere == (name in ATTENDING_ELSEWHERE)


def test_what_takes_no_part_is_named_and_nothing_else(read, name):
    _, _, trace = read

    assert {one.path for one in anatomy(trace).unused} == UNUSED.get(name, set())


def test_every_arrow_is_proven(columns):
    assert list_unproven(columns) == []


def test_axes_that_are_called_by_a_fact_have_its_size(columns):
    assert list(list_misnamed(columns)) == []


def test_the_parts_have_each_parameter_once(read, shares):
    _, _, trace = read

    assert sum(count for _, count in shares) == count_params(trace)


def test_boxes_before_and_between_layers_hold_no_more_than_the_parts_that_are_there(columns, shares):
    charts = [chart for one in columns for chart in (one.condition, one.entrance, *(two.bridge for two in one.frames))]

    there = sum(count for what, count in shares if not what.endswith("head") and is_beside_layers(what))
    assert sum(count_in_boxes(chart) for chart in charts if chart is not None) <= there


def is_beside_layers(what):
    """Whether a part of the card is none of so many sublayers."""
    return " × " not in what or "between layers" in what or "rows added" in what


def test_a_layer_has_no_parameters_from_outside_of_its_block(columns):
    assert list(list_beyond(columns)) == []


def test_what_is_as_it_should_be_raises_nothing(read):
    _, _, trace = read

    assert audit(trace).alarms == ()


def test_the_table_has_every_module_that_notes_families():
    files = Path(__file__).parent.glob("*.py")

    assert sorted(MODULES) == sorted(file.stem for file in files if "\n@family(" in file.read_text(encoding="utf-8"))
