"""Title, remarks, legend, formulas and masks of another model, one under the other in the room left for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xray.story.canvas import Canvas
from xray.story.column import Column
from xray.story.formulas import draw_formulas
from xray.story.gallery import draw_gallery, read_pictures
from xray.story.heading import draw_legend, draw_reading, draw_title, reading_width
from xray.story.journey import Tale
from xray.story.layout import Line
from xray.story.marking import MOST_LISTED, Blocks, card_blocks, draw_marks_card
from xray.story.marks import Marks
from xray.story.mask_cards import draw_masks, list_masks
from xray.story.param_cards import draw_params, draw_tensor_sizes, list_shares
from xray.story.specials import draw_specials, list_specials
from xray.story.tower import draw_towers, need_towers
from xray.story.turn_cards import draw_turn_table, has_turns

AIR, MOST_AIR, WIDE, PICTURES, GUTTER = 14.0, 96.0, 480.0, 190.0, 28.0
FORMULAS = 100.0
"""What is kept free for the formulas under layers that stand apart."""

Draw = Callable[[Canvas, float], float]
"""Draws a part below a height on a canvas; gives the height that is left below it."""


@dataclass(frozen=True)
class Info:
    """What is told beside or above the drawing of a model, and the place for it."""

    tale: Tale
    columns: Sequence[Column]
    marks: Marks | None
    left: float
    width: float
    gradients: tuple[Line, ...] = ()

    def parts(self, floor: float) -> list[Draw]:
        """All parts from the top down, those that can be missed last."""
        return [*self.leading(floor), *self.trailing()]

    def leading(self, floor: float) -> list[Draw]:
        """What has to be read first, and what explains the drawing."""
        tale, left, width = self.tale, self.left, self.width
        listed: list[Draw] = [lambda canvas, y: draw_title(canvas, tale, left, left + width, y, self.gradients)]
        if self.marks is not None:
            marks = self.marks
            listed.append(lambda canvas, y: draw_marks_card(canvas, marks, self.list_marks(canvas), left, y, width))
        if list_specials(tale):
            listed.append(lambda canvas, y: draw_specials(canvas, tale, left, y, width))
        listed.append(self.draw_keys)
        if need_towers(self.columns):
            low = floor + FORMULAS
            listed.append(lambda canvas, y: draw_towers(canvas, self.columns, left, y, width, low))
        listed.append(lambda canvas, y: draw_formulas(canvas, tale, left, y, width))
        return listed

    def trailing(self) -> list[Draw]:
        """What may stand apart from that, what is best missed last: turns, masks, pictures, parameters, tensors."""
        tale, left, width = self.tale, self.left, self.width
        listed: list[Draw] = []
        if has_turns(tale):
            listed.append(lambda canvas, y: draw_turn_table(canvas, tale, left, y, width))
        if list_masks(tale):
            listed.append(lambda canvas, y: draw_masks(canvas, tale, left, y, width))
        if read_pictures(tale):
            listed.append(self.draw_pictures)
        if list_shares(tale):
            listed.append(lambda canvas, y: draw_params(canvas, tale, left, y, width))
        listed.append(lambda canvas, y: draw_tensor_sizes(canvas, tale, left, y, width))
        return listed

    def halves(self) -> tuple["Info", "Info"]:
        """The same in two halves of its room, side by side."""
        half = (self.width - GUTTER) / 2
        return replace(self, width=half), replace(self, left=self.left + half + GUTTER, width=half)

    def list_marks(self, canvas: Canvas) -> Blocks:
        """What the card of marks says; nothing without marks."""
        return card_blocks(canvas, self.marks, self.width, MOST_LISTED) if self.marks is not None else []

    def draw_keys(self, canvas: Canvas, y: float) -> float:
        """The reading order, and the legend beside it or under it."""
        tale, left, width = self.tale, self.left, self.width
        if width < WIDE:
            low = draw_reading(canvas, tale, left, y, width)
            return draw_legend(canvas, tale, left, low - 8, width, self.marks)
        reading = min(width * 0.5, reading_width(canvas, tale))
        low = draw_reading(canvas, tale, left, y, reading)
        return min(low, draw_legend(canvas, tale, left + reading + 18, y, width - reading - 18, self.marks))

    def draw_pictures(self, canvas: Canvas, y: float) -> float:
        """The attention pictures, as large as they fit a fixed height."""
        draw_gallery(canvas, self.tale, self.left, y, self.width, y - PICTURES)
        return y - PICTURES


def parts_height(canvas: Canvas, parts: Sequence[Draw], top: float = 0.0) -> float:
    """How high parts are, one under the other."""
    scratch, y = Canvas(canvas.measure), top
    for draw in parts:
        y = draw(scratch, y) - AIR
    return top - y - AIR if parts else 0.0


def share_out(canvas: Canvas, right: Info) -> tuple[list[Draw], list[Draw]]:
    """The parts that stand above the decoder, each in the half that is less full."""
    halves = right.halves()
    filled: tuple[list[Draw], list[Draw]] = ([], [])
    for one, other in zip(*(half.trailing() for half in halves), strict=True):
        if parts_height(canvas, filled[0]) <= parts_height(canvas, filled[1]):
            filled[0].append(one)
        else:
            filled[1].append(other)
    return filled


def apart_height(canvas: Canvas, right: Info) -> float:
    """How high the higher half of what stands above the decoder is, without its last part."""
    return max(parts_height(canvas, half[:2] if len(half) > 2 else half[:1]) for half in share_out(canvas, right))


def draw_parts(canvas: Canvas, parts: list[Draw], top: float, floor: float) -> None:
    """The parts from the top down with what room there is between them; the last ones are left out where it is none."""
    while len(parts) > 1 and parts_height(canvas, parts, top) > top - floor:
        parts.pop()
    spare = top - floor - parts_height(canvas, parts, top)
    air = AIR + min(MOST_AIR - AIR, max(0.0, spare) / max(1, len(parts) - 1))
    for draw in parts:
        top = draw(canvas, top) - air


def draw_info(canvas: Canvas, info: Info, right: Info | None, top: float, floors: tuple[float, float]) -> int:
    """All parts, with `right` those that may stand apart in the room above the decoder; gives the marks listed."""
    if right is None:
        draw_parts(canvas, info.parts(floors[0]), top, floors[0])
    else:
        draw_parts(canvas, info.leading(floors[0]), top, floors[0])
        for half in share_out(canvas, right):
            draw_parts(canvas, half, top, floors[1])
    return sum(number > 0 for number, _ in info.list_marks(canvas))
