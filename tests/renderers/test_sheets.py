"""A poster on several sheets: together they show all of it, each part once, at one scale."""

from io import BytesIO

import pytest
from pypdf import PdfReader
from recorded import recorded

from xray.errors import DrawError
from xray.renderers.sheet.paper import paper_size
from xray.renderers.sheet.poster import draw_poster
from xray.renderers.sheet.several_papers import LEAST_SCALE, MARGIN, choose_grid, cut_in_sheets

A2 = paper_size("a2")


@pytest.fixture(scope="module")
def whole():
    return draw_poster(recorded("one layer, training"), "pdf")


@pytest.fixture(scope="module")
def cut(whole):
    return cut_in_sheets(whole, "a4")


def pages_of(pdf):
    return PdfReader(BytesIO(pdf)).pages


@pytest.mark.parametrize(
    ("paper", "sheet", "count"),
    [("a2", "a4", 4), ("a2", "a3", 2), ("a1", "a4", 8), ("a0", "a4", 16), ("a4", "a4", 1), ("a5", "a4", 1)],
)
def test_a_paper_takes_as_many_sheets_as_it_was_folded_from(paper, sheet, count):
    grid = choose_grid(*paper_size(paper), sheet)

    assert grid.columns * grid.rows == count


@pytest.mark.parametrize("size", [A2, (100, 100), (3000, 200), (200, 3000), (1191, 1684), (842.1, 595.2)])
@pytest.mark.parametrize("sheet", ["a3", "a4", "a5"])
def test_the_whole_picture_lies_on_the_sheets(size, sheet):
    grid = choose_grid(size[0], size[1], sheet)
    across, up = grid.inner

    assert LEAST_SCALE - 1e-9 <= grid.scale <= 1
    assert 2 * grid.left + grid.scale * size[0] == pytest.approx(grid.columns * across)
    assert 2 * grid.bottom + grid.scale * size[1] == pytest.approx(grid.rows * up)
    assert min(grid.left, grid.bottom) > -1e-9


def test_a_picture_that_fits_on_one_sheet_keeps_its_size():
    assert choose_grid(300, 300, "a4").scale == 1


def test_too_many_sheets_are_refused():
    with pytest.raises(DrawError, match=r"^this picture takes [\d,]+ sheets of A5\. Choose a smaller --paper"):
        choose_grid(100_000, 100_000, "a5")


def test_each_sheet_is_a_page_of_that_paper(cut):
    pdf, count = cut

    assert [[round(float(side)) for side in page.mediabox[2:]] for page in pages_of(pdf)] == [[595, 842]] * count


def test_the_sheets_share_one_drawing(cut, whole):
    drawings = {page["/Resources"]["/XObject"].raw_get("/Drawing").idnum for page in pages_of(cut[0])}

    assert len(drawings) == 1
    assert len(cut[0]) < 1.2 * len(whole) + 10_000


def test_neighbours_go_on_where_the_sheet_before_ended(cut):
    shifts = [
        tuple(float(number) for number in page.get_contents().get_data().split(b" cm")[0].split()[-2:])
        for page in pages_of(cut[0])
    ]
    across, up = (side - 2 * MARGIN for side in paper_size("a4"))

    assert shifts[0][0] - shifts[1][0] == pytest.approx(across, abs=0.01)
    assert shifts[2][1] - shifts[0][1] == pytest.approx(up, abs=0.01)


@pytest.mark.slow
def test_each_sheet_says_where_it_belongs(cut):
    told = [page.extract_text().splitlines()[-1] for page in pages_of(cut[0])]

    assert told[2] == "sheet 3 of 4: row 2 from the top, column 1 from the left"
    assert len(set(told)) == 4


def test_the_same_poster_gives_the_same_sheets(whole, cut):
    assert cut_in_sheets(whole, "a4") == cut
