"""The tutorial runs from top to bottom, in a folder where nothing is, shows pictures, and needs public names alone."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import xray
from xray.renderers.notebook import show_traces

TUTORIAL = json.loads((Path(__file__).parent.parent / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in TUTORIAL["cells"] if cell["cell_type"] == "code"]


def play(source, names):
    """Run a cell; what stands last in it, if that is a value."""
    *most, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        most, last = [*most, last], None
    exec(compile(ast.Module(most, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder in which the cells ran one after the other, the names they left behind, and what each one showed."""
    folder = tmp_path_factory.mktemp("tutorial")
    names = {"__name__": "tutorial"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.warns(UserWarning, match="no trained chatbot in runs/movie_qa here or above"):
            first = play(CODE[0], names)
        shown = [first, *(play(source, names) for source in CODE[1:])]
    return folder, names, shown


def test_the_notebook_is_stored_without_results():
    assert all(cell["outputs"] == [] for cell in TUTORIAL["cells"] if cell["cell_type"] == "code")
    assert (TUTORIAL["nbformat"], len({cell["id"] for cell in TUTORIAL["cells"]})) == (4, len(TUTORIAL["cells"]))


@pytest.mark.slow
def test_every_cell_runs_and_the_shapes_are_as_told(played):
    _, names, _ = played

    assert names["weighted"].outputs[0].shape == (8, 4, 10, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poster.svg", "page.html"])
def test_the_files_are_written(played, name):
    folder, _, _ = played

    assert (folder / name).stat().st_size > 10_000


@pytest.mark.slow
def test_what_stands_last_in_a_cell_shows_itself(played):
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
    shell = SimpleNamespace(display_formatter=formatters.DisplayFormatter())
    show_traces(shell)
    shown = {}
    for value in played[2]:
        found, _ = shell.display_formatter.format(value)
        shown[type(value).__name__] = set(found) - {"text/plain"}

    pictures = {name: forms for name, forms in shown.items() if forms}
    assert pictures == {
        "Run": {"image/svg+xml"},
        "Trace": {"image/svg+xml"},
        "Difference": {"image/svg+xml"},
        "Picture": {"image/svg+xml"},
        "Page": {"text/html"},
        "Anatomy": {"text/html"},
    }


def test_it_needs_public_names_alone():
    nodes = [node for source in CODE for node in ast.walk(ast.parse(source))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    inner = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module.startswith("xray")}
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "xray"
    }

    assert (imported, inner) == ({"xray", "torch"}, set())
    assert used <= set(xray.__all__)
