"""What is true of a transformer in any hand-writing, and what is said of it that is not. Silence is no lie."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

import torch
from any_writing import LENGTH, NARROW, SOURCE, VOCAB, Writing
from any_writing_whole import Whole, make_hidden, make_inputs

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Anatomy, Group, Stage, Tower

KINDS = {"layer": "layer", "spelt layer": "layer"}
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


def name_norm(how: Writing) -> str:
    return KINDS.get(how.norm, "rms")


def compare(where: str, thing: object, truth: Mapping[str, object], *, ignored: tuple[str, ...] = ()) -> Iterator[Lie]:
    """What a record says that is not so: where no truth is given, nothing may be said."""
    for name in (one.name for one in fields(thing)):  # type: ignore[arg-type]
        said = getattr(thing, name)
        allowed = truth.get(name, SILENT)
        allowed = allowed if isinstance(allowed, tuple) else (allowed,)
        if name not in ignored and said is not None and not any(said == one for one in allowed):
            yield f"{where}.{name}", said


def count_seen(how: Writing) -> int:
    """How many places a query sees at most."""
    with torch.device("cpu"):
        hidden = make_hidden(how.mask, make_inputs(how)[0])
    return LENGTH if hidden is None else int((~hidden).sum(-1).max())


def list_attention_lies(how: Writing, branch: Attention, *, crossing: bool, reading: bool) -> Iterator[Lie]:
    """What is said falsely of an attention."""
    is_causal = how.mask in ("causal", "causal padding", "window") and not (crossing or reading)
    is_partial = how.mask not in ("none", "causal") and not (crossing or reading)
    seen = SOURCE if crossing else count_seen(how) if not reading else SOURCE
    is_rotary = how.positions in ROTARY and not crossing
    places = "rotary" if is_rotary else how.extra if how.extra in ("relative", "alibi") and not crossing else "none"
    is_fused = (
        how.projection in ("chunk", "split", "unbind", "by head", "packed") and not crossing
    ) or how.product == "module"
    truth: dict[str, object] = {
        "source": branch.source if crossing else "self",
        "heads": how.heads,
        "kv_heads": how.heads // how.sharing,
        "d_k": how.head_width,
        "d_v": how.value_width or how.head_width,
        "window": (None, seen) if seen < LENGTH else (None,),
        "positions": places,
        "qk_norm": how.head_norm,
        "qk_norm_over": "head" if how.head_norm else None,
        "qk_norm_kind": "rms" if how.head_norm else None,
        "fused": ("qkv", "kv") if is_fused else None,
        "fused_by": "head" if how.projection == "by head" else None,
        "kernel": branch.kernel,
        "causal": is_causal,
        "cap": 30.0 if how.extra == "cap" and how.product != "sdpa" else None,
        "partial": is_partial,
        "unscaled": how.scale in ("none",),
        "pieces": (None, math.ceil(LENGTH / NARROW)) if how.mask == "blocks" and not (crossing or reading) else (None,),
        "each_side": 1 if how.mask == "sides" and not (crossing or reading) else None,
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
        "d_ff": 4 * how.width,
        "activation": branch.activation,
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
    truth: dict[str, object] = {"kind": kind, "place": place, "on": on, "learned": True}
    yield from compare("norm", stage.norm, truth)
    if stage.parallel != (how.parallel != "no"):
        yield "parallel", stage.parallel
    scale = (*(["learned"] if how.layer_scale else []), *(["number"] if how.residual == "branch" else [])) or None
    streams = {"stream": ("before", None), "after": ("after", None)}.get(how.residual, (None,))
    truth = {"scale": scale, "stream_scale": streams, "parallel": stage.parallel, "norm": stage.norm}
    yield from compare("stage", stage, truth | {"branches": (stage.branches,)})


def list_parts(how: Writing, *, reading: bool) -> list[str]:
    """The branches of one layer, in order."""
    crossing = ["crossing"] if how.kind == "both" and not reading else []
    return ["attention", *crossing, *(["feed_forward"] if how.feed_forward != "none" else [])]


def list_tower_lies(how: Writing, tower: Tower, *, reading: bool) -> Iterator[Lie]:
    """What is said falsely of a tower."""
    is_causal = how.mask in ("causal", "causal padding", "window") and not reading
    truth: dict[str, object] = {
        "name": tower.name,
        "reads": "ids",
        "causal": is_causal,
        "d_model": how.width,
        "vocab": VOCAB,
        "entrance": (tower.entrance,),
        "groups": (tower.groups,),
        "final_norm": name_norm(how) if how.final_norm else None,
    }
    yield from compare("tower", tower, truth, ignored=("idle_blocks", "lists"))
    if tower.layers != how.layers:
        yield "layers", tower.layers
    yield from list_entrance_lies(how, tower)
    for group in tower.groups:
        yield from list_group_lies(how, group, reading=reading)


def list_entrance_lies(how: Writing, tower: Tower) -> Iterator[Lie]:
    """What is said falsely of what stands before the first layer."""
    is_there = {
        "words": True,
        "scale": how.embedding == "scaled",
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
        if (
            how.kind != "both"
            or link.kind not in ("memory", "multiplied")
            or link.behind
            or link.turned
            or link.with_added
        ):
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
                "tied": how.tied,
                "of_last": how.tied and how.kind == "both",
                "rows_scale": 0.7 if how.residual == "after" else None,
            },
        )
    if anatomy.unused:
        yield "unused", anatomy.unused
    if anatomy.divided or anatomy.attends_elsewhere:
        yield "divided", (anatomy.divided, anatomy.attends_elsewhere)


def list_texts(layout) -> list[str]:
    """What each box of a sheet says."""
    return [
        " / ".join(
            "".join({"sup": "^", "sub": "_"}.get(run.shift or "", "") + run.text for run in line) for line in box.lines
        )
        for box in layout.boxes
    ]


def list_sheet_lies(how: Writing, model: Whole, layout) -> Iterator[Lie]:
    """What a sheet says falsely, by its words."""
    texts = list_texts(layout)
    both = how.kind == "both"
    is_causal = how.mask in ("causal", "causal padding", "window")
    only_if = {
        r"never ahead|hides the future|look back": is_causal,
        r"every other": how.mask in ("none", "padding") or both,
        r"ROTATE|TURN|Rotary": how.positions in ROTARY,
        r"POSITIONS|PLACES|SINES": how.extra == "relative" or how.positions in ("learned", "sines kept", "sines"),
        r"ALiBi": how.extra == "alibi",
        r"Relative places": how.extra == "relative",
        r"\+ bias|\+ BIAS": how.extra in ("relative", "alibi"),
        r"capped|tanh\( ": how.extra == "cap",
        r"not divided by √d_k": how.scale == "none",
        r"[÷/] √d": how.scale not in ("none", "odd"),
        r"0\.37": how.scale == "odd",
        r"\+ mask": how.mask != "none",
        r"MASK": how.mask != "none",
        r"RMS": name_norm(how) == "rms" or how.head_norm,
        r"LAYER NORM|Layer norm": name_norm(how) == "layer",
        r"Gated feed-forward": how.gated != "no",
        r"GELU": "gelu" in how.curve and how.feed_forward != "none",
        r"QuickGELU": how.curve == "quick gelu",
        r"ReLU": "relu" in how.curve and how.feed_forward != "none",
        r"ReLU²": "relu squared" in how.curve,
        r"SiLU": "silu" in how.curve and how.feed_forward != "none",
        r"Sublayers side by side": how.parallel != "no",
        r"Layer scale": how.layer_scale,
        r"Grouped queries": how.sharing > 1,
        r"All layers use one": how.shared and how.layers > 1 and not both,
        r"is also the last layer": how.tied,
        r"at once": how.projection in ("chunk", "split", "unbind", "by head")
        or how.product == "module"
        or how.mask == "none",
        r"No places are added": how.positions == "none"
        and how.extra not in ("relative", "alibi")
        and how.mask in ("causal", "causal padding"),
        r"LAST NORM|at the end": how.final_norm,
        r"before each sublayer": how.norm_place in ("before", "both"),
        r"after each": how.norm_place in ("after", "branch"),
        r"TO VOCABULARY|score for every word": how.head == "vocabulary",
        r"window|Window": how.mask in ("window", "sides", "blocks"),
        r"no more than": how.mask in ("window", "sides", "blocks"),
        r"padding": "padding" in how.mask,
        r"dropout 0.1, idle": how.dropout > 0 and not how.training,
        r"in one kernel|derived": how.product in ("sdpa", "module"),
    }
    for pattern, is_true in only_if.items():
        yield from ((pattern, text) for text in texts if re.search(pattern, text) and not is_true)
    if how.layers > 1:
        yield from (
            ("layers", text)
            for text in texts
            if (found := re.search(r"LAYER × (\d+)", text)) and int(found[1]) != how.layers
        )
    total = sum(one.numel() for one in model.parameters())
    yield from (
        ("parameters", text)
        for text in texts
        if text.startswith("parameters ") and int(text.split()[1].replace(",", "")) != total
    )
    yield from list_share_lies(how, model, texts)


def list_share_lies(how: Writing, model: Whole, texts: list[str]) -> Iterator[Lie]:
    """Whether the parts of the card of parameters come to all there are."""
    if "WHERE THE PARAMETERS ARE" in texts:
        start = texts.index("WHERE THE PARAMETERS ARE") + 1
        end = texts.index("WHAT IT COSTS") if "WHAT IT COSTS" in texts else len(texts)
        numbers = [int(one.replace(",", "")) for one in texts[start:end] if re.fullmatch(r"[\d,]+", one)]
        total = sum(one.numel() for one in model.parameters())
        if sum(numbers) > total:
            yield "shares", texts[start:end]
