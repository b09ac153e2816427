import pytest

from xray.assets import read_template, template_names
from xray.errors import ThemeError
from xray.renderers.themes import AXES, load_theme, parse_theme

THEMES = template_names("themes", ".toml")
DARK = read_template("themes/dark.toml")
PLAIN = [name for name in load_theme().surfaces if name != "station"]
LIGHT_SURFACES = [name for name in PLAIN if "panel" in name or "ledger" in name]


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("part", ["text", "quiet"])
def test_text_reads_well_on_every_surface(name, part):
    surfaces = load_theme(name).surfaces
    weak = {key: contrast(getattr(surface, part), surface.fill) for key, surface in surfaces.items()}
    assert min(weak.values()) >= 4.5, weak


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("surface", PLAIN)
def test_digits_of_every_axis_read_well_on_every_surface(name, surface):
    theme = load_theme(name)
    weak = {axis: contrast(theme.axis_colour(axis, surface), theme.surfaces[surface].fill) for axis in AXES}
    assert min(weak.values()) >= 4.5, weak


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("surface", ["page", "card"])
def test_accents_read_well_on_the_page(name, surface):
    theme = load_theme(name)
    weak = {role: contrast(colour, theme.surfaces[surface].fill) for role, colour in theme.accents.items()}
    assert min(weak.values()) >= 4.5, weak


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("surface", LIGHT_SURFACES)
def test_accents_read_well_on_panels_and_ledgers(name, surface):
    theme = load_theme(name)
    weak = {role: contrast(colour, theme.surfaces[surface].fill) for role, colour in theme.accents_on_light.items()}
    assert min(weak.values()) >= 4.5, weak


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("line", ["training", "inference", "ribbon", "boundary", "leader", "card"])
def test_lines_stand_out_from_the_page(name, line):
    theme = load_theme(name)
    assert contrast(theme.lines[line], theme.surfaces["page"].fill) >= 3


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("line", ["encoder", "decoder", "inference_on_panel"])
def test_lines_stand_out_from_the_panels(name, line):
    theme = load_theme(name)
    panels = [surface.fill for key, surface in theme.surfaces.items() if "panel" in key]
    assert min(contrast(theme.lines[line], fill) for fill in panels) >= 3


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("cell", ["visible", "padding", "future", "both", "hidden"])
def test_mask_cells_stand_out_from_the_page(name, cell):
    theme = load_theme(name)
    assert contrast(theme.cells[cell], theme.surfaces["page"].fill) >= 3


def test_axes_with_hues_of_their_own_differ():
    theme = load_theme()
    hues = {theme.axis_colour(axis, "page") for axis in AXES if axis not in ("batch", "other")}
    assert len(hues) == len(AXES) - 2


def test_an_unknown_theme_is_refused_with_the_known_ones():
    with pytest.raises(ThemeError, match=r"no theme named 'pink'\. Choose dark or light"):
        load_theme("pink")


def test_a_missing_role_is_named():
    text = "\n".join(line for line in DARK.splitlines() if not line.startswith("ribbon"))
    with pytest.raises(ThemeError, match=r"mine.toml \[line\] misses `ribbon`\. Every theme names all roles"):
        parse_theme(text, "mine.toml")


def test_an_unknown_role_is_named():
    with pytest.raises(ThemeError, match=r"\[line\] has the unknown field `glitter`"):
        parse_theme(DARK.replace("[line]\n", '[line]\nglitter = "#FFFFFF"\n'), "mine.toml")


def test_a_value_that_is_no_colour_is_shown():
    with pytest.raises(ThemeError, match=r"accent\.title='purple' is no colour. Write six hex digits"):
        parse_theme(DARK.replace('title     = "#D9B8EE"', 'title     = "purple"'), "mine.toml")


def test_a_missing_section_is_named():
    with pytest.raises(ThemeError, match="misses `cell`"):
        parse_theme(DARK.replace("[cell]", "[cells]"), "mine.toml")


def test_text_that_is_no_toml_is_refused():
    with pytest.raises(ThemeError, match=r"mine\.toml is not TOML"):
        parse_theme("page = #0E0E35", "mine.toml")


def test_digits_must_name_a_set_of_axis_colours():
    with pytest.raises(ThemeError, match="digits='on_mars' is no set of axis colours"):
        parse_theme(DARK.replace('digits = "on_sky"', 'digits = "on_mars"'), "mine.toml")


def test_a_theme_without_the_kinds_of_operations_lends_them_other_surfaces():
    older = "\n".join(line for line in DARK.splitlines() if not line.startswith("op_"))
    theme = parse_theme(older, "older.toml")
    assert theme.surfaces["op_attention"] == theme.surfaces["decoder"]
    assert theme.surfaces["op_mask"] == theme.surfaces["mask"]
