"""More decoders that read words and go on writing them. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.decoders import two_kinds
from story.body.truth import (
    Silent,
    after,
    attention,
    both,
    decoder_only,
    entrance,
    experts,
    family,
    gated,
    group,
    held,
    looks_both_ways,
    network,
    plain,
    pre,
    tower,
    words,
)

from xray.story.anatomy.branches import Recurrence
from xray.story.anatomy.tree import Head, Norm, Stage, Untold

TWO = {"num_hidden_layers": 2}
FOUR = {"num_hidden_layers": 4}
LOCAL, WHOLE = "sliding_attention", "full_attention"
EVERY_FOURTH = {"layer_types": [LOCAL, LOCAL, LOCAL, WHOLE]}


@family("ApertusForCausalLM", "apertus:197, 268", named=True, **TWO)
def apertus(c):
    think = plain(c, activation="xielu")
    return decoder_only(c, pre("rms", attention(c, qk_norm=True)), pre("rms", think), final="rms")


@family("CwmForCausalLM", "cwm:162, 260", named=True, **TWO)
def cwm(c):
    # every fourth layer sees all, and there is one; the others have a window of 8,192, which is set (line 179)
    attend, think = (attention(c), attention(c, sliding_window=c.sliding_window)), pre("rms", gated(c))
    layers = tuple(group((place,), c.hidden_size, pre("rms", one), think) for place, one in enumerate(attend))
    return decoder_only(c, groups=layers, final="rms")


@family("HyperCLOVAXForCausalLM", "hyperclovax:181, 264", named=True, **TWO)
def hyperclovax(c):
    # the second norm of each branch is on by default (line 275)
    return decoder_only(c, both("rms", attention(c)), both("rms", gated(c)), final="rms")


@family("HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense:153, 224", named=True, head_dim=128, **TWO)
def hunyuan_v1_dense(c):
    return decoder_only(c, pre("rms", attention(c, qk_norm=True)), pre("rms", gated(c)), final="rms")


@family("GPTNeoXJapaneseForCausalLM", "gpt_neox_japanese:136, 310", named=True, **TWO)
def gpt_neox_japanese(c):
    think = plain(c, d_ff=c.intermediate_multiple_size * c.hidden_size)
    attend = attention(c, fused="qkv", fused_by="head", kernel="plain")
    return decoder_only(c, pre("layer", attend), pre("layer", think), final="layer")


@family("FuyuForCausalLM", "fuyu:243; persimmon:176, 300", named=True, text_config={"model_type": "persimmon", **TWO})
def fuyu(c):
    read = c.text_config
    attend, think = attention(read, qk_norm=True, qk_norm_kind="layer", fused="qkv", fused_by="head"), plain(read)
    shown = (f"projection {read.hidden_size}",)  # of the numbers of each patch (line 119)
    found = decoder_only(read, pre("layer", attend), pre("layer", think), final="layer", tied=False, parts=shown)
    return replace(found, towers=tuple(replace(one, among="image") for one in found.towers))


@family("GraniteSWAForCausalLM", "granite_swa:122, 235", named=True, layer_types=[WHOLE, LOCAL, LOCAL, LOCAL], **FOUR)
def granite_swa(c):
    # what the heads found is scaled by sigmoid(logsumexp of the scores - sink), which is a sink (line 111)
    local, whole = (
        pre("rms", attention(c, sinks=True, kernel="plain", unscaled=True, window=window))
        for window in (c.sliding_window, None)
    )
    think = pre("rms", gated(c))
    groups = group((0,), c.hidden_size, whole, think), group((1, 2, 3), c.hidden_size, local, think)
    return decoder_only(c, groups=groups, final="rms")


@family("Cohere2MoeForCausalLM", "cohere2_moe:167, 272, 345", named=True, **FOUR)
def cohere2_moe(c):
    # ten places are within the window of 4,096, which is set (line 284)
    think, window = experts(c, c.num_experts), c.sliding_window
    local = pre("layer", attention(c, window=Silent(window), sliding_window=window), think)
    whole = pre("layer", attention(c, positions="none"), think)
    return decoder_only(c, groups=two_kinds(c, (local,), (whole,), every=4), final="layer")


@family("FlexOlmoForCausalLM", "flex_olmo:200, 334, 350", named=True, **TWO)
def flex_olmo(c):
    attend, think = attention(c, qk_norm=True, qk_norm_over="width"), experts(c, c.num_experts)
    return decoder_only(c, after("rms", attend), after("rms", think), final="rms")


@family("AfmoeForCausalLM", "afmoe:197, 299, 388", named=True, **EVERY_FOURTH, **FOUR)
def afmoe(c):
    # only layers with a window of 1,024 turn by place; two shared experts are one that is twice as wide (line 206)
    window = c.sliding_window  # set (line 333), and wider than ten places
    local = attention(c, qk_norm=True, gate=True, gate_curve="sigmoid", window=Silent(window), sliding_window=window)
    whole = attention(c, qk_norm=True, gate=True, gate_curve="sigmoid", positions="none")
    few = {"shared": 1, "shared_d_ff": c.moe_intermediate_size * c.num_shared_experts}
    sparse = both("rms", experts(c, c.num_experts, d_ff=c.moe_intermediate_size, **few))
    groups = (
        group((0,), c.hidden_size, both("rms", local), both("rms", gated(c))),
        group((1, 2), c.hidden_size, both("rms", local), sparse),
        group((3,), c.hidden_size, both("rms", whole), sparse),
    )
    return decoder_only(c, groups=groups, final="rms")


@family("Ernie4_5_MoeForCausalLM", "ernie4_5_moe:208, 359, 389", named=True, **TWO)
def ernie4_5_moe(c):
    attend = pre("rms", attention(c))
    few = {"shared": 1, "shared_d_ff": c.moe_intermediate_size * c.moe_num_shared_experts}  # all in one (line 370)
    think = experts(c, c.moe_num_experts, chosen=c.moe_k, d_ff=c.moe_intermediate_size, **few)
    groups = (
        group(1, c.hidden_size, attend, pre("rms", gated(c))),
        group((1,), c.hidden_size, attend, pre("rms", think)),
    )
    return decoder_only(c, groups=groups, final="rms")


@family("HYV3ForCausalLM", "hy_v3:199, 368", named=True, **TWO)
def hy_v3(c):
    attend = pre("rms", attention(c, qk_norm=True))
    few = {"shared": 1, "shared_d_ff": c.moe_intermediate_size * c.num_shared_experts}
    think = pre("rms", experts(c, c.num_experts, d_ff=c.moe_intermediate_size, **few))
    groups = group(1, c.hidden_size, attend, pre("rms", gated(c))), group((1,), c.hidden_size, attend, think)
    return decoder_only(c, groups=groups, final="rms")


def space(c):
    shape = Silent("a matrix for each head")
    known = {"by_pieces": True, "kernel": (c.mamba_d_conv,), "filled": (1, c.mamba_chunk_size)}
    return Recurrence("state space", shape, **known)  # type: ignore[arg-type]


@family("BambaForCausalLM", "bamba:182, 840", named=True, attn_layer_indices=[1], **TWO)
def bamba(c):
    state = pre("rms", space(c))
    think = pre("rms", gated(c))
    groups = group(1, c.hidden_size, state, think), group((1,), c.hidden_size, pre("rms", attention(c)), think)
    return decoder_only(c, groups=groups, final="rms")


@family("FalconH1ForCausalLM", "falcon_h1:169, 865", named=True, **TWO)
def falcon_h1(c):
    # both read one norm, and are added together (line 934)
    state = space(c)
    side = Stage((state, attention(c)), True, Norm("rms", "before", None, False))
    return decoder_only(c, side, pre("rms", gated(c)), final="rms")


@family(
    "GraniteMoeHybridForCausalLM",
    "granitemoehybrid:122, 503, 941",
    named=True,
    layer_types=["mamba", "attention"],
    **TWO,
)
def granitemoehybrid(c):
    state = pre("rms", space(c))
    think = pre("rms", experts(c, c.num_local_experts, shared=1, shared_d_ff=c.shared_intermediate_size))
    attend = pre("rms", attention(c, positions="none", unscaled=True))
    groups = group(1, c.hidden_size, state, think), group((1,), c.hidden_size, attend, think)
    return decoder_only(c, groups=groups, final="rms")


@family(
    "DeepseekV4ForCausalLM",
    "deepseek_v4:815, 947, 1121, 1186",
    named=True,
    layer_types=["heavily_compressed_attention", "compressed_sparse_attention"] * 2,
    mlp_layer_types=["hash_moe", "hash_moe", "moe", "moe"],
    **FOUR,
)
def deepseek_v4(c):
    # one row of four streams is worked on, and all are mixed; one linear layer makes what is key and value; rows that
    # stand for 4 places are keys too. Queries alone go through a waist. The compressors choose rows: not placed
    attend = attention(
        c,
        fused="kv",
        kernel="plain",
        sinks=True,
        qk_norm=True,
        v_norm=True,
        values_turned=True,  # line 833
        latent=Silent("of queries"),
    )
    attend = replace(attend, sliding_window=c.sliding_window)  # set (line 792), of the places' own keys
    # which of those rows a place sees is written by a choice among numbers (line 712), of which no trace tells
    beside = {"other_rows": True, "causal": Silent(True)}
    few = {"shared": c.n_shared_experts, "shared_d_ff": c.intermediate_size, **held(c.swiglu_limit)}  # line 1074
    listed, scored = (
        experts(c, c.num_local_experts, d_ff=c.moe_intermediate_size, chosen_by=by, **few) for by in ("table", "router")
    )
    layers = tuple(
        group((place,), c.hidden_size, pre("rms", replace(attend, **(beside if place % 2 else {}))), pre("rms", think))
        for place, think in enumerate((listed, listed, scored, scored))  # the masks of neighbours differ
    )
    text = replace(tower(c, "text", "ids", Silent(True), words(c), layers, "rms"), streams=c.hc_mult)
    text = replace(text, balanced=2 * c.hc_sinkhorn_iters - 1)  # columns first, line 990
    idle = (  # ten places fill no row that stands for 128
        Untold(f"model.layers.{place}.self_attn.compressor.{name}_proj", c.hidden_size * c.head_dim)
        for place in (0, 2)
        for name in ("kv", "gate")
    )
    return network(text, head=Head("vocabulary", c.vocab_size, False), untold=tuple(idle))


@family("NeoMMEForMaskedLM", "neomme:87, 341, 401, 567, 650", named=True, num_hidden_layers=17)
def neomme(c):
    # every attention reads the stream mixed with the first rows; the words of a second table go into the values of the
    # first and the last layer that see all. Windows are wider than the pass, and set as one more (line 309). Patches
    # come in as rows, and are made as wide as the words by a small network of their own (lines 86-87)
    windows = [one.sliding_window and one.sliding_window + 1 for one in c.per_layer_config]
    turned = c.head_dim // 4  # of layers that see all (line 134)
    attend = looks_both_ways(c, positions="rotary", qk_norm=True, gate=True, gate_curve="sigmoid")
    think = replace(pre("rms", plain(c, activation="relu squared")), scale="number")
    seeing = [place for place, one in enumerate(windows) if one is None]
    kinds = [(one, one is None and place in (seeing[0], seeing[-1])) for place, one in enumerate(windows)]
    layers = tuple(
        group(
            tuple(place for place, one in enumerate(kinds) if one == kind),
            c.hidden_size,
            Stage(
                (replace(attend, sliding_window=kind[0], turned=None if kind[0] else turned),),
                False,
                think.norm,
                "number",
            ),
            think,
        )
        for kind in dict.fromkeys(kinds)
    )
    shown = ("norm", f"projection {2 * c.hidden_size}", f"projection {c.hidden_size}")
    parts = entrance(f"words {c.vocab_size}", f"projection {c.hidden_size}", *shown, "norm")
    text = tower(c, "text", "ids", False, parts, layers, "rms", among="image")
    rows = c.vocab_size * c.num_key_value_heads * c.head_dim
    return network(text, head=Head("vocabulary", c.vocab_size, True), untold=(Untold("model.value_embeddings", rows),))


@family("CpmAntForCausalLM", "cpmant:61, 162, 525", named=True, **TWO)
def cpmant(c):
    # prompts that were counted out stand before the words in one table; a word's kind is added. The mask lets a prompt
    # see all (line 589); its head scores the words without the prompts
    rows = c.vocab_size + c.prompt_types * c.prompt_length
    attend = attention(c, kernel="plain", positions="relative", causal=False, d_k=c.dim_head, within_a_kind=True)
    layers = group(2, c.hidden_size, pre("rms", attend), pre("rms", gated(c, d_ff=c.dim_ff, activation="gelu")))
    parts = entrance(f"words {rows}", f"table {c.segment_types}")
    text = tower(c, "text", "ids", False, parts, (layers,), "rms", vocab=rows)
    return network(text, head=Head("vocabulary", c.vocab_size, False))


@family("Jais2ForCausalLM", "jais2:128, 195", named=True, **TWO)
def jais2(c):
    return decoder_only(c, pre("layer", attention(c)), pre("layer", plain(c)), final="layer")


@family("MellumForCausalLM", "mellum:201, 363", named=True, **TWO)
def mellum(c):
    think = experts(c, c.num_experts, d_ff=c.moe_intermediate_size)
    return decoder_only(c, pre("rms", attention(c, qk_norm=True)), pre("rms", think), final="rms")


@family("MiniMaxM2ForCausalLM", "minimax_m2:276, 340", named=True, **TWO)
def minimax_m2(c):
    attend = attention(c, qk_norm=True, qk_norm_over="width")
    return decoder_only(c, pre("rms", attend), pre("rms", experts(c, c.num_experts)), final="rms")


@family("MinistralForCausalLM", "ministral:136, 219", named=True, head_dim=128, **TWO)
def ministral(c):
    # ten places are within the window of 4,096, which is set (line 154)
    attend = attention(c, window=Silent(c.sliding_window), sliding_window=c.sliding_window)
    return decoder_only(c, pre("rms", attend), pre("rms", gated(c)), final="rms")


@family("MoshiForCausalLM", "moshi:411, 497", named=True, **TWO)
def moshi(c):
    # the table has one row more than there are words, and the head scores the words
    rows = c.vocab_size + 1
    think = gated(c, d_ff=c.ffn_dim // 2, activation="silu", fused=True)
    attend = attention(c, sliding_window=c.sliding_window)  # set (line 510); the cache alone keeps to it
    layers = group(2, c.hidden_size, pre("rms", attend), pre("rms", think))
    text = tower(c, "text", "ids", True, entrance(f"words {rows}"), (layers,), "rms", vocab=rows)
    return network(text, head=Head("vocabulary", c.vocab_size, False))


@family("VaultGemmaForCausalLM", "vaultgemma:186, 296, 509", named=True, **TWO)
def vaultgemma(c):
    # scores are capped before softmax and behind the head; every other layer has a window of 4,096
    attend = attention(c, kernel="plain", cap=c.attn_logit_softcapping)
    think = pre("rms", gated(c))
    layers = tuple(
        group((place,), c.hidden_size, pre("rms", one), think)
        for place, one in enumerate((replace(attend, window=c.sliding_window), attend))
    )
    return decoder_only(c, groups=layers, final="rms", parts=("scale",))
