"""Hostile words, names, paths and titles in a trace, through every output: parsed back, that text and nothing else."""

import gzip
import json
import re
import subprocess
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from itertools import cycle
from shutil import which
from xml.etree import ElementTree

import pygraphviz
import pytest
from trust.hostile import CORPUS, SHORT, shown
from trust.outcomes import assert_plain

from xray import render
from xray.config import SPECIAL_TOKENS
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED_TAGS = {
    "svg",
    "g",
    "title",
    "desc",
    "polygon",
    "ellipse",
    "path",
    "text",
    "tspan",
    "polyline",
    "a",
    "style",
    "defs",
}


def poison(trace, texts):
    """The trace of a chatbot in which every word, class, place and setting is one of the texts, each in turn."""
    turn = cycle(texts)

    def words(rows):
        return tuple(tuple(word if word in SPECIAL_TOKENS else next(turn) for word in row) for row in rows)

    def step(one):
        return replace(one, module=next(turn), location=next(turn), settings={**one.settings, "note": next(turn)})

    passes = tuple(
        replace(
            one,
            tokens={name: words(rows) for name, rows in one.tokens.items()},
            steps=tuple(step(each) for each in one.steps),
        )
        for one in trace.passes
    )
    whole = " ".join(texts)
    config = {**trace.config, "question": whole, "answer": whole, "run": whole, "device": whole, "torch": whole}
    return replace(trace, title=whole, config=config, passes=passes)


def foreign(texts):
    """A trace of a model that is not ours, with a block and a step for each text, in which every name is that text."""
    steps, source = [], None
    for number, text in enumerate(texts):
        made = TensorRecord(text, (2, 3), (text, text), text, text, "activation")
        read = replace(made, source=source)
        block = Step(
            id=f"{text}#{number}",
            path=text,
            call=number,
            op=text,
            module=text,
            parent=None,
            depth=0,
            layer=None,
            params=5,
            location=text,
            inputs=(read,),
            outputs=(made,),
            settings={text: text},
            error=text if number + 1 == len(texts) else None,
        )
        inner = replace(
            block, id=f"{text}.{text}#{number}", path=f"{text}.{text}", parent=block.id, depth=1, error=None
        )
        steps += [block, inner]
        source = inner.id
    one = Pass("forward", 0, {text: ((text, text),) for text in texts}, tuple(steps))
    return Trace(" ".join(texts), dict.fromkeys(texts, 3), {text: text for text in texts}, (one,))


LONG = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("chatbot, long", "foreign, long")]


@pytest.fixture(params=["chatbot", "foreign", *LONG], scope="module")
def poisoned(request, small_trace):
    kind, _, long = request.param.partition(", ")
    texts = [CORPUS["long"], CORPUS["long words"]] if long else list(SHORT.values())
    return poison(small_trace, texts) if kind == "chatbot" else foreign(texts)


@pytest.fixture(scope="module")
def page(poisoned):
    """The page of each of them."""
    return render(poisoned, "html")


def texts_of(root):
    return ["".join(element.itertext()) for element in root.iter() if element.tag in (f"{SVG}text", f"{SVG}title")]


def assert_harmless_svg(svg):
    """Plain shapes and text: no script, no handler, nothing fetched, no element that Graphviz does not draw."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        tag = element.tag.removeprefix(SVG)
        assert tag in ALLOWED_TAGS, tag
        for name, value in element.attrib.items():
            local = name.rpartition("}")[2].lower()
            assert not local.startswith("on"), name
            assert local != "href", value
            assert "url(" not in value or value.startswith("url(#"), value
        if tag == "style":
            assert re.findall(r"url\((?!data:font/)", element.text) == []
            assert "@import" not in element.text
    return root


def test_svg_is_drawn_of_shapes_and_text_alone(poisoned):
    root = assert_harmless_svg(render(poisoned, "svg"))
    for each in texts_of(root):
        assert_plain(each)


def test_dot_holds_no_node_of_theirs(poisoned):
    graph = pygraphviz.AGraph(string=render(poisoned, "dot"))
    assert {"evil", "x", "b", "label", "a"} & set(graph.nodes()) == set()
    for node in graph.nodes():
        assert {name for name in node.attr.to_dict() if name.lower() in FETCHING} == set()


FETCHING = {"url", "href", "image", "edgehref", "labelhref", "headurl", "tailurl", "edgeurl", "target", "stylesheet"}


def test_json_comes_back_as_it_was(poisoned):
    told = trace_to_json(poisoned)
    assert trace_to_json(trace_from_json(told)) == told
    assert CORPUS["half"] in poisoned.title or trace_from_json(told) == poisoned


@pytest.mark.sampled(3)
@pytest.mark.parametrize("width", [80, 20])
def test_tables_obey_nothing(poisoned, width):
    from xray.renderers.table.table import draw_tables

    assert_plain(draw_tables(poisoned, width=width))


STYLING = re.compile(r"\x1b\[[0-9;]*m")


def test_coloured_tables_hold_our_styling_alone(poisoned):
    from xray.renderers.table.table import draw_tables

    assert_plain(STYLING.sub("", draw_tables(poisoned, width=80, colour="truecolor")))
    assert "\x1b[31mred" not in draw_tables(poisoned, width=80, colour=False)


class Tags(HTMLParser):
    """The elements of a page, their attributes, and the text in its title."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.titles, self.inside = [], [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside in ("title", "h1"):
            self.titles.append(data)


def test_the_page_holds_its_own_scripts_alone(poisoned, page):
    tags = Tags()
    tags.feed(page)
    assert tags.tags.count("script") == 2
    assert {"img", "iframe", "object", "embed", "link", "base", "form"} & set(tags.tags) == set()
    assert [one for one in tags.attributes if one[1].startswith("on")] == []
    assert [
        one for one in tags.attributes if one[1] in ("src", "href", "xlink:href") and not one[2].startswith("#")
    ] == []
    assert shown(poisoned.title)[:40].rstrip() in "".join(tags.titles)
    assert_plain(page.replace("\t", " "))


def test_what_the_page_packs_is_json_without_markup(page):
    packed = re.search(r'<script type="application/octet-stream" id="facts">([^<]*)</script>', page)[1]
    assert json.loads(gzip.decompress(b64decode(packed)))


def test_pdf_holds_no_action(poisoned):
    pdf = render(poisoned, "pdf")
    actions = (b"/JavaScript", b"/JS", b"/Launch", b"/URI", b"/OpenAction", b"/EmbeddedFile", b"/AA")
    assert [action for action in actions if action in pdf] == []


@pytest.mark.skipif(which("pdftotext") is None, reason="pdftotext is not installed")
def test_pdf_text_is_the_text(small_trace, tmp_path):
    asked = r"Who(is)\Ripley) <b>?"
    (tmp_path / "poster.pdf").write_bytes(render(foreign([asked, "plain"]), "pdf"))
    told = subprocess.run(["pdftotext", "-raw", "poster.pdf", "-"], cwd=tmp_path, capture_output=True, check=True)
    assert asked.split()[0] in told.stdout.decode()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SHORT)
def test_every_name_is_shown_as_it_is(name):
    """In the drawing of a model of theirs, parsed: once more the text, controls spelt out."""
    text = SHORT[name]
    drawn = " ".join(texts_of(assert_harmless_svg(render(foreign([text, "plain"]), "svg"))))
    wanted = " ".join(shown(text).split())
    assert wanted[:12].strip() in " ".join(drawn.replace("\u200e", "").split())


@pytest.mark.parametrize("name", SHORT)
def test_every_name_stands_in_the_table(name):
    table = render(foreign([SHORT[name], "plain"]), "table")
    assert_plain(table)
    assert shown(SHORT[name])[:3].strip() in table
