"""Places that are mixed and nothing of it is learned: told where a transform goes along all of them, or a pool does."""

from functools import partial

import pytest
import torch
from printed import words_of
from story.body.test_context import PLACES, WIDTH, Thinks
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import FourierMixing, PoolMixing, Unknown
from xray.story.poster import compose_poster

SIDE = 6


class Transforms(nn.Module):
    """Rows to whose stream the real part of a Fourier transform along some axes is added (FNet)."""

    def __init__(self, transform, part=torch.real):
        super().__init__()
        self.transform, self.part, self.norm = transform, part, nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(x + self.part(self.transform(x)))


def along(*axes):
    return partial(Transforms, partial(torch.fft.fftn, dim=axes))


def twice(x):
    return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2)


class Lays(Transforms):
    """Rows laid out anew for the transform: what stands in a column then is of several widths."""

    def forward(self, x):
        laid = x.reshape(len(x), WIDTH, PLACES)
        return self.norm(x + self.part(self.transform(laid)).reshape(x.shape))


class Grid(nn.Module):
    """A map, and what one way of pooling it adds to it, scaled by learned numbers (PoolFormer)."""

    def __init__(self, mix):
        super().__init__()
        self.mix, self.norm = mix, nn.GroupNorm(1, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x + self.scale[:, None, None] * self.mix(self.norm(x))


class Maps(nn.Module):
    """A feed-forward of each place of a map."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.GroupNorm(1, WIDTH), nn.Conv2d(WIDTH, 31, 1), nn.Conv2d(31, WIDTH, 1)

    def forward(self, x):
        return x + self.back(functional.gelu(self.wide(self.norm(x))))


class Rows(nn.Module):
    """Rows, and what a pool of one axis makes of them, `turned` before and after."""

    def __init__(self, *, turned):
        super().__init__()
        self.norm, self.turned = nn.LayerNorm(WIDTH), turned

    def forward(self, x):
        pool = partial(functional.max_pool1d, kernel_size=5, stride=1, padding=2)
        normed = self.norm(x)
        return x + (pool(normed.mT).mT if self.turned else pool(normed))


def pool(size=3, *, step=1, padding=1, **more):
    return partial(functional.avg_pool2d, kernel_size=size, stride=step, padding=padding, **more)


def less(x):
    return pool(count_include_pad=False)(x) - x


def turned_less(x):
    return x - pool()(x)


def twice_less(x):
    return torch.sub(pool()(x), x, alpha=2)


def shrinks(x):
    return functional.interpolate(pool(step=2)(x), size=(SIDE, SIDE))


def of_channels(x):
    return pool()(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def off_centre(x):
    return pool((1, 2), padding=(0, 1))(x)[..., 1:]


def in_another_order(x):
    return pool()(x[..., torch.arange(SIDE).flip(0)])


def divided(x):
    return pool(divisor_override=4)(x)


def read_words(trace):
    return words_of(compose_poster(trace, text_width))


def record_rows(make):
    torch.manual_seed(0)
    layers = [one() for _ in range(3) for one in (make, Thinks)]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))


def record_maps(mix):
    torch.manual_seed(0)
    layers = [one() for _ in range(3) for one in (partial(Grid, mix), Maps)]
    return xray.trace(nn.Sequential(nn.Conv2d(3, WIDTH, 2, stride=2), *layers), torch.randn(2, 3, 2 * SIDE, 2 * SIDE))


def read_mixing(trace):
    return xray.anatomy(trace).towers[0].groups[0].stages[0].branches[0]


@pytest.mark.parametrize(
    ("make", "features"), [(along(1, 2), True), (along(-2), False), (partial(Transforms, twice), True)]
)
def test_a_transform_of_all_places_is_told_with_whether_it_mixes_features(make, features):
    trace = record_rows(make)
    texts = read_words(trace)

    assert read_mixing(trace) == FourierMixing(PLACES, features)
    assert "FOURIER MIXING" in texts
    assert "OPERATIONS" not in texts
    along = "along places and along the numbers of each" if features else "along places alone"
    assert f"mixed with every other by a Fourier transform, {along}; nothing of it is learned." in texts
    assert "Nothing of it is learned, and no layer has attention." in texts


@pytest.mark.parametrize(
    "make",
    [
        along(2),  # features alone
        along(0, 1, 2),  # sequences too
        partial(Transforms, partial(torch.fft.fftn, dim=(1, 2)), torch.imag),
        partial(Transforms, partial(torch.fft.fftn, dim=(1, 2)), torch.abs),
        partial(Transforms, lambda x: torch.fft.fft(torch.fft.fft(x, dim=1), dim=1)),  # rows in another order
        partial(Lays, partial(torch.fft.fftn, dim=(2,))),
    ],
)
def test_other_transforms_mix_no_places(make):
    trace = record_rows(make)

    assert isinstance(read_mixing(trace), Unknown)
    assert "FOURIER MIXING" not in read_words(trace)


@pytest.mark.parametrize(
    ("mix", "found"),
    [
        (less, PoolMixing((3, 3), "mean", less_itself=True)),
        (pool(5, padding=2), PoolMixing((5, 5), "mean")),
        (nn.MaxPool2d(3, 1, 1), PoolMixing((3, 3), "maximum")),
        (lambda x: functional.avg_pool2d(x, 3, 1, 1), PoolMixing((3, 3), "mean")),
    ],
    ids=["less itself", "as it is", "highest", "settings without names"],
)
def test_a_pool_of_what_is_around_each_place_is_told(mix, found):
    trace = record_maps(mix)
    texts = read_words(trace)
    told = f"{found.of} of the {found.kernel[0]}×{found.kernel[0]} places around it"
    told += ", less itself" * found.less_itself

    assert read_mixing(trace) == found
    assert "MIXING BY POOLING" in texts
    assert "OPERATIONS" not in texts
    assert f"Each place becomes the {told}; nothing of that is learned." in texts
    assert f"Mixing by pooling: each place becomes the {told}. Nothing of it is learned, and no layer" in texts
    assert f"POOL {found.kernel[0]}×{found.kernel[0]}, STEP 1" in texts


@pytest.mark.parametrize("mix", [turned_less, twice_less, shrinks, of_channels, off_centre, in_another_order, divided])
def test_other_pools_mix_no_places(mix):
    trace = record_maps(mix)

    assert isinstance(read_mixing(trace), Unknown)
    assert "MIXING BY POOLING" not in read_words(trace)


def test_a_pool_along_the_places_of_rows_is_told():
    assert read_mixing(record_rows(partial(Rows, turned=True))) == PoolMixing((5,), "maximum")


def test_a_pool_along_the_numbers_of_a_row_mixes_no_places():
    assert isinstance(read_mixing(record_rows(partial(Rows, turned=False))), Unknown)
