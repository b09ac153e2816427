"""Towers of images or sound joined into words, looked at by them, or compared with them. Code of transformers 5.23."""

from dataclasses import replace

from story.body.images import count_patches
from story.body.truth import (
    Silent,
    attention,
    between,
    corners,
    entrance,
    experts,
    family,
    gated,
    group,
    held,
    left_out,
    looks_both_ways,
    memory,
    network,
    plain,
    post,
    pre,
    tower,
    words,
)

from xray.story.anatomy.tree import Head, Link

SEES = {"num_hidden_layers": 2}


def sees(c, name, *parts, attend=None, final="layer", think=None, **facts):
    """A tower of images like that of ViT, with its norms before."""
    layers = group(
        c.num_hidden_layers,
        c.hidden_size,
        pre("layer", attend or looks_both_ways(c, **facts)),
        pre("layer", think or plain(c)),
    )
    return tower(c, name, "image", False, entrance(f"patches {c.hidden_size}", *parts), (layers,), final)


def list_askers(c, source, *others):
    """Learned rows that look at each other in every layer, and at the tower of that name in every other one.

    What `others` go through stands beside the feed-forward.
    """
    itself, other = (looks_both_ways(c, source=one) for one in ("self", source))
    think = replace(post("layer", plain(c)), others=others or None)
    return (
        group((0, 2), c.hidden_size, post("layer", itself), post("layer", other), think),
        group((1, 3), c.hidden_size, post("layer", itself), think),
    )


def asks_for_words(image, rows, c, **facts):
    """Rows that ask an image, and what they found among the words of an OPT."""
    stages = (pre("layer", attention(c, positions="none")), pre("layer", plain(c, d_ff=c.ffn_dim)))
    parts = (f"projection {c.hidden_size}", f"words {c.vocab_size}", f"positions {c.max_position_embeddings + 2}")
    layers = (group(c.num_hidden_layers, c.hidden_size, *stages),)
    return network(
        image,
        rows,
        tower(c, "text", "ids", True, entrance(*parts), layers, "layer"),
        links=(memory(image.name, rows.name), Link("joined", rows.name, "text")),
        head=Head("vocabulary", c.vocab_size, c.tie_word_embeddings),  # opt:602
        **facts,
    )


def writes(c, *stages, parts=(), final="rms", name="text", causal=True):
    """A causal tower of words."""
    layers = (group(c.num_hidden_layers, c.hidden_size, *stages),)
    return tower(c, name, "ids", causal, words(c, *parts), layers, final)


@family(
    "LlavaForConditionalGeneration",
    "llava:218; clip:353; llama:273",
    named=True,
    vision_config={"model_type": "clip_vision_model", "hidden_size": 96, "num_attention_heads": 3, **SEES},
    text_config={"model_type": "llama", "num_hidden_layers": 2},
)
def llava(c):
    # the rows are taken before the last layer of the images (vision_feature_layer is -2, line 165), and cross to the
    # words through two projections; what the last norm makes is dropped
    see, read = c.vision_config, c.text_config
    places = ("class token 1", f"positions {count_patches(see) + 1}", "norm")
    text = writes(
        read,
        pre("rms", attention(read)),
        pre("rms", gated(read)),
        parts=(f"projection {read.hidden_size}", f"projection {read.hidden_size}"),
    )
    return network(
        sees(see, "vision", *places, final=None),
        text,
        links=(Link("joined", "vision", "text", (see.num_hidden_layers - 2,)),),
        head=Head("vocabulary", read.vocab_size, False),
        untold=left_out("model.vision_tower.post_layernorm", lost=True),
    )


@family(
    "PaliGemmaForConditionalGeneration",
    "paligemma:175; siglip:325; gemma:284",
    named=True,
    image_token_index=255999,
    projection_dim=3072,
    vision_config={"model_type": "siglip_vision_model", "vision_use_head": False, **SEES},
    text_config={"model_type": "gemma", "num_hidden_layers": 2},
)
def paligemma(c):
    # what is asked is seen both ways, the answer behind it one way, by token types that nobody knows beforehand
    see, read = c.vision_config, c.text_config
    text = writes(
        read,
        pre("rms", attention(read, causal=Silent("behind what is asked"))),
        pre("rms", gated(read)),
        parts=("scale", f"projection {read.hidden_size}"),
        causal=Silent("behind what is asked"),
    )
    return network(
        sees(see, "vision", f"positions {count_patches(see)}"),
        text,
        links=(Link("joined", "vision", "text"),),
        head=Head("vocabulary", read.vocab_size, True),
    )


@family(
    "Blip2ForConditionalGeneration",
    "blip_2:382, 700; opt:224",
    named=True,
    image_token_index=50265,
    vision_config=SEES,
    qformer_config={"num_hidden_layers": 4},
    text_config={"model_type": "opt", "num_hidden_layers": 2},
)
def blip_2(c):
    # learned rows ask the image in every other layer; what they found stands before the words
    see, ask, read = c.vision_config, c.qformer_config, c.text_config
    image = sees(see, "encoder", "class token 1", f"positions {count_patches(see) + 1}", fused="qkv")
    rows = entrance(f"learned rows {c.num_query_tokens}", "norm")
    return asks_for_words(
        image, tower(ask, "decoder", None, False, rows, list_askers(ask, "encoder"), None, own_numbers=True), read
    )


@family(
    "BlipForConditionalGeneration", "blip:285, 363; blip_text:124", named=True, vision_config=SEES, text_config=SEES
)
def blip_writes(c):
    see, read = c.vision_config, c.text_config
    image = sees(see, "encoder", "class token 1", f"positions {count_patches(see) + 1}", fused="qkv", kernel="plain")
    ahead = attention(read, positions="none", kernel="plain")
    ask = looks_both_ways(read, source="encoder", kernel="plain")
    text = writes(
        read,
        *(post("layer", branch) for branch in (ahead, ask, plain(read))),
        parts=(f"positions {read.max_position_embeddings}", "norm"),
        final=None,
        name="decoder",
    )
    return network(image, text, links=(memory("encoder", "decoder"),), head=Head("vocabulary", read.vocab_size, True))


@family("ClapModel", "clap:558, 1183", named=True, text_config=SEES)
def clap(c):
    # sound as a picture of frames and mels goes through a Swin; words through a RoBERTa
    hear, read = c.audio_config, c.text_config
    groups, first = [], 0
    for stage, depth in enumerate(hear.depths):
        width = hear.patch_embeds_hidden_size * 2**stage
        sizes = {
            "heads": hear.num_attention_heads[stage],
            "d_k": width // hear.num_attention_heads[stage],
            "positions": "relative",
            "window": hear.window_size**2 if stage < 3 else None,
            "all_places": None if stage < 3 else hear.window_size**2,
        }
        whole, rolled = (
            looks_both_ways(hear, kernel="plain", **sizes, causal=causal, rolled=rolled if stage < 3 else None)
            for causal, rolled in ((False, False), (False if stage else Silent(False), True))
        )
        rolled = replace(rolled, kept_apart=100 if stage < 3 else None)  # line 382
        think = pre("layer", plain(hear, d_ff=int(hear.mlp_ratio * width)))
        own = range(first, first + depth)
        parts = [(own[::2], whole), (own[1::2], rolled)] if stage < 3 else [(own, whole)]
        groups += [group(numbers, width, pre("layer", attend), think) for numbers, attend in parts]
        first += depth
    parts = entrance(f"patches {hear.patch_embeds_hidden_size}", "norm")
    sound = tower(hear, "audio", "audio", Silent(False), parts, groups, "layer", bridges=between(groups, 4))
    stages = (post("layer", looks_both_ways(read, kernel="plain")), post("layer", plain(read)))
    before = words(read, f"table {read.type_vocab_size}", f"positions {read.max_position_embeddings}", "norm")
    text = tower(read, "text", "ids", False, before, (group(read.num_hidden_layers, read.hidden_size, *stages),), None)
    return network(sound, text, links=(Link("compared", "audio", "text"),), head=Head("none"))


def reads_both(c, stages, *parts, beside, final):
    """A tower of words and of patches, their rows beside each other; the places `beside` are those of the patches."""
    layers = (group(c.num_hidden_layers, c.hidden_size, *stages),)
    *before, places = words(c, *parts[: parts.index(beside)], beside)
    before = (*before, replace(places, beside=True), *entrance(*parts[parts.index(beside) + 1 :]))
    return network(
        tower(c, "stack", "image", False, before, layers, final, vocab=c.vocab_size, also="ids"), head=Head("none")
    )


@family("ViltModel", "vilt:68, 222, 417", named=True, **SEES)
def vilt(c):
    stages = (pre("layer", looks_both_ways(c, kernel="plain")), pre("layer", plain(c)))
    read = (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm")
    places = f"positions {count_patches(c) + 1}"
    seen = (f"patches {c.hidden_size}", "class token 1", places, "table 2")
    return reads_both(c, stages, *read, *seen, beside=places, final="layer")


@family("LayoutLMv3Model", "layoutlmv3:86, 334, 537", named=True, **SEES)
def layoutlmv3(c):
    # corners of boxes, and how wide and high these are, are looked up in four tables
    # numbers of places begin anew at the patches (529), so that no distance picks the bias
    look = looks_both_ways(c, kernel="plain", positions=Silent("relative"))
    stages = (post("layer", look), post("layer", plain(c)))
    read = (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", *corners(c), "norm")
    places = f"positions {(c.input_size // c.patch_size) ** 2 + 1}"
    seen = (f"patches {c.hidden_size}", "class token 1", places)
    return reads_both(c, stages, *read, *seen, "norm", "norm", beside=places, final=None)


@family(
    "MiniMaxM3SparseForConditionalGeneration",
    "minimax_m3_vl:396, 626, 831, 1171, 1347",
    named=True,
    vision_config={"hidden_size": 96, "num_attention_heads": 3, "intermediate_size": 160, "image_size": 56, **SEES},
    text_config=SEES,
)
def minimax_m3_vl(c):
    # images are packed into one row, from which an axis of sequences is taken for the attention of each
    see, read = c.vision_config, c.text_config
    image = sees(
        see, "vision", "norm", positions="rotary", turned=30, place_numbers=3, pieces=2, final=None
    )  # 10 of 32 for each axis
    look = attention(read, qk_norm=True)
    few = {"shared": 1, "shared_d_ff": read.shared_intermediate_size, **held(read.swiglu_limit, ("plus", 1))}
    some = experts(read, read.num_local_experts, d_ff=read.intermediate_size, activation="quick gelu", **few)
    text = writes(read, pre("rms", look), pre("rms", some), parts=[f"projection {read.hidden_size}"] * 4, final="rms")
    links = (Link("joined", "vision", "text"),)
    return network(image, text, links=links, head=Head("vocabulary", read.vocab_size, False))
