"""Images that a few learned rows look at before they come among the words. Code of transformers 5.23."""

from dataclasses import replace
from types import SimpleNamespace

from story.body.images import count_patches
from story.body.joined import SEES, asks_for_words, list_askers, sees, writes
from story.body.truth import (
    Silent,
    attention,
    columned,
    entrance,
    experts,
    family,
    gated,
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

EYE = {"model_type": "idefics3_vision", "image_size": 490, "patch_size": 14}


@family(
    "AriaForConditionalGeneration",
    "aria:140, 146, 202, 211, 405",
    named=True,
    vision_config=EYE | SEES,
    text_config=SEES,
    projector_patch_to_query_dict={1225: 128, 4900: 256},
)
def aria(c):
    # as many learned rows as there are for so many patches ask them once, without a sum; torch's attention projects
    # what the layer before it has projected (lines 140, 146), and the last norm of the images is not on the way
    see, read = c.vision_config, c.text_config
    through = f"projection {see.hidden_size}"
    asks = ("norm", through, "norm", through, through, "resampler 128", through)
    think = (f"projection {read.hidden_size}",) * 2
    few = {"shared": 1, "shared_d_ff": read.intermediate_size * read.moe_num_shared_experts}
    some = experts(SimpleNamespace(**vars(read), num_experts_per_tok=read.moe_topk), read.moe_num_experts, **few)
    text = writes(read, pre("rms", attention(read)), pre("rms", some), parts=(*asks, "norm", *think))
    image = sees(see, "vision", f"positions {count_patches(see)}", final=None)
    links = (Link("joined", "vision", "text"),)
    return network(
        image,
        text,
        links=links,
        head=Head("vocabulary", read.vocab_size, False),
        untold=left_out("model.vision_tower.post_layernorm", lost=True),
    )


@family(
    "Idefics2ForConditionalGeneration",
    "idefics2:100, 200, 575, 716, 755; mistral:171",
    named=True,
    vision_config=SEES,
    perceiver_config={"resampler_depth": 2},
    text_config={"model_type": "mistral", "num_hidden_layers": 2},
)
def idefics2(c):
    # learned rows look at those of the image and at each other; the projector before them is what leaves the eye
    see, ask, read = c.vision_config, c.perceiver_config, c.text_config
    image = sees(see, "vision", f"positions {count_patches(see)}")
    heads = {"heads": ask.resampler_n_heads, "kv_heads": ask.num_key_value_heads, "d_k": ask.resampler_head_dim}
    look = looks_both_ways(ask, **heads, beside="vision")
    think = gated(ask, d_ff=4 * ask.hidden_size)
    layers = (group(ask.resampler_depth, ask.hidden_size, pre("rms", look), pre("rms", think)),)
    rows = entrance(f"learned rows {ask.resampler_n_latents}")
    rows = tower(ask, "stack", None, False, rows, layers, "rms", vocab=None, own_numbers=True)
    text = writes(read, pre("rms", attention(read, sliding_window=read.sliding_window)), pre("rms", gated(read)))
    return network(
        image,
        rows,
        text,
        links=(memory("vision", "stack"), Link("joined", "stack", "text")),
        head=Head("vocabulary", read.vocab_size, False),
        untold=left_out("model.connector.modality_projection"),
    )


@family(
    "InstructBlipForConditionalGeneration",
    "instructblip:626, 647, 835, 1151; opt:224",
    named=True,
    image_token_index=50265,
    vision_config=SEES,
    qformer_config={"num_hidden_layers": 4},
    text_config={"model_type": "opt", "num_hidden_layers": 2},
)
def instructblip(c):
    # learned rows and the words of a question look at each other; the rows alone ask the image in every other layer,
    # and go through a feed-forward of their own, as the words do. What is made of them alone comes among those of the
    # answer (line 1151)
    see, ask, read = c.vision_config, c.qformer_config, c.text_config
    # answer (line 1151). All of them see each other: what an image says of a question is told, and no text is written
    image = sees(see, "vision", "class token 1", f"positions {count_patches(see) + 1}", fused="qkv")
    before = words(ask, f"positions {ask.max_position_embeddings}", f"learned rows {c.num_query_tokens}", "norm")
    rows = tower(ask, "qformer", "ids", False, before, list_askers(ask, "vision", plain(ask)), None)
    found = asks_for_words(image, rows, read)
    return replace(found, head=replace(found.head, of_last=True))  # the question has a table of words of its own


@family(
    "MllamaForConditionalGeneration",
    "mllama:130, 158, 311, 509, 700, 1021, 1125",
    named=True,
    vision_config={
        "num_global_layers": 1,
        "intermediate_layers_indices": [0, 1],
        "vision_output_dim": 3840,
        **SEES,
    },
    text_config={"num_hidden_layers": 3, "cross_attention_layers": [1]},
)
def mllama(c):
    # tiles of an image, with a gated table of places and two of tiles; then layers with gates over all tiles, which
    # some layers of the words look at, through gates as well
    see, read = c.vision_config, c.text_config
    tables = f"table {see.max_aspect_ratio_id + 1}"
    heads = {"heads": see.attention_heads, "d_k": see.hidden_size // see.attention_heads}
    # places of tiles that are not there do not see each other (mllama:107)
    look, think = looks_both_ways(see, partial=True, **heads), plain(see)
    local = group(see.num_hidden_layers, see.hidden_size, pre("layer", look), pre("layer", think))
    whole = (replace(pre("layer", one), scale="tanh") for one in (look, think))
    places = f"positions {count_patches(see) + 1}"
    parts = entrance(f"patches {see.hidden_size}", tables, "class token 1", places, tables, "norm")
    image = tower(see, "encoder", "image", False, parts, (local,), "layer")
    over = group(see.num_global_layers, see.hidden_size, *whole)
    tiles = tower(see, "encoder 2", None, False, entrance(tables), (over,), None)
    ask = looks_both_ways(read, source="encoder 2", with_others=("encoder",), qk_norm=True, partial=True)
    asks = (replace(pre("rms", one), scale="tanh") for one in (ask, gated(read)))
    groups = (
        group((0, 2), read.hidden_size, pre("rms", attention(read)), pre("rms", gated(read))),
        group((1,), read.hidden_size, *asks),
    )
    rows = read.vocab_size + 8
    text = tower(read, "decoder", "ids", True, entrance(f"words {rows}"), groups, "rms", vocab=rows)
    return network(
        image,
        tiles,
        text,
        links=(
            Link("joined", "encoder", "encoder 2"),
            memory("encoder 2", "decoder"),
            Link("met", "encoder", "encoder 2", (0, 1)),  # what lower layers gave stands beside it (1002)
        ),
        head=Head("vocabulary", read.vocab_size, False),
        untold=left_out("model.multi_modal_projector"),
    )


@family(
    "UdopForConditionalGeneration",
    "udop:171, 383, 815, 1144, 1216, 1556",
    named=True,
    num_layers=2,
    num_decoder_layers=2,
)
def udop(c):
    # words and patches of a page stand beside each other, and corners of their boxes are looked up in two tables
    # of the biases of distances and of boxes two are picked by numbers that are given
    look = looks_both_ways(c, d_k=c.d_kv, positions=Silent("relative"), unscaled=True)
    ahead = replace(look, causal=True, positions="relative")
    ask = replace(look, source="encoder", positions="none")
    think = plain(c, d_ff=c.d_ff, activation="relu")
    made = {"made_whole": True, "with_others": True}  # of numbers from 0 to 1 (824), beside those of patches (249)
    boxes = (columned("bbox", c.max_2d_position_embeddings, *own, **made) for own in (((0,), (2,)), ((1,), (3,))))
    groups = (group(2, c.d_model, pre("rms", look), pre("rms", think)),)
    parts = words(c, f"patches {c.d_model}", *boxes)
    page = tower(c, "encoder", "image", False, parts, groups, "rms", vocab=c.vocab_size, also="ids")
    layers = (group(2, c.d_model, pre("rms", ahead), pre("rms", ask), pre("rms", think)),)
    answer = tower(c, "decoder", "ids", True, words(c), layers, "rms")
    links = (memory("encoder", "decoder"),)
    return network(page, answer, links=links, head=Head("vocabulary", c.vocab_size, True, rows_scale=c.d_model**-0.5))
