"""The grid of the poster, computed from what has to stand in it: rows from the bottom up, columns from the left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from xray.story.journey import Journey, Tale
from xray.story.layout import Measure, line_width
from xray.story.shapes import ShapeText, digits, symbols

OP, DIGIT, SYMBOL, NOTE, LABEL = 12, 18, 11, 11, 13
"""Text sizes in points: names of operations, digits of shapes, axis words, remarks, headings of parts."""

GAP = 8.0
PAGE_RATIO = 2**0.5
"""Height over width of the A papers."""

TALLEST = 2270.0
"""A higher page would have letters below 8 points on A2 paper."""

TWO_LINES, THREE_LINES, FOUR_LINES = 36.0, 48.0, 61.0
EMBED_WIDTH = 158.0
WIDEST_TRIPLE, WIDEST_DETAIL, WIDEST_BRIEF = 106.0, 334.0, 94.0
"""Longer shapes than these hold are set in smaller type."""

MARGIN, PANEL_PAD, SKIP_LANE, COLUMN_GAP = 28.0, 9.0, 30.0, 16.0
STAIRWELL, LOOP_LANE, LEDGER_GAP = 56.0, 62.0, 18.0

SELF_ROWS = (
    "title",
    "input",
    "norm",
    "qkv",
    "heads",
    "kt",
    "scores",
    "mask",
    "softmax",
    "values",
    "concat",
    "output",
    "add",
)
CROSS_ROWS = ("title", "norm", "ribbon", *SELF_ROWS[3:])
FORWARD_ROWS = ("title", "norm", "expand", "contract", "add")
HEIGHTS = {"title": 17.0, "ribbon": 38.0, "qkv": FOUR_LINES, "heads": FOUR_LINES, "kt": THREE_LINES}


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
class Plan:
    """Everything that two parts of the poster have to agree on."""

    width: float
    height: float
    encoder: Frame
    decoder: Frame
    encoder_ledger: tuple[float, float]
    decoder_ledger: tuple[float, float]
    stairwell: float
    loop: float
    captions: Row
    words: Row
    ids: Row
    entrance: Mapping[str, Row]
    frame_bottom: float
    encoder_stacks: Mapping[str, Stack]
    decoder_stacks: Mapping[str, Stack]
    out: Mapping[str, Row]

    @property
    def encoder_top(self) -> float:
        return self.encoder_stacks["feed_forward"].top + PANEL_PAD

    @property
    def decoder_top(self) -> float:
        return self.decoder_stacks["feed_forward"].top + PANEL_PAD


@dataclass(frozen=True)
class Sizes:
    """What the grid is computed from: the widths and heights that the contents ask for."""

    detail: float
    triple: float
    brief: float
    ledger: float
    words: float
    ids: float
    mask: float
    norm_first: bool
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
    aisle = spare / 5
    margin = MARGIN + aisle * 0.4
    ledger_left = (margin, margin + sizes.ledger)
    encoder = make_frame(ledger_left[1] + LEDGER_GAP + aisle * 0.7, sizes)
    stairwell = (STAIRWELL if sizes.stairwell else STAIRWELL * 0.7) + aisle * 1.2
    decoder = make_frame(encoder.right + stairwell, sizes)
    ledger_start = decoder.right + LEDGER_GAP + aisle * 0.7
    ledger_right = (ledger_start, ledger_start + sizes.ledger)
    loop = ledger_right[1] + (LOOP_LANE * 0.5 + aisle * 0.8 if sizes.loop else 0)
    width = loop + (LOOP_LANE * 0.5 if sizes.loop else 0) + margin - (8 if sizes.loop else 0)

    captions = Row(MARGIN + 10, 20)
    words = above(captions, sizes.words, 6)
    ids = above(words, sizes.ids, 20)
    embed = above(ids, THREE_LINES, 20)
    scheme = {"embed": embed, "plus": above(embed, THREE_LINES, gap)}
    low = ids.top + 10 + sizes.mask
    frame_bottom = max(scheme["plus"].top + gap * 2, low + gap)
    floor = frame_bottom + PANEL_PAD
    self_rows = rows_of(SELF_ROWS, sizes)
    encoder_self = make_stack(self_rows, floor, gap)
    encoder_forward = make_stack(rows_of(FORWARD_ROWS, sizes), encoder_self.top + PANEL_PAD, gap)
    decoder_self = make_stack(self_rows, floor, gap)
    cross = make_stack(rows_of(CROSS_ROWS, sizes), decoder_self.top + PANEL_PAD, gap)
    decoder_forward = make_stack(rows_of(FORWARD_ROWS, sizes), cross.top + PANEL_PAD, gap)
    top = Row(decoder_forward.top + PANEL_PAD, 0)
    out: dict[str, Row] = {}
    last = above(top, 0, gap + 18)
    for name in (*(("norm",) if sizes.norm_first else ()), "head", "last_row", "softmax", "argmax"):
        last = out[name] = above(last, TWO_LINES, gap * 1.15)
    high_left = encoder_forward.top + PANEL_PAD + sizes.upper_left
    return Plan(
        width=width,
        height=max(last.top + MARGIN + 6, min(TALLEST, max(high_left, last.top + MARGIN + 6 + sizes.upper_right))),
        encoder=encoder,
        decoder=decoder,
        encoder_ledger=ledger_left,
        decoder_ledger=ledger_right,
        stairwell=(encoder.right + decoder.left) / 2,
        loop=loop,
        captions=captions,
        words=words,
        ids=ids,
        entrance=scheme,
        frame_bottom=frame_bottom,
        encoder_stacks={"self_attention": encoder_self, "feed_forward": encoder_forward},
        decoder_stacks={"self_attention": decoder_self, "cross_attention": cross, "feed_forward": decoder_forward},
        out=out,
    )


def make_frame(left: float, sizes: Sizes) -> Frame:
    detail_left = left + 2 * PANEL_PAD + SKIP_LANE
    detail_right = detail_left + sizes.detail
    brief_left = detail_right + COLUMN_GAP
    brief_right = brief_left + sizes.brief
    return Frame(
        left, detail_left, detail_right, sizes.triple, brief_left, brief_right, brief_right + 2 * PANEL_PAD + 2
    )


def rows_of(names: tuple[str, ...], sizes: Sizes) -> tuple[str, ...]:
    return tuple(name for name in names if name != "norm" or sizes.norm_first)


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


def measure_tale(tale: Tale, measure: Measure) -> tuple[float, float, float]:
    """How wide the three nodes side by side, the detailed column and the brief column have to be."""
    triple = detail = brief = 0.0
    for place, journeys in enumerate(zip(tale.encoder, tale.decoder, strict=True)):
        for journey in journeys:
            for path in paths_to_measure(journey):
                shape = journey.output(path)
                if shape is None:
                    continue
                number = line_width(digits(shape, DIGIT), measure)
                if place or len(tale.phases) == 1:
                    brief = max(brief, number)
                if place == 0:
                    if "split" in path or path.endswith(("query", "key", "value")):
                        triple = max(triple, number, half_symbols(shape, measure))
                    elif "layers" in path:
                        detail = max(detail, number + 8 + line_width(symbols(shape, SYMBOL), measure))
    triple = min(triple + 14, WIDEST_TRIPLE)
    return triple, min(max(detail + 24 + 26, 3 * triple + 16), WIDEST_DETAIL), min(brief, WIDEST_BRIEF)


def half_symbols(shape: ShapeText, measure: Measure) -> float:
    half = (len(shape.axes) + 1) // 2
    halves = (ShapeText((), (*shape.axes[:half], "")), ShapeText((), shape.axes[half:]))
    return max(line_width(symbols(part, SYMBOL), measure) for part in halves)


def paths_to_measure(journey: Journey) -> list[str]:
    parts = ("query", "key", "value", "split_query", "split_key", "split_value", "transpose_key", "scores")
    upper = ("softmax", "weighted_sum", "concat")
    attentions = ("self_attention", "cross_attention") if journey.side == "decoder" else ("self_attention",)
    found = [f"{journey.side}.layers.0.{attention}.{part}" for attention in attentions for part in (*parts, *upper)]
    return [*found, f"{journey.side}.layers.0.feed_forward.expand", "head", "next_word.last_row"]
