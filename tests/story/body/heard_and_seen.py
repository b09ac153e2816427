"""Images in pieces and sounds beside words, recorded with the inputs that X-Ray makes. Code of transformers 5.23."""

from story.body.images import count_patches
from story.body.joined import SEES, sees, writes
from story.body.truth import (
    attention,
    entrance,
    family,
    gated,
    group,
    left_out,
    looks_both_ways,
    network,
    plain,
    pre,
    tower,
)

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
    dropped = left_out("model.vision_tower.post_layernorm")
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
    # as Qwen2-Audio, with rows that are turned by their time before they are joined (apply_rotary_time_emb): no places
    hear, read = c.audio_config, c.text_config
    itself = looks_both_ways(hear, d_k=hear.hidden_size // hear.num_attention_heads)
    layers = (group(2, hear.hidden_size, pre("layer", itself), pre("layer", plain(hear))),)
    parts = entrance(f"convolution {hear.hidden_size}", f"frozen positions {hear.max_source_positions}")
    sound = tower(hear, "audio", "audio", False, parts, layers, None)
    return joins(sound, reads(read, "norm", *[f"projection {read.hidden_size}"] * 2))
