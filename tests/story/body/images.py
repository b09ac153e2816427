"""Networks that read images or sound, alone or beside words. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    after,
    between,
    entrance,
    family,
    group,
    looks_both_ways,
    network,
    plain,
    post,
    pre,
    scaled,
    sees_images,
    shortened,
    tower,
    within,
    words,
)

from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Head, Link, Untold


def count_patches(c):
    return (c.image_size // c.patch_size) ** 2


def of_vit(c, attend, think, *, parts, final="layer", width=None):
    return sees_images(c, pre("layer", attend), pre("layer", think), parts=parts, final=final)


@family("ViTForImageClassification", "vit:192, 257", num_hidden_layers=2, fast=True)
def vit(c):
    parts = entrance(f"patches {c.hidden_size}", "class token 1", f"learned positions {count_patches(c) + 1}")
    return of_vit(c, looks_both_ways(c), plain(c), parts=parts)


@family("DeiTForImageClassification", "deit:197, 262", num_hidden_layers=2)
def deit(c):
    # a token for the teacher's classes beside the class token
    parts = entrance(f"patches {c.hidden_size}", "class token 1", "learned rows 1", f"positions {count_patches(c) + 2}")
    return of_vit(c, looks_both_ways(c), plain(c), parts=parts)


@family("BeitForImageClassification", "beit:296, 384", num_hidden_layers=2)
def beit(c):
    # neither kind of positions is on by default; the last norm reads the mean of the patches
    parts = entrance(f"patches {c.hidden_size}", "class token 1")
    return scaled(of_vit(c, looks_both_ways(c), plain(c), parts=parts))


@family("Dinov2ForImageClassification", "dinov2:179, 294", num_hidden_layers=2)
def dinov2(c):
    parts = entrance(f"patches {c.hidden_size}", "class token 1", f"positions {count_patches(c) + 1}")
    return scaled(of_vit(c, looks_both_ways(c), plain(c, d_ff=c.hidden_size * c.mlp_ratio), parts=parts))


@family("SiglipForImageClassification", "siglip:250, 325")
def siglip(c):
    vision = c.vision_config
    parts = entrance(f"patches {vision.hidden_size}", f"positions {count_patches(vision)}")
    layers = (
        group(
            vision.num_hidden_layers,
            vision.hidden_size,
            pre("layer", looks_both_ways(vision)),
            pre("layer", plain(vision)),
        ),
    )
    return network(tower(c, "vision", "image", False, parts, layers, "layer"), head=Head("classes", c.num_labels))


def of_clip(c, vision, text, *, image_parts, finals, untold=()):
    """Two towers whose last rows are compared."""
    layers = (group(c.vision_config.num_hidden_layers, c.vision_config.hidden_size, *vision),)
    sees = tower(c.vision_config, "vision", "image", False, image_parts, layers, finals[0])
    layers = (group(c.text_config.num_hidden_layers, c.text_config.hidden_size, *text),)
    parts = words(c.text_config, f"positions {c.text_config.max_position_embeddings}")
    reads = tower(c.text_config, "text", "ids", True, parts, layers, finals[1])
    return network(sees, reads, links=(Link("compared", "vision", "text"),), head=Head("none"), untold=untold)


@family("CLIPModel", "clip:280, 353")
def clip(c):
    see, read = c.vision_config, c.text_config
    parts = entrance(f"patches {see.hidden_size}", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    return of_clip(
        c,
        (pre("layer", looks_both_ways(see)), pre("layer", plain(see))),
        (pre("layer", looks_both_ways(read, causal=True)), pre("layer", plain(read))),
        image_parts=parts,
        finals=("layer", "layer"),
    )


@family("SwinForImageClassification", "swin:401, 508", named=True)
def swin(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width = c.embed_dim * 2**stage
        sizes = {"heads": c.num_heads[stage], "d_k": width // c.num_heads[stage], "positions": "relative"}
        think = pre("layer", plain(c, d_ff=int(c.mlp_ratio * width)))
        # every other layer is rolled, and hides by a mask what came from the other side; the last stage is one window
        numbers = range(first, first + depth)
        kinds = [(numbers[::2], False), (numbers[1::2], True)] if stage < 3 else [(numbers, None)]
        for own, rolled in kinds:
            window, whole = (None, c.window_size**2) if rolled is None else (c.window_size**2, None)
            attend = looks_both_ways(c, **sizes, window=window, rolled=rolled, all_places=whole)
            groups.append(group(own, width, pre("layer", attend), think))
        first += depth
    parts = entrance(f"patches {c.embed_dim}", "norm")
    return sees_images(
        c,
        groups=groups,
        parts=parts,
        joined=4,
        final="layer",
    )


@family("SegformerForImageClassification", "segformer:139, 271")
def segformer(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width, heads = c.hidden_sizes[stage], c.num_attention_heads[stage]
        gathered = c.sr_ratios[stage] ** 2
        attend = looks_both_ways(c, heads=heads, d_k=width // heads, gathered=gathered if gathered > 1 else None)
        think = plain(c, d_ff=width * c.mlp_ratios[stage], kernel=(3, 3))
        groups.append(group(range(first, first + depth), width, pre("layer", attend), pre("layer", think)))
        first += depth
    parts = entrance(f"convolution {c.hidden_sizes[0]}", "norm")
    return sees_images(
        c,
        groups=groups,
        parts=parts,
        joined=4,
        final="layer",
    )


@family("PvtForImageClassification", "pvt:117, 274")
def pvt(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width, heads = c.hidden_sizes[stage], c.num_attention_heads[stage]
        gathered = c.sequence_reduction_ratios[stage] ** 2
        told = {"kernel": "plain", "gathered": gathered if gathered > 1 else None}
        attend = looks_both_ways(c, heads=heads, d_k=width // heads, **told)
        think = plain(c, d_ff=width * c.mlp_ratios[stage])
        groups.append(group(range(first, first + depth), width, pre("layer", attend), pre("layer", think)))
        first += depth
    parts = entrance(f"patches {c.hidden_sizes[0]}", "norm", f"positions {56 * 56}")
    found = sees_images(c, groups=groups, parts=parts, joined=4, final="layer")
    *others, last = found.towers[0].bridges  # a class token is put in front of the last stage
    bridges = (*others, replace(last, joined=Silent(4)))
    return replace(found, towers=(replace(found.towers[0], bridges=bridges),))


@family("ConvNextForImageClassification", "convnext:114")
def convnext(c):
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width = c.hidden_sizes[stage]
        wide = stage == 3 or None  # it is a map of 7 x 7 places of an image of 224 x 224
        groups.append(group(range(first, first + depth), width, within(Convolution((7, 7), width, is_wide=wide))))
        first += depth
    found = sees_images(
        c,
        groups=groups,
        parts=entrance(f"patches {c.hidden_sizes[0]}", "norm"),
        joined=4,
        final="layer",
        causal=None,
    )
    return scaled(found)


@family("ResNetForImageClassification", "resnet:139, 39")
def resnet(c):
    # bottlenecks of three convolutions, each with its norm
    stage = after("batch", Convolution((3, 3), 1))
    groups = shortened(c.hidden_sizes, c.depths, stage, "convolution", "norm")
    found = sees_images(c, groups=groups, parts=entrance(f"convolution {c.embedding_size}"), final=None, causal=None)
    (seen,) = found.towers
    return replace(found, towers=(replace(seen, bridges=between(groups, 4, within=True)),))


@family("BitForImageClassification", "bit:361, 450")
def bit(c):
    # the weights are standardised, in the first layer of a stage the way past the branch reads its norm too (line 367)
    ends = [sum(c.depths[: stage + 1]) for stage in range(len(c.depths))]
    stage = pre("group", Convolution((3, 3), 1))
    groups = [
        replace(one, shared=False if one.count > 1 else None)
        for one in shortened(c.hidden_sizes, c.depths, stage, "norm", "relu", "convolution")
    ]
    found = sees_images(c, groups=groups, parts=entrance(f"convolution {c.embedding_size}"), final="group", causal=None)
    widths = zip(ends[:-1], c.hidden_sizes, c.hidden_sizes[1:], strict=False)
    (seen,) = found.towers
    bridges = tuple(Bridge(end, 4, before, after, within=True) for end, before, after in widths)
    return replace(found, towers=(replace(seen, bridges=bridges),))


def of_wav2vec(c, **more):
    parts = entrance(f"convolution {c.conv_dim[-1]}", "norm", f"projection {c.hidden_size}", "convolution", "norm")
    layers = (group(c.num_hidden_layers, c.hidden_size, post("layer", looks_both_ways(c)), post("layer", plain(c))),)
    return network(tower(c, "audio", "audio", False, parts, layers, None), head=Head("none"))


@family("Wav2Vec2Model", "wav2vec2:470, 258", num_hidden_layers=2)
def wav2vec2(c):
    return of_wav2vec(c)


@family("HubertModel", "hubert:265, 98", num_hidden_layers=2)
def hubert(c):
    return of_wav2vec(c)


@family("GitForCausalLM", "git:116, 259", num_hidden_layers=2)
def git(c):
    # the rows of the image stand before the words; a mask lets words see them, and not the other way round
    see = c.vision_config
    parts = entrance(f"patches {see.hidden_size}", "class token 1", f"positions {count_patches(see) + 1}", "norm")
    stages = (
        pre("layer", looks_both_ways(see, kernel="plain")),
        pre("layer", plain(see)),
    )
    layers = (group(see.num_hidden_layers, see.hidden_size, *stages),)
    image = tower(see, "vision", "image", False, parts, layers, "layer")
    attend = looks_both_ways(c, kernel="plain", causal=Silent("among words; rows of the image see each other"))
    layers = (group(c.num_hidden_layers, c.hidden_size, post("layer", attend), post("layer", plain(c))),)
    before = words(c, f"positions {c.max_position_embeddings}", "norm", f"projection {c.hidden_size}", "norm")
    text = tower(c, "text", "ids", Silent("among words"), before, layers, None)
    return network(image, text, links=(Link("joined", "vision", "text"),), head=Head("vocabulary", c.vocab_size, False))


@family("BlipModel", "blip:285, 363")
def blip(c):
    see, read = c.vision_config, c.text_config
    parts = entrance(f"patches {see.hidden_size}", "class token 1", f"positions {count_patches(see) + 1}")
    stages = (pre("layer", looks_both_ways(see, fused="qkv", kernel="plain")), pre("layer", plain(see)))
    layers = (group(see.num_hidden_layers, see.hidden_size, *stages),)
    image = tower(see, "vision", "image", False, parts, layers, "layer")
    stages = (post("layer", looks_both_ways(read, kernel="plain")), post("layer", plain(read)))
    layers = (group(read.num_hidden_layers, read.hidden_size, *stages),)
    text = tower(
        read, "text", "ids", False, words(read, f"positions {read.max_position_embeddings}", "norm"), layers, None
    )
    return network(image, text, links=(Link("compared", "vision", "text"),), head=Head("none"))


@family("DPTForDepthEstimation", "dpt:215, 435", named=True, num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3])
def dpt(c):
    # the table of places is cut, resized and joined again; what follows the tower joins its layers from below
    parts = entrance(f"patches {c.hidden_size}", "class token 1", f"positions {count_patches(c) + 1}")
    found = of_vit(c, looks_both_ways(c), plain(c), parts=parts)
    # what its last norm gives nothing reads (line 794): the pictures of depths are made of the layers themselves
    unread = (Untold("dpt.layernorm", 2 * c.hidden_size, lost=True),)
    vision = replace(found.towers[0], final_norm=None)
    return replace(found, towers=(vision,), head=Silent("a picture of depths"), untold=unread)


@family("Swinv2ForImageClassification", "swinv2:389, 652", named=True)
def swinv2(c):
    # queries and keys are made as long as 1, and multiplied by a learned number; norms stand behind the branches
    groups, first = [], 0
    for stage, depth in enumerate(c.depths):
        width = c.embed_dim * 2**stage
        sizes = {
            "heads": c.num_heads[stage],
            "d_k": width // c.num_heads[stage],
            "positions": "relative",
            "qk_norm": True,
            "qk_norm_over": "head",
            "qk_norm_kind": None,  # they become of length 1
            "kernel": "plain",
            "window": c.window_size**2 if stage < 3 else None,
            "all_places": None if stage < 3 else c.window_size**2,
        }
        cut, think = stage < 3, after("layer", plain(c, d_ff=int(c.mlp_ratio * width)))
        whole, rolled = (
            looks_both_ways(c, **sizes, causal=causal, rolled=rolled if cut else None)
            for causal, rolled in ((False, False), (Silent(False), True))
        )
        rolled = replace(rolled, kept_apart=200)  # 100 for each of two sums of the mask (lines 435, 436)
        numbers = range(first, first + depth)
        kinds = [(numbers[::2], whole), (numbers[1::2], rolled)] if stage < 3 else [(numbers, whole)]
        groups += [group(own, width, after("layer", attend), think) for own, attend in kinds]
        first += depth
    parts = entrance(f"patches {c.embed_dim}", "norm")
    return sees_images(
        c,
        groups=groups,
        parts=parts,
        joined=4,
        final="layer",
        causal=Silent(False),
    )


@family("Data2VecVisionForImageClassification", "data2vec_vision:245, 384", named=True, num_hidden_layers=2)
def data2vec_vision(c):
    return beit(c)


@family("Data2VecAudioForCTC", "data2vec_audio:304, 379", named=True, vocab_size=32, num_hidden_layers=2)
def data2vec_audio(c):
    # each of seven convolutions has its norm; five more of them tell places
    found = of_wav2vec(c).towers[0]
    norms = entrance(*["norm"] * 6, f"convolution {c.conv_dim[-1]}", "norm", "norm")
    rest = entrance(f"projection {c.hidden_size}", "convolution", "norm")
    return network(replace(found, entrance=(*norms, *rest)), head=Head("numbers", c.vocab_size))


@family("SEWDModel", "sew_d:488, 681, 1109", tiny=True, num_hidden_layers=2)
def sew_d(c):
    # what comes out of the softmax is masked once more, in place; two places are made one before the layers
    attend = looks_both_ways(c, positions="relative", places_by_rows=True, kernel="plain")
    layers = (
        group(c.num_hidden_layers, c.hidden_size, post("layer", attend), post("layer", plain(c, activation="gelu"))),
    )
    parts = entrance("norm", f"projection {c.hidden_size}", f"convolution {c.hidden_size}")
    return network(tower(c, "audio", "audio", False, parts, layers, None), head=Head("none"))
