"""A PDF on several sheets of a smaller paper, to be cut and glued together: a poster from a printer at home."""

from dataclasses import dataclass
from io import BytesIO
from itertools import product
from math import ceil
from typing import TYPE_CHECKING

from xray.errors import DrawError
from xray.renderers.sheet.paper import MILLIMETRES_PER_INCH, POINTS_PER_INCH, Paper, paper_size

if TYPE_CHECKING:
    from pypdf import PageObject, PdfWriter
    from pypdf.generic import StreamObject

MARGIN = 8 / MILLIMETRES_PER_INCH * POINTS_PER_INCH
"""What a sheet keeps white at each edge: printers do not reach it, and it is what the next sheet is glued on."""

LEAST_SCALE = 0.9
"""A picture may become so much smaller if that saves sheets: four of A4 then make an A2."""

MOST_SHEETS = 400
MARK, TEXT = 14.0, 7
"""How long the marks are along which the sheets are cut, and how large the letters in the margin."""

FONT = {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica"}
"""The letters in the margin; every printer and viewer has them."""


@dataclass(frozen=True)
class Grid:
    """How a picture lies on sheets: their size in points, how many beside and above each other, and its scale.

    `left` and `bottom` is where it begins on what all sheets show together.
    """

    width: float
    height: float
    columns: int
    rows: int
    scale: float
    left: float
    bottom: float

    @property
    def inner(self) -> tuple[float, float]:
        """How much of the picture a sheet shows."""
        return self.width - 2 * MARGIN, self.height - 2 * MARGIN


def choose_grid(width: float, height: float, paper: Paper) -> Grid:
    """The fewest sheets, upright or not, on which a picture of that size keeps at least 90 % of it; then the largest.

    Raises:
        DrawError: they would be too many.
    """
    short, long = paper_size(paper)
    found = []
    for wide, high in ((short, long), (long, short)):
        across, up = wide - 2 * MARGIN, high - 2 * MARGIN
        columns, rows = ceil(LEAST_SCALE * width / across - 1e-9), ceil(LEAST_SCALE * height / up - 1e-9)
        scale = min(1.0, columns * across / width, rows * up / height)
        left, bottom = (columns * across - scale * width) / 2, (rows * up - scale * height) / 2
        found.append(Grid(wide, high, columns, rows, scale, left, bottom))
    best = min(found, key=lambda grid: (grid.columns * grid.rows, -grid.scale))
    count = best.columns * best.rows
    if count > MOST_SHEETS:
        raise DrawError(
            f"this picture takes {count:,} sheets of {paper.upper()}. Choose a smaller --paper, or larger sheets."
        )
    return best


def cut_in_sheets(pdf: bytes, paper: Paper) -> tuple[bytes, int]:
    """A PDF of one page as one with a page for each sheet, row by row from the top, and how many these are.

    Raises:
        DrawError: the sheets would be too many.
    """
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import DictionaryObject, NameObject

    reader = PdfReader(BytesIO(pdf))
    page = reader.pages[0]
    grid = choose_grid(float(page.mediabox.width), float(page.mediabox.height), paper)
    writer = PdfWriter()
    drawing = writer._add_object(make_form(page, writer))
    font = DictionaryObject({NameObject(f"/{key}"): NameObject(f"/{value}") for key, value in FONT.items()})
    letters = writer._add_object(font)
    for row, column in product(range(grid.rows), range(grid.columns)):
        sheet = writer.add_blank_page(grid.width, grid.height)
        sheet[NameObject("/Resources")] = DictionaryObject(
            {
                NameObject("/XObject"): DictionaryObject({NameObject("/Drawing"): drawing}),
                NameObject("/Font"): DictionaryObject({NameObject("/Letters"): letters}),
            }
        )
        sheet[NameObject("/Contents")] = writer._add_object(make_stream(write_sheet(grid, row, column)))
    producer = reader.metadata.producer if reader.metadata is not None else None
    writer.add_metadata({"/Producer": producer or ""})
    result = BytesIO()
    writer.write(result)
    return result.getvalue(), grid.columns * grid.rows


def make_form(page: "PageObject", writer: "PdfWriter") -> "StreamObject":
    """A page as a drawing that others can show, with all that it needs."""
    from pypdf.generic import NameObject

    contents = page.get_contents()
    form = make_stream(b"" if contents is None else contents.get_data())
    form[NameObject("/Type")], form[NameObject("/Subtype")] = NameObject("/XObject"), NameObject("/Form")
    form[NameObject("/BBox")] = page.mediabox.clone(writer)
    for name in ("/Resources", "/Group"):
        if name in page:
            form[NameObject(name)] = page[name].clone(writer)
    return form


def make_stream(data: bytes) -> "StreamObject":
    from pypdf.generic import StreamObject

    stream = StreamObject()
    stream.set_data(data)
    return stream.flate_encode()


def write_sheet(grid: Grid, row: int, column: int) -> bytes:
    """What is painted on one sheet: its part of the drawing, marks at its corners, and where it belongs."""
    wide, high = grid.inner
    shift_x = MARGIN + grid.left - column * wide
    shift_y = MARGIN + grid.bottom - (grid.rows - 1 - row) * high
    lines = [
        f"q {MARGIN:.3f} {MARGIN:.3f} {wide:.3f} {high:.3f} re W n",
        f"{grid.scale:.6f} 0 0 {grid.scale:.6f} {shift_x:.3f} {shift_y:.3f} cm /Drawing Do Q",
        "0.4 w 0.5 G",
    ]
    for x, y in product((MARGIN, MARGIN + wide), (MARGIN, MARGIN + high)):
        outward_x, outward_y = (-MARK if side == MARGIN else MARK for side in (x, y))
        lines += [
            f"{x:.3f} {y:.3f} m {x + outward_x:.3f} {y:.3f} l S",
            f"{x:.3f} {y:.3f} m {x:.3f} {y + outward_y:.3f} l S",
        ]
    number = row * grid.columns + column + 1
    told = (
        f"sheet {number} of {grid.rows * grid.columns}: row {row + 1} from the top, column {column + 1} from the left"
    )
    lines.append(f"BT /Letters {TEXT} Tf 0.4 g {MARGIN + 2 * MARK:.3f} {MARGIN / 2 - 2:.3f} Td ({told}) Tj ET")
    return "\n".join(lines).encode("ascii")
