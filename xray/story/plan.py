"""The grid of the poster, computed from what has to stand in it: rows from the bottom up, columns from the left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xray.story.journey import Side

OP, DIGIT, SYMBOL, NOTE, LABEL = 12, 18, 11, 11, 13
"""Text sizes in points: names of operations, digits of shapes, axis words, remarks, headings of parts."""

GAP = 8.0
PAGE_RATIO = 2**0.5
"""Height over width of the A papers."""

TALLEST = 2270.0
"""A higher page would have letters below 8 points on A2 paper."""

TWO_LINES, THREE_LINES, FOUR_LINES = 36.0, 48.0, 61.0
EMBED_WIDTH = 158.0

MARGIN, PANEL_PAD, SKIP_LANE, COLUMN_GAP = 28.0, 9.0, 30.0, 16.0
STAIRWELL, LOOP_LANE, LEDGER_GAP = 56.0, 62.0, 18.0

IDS_HEIGHT, MASK_HEIGHT = 142.0, 139.0
"""What the ids of a batch and the mask above them take."""

ENTRY = ("embed", "plus")
"""The rows from the ids to the first layer."""

HEIGHTS = {
    "title": 17.0,
    "ribbon": 38.0,
    **dict.fromkeys(("qkv", "heads"), FOUR_LINES),
    **dict.fromkeys(("kt", *ENTRY), THREE_LINES),
}
"""How high rows are; the others hold two lines."""


@dataclass(frozen=True)
class Row:
    """A horizontal band: its centre and its height."""

    y: float
    height: float

    @property
    def top(self) -> float:
        return self.y + self.height / 2

    @property
    def bottom(self) -> float:
        return self.y - self.height / 2


@dataclass(frozen=True)
class Stack:
    """Rows by name, and the panel around them."""

    bottom: float
    top: float
    rows: Mapping[str, Row]


@dataclass(frozen=True)
class Frame:
    """The columns of one side: the frame, the lane of the skips, the detailed nodes, the brief column beside them."""

    left: float
    detail_left: float
    detail_right: float
    triple: float
    brief_left: float
    brief_right: float
    right: float

    @property
    def centre(self) -> float:
        return (self.detail_left + self.detail_right) / 2

    @property
    def brief(self) -> float:
        return (self.brief_left + self.brief_right) / 2

    @property
    def skip(self) -> float:
        return self.detail_left - SKIP_LANE * 0.58

    @property
    def query(self) -> float:
        return self.detail_left + self.triple / 2

    @property
    def value(self) -> float:
        return self.detail_right - self.triple / 2


@dataclass(frozen=True)
class Flank:
    """One side of the poster: its frame, the ledger beside it, and the rows of each sublayer."""

    frame: Frame
    ledger: tuple[float, float]
    stacks: Mapping[str, Stack]

    @property
    def top(self) -> float:
        """Where the frame ends."""
        return list(self.stacks.values())[-1].top + PANEL_PAD


@dataclass(frozen=True)
class Plan:
    """Everything that two parts of the poster have to agree on; `info` is where the title begins, and its width."""

    width: float
    height: float
    flanks: Mapping[Side, Flank]
    info: tuple[float, float]
    stairwell: float
    loop: float
    captions: Row
    words: Row
    ids: Row
    entrance: Mapping[str, Row]
    frame_bottom: float
    out: Mapping[str, Row]


@dataclass(frozen=True)
class Sizes:
    """What the grid is computed from: the widths and heights that the contents ask for, and the rows of each part."""

    detail: float
    triple: float
    brief: float
    ledger: float
    words: float
    rows: Mapping[Side, Mapping[str, tuple[str, ...]]]
    out: tuple[str, ...]
    loop: bool
    stairwell: bool
    upper_left: float = 0.0
    upper_right: float = 0.0


def make_plan(sizes: Sizes) -> Plan:
    """The grid, stretched to the proportion of A paper: wider gaps between the rows, or wider aisles."""
    plan = lay_out(sizes, GAP, 0)
    if plan.height < plan.width * PAGE_RATIO:
        gap = solve(GAP, GAP * 4, lambda value: lay_out(sizes, value, 0).height < plan.width * PAGE_RATIO)
        return replace(lay_out(sizes, gap, 0), height=plan.width * PAGE_RATIO)
    spare = solve(0, plan.height, lambda value: lay_out(sizes, GAP, value).width * PAGE_RATIO < plan.height)
    return lay_out(sizes, GAP, spare)


def solve(low: float, high: float, is_short: Callable[[float], bool]) -> float:
    """The largest value that still falls short, by halving."""
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return low


def lay_out(sizes: Sizes, gap: float, spare: float) -> Plan:
    """The grid with the given gap between rows and so many points of width to spare."""
    captions = Row(MARGIN + 10, 20)
    words = above(captions, sizes.words, 6)
    ids = above(words, IDS_HEIGHT, 20)
    scheme: dict[str, Row] = {}
    last = ids
    for name in ENTRY:
        last = scheme[name] = above(last, THREE_LINES, gap if scheme else 20)
    low = ids.top + 10 + MASK_HEIGHT
    frame_bottom = max(last.top + gap * 2, low + gap)
    columns = place_columns(sizes, spare)
    flanks = {
        side: Flank(frame, ledger, pile_stacks(sizes.rows[side], frame_bottom + PANEL_PAD, gap))
        for side, (frame, ledger) in columns.flanks.items()
    }
    last = above(Row(flanks["decoder"].top, 0), 0, gap + 18)
    out: dict[str, Row] = {}
    for name in sizes.out:
        last = out[name] = above(last, TWO_LINES, gap * 1.15)
    high_left = flanks["encoder"].top + sizes.upper_left
    high_right = last.top + MARGIN + 6 + sizes.upper_right
    return Plan(
        width=columns.width,
        height=max(last.top + MARGIN + 6, min(TALLEST, max(high_left, high_right))),
        flanks=flanks,
        info=columns.info,
        stairwell=columns.stairwell,
        loop=columns.loop,
        captions=captions,
        words=words,
        ids=ids,
        entrance=scheme,
        frame_bottom=frame_bottom,
        out=out,
    )


@dataclass(frozen=True)
class Columns:
    """What stands beside what, from the left."""

    width: float
    flanks: Mapping[Side, tuple[Frame, tuple[float, float]]]
    info: tuple[float, float]
    stairwell: float
    loop: float


def place_columns(sizes: Sizes, spare: float) -> Columns:
    """Ledger, encoder, stairs, decoder, ledger."""
    aisle = spare / 5
    margin = MARGIN + aisle * 0.4
    stairs = (STAIRWELL if sizes.stairwell else STAIRWELL * 0.7) + aisle * 1.2
    ledger = (margin, margin + sizes.ledger)
    encoder = make_frame(ledger[1] + LEDGER_GAP + aisle * 0.7, sizes)
    decoder = make_frame(encoder.right + stairs, sizes)
    ledger_start = decoder.right + LEDGER_GAP + aisle * 0.7
    ledger_end = ledger_start + sizes.ledger
    loop = ledger_end + (LOOP_LANE * 0.5 + aisle * 0.8 if sizes.loop else 0)
    stairwell = (encoder.right + decoder.left) / 2
    return Columns(
        width=loop + (LOOP_LANE * 0.5 if sizes.loop else 0) + margin - (8 if sizes.loop else 0),
        flanks={"encoder": (encoder, ledger), "decoder": (decoder, (ledger_start, ledger_end))},
        info=(margin, stairwell - 26 - margin),
        stairwell=stairwell,
        loop=loop,
    )


def pile_stacks(rows: Mapping[str, tuple[str, ...]], floor: float, gap: float) -> Mapping[str, Stack]:
    """The sublayers of a side, one above the other."""
    stacks: dict[str, Stack] = {}
    for name, listed in rows.items():
        stacks[name] = make_stack(listed, floor, gap)
        floor = stacks[name].top + PANEL_PAD
    return stacks


def make_frame(left: float, sizes: Sizes) -> Frame:
    detail_left = left + 2 * PANEL_PAD + SKIP_LANE
    detail_right = detail_left + sizes.detail
    brief_left = detail_right + COLUMN_GAP
    brief_right = brief_left + sizes.brief
    return Frame(
        left, detail_left, detail_right, sizes.triple, brief_left, brief_right, brief_right + 2 * PANEL_PAD + 2
    )


def make_stack(names: tuple[str, ...], bottom: float, gap: float) -> Stack:
    rows: dict[str, Row] = {}
    last = Row(bottom + 2, 0)
    for name in names:
        lead = 2.0 if name == "title" else gap * 0.7 if name == "ribbon" else gap
        last = rows[name] = above(last, HEIGHTS.get(name, TWO_LINES), lead)
    return Stack(bottom, last.top + gap, rows)


def above(row: Row, height: float, gap: float) -> Row:
    """A row of that height, so far above another."""
    return Row(row.top + gap + height / 2, height)
