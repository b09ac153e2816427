"""Networks of families whose names begin with p to z. The code is that of transformers 5.23."""

from dataclasses import replace
from itertools import pairwise

from story.body.images import count_patches
from story.body.truth import (
    Silent,
    after,
    attention,
    decoder_only,
    encoder_only,
    entrance,
    experts,
    family,
    gated,
    group,
    left_out,
    looks_both_ways,
    network,
    plain,
    post,
    pre,
    tower,
)

from xray.story.anatomy.beside_layers import Bridge, EntrancePart, Span
from xray.story.anatomy.branches import FeedForward, PlaceMixing, Recurrence, StateHeads
from xray.story.anatomy.tree import Head, Link

TWO = {"num_hidden_layers": 2}


@family("SqueezeBertForMaskedLM", "squeezebert:136, 156, 310", named=True, **TWO)
def squeezebert(c):
    # channels stand before places all the way: linear layers are convolutions of one place
    look = looks_both_ways(c, kernel="plain", partial=True)
    parts = (f"positions {c.max_position_embeddings}", f"table {c.type_vocab_size}", "norm")
    return encoder_only(c, post("layer", look), post("layer", plain(c)), final=None, parts=parts)


@family("TimesformerModel", "timesformer:339, 357, 390", named=True, **TWO)
def timesformer(c):
    # each patch looks at itself in every frame, the class token goes by; then at all of its frame and at that token
    look = looks_both_ways(c, fused="qkv", kernel="plain", rolled=False)
    frames, patches = (replace(look, window=seen) for seen in (c.num_frames, count_patches(c) + 1))
    stages = (replace(pre("layer", frames), others=()), pre("layer", patches), pre("layer", plain(c)))
    places = (f"positions {count_patches(c) + 1}",)  # rows of moments (`time_embeddings`) are not called places
    parts = entrance(f"patches {c.hidden_size}", "class token 1", *places)
    seen = tower(c, "vision", "video", False, parts, (group(2, c.hidden_size, *stages),), "layer")
    return network(seen, head=Head("none"))


@family("VJEPA2Model", "vjepa2:373, 490, 551", named=True, num_hidden_layers=2, pred_num_hidden_layers=2)
def vjepa2(c):
    # a narrower stack of its own guesses the patches that were left out; a third of a head, made even, tells each axis
    width, heads = c.pred_hidden_size, c.pred_num_attention_heads
    # neighbours meet (line 200), whose angles are tiled (line 194): no pair is turned
    see = looks_both_ways(c, positions="waves", turned=60)
    guess = looks_both_ways(c, positions="waves", heads=heads, kv_heads=heads, d_k=width // heads, turned=30)
    wide = int(c.hidden_size * c.mlp_ratio), int(width * c.pred_mlp_ratio)
    think = [FeedForward(d_ff, "gelu", False, None) for d_ff in wide]
    seen = group(2, c.hidden_size, pre("layer", see), pre("layer", think[0]))
    guessed = group(2, width, pre("layer", guess), pre("layer", think[1]))
    parts = entrance(f"patches {c.hidden_size}")
    first = tower(c, "vision", "video", False, parts, (seen,), "layer")
    second = tower(c, "stack", None, False, entrance(f"projection {width}"), (guessed,), "layer")
    return network(first, second, links=(Link("joined", "vision", "stack"),), head=Head("none"))


@family("xLSTMForCausalLM", "xlstm:425, 989, 1172", **TWO)
def xlstm(c):
    # the larger of two gates is taken, number by number: nothing is chosen
    heads, d_k, d_v = c.num_heads, c.qk_dim // c.num_heads, c.v_dim // c.num_heads
    told = StateHeads(heads, heads, d_k, d_v, fades=True, writes="exp", by_keys=True)  # lines 425–442
    state = Recurrence("linear attention", (2, heads, d_k, d_v), heads=told)
    wide = FeedForward(10_944, "silu", True, False)
    return decoder_only(c, pre("rms", state), pre("rms", wide), final="rms", causal=None)


@family("ZayaForCausalLM", "zaya:259, 475, 558", named=True, **TWO)
def zaya(c):
    # one score more than there are experts is for none of them; branch and stream are shifted and scaled before a sum,
    # and words before all layers
    look = attention(c, qk_norm=True, qk_norm_kind=None, kernel="scaled_dot_product_attention", turned=c.head_dim // 2)
    wide = c.num_key_value_heads * c.head_dim
    look = replace(look, mixed_before=2, values_before=(wide // 2, wide))  # lines 158, 222–238
    sizes = {"shared": 0, "d_ff": c.moe_intermediate_size, "chosen": Silent("one, or none")}
    few = experts(c, c.num_experts, activation="silu", chosen_or_none=c.num_experts_per_tok, **sizes)  # line 558
    both = (few, replace(few, earlier_router=True))  # lines 521, 544
    stages = [
        [replace(pre("rms", one), scale="learned", stream_scale="learned") for one in (look, own)] for own in both
    ]
    last = range(1, c.num_hidden_layers)
    groups = (group((0,), c.hidden_size, *stages[0]), group(tuple(last), c.hidden_size, *stages[1]))
    return decoder_only(c, groups=groups, final="rms", parts=("scale",))


@family("PixtralVisionModel", "pixtral:262, 425, 453", named=True, **TWO)
def pixtral(c):
    # two images lie in one row, and a mask lets each see itself (pixtral:361, 453)
    look = looks_both_ways(c, positions="rotary", pieces=2)
    layers = group(2, c.hidden_size, pre("rms", look), pre("rms", gated(c)))
    parts = entrance(f"patches {c.hidden_size}", "norm")
    return network(tower(c, "vision", "image", False, parts, (layers,), None), head=Head("none"))


@family("PatchTSMixerModel", "patchtsmixer:53, 355, 425", named=True, num_layers=2)
def patchtsmixer(c):
    # patches are mixed first, then the numbers of each; both are multiplied by shares that are worked out of them
    each = plain(c, d_ff=c.d_model * c.expansion_factor, activation="gelu", gated=Silent("by shares"))
    pieces = (c.context_length - c.patch_length) // c.patch_stride + 1
    stages = (pre("layer", PlaceMixing(pieces, pieces * c.expansion_factor, "gelu")), pre("layer", each))
    held = tower(
        c, "stack", "vectors", None, entrance(f"projection {c.d_model}"), (group(2, c.d_model, *stages),), None
    )
    return network(held, head=Head("none"))


@family(
    "Qwen2_5_VisionTransformerPretrainedModel", "qwen2_5_vl:337, 463", named=True, depth=4, fullatt_block_indexes=[3]
)
def qwen2_5_vl_vision(c):
    # all but one layer see windows of 8 x 8 patches; two images of 16 x 16 lie in one row, and attend one by one (256)
    # the norm behind the last layer is the merger's (qwen2_5_vl:126)
    look = looks_both_ways(c, heads=c.num_heads, positions="rotary", fused="qkv", pieces=2)
    near = replace(look, window=(c.window_size // c.patch_size) ** 2, rolled=False, pieces=8)
    think = pre("rms", gated(c))
    groups = (group(3, c.hidden_size, pre("rms", near), think), group((3,), c.hidden_size, pre("rms", look), think))
    parts = entrance(f"patches {c.hidden_size}")
    return network(tower(c, "vision", "image", False, parts, groups, None), head=Head("none"))


@family("Swin2SRModel", "swin2sr:514, 608, 787", named=True, depths=[4, 4], num_heads=[6, 6])
def swin2sr(c):
    # sums around each stage, and around the whole, go past the layers
    width = c.embed_dim
    look = looks_both_ways(c, heads=6, d_k=width // 6, positions="relative", qk_norm=True, kernel="plain")
    look = replace(look, window=c.window_size**2, qk_norm_kind=None, rolled=False)
    moved = replace(look, rolled=True, causal=Silent(False), kept_apart=200)  # the mask is added twice
    think = after("layer", FeedForward(int(c.mlp_ratio * width), "gelu", False, None))
    groups = tuple(
        group(range(first, first + 4, 2), width, after("layer", one), think)
        for first, one in ((0, look), (1, moved), (4, look), (5, moved))
    )
    parts, bridges = entrance(f"convolution {width}", "norm"), (Bridge(4, None, width, width),)
    spans = Span(0, 3, made=True), Span(4, 7, made=True)
    seen = tower(c, "vision", "image", None, parts, groups, "layer", bridges=bridges, spans=spans)
    left = left_out("encoder.stages.1.conv", "encoder.stages.1.patch_embed", "conv_after_body")
    return network(seen, head=Head("none"), untold=left)


@family("Qwen3ASREncoder", "qwen3_asr:175, 320, 349", named=True, encoder_layers=2, num_hidden_layers=2)
def qwen3_asr_encoder(c):
    # what two recordings sound like lies in one row of places, each window of which attends by itself
    parts = entrance(f"convolution {c.downsample_hidden_size}", f"projection {c.d_model}", "sines positions 13")
    look = looks_both_ways(c, heads=c.encoder_attention_heads, d_k=c.d_model // c.encoder_attention_heads, pieces=2)
    layers = (group(2, c.d_model, pre("layer", look), pre("layer", plain(c, d_ff=c.encoder_ffn_dim))),)
    return network(tower(c, "audio", "audio", False, parts, layers, "layer"), head=Head("none"))


@family("VideoPrismVisionModel", "videoprism:208, 372, 533, 564", named=True, num_spatial_layers=3)
def videoprism_vision(c):
    # the patches of each picture see each other, then the moments of each patch: a tower each, with its places and norm
    patches, think = (c.image_size // 18) ** 2, pre("layer", plain(c, activation="gelu"))
    within, across = (
        pre("layer", looks_both_ways(c, kernel="plain", cap=c.attn_logit_softcapping, partial=True, together=count))
        for count in (patches, c.num_frames)
    )
    parts = entrance(f"patches {c.hidden_size}", f"positions {patches}")
    space = tower(c, "vision", "video", False, parts, (group(3, c.hidden_size, within, think),), "layer")
    layers = (group(c.num_temporal_layers, c.hidden_size, across, think),)
    time = tower(c, "stack", None, False, entrance(f"positions {c.num_frames}"), layers, "layer")
    return network(space, time, links=(Link("joined", "vision", "stack"),), head=Head("none"))


@family("Sam2HieraDetModel", "sam2:290, 338, 476, 516, 532", named=True)
def sam2_hiera_det_model(c):
    # the first layer of a later stage pools its queries, in windows of the stage before, and the stream on its way past
    starts = [sum(c.blocks_per_stage[:stage]) for stage in range(4)]
    held = {}
    for layer in range(sum(c.blocks_per_stage)):
        stage = sum(layer >= one for one in starts) - 1
        is_first, is_whole = layer in starts[1:], layer in c.global_attention_blocks
        size = None if is_whole else c.window_size_per_stage[stage - is_first] ** 2
        width, heads = c.embed_dim_per_stage[stage], c.num_attention_heads_per_stage[stage]
        look = looks_both_ways(c, heads=heads, d_k=width // heads, fused="qkv", window=size)
        look = replace(look, rolled=None if is_whole else False, pooled=4 if is_first else None)
        held.setdefault((look, width), []).append(layer)
    past = {look: ("norm", "linear", "pool") if look.pooled else None for look, _ in held}
    groups = [
        group(
            layers,
            width,
            replace(pre("layer", look), past=past[look]),
            pre("layer", plain(c, d_ff=4 * width, activation="gelu")),
        )
        for (look, width), layers in held.items()
    ]
    pairs = zip(starts[1:], pairwise(c.embed_dim_per_stage), strict=True)
    bridges = tuple(Bridge(start, 4, *pair, within=True) for start, pair in pairs)
    parts = (*entrance(f"convolution {c.hidden_size}"), EntrancePart("positions", None))
    ends = tuple(start - 1 for start in starts[1:])  # what each stage ends with is handed out (sam2:532)
    held = tower(c, "vision", "image", False, parts, groups, None, bridges=bridges, tapped=ends)
    return network(held, head=Head("none"))


@family("Ministral3ForCausalLM", "ministral3:111, 219", named=True, **TWO)
def ministral3(c):
    attend = attention(c, queries_by_place="place")
    return decoder_only(c, pre("rms", attend), pre("rms", gated(c)), final="rms", tied=False)
