"""The site: built with warnings as errors, asking nothing of any network; every command and snippet in it is run."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec

import gallery
import pytest
import typer
from conftest import plain_environment
from documents import ROOT, SET_UP, Block, Reader, commands_of, read_blocks
from PIL import Image

import xray
from xray.cli.app import make_app

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
BLOCKS = {page: read_blocks((DOCS / page).read_text(encoding="utf-8")) for page in PAGES}
README = read_blocks((ROOT / "README.md").read_text(encoding="utf-8"))

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]])
def test_every_command_and_snippet_runs_and_says_what_is_shown(workplace, page):
    reader = Reader()

    for block in BLOCKS[page]:
        reader.follow(block)


def test_what_sets_up_is_what_the_readme_says():
    known = commands_of(README)
    said = [line for blocks in BLOCKS.values() for line in commands_of(blocks) if line.startswith(SET_UP)]

    assert said
    assert set(said) <= set(known)


# The site


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    if find_spec("sphinx") is None:
        pytest.skip("the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr
    return folder


class Outside(HTMLParser):
    """What a page loads by itself from somewhere else."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        is_loaded = tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "edit")
        for name in ("src", "href") if tag in ("script", "img", "iframe", "source") or is_loaded else ():
            if re.match(r"(https?:)?//", given.get(name) or ""):
                self.found.append((tag, given[name]))


def test_the_site_is_built_without_a_warning(site):
    assert {path.relative_to(site).as_posix() for path in site.rglob("*.html")} >= {
        page.replace(".md", ".html") for page in PAGES
    }


def test_no_page_asks_anything_of_a_network(site):
    found = {}
    for path in site.rglob("*.html"):
        outside = Outside()
        outside.feed(path.read_text(encoding="utf-8"))
        if outside.found:
            found[path.name] = outside.found

    assert found == {}


def test_no_style_sheet_asks_anything_of_a_network(site):
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))

    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)]*", sheets) == []


def test_the_reference_has_every_command_with_every_option(site):
    page = re.sub(r"<[^>]+>", "", (site / "reference" / "commands.html").read_text(encoding="utf-8"))
    commands = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]

    assert [name for name in commands if f"xray {name}" not in page] == []
    options = {option for command in commands.values() for one in command.params for option in one.opts}
    assert [option for option in options if option.startswith("-") and option not in page] == []


@pytest.mark.parametrize("name", xray.__all__)
def test_the_reference_has_every_public_name(site, name):
    pages = "".join((site / "reference" / f"{one}.html").read_text(encoding="utf-8") for one in ("python", "records"))

    assert any(f'id="{home}.{name}"' in pages for home in ("xray", xray.HOMES.get(name)))


# The gallery


def test_every_picture_of_the_gallery_is_there_and_no_other():
    assert {path.name for path in (DOCS / "pictures").iterdir()} == {one.file for one in gallery.PICTURES}


def test_the_pictures_are_small():
    assert sum(path.stat().st_size for path in (DOCS / "pictures").iterdir()) < 4_000_000


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda one: one.file)
def test_a_picture_shows_something(picture):
    with Image.open(DOCS / "pictures" / picture.file) as image:
        assert image.convert("L").getextrema()[1] - image.convert("L").getextrema()[0] > 100


OF_FAMILIES = [one for one in gallery.PICTURES if "examples/families/" in one.source]
OF_EXAMPLES = [one for one in gallery.PICTURES if "examples/" in one.source and one not in OF_FAMILIES]
OF_THE_CHATBOT = [one for one in gallery.PICTURES if "examples" not in one.source]
IN_PYTHON = [one for one in gallery.PICTURES if one.language == "python"]


def test_every_picture_has_a_recipe_that_is_tried():
    tried = (*OF_EXAMPLES, *OF_FAMILIES, *OF_THE_CHATBOT, *IN_PYTHON)

    assert len(tried) == len(gallery.PICTURES)


@pytest.mark.slow
@pytest.mark.parametrize("picture", OF_FAMILIES, ids=lambda one: one.file)
def test_a_recipe_of_a_family_draws_its_poster(workplace, picture):
    package = "diffusers" if "diffusers:" in picture.source else "transformers"
    pytest.importorskip(package, reason=f"{package} is not installed")
    recipe = picture.source.replace(".png", ".svg").replace("examples/", f"{ROOT}/examples/")

    Reader().follow(Block("console", f"{recipe} -q", "", "", 0))

    assert "WHAT THIS MODEL DOES ITS OWN WAY" in (workplace / recipe.split()[-1]).read_text(encoding="utf-8")


@pytest.mark.parametrize("picture", OF_THE_CHATBOT, ids=lambda one: one.file)
def test_a_recipe_draws(workplace, picture):
    recipe = picture.source.replace(".png", ".svg")

    Reader().follow(Block("console", recipe, "", "", 0))

    assert (workplace / recipe.split()[-1]).stat().st_size > 10_000


@pytest.mark.parametrize("picture", OF_EXAMPLES, ids=lambda one: one.file)
def test_a_recipe_of_an_example_is_that_in_its_own_words(picture):
    command = picture.source.split(" -o ")[0]
    script = command.split()[2].split(":")[0]

    assert f"{command} -o " in (ROOT / script).read_text(encoding="utf-8")


@pytest.mark.parametrize("picture", IN_PYTHON, ids=lambda one: one.file)
def test_a_recipe_in_python_draws(workplace, picture):
    reader = Reader()

    reader.follow(Block("python", picture.source, "", "", 0))

    assert reader.names["picture"].startswith(b"\x89PNG")


def test_every_example_hangs_in_the_gallery():
    shown = " ".join(one.source for one in gallery.PICTURES)
    examples = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem != "tiny_gpt")

    assert [name for name in examples if f"examples/{name}.py" not in shown] == []


def test_the_recording_of_the_page_moves_and_is_small():
    path = ROOT / "examples" / "page.webp"
    with Image.open(path) as recording:
        assert getattr(recording, "n_frames", 1) > 60
    assert path.stat().st_size < 2_000_000
    assert "examples/page.webp" in (ROOT / "README.md").read_text(encoding="utf-8")
