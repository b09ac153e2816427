"""How a colour looks to an eye that lacks a kind of cone, or on paper without colour, and how far two are apart."""

from typing import Literal

Vision = Literal["full colour", "greyscale", "protanopia", "deuteranopia", "tritanopia"]
Channels = tuple[float, float, float]
Matrix = tuple[Channels, Channels, Channels]

DEFICIENCIES: dict[Vision, Matrix] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""For linear RGB at full severity: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, "A Physiologically-based Model
for Simulation of Color Vision Deficiency", IEEE Transactions on Visualization and Computer Graphics 15(6), 2009."""

GREY: Channels = (0.299, 0.587, 0.114)
"""How printers weigh the encoded channels where they have black ink only (ITU-R BT.601)."""

LUMINANCE: Channels = (0.2126, 0.7152, 0.0722)
VISIONS: tuple[Vision, ...] = ("full colour", "greyscale", "protanopia", "deuteranopia", "tritanopia")

XYZ: Matrix = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE: Channels = (0.95047, 1.0, 1.08883)
"""From linear sRGB to CIE XYZ, and the white point D65."""


def contrast(one: str, other: str, vision: Vision = "full colour") -> float:
    """How much brighter the brighter of two colours is, from 1 to 21, as WCAG 2 counts it."""
    low, high = sorted(weigh(see(colour, vision), LUMINANCE) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, vision: Vision = "full colour") -> float:
    """How far apart two colours look: the CIE 1976 difference, of which about 2 can just be seen side by side."""
    pairs = zip(lab(see(one, vision)), lab(see(other, vision)), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def see(colour: str, vision: Vision) -> Channels:
    """A colour such as "#662D91" in linear RGB, as it arrives."""
    encoded = tuple(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    if vision == "greyscale":
        grey = linear(weigh((encoded[0], encoded[1], encoded[2]), GREY))
        return grey, grey, grey
    channels = (linear(encoded[0]), linear(encoded[1]), linear(encoded[2]))
    return channels if vision == "full colour" else clipped(turn(channels, DEFICIENCIES[vision]))


def lab(channels: Channels) -> Channels:
    """Linear RGB as CIE L*a*b*."""
    x, y, z = (bend(value / white) for value, white in zip(turn(channels, XYZ), WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def bend(value: float) -> float:
    return float(value ** (1 / 3)) if value > 216 / 24389 else value * 24389 / 27 / 116 + 16 / 116


def linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def turn(channels: Channels, matrix: Matrix) -> Channels:
    return weigh(channels, matrix[0]), weigh(channels, matrix[1]), weigh(channels, matrix[2])


def weigh(channels: Channels, weights: Channels) -> float:
    return sum(value * weight for value, weight in zip(channels, weights, strict=True))


def clipped(channels: Channels) -> Channels:
    red, green, blue = (min(1.0, max(0.0, value)) for value in channels)
    return red, green, blue
