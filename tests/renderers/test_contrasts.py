from dataclasses import replace

import pytest
from recorded import recorded

from xray.assets import template_names
from xray.ir.records import BOTH, FUTURE, PADDING, VISIBLE
from xray.renderers.contrasts import Weakness, different_pairs, find_weaknesses, graphic_pairs, text_pairs
from xray.renderers.fonts import text_width
from xray.renderers.sheet.shading import cell_shapes
from xray.renderers.themes import load_theme
from xray.renderers.vision import VISIONS
from xray.story.layout import Cells
from xray.story.poster import compose_poster

THEMES = template_names("themes", ".toml")


@pytest.fixture(scope="module")
def layout():
    return compose_poster(recorded("one layer"), text_width)


@pytest.mark.parametrize("name", THEMES)
def test_a_theme_that_comes_along_has_no_weakness(name):
    assert [weakness.told for weakness in find_weaknesses(load_theme(name))] == []


def test_every_text_and_line_is_looked_at():
    theme = load_theme()
    pairs = [pair for pair, *_ in (*text_pairs(theme), *graphic_pairs(theme))]
    assert len(pairs) == len(set(pairs)) > 250


def paint(theme, kind, **colours):
    return replace(theme, **{kind: {**getattr(theme, kind), **colours}})


def test_pale_text_is_found():
    theme = load_theme()
    pale = replace(theme.surfaces["page"], quiet="#2D2B56")
    worst = find_weaknesses(paint(theme, "surfaces", page=pale))[0]
    assert (worst.pair, worst.vision) == ("quiet text on page", "full colour")
    assert worst.found < 1.5


def test_a_faint_line_is_found():
    assert find_weaknesses(paint(load_theme("light"), "lines", leader="#CCCCCC"))[0].pair == "line leader on page"


def test_a_faint_mask_cell_is_found():
    assert find_weaknesses(paint(load_theme("light"), "cells", padding="#E0E0E0"))[0].pair == "cell padding on page"


def test_red_and_green_paths_are_found_for_those_who_confuse_them():
    found = find_weaknesses(paint(load_theme(), "lines", training="#C8A000", inference="#B4AC28"))
    told = {(weakness.pair, weakness.vision) for weakness in found if not weakness.is_contrast}
    assert ("lines training and inference", "deuteranopia") in told


def test_equal_sides_are_found():
    theme = load_theme()
    found = find_weaknesses(paint(theme, "surfaces", decoder=theme.surfaces["encoder"]))
    assert "encoder and decoder: 0 apart, below 15" in [weakness.told for weakness in found]


def test_a_contrast_is_told_with_its_rule():
    told = Weakness("text on page", "greyscale", 2.14, 4.5).told
    assert told == "text on page in greyscale: contrast 2.1:1, below 4.5:1"


@pytest.mark.parametrize("name", THEMES)
def test_what_grey_paper_confuses_is_told_apart_by_shape(name):
    """Each pair of colours is backed by a shape, a dash, an outline or a place; see the tests below."""
    backed = {
        *("encoder and decoder", "encoder and inference", "decoder and inference", "lines encoder and decoder"),
        *("lines training and inference", "cells visible and padding", "cells visible and future"),
        *("cells visible and hidden", "cells padding and future", "cells weight_low and weight_high"),
    }
    assert {pair for pair, *_ in different_pairs(load_theme(name))} <= backed


@pytest.mark.parametrize("name", THEMES)
def test_mask_cells_differ_in_shape(name):
    def look(letter):
        shapes = cell_shapes(Cells("mask", 0, 0, 100, ((letter,),), "mask"), load_theme(name))
        return tuple((shape.corners, shape.fill != shape.line) for shape in shapes)

    assert len({look(letter) for letter in (VISIBLE, PADDING, FUTURE, BOTH)}) == 4


def test_the_inference_path_is_dashed_and_the_training_path_is_not(layout):
    dashed = {curve.role: set() for curve in layout.curves}
    for curve in layout.curves:
        if curve.kind in ("flow", "memory") or curve.kind.startswith("flow"):
            dashed[curve.role].add(curve.dash is not None)
    assert dashed["inference"] == dashed["inference_on_panel"] == {True}
    assert dashed["training"] == dashed["encoder"] == dashed["decoder"] == {False}


def test_what_the_encoder_sent_is_outlined_in_cross_attention(layout):
    nodes = [box for box in layout.boxes if box.id.startswith("training/decoder.layers.0.cross_attention.")]
    outlined = {box.id for box in nodes if box.outline == "ribbon"}
    assert outlined == {box.id for box in nodes if box.on == "encoder"}
    assert 0 < len(outlined) < len(nodes)


def test_ledgers_mark_the_phases_differently(layout):
    marks = {
        run.ink: run.text for box in layout.boxes for line in box.lines for run in line if run.text in ("• ", "◌ ")
    }
    assert marks == {"accent:training": "• ", "accent:inference": "◌ "}


@pytest.mark.parametrize("vision", VISIONS)
def test_all_visions_are_used(vision):
    theme = load_theme()
    black = replace(theme.surfaces["page"], text="#0E0E35")
    assert vision in {weakness.vision for weakness in find_weaknesses(paint(theme, "surfaces", page=black))}
