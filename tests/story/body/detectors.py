"""Networks that find things in images: layers over a map, queries that look at it. The code is transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    bare,
    between,
    entrance,
    family,
    group,
    left_out,
    looks_both_ways,
    memory,
    network,
    post,
    pre,
    scaled,
    shortened,
    tower,
    words,
)

from xray.story.anatomy.attentions import DeformableAttention
from xray.story.anatomy.beside_layers import Boxes
from xray.story.anatomy.branches import Convolution, FeedForward
from xray.story.anatomy.tree import Head, Link

FEW = {"decoder_layers": 3, "num_queries": 20}
LATER_STAGES = (1, 3, 4)
"""The last layers of the stages whose maps are handed on, of a net with 1, 1, 2 and 1 layers: all but the first."""


def looks(width, heads):
    return looks_both_ways(None, heads=heads, kv_heads=heads, d_k=width // heads)


def looks_by_place(width, heads, *, is_told=True):
    """An attention that adds places to queries and keys; those worked out of boxes are not proven to be places."""
    return replace(looks(width, heads), positions="added" if is_told else Silent("added"))


def thinks(d_ff, activation, **facts):
    return replace(FeedForward(d_ff, activation, gated=False), **facts)


def samples(c, heads, source="encoder", kind="layer", scale=None):
    """A sublayer that samples values at points of maps, and weighs them: both are worked out of what asks."""
    found = DeformableAttention(source, heads, c.d_model // heads, c.num_feature_levels, c.decoder_n_points)
    return replace(post(kind, found), scale=scale)


def smallest_map(c):
    """The layers of the encoder: they look over the smallest map alone."""
    width = c.encoder_hidden_dim
    look = post("layer", looks_by_place(width, c.encoder_attention_heads))
    layers = group(c.encoder_layers, width, look, post("layer", thinks(c.encoder_ffn_dim, "gelu")))
    return tower(c, "encoder", None, False, entrance(f"convolution {width}"), (layers,), None)


def chosen_queries(c, sample, think, kind="layer", begun=None, steps=None):
    """The layers of the decoder: the rows of all maps that scored best are its queries, with boxes beside them."""
    look = post(kind, looks_by_place(c.d_model, c.decoder_attention_heads, is_told=False))
    layers = group(c.decoder_layers, c.d_model, look, sample, think)
    parts = entrance(f"convolution {c.d_model}", f"projection {c.d_model}", "norm")
    boxes = Boxes(tuple(range(c.decoder_layers)), shared=False, begun=begun, steps=steps)
    return tower(c, "decoder", None, False, parts, (layers,), None, boxes=boxes)


def joined(first, *behind):
    """A net that an encoder of its smallest map and a decoder of all its maps begin with, these from behind layers."""
    met = Link("met", first, "encoder", behind)
    return (Link("joined", first, "encoder"), memory("encoder", "decoder"), met, Link("joined", "encoder", "decoder"))


def residual_net(c, name):
    """A ResNet by its settings, its blocks by width."""
    net, stage = c.backbone_config, bare(Convolution((3, 3), 1))
    way = ("convolution", "scale", "shift")
    pools = ("pool",) if net.model_type == "rt_detr_resnet" else ()
    groups = shortened(net.hidden_sizes, net.depths, stage, *pools, *way, first=way)
    found = tower(net, name, "image", None, entrance(f"convolution {net.embedding_size}"), groups, None)
    return replace(found, bridges=between(groups, 4, within=True))


def of_rt_detr(c):
    think = post("layer", thinks(c.decoder_ffn_dim, c.decoder_activation_function))
    found = left_out("model.enc_bbox_head")
    found += left_out("model.decoder.class_embed.{}", stages=range(c.decoder_layers - 1))
    queries = chosen_queries(c, samples(c, c.decoder_attention_heads), think)
    ends = [sum(c.backbone_config.depths[:stage]) - 1 for stage in (2, 3)]
    return network(residual_net(c, "vision"), smallest_map(c), queries, links=joined("vision", *ends), untold=found)


@family("RTDetrForObjectDetection", "rt_detr:348, 451, 601, 623, 730, 1187", named=True, **FEW)
def rt_detr(c):
    # what tells queries their places is worked out of boxes that are detached, layer by layer
    return of_rt_detr(c)


@family("RTDetrV2ForObjectDetection", "rt_detr_v2:80, 120, 314, 340, 556, 839", named=True, **FEW)
def rt_detr_v2(c):
    return of_rt_detr(c)


def hg_net(c):
    """The two blocks of HGNet with a sum of their own; what is before them is its entrance."""
    net = c.backbone_config
    width = net.stage_out_channels[2]
    blocks = group(2, width, bare(Convolution((5, 5), net.stage_mid_channels[2])))
    return tower(net, "vision", "image", None, entrance(f"convolution {width}"), (blocks,), None)


NOT_DRAWN = left_out("model.enc_bbox_head")
"""The head that proposes boxes before the first layer."""


@family("DFineForObjectDetection", "d_fine:98, 186, 225, 517, 543, 801, 1142", named=True, **FEW)
def d_fine(c):
    # a gate of both weighs what the sampled places gave against the stream; d_fine:1250-1260: the boxes that layer 1
    # read are corrected once, then each layer's numbers, 33 a side, move these
    think = post("layer", thinks(c.decoder_ffn_dim, c.decoder_activation_function))
    sample = samples(c, c.decoder_attention_heads, scale="gates")
    queries = chosen_queries(c, sample, think, begun=0, steps=c.max_num_bins + 1)
    return network(hg_net(c), smallest_map(c), queries, links=joined("vision"), untold=NOT_DRAWN)


@family("Deimv2ForObjectDetection", "deimv2:181, 195, 260, 299, 589, 615, 892, 1411", named=True, **FEW)
def deimv2(c):
    # the same with RMS norms and gated feed-forwards, whose width is half of what the settings say
    think = post("rms", thinks(c.decoder_ffn_dim // 2, "silu", gated=True, fused=False))
    sample = samples(c, c.decoder_attention_heads, kind="rms", scale="gates")
    queries = chosen_queries(c, sample, think, kind="rms", begun=0, steps=c.max_num_bins + 1)
    return network(hg_net(c), smallest_map(c), queries, links=joined("vision"), untold=NOT_DRAWN)


@family(
    "RfDetrForObjectDetection",
    "rf_detr:156, 221, 386, 721, 757, 829, 851, 977",
    named=True,
    backbone_config={
        "model_type": "rf_detr_dinov2",
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 4,
        "image_size": 560,
        "out_features": ["stage2", "stage3"],
    },
    decoder_layers=2,
    num_queries=20,
)
def rf_detr(c):
    # places are cut into windows before the first layer, and the class token is repeated for each; layers whose
    # output is handed on put the windows together, one behind the other
    net = c.backbone_config
    patches = net.image_size // net.patch_size
    window = (patches // net.num_windows) ** 2 + 1
    think = pre("layer", thinks(net.hidden_size * net.mlp_ratio, "gelu"))
    whole = looks(net.hidden_size, net.num_attention_heads)
    cut = replace(whole, window=window, rolled=False)
    whole = replace(whole, partial=True)
    layers = [group(rows, net.hidden_size, pre("layer", one), think) for rows, one in (((0, 1), cut), ((2, 3), whole))]
    layers[0] = replace(layers[0], layers=tuple(net.window_block_indexes))
    layers[1] = replace(layers[1], layers=tuple(n for n in range(4) if n not in net.window_block_indexes))
    parts = entrance(f"patches {net.hidden_size}", "class token 1", f"positions {patches**2 + 1}")
    image = tower(net, "encoder", "image", False, parts, layers, None)
    heads = c.decoder_self_attention_heads
    asks = group(
        c.decoder_layers,
        c.d_model,
        post("layer", looks_by_place(c.d_model, heads, is_told=False)),
        samples(c, c.decoder_cross_attention_heads),
        post("layer", thinks(c.decoder_ffn_dim, c.decoder_activation_function)),
    )
    rows = entrance(f"learned rows {c.num_queries}")
    queries = tower(c, "decoder", None, False, rows, (asks,), "layer", own_numbers=True)
    found = left_out("model.backbone.backbone.layernorm", "model.backbone.projector")
    chosen = ("enc_output", "enc_output_norm", "enc_out_class_embed", "enc_out_bbox_embed")
    found += left_out(*(f"model.{name}.0" for name in chosen))
    stages = tuple(int(name.removeprefix("stage")) - 1 for name in net.out_features)
    links = (memory("encoder", "decoder", *stages),)
    return network(*scaled(network(image)).towers, queries, links=links, untold=found)


@family(
    "DeformableDetrForObjectDetection",
    "deformable_detr:205, 517, 543, 667, 737, 1215",
    named=True,
    backbone_config={"model_type": "resnet", "depths": [1, 1, 2, 1], "out_features": ["stage2", "stage3", "stage4"]},
    **FEW,
)
def deformable_detr(c):
    # the encoder's places sample all maps, each from its own map, and the decoder's queries sample what it gives
    heads, think = c.encoder_attention_heads, post("layer", thinks(c.encoder_ffn_dim, c.activation_function))
    sample = DeformableAttention("self", heads, c.d_model // heads, c.num_feature_levels, c.encoder_n_points)
    layers = group(c.encoder_layers, c.d_model, post("layer", sample), think)
    maps = tower(c, "encoder", None, None, entrance(f"convolution {c.d_model}"), (layers,), None)
    look = post("layer", looks_by_place(c.d_model, c.decoder_attention_heads))
    think = post("layer", thinks(c.decoder_ffn_dim, c.activation_function))
    asks = group(c.decoder_layers, c.d_model, look, samples(c, c.decoder_attention_heads), think)
    rows = entrance(f"learned rows {c.num_queries}")
    queries = tower(c, "decoder", None, False, rows, (asks,), None, own_numbers=True)
    links = (Link("joined", "vision", "encoder", LATER_STAGES), memory("encoder", "decoder"))
    net = residual_net(c, "vision")
    return network(net, maps, queries, links=links, untold=left_out("model.reference_points"))


@family(
    "SamModel",
    "sam:317, 325, 344, 360, 398",
    named=True,
    vision_config={"num_hidden_layers": 3, "global_attn_indexes": [1]},
)
def sam(c):
    # the queries and the image look at each other in turn; what the first attention of the queries gives takes their
    # place, with no sum, and they look at the image as the eye gives it before that has looked at them
    see, mask = c.vision_config, c.mask_decoder_config
    look = looks_both_ways(
        None,
        heads=see.num_attention_heads,
        d_k=see.hidden_size // see.num_attention_heads,
        kv_heads=see.num_attention_heads,
        positions="relative",
        places_by_rows=True,
        fused="qkv",
    )
    think = pre("layer", thinks(see.mlp_dim, see.hidden_act))
    cut = replace(look, window=see.window_size**2, rolled=False)
    layers = [group(rows, see.hidden_size, pre("layer", one), think) for rows, one in (((0, 2), cut), ((1,), look))]
    places = (see.image_size // see.patch_size) ** 2
    parts = entrance(f"patches {see.hidden_size}", f"learned positions {places}")
    eye = tower(see, "encoder", "image", False, parts, layers, None)
    width, heads = mask.hidden_size, mask.num_attention_heads
    narrow = looks_by_place(width // mask.attention_downsample_rate, heads, is_told=False)
    first, own = looks(width, heads), post("layer", looks_by_place(width, heads, is_told=False))
    think = post("layer", thinks(mask.mlp_dim, mask.hidden_act))

    def asks(source, **facts):
        return post("layer", replace(narrow, source=source, **facts))

    turns = (
        group((0,), width, replace(post("layer", first), replaces=True), asks("encoder", beginning="encoder 2"), think),
        group((1,), width, own, asks("encoder 2"), think),
        group((2,), width, asks("encoder 2")),
    )
    # the last layer stands by itself; learned tokens go in, where no point is given
    queries = tower(mask, "decoder", None, False, (), turns, None, unlisted=(2,), own_numbers=True)
    back = group(2, width, asks("decoder"))
    image = tower(mask, "encoder 2", None, None, entrance("norm", f"convolution {width}", "norm"), (back,), None)
    both = (memory("encoder 2", "decoder", 0, 1), memory("decoder", "encoder 2", 0, 1))  # not the decoder's last layer
    links = (memory("encoder", "decoder"), *both, Link("joined", "encoder", "encoder 2"))
    found = left_out("shared_image_embedding")
    return network(eye, queries, image, links=links, head=Head("none"), untold=found)


@family(
    "GroundingDinoModel",
    "grounding_dino:110, 631, 690, 802, 813, 938, 946, 952, 1184, 1235",
    named=True,
    backbone_config={"model_type": "resnet", "depths": [1, 1, 2, 1], "out_features": ["stage2", "stage3", "stage4"]},
    text_config={"model_type": "bert", "num_hidden_layers": 2},
    encoder_layers=3,
    decoder_layers=2,
    num_queries=20,
)
def grounding_dino(c):
    # image and words look at each other by one product, each normed once more before; the first time they look at what
    # the eye and the reader gave. Which words see which, a mask by phrases says
    read, width, heads = c.text_config, c.d_model, c.encoder_attention_heads // 2
    by_phrases = {"causal": None, "kernel": "plain"}
    look = looks_both_ways(read, **by_phrases | {"kernel": "scaled_dot_product_attention"})
    think = post("layer", thinks(read.intermediate_size, "gelu"))
    layers = group(read.num_hidden_layers, read.hidden_size, post("layer", look), think)
    parts = words(read, f"table {read.type_vocab_size}", f"learned positions {read.max_position_embeddings}", "norm")
    text = tower(read, "text", "ids", None, parts, (layers,), None)

    def turns(first, other, mix, d_ff):
        """Layers that look at another stream first: the last norm of all but the last layer is one of two."""
        cross = looks_both_ways(None, heads=heads, kv_heads=heads, d_k=c.encoder_ffn_dim // 2 // heads, kernel="plain")
        begun, cross = replace(cross, source=first, beginning=other), replace(cross, source=other)
        think = post("layer", thinks(d_ff, c.activation_function))
        twice = replace(think, norm=replace(think.norm, times=2))
        return [
            group(
                (layer,),
                width,
                replace(bare(cross if layer else begun), scale="learned"),
                post("layer", mix),
                twice if layer < c.encoder_layers - 1 else think,
            )
            for layer in range(c.encoder_layers)
        ]

    sample = DeformableAttention("self", 2 * heads, width // heads // 2, c.num_feature_levels, c.encoder_n_points)
    maps = turns("text", "encoder 2", sample, c.encoder_ffn_dim)
    image = tower(c, "encoder", None, None, entrance(f"convolution {width}", "norm"), maps, None)
    own = replace(looks_by_place(width, heads), **by_phrases)
    phrases = turns("vision", "encoder", own, c.encoder_ffn_dim // 2)
    said = tower(c, "encoder 2", None, None, entrance(f"projection {width}", "norm"), phrases, None)
    own = replace(looks_by_place(width, c.decoder_attention_heads, is_told=False), kernel="plain")
    asks = group(
        c.decoder_layers,
        width,
        post("layer", own),
        post("layer", replace(own, source="encoder 2")),
        samples(c, c.decoder_attention_heads),
        post("layer", thinks(c.decoder_ffn_dim, c.activation_function)),
    )
    rows = entrance(f"learned rows {c.num_queries}")
    queries = tower(c, "decoder", None, False, rows, (asks,), "layer", own_numbers=True)
    links = (
        memory("text", "encoder"),
        memory("encoder 2", "encoder", *range(c.encoder_layers - 1)),
        Link("joined", "vision", "encoder", LATER_STAGES),
        memory("vision", "encoder 2", *LATER_STAGES),
        memory("encoder", "encoder 2", *range(c.encoder_layers - 1)),
        Link("joined", "text", "encoder 2"),
        memory("encoder 2", "decoder"),
        memory("encoder", "decoder"),
    )
    untold = left_out("encoder_output_bbox_embed")
    net = residual_net(c, "vision")
    return network(text, net, image, said, queries, links=links, head=Head("none"), untold=untold)
