"""What configurations and modelling code say of a network, written as the anatomy that it has to be read as.

Sizes come from the configuration by machine. What else a family is like is written by hand from its code. A field that
a trace cannot prove is written as `Silent(truth)`: the anatomy has to leave it out, and never say anything else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.beside_layers import Bridge, EntrancePart
from xray.story.anatomy.branches import Experts, FeedForward
from xray.story.anatomy.tree import Anatomy, Group, Head, Link, Norm, Stage, Tower, Untold

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu tanh",
    "gelu_fast": "gelu tanh",
    "gelu_pytorch_tanh": "gelu tanh",
    "relu": "relu",
    "relu2": "relu squared",
    "quick_gelu": "quick gelu",
}


@dataclass(frozen=True)
class Silent:
    """A truth that the trace does not prove, so that nothing may be said."""

    truth: object


@dataclass(frozen=True)
class Family:
    """A model to be built, its class and the lines of its code (models/NAME/modeling_NAME.py), and what is true.

    One that is `named` is recorded as `xray trace FOLDER` records it, with the inputs that X-Ray makes.
    """

    name: str
    model: str
    code: str
    truth: Callable[[Any], Anatomy]
    config: dict[str, Any]
    inputs: Callable[[Any, Any], dict[str, Any]] | None
    tiny: bool
    half: bool
    fast: bool
    named: bool = False


FAMILIES: dict[str, Family] = {}


def family(model, code, *, inputs=None, tiny=False, half=False, fast=False, named=False, name=None, **config):
    """Notes a function that tells the truth of a model from its configuration, which `config` changes."""

    def note(truth):
        FAMILIES[name or truth.__name__] = Family(
            name or truth.__name__, model, code, truth, config, inputs, tiny, half, fast, named
        )
        return truth

    return note


def attention(c, **facts):
    """A causal attention of the usual kind, its sizes from a configuration."""
    heads = facts.pop("heads", None) or c.num_attention_heads
    d_k = facts.pop("d_k", None) or getattr(c, "head_dim", None) or c.hidden_size // heads
    kv_heads = facts.pop("kv_heads", None) or getattr(c, "num_key_value_heads", None) or heads
    if facts.get("positions", "rotary") == "rotary":
        facts = {"turned": count_turned(c, d_k), "place_numbers": count_place_numbers(c)} | facts
    return replace(
        Attention(
            source="self",
            heads=heads,
            kv_heads=kv_heads,
            d_k=d_k,
            d_v=d_k,
            positions="rotary",
            qk_norm=False,
            qk_norm_over="head" if facts.get("qk_norm") else None,
            qk_norm_kind="rms" if facts.get("qk_norm") else None,
            sinks=False,
            gate=False,
            kernel="scaled_dot_product_attention",
            causal=True,
        ),
        **facts,
    )


def count_turned(c, d_k):
    """How many numbers of a head a configuration turns, where it does not turn all."""
    rope = getattr(c, "rope_parameters", None) or {}
    told = getattr(c, "qk_rope_head_dim", None) or (not rope and getattr(c, "rotary_dim", None))
    turned = told or int(d_k * (rope.get("partial_rotary_factor") or 1))
    return turned if turned < d_k else None


def count_place_numbers(c):
    """How many numbers tell a place by which heads are turned, where a configuration says that they are several."""
    rope = getattr(c, "rope_parameters", None) or {}
    return len(rope.get("mrope_section") or ()) or {"axial": 2}.get(rope.get("rope_type"))


def looks_both_ways(c, **facts):
    """An attention of an encoder."""
    return attention(c, **({"causal": False, "positions": "none"} | facts))


def looks_by_distance(c, heads, width, window):
    """An attention of an encoder that scores half a window on each side of a place, and that itself."""
    sizes = {"heads": heads, "kv_heads": heads, "d_k": width // heads, "kernel": "plain"}
    return looks_both_ways(c, **sizes, window=window + 1, each_side=window // 2)


def gated(c, **facts):
    """A feed-forward with a gate."""
    return replace(plain(c), **{"gated": True, "fused": False} | facts)


def plain(c, **facts):
    """A feed-forward without a gate."""
    return replace(FeedForward(getattr(c, "intermediate_size", None), activation_of(c), False, None), **facts)


def experts(c, number, **facts):
    """Experts with gates, of which some are chosen."""
    facts = {"chosen_by": "router"} | facts
    d_ff = getattr(c, "intermediate_size", None)
    return replace(Experts(number, c.num_experts_per_tok, 0, d_ff, activation_of(c), True), **facts)


def held(limit, *more):
    """What is done to the factors of a gate before they meet: both held to a limit, and more to the second."""
    return {"held_gate": (("most", limit),), "held_up": (("least", -limit), ("most", limit), *more)}


def activation_of(c):
    named = ("hidden_act", "hidden_activation", "activation_function", "activation")
    return next((ACTIVATIONS[word] for name in named if (word := getattr(c, name, None)) in ACTIVATIONS), None)


def pre(kind, *branches):
    """A stage with its norm before the branches."""
    return Stage(branches, len(branches) > 1, Norm(kind, "before", None, False))


def post(kind, *branches):
    """A stage with its norm after the sum."""
    return Stage(branches, len(branches) > 1, Norm(kind, "after", "stream", False))


def after(kind, *branches):
    """A stage with its norm behind the branch, before the sum."""
    return Stage(branches, len(branches) > 1, Norm(kind, "after", "branch", False))


def both(kind, *branches):
    """A stage with a norm before the branch and another one behind it."""
    return Stage(branches, len(branches) > 1, Norm(kind, "both", "branch", False))


def bare(*branches):
    """A stage without a norm."""
    return Stage(branches, len(branches) > 1, Norm(None, "none", None, None))


def within(*branches):
    """A stage whose norm stands in the middle of its branch."""
    return Stage(branches, len(branches) > 1, Norm(None, None, None, None))


def scaled(network):
    """The same network, each sublayer multiplied by a learned number for each channel before it is added."""

    def scale(held):
        return replace(held, stages=tuple(replace(stage, scale="learned") for stage in held.stages))

    return replace(network, towers=tuple(replace(one, groups=tuple(map(scale, one.groups))) for one in network.towers))


def group(layers, width, *stages, shared=False):
    """Layers that are alike; one alone shares nothing that could be told."""
    layers = tuple(range(layers)) if isinstance(layers, int) else tuple(layers)
    return Group(layers, stages, width, shared if len(layers) > 1 else None)


def shortened(widths, depths, stage, *past, first=None):
    """Layers in stages; the stream is made wider past the first of each, of them all by `first` where it is another."""
    groups, number = [], 0
    for width, depth in zip(widths, depths, strict=True):
        way = past if number or first is None else first
        groups.append(group([number], width, replace(stage, past=way)))
        groups += [group(range(number + 1, number + depth), width, stage)] if depth > 1 else []
        number += depth
    return groups


def entrance(*parts):
    """What stands before the first layer, as in "words 32000", or "frozen positions 1500": those are not learned.

    Those of a table that holds sines in every run are "sines positions 1500", or "sines frozen positions 1500". A
    convolution of no size is added to what it reads. A part that is none of these comes as it is.
    """
    found = []
    for part in parts:
        if isinstance(part, EntrancePart):
            found.append(part)
            continue
        sines = part.startswith("sines ") or None
        part = part.removeprefix("sines ")
        learned = LEARNED.get(part.split(" positions ")[0])
        part = part if learned is None else part.split(" ", 1)[1]
        name, _, size = part.rpartition(" ") if part.split(" ")[-1].isdecimal() else (part, "", "")
        added = part == "convolution"
        found.append(EntrancePart(name, int(size) if size else None, learned, sines=sines, added=added))
    return tuple(found)


def columned(argument, size, *columns, made_whole=False, with_others=False):
    """A table in which columns of an argument are looked up; of two it is how far they are apart."""
    return EntrancePart(
        "table", size, columns=columns, argument=argument, made_whole=made_whole, with_others=with_others
    )


def corners(c):
    """The tables of where a box begins and ends, across and down, and of how high and wide it is."""
    ways = (((0,), (2,)), ((1,), (3,)), ((3, 1),), ((2, 0),))
    return tuple(columned("bbox", c.max_2d_position_embeddings, *own) for own in ways)


def words(c, *more):
    """The entrance of a text: its table, and what else there is."""
    return entrance(f"words {c.vocab_size}", *more)


def patch_of(c):
    """How large the patches are that a configuration names: the first ones, and over how many pictures of a video."""
    c = getattr(c, "vision_config", c)
    size, deep = getattr(c, "patch_size", None), getattr(c, "temporal_patch_size", getattr(c, "tubelet_size", ()))
    if deep and not isinstance(deep, int):
        return tuple(deep)
    size = c.patch_sizes[0] if size is None else size
    flat = (size, size) if isinstance(size, int) else tuple(size)
    return (deep, *flat) if deep else flat


def tower(c, name, reads, causal, parts, groups, final, **facts):
    """A tower, as wide as the configuration says, and its patches as large."""
    parts = tuple(replace(one, kernel=patch_of(c)) if one.part == "patches" else one for one in parts)
    vocab = facts.pop("vocab", c.vocab_size if reads == "ids" else None)
    widths = {one.d_model for one in groups}
    return Tower(
        name, reads, causal, widths.pop() if len(widths) == 1 else None, vocab, parts, tuple(groups), final, **facts
    )


def decoder_only(c, *stages, final, parts=(), groups=None, tied=None, causal=True):
    """A network of one causal tower that reads words and scores every word."""
    groups = groups or (group(c.num_hidden_layers, c.hidden_size, *stages),)
    text = tower(c, "text", "ids", causal, words(c, *parts), groups, final)
    tied = c.tie_word_embeddings if tied is None else tied
    return network(text, head=head_of(c, tied))


def head_of(c, tied, rows_scale=None):
    """What scores every word, the scores multiplied or capped as the configuration says, or its rows are."""
    caps = ("final_logit_softcapping", "output_logit_soft_cap", "logits_soft_cap")
    cap = next((found for name in caps if (found := getattr(c, name, None))), None)
    return Head("vocabulary", c.vocab_size, tied, getattr(c, "logit_scale", None), cap, rows_scale)


def encoder_only(c, *stages, final, parts=(), groups=None, causal=False, tied=True):
    """A network of one tower that reads words both ways and scores every word."""
    return decoder_only(c, *stages, final=final, parts=parts, groups=groups, tied=tied, causal=causal)


def between(groups, joined, *, within=False):
    """What stands between stages of different width, where so many places become one row at each.

    Where the stream becomes so past the first sublayer of a stage, that is `within` it.
    """
    widths = dict(sorted((layer, one.d_model) for one in groups for layer in one.layers))
    return tuple(
        Bridge(layer, joined, widths[layer - 1], width, within=within)
        for layer, width in widths.items()
        if layer and width != widths[layer - 1]
    )


def sees_images(c, *stages, final, parts=(), groups=None, causal=False, head=None, untold=(), joined=None, **facts):
    """A network of one tower that reads an image and scores classes; `joined` places become one between its stages."""
    groups = groups or (group(c.num_hidden_layers, c.hidden_size, *stages),)
    facts |= {"bridges": between(groups, joined)} if joined else {}
    return network(
        tower(c, "vision", "image", causal, parts, groups, final, **facts),
        head=head or Head("classes", c.num_labels),
        untold=untold,
    )


def network(*towers, links=(), head=None, untold=()):
    """The whole; parameters are counted elsewhere."""
    return Anatomy(towers, tuple(links), head, None, None, untold)


def left_out(*paths, stages=(0,), lost=False):
    """What has no place: parts that join two stages, `paths` with the number of each; nothing reads what is `lost`."""
    return tuple(Untold(path.format(number), 0, lost) for number in stages for path in paths)


def memory(source, target, *behind):
    """What a tower looks at, and behind which layers of it; behind none where it is its end."""
    return Link("memory", source, target, behind)


SKIPPED = {
    "words_alone",
    "joins",
    "of_others_too",
    "blind",
    "one_piece",
    "attends_elsewhere",
    "params",
    "active_params",
    "unused",
    "routing",
    "rotary_base",
    "numbers_alike",
    "numbers_unlike",
    "rotary_slowed",
    "rotary_all_slowed",
    "turned_pairs",
    "from_one",
    "not_from_one",
}
"""What is held by tests of its own."""
LEARNED = {"frozen": False, "learned": True}
"""Whether places are learned, where it is written out."""


def may_hide(truth) -> bool:
    """Whether some places may be hidden from others, and not in time alone: where it is not written that all see."""
    return not isinstance(truth.causal, bool) or bool(truth.partial)


def list_differences(found, truth, where="") -> list[str]:
    """Every place in which what was read is not what is true, and each silence that was not meant."""
    if isinstance(truth, Silent):
        return [] if found is None else [f"{where}: says {found!r}, which was thought not to be provable"]
    if is_dataclass(truth) and type(found) is type(truth):
        return [
            line
            for one in fields(truth)
            if one.name not in SKIPPED
            and (one.name, getattr(truth, one.name)) != ("learned", None)
            and not (one.name == "hides" and may_hide(truth))
            for line in list_differences(getattr(found, one.name), getattr(truth, one.name), f"{where}.{one.name}")
        ]
    if isinstance(truth, tuple) and isinstance(found, Sequence) and len(found) == len(truth):
        return [
            line
            for number, (one, other) in enumerate(zip(found, truth, strict=True))
            for line in list_differences(one, other, f"{where}[{number}]")
        ]
    return [] if found == truth else [f"{where}: says {found!r}, true is {truth!r}"]
