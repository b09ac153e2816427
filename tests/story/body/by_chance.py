"""Families that were drawn by chance, to see what is told of those nobody looked at. Their code: transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    attention,
    both,
    decoder_only,
    entrance,
    experts,
    family,
    gated,
    group,
    looks_both_ways,
    network,
    plain,
    pre,
    scaled,
    tower,
    words,
)

from xray.story.anatomy.branches import Experts
from xray.story.anatomy.tree import Head, Link

TWO = {"num_hidden_layers": 2}


@family("MuseGlimmerTextModel", "muse_glimmer:247, 262, 303", named=True, num_hidden_layers=4)
def muse_glimmer_text(c):
    # every fourth layer, counted from the last, is not turned and sees all; the others are set to a window
    near = attention(c, qk_norm=True, gate=True, gate_curve="sigmoid", sliding_window=c.sliding_window)
    far = replace(near, positions="none", sliding_window=None)
    groups = (
        group(3, c.hidden_size, both("rms", near), both("rms", gated(c))),
        group((3,), c.hidden_size, both("rms", far), both("rms", gated(c))),
    )
    return network(tower(c, "text", "ids", True, words(c, "norm"), groups, "rms"), head=Head("none", None))


@family("GraniteDoclingTextModel", "granite_docling:201, 276", named=True, **TWO)
def granite_docling_text(c):
    stages = (replace(pre("rms", one), scale="number") for one in (attention(c), gated(c)))
    layers = group(2, c.hidden_size, *stages)
    return network(tower(c, "text", "ids", True, words(c, "scale"), (layers,), "rms"), head=Head("none", None))


@family("AriaTextForCausalLM", "aria:259, 303", named=True, **TWO)
def aria_text(c):
    # two shared experts are one feed-forward of twice the width (line 237)
    think = Experts(c.moe_num_experts, c.moe_topk, 1, c.intermediate_size, "silu", True, "router")
    think = replace(think, shared_d_ff=c.intermediate_size * c.moe_num_shared_experts)
    return decoder_only(c, pre("rms", attention(c)), pre("rms", think), final="rms")


@family("KyutaiSpeechToTextForConditionalGeneration", "kyutai_speech_to_text:354, 549", named=True, **TWO)
def kyutai_speech_to_text(c):
    # a word and the codes of a sound, as many rows of one table as a frame has, are added up
    rows = c.vocab_size + c.num_codebooks * c.codebook_vocab_size + 1
    think = gated(c, d_ff=c.ffn_dim // 2, activation="silu", fused=True)
    layers = group(2, c.hidden_size, pre("rms", attention(c, sliding_window=c.sliding_window)), pre("rms", think))
    stack = tower(c, "stack", "ids", True, entrance(f"words {rows}"), (layers,), "rms", vocab=rows)
    return network(stack, head=Head("numbers", c.vocab_size))


@family("CsmForConditionalGeneration", "csm:331, 645, 1015", named=True, **TWO)
def csm(c):
    # the codes of a sound, each moved to rows of its own in one table, are added up; the head scores the first of them
    rows = c.num_codebooks * c.codebook_size
    layers = group(2, c.hidden_size, pre("rms", attention(c)), pre("rms", gated(c)))
    stack = tower(c, "stack", "ids", True, entrance(f"words {rows}"), (layers,), "rms", vocab=rows)
    return network(stack, head=Silent(Head("vocabulary", c.vocab_size, False)))


SMALL_STEP = {
    "vision_config": {**TWO, "hidden_size": 64, "num_attention_heads": 4, "image_size": 56},
    "text_config": {
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "n_routed_experts": 8,
        "moe_intermediate_size": 40,
        "share_expert_dim": 40,
        "sliding_window": 512,
        "vocab_size": 151_936,
    },
}


@family("Step3p7ForConditionalGeneration", "step3p7:213, 536, 718", named=True, **SMALL_STEP)
def step3p7(c):
    # of 8 experts all are chosen, each weighed by its score; the first three layers have none
    see, text = c.vision_config, c.text_config
    look = looks_both_ways(see, positions="rotary")
    eye = group(2, see.hidden_size, pre("layer", look), pre("layer", plain(see)))
    vision = scaled(
        network(tower(see, "vision", "image", False, entrance("patches 64", "positions 16", "norm"), (eye,), None))
    ).towers
    attend = pre("rms", attention(text, qk_norm=True, gate=True, gate_curve="sigmoid"))
    some = experts(text, 8, d_ff=text.moe_intermediate_size, shared=1, shared_d_ff=text.share_expert_dim)
    layers = (
        group(3, text.hidden_size, attend, pre("rms", gated(text))),
        group((3,), text.hidden_size, attend, pre("rms", some)),
    )
    parts = words(text, "convolution 256", "projection 64")
    speak = tower(text, "text", "ids", True, parts, layers, "rms")
    return network(
        *vision, speak, links=(Link("joined", "vision", "text"),), head=Head("vocabulary", text.vocab_size, False)
    )
