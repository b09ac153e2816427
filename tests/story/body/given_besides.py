"""Networks whose towers read more than one thing, or whose head reads words. The code is that of transformers 5.23."""

from story.body.more_encoders import of_conformer
from story.body.truth import (
    Silent,
    attention,
    entrance,
    family,
    gated,
    group,
    head_of,
    left_out,
    looks_both_ways,
    network,
    plain,
    pre,
    tower,
    words,
)

from xray.story.anatomy.tree import Link


@family("PocketTTSForConditionalGeneration", "pocket_tts:148, 209, 554", named=True, num_hidden_layers=2)
def pocket_tts(c):
    # a learned row that is led to the width stands where sound begins; the head scores its end, and no words
    stages = (pre("layer", attention(c)), pre("layer", plain(c)))
    parts = words(c, f"projection {c.hidden_size}")
    layers = group(c.num_hidden_layers, c.hidden_size, *stages)
    return network(tower(c, "text", "ids", True, parts, (layers,), "layer"), head=Silent("whether sound ends here"))


@family("ParakeetForTDT", "parakeet:99, 255, 419, 946", named=True, encoder_config={"num_hidden_layers": 3})
def parakeet_tdt(c):
    hear = c.encoder_config
    parts = entrance(f"convolution {hear.subsampling_conv_channels}", f"projection {hear.hidden_size}", "scale")
    return network(
        tower(hear, "audio", "audio", False, parts, (of_conformer(hear),), None), head=Silent("words, and how long")
    )


@family(
    "Kosmos2_5ForConditionalGeneration",
    "kosmos2_5:391, 425, 535, 729, 836, 1009, 1409",
    named=True,
    text_config={"layers": 2},
    vision_config={"num_hidden_layers": 3},
)
def kosmos2_5(c):
    see, read = c.vision_config, c.text_config
    tables = [f"table {see.max_num_patches}"] * 2
    look = looks_both_ways(see, kernel="plain")
    stages = (pre("rms", look), pre("rms", gated(see, activation="gelu tanh")))
    eye = tower(
        see,
        "vision",
        "image",
        False,
        entrance(f"projection {see.hidden_size}", *tables),
        (group(see.num_hidden_layers, see.hidden_size, *stages),),
        "rms",
    )
    width = read.embed_dim
    parts = entrance(
        "norm",
        f"projection {width}",
        f"resampler {c.latent_query_num}",
        f"words {read.vocab_size}",
        "scale",
        "table 2",
        f"sines frozen positions {read.max_position_embeddings + 2}",
    )
    ahead = attention(read, heads=read.attention_heads, d_k=width // read.attention_heads, positions="none")
    think = plain(read, d_ff=read.ffn_dim, inner_norm="layer")
    layers = group(read.layers, width, pre("layer", ahead), pre("layer", think))
    text = tower(read, "text", "ids", True, parts, (layers,), "layer", vocab=read.vocab_size)
    return network(eye, text, links=(Link("joined", "vision", "text"),), head=head_of(read, True))


@family("PI0ForConditionalGeneration", "pi0:61, 111, 139, 217", named=True)
def pi0(c):
    # what is done next looks at the keys and values of text and image too; of the last layer no more is read
    see, read, act = c.vlm_config.vision_config, c.vlm_config.text_config, c.dit_config
    patches = (see.image_size // see.patch_size) ** 2
    look = looks_both_ways(see)
    stages = (pre("layer", look), pre("layer", plain(see)))
    parts = entrance(f"patches {see.hidden_size}", f"positions {patches}")
    eye = tower(
        see, "vision", "image", False, parts, (group(see.num_hidden_layers, see.hidden_size, *stages),), "layer"
    )
    stages = (pre("rms", looks_both_ways(read, positions="rotary")), pre("rms", gated(read)))
    parts = entrance(f"projection {read.hidden_size}", f"words {read.vocab_size}", "scale")
    text = tower(read, "text", "ids", False, parts, (group(read.num_hidden_layers, read.hidden_size, *stages),), None)
    beside = looks_both_ways(act, positions="rotary", causal=None, partial=True, beside="text")
    parts = entrance(*[f"projection {act.hidden_size}"] * 4)
    layers = group(act.num_hidden_layers, act.hidden_size, pre("rms", beside), pre("rms", gated(act)))
    move = tower(act, "stack", "vectors", None, parts, (layers,), "rms")
    links = (Link("joined", "vision", "text"), Link("keys", "text", "stack"))
    left = left_out("model.vlm.language_model.norm", lost=True)
    return network(eye, text, move, links=links, head=Silent("how to move on"), untold=left)
