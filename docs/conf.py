"""How the site is built from these pages: sphinx-build -W docs site."""

import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
from making import FROM_ROOT, list_files, take_from_root, write_commands, write_gallery  # noqa: E402  # a neighbour, found once its folder is on the path

PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MADE = {"reference/commands": write_commands, "gallery": write_gallery, "explanation/architecture": list_files}

project = "X-Ray"
author = PROJECT["authors"][0]["name"]
version = release = PROJECT["version"]
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
default_role = "code"  # docstrings write `names` as everything else here does
napoleon_custom_sections = ["Shapes"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "X-Ray"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_search_summary = html_copy_source = html_show_sourcelink = html_show_sphinx = html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#662D91", "color-brand-content": "#662D91"},
    "dark_css_variables": {"color-brand-primary": "#D9B8EE", "color-brand-content": "#D9B8EE"},
}


def make_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Make the pages that are made, and show the names of the files that a page has its reader write."""
    folder, _, page = name.rpartition("/")
    if folder == "reference" and page in FROM_ROOT:
        source[0] = take_from_root(page)
    elif name in MADE:
        source[0] = MADE[name](source[0])
    source[0] = re.sub(r'^```(\w+) title="(.+)"$', r"```{code-block} \1\n:caption: \2", source[0], flags=re.MULTILINE)


def widen_pictures(app: Sphinx, page: nodes.document) -> None:
    """Let every picture fill its column, and open whole when it is clicked."""
    for picture in page.findall(nodes.image):
        picture["width"] = "100%"


def shorten_defaults(*found: str) -> tuple[str, str]:
    """A signature, and what is returned, with dots for a default that is made anew each time."""
    *_, signature, returned = found
    return signature and signature.replace("<factory>", "..."), returned


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", make_page)
    app.connect("doctree-read", widen_pictures)
    app.connect("autodoc-process-signature", shorten_defaults)
