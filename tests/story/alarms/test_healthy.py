"""Models of libraries that are as they should be raise nothing; story/body/test_families.py asks those of the table."""

import inspect

import pytest
import torch
from recorded import recorded
from recorders import RECORDERS
from story.body.building import propose_inputs
from story.body.table import FAMILIES

import xray
from xray.sources.shrinking import shrink
from xray.story.alarms.whole import audit

KEPT = tuple(RECORDERS)
FAST = ("GPT-2, inference", "BERT, training", "T5 writes", "BART writes with beams", "nn.Transformer, training")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in KEPT]
)
def test_a_kept_trace_raises_nothing(name):
    assert audit(recorded(name)).alarms == ()


WIDTH, INNER, FEW = 32, 36, 4
SMALL = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "word_embed_proj_dim"), WIDTH
    ),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), INNER),
    **dict.fromkeys(("ffn_hidden_size", "moe_intermediate_size", "hidden_dim"), INNER),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "rotary_dim"), FEW),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), FEW),
    **dict.fromkeys(("head_dim", "d_kv", "query_pre_attn_scalar"), WIDTH // FEW),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "decoder_start_token_id"), 1),
    "num_key_value_heads": 2,
    "vocab_size": 99,
    "pad_token_id": 0,
}
UNSUITED = frozenset(
    [
        "aria",
        "audioflamingo3",
        "axk1",
        "axk2",
        "bamba",
        "bros",
        "clap",
        "csm",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_vl",
        "dia",
        "embedding_gemma2_text",
        "esmc",
        "falcon",
        "funnel",
        "fuyu",
        "gemma4_text",
        "granite_docling",
        "granitemoehybrid",
        "idefics2",
        "idefics3",
        "instructblip",
        "jamba",
        "kyutai_speech_to_text",
        "layoutlmv3",
        "lfm2",
        "lilt",
        "llava",
        "llava_next",
        "longcat_flash",
        "lxmert",
        "mamba2",
        "minicpm3",
        "minimax_m3_vl",
        "mllama",
        "mobilebert",
        "musicflamingo",
        "neomme",
        "paligemma",
        "pi0",
        "qwen2_audio",
        "qwen3_next",
        "recurrent_gemma",
        "rwkv",
        "step3p7",
        "t5gemma2",
        "udop",
        "x_clip",
        "zamba",
        "zamba2",
    ]
)
"""Their settings depend on one another, they read an image or boxes beside words, or have no cache of two layers."""


def takes_mask(name):
    """Whether a family reads ids and a mask."""
    transformers = pytest.importorskip("transformers")
    asked = inspect.signature(getattr(transformers, FAMILIES[name].model).forward).parameters
    return {"input_ids", "attention_mask"} <= set(asked) and name not in UNSUITED


def build_small(family):
    """A model of a family with two layers, so narrow that it may have numbers, and its inputs."""
    import transformers

    made = getattr(transformers, family.model)
    config = shrink(made.config_class(**family.config))
    for name, size in SMALL.items():
        if type(getattr(config, name, None)) is int:
            setattr(config, name, size)
    if family is FAMILIES["sam3"]:  # an image a third as wide and high, in as many windows
        config.vision_config.backbone_feature_sizes = [[96, 96], [48, 48], [24, 24]]
        config.vision_config.backbone_config.image_size = 336
        config.vision_config.backbone_config.window_size = 8
    torch.manual_seed(0)
    model = made(config).eval()
    return model, (family.inputs or propose_inputs)(model, config)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_given_padding_on_either_side_raises_nothing(name):
    if not takes_mask(name):
        pytest.skip("it takes no mask beside ids")
    model, given = build_small(FAMILIES[name])
    mask = torch.ones(given["input_ids"].shape, dtype=torch.long)
    mask[0, :3] = mask[-1, -3:] = 0
    with torch.no_grad():
        assert audit(xray.trace(model, **{**given, "attention_mask": mask})).alarms == ()
