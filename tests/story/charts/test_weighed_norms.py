"""Norms that are written out before a bend, and learned numbers behind a norm's own, are named (Gemma 3n)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

WIDE, EPSILON = 31, 1e-6


class WrittenNorm(nn.Module):
    """An RMS norm that is written out, with so many sets of learned numbers behind it."""

    def __init__(self, width, sets=1):
        super().__init__()
        self.sets = nn.ParameterList([torch.ones(width) for _ in range(sets)])

    def forward(self, x):
        x = x * (x.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt()
        for numbers in self.sets:
            x = x * numbers
        return x


class Written(nn.Module):
    """A feed-forward whose wide rows go through a norm before they are bent, and what it gives through another one."""

    def __init__(self, sets):
        super().__init__()
        self.wide, self.back = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)
        self.inner, self.closing = WrittenNorm(WIDE), WrittenNorm(WIDTH, sets)

    def forward(self, x):
        return x + self.closing(self.back(functional.gelu(self.inner(self.wide(x)), approximate="tanh")))


@pytest.mark.parametrize("sets", [1, 2])
def test_a_norm_before_the_bend_and_learned_numbers_behind_one_are_named(sets):
    nodes = draw(Reader(AttentionPart(), Written(sets)), rows())

    closing = "RMS NORM" + " × LEARNED NUMBERS" * (sets - 1)
    assert [node.label for node in nodes][-4:] == ["LINEAR + RMS NORM + GELU (tanh)", "LINEAR", closing, "ADD"]
    assert [node.extra for node in nodes][-4:-1] == [
        f"{WIDE * (WIDTH + 2)} parameters",
        f"{WIDTH * (WIDE + 1)} parameters",
        f"{sets * WIDTH} parameters",
    ]


class Times(nn.Module):
    """What multiplies by one number, that is written down or held."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x * self.number


@pytest.mark.parametrize(
    ("sets", "number", "told"),
    [
        (1, 0.3, "RMS NORM, × 0.3"),
        (1, torch.tensor(0.3), "RMS NORM, × 0.3"),
        (1, 1.0, "RMS NORM"),
        (0, 0.3, "RMS NORM"),  # it may be the root of the width, by which what has length 1 becomes the norm
    ],
)
def test_one_number_behind_the_weights_of_a_norm_is_named(sets, number, told):
    part = AttentionPart()
    part.norm = nn.Sequential(WrittenNorm(WIDTH, sets), Times(number))  # type: ignore[assignment]

    assert draw(Reader(part, AttentionPart()), rows())[0].label == told


class Begun(nn.Module):
    """A stream that begins with learned rows, which a norm reads that is written out (Idefics 2)."""

    def __init__(self):
        super().__init__()
        self.begin, self.layer = nn.Parameter(torch.rand(5, WIDTH)), AttentionPart()
        self.layer.norm = WrittenNorm(WIDTH)  # type: ignore[assignment]

    def forward(self, x):
        return self.layer(self.begin.expand(len(x), -1, -1)) + x


def test_how_long_learned_rows_are_is_no_learned_number():
    labels = [node.label for node in draw(Begun(), rows()[..., :1].expand(-1, 5, WIDTH))]

    assert labels[0] == "RMS NORM"


class Scaled(AttentionPart):
    """Attention behind which rows are multiplied by learned numbers, laid out for them."""

    def __init__(self):
        super().__init__()
        self.out = nn.Sequential(self.out, Laid())  # type: ignore[assignment]


class Laid(nn.Module):
    """Learned numbers that are laid out before they multiply."""

    def __init__(self):
        super().__init__()
        self.numbers = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * self.numbers.view(1, 1, -1)


def test_learned_numbers_that_are_laid_out_first_are_learned_numbers_behind_the_heads():
    labels = [node.label for node in draw(Reader(Scaled(), AttentionPart()), rows())]

    assert labels[labels.index("LINEAR O") + 1] == "× LEARNED NUMBERS"
