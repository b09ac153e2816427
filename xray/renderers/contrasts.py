"""What of a theme cannot be read, or not be told apart, by every eye and on grey paper."""

from collections.abc import Iterator
from dataclasses import dataclass

from xray.renderers.themes import AXES, Theme
from xray.renderers.vision import VISIONS, Vision, contrast, distance

TEXT, GRAPHICS = 4.5, 3.0
"""The least contrast of text and of what is no text, as in WCAG 2.1, 1.4.3 and 1.4.11."""

APART = 15.0
"""How far colours that mean different things look from each other, where there is colour; on grey paper they are told
apart by their shape, by dashes and by words."""

ON_PAGE = ("training", "inference", "ribbon", "boundary", "leader", "card", "change", "failure")
ON_PANELS = ("encoder", "decoder", "inference_on_panel", "condition")
CELLS_ON_PAGE = ("visible", "padding", "future", "both", "hidden")
NODES_ON_PAGE = ("training", "inference", "station")
"""What stands on the page as a node, and ends where its fill or its outline does."""


@dataclass(frozen=True)
class Weakness:
    """Two colours that are too much alike: what for, seen by whom, what was measured and what is asked for."""

    pair: str
    vision: Vision
    found: float
    least: float
    is_contrast: bool = True

    @property
    def shortfall(self) -> float:
        """The share of what is asked for that was found."""
        return self.found / self.least

    @property
    def told(self) -> str:
        """As half a sentence."""
        seen = "" if self.vision == "full colour" else f" in {self.vision}"
        if self.is_contrast:
            return f"{self.pair}{seen}: contrast {self.found:.1f}:1, below {self.least:g}:1"
        return f"{self.pair}{seen}: {self.found:.0f} apart, below {self.least:g}"


def find_weaknesses(theme: Theme) -> tuple[Weakness, ...]:
    """Every pair of roles that is too much alike for some eye, the worst for most eyes first; none in a good theme."""
    found = [*weak_contrasts(theme), *weak_differences(theme)]
    return tuple(sorted(found, key=lambda one: (one.vision != "full colour", one.shortfall)))


def weak_contrasts(theme: Theme) -> Iterator[Weakness]:
    """Texts and graphics that do not stand out enough from what is behind them."""
    for pair, front, back, least in (*text_pairs(theme), *graphic_pairs(theme)):
        for vision in VISIONS:
            ratio = contrast(front, back, vision)
            if ratio < least:
                yield Weakness(pair, vision, ratio, least)


def weak_differences(theme: Theme) -> Iterator[Weakness]:
    """Colours of different meaning that look the same to somebody who sees colours."""
    for pair, one, other in different_pairs(theme):
        for vision in VISIONS:
            if vision != "greyscale" and (apart := distance(one, other, vision)) < APART:
                yield Weakness(pair, vision, apart, APART, is_contrast=False)


def text_pairs(theme: Theme) -> Iterator[tuple[str, str, str, float]]:
    """Every text with what it stands on."""
    for name, surface in theme.surfaces.items():
        for part, colour in (("text", surface.text), ("quiet text", surface.quiet)):
            yield f"{part} on {name}", colour, surface.fill, TEXT
        if name != "station":
            for axis in AXES:
                yield f"digits of {axis} on {name}", theme.axis_colour(axis, name), surface.fill, TEXT
    for name, fill in light_surfaces(theme):
        for role, colour in theme.accents_on_light.items():
            yield f"accent {role} on {name}", colour, fill, TEXT
    for name in ("page", "card"):
        for role, colour in theme.accents.items():
            yield f"accent {role} on {name}", colour, theme.surfaces[name].fill, TEXT


def graphic_pairs(theme: Theme) -> Iterator[tuple[str, str, str, float]]:
    """Lines, cells and nodes with what is behind them."""
    page = theme.surfaces["page"].fill
    for role in ON_PAGE:
        yield f"line {role} on page", theme.lines[role], page, GRAPHICS
    for name, fill in light_surfaces(theme):
        if "panel" in name:
            for role in ON_PANELS:
                yield f"line {role} on {name}", theme.lines[role], fill, GRAPHICS
    for role in CELLS_ON_PAGE:
        yield f"cell {role} on page", theme.cells[role], page, GRAPHICS
    for role in NODES_ON_PAGE:
        edge = max((theme.surfaces[role].fill, theme.surfaces[role].line), key=lambda colour: contrast(colour, page))
        yield f"node {role} on page", edge, page, GRAPHICS


def different_pairs(theme: Theme) -> Iterator[tuple[str, str, str]]:
    """Colours that mean different things and meet on the poster."""
    surfaces, lines, cells = theme.surfaces, theme.lines, theme.cells
    yield "encoder and decoder", surfaces["encoder"].fill, surfaces["decoder"].fill
    yield "encoder and inference", surfaces["encoder"].fill, surfaces["inference"].fill
    yield "decoder and inference", surfaces["decoder"].fill, surfaces["inference"].fill
    yield "lines training and inference", lines["training"], lines["inference"]
    yield "lines encoder and decoder", lines["encoder"], lines["decoder"]
    for one, other in (("visible", "padding"), ("visible", "future"), ("visible", "hidden"), ("padding", "future")):
        yield f"cells {one} and {other}", cells[one], cells[other]
    yield "cells weight_low and weight_high", cells["weight_low"], cells["weight_high"]


def light_surfaces(theme: Theme) -> Iterator[tuple[str, str]]:
    """The panels and ledgers, whose accents are a set of their own."""
    return ((name, one.fill) for name, one in theme.surfaces.items() if "panel" in name or "ledger" in name)
