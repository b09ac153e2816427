"""A theme: which colour each role has. Read from TOML, checked whole before anything is drawn."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xray.assets import read_template, template_names
from xray.errors import ThemeError
from xray.text import show_controls

COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")

SURFACES: tuple[str, ...] = (
    *("page", "card", "encoder", "decoder", "training", "inference", "mask", "station", "change", "failure"),
    *("encoder_frame", "encoder_panel", "encoder_panel_two", "encoder_ledger"),
    *("decoder_frame", "decoder_panel", "decoder_panel_mid", "decoder_panel_two", "decoder_ledger"),
)
STAND_INS = {
    "op_weights": "encoder",
    "op_convolution": "training",
    "op_attention": "decoder",
    "op_normalisation": "encoder_panel_two",
    "op_activation": "decoder_ledger",
    "op_joining": "inference",
    "op_pooling": "encoder_ledger",
    "op_recurrent": "decoder_frame",
    "op_reshaping": "card",
    "op_chance": "card",
    "op_mask": "mask",
    "op_other": "encoder_frame",
    "op_block": "encoder_panel",
}
"""The surfaces of operations by their kind, in the drawing of any model, and which one a theme without them lends."""
SURFACES += (*STAND_INS,)
SURFACE_PARTS = ("fill", "line", "text", "quiet")
ACCENTS = ["title", "training", "inference", "forward", "encoder", "decoder", "station", "boundary", "warning"]
LIGHT_ACCENTS = ["training", "inference", "forward", "encoder", "decoder", "station"]
LINES = [
    *("training", "inference", "forward", "encoder", "decoder", "ribbon", "casing", "boundary"),
    *("leader", "card", "inference_on_panel", "change", "failure", "mark_casing"),
]
CELLS = ["visible", "padding", "future", "both", "hidden", "grid", "weight_low", "weight_high", "weight_hidden"]
AXES = ["batch", "heads", "src_len", "tgt_len", "d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab", "other"]


SAME_HUE = {"seq_len": "src_len", "vocab": "tgt_vocab"}
"""Words of other models, and whose hue they share."""


@dataclass(frozen=True)
class Surface:
    """Something that text stands on: its fill and outline, the text and the quieter text on it.

    `digits` names the set of axis colours that can be read on it.
    """

    fill: str
    line: str
    text: str
    quiet: str
    digits: str


@dataclass(frozen=True)
class Theme:
    """All roles with their colours, and the names of the fonts."""

    name: str
    font: str
    title_font: str
    surfaces: Mapping[str, Surface]
    accents: Mapping[str, str]
    accents_on_light: Mapping[str, str]
    lines: Mapping[str, str]
    cells: Mapping[str, str]
    axes: Mapping[str, Mapping[str, str]]

    def axis_colour(self, axis: str, surface: str) -> str:
        """The colour of an axis word's digits on the given surface; words without a hue of their own share one."""
        colours = self.axes[self.surfaces[surface].digits]
        return colours.get(SAME_HUE.get(axis, axis), colours["other"])


def load_theme(name: str = "dark") -> Theme:
    """One of the themes that come with X-Ray.

    Raises:
        ThemeError: there is no theme of that name.
    """
    known = template_names("themes", ".toml")
    if name not in known:
        raise ThemeError(f"no theme named {name!r}. Choose {' or '.join(known)}, or a theme file of your own (.toml).")
    return parse_theme(read_template(f"themes/{name}.toml"), f"themes/{name}.toml")


def parse_theme(text: str, where: str) -> Theme:
    """The theme in a TOML text; `where` is what an error calls it.

    Raises:
        ThemeError: the text is no TOML, a role is missing or unknown, or a value is no colour.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers too long and brackets too deep are no TOMLDecodeError
        raise ThemeError(
            f"{where} is not TOML: {show_controls(str(error))}. Start from a copy: xray theme dark -o my.toml"
        ) from None
    axes = section(table, "axis", where)
    return Theme(
        name=word(table, "name", where),
        font=word(table, "font", where),
        title_font=word(table, "title_font", where),
        surfaces=read_surfaces(section(table, "surface", where), axes, where),
        accents=read_colours(section(table, "accent", where), ACCENTS, f"{where} [accent]"),
        accents_on_light=read_colours(
            section(table, "accent_on_light", where), LIGHT_ACCENTS, f"{where} [accent_on_light]"
        ),
        lines=read_colours(section(table, "line", where), LINES, f"{where} [line]"),
        cells=read_colours(section(table, "cell", where), CELLS, f"{where} [cell]"),
        axes={name: read_colours(section(axes, name, where), AXES, f"{where} [axis.{name}]") for name in axes},
    )


def read_surfaces(table: Mapping[str, Any], axes: Mapping[str, Any], where: str) -> dict[str, Surface]:
    lent = {name: table[other] for name, other in STAND_INS.items() if other in table}
    table = {**lent, **table}
    check_roles(table, SURFACES, f"{where} [surface]")
    surfaces = {}
    for name in SURFACES:
        place = f"{where} [surface] {name}"
        entry = section(table, name, f"{where} [surface]")
        colours = read_colours({key: value for key, value in entry.items() if key != "digits"}, SURFACE_PARTS, place)
        digits = word(entry, "digits", place)
        if digits not in axes:
            raise ThemeError(f"{place}: digits={digits!r} is no set of axis colours. Choose {' or '.join(axes)}.")
        surfaces[name] = Surface(**colours, digits=digits)
    return surfaces


def read_colours(table: Mapping[str, Any], roles: list[str] | tuple[str, ...], where: str) -> dict[str, str]:
    check_roles(table, roles, where)
    for role in roles:
        value = table[role]
        if not isinstance(value, str) or not COLOUR.fullmatch(value):
            raise ThemeError(f'{where} {role}={value!r} is no colour. Write six hex digits, as in "#662D91".')
    return {role: table[role].upper() for role in roles}


def check_roles(table: Mapping[str, Any], roles: list[str] | tuple[str, ...], where: str) -> None:
    for role in roles:
        if role not in table:
            raise ThemeError(
                f"{where} misses the role {role!r}. Every theme names all roles; take it from: xray theme dark"
            )
    for role in table:
        if role not in roles:
            raise ThemeError(f"{where} names the unknown role {role!r}. Known roles: {', '.join(roles)}.")


def section(table: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = table.get(name)
    if not isinstance(value, dict):
        raise ThemeError(
            f"{where} misses the section {name!r}. Every theme has all sections; take it from: xray theme dark"
        )
    return value


def word(table: Mapping[str, Any], name: str, where: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not value:
        raise ThemeError(f"{where}: {name}={value!r} is no name. Write one in quotes.")
    return value
