import pytest

from xray.renderers.vision import DEFICIENCIES, VISIONS, contrast, distance, see


@pytest.mark.parametrize("vision", VISIONS)
def test_black_and_white_look_the_same_to_everybody(vision):
    assert contrast("#FFFFFF", "#000000", vision) == pytest.approx(21, abs=0.001)


@pytest.mark.parametrize("vision", DEFICIENCIES)
def test_greys_stay_grey(vision):
    assert distance("#808080", "#808080", vision) == 0
    assert see("#808080", vision) == pytest.approx(see("#808080", "full colour"), abs=1e-5)


@pytest.mark.parametrize(("colour", "ratio"), [("#777777", 4.48), ("#767676", 4.54), ("#FF0000", 4.00)])
def test_contrast_is_counted_as_in_the_guidelines(colour, ratio):
    assert contrast(colour, "#FFFFFF") == pytest.approx(ratio, abs=0.005)


def test_black_and_white_are_a_hundred_apart():
    assert distance("#FFFFFF", "#000000") == pytest.approx(100, abs=0.01)


def test_equally_light_colours_are_one_grey():
    assert distance("#E60000", "#007500", "greyscale") < 1 < distance("#E60000", "#007500")


@pytest.mark.parametrize(
    ("one", "other", "confused", "told_apart"),
    [
        ("#C05040", "#707030", "deuteranopia", "tritanopia"),
        ("#904030", "#505028", "protanopia", "tritanopia"),
        ("#4090A8", "#4C9080", "tritanopia", "deuteranopia"),
    ],
)
def test_each_deficiency_confuses_its_own_colours(one, other, confused, told_apart):
    assert distance(one, other, confused) < distance(one, other) / 2
    assert distance(one, other, told_apart) > distance(one, other, confused)
