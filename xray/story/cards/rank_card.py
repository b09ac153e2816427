"""One rank of many, as a card: which slice it holds, where its data waits for others, and for how many bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.trace import Trace
from xray.story.canvas import Canvas, words
from xray.story.facts.exchanges import Exchange, Slice, bytes_by_layer, list_slices, list_waits
from xray.story.facts.pipeline import list_cuts
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text, wrap

MOST_CELLS, MOST_BARS = 32, 12
ROW = 18.0


@dataclass(frozen=True)
class RankCard:
    """What is drawn on the card, and where its left side is."""

    trace: Trace
    left: float
    width: float

    @property
    def title(self) -> str:
        """Which rank it is."""
        mesh = self.trace.config.get("mesh")
        return "WHAT THIS RANK HOLDS" if mesh is None else f"RANK {self.trace.config.get('rank')} OF {mesh}"

    def draw(self, canvas: Canvas, y: float) -> float:
        """The slices as rows of cells, this rank's filled; then what it waits for; then the bytes of each layer."""
        slices = list_slices(self.trace)
        for one in slices:
            y = self.draw_slice(canvas, y, one)
        for line in self.describe_waits():
            lines = tuple(words(part, NOTE) for part in wrap(line, NOTE, self.width - 28, canvas.measure))
            y = canvas.note(self.left + 14, y - 2, lines, "card").bottom - 2
        for cut in list_cuts(self.trace):
            text = f"cut behind layer {cut.after}: {spell_bytes(cut.bytes)} cross"
            y = canvas.note(self.left + 14, y - 2, (words(text, NOTE),), "card").bottom - 2
        layers = [(f"layer {layer}", size) for layer, size in bytes_by_layer(self.trace).items() if layer is not None]
        return self.draw_bars(canvas, y - 4, fold(layers)) if layers else y

    def draw_slice(self, canvas: Canvas, y: float, one: Slice) -> float:
        """Who holds which slice: a cell for each rank along the axis of the mesh."""
        room = self.width * 0.46
        text = fit_text(f"{one.name} {one.whole:,}: {one.here:,} here", NOTE, room, canvas.measure)
        canvas.note(self.left + 14, y, (words(text, NOTE),), "card")
        left, right = self.left + 14 + room, self.left + self.width - 14
        count = min(one.ranks, MOST_CELLS)
        step = (right - left) / count
        for number in range(count):
            x = left + number * step
            end = x + step - min(2.0, step / 4)
            if number == one.place:
                canvas.panel(x, y - 12, end, y - 1, "station", 2)
            else:
                canvas.panel(x, y - 12, end, y - 1, "card", 2, "card", 1.0)
        return y - ROW

    def describe_waits(self) -> list[str]:
        """Where data waits for other ranks, on the way and on the way back."""
        return [describe_wait(one, places) for one, places in list_waits(self.trace)]

    def draw_bars(self, canvas: Canvas, y: float, bars: Sequence[tuple[str, int]]) -> float:
        widest = max(size for _, size in bars)
        left = self.left + 14 + self.width * 0.30
        right = self.left + self.width - 100
        for name, size in bars:
            canvas.note(
                self.left + 14, y, (words(fit_text(name, NOTE, self.width * 0.29, canvas.measure), NOTE),), "card"
            )
            canvas.panel(left, y - 11, left + max((right - left) * size / max(widest, 1), 3), y - 2, "station", 3)
            canvas.note(self.left + self.width - 14, y, (words(spell_bytes(size), NOTE),), "card", "right")
            y -= ROW - 1
        return y


def describe_wait(one: Exchange, places: Sequence[str]) -> str:
    """A kind of exchange: "all_reduce along tp, 5×, 51.2 kB: behind o_proj, down_proj"."""
    of = f" of {one.of}" if one.of else ""
    told = f"{one.op}{of} along {one.group}, {one.times:,}×, {spell_bytes(one.bytes)}"
    where = " ".join(("on the way back," * one.is_back, ("before " if one.is_back else "behind ") + ", ".join(places)))
    if places:
        return f"{told}: {where.strip()}"
    return f"{told}, on the way back" if one.is_back else told


def fold(layers: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """Layers with as many bytes as their neighbours as one bar: "layers 0–31, each"."""
    folded: list[tuple[int, int, int]] = []
    for name, size in layers:
        number = int(name.split()[-1])
        if folded and folded[-1][2] == size and folded[-1][1] == number - 1:
            folded[-1] = (folded[-1][0], number, size)
        else:
            folded.append((number, number, size))
    told = [(f"layer {a}" if a == b else f"layers {a}–{b}, each", size) for a, b, size in folded]
    return told[:MOST_BARS]


def spell_bytes(count: int) -> str:
    """Bytes as people read them: "10.2 kB"."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{count:,} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return ""
