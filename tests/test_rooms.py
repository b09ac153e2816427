"""The rooms of the house: imports point one way, and the paper side never needs torch."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import xray

PACKAGE = Path(xray.__file__).parent
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
"""The rooms as the page on the architecture has them: name, side, what it holds, what it uses."""

SIDES = {room: side for room, side, _, _ in ROWS}
BASE = {room for room, side in SIDES.items() if side == "base"}
PAPER = {room for room, side in SIDES.items() if side in ("base", "waist", "paper")}
MAY_IMPORT = {
    room: set(re.findall(r"`(\w+)`", uses)) | (BASE if "the base" in uses else set()) for room, _, _, uses in ROWS
}
HEAVY = {"torch", "datasets", "tokenizers", "safetensors"}


def modules_of(room):
    single = PACKAGE / f"{room}.py"
    return [single] if single.exists() else sorted((PACKAGE / room).rglob("*.py"))


@cache
def imports_of(path):
    """The import statements of a file, wherever they stand."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]


def imported_names(path):
    """Every module that a file imports."""
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def describe(room):
    """The first sentence of a room."""
    place = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    told = ast.get_docstring(ast.parse(place.read_text(encoding="utf-8")))
    return re.match(r".*?(?=\.(\s|$))", " ".join(told.split()))[0]


def test_every_room_is_on_the_page_in_its_own_words():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    told = {room: words for room, _, words, _ in ROWS}
    assert told == {room: describe(room) for room in rooms - {"__init__", "__main__"}}


def test_every_room_within_a_room_is_told_in_its_own_words():
    told = dict(re.findall(r"^\| `(\w+/\w+)` \| ([^|]+) \|$", PAGE, flags=re.MULTILINE))

    rooms = {str(place.parent.relative_to(PACKAGE).as_posix()) for place in PACKAGE.glob("*/*/__init__.py")}
    assert told == {room: describe(room) for room in rooms}


@pytest.mark.parametrize(
    "room", sorted(place.parent for place in PACKAGE.glob("story/*/**/__init__.py")), ids=lambda room: room.name
)
def test_no_room_of_the_story_is_a_maze(room):
    assert len(list(room.glob("*.py"))) - 1 <= 15


@pytest.mark.parametrize(
    ("file", "place"),
    re.findall(r"^\| [^|]+ \| `((?:xray|templates)/[\w./]+)` \| `([^`]+)` \|$", PAGE, flags=re.MULTILINE),
)
def test_what_you_see_comes_from_where_the_page_says(file, place):
    assert place in (ROOT / file).read_text(encoding="utf-8")


def test_every_room_stands_in_the_hourglass():
    drawing, _ = re.findall(r"^```\{code-block\} text\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)

    assert [room for room in MAY_IMPORT if not re.search(rf"\b{room}\b", drawing)] == []


def test_no_arrow_leads_in_a_circle():
    left = dict(MAY_IMPORT)
    while free := [room for room, uses in left.items() if not uses & set(left)]:
        for room in free:
            del left[room]

    assert left == {}


def list_imports():
    """Every module with those that it imports, wherever the import stands."""
    modules = {str(path.relative_to(ROOT).with_suffix("")).replace("/", "."): path for path in PACKAGE.rglob("*.py")}
    for name, path in modules.items():
        imported = set()
        for node in imports_of(path):
            if isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        yield name, imported & set(modules)


def test_no_module_imports_itself_by_way_of_others():
    left = dict(list_imports())
    while free := [name for name, imported in left.items() if not imported & set(left)]:
        for name in free:
            del left[name]

    assert sorted(left) == []


def test_the_two_sides_meet_in_the_trace_alone():
    crossing = [
        (room, used)
        for room, uses in MAY_IMPORT.items()
        for used in uses
        if (SIDES[room], SIDES[used]) in {("paper", "torch"), ("torch", "paper"), ("waist", "torch"), ("base", "torch")}
    ]

    assert crossing == []


def test_ruff_refuses_the_torch_side_on_the_paper_side():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    torch_side = {room for room, side in SIDES.items() if side == "torch"}

    assert set(lint["flake8-tidy-imports"]["banned-api"]) == HEAVY | {f"xray.{room}" for room in torch_side}
    assert set(lint["flake8-tidy-imports"]["banned-module-level-imports"]) == HEAVY
    (spared,) = (glob for glob in lint["per-file-ignores"] if glob.startswith("xray/{"))
    assert set(re.findall(r"\w+", spared)) == {"xray", *torch_side}


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


@pytest.mark.parametrize("room", sorted(PAPER))
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
