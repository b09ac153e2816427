"""The map: the poster's SVG with its nodes known by step, its digits by axis, its colours by role."""

import re

import pytest

from xray.renderers.page.map import draw_map, map_id, strip_svg
from xray.renderers.page.paint import Codes, encode_theme, list_colours
from xray.renderers.sheet.poster import draw_poster
from xray.renderers.themes import load_theme


@pytest.fixture(scope="module")
def svg(both_trace):
    return draw_map(both_trace, load_theme("dark"))


def node(svg, one_pass, step):
    return re.search(rf'<g [^>]*data-pass="{one_pass}" data-step="{re.escape(step)}".*?</g>', svg, re.DOTALL)[0]


def axes(text):
    return re.findall(r'data-axis="([^"]*)"[^>]*>([^<]*)<', text)


def test_a_node_knows_its_step(svg):
    assert "SCORES" in node(svg, "training", "decoder.layers.0.cross_attention.scores#0")


def test_equal_digits_keep_their_own_axes(svg):
    split = node(svg, "training", "encoder.layers.0.self_attention.split_query#0")

    assert axes(split) == [("batch", "8"), ("heads", "4"), ("src_len", "10"), ("d_k", "8")]


def test_a_letter_that_grows_has_its_axis_too(svg):
    assert ("tgt_len", "t") in axes(node(svg, "decode", "decoder.layers.0.self_attention.scores#0"))


def test_every_colour_is_a_variable_of_the_themes(svg):
    known = list_colours(load_theme("dark"))
    used = set(re.findall(r"var\(--([\w-]+)\)", svg))

    assert used <= set(known)
    assert re.findall(r'(?:fill|stroke)="#[0-9a-fA-F]{6}"', svg) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_with_a_themes_colours_put_in_it_is_that_themes_poster(both_trace, name):
    theme = load_theme(name)
    codes = Codes()
    drawn = codes.decode(strip_svg(draw_poster(both_trace, "svg", theme=encode_theme(load_theme("dark"), codes))))
    colours = list_colours(theme)
    filled = re.sub(r"var\(--([\w-]+)\)(?!\s*\d)", lambda found: colours[found[1]].lower(), drawn)
    paints = [paint for paint in re.findall(r'<text[^>]*fill="([^"]*)"', filled) if paint.startswith("#")]

    assert paints == re.findall(r'<text[^>]*fill="([^"]*)"', strip_svg(draw_poster(both_trace, "svg", theme=theme)))


def test_the_map_carries_no_styles_titles_or_ids(svg):
    assert re.findall(r"<style|<title|<desc| style=| id=", svg) == []


def test_turns_and_passes_have_ids_of_their_own(both_trace):
    ids = [map_id(one_pass, one_pass.steps[0]) for one_pass in both_trace.passes[:3]]

    assert [name.split("/")[0] for name in ids] == ["training", "encode", "decode1"]
