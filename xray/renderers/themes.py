"""A theme: which colour each role has. Read from TOML, checked whole before anything is drawn."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Annotated, Any

import msgspec

from xray.assets import read_template, template_names
from xray.errors import ThemeError
from xray.text import show_controls

Colour = Annotated[str, msgspec.Meta(pattern=r"^#[0-9A-Fa-f]{6}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1)]

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
ACCENTS = ["title", "training", "inference", "encoder", "decoder", "station", "boundary", "warning"]
LIGHT_ACCENTS = ["training", "inference", "encoder", "decoder", "station"]
LINES = [
    *("training", "inference", "encoder", "decoder", "ribbon", "casing", "boundary"),
    *("leader", "card", "inference_on_panel", "change", "failure", "mark_casing", "condition"),
]
LENT_LINES = {"condition": "ribbon"}
"""Lines that a theme may leave out, and which one it lends for each."""
CELLS = ["visible", "padding", "future", "both", "hidden", "grid", "weight_low", "weight_high", "weight_hidden"]
AXES = ["batch", "heads", "src_len", "tgt_len", "d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab", "other"]


def form_of(roles: Iterable[str], kind: Any = Colour, **more: Any) -> type[msgspec.Struct]:  # noqa: ANN401  # types
    """The form of a table that has these roles and no others."""
    fields = [*((role, kind) for role in roles), *more.items()]
    return msgspec.defstruct("Roles", fields, forbid_unknown_fields=True)


AXES_FORM = form_of(AXES)
THEME_FORM = msgspec.defstruct(
    "Theme",
    [
        *((name, Name) for name in ("name", "font", "title_font")),
        ("surface", form_of(SURFACES, form_of(SURFACE_PARTS, digits=Name))),
        ("accent", form_of(ACCENTS)),
        ("accent_on_light", form_of(LIGHT_ACCENTS)),
        ("line", form_of(LINES)),
        ("cell", form_of(CELLS)),
        ("axis", dict[str, dict[str, Any]]),
    ],
)
"""The form of a theme file, whose stand-ins are in their places; each of its sets of axis colours is an `AXES_FORM`."""

RULES = {
    "`object`": "is no table of roles. Take one from: xray theme dark",
    "regex": 'is no colour. Write six hex digits, as in "#662D91".',
    "`str`": "is no text. Write a colour or a name in quotes.",
}
"""What is wrong with a value, and the remedy, by what msgspec expected."""

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

    @property
    def is_light(self) -> bool:
        """Whether its page is light."""
        return is_light(self.surfaces["page"].fill)

    def axis_colour(self, axis: str, surface: str) -> str:
        """The colour of an axis word's digits on the given surface; words without a hue of their own share one."""
        colours = self.axes[self.surfaces[surface].digits]
        return colours.get(SAME_HUE.get(axis, axis), colours["other"])


def is_light(colour: str) -> bool:
    """Whether a colour is light to the eye."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue > 140


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
    surfaces: Any = table.get("surface")
    if isinstance(surfaces, dict):
        surfaces |= {name: surfaces[one] for name, one in STAND_INS.items() if name not in surfaces and one in surfaces}
    lines: Any = table.get("line")
    if isinstance(lines, dict):
        lines |= {name: lines[one] for name, one in LENT_LINES.items() if name not in lines and one in lines}
    check_form(table, THEME_FORM, where)
    for name, colours in table["axis"].items():
        check_form(colours, AXES_FORM, f"{where} [axis.{name}]")
    for name, surface in surfaces.items():
        if surface["digits"] not in table["axis"]:
            raise ThemeError(
                f"{where} [surface] {name} digits={surface['digits']!r} is no set of axis colours. "
                f"Choose {' or '.join(table['axis'])}."
            )
    return Theme(
        name=table["name"],
        font=table["font"],
        title_font=table["title_font"],
        surfaces={name: Surface(**in_capitals(surface, but="digits")) for name, surface in surfaces.items()},
        accents=in_capitals(table["accent"]),
        accents_on_light=in_capitals(table["accent_on_light"]),
        lines=in_capitals(table["line"]),
        cells=in_capitals(table["cell"]),
        axes={name: in_capitals(colours) for name, colours in table["axis"].items()},
    )


def check_form(table: Mapping[str, Any], form: type[msgspec.Struct], where: str) -> None:
    """Hold a table to its form.

    Raises:
        ThemeError: a role is missing or unknown, or a value is of another kind.
    """
    try:
        msgspec.convert(table, form)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        place = place.rstrip("`")
        if what.startswith("Object"):
            told = what.replace("Object missing required field", "misses").replace("Object contains", "has the")
            where += f" [{place}]" if place else ""
            told = f"{show_controls(told)}. Every theme names all roles and no others; take them from: xray theme dark"
        else:
            value = reduce(getitem, place.split("."), table)
            told = f"{place}={value!r} {next(rule for sign, rule in RULES.items() if sign in what)}"
        raise ThemeError(f"{where} {told}") from None


def in_capitals(colours: Mapping[str, str], but: str = "") -> dict[str, str]:
    return {role: colour if role == but else colour.upper() for role, colour in colours.items()}
