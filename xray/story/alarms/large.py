"""Masks of more than a million cells: held to the stretch of keys that each of their rows is known to show."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import Site, has_keys_first
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, DROPOUTS
from xray.ir.records import Span, TensorRecord
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.alarms.reach import block_of, name_alike
from xray.story.alarms.sequences import find_documents, find_setting, is_as_said
from xray.story.alarms.squares import LONGEST_STEP, count_rows, find_open, finds_next_word, is_safe, joint
from xray.story.recognition.values.mask_cells import MOST
from xray.story.recognition.values.value_rules import LOWEST
from xray.story.recognition.values.value_shapes import number

Places: TypeAlias = NDArray[np.int64]
PASSING = CASTING | DROPOUTS | {"scale", "mul", "div", "contiguous", "clone", "tanh"}
"""What scores may go through, beside masks, and be hidden where they were."""


@dataclass(frozen=True)
class Stretches:
    """For each matrix and each query the first key that it sees, and the one behind the last; equal where it sees none.

    Shapes:
        firsts: (matrices, queries)
        ends:   (matrices, queries)
    """

    site: Site
    firsts: Places
    ends: Places
    keys: int

    @property
    def queries(self) -> int:
        return int(self.ends.shape[-1])

    @property
    def is_blind(self) -> NDArray[np.bool_]:
        """Which rows see nothing."""
        return self.ends <= self.firsts

    def see_ahead(self) -> bool | None:
        """Whether all queries see all keys behind them, or none does; None for everything else."""
        ahead = np.where(self.is_blind, -self.keys, self.ends - 1 - np.arange(self.queries))
        if ahead.max() <= 0:
            return False
        return True if not self.firsts.any() and (self.ends == self.keys).all() else None


def check_large(flow: Flow, sites: Sequence[Site]) -> Iterator[Alarm]:
    """The alarms of squares that are too large to be worked out cell by cell."""
    known = []
    for site in sites:
        shape = flow.output(site.scores).shape
        if site.kind != "self" or len(shape) < 2 or has_keys_first(flow, site):
            continue  # the stretches of a mask of keys and queries are those of queries
        if shape[-1] == shape[-2] and prod(shape[-2:]) > MOST:
            found = read_stretches(flow, site)
            if found is not None:
                known.append(found)
    if not known:
        return
    yield from check_triangles(flow, known)
    for check in (check_packed, check_window, check_blind):
        alarm = next((alarm for one in known if (alarm := check(flow, one)) is not None), None)
        if alarm is not None:
            yield alarm


def read_stretches(flow: Flow, site: Site) -> Stretches | None:
    """What all masks on the way of the scores leave to be seen; None where something of them is not known."""
    queries, keys = flow.output(site.scores).shape[-2:]
    firsts, ends = np.zeros((1, queries), dtype=np.int64), np.full((1, queries), keys, dtype=np.int64)
    spine = set(site.scored)
    for place in site.scored[1:-1]:
        step = flow.steps[place]
        sides = [record for record, maker in flow.given(place) if maker not in spine]
        masks = [record for record in sides if record.mask is not None]
        if not masks:
            if step.settings.get("asked") is True:  # what score_mod hides stands in the mask
                continue
            if flow.op(place).rstrip("_") not in PASSING or any(len(record.shape) > 1 for record in sides):
                return None
            continue
        filled = number(step, "value") if "value" in step.settings else -np.inf
        read = expand(masks[0], queries)
        if read is None or len(masks) > 1 or filled is None or filled > LOWEST:
            return None
        if len({1, len(firsts), len(read[0])}) > 2:
            return None
        firsts, ends = np.maximum(firsts, read[0]), np.minimum(ends, read[1])
    return Stretches(site, firsts, np.maximum(firsts, ends), keys)


def expand(record: TensorRecord, queries: int) -> tuple[Places, Places] | None:
    """The first key and the one behind the last of each row of a mask, rows that are broadcast repeated."""
    spans = None if record.mask is None else record.mask.spans
    if spans is None:
        return None
    both = [[read_row(matrix, start, step) for matrix in spans] for start, step in ((1, 2), (3, 4))]
    if any(len(row) not in (1, queries) for rows in both for row in rows):
        return None
    firsts, ends = (np.stack([np.broadcast_to(row, (queries,)) for row in rows]) for rows in both)
    return firsts, ends


def read_row(matrix: Sequence[Span], start: int, step: int) -> Places:
    return np.concatenate([span[start] + span[step] * np.arange(span[0], dtype=np.int64) for span in matrix])


def check_triangles(flow: Flow, known: Sequence[Stretches]) -> Iterator[Alarm]:
    """Triangles that are turned round or begin too late, and layers that see ahead beside others that do not."""
    groups: dict[tuple[str, str, int], list[Stretches]] = defaultdict(list)
    for one in known:
        groups[name_alike(flow, one.site)].append(one)
    shifted = finds_next_word(flow)
    looks_back = any(one.see_ahead() is False for one in known)
    opened = [one.site for one in known if one.see_ahead() is True]
    for alike in groups.values():
        verdicts = [one.see_ahead() for one in alike]
        for place, (one, ahead) in enumerate(zip(alike, verdicts, strict=True)):
            alarm = find_triangle(flow, one, looks_back=looks_back)
            if alarm is None and ahead is True:
                alarm = find_open(flow, one.site, verdicts, place, opened, shifted)
            if alarm is not None:
                yield alarm
                break


def find_triangle(flow: Flow, one: Stretches, *, looks_back: bool) -> Alarm | None:
    """A triangle that begins too late, or is turned round where no other attention looks back."""
    scores = flow.output(one.site.scores).shape
    step = flow.steps[joint(flow, one.site)]
    places = np.arange(one.queries)
    is_upper = (one.ends == one.keys)[..., :-1].all()
    if not looks_back and is_upper and ((one.firsts == places) | (one.firsts == places + 1))[..., :-1].all():
        text = f"Each query of the scores {scores} sees the keys behind it and none before it: it is turned round."
        return alarm_at(flow.one_pass, step, "inverted", text)
    for ahead in range(1, LONGEST_STEP + 1):
        if not one.firsts.any() and (one.ends == np.minimum(places + 1 + ahead, one.keys)).all():
            keys = "the next key" if ahead == 1 else f"the next {ahead} keys"
            text = f"Each query of the scores {scores} also sees {keys}: the triangle begins {ahead} too late."
            return alarm_at(flow.one_pass, step, "future", text)
    return None


def check_packed(flow: Flow, one: Stretches) -> Alarm | None:
    """Sequences in one row that see each other."""
    rows = find_documents(flow)
    if rows is None or rows[1].shape[-1] != one.keys or len({1, len(rows[1]), len(one.ends)}) > 2:
        return None
    name, documents = rows
    begins = np.stack([np.searchsorted(row, row, side="left") for row in documents])
    stops = np.stack([np.searchsorted(row, row, side="right") for row in documents])
    inside = np.maximum(0, np.minimum(one.ends, stops) - np.maximum(one.firsts, begins))
    others = (one.ends - one.firsts) - inside
    if not others.any():
        return None
    row = int(np.flatnonzero(others.any(axis=0))[0])
    most = max(len(np.unique(each)) for each in documents)
    text = (
        f"{name} tells of {most} sequences in a row, and {int(others.sum()):,} "
        f"cells of the scores {flow.output(one.site.scores).shape} let one see another, first in row {row:,}."
    )
    return alarm_at(flow.one_pass, flow.steps[joint(flow, one.site)], "packed", text, name)


def check_window(flow: Flow, one: Stretches) -> Alarm | None:
    """A window that is not as wide as the module itself says."""
    said = find_setting(flow, block_of(flow, one.site))
    if said is None or said[1] >= one.keys or one.see_ahead() is not False:
        return None
    name, window, own = said
    wide = int((one.ends - one.firsts).max())
    is_window = bool((one.ends - one.firsts == np.minimum(np.arange(one.queries) + 1, wide)).all())
    if not is_window or is_as_said(name, window, wide) or (wide == one.keys and not own):
        return None
    sees = f"sees {wide:,} of {one.keys:,} places" if wide < one.keys else f"sees all {one.keys:,} places"
    text = f"{name} is {window:,}, and a query of the scores {flow.output(one.site.scores).shape} {sees}."
    return alarm_at(flow.one_pass, flow.steps[joint(flow, one.site)], "window", text)


def check_blind(flow: Flow, one: Stretches) -> Alarm | None:
    """Rows that see nothing; those of padding are left out where nothing comes of them."""
    blind = one.is_blind
    if not blind.any():
        return None
    if is_safe(flow, one.site):
        blind = blind & ~np.stack([is_padding(*pair, one.keys) for pair in zip(one.firsts, one.ends, strict=True)])
    if not blind.any():
        return None
    row = int(np.flatnonzero(blind.any(axis=0))[0])
    scores = flow.output(one.site.scores).shape
    text = (
        f"{count_rows(blind, scores)} of the scores {scores} see nothing, "
        f"first row {row:,}: every key is hidden, and softmax has nothing to share out."
    )
    return alarm_at(flow.one_pass, flow.steps[joint(flow, one.site)], "blind", text)


def is_padding(firsts: Places, ends: Places, keys: int) -> NDArray[np.bool_]:
    """Which places no query sees."""
    changes = np.zeros(keys + 1, dtype=np.int64)
    shows = ends > firsts
    np.add.at(changes, firsts[shows], 1)
    np.add.at(changes, ends[shows], -1)
    hidden: NDArray[np.bool_] = changes.cumsum()[:keys] == 0
    return hidden if shows.any() else np.zeros(keys, dtype=bool)
