import re
import subprocess
import sys
from pathlib import Path

import pytest

from xray.errors import UsageError
from xray.ir.json_form import trace_to_json
from xray.renderers.sheet.paper import MOST_DOTS, PAPERS, check_dots, longest_side, paper_size
from xray.renderers.sheet.poster import draw_poster

STATUS = Path("/proc/self/status")
POINTS = {
    "a0": (2384, 3370),
    "a1": (1684, 2384),
    "a2": (1191, 1684),
    "a3": (842, 1191),
    "a4": (595, 842),
    "a5": (420, 595),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_papers_have_the_sizes_of_the_standard(paper):
    assert paper_size(paper) == pytest.approx(POINTS[paper], abs=0.6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("paper", PAPERS)
def test_an_svg_has_the_size_of_its_paper(training_trace, paper):
    width, height = re.search(
        r'width="(\d+)pt" height="(\d+)pt"', draw_poster(training_trace, "svg", paper=paper)
    ).groups()
    assert (int(width), int(height)) == pytest.approx(POINTS[paper], rel=0.005)


@pytest.mark.parametrize("paper", ["a0", "a4"])
def test_a_pdf_has_the_size_of_its_paper(training_trace, paper):
    drawn = draw_poster(training_trace, "pdf", paper=paper)
    box = re.search(rb"/MediaBox \[ 0 0 (\d+) (\d+) \]", drawn).groups()
    assert tuple(map(int, box)) == pytest.approx(POINTS[paper], rel=0.005)


def test_no_paper_means_a2(training_trace):
    assert draw_poster(training_trace, "svg") == draw_poster(training_trace, "svg", paper="a2")


def test_a_picture_has_the_dots_of_its_paper(training_trace):
    drawn = draw_poster(training_trace, "png", paper="a5", dpi=50)
    width, height = (int.from_bytes(drawn[place : place + 4], "big") for place in (16, 20))
    assert (width, height) == pytest.approx((291, 413), abs=2)


def test_a_picture_says_its_resolution(training_trace, tmp_path):
    from PIL import Image

    path = tmp_path / "poster.png"
    path.write_bytes(draw_poster(training_trace, "png", paper="a5", dpi=50))
    with Image.open(path) as image:
        image.load()
        assert image.info["dpi"] == pytest.approx((50, 50), abs=0.1)


def test_a_pdf_is_made_of_vectors_with_every_font_in_it(training_trace):
    drawn = draw_poster(training_trace, "pdf")
    assert b"/Subtype /Image" not in drawn
    assert drawn.count(b"/Type /FontDescriptor") == drawn.count(b"/FontFile2") >= 4


@pytest.mark.parametrize(("paper", "dpi"), [("a2", 300), ("a2", 600), ("a0", 300), ("a4", 600)])
def test_usual_resolutions_are_possible(paper, dpi):
    check_dots(paper, dpi)


def test_too_many_dots_are_refused_with_what_is_possible():
    message = r"^A0 at 600 dpi has 19,866 x 28,087 dots\. A PNG may have 150,000,000 in all\. Choose --dpi 310 or less"
    with pytest.raises(UsageError, match=message):
        check_dots("a0", 600)
    check_dots("a0", 310)


def test_an_unknown_paper_is_refused(training_trace):
    with pytest.raises(UsageError, match=r"^the paper 'a9' is unknown\. Choose a0, a1, a2, a3, a4 or a5\.$"):
        draw_poster(training_trace, "svg", paper="a9")  # type: ignore[call-overload]


def test_a_picture_without_dots_is_refused(training_trace):
    with pytest.raises(UsageError, match=r"^dpi=0 is out of range\."):
        draw_poster(training_trace, "png", dpi=0)


def test_a_poster_with_too_many_dots_is_not_begun(training_trace):
    with pytest.raises(UsageError, match="A1 at 600 dpi"):
        draw_poster(training_trace, "png", paper="a1", dpi=600)


def test_a_drawing_of_unknown_proportion_keeps_within_the_same_bound():
    assert (longest_side(150) * 150) ** 2 <= MOST_DOTS


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell the peak of a process")
@pytest.mark.slow
def test_a2_at_300_dpi_takes_less_than_300_megabytes(training_trace, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(training_trace))
    code = (
        "import sys; from pathlib import Path\n"
        "from xray.ir.files import read_trace_file; from xray.renderers.sheet.poster import draw_poster\n"
        "drawn = draw_poster(read_trace_file(Path(sys.argv[1])), 'png', dpi=300)\n"
        f"print(int.from_bytes(drawn[16:20], 'big'), open('{STATUS}').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    width, peak_kb = map(int, done.stdout.split())
    assert width == pytest.approx(4961, abs=10)
    assert peak_kb < 300_000
