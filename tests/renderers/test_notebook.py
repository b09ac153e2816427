"""In a notebook a trace shows its poster, and its tables where pictures are not possible."""

import html
import re
import subprocess
import sys
from dataclasses import replace

import pytest

import xray
from xray.renderers.notebook import Image, Page, Picture, draw_difference, draw_pass, draw_svg
from xray.renderers.page.page import draw_page

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import xray
assert not {"torch", "graphviz", "rich"} & set(__import__("sys").modules)
trace = xray.read_trace(PATH)
shown, _ = shell.display_formatter.format(trace)
print(sorted(shown))
print(shown["image/svg+xml"].lstrip()[:5], "T-100" in shown["image/svg+xml"])
print(shown["text/plain"].splitlines()[0].strip())
"""


def test_a_trace_shows_itself(tmp_path, training_trace):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from xray.ir.json_form import trace_to_json

    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(replace(training_trace, title="T-100")))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CELLS.replace("PATH", repr(str(path)))],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['image/svg+xml', 'text/plain']", "<?xml True", "T-100"]


ANATOMY = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import xray
shown, _ = shell.display_formatter.format(xray.anatomy(xray.read_trace(PATH)))
print(sorted(shown), "<table>" in shown["text/html"], "d_ff 128" in shown["text/html"])
print("torch" in __import__("sys").modules)
print(shown["text/plain"])
"""


def test_an_anatomy_shows_its_tables(tmp_path, training_trace):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from xray.ir.json_form import trace_to_json

    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(training_trace))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ANATOMY.replace("PATH", repr(str(path)))],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['text/html', 'text/plain'] True True",
        "False",
        "Anatomy(encoder 3×32, decoder 3×32; 190,678 parameters)",
    ]


def test_a_trace_is_no_wider_than_its_cell(training_trace):
    assert re.search(r'<svg style="max-width:100%;height:auto" width="\d+pt"', draw_svg(training_trace))


@pytest.mark.slow
def test_a_page_stands_in_the_notebook_apart_from_it(training_trace):
    page = xray.render(training_trace, "html")
    assert isinstance(page, Page)
    frame = page._repr_html_()
    inner = re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe>', frame)[1]

    assert html.unescape(inner) == page == draw_page(training_trace)


@pytest.mark.slow
def test_pictures_of_a_trace_show_themselves(training_trace):
    picture, dots = xray.render(training_trace, "svg"), xray.render(training_trace, "png", dpi=20)

    assert isinstance(picture, Picture)
    assert isinstance(dots, Image)
    assert picture._repr_svg_() == draw_svg(training_trace)
    assert dots._repr_png_() == dots


def test_a_pass_alone_has_a_picture(training_trace):
    assert draw_pass(training_trace.passes[0]).count("<g ") > 100


def test_a_difference_shows_what_changed(training_trace):
    first = training_trace.passes[0]
    fewer = replace(
        training_trace, passes=(replace(first, steps=tuple(one for one in first.steps if one.op != "relu")),)
    )
    difference = xray.diff(fewer, training_trace)

    assert "STEPS CHANGED" in draw_difference(difference)
    assert draw_difference(xray.diff(fewer, fewer)) is None


def test_what_is_shown_in_one_line_is_short(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.scores#0"]
    things = (
        training_trace,
        training_trace.passes[0],
        step,
        step.outputs[0],
        xray.diff(training_trace, training_trace),
    )

    assert [repr(thing) for thing in things] == [
        f"Trace({training_trace.title!r}, 1 pass, {len(training_trace.steps)} steps)",
        f"Pass('training', {len(training_trace.steps)} steps)",
        f"Step({step.id!r}, 'matmul', [(8, 4, 10, 8), (8, 4, 8, 10)] -> [(8, 4, 10, 10)])",
        "TensorRecord('out', (8, 4, 10, 10), ('batch', 'heads', 'src_len', 'src_len'), 'float32', 'activation')",
        "Difference(0 changes)",
    ]


def test_the_steps_of_a_trace_are_a_sequence(both_trace):
    assert both_trace.steps[-1] == both_trace.passes[-1].steps[-1]
    assert len(both_trace.steps) == sum(len(one.steps) for one in both_trace.passes)
    assert list(both_trace.steps) == list(both_trace.steps)
