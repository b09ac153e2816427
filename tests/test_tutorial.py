"""The tutorial runs from top to bottom, in a folder where nothing is."""

import json
from pathlib import Path

import pytest

TUTORIAL = json.loads((Path(__file__).parent.parent / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in TUTORIAL["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder in which the cells ran one after the other, and the names they left behind."""
    folder = tmp_path_factory.mktemp("tutorial")
    names = {"__name__": "tutorial"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for number, source in enumerate(CODE, start=1):
            exec(compile(source, f"cell {number}", "exec"), names)
    return folder, names


def test_the_notebook_is_stored_without_results():
    assert all(cell["outputs"] == [] for cell in TUTORIAL["cells"] if cell["cell_type"] == "code")
    assert (TUTORIAL["nbformat"], len({cell["id"] for cell in TUTORIAL["cells"]})) == (4, len(TUTORIAL["cells"]))


def test_every_cell_runs_and_the_shapes_are_as_told(played):
    _, names = played

    assert names["weighted"].outputs[0].shape == (8, 4, 10, 8)


@pytest.mark.parametrize("name", ["attention.svg", "poster.svg", "page.html"])
def test_the_files_are_written(played, name):
    folder, _ = played

    assert (folder / name).stat().st_size > 10_000
