"""Colours of a page as variables: a drawing is made in codes, one for each role, and each code becomes its variable."""

import re
from dataclasses import replace

from xray.renderers.themes import AXES, Surface, Theme

PARTS = ("fill", "line", "text", "quiet")
PAINT = re.compile(r'(fill|stroke)="(#[0-9A-Fa-f]{6})"')
WEIGHT = "#fe"
"""Codes that begin so are attention weights, from #FE0000 for none to #FEFFFF for all."""


def list_colours(theme: Theme) -> dict[str, str]:
    """A theme's roles as variables: page-fill, accent-title, cell-padding, digit-encoder-heads, axis-heads ..."""
    surfaces = {f"{name}-{part}": getattr(surface, part) for name, surface in theme.surfaces.items() for part in PARTS}
    digits = {f"digit-{name}-{axis}": theme.axis_colour(axis, name) for name in theme.surfaces for axis in AXES}
    groups = {
        "accent": theme.accents,
        "on_light": theme.accents_on_light,
        "line": theme.lines,
        "cell": theme.cells,
        "axis": {axis: theme.axis_colour(axis, "card") for axis in AXES},
    }
    named = {f"{group}-{role}": colour for group, roles in groups.items() for role, colour in roles.items()}
    return {**surfaces, **digits, **named}


class Codes:
    """Gives every role a colour of its own, and knows afterwards which was which."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def code(self, name: str) -> str:
        """A new colour that stands for a variable."""
        colour = f"#{0x010000 + len(self.names):06X}"
        self.names[colour.lower()] = name
        return colour

    def decode(self, svg: str) -> str:
        """A drawing with every code turned into its variable."""

        def put(found: re.Match[str]) -> str:
            value = self.names.get(found[2].lower())
            if value is not None:
                return f'{found[1]}="var(--{value})"'
            if found[2].lower().startswith(WEIGHT):
                share = int(found[2][3:5], 16) / 255
                return f'{found[1]}="color-mix(in srgb,var(--cell-weight_high) {share:.1%},var(--cell-weight_low))"'
            return found[0]

        return PAINT.sub(put, svg)


def encode_theme(theme: Theme, codes: Codes) -> Theme:
    """The theme with a code in the place of every colour."""
    surfaces, axes = {}, {}
    for name, surface in theme.surfaces.items():
        kept = surface.digits == "on_light" and name not in ("page", "card")
        digits = surface.digits if kept else f"on_{name}"
        if digits not in axes:
            axes[digits] = {axis: codes.code(f"digit-{name}-{axis}") for axis in AXES}
        fill, line, text, quiet = (codes.code(f"{name}-{part}") for part in PARTS)
        surfaces[name] = Surface(fill, line, text, quiet, digits)
    cells = {role: codes.code(f"cell-{role}") for role in theme.cells}
    return replace(
        theme,
        surfaces=surfaces,
        axes=axes,
        accents={role: codes.code(f"accent-{role}") for role in theme.accents},
        accents_on_light={role: codes.code(f"on_light-{role}") for role in theme.accents_on_light},
        lines={role: codes.code(f"line-{role}") for role in theme.lines},
        cells={**cells, "weight_low": "#FE0000", "weight_high": "#FEFFFF"},
    )
