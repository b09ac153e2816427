"""Families that were drawn at random and audited by hand. The code is that of transformers 5.23."""

from dataclasses import replace
from itertools import pairwise

from story.body.more_encoders import of_bert
from story.body.truth import (
    after,
    attention,
    both,
    decoder_only,
    entrance,
    family,
    gated,
    group,
    looks_both_ways,
    network,
    plain,
    pre,
    sees_images,
    tower,
    words,
)

from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import Convolution, Recurrence, StateHeads
from xray.story.anatomy.tree import Head, Norm, Untold

TWO = {"num_hidden_layers": 2}


@family("Gemma4ForCausalLM", "gemma4:1372, 1414, 1424, 1493", named=True, name="gemma4_text", num_hidden_layers=6)
def gemma4_text(c):
    # each layer ends with rows of its own out of a second table of the words, gated by the stream (lines 1421 to 1425),
    # and all is multiplied by one number then (line 1428); every sixth layer sees all, with wider heads
    one, other = c.per_layer_config[0], c.per_layer_config[5]
    local = attention(one, qk_norm=True, v_norm=True, unscaled=True, sliding_window=c.sliding_window)
    # of the wider heads a part is turned: the frequencies behind it are 0 (modeling_rope_utils)
    turned = int(other.head_dim * c.rope_parameters["full_attention"].get("partial_rotary_factor", 1))
    turned = turned if turned < other.head_dim else None
    whole = attention(other, qk_norm=True, v_norm=True, unscaled=True, turned=turned)
    rows = replace(plain(c), d_ff=c.hidden_size_per_layer_input, gated=None, gates_beside=True)
    beside = replace(after("rms", rows), stream_scale="after")
    kinds = ((local, range(5)), (whole, (5,)))
    groups = (group(places, c.hidden_size, both("rms", one), both("rms", gated(c)), beside) for one, places in kinds)
    text = tower(c, "text", "ids", True, words(c, "scale"), tuple(groups), "rms")
    return network(replace(text, conditioned=("gates",)), head=Head("vocabulary", c.vocab_size, True))


@family("LasrEncoder", "lasr:60, 397, 470", named=True, **TWO)
def lasr_encoder(c):
    # the stream counts 1.5 times at feed-forwards and twice at convolutions (lines 403 and 415)
    attend = looks_both_ways(c, positions="rotary")
    think = pre("layer", plain(c, activation="silu"))
    louder = {"scale": "number", "stream_scale": "before"}
    first, mix = replace(think, **louder), pre("layer", Convolution((c.conv_kernel_size,), c.hidden_size))
    last = replace(think, norm=Norm("layer", "both", "stream", False), **louder)
    mix = replace(mix, stream_scale="before")
    parts = entrance(
        f"projection {c.hidden_size}", f"convolution {c.subsampling_conv_channels}", f"projection {c.hidden_size}"
    )
    layers = group(2, c.hidden_size, first, pre("layer", attend), mix, last)
    return network(tower(c, "audio", "audio", False, parts, (layers,), "layer"), head=Head("none"))


@family("Lfm3ForCausalLM", "lfm3:365, 422", named=True, num_hidden_layers=6)
def lfm3(c):
    local = attention(c, qk_norm=True, gate=True, gate_curve="sigmoid", sliding_window=c.sliding_window)
    # where all is seen half of a head is turned: the frequencies behind it are 0 (modeling_rope_utils)
    turned = int(c.head_dim * c.rope_parameters["full_attention"]["partial_rotary_factor"])
    attend = replace(local, sliding_window=None, turned=turned)
    mix, think = Convolution((c.conv_L_cache,), c.hidden_size, causal=True), both("rms", gated(c, activation="silu"))
    kinds = ((mix, (0, 1, 3, 5)), (attend, (2,)), (local, (4,)))
    groups = tuple(group(places, c.hidden_size, both("rms", one), think) for one, places in kinds)
    return decoder_only(c, groups=groups, final="rms")


@family("OlmoHybridForCausalLM", "olmo_hybrid:750, 796", named=True, num_hidden_layers=4)
def olmo_hybrid(c):
    keys, values = c.linear_num_key_heads, c.linear_num_value_heads
    d_k, d_v = c.linear_key_head_dim, c.linear_value_head_dim
    told = StateHeads(keys, values, d_k, d_v, by_length=True, corrects=True, in_order=True, fades=True)
    # what is written is multiplied by twice a sigmoid: that is not told
    shape, kernel = (2, values, d_k, d_v), (c.linear_conv_kernel_dim,)
    line = pre("rms", Recurrence("linear attention", shape, by_pieces=True, heads=told, kernel=kernel, filled=(1, 64)))
    look = after("rms", attention(c, qk_norm=True, qk_norm_over="width"))
    groups = (
        group((0, 1, 2), c.hidden_size, line, pre("rms", gated(c))),
        group((3,), c.hidden_size, look, after("rms", gated(c))),
    )
    return decoder_only(c, groups=groups, final="rms")


@family("SplinterModel", "splinter:60, 230, 330", named=True, **TWO)
def splinter(c):
    return of_bert(c, head=False, attend=looks_both_ways(c, kernel="plain"))


@family("VibeVoiceAcousticTokenizerEncoderModel", "vibevoice_acoustic_tokenizer:256, 328, 386", named=True)
def vibevoice_hears(c):
    # every sublayer is scaled channel by channel (lines 266 and 267); a convolution stands between any two stages
    # that of the last stage, which has no more than six places, reaches over all of them
    places, groups = 0, []
    for stage, depth in enumerate(c.depths):
        width, is_wide = c.num_filters * 2**stage, stage == len(c.depths) - 1 or None
        mix = Convolution((c.kernel_size,), width, causal=True, is_wide=is_wide)
        mix = replace(pre("rms", mix), scale="learned")
        think = replace(pre("rms", plain(c, d_ff=c.ffn_expansion * width)), scale="learned")
        groups.append(group(range(places, places + depth), width, mix, think))
        places += depth
    bridges, length = [], 17280
    for (before, behind), ratio in zip(pairwise(groups), c.downsampling_ratios, strict=True):
        bridges.append(Bridge(behind.layers[0], None if length % ratio else ratio, before.d_model, behind.d_model))
        length //= ratio
    parts = entrance(f"convolution {c.num_filters}")
    # its argument is called `hidden_states`, which tells of no sound
    heard = tower(c, "stack", None, None, parts, groups, None, bridges=tuple(bridges))
    last = Untold("head", (c.kernel_size * groups[-1].d_model + 1) * c.hidden_size)  # it ends all, and has no name
    return network(heard, head=Head("none"), untold=(last,))


@family("MiniCPMV4_7VisionModel", "minicpmv4_7:242, 304, 479", named=True, num_hidden_layers=3, insert_layer_id=1)
def minicpmv4_7_sees(c):
    # behind the second layer four rows become one, in a layer of its own kind: attention within each window of 2 × 2,
    # and a feed-forward of the four rows side by side (lines 361 and 385); two images lie in one row, each for itself
    attend = looks_both_ways(c, pieces=2)
    few = replace(attend, window=4, rolled=False, pieces=2 * 49)
    merge = plain(c, d_ff=c.window_intermediate_size, activation="gelu tanh", joined=4)
    whole = (pre("layer", attend), pre("layer", plain(c)))
    groups = (
        group((0, 1), c.hidden_size, *whole),
        group((2,), c.hidden_size, pre("layer", few), replace(pre("layer", merge), past=("pool",))),  # line 388
        group((3,), c.hidden_size, *whole),
    )
    parts = entrance(f"patches {c.hidden_size}", "learned positions 196")
    return sees_images(c, groups=groups, final="layer", parts=parts, head=Head("none"), unlisted=(2,))
