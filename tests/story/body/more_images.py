"""More networks that read images or sound, alone or beside words. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.images import count_patches, of_clip, of_vit
from story.body.joined import sees, writes
from story.body.truth import (
    after,
    attention,
    bare,
    between,
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
    scaled,
    sees_images,
    tower,
    within,
    words,
)

from xray.story.anatomy.attentions import ANOTHER_ROW
from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import Context, Convolution, PoolMixing
from xray.story.anatomy.tree import Head, Link

TWO = {"num_hidden_layers": 2}


@family("Aimv2Model", "aimv2:267, 325", named=True, vision_config=TWO, text_config=TWO)
def aimv2(c):
    see, read = c.vision_config, c.text_config
    sides = [(pre("rms", looks_both_ways(one)), pre("rms", gated(one))) for one in (see, read)]
    parts = entrance(f"patches {see.hidden_size}", "norm", f"positions {count_patches(see)}")
    found = of_clip(c, *sides, image_parts=parts, finals=("rms", "rms"))
    image, text = found.towers
    attend = replace(text.groups[0].stages[0], branches=(looks_both_ways(read, causal=False),))
    layers = (replace(text.groups[0], stages=(attend, text.groups[0].stages[1])),)
    return replace(found, towers=(image, replace(text, causal=False, groups=layers)))


@family("CLIPSegModel", "clipseg:268, 341", named=True, vision_config=TWO, text_config=TWO)
def clipseg(c):
    see, read = c.vision_config, c.text_config
    parts = entrance(f"patches {see.hidden_size}", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    return of_clip(
        c,
        (pre("layer", looks_both_ways(see)), pre("layer", plain(see))),
        (pre("layer", looks_both_ways(read, causal=True)), pre("layer", plain(read))),
        image_parts=parts,
        finals=("layer", "layer"),
    )


def compared(image, text):
    return network(image, text, links=(Link("compared", "vision", "text"),), head=Head("none"))


def of_roberta(read, final):
    parts = words(read, f"table {read.type_vocab_size}", f"positions {read.max_position_embeddings}", "norm")
    layers = group(
        read.num_hidden_layers, read.hidden_size, post("layer", looks_both_ways(read)), post("layer", plain(read))
    )
    return tower(read, "text", "ids", False, parts, (layers,), final)


@family("AltCLIPModel", "altclip:199, 319, 401, 474", named=True, vision_config=TWO, text_config=TWO)
def altclip(c):
    # a RoBERTa with one more norm behind its last layer reads the words
    see = c.vision_config
    image = sees(see, "vision", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    return network(
        image, of_roberta(c.text_config, "layer"), links=(Link("compared", "vision", "text"),), head=Head("none")
    )


@family("ChineseCLIPModel", "chinese_clip:237, 328, 430", named=True, vision_config=TWO, text_config=TWO)
def chinese_clip(c):
    see = c.vision_config
    image = sees(see, "vision", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    return network(
        image, of_roberta(c.text_config, None), links=(Link("compared", "vision", "text"),), head=Head("none")
    )


@family("ASTModel", "audio_spectrogram_transformer:130, 195", named=True, **TWO)
def audio_spectrogram_transformer(c):
    # sound as a picture of frames and mels; a token for the teacher stands beside the class token
    steps = ((c.num_mel_bins, c.frequency_stride), (c.max_length, c.time_stride))
    high, wide = ((size - c.patch_size) // step + 1 for size, step in steps)
    places = f"positions {high * wide + 2}"
    parts = entrance(f"convolution {c.hidden_size}", "class token 1", "learned rows 1", places)
    layers = (group(2, c.hidden_size, pre("layer", looks_both_ways(c)), pre("layer", plain(c))),)
    return network(tower(c, "audio", "audio", False, parts, layers, "layer"), head=Head("none"))


@family("Dinov2WithRegistersForImageClassification", "dinov2_with_registers:194, 300", named=True, **TWO)
def dinov2_with_registers(c):
    places = f"positions {count_patches(c) + 1}"
    parts = entrance(f"patches {c.hidden_size}", "class token 1", places, f"learned rows {c.num_register_tokens}")
    return scaled(of_vit(c, looks_both_ways(c), plain(c, d_ff=c.hidden_size * c.mlp_ratio), parts=parts))


@family("DINOv3ViTModel", "dinov3_vit:278, 407", named=True, **TWO)
def dinov3_vit(c):
    # it has no registers by default: a join of nothing
    parts = entrance(f"patches {c.hidden_size}", "class token 1")
    attend = looks_both_ways(c, positions="rotary", place_numbers=2)  # rows and columns (line 200)
    found = scaled(of_vit(c, attend, plain(c), parts=parts))
    return replace(found, head=Head("none"))


@family("GLPNModel", "glpn:58, 151, 236", named=True)
def glpn(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width, heads = c.hidden_sizes[stage], c.num_attention_heads[stage]
        gathered = c.sr_ratios[stage] ** 2
        told = {"kernel": "plain", "gathered": gathered if gathered > 1 else None}
        attend = looks_both_ways(c, heads=heads, d_k=width // heads, **told)
        think = plain(c, d_ff=width * c.mlp_ratios[stage], kernel=(3, 3))
        groups.append(group(range(first, first + depth), width, pre("layer", attend), pre("layer", think)))
        first += depth
    parts = entrance(f"convolution {c.hidden_sizes[0]}", "norm")
    return sees_images(c, groups=groups, parts=parts, final="layer", joined=4, head=Head("none"))


@family("FocalNetForImageClassification", "focalnet:360", named=True)
def focalnet(c):
    # neighbours are mixed by convolutions of growing reach, gated by a linear layer; their widest is told
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width = c.embed_dim * 2**stage
        reach = c.focal_windows[stage] + 2 * (c.focal_levels[stage] - 1)
        mix, think = Convolution((reach, reach), width, adds_mean=True), plain(c, d_ff=int(c.mlp_ratio * width))
        groups.append(group(range(first, first + depth), width, pre("layer", mix), pre("layer", think)))
        first += depth
    parts = entrance(f"patches {c.embed_dim}", "norm")
    return sees_images(c, groups=groups, parts=parts, joined=4, final="layer", causal=None)


@family("PoolFormerForImageClassification", "poolformer:67, 137", named=True)
def poolformer(c):
    mix = PoolMixing((c.pool_size, c.pool_size), "mean", less_itself=True)
    groups, first = [], 0
    for width, depth in zip(c.hidden_sizes, c.depths, strict=True):
        think = plain(c, d_ff=int(c.mlp_ratio * width))
        groups.append(group(range(first, first + depth), width, pre("group", mix), pre("group", think)))
        first += depth
    parts = entrance(f"convolution {c.hidden_sizes[0]}")
    return scaled(sees_images(c, groups=groups, parts=parts, joined=4, final="group", causal=None))


@family("ConvNextV2ForImageClassification", "convnextv2:133", named=True)
def convnextv2(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width = c.hidden_sizes[stage]
        wide = stage == 3 or None  # it is a map of 7 x 7 places of an image of 224 x 224
        groups.append(group(range(first, first + depth), width, within(Convolution((7, 7), width, is_wide=wide))))
        first += depth
    parts = entrance(f"patches {c.hidden_sizes[0]}", "norm")
    return sees_images(c, groups=groups, parts=parts, joined=4, final="layer", causal=None)


@family("Glm4vVisionModel", "glm4v:315, 398", named=True, depth=2)
def glm4v_vision(c):
    # patches come as flat rows, those of all images one behind the other; each image attends by itself
    attend = looks_both_ways(c, heads=c.num_heads, positions="rotary", fused="qkv", pieces=2)
    layers = (group(2, c.hidden_size, pre("rms", attend), pre("rms", gated(c, d_ff=c.out_hidden_size))),)
    parts = entrance(f"patches {c.hidden_size}", "norm", f"positions {(c.image_size // c.patch_size) ** 2}")
    image = tower(c, "vision", "image", False, parts, layers, "rms")
    return network(image, head=Head("none"))


@family("GlmOcrVisionModel", "glm_ocr:374, 466", named=True, depth=2)
def glm_ocr_vision(c):
    attend = looks_both_ways(c, heads=c.num_heads, positions="rotary", fused="qkv", qk_norm=True, pieces=2)
    layers = (group(2, c.hidden_size, pre("rms", attend), pre("rms", gated(c))),)
    image = tower(c, "vision", "image", False, entrance(f"patches {c.hidden_size}"), layers, "rms")
    return network(image, head=Head("none"))


@family("Cosmos3EdgeVisionModel", "cosmos3_edge:426, 525", named=True, **TWO)
def cosmos3_edge_vision(c):
    # two images in one row attend one by one: their values are no wider for it, and there is no window
    parts = entrance(f"projection {c.hidden_size}", f"positions {c.num_patches}")
    layers = (group(2, c.hidden_size, pre("layer", looks_both_ways(c, pieces=2)), pre("layer", plain(c))),)
    rows = tower(c, "vision", "image", False, parts, layers, "layer", vocab=None)
    return network(rows, head=Head("none"))


@family("DacModel", "dac:175, 212, 236", named=True)
def dac(c):
    # channels stand before places all the way; three sums follow on each width, down, and in a decoder up again
    down = [c.encoder_hidden_size * 2**stage for stage in range(len(c.downsampling_ratios))]
    up = [c.decoder_hidden_size // 2 ** (stage + 1) for stage in range(len(c.upsampling_ratios))]

    def stage(widths, ratios):
        groups = [
            group(range(3 * one, 3 * one + 3), width, bare(Convolution((7,), 1))) for one, width in enumerate(widths)
        ]
        steps = enumerate(zip(widths[:-1], widths[1:], ratios, strict=False), 1)
        return groups, tuple(Bridge(3 * number, ratio, *pair) for number, (*pair, ratio) in steps)

    groups, bridges = stage(down, c.downsampling_ratios)
    sound = tower(c, "audio", "audio", None, entrance(f"convolution {down[0]}"), groups, None, bridges=bridges)
    groups, bridges = stage(up, [None] * len(up))
    tables = [f"table {c.codebook_size}"] * c.n_codebooks
    parts = entrance(*tables, f"convolution {up[0]}")  # a snake and a convolution that makes places more
    made = tower(c, "stack", None, None, parts, groups, None, bridges=bridges)
    ends = left_out("decoder.snake1", "decoder.conv2")
    return network(sound, made, links=(Link("joined", "audio", "stack"),), head=Head("none"), untold=ends)


@family(
    "DeepseekVLForConditionalGeneration",
    "deepseek_vl:66; siglip:250; llama:206, 273",
    named=True,
    vision_config={"model_type": "siglip_vision_model", **TWO},
    text_config={"model_type": "llama", **TWO},
)
def deepseek_vl(c):
    see, read = c.vision_config, c.text_config
    parts = (f"projection {read.hidden_size}", f"projection {read.hidden_size}")
    text = writes(read, pre("rms", attention(read)), pre("rms", gated(read)), parts=parts)
    return network(
        sees(see, "vision", f"positions {count_patches(see)}"),
        text,
        links=(Link("joined", "vision", "text"),),
        head=Head("vocabulary", read.vocab_size, True),
        untold=left_out("model.vision_model.head", lost=True),
    )


@family("LightGlueForKeypointMatching", "lightglue:247, 273, 301, 318", named=True, num_hidden_layers=3)
def lightglue(c):
    # what an attention found goes beside the stream into a feed-forward with a norm in its middle, and only then is
    # added; keys of the second attention are those of the other image
    sizes = {"heads": c.num_attention_heads, "d_k": c.descriptor_dim // c.num_attention_heads}
    think = plain(c, d_ff=2 * c.descriptor_dim, activation="gelu")
    # a linear layer makes the angles of where points lie (line 170): they tell no counted places
    own = within(looks_both_ways(c, **sizes, positions=None, partial=True), think)
    other = within(looks_both_ways(c, **sizes, source=ANOTHER_ROW, partial=True), think)
    stages = (replace(own, parallel=False), replace(other, parallel=False))
    layers = tuple(group(rows, c.descriptor_dim, *stages) for rows in ((0, 2), (1,)))
    # how sure each key point is, a linear layer tells between the layers: those that are sure go on no further
    kept = tuple(Bridge(layer, None, c.descriptor_dim, c.descriptor_dim) for layer in range(1, c.num_hidden_layers))
    parts = entrance(f"convolution {c.descriptor_dim}")
    found = tower(c, "vision", "image", False, parts, layers, None, bridges=kept)
    ends = left_out(
        "keypoint_detector.keypoint_decoder.conv_score_a", "keypoint_detector.keypoint_decoder.conv_score_b"
    )
    return network(found, untold=ends)


@family("EfficientLoFTRModel", "efficientloftr:240, 249, 337, 444, 474, 503, 509, 664", named=True)
def efficientloftr(c):
    # convolutions, then layers in which both images look at themselves, and in turn at each other, in rows of 4 x 4
    sizes = {"heads": c.num_attention_heads, "d_k": c.hidden_size // c.num_attention_heads}
    sizes |= {"coarse": c.q_aggregation_kernel_size**2}
    think = plain(c, d_ff=2 * c.hidden_size, activation="leaky_relu")
    own = after("layer", looks_both_ways(c, **sizes, positions="rotary"), think)
    other = after("layer", looks_both_ways(c, **sizes, source=ANOTHER_ROW), think)
    stages = (replace(own, parallel=False), replace(other, parallel=False))
    groups, first, stage = [], 0, replace(within(Convolution((3, 3), 1)), past=("norm",))
    for width, depth in ((64, 2), (128, 3), (256, 13)):
        groups.append(group(range(first, first + depth), width, stage))
        first += depth
    layers = (*groups, group(range(first, first + c.num_attention_layers), c.hidden_size, *stages))
    found = tower(c, "vision", "image", False, entrance("convolution 64"), layers, None, bridges=between(groups, 4))
    return network(found, head=Head("none"))


@family("MetaClip2ForImageClassification", "metaclip_2:184, 257, 1114", named=True)
def metaclip_2(c):
    # classes are told from the mean of the patches: what the last norm makes of the class token is dropped
    see = c.vision_config
    parts = entrance(f"patches {see.hidden_size}", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    stages = pre("layer", looks_both_ways(see)), pre("layer", plain(see))
    layers = (group(see.num_hidden_layers, see.hidden_size, *stages),)
    found = tower(see, "vision", "image", False, parts, layers, None)
    return network(found, head=Head("classes", c.num_labels), untold=left_out("vision_model.post_layernorm", lost=True))


@family("MobileViTV2ForImageClassification", "mobilevitv2:232, 314, 440", named=True)
def mobilevitv2(c):
    # one score of each place; inverted bottlenecks, one of them with a sum, stand before all layers, others between
    widths, size = (128, 192, 256), c.image_size // 16
    layers, first = [], 0
    for stage, (width, depth) in enumerate(zip(widths, c.n_attn_blocks, strict=True)):
        context = Context((size >> stage) ** 2, sums=4)  # a sum for each place of a patch of 2 by 2
        think = plain(c, d_ff=2 * width, activation="silu")
        layers.append(group(range(first, first + depth), width, pre("group", context), pre("group", think)))
        first += depth
    bridges = tuple(Bridge(*one) for one in ((2, 4, 128, 192), (6, 4, 192, 256)))
    image = tower(
        c,
        "vision",
        "image",
        None,
        entrance("convolution 128", "convolution", "norm"),
        layers,
        "group",
        bridges=bridges,
    )
    return network(image, head=Head("classes", c.num_labels))
