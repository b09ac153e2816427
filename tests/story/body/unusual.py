"""Networks that are built as few others are. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    attention,
    entrance,
    family,
    group,
    left_out,
    looks_both_ways,
    memory,
    network,
    plain,
    pre,
    tower,
    words,
)

from xray.story.anatomy.tree import Head, Link


def thinks_quickly(c, look, **sizes):
    """A layer of CLIP."""
    return pre("layer", look), pre("layer", plain(c, activation="quick gelu", **sizes))


@family(
    "XCLIPModel",
    "x_clip:392, 779, 888, 1223",
    named=True,
    vision_config={"num_hidden_layers": 3},
    text_config={"num_hidden_layers": 2},
)
def x_clip(c):
    # every layer of a frame looks at one row more, which looked at those of other frames; the frames become a row each,
    # and those look at each other; the texts ask the mean over the places of all frames
    see, read = c.vision_config, c.text_config
    patches = (see.image_size // see.patch_size) ** 2
    look = looks_both_ways(see, partial=True)  # a frame sees itself alone
    frames = tower(
        see,
        "encoder",
        "video",
        False,
        entrance(f"patches {see.hidden_size}", "class token 1", f"positions {patches + 1}", "norm"),
        (group(see.num_hidden_layers, see.hidden_size, *thinks_quickly(see, look)),),
        "layer",
    )
    wide = c.projection_dim
    together = looks_both_ways(see, heads=see.mit_num_attention_heads, d_k=wide // see.mit_num_attention_heads)
    film = tower(
        see,
        "stack",
        None,
        False,
        entrance(f"projection {wide}", f"positions {see.num_frames}"),
        (group(1, wide, *thinks_quickly(see, together, d_ff=see.mit_intermediate_size)),),
        None,
    )
    ahead = attention(read, positions="none")
    texts = tower(
        read,
        "text",
        "ids",
        True,
        words(read, f"positions {read.max_position_embeddings}"),
        (group(read.num_hidden_layers, read.hidden_size, *thinks_quickly(read, ahead)),),
        "layer",
    )
    ask = looks_both_ways(c, heads=c.prompt_num_attention_heads, d_k=wide // c.prompt_num_attention_heads)
    ask = thinks_quickly(c, replace(ask, source="encoder"), d_ff=4 * wide)
    prompts = tower(c, "decoder", None, None, entrance(f"projection {wide}"), (group(2, wide, *ask),), None)
    return network(
        frames,
        film,
        texts,
        prompts,
        links=(
            Link("joined", "encoder", "stack"),
            memory("encoder", "decoder"),
            Link("joined", "text", "decoder"),
            Link("compared", "stack", "decoder"),
        ),
        head=Head("none"),
        untold=left_out("prompts_visual_layernorm"),
    )


@family("Siglip2VisionModel", "siglip2:170, 273", named=True, num_hidden_layers=2)
def siglip2_eye(c):
    # learned places are resized for each image, and laid into as many rows as the longest has
    return network(
        tower(
            c,
            "vision",
            "image",
            False,
            entrance(f"projection {c.hidden_size}", f"learned positions {c.num_patches}"),
            (group(2, c.hidden_size, pre("layer", looks_both_ways(c)), pre("layer", plain(c))),),
            "layer",
        ),
        head=Head("none"),
    )
