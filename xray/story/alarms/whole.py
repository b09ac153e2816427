"""The audit of a trace: its masks followed, its alarms in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.remembering import once
from xray.ir.trace import Pass, Trace
from xray.story.alarms.arguments import Mask, given_values, list_masks
from xray.story.alarms.broken import list_broken
from xray.story.alarms.ends import check_ends
from xray.story.alarms.kernels import check_aligned, check_kernels
from xray.story.alarms.kinds import Alarm
from xray.story.alarms.large import check_large
from xray.story.alarms.meaning import check_meaning
from xray.story.alarms.reach import check_reach, fits, follow_mask, is_masked_by
from xray.story.alarms.sequences import check_growth, check_packed, check_padding_side, check_window
from xray.story.alarms.spread import check_spread
from xray.story.alarms.squares import check_blind, check_form, read_squares


@dataclass(frozen=True)
class Followed:
    """A mask of a pass, and how many of the attentions that are as long as it is it reaches."""

    name: str
    shape: tuple[int, ...]
    pass_kind: str
    number: int
    reached: int
    attentions: int


@dataclass(frozen=True, repr=False)
class Audit:
    """What masks do in a trace: each mask that was followed, and the alarms, none where all is well."""

    title: str
    masks: tuple[Followed, ...]
    alarms: tuple[Alarm, ...]
    attentions: int

    def __bool__(self) -> bool:
        return bool(self.alarms)

    def __repr__(self) -> str:
        alarms = "no alarm" if not self.alarms else "1 alarm" if len(self.alarms) == 1 else f"{len(self.alarms)} alarms"
        first = f": {self.alarms[0].kind} at {self.alarms[0].location or self.alarms[0].step}" if self.alarms else ""
        return f"Audit({self.title!r}, {self.attentions} attentions, {len(self.masks)} masks, {alarms}{first})"

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and words for JSON."""
        return {
            "title": self.title,
            "attentions": self.attentions,
            "masks": [
                {
                    "name": one.name,
                    "shape": list(one.shape),
                    "pass": one.pass_kind,
                    "number": one.number,
                    "reached": one.reached,
                    "attentions": one.attentions,
                }
                for one in self.masks
            ],
            "alarms": [alarm.to_dict() for alarm in self.alarms],
        }


@once
def audit(trace: Trace) -> Audit:
    """Every mask of a trace followed from the argument to the kernel, and what is wrong with it.

    An alarm is raised only where recorded steps or values prove it; what is not known raises none.
    """
    masks: list[Followed] = []
    alarms: list[Alarm] = []
    told: set[tuple[object, ...]] = set()
    attentions = 0
    for before, one_pass in zip((None, *trace.passes), trace.passes, strict=False):
        flow = read_flow(one_pass)
        sites = list_sites(flow)
        attentions += len(sites)
        for mask in list_masks(flow):
            tainted = follow_mask(flow, mask)
            fitting = [site for site in sites if fits(flow, site, mask)]
            reached = sum(is_masked_by(flow, site, tainted, mask) for site in fitting)
            if fitting:
                masks.append(Followed(mask.name, mask.shape, one_pass.kind, one_pass.number, reached, len(fitting)))
        grown = () if before is None else check_growth(before, one_pass)
        for alarm in (*audit_pass(one_pass), *grown):
            key = (alarm.kind, alarm.pass_kind, alarm.location or alarm.step, alarm.mask)
            if key not in told:
                told.add(key)
                alarms.append(alarm)
    return Audit(trace.title, tuple(masks), tuple(alarms), attentions)


def find_alarms(trace: Trace) -> tuple[Alarm, ...]:
    """The alarms of a trace, each once, where it is first seen."""
    return audit(trace).alarms


@once
def audit_pass(one_pass: Pass) -> tuple[Alarm, ...]:
    """The alarms of one pass."""
    return tuple(raise_alarms(one_pass))


def raise_alarms(one_pass: Pass) -> Iterator[Alarm]:
    flow = read_flow(one_pass)
    sites = list_sites(flow)
    masks: tuple[Mask, ...] = list_masks(flow)
    found: list[Alarm] = [*check_kernels(flow, sites), *check_ends(flow, sites), *check_spread(flow, sites)]
    for mask in masks:
        found += check_reach(flow, sites, mask)
        found += check_meaning(flow, sites, mask)
    squares = read_squares(flow, sites)
    if not any(alarm.kind == "mixed" for alarm in found):  # which hides nothing, and says why
        found += check_form(flow, squares)
    if not any(alarm.kind == "misaligned" for alarm in found):
        found += check_aligned(flow, squares)
    if not any(alarm.kind == "ends" for alarm in found):  # which leave squares as nobody meant them
        found += check_packed(flow, squares)
    found += check_window(flow, squares)
    found += check_large(flow, sites)
    found += check_padding_side(flow, squares, given_values(flow))
    yield from found
    if not any(alarm.kind in ("inverted", "axis", "ends") for alarm in found):  # which leave rows blind, and say why
        yield from check_blind(flow, squares)
    yield from list_broken(one_pass)
