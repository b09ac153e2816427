"""Sequences in one row, windows, and the side of padding: what masks must leave visible, held to what they do."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.trace import Pass, Step
from xray.story.alarms.arguments import given_values, list_given
from xray.story.alarms.bench import read_preview
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.alarms.reach import block_of
from xray.story.alarms.squares import Square, joint, see_ahead
from xray.story.branches.scored.hiding import find_window
from xray.story.recognition.values.value_rules import LOW
from xray.story.recognition.values.value_shapes import Values

CONFIGURED = "config.sliding_window"
SURE = ("sliding_window", CONFIGURED)
"""What is a window of attention wherever it is set; other words mean other windows too, above an attention."""
DOCUMENTS = ("document", "doc_id", "seq_idx", "sequence_id")
WINDOWS = (*SURE, "window_size", "window", "local_window", "local_attention")


def check_packed(flow: Flow, squares: Sequence[Square]) -> Iterator[Alarm]:
    """Sequences in one row that see each other, by position ids, document ids or lengths summed up."""
    rows = find_documents(flow)
    if rows is None:
        return
    name, documents = rows
    length = documents.shape[-1]
    for square in squares:
        cells = square.cells
        if "position" in name and (square.free is None or see_ahead(square.free) is not False):
            continue  # where all see all, places may be counted anew in each part of one sequence
        if square.site.kind != "self" or cells is None or cells.shape[-2:] != (length, length) or np.isnan(cells).any():
            continue
        flat = cells.reshape(cells.shape[0], -1, length, length) if cells.ndim > 2 else cells[None, None]
        if flat.shape[0] not in (1, len(documents)) and len(documents) != 1:
            continue
        apart = documents[:, :, None] != documents[:, None, :]
        seen = ((flat == 0).any(axis=1) & apart).sum()
        if seen:
            step = flow.steps[joint(flow, square.site)]
            shape = list_given(flow.one_pass)[name].shape
            most = int(max(len(np.unique(row)) for row in documents))
            text = (
                f"{name} {shape} tells of {most} sequences in a row, and {int(seen):,} cells of the scores "
                f"{flow.output(square.site.scores).shape} let one see another."
            )
            yield alarm_at(flow.one_pass, step, "packed", text, name)
            return


def find_documents(flow: Flow) -> tuple[str, Values] | None:
    """The name of what tells packed sequences apart, and the number of the sequence of each place."""
    values = given_values(flow)
    is_lone = sum("position" in name for name in values) == 1  # several count along axes of a picture
    for name in list_given(flow.one_pass):
        given = values.get(name)
        if given is None or np.isnan(given).any():
            continue
        if any(word in name for word in DOCUMENTS) and given.ndim in (1, 2):
            rows = given.reshape(-1, given.shape[-1])
            if (np.diff(rows, axis=-1) >= 0).all() and any(len(np.unique(row)) > 1 for row in rows):
                return name, rows
        if "position" in name and is_lone and given.ndim == 2:
            hidden = find_padding(values, given.shape)
            starts = (given == 0) & ~hidden
            steps = np.diff(given, axis=-1)
            regular = (starts | hidden)[:, 0].all() and ((steps == 1) | starts[:, 1:] | hidden[:, 1:]).all()
            documents = starts.cumsum(axis=-1).astype(float)
            if regular and any(len(find_long(row)) > 1 for row in documents):
                return name, documents
        if "cu_seq" in name and given.ndim == 1 and len(given) > 2 and given[0] == 0 and (np.diff(given) > 0).all():
            places = np.arange(int(given[-1]))
            return name, np.searchsorted(given, places, side="right").astype(float)[None]
    return None


def find_padding(values: Mapping[str, Values], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The places that a given mask of this shape says to be padding, where places are counted anyhow."""
    masks = [one for name, one in values.items() if name.endswith("mask") and one.shape == shape]
    hidden: NDArray[np.bool_] = masks[0] == 0 if masks else np.zeros(shape, dtype=bool)
    return hidden


def find_long(row: Values) -> list[float]:
    """The sequences of a row that have at least two places."""
    numbers, counts = np.unique(row, return_counts=True)
    return [float(number) for number, count in zip(numbers, counts, strict=True) if count > 1]


def check_window(flow: Flow, squares: Sequence[Square]) -> Iterator[Alarm]:
    """Windows that are not as wide as a module or its configuration says."""
    wide: dict[int, list[Square]] = {}
    for square in squares:
        if (
            square.site.kind == "self"
            and square.is_square
            and square.free is not None
            and not np.isnan(square.free).any()
        ):
            wide.setdefault(id(square), []).append(square)
    known = [(square, measure(square)) for (square,) in wide.values()]
    for square, (width, causal) in known:
        said = find_setting(flow, block_of(flow, square.site))
        length = 0 if square.free is None else square.free.shape[-1]
        if said is None or said[1] >= length:
            continue
        name, window, own = said
        if not causal or is_as_said(name, window, width):
            continue
        is_cut = square.free is not None and np.tril(square.free).any()  # in another way than by a window
        if width is None and (is_cut or not own or window in (one for _, (one, _) in known)):
            continue
        sees = f"sees {width} of {length} places" if width is not None else f"sees all {length} places"
        text = f"{name} is {window}, and a query of the scores {flow.output(square.site.scores).shape} {sees}."
        yield alarm_at(flow.one_pass, flow.steps[joint(flow, square.site)], "window", text)
        return


def measure(square: Square) -> tuple[int | None, bool]:
    """How many places a query sees at most where a window cuts off others, and whether the future is hidden."""
    free = np.zeros((3, 3)) if square.free is None else square.free
    flat = np.where(free.reshape(-1, *free.shape[-2:]) == 1, 10 * LOW, 0.0)
    length = flat.shape[-1]
    causal = bool((flat[:, np.triu(np.ones((length, length), dtype=bool), 1)] <= LOW).all())
    return find_window(flat, causal), causal


def is_as_said(name: str, window: int, width: int | None) -> bool:
    """Whether a query sees as many places as a setting says, or so many before its own."""
    return width == window or (width == window + 1 and name not in SURE)


def find_setting(flow: Flow, block: Step) -> tuple[str, int, bool] | None:
    """How wide a window a module says that it has, and whether its own attribute says so."""
    here: Step | None = block
    while here is not None:
        for name in WINDOWS if here is block else SURE:
            value = here.settings.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return name, value, name != CONFIGURED
        here = flow.one_pass.by_id.get(here.parent or "")
    return None


def check_padding_side(flow: Flow, squares: Sequence[Square], values: Mapping[str, Values]) -> Iterator[Alarm]:
    """Keys that are hidden between others that are seen, where one new word looks back: padding on the wrong side."""
    masks = {name: one for name, one in values.items() if name.endswith("mask") and one.ndim == 2}
    for square in squares:
        cells = square.cells
        if square.site.kind != "self" or cells is None or cells.shape[-2] != 1 or np.isnan(cells).any():
            continue
        rows = cells.reshape(cells.shape[0], -1, cells.shape[-1])[:, 0]
        holes = [number for number, row in enumerate(rows) if has_hole(row)]
        name = next((name for name, one in masks.items() if one.shape == rows.shape), None)
        if holes and name is not None and any(not has_hole(row) for row in rows):
            text = (
                f"{name} {rows.shape} hides keys between others that are seen, in sequence {holes[0]}: its "
                "padding stands "
                "on the right, and the new word comes after it."
            )
            yield alarm_at(flow.one_pass, flow.steps[joint(flow, square.site)], "padding side", text, name)
            return


def check_growth(before: Pass, now: Pass) -> Iterator[Alarm]:
    """Padding on the wrong side where whole passes follow one another, each with one word more: there is no cache."""
    old, new = find_ids(before), find_ids(now)
    if old is None or new is None or new.shape != (len(old), old.shape[1] + 1) or (new[:, :-1] != old).any():
        return
    for name, mask in given_values(read_flow(now)).items():
        if name.endswith("mask") and mask.shape == new.shape and np.isin(mask, (0.0, 1.0)).all():
            holes = [number for number, row in enumerate(mask) if has_hole(row == 0)]
            if holes:
                text = (
                    f"{name} {mask.shape} hides keys between others that are seen, in sequence {holes[0]}: its padding "
                    "stands on the right, and the word that this pass has more than the one before comes after it."
                )
                yield alarm_at(now, now.steps[0], "padding side", text, name)
                return


def find_ids(one_pass: Pass) -> Values | None:
    """The words that the whole model was given, as far as all of them are known."""
    for record in one_pass.steps[0].inputs if one_pass.steps else ():
        if record.role == "ids" and record.given is None and len(record.shape) == 2:
            return read_preview(record)
    return None


def has_hole(row: Values) -> bool:
    """Whether hidden keys stand between the first ones and the last, all of which are seen."""
    hidden = np.flatnonzero(row == 1)
    return bool(
        len(hidden) and hidden[0] > 0 and hidden[-1] < len(row) - 1 and hidden[-1] - hidden[0] + 1 == len(hidden)
    )
