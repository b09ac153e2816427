"""Which of several matrices of a mask is drawn: one that shows what the mask hides, and the words say which."""

import pytest

from xray.ir.records import MaskFacts
from xray.story.cards.mask_pictures import MOST, MaskCard
from xray.story.shapes import ShapeText

SEEN, ROLLED = ("....",) * 4, ("..xx", "..xx", "xx..", "xx..")
PADDED, LARGE = ("...p",) * 4, ("." * (MOST + 2),) * (MOST + 2)
LATE = ("." * (MOST + 1) + "x",) * (MOST + 2)


@pytest.mark.parametrize(
    ("cells", "number", "told"),
    [
        ((SEEN, ROLLED, ROLLED), 1, "; number 2 of 3"),
        ((SEEN, SEEN), 0, ""),
        ((ROLLED, PADDED), 1, "; number 2 of 2"),
        ((LARGE, LATE), 0, "; the first corner"),
        ((LARGE, (LARGE[0].replace(".", "x", 1),) * (MOST + 2)), 1, "; number 2 of 2, the first corner"),
    ],
    ids=["hides", "hides nothing", "padding", "hides beyond the corner", "hides in the corner"],
)
def test_the_matrix_that_is_drawn_shows_what_the_mask_hides(cells, number, told):
    size = str(len(cells[0]))
    shape = ShapeText((str(len(cells)), size, size), ("", "", ""))
    card = MaskCard("m", "MASK", shape, MaskFacts("custom", 0.25, cells=cells), "", ())

    assert ["".join(row) for row in card.rows] == [row[:MOST] for row in cells[number][:MOST]]
    assert card.remark == f"hides by a rule of its own: 25% of its cells{told}"
