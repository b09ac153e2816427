"""Encoders with decoders. The code is that of transformers 5.23."""

from story.body.truth import (
    Silent,
    attention,
    entrance,
    family,
    gated,
    group,
    looks_both_ways,
    memory,
    network,
    plain,
    post,
    pre,
    tower,
    words,
)

from xray.story.body.tree import Head


def of_t5(c, think, *, kernel="scaled_dot_product_attention", tied=True):
    """T5 and its kin: relative positions in every attention that looks at itself, no scale, no bias."""
    sizes = {"heads": c.num_heads, "d_k": c.d_kv}
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
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, tied))


@family("T5ForConditionalGeneration", "t5:176, 435", num_layers=2, num_decoder_layers=2, fast=True)
def t5(c):
    return of_t5(c, plain(c, d_ff=c.d_ff, activation="relu"))


@family(
    "T5ForConditionalGeneration",
    "t5:176, 435",
    num_layers=2,
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
)
def t5_gated(c):
    return of_t5(c, gated(c, d_ff=c.d_ff, activation="gelu tanh"), tied=True)


@family("UMT5ForConditionalGeneration", "umt5:188, 433", num_layers=2, num_decoder_layers=2)
def umt5(c):
    return of_t5(c, gated(c, d_ff=c.d_ff, activation="gelu tanh"))


@family("LongT5ForConditionalGeneration", "longt5:336, 1068", num_layers=2, num_decoder_layers=2)
def longt5(c):
    # the encoder cuts the places into blocks of 128, each of which looks at itself and its neighbours
    sizes = {"heads": c.num_heads, "d_k": c.d_kv}
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
    return network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, True))


def of_bart(c, place, *, parts, decoder_parts=None, final, tied=True, reads="ids", encoder_parts=None):
    """BART and its kin: the decoder's sizes may be others than the encoder's."""
    think = plain(c, d_ff=c.encoder_ffn_dim)
    look = looks_both_ways(c, heads=c.encoder_attention_heads)
    several = {"heads": c.decoder_attention_heads, "kv_heads": c.decoder_attention_heads}
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
    parts = (f"positions {c.max_position_embeddings + 2}", "norm")
    return of_bart(c, post, parts=parts, final=None)


@family("MBartForConditionalGeneration", "mbart:151, 268", tiny=True, **SMALL)
def mbart(c):
    parts = (f"positions {c.max_position_embeddings + 2}", "norm")
    return of_bart(c, pre, parts=parts, final="layer")


@family("MarianMTModel", "marian:136, 254", tiny=True, pad_token_id=0, decoder_start_token_id=0, **SMALL)
def marian(c):
    return of_bart(c, post, parts=(f"positions {c.max_position_embeddings}",), final=None)


@family("PegasusForConditionalGeneration", "pegasus:138, 256", tiny=True, **SMALL)
def pegasus(c):
    return of_bart(c, pre, parts=(f"positions {c.max_position_embeddings}",), final="layer")


@family("BlenderbotForConditionalGeneration", "blenderbot:129, 247", tiny=True, **SMALL)
def blenderbot(c):
    return of_bart(c, pre, parts=(f"positions {c.max_position_embeddings}",), final="layer")


@family("M2M100ForConditionalGeneration", "m2m_100:215, 333", tiny=True, **SMALL)
def m2m_100(c):
    # the table of sines has two rows more than there are places
    return of_bart(c, pre, parts=("scale", f"positions {c.max_position_embeddings + 2}"), final="layer")


@family(
    "WhisperForConditionalGeneration",
    "whisper:242, 362",
    encoder_layers=2,
    decoder_layers=2,
    fast=True,
)
def whisper(c):
    return of_bart(
        c,
        pre,
        parts=(f"positions {c.max_target_positions}",),
        encoder_parts=entrance(f"convolution {c.d_model}", f"positions {c.max_source_positions}"),
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
