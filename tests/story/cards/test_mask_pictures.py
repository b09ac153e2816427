"""Which of several matrices of a mask is drawn: one that shows what the mask hides, and the words say which."""

import pytest

from xray.ir.records import MaskFacts
from xray.renderers.fonts import text_width
from xray.story.canvas import Canvas
from xray.story.cards.mask_pictures import MOST, MaskCard, draw_masks
from xray.story.sentences.of_masks import LETTERS
from xray.story.shapes import ShapeText

SEEN, ROLLED = ("....",) * 4, ("..xx", "..xx", "xx..", "xx..")
PADDED, LARGE = ("...p",) * 4, ("." * (MOST + 2),) * (MOST + 2)
LATE = ("." * (MOST + 1) + "x",) * (MOST + 2)


@pytest.mark.parametrize(
    ("cells", "number", "told"),
    [
        ((SEEN, ROLLED, ROLLED), 1, "; number 2 of 3"),
        ((SEEN, SEEN), 0, ""),
        ((ROLLED, SEEN), 0, "; number 1 of 2"),
        ((ROLLED, PADDED), 1, "; number 2 of 2"),
        ((LARGE, LATE), 0, "; number 1 of 2, the first corner"),
        ((LARGE, (LARGE[0].replace(".", "x", 1),) * (MOST + 2)), 1, "; number 2 of 2, the first corner"),
    ],
    ids=["hides", "hides nothing", "hides first", "padding", "hides beyond the corner", "hides in the corner"],
)
def test_the_matrix_that_is_drawn_shows_what_the_mask_hides(cells, number, told):
    size = str(len(cells[0]))
    shape = ShapeText((str(len(cells)), size, size), ("", "", ""))
    card = MaskCard("m", "MASK", shape, MaskFacts("custom", 0.25, cells=cells), "", ())

    assert ["".join(row) for row in card.rows] == [row[:MOST] for row in cells[number][:MOST]]
    assert card.remark == f"hides 25% of its cells{told}"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("p.xx", "p..x"), ["may be read", "padding, hidden", "hidden"]),
        ((".fb", "..b"), ["may be read", "the future, hidden", "padding and future"]),
        ((".xx", "..x"), []),
        (("..p", "..p"), []),
    ],
)
def test_cells_that_hide_for_several_reasons_are_told_apart_below(rows, told):
    card = MaskCard(
        "m", "MASK", ShapeText(("1", "2", "3"), ("", "", "")), MaskFacts("custom", 0.5, cells=(rows,)), "", ()
    )
    canvas = Canvas(text_width)
    low = draw_masks(canvas, [card], 0.0, 500.0, 300.0)

    said = ["".join(run.text for run in line) for box in canvas.boxes for line in box.lines]
    assert [text for text in said if text in LETTERS.values()] == told
    assert [one.rows[0][0] for one in canvas.cells if one.kind == "legend"] == [
        letter for letter, text in LETTERS.items() if text in told
    ]
    assert all(low <= box.y for box in canvas.boxes)


def test_rows_that_hide_nothing_at_first_are_drawn_where_they_begin_to():
    cells = ("." * 97, "." * 53 + "p" * 44)
    shape, facts = (
        ShapeText(("2", "1", "97"), ("", "", "")),
        MaskFacts("padding", 0.23, cells=tuple((row,) for row in cells)),
    )
    card = MaskCard("m", "MASK", shape, facts, "", ())

    assert card.remark.endswith("; keys 42–65 of 97")
    assert ["".join(row) for row in card.rows] == [row[41:65] for row in cells]


def test_rows_of_which_the_first_keys_hide_some_are_drawn_from_these_on():
    cells = ("." * 13 + "p" * 18,)
    card = MaskCard("m", "MASK", ShapeText(("1", "31"), ("", "")), MaskFacts("padding", 0.58, cells=(cells,)), "", ())

    assert card.remark.endswith("; the first corner")
