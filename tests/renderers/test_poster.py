import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from changed_traces import respell
from drawn import overlapping_texts, read_drawing
from poster_cases import CASES, OTHERS, make_case
from recorded import recorded

from xray.renderers.sheet.poster import draw_poster
from xray.renderers.themes import load_theme

A2 = (1191, 1684)
QUICK = (
    "both",
    "inference",
    "the paper's sizes",
    "length 1",
    "other heads",
    "head fails",
    "T5, inference",
    "GPT-2 writes",
)
DRAWN = [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in (*CASES, *OTHERS)]
"""Every case; a few of each kind are drawn in the fast tier."""

HOSTILE = (
    "<script>alert(1)</script>",
    '"];',
    "&",
    "😀🚀",
    "שלום",
    "\x00\x1b[31m",
    "\ufffe",
    "a" * 60,
    "\\N\\G",
    "}{|",
    "]]>",
)


pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture(scope="module", params=DRAWN)
def drawing(request):
    """The poster of a case, as it can be read back; drawn once for all that is asked of it."""
    trace, options = make_case(request.param)
    return read_drawing(draw_poster(trace, "svg", **options))


@pytest.fixture(scope="module")
def hostile_svg():
    return draw_poster(respell(recorded("one layer"), HOSTILE), "svg")


@pytest.mark.sampled(3)
def test_no_two_texts_overlap(drawing):
    assert overlapping_texts(drawing) == []


def test_every_text_lies_within_its_box(drawing):
    owned = [text for text in drawing.texts if text.owner in drawing.shapes]
    assert [text.text for text in owned if not drawing.shapes[text.owner].holds(text)] == []


def test_remarks_keep_clear_of_the_boxes(drawing):
    free = [text for text in drawing.texts if text.text.strip() and text.owner not in drawing.shapes]
    assert [text.text for text in free if any(text.overlaps(shape) for shape in drawing.shapes.values())] == []


def test_nothing_leaves_the_page(drawing):
    things = (*drawing.texts, *drawing.shapes.values())
    assert [thing for thing in things if not drawing.page.holds(thing)] == []


def test_the_smallest_text_reads_at_a2(drawing):
    scale = max(A2) / max(drawing.page.right, drawing.page.bottom)
    assert min(text.size for text in drawing.texts) * scale >= 8


def test_the_page_has_the_proportion_of_a_paper(drawing):
    page = drawing.page
    assert max(page.bottom / page.right, page.right / page.bottom) == pytest.approx(2**0.5, rel=0.03)


def test_the_same_trace_gives_the_same_svg(both_trace):
    assert draw_poster(both_trace, "svg") == draw_poster(both_trace, "svg")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["png", "pdf"])
def test_the_same_trace_gives_the_same_bytes(training_trace, form):
    assert draw_poster(training_trace, form, dpi=30) == draw_poster(training_trace, form, dpi=30)


def test_the_picture_is_as_fine_as_asked(training_trace):
    def width(dpi):
        return int.from_bytes(draw_poster(training_trace, "png", dpi=dpi)[16:20], "big")

    assert width(60) == pytest.approx(2 * width(30), abs=2)


def test_the_pdf_carries_its_fonts(training_trace):
    drawn = draw_poster(training_trace, "pdf")
    assert drawn.startswith(b"%PDF")
    assert b"SourceSansPro-Bold" in drawn


@pytest.mark.slow
def test_a_fresh_process_draws_the_same_and_says_nothing(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tests'); from recorded import recorded; "
        "from xray.renderers.sheet.poster import draw_poster; from hashlib import sha256; "
        "print(sha256(draw_poster(recorded('one layer'), 'svg').encode()).hexdigest())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(2)]
    assert {run.stderr for run in runs} == {""}
    assert runs[0].stdout == runs[1].stdout != ""


def test_the_svg_is_well_formed_and_described(both_trace):
    root = ElementTree.fromstring(draw_poster(both_trace, "svg"))
    assert root[0].text == both_trace.title
    assert "encoder: 3 layers of width 32, decoder: 3 layers of width 32" in root[1].text


def test_the_svg_refers_to_nothing_outside_it(both_trace):
    svg = draw_poster(both_trace, "svg")
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"""\w+://[^"'\s)<]*""", svg)) == names
    assert not re.search(r"(?:href|src)=|@import|url\((?!data:font/ttf;base64,)", svg)


def test_text_stays_text(both_trace):
    root = ElementTree.fromstring(draw_poster(both_trace, "svg"))
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"SCORES Q·K", "batch×heads×src_len×src_len", "CROSS-ENTROPY"} <= texts


def test_the_svg_of_the_default_poster_stays_light(both_trace):
    assert len(draw_poster(both_trace, "svg").encode()) < 450_000


def test_the_svg_brings_its_fonts(both_trace):
    svg = draw_poster(both_trace, "svg")
    assert svg.count("@font-face") == 4


def test_tooltips_tell_path_shapes_axes_and_place(training_trace):
    titles = "\n".join(re.findall("<title>(.*?)</title>", draw_poster(training_trace, "svg")))
    assert (
        "decoder.layers.0.cross_attention.scores&#10;left 8×4×14×8 (batch × heads × tgt_len × d_k), "
        "right 8×4×8×10 (batch × heads × d_k × src_len) → out 8×4×14×10 (batch × heads × tgt_len × src_len)"
    ) in titles
    assert "xray/model/attention.py:" in titles


def test_nodes_have_the_ids_of_their_steps(training_trace):
    assert 'id="training/decoder.layers.0.self_attention.softmax#0"' in draw_poster(training_trace, "svg")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("word", [word for word in HOSTILE if word.isprintable() and len(word) < 40])
def test_hostile_words_appear_as_they_are(hostile_svg, word):
    root = ElementTree.fromstring(hostile_svg)
    texts = " ".join("".join(text.itertext()) for text in root.iter() if text.tag.endswith("}text"))
    assert word in texts


def test_hostile_words_are_never_markup(hostile_svg):
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(hostile_svg).iter()}
    assert tags <= {"svg", "title", "desc", "style", "g", "path", "polygon", "ellipse", "text", "polyline"}


def test_characters_that_xml_forbids_are_spelt_out(hostile_svg):
    assert "\\x00\\x1b[31m" in hostile_svg


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["png", "pdf"])
def test_hostile_words_can_be_painted(form):
    assert len(draw_poster(respell(recorded("one layer, inference"), HOSTILE), form, dpi=30)) > 10_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["svg", "dot", "pdf"])
def test_a_hostile_title_does_no_harm(training_trace, form):
    hostile = replace(training_trace, title='</title><script>\x00\\N"];')
    assert len(draw_poster(hostile, form)) > 10_000


def test_a_hostile_title_is_shown_as_it_is(training_trace):
    svg = draw_poster(replace(training_trace, title="</title><script>\x00"), "svg")
    assert ElementTree.fromstring(svg)[0].text == "</title><script>\\x00"


def test_hostile_words_do_not_overlap(hostile_svg):
    assert overlapping_texts(read_drawing(hostile_svg)) == []


def test_the_light_theme_has_a_white_page(training_trace):
    assert 'fill="#ffffff"' in draw_poster(training_trace, "svg", theme=load_theme("light"))[:60_000]


def test_dot_is_text_that_graphviz_reads(training_trace):
    import pygraphviz

    graph = pygraphviz.AGraph(string=draw_poster(training_trace, "dot"))
    assert graph.has_node("training/decoder.layers.0.cross_attention.scores#0")


def test_nothing_is_said_while_drawing(both_trace, capfd):
    draw_poster(both_trace, "svg")
    assert capfd.readouterr() == ("", "")
