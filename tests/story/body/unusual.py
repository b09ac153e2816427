"""Networks that are built as few others are. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.detectors import looks, looks_by_place, samples, thinks
from story.body.truth import (
    attention,
    between,
    entrance,
    family,
    group,
    left_out,
    looks_both_ways,
    memory,
    network,
    plain,
    post,
    pre,
    scaled,
    tower,
    words,
)

from xray.story.anatomy.attentions import DeformableAttention
from xray.story.anatomy.beside_layers import Boxes
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
    look = looks_both_ways(see, partial=True, together=patches + 2)  # a frame sees itself alone, and a row of others
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
            memory("encoder", "decoder", 2),  # its last norm is that of the class token (line 756)
            Link("joined", "text", "decoder"),
            # the stack's rows, to which are added those that it began with (line 791): the film that is compared
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


@family(
    "LwDetrForObjectDetection",
    "lw_detr:178, 180, 277, 385, 913, 1395",
    named=True,
    backbone_config={
        "model_type": "lw_detr_vit",
        "hidden_size": 48,
        "num_attention_heads": 3,
        "num_hidden_layers": 4,
        "image_size": 256,
        "window_block_indices": [0, 1, 3],
        "out_indices": [2, 4],
    },
    projector_scale_factors=[1.0],
    num_queries=20,
)
def lw_detr(c):
    # windows are sequences of their own, but in the layers whose output is handed on
    net = c.backbone_config
    patches = (net.image_size // net.patch_size) ** 2
    think = pre("layer", thinks(net.hidden_size * net.mlp_ratio, "gelu"))
    whole = looks(net.hidden_size, net.num_attention_heads)
    cut = replace(whole, window=patches // net.num_windows, rolled=False)
    whole = replace(whole, partial=True)
    held = tuple(net.window_block_indices), tuple(n for n in range(4) if n not in net.window_block_indices)
    layers = [
        group(rows, net.hidden_size, pre("layer", one), think) for rows, one in zip(held, (cut, whole), strict=True)
    ]
    places = (net.pretrain_image_size // net.patch_size) ** 2
    parts = entrance(f"patches {net.hidden_size}", f"learned positions {places + 1}")
    image = tower(net, "encoder", "image", False, parts, layers, None)
    asks = group(
        c.decoder_layers,
        c.d_model,
        post("layer", looks_by_place(c.d_model, c.decoder_self_attention_heads, is_told=False)),
        samples(c, c.decoder_cross_attention_heads),
        post("layer", thinks(c.decoder_ffn_dim, c.decoder_activation_function)),
    )
    rows = entrance(f"learned rows {c.num_queries}")
    queries = tower(c, "decoder", None, False, rows, (asks,), "layer", own_numbers=True)
    found = left_out("model.backbone.projector")
    links = (memory("encoder", "decoder", *(number - 1 for number in net.out_indices)),)
    return network(*scaled(network(image)).towers, queries, links=links, untold=found)


def sees_at_once(c):
    """The eye of SAM 3: most layers look at windows."""
    look = looks(c.hidden_size, c.num_attention_heads)
    look = replace(look, positions="rotary", place_numbers=2)  # rows and columns (line 448)
    think = pre("layer", thinks(c.intermediate_size, c.hidden_act))
    rows = [n for n in range(c.num_hidden_layers) if n not in c.global_attn_indexes], c.global_attn_indexes
    cut = replace(look, window=c.window_size**2, rolled=False)
    layers = [group(held, c.hidden_size, pre("layer", one), think) for held, one in zip(rows, (cut, look), strict=True)]
    places = (c.pretrain_image_size // c.patch_size) ** 2
    parts = entrance(f"patches {c.hidden_size}", f"learned positions {places}", "norm")
    return tower(c, "vision", "image", False, parts, layers, None)


@family(
    "Sam3Model",
    "sam3:604, 783, 1375, 1616, 1803, 1830; clip:353",
    named=True,
    vision_config={
        "backbone_config": {"model_type": "sam3_vit_model", "num_hidden_layers": 3, "global_attn_indexes": [1]}
    },
    text_config={"num_hidden_layers": 2},
    detr_encoder_config={"num_layers": 2},
    detr_decoder_config={"num_layers": 2},
)
def sam3(c):
    # the map looks at the text, learned queries look at the text and at the map, in which boxes say how near it is
    see, read, mix, ask = c.vision_config.backbone_config, c.text_config, c.detr_encoder_config, c.detr_decoder_config
    ahead = replace(looks(read.hidden_size, read.num_attention_heads), causal=True)
    texts = tower(
        read,
        "encoder",
        "ids",
        True,
        words(read, f"learned positions {read.max_position_embeddings}"),
        (group(2, read.hidden_size, pre("layer", ahead), pre("layer", thinks(read.intermediate_size, "quick gelu"))),),
        "layer",
    )
    own = looks_by_place(mix.hidden_size, mix.num_attention_heads)
    to_text = replace(own, source="encoder", positions="none")
    think = pre("layer", thinks(mix.intermediate_size, mix.hidden_act))
    maps = tower(
        mix,
        "encoder 2",
        None,
        False,
        entrance(f"convolution {mix.hidden_size}"),
        (group(2, mix.hidden_size, pre("layer", own), pre("layer", to_text), think),),
        None,
    )
    own = looks_by_place(ask.hidden_size, ask.num_attention_heads, is_told=False)
    near = replace(own, source="encoder 2", positions="relative")
    stages = [post("layer", one) for one in (own, replace(own, source="encoder"), near)]
    think = post("layer", thinks(ask.intermediate_size, ask.hidden_act))
    queries = tower(
        ask,
        "decoder",
        None,
        False,
        entrance("learned rows 1", f"learned rows {ask.num_queries}"),
        (group(2, ask.hidden_size, *stages, think),),
        "layer",
        own_numbers=True,
        tapped=(0,),  # the boxes that the first layer corrected are handed out (line 1815)
    )
    pairs = (("encoder", "encoder 2"), ("encoder", "decoder"), ("encoder 2", "decoder"))
    first, *others = (memory(*pair) for pair in pairs)
    links = (first, Link("joined", "vision", "encoder 2"), *others)
    links += tuple(Link("compared", one, "decoder") for one in ("vision", "encoder 2"))
    found = left_out(*(f"vision_encoder.neck.fpn_layers.{number}" for number in (0, 1)))
    # nothing reads the smallest map (line 2366), nor the text tower's own pooled row: another is made (line 2263)
    found += left_out("vision_encoder.neck.fpn_layers.3", "text_encoder.text_projection", lost=True)
    found += left_out(*(f"detr_decoder.box_rpb_embed_{axis}" for axis in "xy"))
    found += left_out(*(f"mask_decoder.prompt_cross_attn.{name}_proj" for name in "kv"))
    return network(sees_at_once(see), texts, maps, queries, links=links, head=Head("none"), untold=found)


@family("YolosForObjectDetection", "yolos:112, 427", named=True, num_hidden_layers=4, image_size=[64, 96])
def yolos(c):
    # places are added anew before each layer but the first: they are no stream
    patches = (c.image_size[0] // c.patch_size) * (c.image_size[1] // c.patch_size)
    rows = f"positions {patches + c.num_detection_tokens + 1}"
    parts = entrance(
        f"patches {c.hidden_size}", "class token 1", f"learned rows {c.num_detection_tokens}", f"learned {rows}"
    )
    layers = group(4, c.hidden_size, pre("layer", looks_both_ways(c)), pre("layer", plain(c)))
    found = left_out("vit.encoder.interpolation")
    return network(tower(c, "vision", "image", False, parts, (layers,), "layer"), untold=found)


@family(
    "OmDetTurboForObjectDetection",
    "omdet_turbo:290, 566, 937, 1266, 1276, 1346, 1419; clip:353",
    named=True,
    backbone_config={
        "model_type": "swin",
        "depths": [1, 1, 1, 1],
        "image_size": 224,
        "out_indices": [2, 3, 4],
    },
    text_config={"num_hidden_layers": 2},
    image_size=224,
    apply_layernorm_after_vision_backbone=False,
    num_queries=20,
    decoder_num_layers=3,
)
def omdet_turbo(c):
    # the smallest map through an encoder, words of classes and of a task through one text model; what scores best
    # beside the classes asks, and the task's rows stand beside it
    see, read = c.backbone_config, c.text_config
    groups = []
    for stage in range(4):
        width, heads = see.embed_dim * 2**stage, see.num_heads[stage]
        look = replace(looks(width, heads), positions="relative")
        whole = see.window_size**2
        look = replace(look, window=whole, rolled=False) if stage < 3 else replace(look, all_places=whole)
        think = pre("layer", plain(see, d_ff=int(see.mlp_ratio * width)))
        groups.append(group((stage,), width, pre("layer", look), think))
    parts = entrance(f"patches {see.embed_dim}", "norm")
    eye = tower(see, "vision", "image", False, parts, groups, "layer", bridges=between(groups, 4))
    wide = c.encoder_hidden_dim
    own = replace(looks_by_place(wide, c.encoder_attention_heads), kernel="plain")
    think = post("layer", thinks(c.encoder_dim_feedforward, c.encoder_feedforward_activation))
    layers = group(c.encoder_layers, wide, post("layer", own), think)
    maps = tower(c, "encoder", None, False, entrance(f"convolution {wide}"), (layers,), None)
    ahead = attention(read, positions="none")
    layers = group(read.num_hidden_layers, read.hidden_size, *thinks_quickly(read, ahead))
    before = words(read, f"positions {read.max_position_embeddings}")
    texts = [tower(read, name, "ids", True, before, (layers,), "layer") for name in ("classes", "tasks")]
    texts[1] = replace(texts[1], weights_of="classes")
    wide = c.decoder_hidden_dim
    own = replace(looks_by_place(wide, c.decoder_num_heads, is_told=False), kernel="plain")
    sample = DeformableAttention("encoder", c.decoder_num_heads, wide // c.decoder_num_heads, 3, c.decoder_num_points)
    think = post("layer", thinks(c.decoder_dim_feedforward, c.decoder_activation))
    first, others = ((post("layer", one), post("layer", sample), think) for one in (replace(own, beside="tasks"), own))
    # the task's rows are cut off behind the attention, and stand beside the others again in the next one (937 to 952)
    aside = replace(think, others=())
    layers = (group((0,), wide, *first[:2], aside), group((1,), wide, *others[:2], aside), group((2,), wide, *others))
    parts = entrance("norm", "norm", f"convolution {wide}", f"projection {wide}", "norm")
    boxes = Boxes((0, 1, 2), shared=False)
    queries = tower(c, "decoder", None, False, parts, layers, None, boxes=boxes)
    links = (
        Link("joined", "vision", "encoder"),
        memory("encoder", "decoder"),
        memory("tasks", "decoder"),
        Link("met", "vision", "encoder", (1, 2)),  # maps of the second stage and the third go into the pyramid
        Link("joined", "encoder", "decoder"),
        *(Link("compared", *pair) for pair in (("vision", "classes"), ("encoder", "classes"), ("classes", "decoder"))),
    )
    # maps are read before the eye's last norm, and but for training the last layer's classes alone (line 1417)
    found = left_out("vision_backbone.vision_backbone.swin.layernorm", lost=True)
    found += left_out(*(f"decoder.{name}" for name in ("task_encoder", "task_project", "encoder_bbox_head")))
    found += left_out(*(f"decoder.decoder_class_head.{number}" for number in (0, 1)), lost=True)
    return network(eye, maps, *texts, queries, links=links, head=Head("none"), untold=found)
