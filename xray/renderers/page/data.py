"""What a page knows: trace, walk and explanations, packed small, with as many values as there is room for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any

from xray.ir.records import MaskBlocks, MaskFacts, Number, Preview, TensorRecord, spell_number
from xray.ir.trace import Pass, Setting, Step, Trace
from xray.renderers.blocks.plans import Roles
from xray.renderers.page.attentions import pack_attentions
from xray.renderers.page.maps import Map
from xray.renderers.page.ranks import pack_ranks
from xray.renderers.page.values import LEVELS, Level, cut_values
from xray.renderers.page.walk import pack_walk, scene_phase
from xray.story.alarms.whole import find_alarms
from xray.story.blocks.kinds import kind_of
from xray.story.facts.masks import describe_blocks, draws_blocks, quarter_blocks
from xray.story.walk.explanations import explain_step
from xray.story.walk.scene import is_whole_journey
from xray.story.walk.turns import list_candidates

Packed = dict[str, Any]
DIGITS = 4
"""Values are written to so many significant digits."""


@dataclass
class Pool:
    """Things that occur again and again, each kept once and called by its number."""

    kept: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def place(self, thing: Any) -> int:  # noqa: ANN401  # anything that can be compared
        """The number of a thing, new or known."""
        if thing not in self.places:
            self.places[thing] = len(self.kept)
            self.kept.append(thing)
        return self.places[thing]


def pack_page(
    trace: Trace,
    level: Level,
    maps: Sequence[Map] = (),
    roles: Roles | None = None,
    twins: Sequence[Mapping[str, Any]] = (),
) -> Packed:
    """Everything behind the page as plain JSON values; `level` says how many values come along.

    The first map is in the page already; `roles` say what each step is for, `twins` what other recordings tell.
    """
    texts, masks = Pool(), Pool()
    passes = [
        pack_pass(one_pass, level, texts, masks) | {"attentions": pack_attentions(trace, one_pass)}
        for one_pass in trace.passes
    ]
    note_roles(trace, passes, roles or {})
    ours = is_whole_journey(trace)
    stations, chapters, places = pack_walk(trace, ours=ours)
    for packed, place in zip(passes, places, strict=True):
        for step in packed["steps"]:
            step["station"] = place.get(step["id"])
    return {
        "title": trace.title,
        "sizes": dict(trace.sizes),
        "config": {name: spell_setting(value) for name, value in trace.config.items()},
        "ours": ours,
        "stations": stations,
        "scenes": list_scenes(trace, ours),
        "passes": passes,
        "maps": [
            {"name": one.name, "drawing": one.drawing if place else None, "joined": one.joined}
            for place, one in enumerate(maps)
        ],
        "chapters": chapters,
        "ranks": pack_ranks(trace),
        "twins": list(twins),
        "texts": texts.kept,
        "masks": [pack_mask(mask) for mask in masks.kept],
        "values": level.name,
        "kept": say_kept(trace, level),
        "has_values": any(record.preview for step in trace.steps for record in step.outputs),
    }


def note_roles(trace: Trace, passes: Sequence[Packed], roles: Roles) -> None:
    """Write down what each step is for, and what is wrong with it."""
    alarms: dict[tuple[str, int, str], str] = {
        (alarm.pass_kind, alarm.number, alarm.step): alarm.text for alarm in find_alarms(trace)
    }
    for one_pass, packed in zip(trace.passes, passes, strict=True):
        told = roles.get(one_pass.key, {})
        for step in packed["steps"]:
            if step["id"] in told:
                step["does"] = told[step["id"]]
            alarm = alarms.get((one_pass.kind, one_pass.number, step["id"]))
            if alarm is not None:
                step["alarm"] = alarm


def list_scenes(trace: Trace, ours: bool) -> list[Packed]:
    """What the switch and the slider choose from: passes that are looked at together."""
    places = {id(one_pass): place for place, one_pass in enumerate(trace.passes)}
    if not ours:
        return [
            {"phase": scene_phase(one), "turn": place + 1, "passes": [place]} for place, one in enumerate(trace.passes)
        ]
    scenes = [{"phase": "training", "turn": 0, "passes": [places[id(one)]]} for one in trace.passes_of("training")[:1]]
    for encode in trace.passes_of("encode")[:1]:
        scenes += [
            {"phase": "inference", "turn": one.number, "passes": [places[id(encode)], places[id(one)]]}
            for one in trace.passes_of("decode")
        ]
    return scenes


def pack_pass(one_pass: Pass, level: Level, texts: Pool, masks: Pool) -> Packed:
    """One pass with its words, the words that might have come next, and its steps."""
    return {
        "kind": one_pass.kind,
        "number": one_pass.number,
        "tokens": {name: [list(row) for row in rows] for name, rows in one_pass.tokens.items()},
        "candidates": [[word, round_number(chance)] for word, chance in list_candidates(one_pass)],
        "steps": [pack_step(step, step.id in one_pass.blocks, level, texts, masks) for step in one_pass.steps],
    }


def pack_step(step: Step, is_block: bool, level: Level, texts: Pool, masks: Pool) -> Packed:
    told = explain_step(step)
    packed: Packed = {
        "id": step.id,
        "path": step.path,
        "op": step.op,
        "module": step.module,
        "parent": step.parent,
        "depth": step.depth,
        "layer": step.layer,
        "params": step.params,
        "location": step.location,
        "settings": {name: spell_setting(value) for name, value in step.settings.items()},
        "block": is_block,
        "sort": kind_of(step),
        "told": [texts.place(part) for part in (told.formula, told.change, told.reason)],
        "inputs": [pack_record(record, step, level, masks) for record in step.inputs],
        "outputs": [pack_record(record, step, level, masks) for record in step.outputs],
    }
    if step.error is not None:
        packed["error"] = step.error
    return packed


def pack_record(record: TensorRecord, step: Step, level: Level, masks: Pool) -> Packed:
    """A tensor; its values stand only where it was made, for all who read it."""
    packed: Packed = {
        "name": record.name,
        "shape": list(record.shape),
        "axes": list(record.axes),
        "dtype": record.dtype,
        "device": record.device,
        "role": record.role,
        "source": record.source,
    }
    if record.mask is not None:
        packed["mask"] = masks.place(record.mask)
    if record.preview is not None and record.source in (None, step.id):
        packed |= pack_values(record.preview, step, level)
    return packed


def pack_values(preview: Preview, step: Step, level: Level) -> Packed:
    packed: Packed = {}
    block = cut_values(preview, step.op, level)
    if block is not None:
        packed["block"] = {
            "start": list(block.start),
            "shape": list(block.shape),
            "values": round_numbers(block.values),
        }
    found = preview.statistics
    if found is not None:
        packed["statistics"] = [found.minimum, found.maximum, found.mean, found.nans, found.infinities]
    return packed


def say_kept(trace: Trace, level: Level) -> str:
    """How many of the numbers that the steps made are on the page, and which were left out."""
    made = kept = 0
    has_weights = False
    for step in (step for one_pass in trace.passes for step in one_pass.leaves):
        for record in step.outputs:
            made += prod(record.shape)
            block = cut_values(record.preview, step.op, level) if record.preview is not None else None
            kept += prod(block.shape) if block is not None else 0
            has_weights |= block is not None and step.op == "softmax"
    says = level.says if has_weights or level is not LEVELS[0] else "all that was recorded"
    return f"{kept:,} of the {made:,} numbers that the steps made ({says})"


def pack_mask(mask: MaskFacts) -> Packed:
    return {
        "kind": mask.kind,
        "share": mask.hidden_share,
        "cells": [list(matrix) for matrix in mask.cells] if mask.cells is not None else None,
        **({"blocks": pack_blocks(mask.blocks)} if mask.blocks is not None and draws_blocks(mask) else {}),
    }


def pack_blocks(blocks: MaskBlocks) -> Packed:
    """The blocks of flex attention as a picture, with the words that stand beside it."""
    return {
        "cells": ["".join(row) for row in quarter_blocks(blocks)],
        "letters": list(blocks.cells[0]),
        "says": describe_blocks(blocks),
    }


def round_number(value: Number) -> Number:
    """A value to a few significant digits; ids and spelt-out values as they are."""
    return spell_number(float(f"{value:.{DIGITS}g}")) if isinstance(value, float) else value


def round_numbers(values: Sequence[Number]) -> list[Number]:
    """The same of many values: those that are numbers alone are written and read at once."""
    if {*map(type, values)} == {float}:
        rounded = [*map(float, (f"%.{DIGITS}g " * len(values) % tuple(values)).split())]
        if all(map(isfinite, rounded)):
            return [*rounded]
    return [*map(round_number, values)]


def spell_setting(value: Setting) -> Setting:
    """A setting that JSON can write: a trace that nobody recorded may hold infinity as a number."""
    return spell_number(value) if isinstance(value, float) else value
