"""What a page tells of the twins of a recording, packed small: each pass of both beside each other."""

from collections.abc import Mapping
from typing import Any

from xray.ir.records import TensorRecord, spell_number
from xray.ir.trace import Trace
from xray.ir.twins import TWIN, TWINS
from xray.renderers.page.attentions import spell_cells
from xray.story.compare.twins import Beside, GroupedChange, Scored, Side, find_furthest, hold_beside
from xray.story.weights.picture import Picture

Packed = dict[str, Any]
DIGITS = 4
MOST_CHANGES = 80
"""Of a pass no more changes are told; the others are counted."""
MOST_CELLS = 64 * 64
"""Larger squares are not drawn beside each other."""
CHANGING = frozenset(
    {TWIN, "kv_cache", "cross_mask", "scale_embeddings", "answer", "multiplications", "multiplications_without_cache"}
)
"""The settings of a trace that a twin may change."""
SAME = 0.005
"""Widths that differ by less, in bits, are told alike."""


def pack_twins(trace: Trace, twins: Mapping[str, Trace]) -> list[Packed]:
    """All twins as plain values.

    Raises:
        UsageError: one of them is of another model.
    """
    return [
        {
            "name": name,
            "says": TWINS.get(str(twin.config.get(TWIN))) if is_alike(trace, twin) else None,
            "passes": [pack_beside(one) for one in hold_beside(trace, twin, name)],
        }
        for name, twin in twins.items()
    ]


def is_alike(trace: Trace, twin: Trace) -> bool:
    """Whether both are of one run and one question, as far as their settings say: one thing is changed alone."""
    one, other = (
        {name: value for name, value in each.config.items() if name not in CHANGING} for each in (trace, twin)
    )
    return one == other


def pack_beside(one: Beside) -> Packed:
    packed: Packed = {"kind": one.kind, "number": one.number}
    if one.before is not None:
        packed["before"] = pack_side(one.before)
    if one.after is not None:
        packed["after"] = pack_side(one.after)
    if one.before is not None and one.after is not None:
        others = {scored.kind: scored for scored in one.after.scored}
        packed |= {
            "changes": [pack_change(change) for change in one.changes[:MOST_CHANGES]],
            "more_changes": max(0, len(one.changes) - MOST_CHANGES),
            "attentions": [pack_pair(each, others[each.kind]) for each in one.before.scored if each.kind in others],
            "as_likely": chance_of_same(one.before, one.after),
        }
    return packed


def pack_side(side: Side) -> Packed:
    own = next((one for one in reversed(side.scored) if not crosses(one)), None)
    return {
        "word": None if side.said is None else side.said.word,
        "chance": None if side.said is None else round_number(side.said.chance),
        "loss": round_number(side.loss),
        "products": side.products,
        "stored": side.stored,
        "kept": side.kept,
        "square": None if own is None else [own.queries, own.keys],
    }


def crosses(scored: Scored) -> bool:
    """Whether an attention looks at another tower."""
    return any(picture.kind.crosses for picture in scored.pictures)


def chance_of_same(before: Side, after: Side) -> float | None:
    """The chance of the first recording's word in the twin, where both had read the same."""
    one, other = before.said, after.said
    if one is None or other is None or one.read != other.read or len(one.chances) != len(other.chances):
        return None
    return round_number(other.chances[one.number]) if one.number < len(other.chances) else None


def pack_change(change: GroupedChange) -> Packed:
    return {
        "aspect": change.aspect,
        "step": change.step,
        "at": change.at,
        "behind": change.behind,
        "more": change.more,
        "inside": change.inside,
        "tensor": change.tensor,
        "words": change.words,
        "records": [None if one is None else pack_record(one) for one in (change.before, change.after)],
    }


def pack_record(record: TensorRecord) -> Packed:
    mask = None if record.mask is None else [record.mask.kind, record.mask.hidden_share]
    return {"shape": list(record.shape), "axes": list(record.axes), "mask": mask}


def pack_pair(before: Scored, after: Scored) -> Packed:
    """One kind of attention in both: sizes, how widely it looks, what is hidden, the head that differs most."""
    packed: Packed = {
        "title": before.title,
        "softmax": before.softmax,
        "hidden": pack_hidden(before, after),
        "moved": round_number(find_most_moved(before, after)),
    }
    if (before.queries, before.keys) == (after.queries, after.keys) and before.bits is not None:
        packed["bits"] = [round_number(before.bits), round_number(after.bits)]
        pair = find_furthest(before, after)
        if pair is not None and abs(pair[0].entropy - pair[1].entropy) >= SAME and is_small(pair[0]):
            packed["head"] = {"place": pair[0].place, "sequence": pair[0].sequence, **pack_words(pair[0])}
            packed["head"]["weights"] = [[[round_number(v) for v in row] for row in one.weights] for one in pair]
            packed["head"]["hidden"] = [spell_cells(one) for one in pair]
    return packed


def find_most_moved(before: Scored, after: Scored) -> float | None:
    """By how much the weight differs that differs most; None where no weights can be laid over each other."""
    others = {(one.layer, one.nth, one.head, one.sequence): one.weights for one in after.pictures}
    moved = [
        abs(left - right)
        for one in before.pictures
        for row, other in zip(one.weights, others.get((one.layer, one.nth, one.head, one.sequence), ()), strict=False)
        for left, right in zip(row, other, strict=False)
    ]
    return max(moved) if moved and (before.queries, before.keys) == (after.queries, after.keys) else None


def pack_hidden(before: Scored, after: Scored) -> Packed | None:
    """What the mask of the first head hides in the first sequence in which that differs; None where none does."""
    others = {(one.layer, one.nth, one.head, one.sequence): one for one in after.pictures}
    pairs = [(one, others.get((one.layer, one.nth, one.head, one.sequence))) for one in before.pictures]
    unlike = [(one, other) for one, other in pairs if other is not None and one.hidden != other.hidden]
    if not unlike or not is_small(unlike[0][0]):
        return None
    one, other = unlike[0]
    return {
        "place": one.place,
        "sequence": one.sequence,
        "sides": [{**pack_words(each), "cells": draw_cells(each)} for each in (one, other)],
    }


def pack_words(picture: Picture) -> Packed:
    return {"queries": list(picture.queries), "keys": list(picture.keys)}


def draw_cells(picture: Picture) -> list[str]:
    """A letter for each cell, also where nothing is hidden."""
    return spell_cells(picture) or ["." * len(row) for row in picture.hidden]


def is_small(picture: Picture) -> bool:
    return len(picture.weights) * len(picture.weights[0]) <= MOST_CELLS


def round_number(value: float | None) -> Any:  # noqa: ANN401  # a number, or how JSON spells what is none
    """A value to a few significant digits."""
    return None if value is None else spell_number(float(f"{value:.{DIGITS}g}"))
