"""Encoders with decoders. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    attention,
    both,
    entrance,
    family,
    gated,
    group,
    head_of,
    looks_both_ways,
    looks_by_distance,
    memory,
    network,
    plain,
    post,
    pre,
    tower,
    words,
)

from xray.story.anatomy.branches import Experts
from xray.story.anatomy.tree import Head

FUSED = "scaled_dot_product_attention"


def of_t5(c, think, *, kernel=FUSED, tied=True):
    """T5 and its kin: relative positions in every attention that looks at itself, no scale, no bias."""
    sizes = {"heads": c.num_heads, "d_k": c.d_kv, "unscaled": True}
    look = looks_both_ways(c, **sizes, positions="relative", kernel=kernel)
    ahead = attention(c, **sizes, positions="relative", kernel=kernel)
    ask = looks_both_ways(c, **sizes, source="encoder", kernel=kernel)
    encode = tower(
        c,
        "encoder",
        "ids",
        False,
        words(c),
        (group(c.num_layers, c.d_model, pre("rms", look), pre("rms", think)),),
        "rms",
    )
    stages = (pre("rms", ahead), pre("rms", ask), pre("rms", think))
    decode = tower(c, "decoder", "ids", True, words(c), (group(c.num_decoder_layers, c.d_model, *stages),), "rms")
    scale = c.d_model**-0.5 if getattr(c, "scale_decoder_outputs", True) else None  # t5:1044, longt5:1738
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=head_of(c, tied, scale))


@family("T5ForConditionalGeneration", "t5:176, 435", num_layers=2, num_decoder_layers=2, fast=True, named=True)
def t5(c):
    return of_t5(c, plain(c, d_ff=c.d_ff, activation="relu"))


@family(
    "T5ForConditionalGeneration",
    "t5:176, 435",
    num_layers=2,
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
    named=True,
)
def t5_gated(c):
    return of_t5(c, gated(c, d_ff=c.d_ff, activation="gelu tanh"), tied=True)


@family("UMT5ForConditionalGeneration", "umt5:188, 433", num_layers=2, num_decoder_layers=2, named=True)
def umt5(c):
    return of_t5(c, gated(c, d_ff=c.d_ff, activation="gelu tanh"))


@family("LongT5ForConditionalGeneration", "longt5:336, 1068", num_layers=2, num_decoder_layers=2, named=True)
def longt5(c):
    # the encoder cuts the places into blocks of 128, each of which looks at itself and its neighbours
    sizes = {"heads": c.num_heads, "d_k": c.d_kv, "unscaled": True}
    look = looks_both_ways(c, **sizes, positions="relative", kernel="plain", causal=Silent(False), window=255)
    ahead = attention(c, **sizes, positions="relative", kernel="plain")
    ask = looks_both_ways(c, **sizes, source="encoder", kernel="plain")
    think = plain(c, d_ff=c.d_ff, activation="relu")
    encode = tower(
        c,
        "encoder",
        "ids",
        Silent(False),
        words(c),
        (group(2, c.d_model, pre("rms", look), pre("rms", think)),),
        "rms",
    )
    stages = (pre("rms", ahead), pre("rms", ask), pre("rms", think))
    decode = tower(c, "decoder", "ids", True, words(c), (group(2, c.d_model, *stages),), "rms")
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=head_of(c, True, c.d_model**-0.5))


def of_bart(c, place, *, parts, decoder_parts=None, final, tied=True, reads="ids", encoder_parts=None, kernel=FUSED):
    """BART and its kin: the decoder's sizes may be others than the encoder's."""
    think = plain(c, d_ff=c.encoder_ffn_dim)
    look = looks_both_ways(c, heads=c.encoder_attention_heads, kernel=kernel)
    several = {"heads": c.decoder_attention_heads, "kv_heads": c.decoder_attention_heads, "kernel": kernel}
    ahead = attention(c, **several, positions="none")
    ask = looks_both_ways(c, **several, source="encoder")
    layers = (group(c.encoder_layers, c.d_model, place("layer", look), place("layer", think)),)
    before = words(c, *parts) if encoder_parts is None else encoder_parts
    encode = tower(c, "encoder", reads, False, before, layers, final)
    answer = plain(c, d_ff=c.decoder_ffn_dim)
    layers = (group(c.decoder_layers, c.d_model, place("layer", ahead), place("layer", ask), place("layer", answer)),)
    decode = tower(c, "decoder", "ids", True, words(c, *(decoder_parts or parts)), layers, final)
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, tied))


SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "d_model": 48,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 77,
    "decoder_ffn_dim": 91,
    "vocab_size": 131,
    "max_position_embeddings": 64,
}


@family("BartForConditionalGeneration", "bart:143, 260", tiny=True, fast=True, **SMALL)
def bart(c):
    parts = (f"learned positions {c.max_position_embeddings + 2}", "norm")
    return of_bart(c, post, parts=parts, final=None)


@family("MvpForConditionalGeneration", "mvp:122, 254, 327", named=True, encoder_layers=2, decoder_layers=2)
def mvp(c):
    return of_bart(c, post, parts=(f"positions {c.max_position_embeddings + 2}", "norm"), final=None, kernel="plain")


@family("MBartForConditionalGeneration", "mbart:151, 268", tiny=True, **SMALL)
def mbart(c):
    parts = (f"positions {c.max_position_embeddings + 2}", "norm")
    return of_bart(c, pre, parts=parts, final="layer")


@family("MarianMTModel", "marian:76, 136, 254", tiny=True, pad_token_id=0, decoder_start_token_id=0, **SMALL)
def marian(c):
    return of_bart(c, post, parts=(f"sines frozen positions {c.max_position_embeddings}",), final=None)


@family("PegasusForConditionalGeneration", "pegasus:78, 138, 256", tiny=True, **SMALL)
def pegasus(c):
    return of_bart(c, pre, parts=(f"sines frozen positions {c.max_position_embeddings}",), final="layer")


@family("BlenderbotForConditionalGeneration", "blenderbot:129, 247", tiny=True, **SMALL)
def blenderbot(c):
    return of_bart(c, pre, parts=(f"positions {c.max_position_embeddings}",), final="layer")


@family("M2M100ForConditionalGeneration", "m2m_100:215, 333", tiny=True, **SMALL)
def m2m_100(c):
    # the table of sines has two rows more than there are places
    return of_bart(c, pre, parts=("scale", f"sines positions {c.max_position_embeddings + 2}"), final="layer")


@family(
    "WhisperForConditionalGeneration",
    "whisper:242, 362, 573",
    encoder_layers=2,
    decoder_layers=2,
    fast=True,
)
def whisper(c):
    return of_bart(
        c,
        pre,
        parts=(f"learned positions {c.max_target_positions}",),
        encoder_parts=entrance(f"convolution {c.d_model}", f"frozen positions {c.max_source_positions}"),
        final="layer",
        reads="audio",
    )


@family(
    "MoonshineModel",
    "moonshine:232, 354",
    encoder_num_hidden_layers=2,
    decoder_num_hidden_layers=2,
)
def moonshine(c):
    heads = {"heads": c.encoder_num_attention_heads, "kv_heads": c.encoder_num_key_value_heads}
    encode = tower(
        c,
        "encoder",
        "audio",
        False,
        entrance(f"convolution {c.hidden_size}"),
        (
            group(
                2,
                c.hidden_size,
                pre("layer", looks_both_ways(c, **heads, positions="rotary")),
                pre("layer", plain(c, activation="gelu")),
            ),
        ),
        "layer",
    )
    ask = looks_both_ways(c, **heads, source="encoder")
    think = gated(c, activation="silu", fused=True)
    layers = (group(2, c.hidden_size, pre("layer", attention(c, **heads)), pre("layer", ask), pre("layer", think)),)
    decode = tower(c, "decoder", "ids", True, words(c), layers, "layer")
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("none"))


@family("BigBirdPegasusForConditionalGeneration", "bigbird_pegasus:1265, 1352", named=True, **SMALL)
def bigbird_pegasus(c):
    # ten places are too few for its blocks; attention has no kernel of its own, and no bias
    return of_bart(c, pre, parts=("scale", f"positions {c.max_position_embeddings}"), final="layer", kernel="plain")


@family("LEDForConditionalGeneration", "led:864, 936", named=True, encoder_layers=2, decoder_layers=2)
def led(c):
    # scores lie in columns of distances: each place sees half a window on each side
    attend = looks_by_distance(c, c.encoder_attention_heads, c.d_model, c.attention_window)
    places = f"positions {c.max_encoder_position_embeddings}"
    think = plain(c, d_ff=c.encoder_ffn_dim)
    layers = (group(2, c.d_model, post("layer", attend), post("layer", think)),)
    encode = tower(c, "encoder", "ids", False, words(c, places, "norm"), layers, None)
    heads = {"heads": c.decoder_attention_heads, "kernel": "plain"}
    ahead = attention(c, **heads, positions="none")
    ask = looks_both_ways(c, **heads, source="encoder")
    answer = plain(c, d_ff=c.decoder_ffn_dim)
    layers = (group(2, c.d_model, *(post("layer", branch) for branch in (ahead, ask, answer))),)
    places = f"positions {c.max_decoder_position_embeddings}"
    decode = tower(c, "decoder", "ids", True, words(c, places, "norm"), layers, None)
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, True))


@family(
    "SwitchTransformersForConditionalGeneration",
    "switch_transformers:188, 369",
    named=True,
    num_layers=4,
    num_decoder_layers=4,
    num_sparse_encoder_layers=2,
    num_sparse_decoder_layers=2,
)
def switch_transformers(c):
    # every other layer has experts, of which one is chosen
    sizes = {"heads": c.num_heads, "d_k": c.d_kv, "kernel": "plain", "unscaled": True}
    look = looks_both_ways(c, **sizes, positions="relative")
    ahead = attention(c, **sizes, positions="relative")
    ask = looks_both_ways(c, **sizes, source="encoder")
    think = plain(c, d_ff=c.d_ff, activation="relu")
    chosen = Experts(c.num_experts, 1, 0, c.d_ff, "relu", False, "router", capacity=c.expert_capacity)

    def layers(*branches):
        return tuple(
            group(numbers, c.d_model, *(pre("rms", branch) for branch in (*branches, last)))
            for numbers, last in (((0, 2), think), ((1, 3), chosen))
        )

    encode = tower(c, "encoder", "ids", False, words(c), layers(look), "rms")
    decode = tower(c, "decoder", "ids", True, words(c), layers(ahead, ask), "rms")
    head = head_of(c, True, c.d_model**-0.5)  # line 1029
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=head)


@family("SpeechT5ForSpeechToText", "speecht5:872, 1027, 1095", named=True, encoder_layers=2, decoder_layers=2)
def speecht5(c):
    # sound goes through convolutions, and a table of sines; keys know how far they are away
    sizes = {"heads": c.encoder_attention_heads, "kernel": "plain"}
    look = looks_both_ways(c, **sizes, positions="relative", places_by_rows=True)
    think = plain(c, d_ff=c.encoder_ffn_dim, activation="gelu")
    layers = (group(2, c.hidden_size, post("layer", look), post("layer", think)),)
    places = f"positions {c.max_speech_positions + c.pad_token_id + 3}"
    before = entrance("norm", f"projection {c.hidden_size}", f"convolution {c.hidden_size}", places, "norm")
    encode = tower(c, "encoder", "audio", False, before, layers, None)
    sizes["heads"] = c.decoder_attention_heads
    ahead = attention(c, **sizes, positions="none")
    ask = looks_both_ways(c, **sizes, source="encoder")
    think = plain(c, d_ff=c.decoder_ffn_dim, activation="gelu")
    layers = (group(2, c.hidden_size, *(post("layer", branch) for branch in (ahead, ask, think))),)
    places = f"sines positions {c.max_text_positions + c.pad_token_id + 3}"
    decode = tower(c, "decoder", "ids", True, words(c, places), layers, None)
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, True))


TEXT = {"num_hidden_layers": 6, "hidden_size": 96, "intermediate_size": 160, "vocab_size": 211, "head_dim": 24}


@family(
    "T5Gemma2ForConditionalGeneration",
    "t5gemma2:314, 434, 486",
    named=True,
    encoder={"text_config": TEXT, "vision_config": {"num_hidden_layers": 2}},
    decoder=TEXT,
)
def t5gemma2(c):
    # one softmax over the decoder's own keys, of which none is ahead, and those that the same weights make of the
    # encoder's end and no place turns (lines 371 to 392); windows are set and wider than the rows, in the encoder by
    # its mask alone
    read, write = c.encoder.text_config, c.decoder
    look = looks_both_ways(read, qk_norm=True, positions="rotary")
    local = looks_both_ways(read, qk_norm=True, positions="rotary", sliding_window=read.sliding_window)
    think = both("rms", gated(read))
    groups = (
        group(range(5), read.hidden_size, both("rms", local), think),
        group((5,), read.hidden_size, both("rms", look), think),
    )
    joint = attention(write, qk_norm=True, beside="encoder", beside_unturned=True)
    windowed = both("rms", replace(joint, sliding_window=write.sliding_window))
    layers = (
        group(range(5), write.hidden_size, windowed, think),
        group((5,), write.hidden_size, both("rms", joint), think),
    )
    return network(
        tower(read, "encoder", "ids", False, words(read, "scale"), groups, "rms"),
        tower(write, "decoder", "ids", True, words(write, "scale"), layers, "rms"),
        links=(memory("encoder", "decoder"),),
        head=Head("vocabulary", write.vocab_size, True),
    )
