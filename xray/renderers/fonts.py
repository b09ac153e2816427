"""The fonts that X-Ray brings along: found by Graphviz on every machine, measured, and cut down for an SVG."""

import os
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from unicodedata import category, east_asian_width
from xml.sax.saxutils import escape

import font_source_sans_pro
import uharfbuzz

from xray.renderers.engine import load_graphviz
from xray.scratch import scratch_folder
from xray.story.layout import Weight

FONT_FOLDER = Path(font_source_sans_pro.font_directory)
FILES: dict[Weight, str] = {
    "regular": "SourceSansPro-Regular.ttf",
    "semibold": "SourceSansPro-Semibold.ttf",
    "bold": "SourceSansPro-Bold.ttf",
    "black": "SourceSansPro-Black.ttf",
}
FAMILIES: dict[Weight, str] = {
    "regular": "Source Sans Pro",
    "semibold": "Source Sans Pro Semibold",
    "bold": "Source Sans Pro",
    "black": "Source Sans Pro Black",
}
SYSTEM_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "C:/Windows/Fonts",
    *map(os.path.expanduser, ("~/.local/share/fonts", "~/.fonts", "~/Library/Fonts")),
)
"""Where other scripts and emoji come from; our own family is always taken from the wheel."""

FONT_SUFFIXES = (".ttf", ".otf", ".ttc", ".otc")

FONT_ASCENT, FONT_DESCENT = 0.984, 0.273
"""How high and how deep a line of our fonts reaches, in ems."""

UNUSED_TABLES = ("GSUB", "GPOS", "GDEF", "DSIG", "BASE", "kern")
"""What a subset font does without: no ligatures and no kerning, so that a text is as wide as its letters."""

WIDE, NARROW = 1.05, 0.8
"""How wide a character that our fonts lack is taken to be, in ems: an emoji or a Chinese one, and any other."""

WITHOUT_WIDTH = ("Cf", "Mn", "Me")
"""Marks that sit on other letters, and those that only direct them."""


def text_width(text: str, size: float, weight: Weight = "regular") -> float:
    """How wide a text is, in points, by the font's own advances."""
    return advance_width(text, weight) * size / advance_widths(weight)[1]


@lru_cache(maxsize=2**16)
def advance_width(text: str, weight: Weight) -> float:
    """How wide a text is, in the units of its font; a poster asks for the same words again and again."""
    advances, units = advance_widths(weight)
    codes = map(ord, text)
    return sum(advances[code] if code in advances else lacking_width(code) * units for code in codes)


@lru_cache(maxsize=2**16)
def lacks_letters(text: str, weight: Weight = "regular") -> bool:
    """Whether our font has no glyph for some of the text, so that another one shows it."""
    known = advance_widths(weight)[0]
    return any(ord(character) not in known for character in text)


def find_missing(texts: Iterable[str]) -> str:
    """The characters of some texts that no font at hand can show, in order: a picture has boxes in their place."""
    known = advance_widths("regular")[0]
    characters = {character for text in texts for character in text if ord(character) not in known}
    missing = {one for one in characters if category(one)[0] not in "CZ" and category(one) not in WITHOUT_WIDTH}
    for file in list_system_fonts():
        if not missing:
            break
        with suppress(Exception):  # whatever a file on this machine may hold, it is only looked at
            missing.difference_update(map(chr, uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(file))).unicodes))
    return "".join(sorted(missing))


def list_system_fonts() -> Iterator[Path]:
    """The files of the fonts that are on this machine."""
    for folder in SYSTEM_FOLDERS:
        for place, _, names in os.walk(folder):
            yield from (Path(place, name) for name in sorted(names) if name.lower().endswith(FONT_SUFFIXES))


@lru_cache(maxsize=4096)
def lacking_width(code: int) -> float:
    """How wide, in ems, a character may be that another font shows."""
    if category(chr(code)) in WITHOUT_WIDTH:
        return 0.0
    return WIDE if east_asian_width(chr(code)) in ("W", "F") else NARROW


@lru_cache
def advance_widths(weight: Weight) -> tuple[dict[int, int], int]:
    """The advance of every character in a font, and the units of an em."""
    face = open_font(weight)
    font = uharfbuzz.Font(face)
    return {code: font.get_glyph_h_advance(font.get_nominal_glyph(code)) for code in face.unicodes}, face.upem


@lru_cache
def open_font(weight: Weight) -> uharfbuzz.Face:
    return uharfbuzz.Face(uharfbuzz.Blob.from_file_path(str(FONT_FOLDER / FILES[weight])))


def font_face_css(used: dict[Weight, str]) -> str:
    """`@font-face` rules that carry each weight's font with no more than the characters used."""
    rules = []
    for weight in FILES:
        characters = used.get(weight)
        if characters:
            data = b64encode(subset_font(weight, "".join(sorted(set(characters))))).decode("ascii")
            bold = "bold" if weight == "bold" else "normal"
            rules.append(
                f'@font-face{{font-family:"{FAMILIES[weight]}";font-weight:{bold};'
                f'src:url(data:font/ttf;base64,{data}) format("truetype")}}'
            )
    return "\n".join(rules)


@lru_cache(maxsize=32)
def subset_font(weight: Weight, characters: str) -> bytes:
    """A font file with the glyphs of these characters alone; the same characters give the same bytes."""
    wish = uharfbuzz.SubsetInput()
    wish.flags = uharfbuzz.SubsetFlags.NO_HINTING | uharfbuzz.SubsetFlags.NOTDEF_OUTLINE
    wish.unicode_set.update(map(ord, characters))
    wish.drop_table_tag_set.update(int.from_bytes(name.encode(), "big") for name in UNUSED_TABLES)
    return bytes(uharfbuzz.subset(open_font(weight), wish).blob.data)


@contextmanager
def own_fonts() -> Iterator[None]:
    """Inside the block Graphviz finds our fonts; the environment is put back afterwards.

    Fontconfig reads its configuration once in a process, when the first text is measured, and on some systems it
    complains on stderr about files that are not ours; the first drawing therefore happens in here, unheard.
    """
    before = os.environ.get("FONTCONFIG_FILE")
    with scratch_folder("fonts-") as folder:
        config = folder / "fonts.conf"
        config.write_text(fonts_conf(folder), encoding="utf-8")
        os.environ["FONTCONFIG_FILE"] = str(config)
        try:
            wake_fontconfig()
            yield
        finally:
            if before is None:
                del os.environ["FONTCONFIG_FILE"]
            else:
                os.environ["FONTCONFIG_FILE"] = before


def fonts_conf(folder: Path) -> str:
    """Our font files first, the system's for what they lack; caches where they can be written."""
    systems = "".join(f"<dir>{escape(place)}</dir>" for place in SYSTEM_FOLDERS if Path(place).is_dir())
    rejects = "".join(f"<glob>{escape(place)}/*SourceSans*</glob>" for place in SYSTEM_FOLDERS)
    return (
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{escape(str(FONT_FOLDER))}</dir>{systems}"
        f"<selectfont><rejectfont><glob>{escape(str(FONT_FOLDER))}/*.otf</glob>{rejects}</rejectfont></selectfont>"
        f'<cachedir prefix="xdg">xray/fontconfig</cachedir><cachedir>{escape(str(folder))}/cache</cachedir>'
        "<config><rescan><int>0</int></rescan></config></fontconfig>"
    )


@lru_cache(maxsize=1)
def wake_fontconfig() -> None:
    """Let fontconfig read our configuration, once in a process, with nothing said on stderr meanwhile."""
    pygraphviz = load_graphviz()

    graph = pygraphviz.AGraph(string=f'digraph {{ a [label="a" fontname="{FAMILIES["regular"]}" pos="0,0"] }}')
    with unheard():
        graph.draw(format="svg", prog="nop2")


@contextmanager
def unheard() -> Iterator[None]:
    """Inside the block nothing that C code writes to stderr is seen."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # stderr is closed: nothing to be heard anyway
        yield
        return
    silence = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(silence, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(silence)
        os.close(saved)
