"""Decoders that read words and go on writing them. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    after,
    attention,
    both,
    decoder_only,
    family,
    gated,
    group,
    plain,
    pre,
)


def two_kinds(c, first, other, *, every):
    """Groups of layers, each `every`th of which is another kind."""
    rest = [n for n in range(c.num_hidden_layers) if (n + 1) % every]
    return group(rest, c.hidden_size, *first), group(
        [n for n in range(c.num_hidden_layers) if n not in rest], c.hidden_size, *other
    )


@family("LlamaForCausalLM", "llama:206, 273", num_hidden_layers=2, num_key_value_heads=8, fast=True)
def llama(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms")


@family("MistralForCausalLM", "mistral:121, 201", num_hidden_layers=2)
def mistral(c):
    # ten places are within the window of 4,096, so no mask is made that would show it: it is set (line 171)
    attend = attention(c, window=Silent(4096), sliding_window=4096)
    return decoder_only(c, pre("rms", attend), pre("rms", gated(c)), final="rms")


@family("MistralForCausalLM", "mistral:121, 201", num_hidden_layers=2, sliding_window=4, fast=True)
def mistral_with_a_short_window(c):
    return decoder_only(c, pre("rms", attention(c, window=4)), pre("rms", gated(c)), final="rms")


@family("Qwen2ForCausalLM", "qwen2:168, 250", num_hidden_layers=2)
def qwen2(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms")


@family("Qwen3ForCausalLM", "qwen3:203, 275", num_hidden_layers=2)
def qwen3(c):
    return decoder_only(c, pre("rms", attention(c, qk_norm=True)), pre("rms", gated(c)), final="rms")


@family("GemmaForCausalLM", "gemma:217, 284", num_hidden_layers=2)
def gemma(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms", parts=("scale",))


@family("Gemma2ForCausalLM", "gemma2:211, 283", num_hidden_layers=4, sliding_window=4)
def gemma2(c):
    # the scores are capped by tanh, which no fused kernel does
    cap = c.attn_logit_softcapping
    local, whole = (both("rms", attention(c, kernel="plain", window=window, cap=cap)) for window in (4, None))
    think = both("rms", gated(c))
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=2), final="rms", parts=("scale",))


@family("Gemma3ForCausalLM", "gemma3:297, 375", num_hidden_layers=12, sliding_window=4, fast=True)
def gemma3(c):
    local, whole = (both("rms", attention(c, qk_norm=True, window=window)) for window in (4, None))
    think = both("rms", gated(c))
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=6), final="rms", parts=("scale",))


@family("OlmoForCausalLM", "olmo:196, 272", num_hidden_layers=2)
def olmo(c):
    return decoder_only(c, pre("layer", attention(c)), pre("layer", gated(c)), final="layer")


@family("Olmo2ForCausalLM", "olmo2:188, 277", num_hidden_layers=2)
def olmo2(c):
    return decoder_only(
        c, after("rms", attention(c, qk_norm=True, qk_norm_over="width")), after("rms", gated(c)), final="rms"
    )


@family("Olmo3ForCausalLM", "olmo3:136, 228", num_hidden_layers=8, sliding_window=4)
def olmo3(c):
    local, whole = (
        after("rms", attention(c, qk_norm=True, qk_norm_over="width", window=window)) for window in (4, None)
    )
    think = after("rms", gated(c))
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=4), final="rms")


@family("Exaone4ForCausalLM", "exaone4:186, 276", num_hidden_layers=4, sliding_window=4)
def exaone4(c):
    # whole attention is without positions
    local = after("rms", attention(c, qk_norm=True, window=4))
    whole = after("rms", attention(c, qk_norm=True, positions="none"))
    think = after("rms", gated(c))
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=4), final="rms")


@family("SmolLM3ForCausalLM", "smollm3:166, 279", num_hidden_layers=4)
def smollm3(c):
    local, whole = (pre("rms", attention(c, positions=positions)) for positions in ("rotary", "none"))
    think = pre("rms", gated(c))
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=4), final="rms")


@family("CohereForCausalLM", "cohere:203, 287", num_hidden_layers=2)
def cohere(c):
    return decoder_only(c, pre("layer", attention(c), gated(c)), final="layer")


@family("Cohere2ForCausalLM", "cohere2:178, 264", num_hidden_layers=4, sliding_window=4)
def cohere2(c):
    local = pre("layer", attention(c, window=4), gated(c))
    whole = pre("layer", attention(c, positions="none"), gated(c))
    return decoder_only(c, groups=two_kinds(c, (local,), (whole,), every=4), final="layer")


@family("PhiForCausalLM", "phi:152, 252", num_hidden_layers=2)
def phi(c):
    return decoder_only(c, pre("layer", attention(c), plain(c)), final="layer")


@family("Phi3ForCausalLM", "phi3:189, 276", num_hidden_layers=2)
def phi3(c):
    return decoder_only(c, pre("rms", attention(c, fused="qkv")), pre("rms", gated(c, fused=True)), final="rms")


@family("GlmForCausalLM", "glm:198, 284", num_hidden_layers=2)
def glm(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c, fused=True)), final="rms")


@family("Glm4ForCausalLM", "glm4:196, 66", num_hidden_layers=2)
def glm4(c):
    return decoder_only(c, both("rms", attention(c)), both("rms", gated(c, fused=True)), final="rms")


@family("StableLmForCausalLM", "stablelm:210, 319", num_hidden_layers=2)
def stablelm(c):
    return decoder_only(c, pre("layer", attention(c)), pre("layer", gated(c)), final="layer")


@family("Starcoder2ForCausalLM", "starcoder2:140, 204", num_hidden_layers=2)
def starcoder2(c):
    return decoder_only(c, pre("layer", attention(c)), pre("layer", plain(c)), final="layer")


@family("PersimmonForCausalLM", "persimmon:176, 300", num_hidden_layers=2)
def persimmon(c):
    attend = attention(c, qk_norm=True, qk_norm_kind="layer", fused="qkv", fused_by="head")
    return decoder_only(c, pre("layer", attend), pre("layer", plain(c)), final="layer")


@family("GraniteForCausalLM", "granite:114, 218", num_hidden_layers=2)
def granite(c):
    # its factors are 1 by default
    return decoder_only(c, pre("rms", attention(c, unscaled=True)), pre("rms", gated(c)), final="rms")


@family("HeliumForCausalLM", "helium:201, 266", num_hidden_layers=2)
def helium(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms")


@family("Ernie4_5ForCausalLM", "ernie4_5:185, 266", num_hidden_layers=2)
def ernie4_5(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms")


@family("SeedOssForCausalLM", "seed_oss:156, 227", num_hidden_layers=2)
def seed_oss(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", gated(c)), final="rms")


@family("ArceeForCausalLM", "arcee:202, 269", num_hidden_layers=2)
def arcee(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", plain(c)), final="rms")


@family("BitNetForCausalLM", "bitnet:151, 220", num_hidden_layers=2)
def bitnet(c):
    attend, think = attention(c, inner_norm="rms"), gated(c, inner_norm="rms")
    return decoder_only(c, pre("rms", attend), pre("rms", think), final="rms")


@family("NemotronForCausalLM", "nemotron:225, 290", num_hidden_layers=2, num_key_value_heads=8)
def nemotron(c):
    return decoder_only(c, pre("layer", attention(c)), pre("layer", plain(c)), final="layer")


@family("DiffLlamaForCausalLM", "diffllama:189, 335", num_hidden_layers=2)
def diffllama(c):
    # the values of two heads lie side by side, so each weighted sum is twice as wide; lambda: lines 300 to 306
    attend = attention(c, d_v=2 * c.hidden_size // c.num_attention_heads, taken_off="exps")
    return decoder_only(c, pre("rms", attend), pre("rms", gated(c)), final="rms")


@family("DogeForCausalLM", "doge:241, 438", num_hidden_layers=2)
def doge(c):
    # what is added to the scores is worked out of the values, not of places; the stream is scaled past both (line 461)
    made = ("linear", "softplus", "learned", "exp")
    stages = (pre("rms", one) for one in (attention(c, qk_norm=True, added_of_values=made), gated(c)))
    return decoder_only(c, *(replace(one, stream_scale="learned") for one in stages), final="rms")


@family("GPT2LMHeadModel", "gpt2:75, 246", num_hidden_layers=2, fast=True)
def gpt2(c):
    attend = attention(c, positions="none", fused="qkv")
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    return decoder_only(
        c, pre("layer", attend), pre("layer", think), final="layer", parts=(f"learned positions {c.n_positions}",)
    )


@family("GPTBigCodeForCausalLM", "gpt_bigcode:115, 259", num_hidden_layers=2)
def gpt_bigcode(c):
    attend = attention(c, positions="none", fused="qkv", kv_heads=1)
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    return decoder_only(
        c, pre("layer", attend), pre("layer", think), final="layer", parts=(f"positions {c.n_positions}",)
    )


@family("GPTNeoXForCausalLM", "gpt_neox:169, 228", num_hidden_layers=2)
def gpt_neox(c):
    return decoder_only(c, pre("layer", attention(c, fused="qkv", fused_by="head"), plain(c)), final="layer")


@family("GPTJForCausalLM", "gptj:71, 383", num_hidden_layers=2)
def gptj(c):
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    return decoder_only(c, pre("layer", attention(c, kernel="plain"), think), final="layer")


@family("CodeGenForCausalLM", "codegen:61, 225", num_hidden_layers=2)
def codegen(c):
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    return decoder_only(
        c, pre("layer", attention(c, kernel="plain", fused="qkv", fused_by="group"), think), final="layer"
    )


@family(
    "GPTNeoForCausalLM",
    "gpt_neo:52, 314",
    num_hidden_layers=4,
    attention_types=[[["global", "local"], 2]],
)
def gpt_neo(c):
    # its triangle is a buffer, which has no numbers here; the mask beside it shows what is causal
    whole = attention(c, kernel="plain", positions="none", unscaled=True)
    local = attention(c, kernel="plain", positions="none", unscaled=True, window=Silent(c.window_size))
    del local  # the two kinds cannot be told apart
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    parts = (f"positions {c.max_position_embeddings}",)
    return decoder_only(c, pre("layer", whole), pre("layer", think), final="layer", parts=parts)


@family("BloomForCausalLM", "bloom:166, 344")
def bloom(c):
    attend = attention(c, positions="alibi", fused="qkv", fused_by="head", kernel="plain")
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    return decoder_only(c, pre("layer", attend), pre("layer", think), final="layer", parts=("norm",))


@family("MptForCausalLM", "mpt:65, 158", num_hidden_layers=2)
def mpt(c):
    attend = attention(c, positions="alibi", fused="qkv", kernel="plain")
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu")
    return decoder_only(c, pre("layer", attend), pre("layer", think), final="layer")


@family("FalconForCausalLM", "falcon:200, 538", num_hidden_layers=2)
def falcon(c):
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu")
    return decoder_only(c, pre("layer", attention(c, fused="qkv", kv_heads=1), think), final="layer")


@family("OPTForCausalLM", "opt:97, 184", num_hidden_layers=2)
def opt(c):
    think = plain(c, d_ff=c.ffn_dim, activation="relu")
    parts = (f"positions {c.max_position_embeddings + 2}",)
    return decoder_only(
        c, pre("layer", attention(c, positions="none")), pre("layer", think), final="layer", parts=parts
    )


@family("OpenAIGPTLMHeadModel", "openai:46, 131", num_hidden_layers=2)
def openai_gpt(c):
    # its triangle is a buffer, which has no numbers here
    attend = attention(c, kernel="plain", positions=Silent("none"), fused="qkv", causal=Silent(True))
    think = plain(c, d_ff=4 * c.hidden_size, activation="gelu tanh")
    from story.body.truth import post

    return decoder_only(
        c,
        post("layer", attend),
        post("layer", think),
        final=None,
        parts=(f"positions {c.n_positions}",),
        causal=Silent(True),
    )


@family("CTRLLMHeadModel", "ctrl:94, 154", num_hidden_layers=2)
def ctrl(c):
    # its table of sines is a tensor that no module holds by a name: nothing tells that its rows are places
    think = plain(c, d_ff=c.dff, activation="relu")
    return decoder_only(
        c,
        pre("layer", attention(c, positions="none")),
        pre("layer", think),
        final="layer",
        parts=("scale",),
    )


@family("XGLMForCausalLM", "xglm:108, 251", num_hidden_layers=2)
def xglm(c):
    think = plain(c, d_ff=c.ffn_dim, activation="gelu")
    attend = attention(c, kernel="plain", positions="none")
    return decoder_only(c, pre("layer", attend), pre("layer", think), final="layer", parts=("scale", "positions 2050"))


@family(
    "BioGptForCausalLM",
    "biogpt:120, 237",
    num_hidden_layers=2,
    hidden_size=32,
    num_attention_heads=4,
    tiny=True,
)
def biogpt(c):
    parts = ("scale", f"positions {c.max_position_embeddings + 2}")
    return decoder_only(
        c, pre("layer", attention(c, positions="none")), pre("layer", plain(c)), final="layer", parts=parts
    )
