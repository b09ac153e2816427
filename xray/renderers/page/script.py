"""The page's scripts, written as modules with imports and exports, as one script that imports nothing."""

import re
from functools import lru_cache

from xray.assets import read_template

MODULES = (
    "facts",
    "dom",
    "place",
    "sites",
    "view",
    "grid",
    "walk",
    "masks",
    "numbers",
    "attention",
    "chances",
    "nodes",
    "words",
    "tree",
    "opened",
    "flow",
    "flow_draw",
    "unfold",
    "anchor",
    "word_flight",
    "marks",
    "crumbs",
    "outline",
    "drawer",
    "minimap",
    "ask",
    "find",
    "ranks",
    "twin_tables",
    "twin_grids",
    "twins",
    "turns",
    "brush",
    "placing",
    "panes",
    "trail",
    "telling",
    "cells",
    "following",
    "step",
    "near",
    "moments_in",
    "moments_attention",
    "moments_out",
    "moments",
    "acts_in",
    "acts_attention",
    "acts_out",
    "show",
    "print",
    "main",
)
"""The modules in an order in which each comes after those that it imports; the last one is the page itself."""
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


@lru_cache(maxsize=1)
def write_script() -> str:
    """All modules in one script, each in a function of its own so that their names do not meet."""
    *parts, page = (read_template(f"page/{name}.js") for name in MODULES)
    scripts = [wrap_module(name, text) for name, text in zip(MODULES, parts, strict=False)]
    return "\n" + "\n".join((*scripts, bind_imports(page))).replace("</script", "<\\/script")


def wrap_module(name: str, text: str) -> str:
    """A module as a constant that holds its exports."""
    exports = ", ".join(found[2] for found in EXPORT.finditer(text))
    body = EXPORT.sub(r"\1 \2", bind_imports(text))
    return f"const in_{name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


def bind_imports(text: str) -> str:
    """A module's imports taken from the constants of the modules before it."""
    return IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = in_{found[2]};\n", text)
