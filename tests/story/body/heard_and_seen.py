"""Images in pieces and sounds beside words, recorded with the inputs that X-Ray makes. Code of transformers 5.23."""

from dataclasses import replace

from story.body.images import count_patches
from story.body.joined import SEES, sees, writes
from story.body.truth import (
    attention,
    bare,
    both,
    entrance,
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
    words,
)

from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Head, Link


def joins(see, text, untold=(), behind=()):
    """A tower whose rows, be they of earlier layers, are put among the words of another one."""
    head = Head("vocabulary", text.vocab, False)
    return network(see, text, links=(Link("joined", see.name, "text", behind),), head=head, untold=untold)


def reads(c, *parts):
    """A causal tower of words like Llama, and what the rows of another tower go through before it."""
    return writes(c, pre("rms", attention(c)), pre("rms", gated(c)), parts=parts)


@family(
    "LlavaNextForConditionalGeneration",
    "llava_next:228, 260, 312, 385; clip:353; llama:273",
    named=True,
    vision_config={
        "model_type": "clip_vision_model",
        "hidden_size": 96,
        "image_size": 336,
        "num_attention_heads": 3,
        **SEES,
    },
    text_config={"model_type": "llama", "num_hidden_layers": 2},
)
def llava_next(c):
    # pieces of an image, and a learned row at the end of each line of them; the rows are those before the last layer
    # (vision_feature_layer is -2, line 385)
    see, read = c.vision_config, c.text_config
    places = ("class token 1", f"positions {count_patches(see) + 1}", "norm")
    text = reads(read, *[f"projection {read.hidden_size}"] * 2)
    dropped = left_out("model.vision_tower.post_layernorm", lost=True)
    return joins(sees(see, "vision", *places, final=None), text, dropped, (see.num_hidden_layers - 2,))


@family(
    "Idefics3ForConditionalGeneration",
    "idefics3:98, 272, 394, 445; llama:273",
    named=True,
    vision_config={"image_size": 256, **SEES},
    text_config={"model_type": "llama", "num_hidden_layers": 2},
)
def idefics3(c):
    # four neighbours become one row, which one linear layer brings to the width of the words
    see, read = c.vision_config, c.text_config
    return joins(sees(see, "vision", f"positions {count_patches(see)}"), reads(read, f"projection {read.hidden_size}"))


@family(
    "Qwen2AudioForConditionalGeneration",
    "qwen2_audio:226, 309, 325, 404; qwen2:240",
    named=True,
    audio_config={"encoder_layers": 2},
    text_config={"model_type": "qwen2", "num_hidden_layers": 2},
)
def qwen2_audio(c):
    # a frozen table of sines is added to the sound; two rows become one before the last norm, behind which it is joined
    hear, read = c.audio_config, c.text_config
    itself = looks_both_ways(hear, heads=hear.encoder_attention_heads, d_k=hear.d_model // hear.encoder_attention_heads)
    think = plain(hear, d_ff=hear.encoder_ffn_dim)
    layers = (group(hear.encoder_layers, hear.d_model, pre("layer", itself), pre("layer", think)),)
    parts = entrance(f"convolution {hear.d_model}", f"frozen positions {hear.max_source_positions}")
    sound = tower(hear, "audio", "audio", False, parts, layers, None)
    return joins(sound, reads(read, "norm", f"projection {read.hidden_size}"))


@family(
    "MusicFlamingoForConditionalGeneration",
    "musicflamingo:164, 208; audioflamingo3:137, 340; qwen2:240",
    named=True,
    audio_config={"model_type": "audioflamingo3_encoder", "num_hidden_layers": 2},
    text_config={"model_type": "qwen2", "num_hidden_layers": 2},
)
def musicflamingo(c):
    # as Qwen2-Audio, with rows that are turned by their time before they are joined (apply_rotary_time_emb): no places.
    # the number of the window and the time turn a fifth of a row each (lines 87 to 107)
    hear, read = c.audio_config, c.text_config
    itself = looks_both_ways(hear, d_k=hear.hidden_size // hear.num_attention_heads)
    layers = (group(2, hear.hidden_size, pre("layer", itself), pre("layer", plain(hear))),)
    parts = entrance(f"convolution {hear.hidden_size}", f"frozen positions {hear.max_source_positions}")
    sound = tower(hear, "audio", "audio", False, parts, layers, None)
    return joins(sound, reads(read, "norm", *[f"projection {read.hidden_size}"] * 2))


@family(
    "AudioFlamingo3ForConditionalGeneration",
    "audioflamingo3:112, 381, 402, 436; qwen2:240",
    named=True,
    audio_config={"num_hidden_layers": 2},
    text_config={"model_type": "qwen2", "num_hidden_layers": 2},
)
def audioflamingo3(c):
    # the same with two projections behind the last norm
    hear, read = c.audio_config, c.text_config
    heads = hear.encoder_attention_heads
    itself, think = (
        looks_both_ways(hear, heads=heads, d_k=hear.d_model // heads),
        plain(hear, d_ff=hear.encoder_ffn_dim),
    )
    layers = (group(hear.encoder_layers, hear.d_model, pre("layer", itself), pre("layer", think)),)
    parts = entrance(f"convolution {hear.d_model}", f"frozen positions {hear.max_source_positions}")
    sound = tower(hear, "audio", "audio", False, parts, layers, None)
    return joins(sound, reads(read, "norm", *[f"projection {read.hidden_size}"] * 2))


@family(
    "GraniteDoclingForConditionalGeneration",
    "granite_docling:346, 469, 513, 640, 667, 1348; siglip:325",
    named=True,
    vision_config={"num_hidden_layers": 4, "deepstack_visual_indexes": [0, 2]},
    text_config={"num_hidden_layers": 3},
)
def granite_docling(c):
    # places are added to the image's rows alone, before these are put among words; rows of two earlier layers are
    # added behind the first two layers of the text, through layers of their own
    see, read = c.vision_config, c.text_config
    rows = count_patches(see) // see.scale_factor**2
    wide = f"projection {read.hidden_size}"
    before, (places,), behind = (
        ("norm", wide),
        entrance(f"sines frozen positions {rows}"),
        ("norm", wide, "norm", "scale"),
    )
    parts = (*words(read, *before), replace(places, beside=True), *entrance(*behind))
    stages = (replace(pre("rms", one), scale="number") for one in (attention(read), gated(read)))
    layers = (group(read.num_hidden_layers, read.hidden_size, *stages),)
    text = tower(read, "text", "ids", True, parts, layers, "rms", rows_added=(0, 1))
    dropped = left_out("model.vision_model.connector.coarse.deepstack_mergers.{}", stages=(0, 1))
    taken = (*see.deepstack_visual_indexes, see.num_hidden_layers - 1)
    found = joins(sees(see, "vision", f"positions {count_patches(see)}"), text, dropped, taken)
    return replace(found, head=Head("vocabulary", read.vocab_size, True, 1 / read.logits_scaling))


@family("WavLMForCTC", "wavlm:107, 165, 181, 337, 408", named=True, num_hidden_layers=2)
def wavlm(c):
    # a bias of relative places, of which each query lets a share through
    look = looks_both_ways(c, positions="relative", places_by_rows=True, kernel="plain")
    parts = entrance(f"convolution {c.conv_dim[-1]}", "norm", f"projection {c.hidden_size}", "convolution", "norm")
    layers = (group(c.num_hidden_layers, c.hidden_size, post("layer", look), post("layer", plain(c))),)
    return network(tower(c, "audio", "audio", False, parts, layers, None), head=Head("numbers", c.vocab_size))


@family(
    "NeuCodecModel",
    "neucodec:234, 748, 769, 821, 877, 894, 1005; wav2vec2_bert:223, 316, 472",
    named=True,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=96,
    encoder_hidden_size=6,
    quantization_dim=128,
    semantic_model_config={
        "model_type": "wav2vec2-bert",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "intermediate_size": 80,
    },
)
def neucodec(c):
    # a Conformer hears frequencies, convolutions the signal; both are made codes, from which convolutions, layers
    # whose queries and keys each head turns by an angle of its own, and convolutions again make frequencies
    hear, width, ratios = c.semantic_model_config, c.hidden_size, c.downsampling_ratios
    half = replace(pre("layer", plain(hear)), scale="number")
    last = replace(both("layer", plain(hear)), scale="number")
    last = replace(last, norm=replace(last.norm, on="stream"))
    look = pre("layer", looks_both_ways(hear, positions="relative", places_by_rows=True))
    mix = pre("layer", Convolution((hear.conv_depthwise_kernel_size,), hear.hidden_size, causal=True))
    layers = (group(2, hear.hidden_size, half, look, mix, last),)
    parts = entrance("norm", f"projection {hear.hidden_size}")
    meaning = tower(hear, "audio", "audio", False, parts, layers, None)
    widths = [c.encoder_hidden_size * 2**number for number in range(len(ratios))]
    each = [bare(Convolution((12,), width)) for width in widths]
    heard = [group(range(3 * n, 3 * n + 3), wide, one) for n, (wide, one) in enumerate(zip(widths, each, strict=True))]
    sound = tower(hear, "audio 2", "audio", None, entrance(f"convolution {widths[0]}"), heard, None)
    steps = zip(ratios, widths, widths[1:], strict=False)
    bridges = tuple(Bridge(3 * n, ratio, before, after) for n, (ratio, before, after) in enumerate(steps, 1))
    rest = pre("group", Convolution((3,), 1))
    turned = looks_both_ways(c, positions=None, turned_by_head=True)
    inner = group(range(2, 5), width, pre("rms", turned), pre("rms", plain(c)))
    decoding = (group(2, width, rest), inner, group((5, 6), width, rest))
    sizes = (c.quantization_dim, len(c.quantization_levels), c.quantization_dim, width)
    parts = entrance(*(f"projection {size}" for size in sizes), f"convolution {width}")
    stack = tower(c, "stack", None, False, parts, decoding, "layer")
    links = (Link("joined", "audio 2", "stack"), Link("joined", "audio", "stack"))
    return network(meaning, replace(sound, bridges=bridges), stack, links=links)
