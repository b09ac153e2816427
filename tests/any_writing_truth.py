"""What is true of a transformer in any hand-writing, and what is said of it that is not. Silence is no lie."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields

import torch
from any_writing import NARROW, SOURCE, VOCAB, Writing
from any_writing_whole import Whole, make_hidden, make_inputs

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Anatomy, Group, Stage, Tower

CURVES = {
    "gelu by hand": "gelu",
    "gelu tanh by hand": "gelu tanh",
    "silu by hand": "silu",
    "relu squared by mul": "relu squared",
    "relu by clamp": "relu",
    "relu by maximum": "relu",
    "relu by times": "relu",
}
ROTARY = {"rotary halves": "halves", "rotary pairs": "neighbours", "rotary complex": "neighbours"}
SINES = ("sines kept", "sines")
SILENT = (None, False, (), ((), ()))
Lie = tuple[str, object]


PLACES = {"relative": "relative", "buckets": "relative", "rows": "relative", "skewed": "relative", "alibi": "alibi"}
CAUSAL = ("causal", "causal padding", "window", "packed")


def name_norm(how: Writing) -> str:
    return "rms" if "rms" in how.norm else "layer"


def is_fused(how: Writing) -> bool:
    """Whether one linear layer makes queries, keys and values."""
    return how.projection in ("chunk", "split", "unbind", "by head", "packed") or how.product == "module"


def compare(where: str, thing: object, truth: Mapping[str, object], *, ignored: tuple[str, ...] = ()) -> Iterator[Lie]:
    """What a record says that is not so: where no truth is given, nothing may be said."""
    for name in (one.name for one in fields(thing)):  # type: ignore[arg-type]
        said = getattr(thing, name)
        allowed = truth.get(name, SILENT)
        allowed = allowed if isinstance(allowed, tuple) else (allowed,)
        if name not in (*ignored, "of_others_too") and said is not None and not any(said == one for one in allowed):
            yield f"{where}.{name}", said


def count_seen(how: Writing) -> int:
    """How many places a query sees at most."""
    with torch.device("cpu"):
        hidden = make_hidden(how, make_inputs(how)[0])
    if hidden is None:
        return min(NARROW, how.length) if how.mask == "cut" else how.past + how.length
    return int((~hidden).sum(-1).max())


def list_piece_counts(how: Writing) -> tuple[int | None, ...]:
    """Into how many pieces rows may be said to be cut."""
    cut = math.ceil(how.length / NARROW)
    return {"blocks": (None, cut), "cut": (None, cut), "packed": (None, *range(1, how.length + 1))}.get(
        how.mask, (None,)
    )


def list_attention_lies(how: Writing, branch: Attention, *, crossing: bool, reading: bool) -> Iterator[Lie]:
    """What is said falsely of an attention."""
    is_self = not (crossing or reading)
    is_causal = (how.mask in CAUSAL and is_self, *((True, False) if how.length == 1 or how.past else ()))
    is_partial = how.mask not in ("none", "causal") and is_self
    seen = SOURCE if crossing else count_seen(how) if not reading else SOURCE
    is_rotary = how.positions in ROTARY and not crossing
    places = "rotary" if is_rotary else "none" if crossing else PLACES.get(how.extra, "none")
    keys = how.past + how.length
    is_shifted = how.token_shift in ("attention", "both") and not crossing
    truth: dict[str, object] = {
        "source": branch.source if crossing else "self",
        "heads": how.heads,
        "kv_heads": how.heads // how.sharing,
        "d_k": how.head_width,
        "d_v": how.value_width or how.head_width,
        "window": (None, seen) if seen < keys else (None,),
        "positions": places,
        "qk_norm": how.head_norm,
        "qk_norm_over": "head" if how.head_norm else None,
        "qk_norm_kind": "rms" if how.head_norm else None,
        "fused": ("qkv", "kv") if is_fused(how) and (not crossing or how.product == "module") else None,
        "fused_by": "head" if how.projection == "by head" else None,
        "kernel": branch.kernel,
        "causal": is_causal,
        "cap": 30.0 if how.extra == "cap" and how.product != "sdpa" else None,
        "partial": (True, False) if is_self and how.cache == "whole" else is_partial,  # room that is not filled yet
        "unscaled": how.scale == "none",
        "shifted": ((how.width // 2, how.width),) if is_shifted else None,
        "places_by_rows": how.extra in ("rows", "skewed") and not crossing,
        "kept_last": None,
        "hides": (True, None) if how.mask != "none" or how.cache == "whole" or how.length == 1 or how.past else None,
        "pieces": list_piece_counts(how) if is_self else (None,),
        "each_side": 1 if how.mask == "sides" and is_self else None,
        "turned": how.head_width // 2 if is_rotary and how.turned == "half" else None,
        "rotary_base": 10000.0 if is_rotary else None,
        "turned_pairs": ROTARY.get(how.positions) if is_rotary else None,
        "part": "attention",
    }
    where = "crossing" if crossing else "attention"
    yield from compare(where, branch, truth)


def list_feed_lies(how: Writing, branch: FeedForward) -> Iterator[Lie]:
    """What is said falsely of a feed-forward."""
    curve = CURVES.get(how.curve, how.curve)
    said = (
        branch.activation.partition(" (")[0] if branch.activation and curve not in ("gelu tanh",) else branch.activation
    )
    if said is not None and said != curve:
        yield "activation", branch.activation
    truth = {
        "d_ff": how.d_ff,
        "activation": branch.activation,
        "kernel": ((2,),) if how.token_shift in ("feed-forward", "both") else None,
        "gated": how.gated != "no",
        "fused": how.gated.startswith("fused"),
        "part": "feed_forward",
    }
    yield from compare("feed_forward", branch, truth)


def list_stage_lies(how: Writing, stage: Stage) -> Iterator[Lie]:
    """What is said falsely of a sublayer's norm, scale and neighbours."""
    place = {"branch": "after", "none": "none"}.get(how.norm_place, how.norm_place)
    on = {"after": "stream", "both": "branch", "branch": "branch"}.get(how.norm_place)
    kind = name_norm(how) if place != "none" else None
    is_learned = not how.norm.endswith("alone")
    truth: dict[str, object] = {"kind": kind, "place": place, "on": on, "learned": is_learned or kind is None}
    is_bare = not how.crossing_norm and any(isinstance(one, Attention) and one.leaves_stream for one in stage.branches)
    yield from compare("norm", stage.norm, {"place": "none"} if is_bare else truth)
    if stage.parallel != (how.parallel != "no"):
        yield "parallel", stage.parallel
    scale = (*(["learned"] if how.layer_scale else []), *(["number"] if how.residual == "branch" else [])) or None
    streams = {"stream": ("before", None), "after": ("after", None)}.get(how.residual, (None,))
    truth = {"scale": scale, "stream_scale": streams, "parallel": stage.parallel, "norm": stage.norm}
    yield from compare("stage", stage, truth | {"branches": (stage.branches,)})


def list_parts(how: Writing, *, reading: bool) -> list[str]:
    """The branches of one layer, in order."""
    crossing = ["crossing"] if how.kind in ("both", "beside") and not reading else []
    return ["attention", *crossing, *(["feed_forward"] if how.feed_forward != "none" else [])]


def list_tower_lies(how: Writing, tower: Tower, *, reading: bool) -> Iterator[Lie]:
    """What is said falsely of a tower."""
    is_causal = (how.mask in CAUSAL and not reading, *((True, False) if how.length == 1 or how.past else ()))
    truth: dict[str, object] = {
        "name": tower.name,
        "reads": "ids",
        "causal": is_causal,
        "d_model": how.width,
        "vocab": VOCAB,
        "entrance": (tower.entrance,),
        "groups": (tower.groups,),
        "looked_at": (True, False) if how.kind == "beside" else False,
        "words_alone": (True, False) if how.positions == "none" else False,
        "bridges": (tower.bridges,) if how.skips else ((),),
        "from_one": (tower.from_one,) if how.norm == "spelt rms from one" else ((),),
        "not_from_one": (tower.not_from_one,) if how.norm == "spelt rms from one" and how.head_norm else ((),),
        "final_norm": name_norm(how) if how.final_norm else None,
    }
    yield from compare("tower", tower, truth, ignored=("idle_blocks",))
    if tower.layers != how.layers:
        yield "layers", tower.layers
    yield from list_entrance_lies(how, tower)
    for group in tower.groups:
        yield from list_group_lies(how, group, reading=reading)


def list_entrance_lies(how: Writing, tower: Tower) -> Iterator[Lie]:
    """What is said falsely of what stands before the first layer."""
    is_there = {
        "words": True,
        "scale": how.embedding in ("scaled", "divided"),
        "norm": how.embedding == "normed",
        "positions": how.positions in ("learned", *SINES),
    }
    for part in tower.entrance:
        is_positions = part.part == "positions"
        is_learned = part.learned in (None, not is_positions or how.positions == "learned")
        if not is_there.get(part.part) or not is_learned or (part.sines and how.positions not in SINES):
            yield "entrance", part


def list_group_lies(how: Writing, group: Group, *, reading: bool) -> Iterator[Lie]:
    """What is said falsely of layers that are alike."""
    told = {name: getattr(group, name) for name in ("layers", "stages")}
    shared = how.shared and how.layers > 1
    truth = {name: (one,) for name, one in told.items()} | {"d_model": how.width, "shared": shared}
    yield from compare("group", group, truth)
    for stage in group.stages:
        yield from list_stage_lies(how, stage)
    expected = list_parts(how, reading=reading)
    found = [branch for stage in group.stages for branch in stage.branches]
    if [one.part for one in found if one.part != "unknown"] != [
        name.replace("crossing", "attention")
        for name, one in zip(expected, found, strict=False)
        if one.part != "unknown"
    ] or len(found) != len(expected):
        yield "branches", [one.part for one in found]
        return
    for name, branch in zip(expected, found, strict=True):
        if isinstance(branch, Attention):
            yield from list_attention_lies(how, branch, crossing=name == "crossing", reading=reading)
        elif isinstance(branch, FeedForward):
            yield from list_feed_lies(how, branch)


def list_anatomy_lies(how: Writing, model: Whole, anatomy: Anatomy) -> Iterator[Lie]:
    """What an anatomy says falsely."""
    count = sum(one.numel() for one in model.parameters())
    if anatomy.params not in (None, count):
        yield "params", anatomy.params
    towers = len(anatomy.towers)
    if towers > 1 + (how.kind == "both"):
        yield "towers", towers
        return
    for number, tower in enumerate(anatomy.towers):
        yield from list_tower_lies(how, tower, reading=how.kind == "both" and towers == 2 and number == 0)
    for link in anatomy.links:
        if how.kind not in ("both", "beside") or link.kind not in ("memory", "multiplied") or link.behind:
            yield "link", link
    head = anatomy.head
    if head is not None:
        kinds = {"vocabulary": ("vocabulary", "numbers"), "none": ("none",)}.get(
            how.head, ("classes", "numbers", "none")
        )
        size = {"vocabulary": VOCAB, "none": None}.get(how.head, 11)
        yield from compare(
            "head",
            head,
            {
                "kind": kinds,
                "size": size,
                "tied": how.tied != "no",
                "of_last": (how.tied != "no" and how.kind == "both", False),
                "rows_scale": 0.7 if how.residual == "after" else None,
            },
        )
    if anatomy.unused:
        yield "unused", anatomy.unused
    if anatomy.divided or anatomy.attends_elsewhere:
        yield "divided", (anatomy.divided, anatomy.attends_elsewhere)
