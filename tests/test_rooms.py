"""The rooms of the house: imports point one way, and the paper side never needs torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import xray

PACKAGE = Path(xray.__file__).parent
BASE = {"errors", "config", "assets", "text", "scratch"}
MAY_IMPORT = {
    "errors": set(),
    "text": set(),
    "config": {"errors"},
    "assets": {"errors"},
    "scratch": {"errors", "text"},
    "ir": BASE,
    "data": BASE,
    "model": BASE,
    "learn": BASE | {"data", "model"},
    "capture": BASE | {"ir", "data", "model", "learn"},
    "sources": BASE | {"ir", "capture"},
    "story": BASE | {"ir"},
    "renderers": BASE | {"ir", "story"},
    "testing": BASE | {"ir", "story"},
    "cli": BASE | {"ir", "data", "model", "learn", "capture", "sources", "story", "renderers"},
}
HEAVY = {"torch", "datasets", "tokenizers", "safetensors"}


def modules_of(room):
    single = PACKAGE / f"{room}.py"
    return [single] if single.exists() else sorted((PACKAGE / room).rglob("*.py"))


def imported_names(path):
    """Every module that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def test_every_room_is_known():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert rooms - {"__init__", "__main__"} == set(MAY_IMPORT)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_point_one_way(room):
    allowed = MAY_IMPORT[room] | {room}
    wrong = [
        (path.name, name)
        for path in modules_of(room)
        for name in imported_names(path)
        if name.split(".")[0] == "xray" and [*name.split("."), "xray"][1] not in allowed
    ]

    assert wrong == []


@pytest.mark.parametrize("room", ["ir", "story", "renderers", *sorted(BASE)])
def test_the_paper_side_never_imports_torch(room):
    wrong = [
        (path.name, name) for path in modules_of(room) for name in imported_names(path) if name.split(".")[0] in HEAVY
    ]

    assert wrong == []


@pytest.mark.parametrize("room", sorted(BASE))
def test_the_base_needs_the_standard_library_only(room):
    """And msgspec, which is as light, where settings are checked."""
    names = {name.split(".")[0] for path in modules_of(room) for name in imported_names(path)}

    assert names <= set(sys.stdlib_module_names) | {"xray"} | ({"msgspec"} if room == "config" else set())


@pytest.mark.parametrize("statement", ["import xray", "import xray.cli.app", "from xray.ir import files"])
def test_importing_loads_nothing_heavy(statement):
    code = f"import sys; {statement}; print(sorted({HEAVY!r} & set(sys.modules)))"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


def test_no_public_function_shares_its_name_with_a_room():
    assert set(xray.__all__) & set(MAY_IMPORT) == set()
