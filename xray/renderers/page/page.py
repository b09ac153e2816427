"""The page of a trace: one HTML file that needs nothing from anywhere."""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from string import printable
from typing import Any

from jinja2 import Environment, StrictUndefined

from xray.assets import read_template
from xray.errors import DrawError
from xray.ir.trace import Trace
from xray.renderers.blocks.plans import Roles
from xray.renderers.fonts import font_face_css
from xray.renderers.page.data import pack_page
from xray.renderers.page.maps import Map, draw_maps
from xray.renderers.page.paint import list_colours
from xray.renderers.page.script import write_script
from xray.renderers.page.twins import pack_twins
from xray.renderers.page.values import LEVELS
from xray.renderers.themes import AXES, Theme, load_theme
from xray.story.blocks.opening import Choice
from xray.story.roles.listing import list_roles
from xray.text import show_controls

SHEETS = ("page", "map", "views", "cells", "near", "ranks", "show", "unfold", "tree", "twins", "screens", "print")
"""The page's style sheets, those that overrule others last."""
MOST_BYTES = 3_000_000
"""No page is larger than this, as long as its drawing leaves room; values are left out first."""

GZIP, AT_ONCE = 31, 2**18
"""What zlib calls the form of gzip; so many bytes are packed before it is seen whether there is still room."""


def draw_page(
    trace: Trace,
    *,
    theme: Theme | None = None,
    blocks: Choice | None = None,
    twins: Mapping[str, Trace] | None = None,
) -> str:
    """The page as HTML, in both themes; it begins in the given one, or in what the reader's system prefers.

    `blocks` chooses the layered drawing as the map, and how deep it goes. `twins` are other recordings of the same
    model, by name, each held beside this one.

    Raises:
        UsageError: a twin is of another model.
        DrawError: Graphviz cannot draw the map, or the drawing alone is larger than a page may be.
    """
    light = load_theme("light")
    dark = theme if theme is not None and theme.name != light.name else load_theme("dark")
    begins = "light" if theme is not None and theme.name == light.name else "auto"
    told = pack_twins(trace, twins or {})
    roles = list_roles(trace)
    maps = draw_maps(trace, dark, blocks, roles)
    drawing = maps[0].drawing
    sheets = (read_template(f"page/{name}.css") for name in SHEETS)
    style = "\n".join((write_colours(dark, light), write_fonts("".join(one.drawing for one in maps)), *sheets))
    script = write_script()
    parts = {
        "title": show_controls(trace.title),
        "theme": begins,
        "policy": write_policy(style, script),
        "style": style,
        "script": script,
        "map": drawing,
        "map_label": "The model. Plus and minus zoom, arrow keys go from node to node, Enter opens one.",
    }
    template = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        read_template("page/page.html")
    )
    room = MOST_BYTES - len(template.render(parts, facts="").encode())
    return template.render(parts, facts=pack_facts(trace, room, maps, roles, told))


def pack_facts(
    trace: Trace,
    room: int,
    maps: Sequence[Map] = (),
    roles: Roles | None = None,
    twins: Sequence[Mapping[str, Any]] = (),
) -> str:
    """What the page knows, compressed, with as many maps and values as there is room for.

    Raises:
        DrawError: there is not even room without values.
    """
    for shown in (maps, maps[:1]):
        for level in LEVELS:
            packed = pack_page(trace, level, shown, roles, twins)
            text = json.dumps(packed, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
            squeezed = squeeze(text.encode(), room // 4 * 3)
            if squeezed is not None:
                return b64encode(squeezed).decode()
    raise DrawError(f"the page would have more than {MOST_BYTES:,} bytes. Trace fewer turns, or fewer passes.")


def squeeze(data: bytes, most: int) -> bytes | None:
    """The data as gzip packs them; None as soon as those are more than so many bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, GZIP)
    packed = bytearray()
    for start in range(0, len(data), AT_ONCE):
        packed += packer.compress(data[start : start + AT_ONCE])
        if len(packed) > most:
            return None
    packed += packer.flush()
    return bytes(packed) if len(packed) <= most else None


def write_policy(style: str, script: str) -> str:
    """What the page may do: run its own script, use its own style and fonts, and nothing else."""
    return (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def write_colours(dark: Theme, light: Theme) -> str:
    """Every colour as a variable, once for each theme."""
    return "\n".join(
        (
            block(":root", list_colours(dark), "dark"),
            block(':root[data-theme="light"]', list_colours(light), "light"),
            "@media (prefers-color-scheme: light){",
            block(':root[data-theme="auto"]', list_colours(light), "light"),
            "}",
            *(f".hue_{axis}{{color:var(--axis-{axis})}}" for axis in AXES),
        )
    )


def block(selector: str, colours: Mapping[str, str], scheme: str) -> str:
    listed = "".join(f"--{name}:{colour};" for name, colour in colours.items())
    return f"{selector}{{color-scheme:{scheme};{listed}}}"


def write_fonts(drawing: str) -> str:
    """The fonts that drawing and page are set in, cut down to the characters that they use."""
    latin = "".join(character for character in printable if character.isprintable()) + "×÷·…–—−→‹›“”‘’√∂Σε₁₂ᵀ≤≠∞□■▶❚"
    drawn = "".join(sorted(set(re.sub(r"<[^>]*>", "", drawing))))
    return font_face_css(
        {
            "regular": latin + drawn,
            "semibold": latin + drawn,
            "bold": latin + drawn,
            "black": "".join(sorted(set(drawn))),
        }
    )
