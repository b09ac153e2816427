"""Places cut into sequences of their own before the first layer: what they see is told, or left open."""

import copy

import torch
from handwritten import Attention as Looking
from handwritten import Layer
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, read
from torch import nn

from xray.story.anatomy.attentions import Attention
from xray.story.sentences.stations.of_stations import describe_station

SIDE, BATCH = 6, 5


class Patches(nn.Module):
    """The places of an image, made into sequences before two layers."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 2, 2)
        self.layers = nn.ModuleList([AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart()])

    def lay(self, rows):
        return rows

    def forward(self, image):
        x = self.lay(self.patches(image).flatten(2).transpose(1, 2))
        for layer in self.layers:
            x = layer(x)
        return x


class CutIntoWindows(Patches):
    """Four windows of an image, each a sequence of its own through all layers (RF-DETR)."""

    def lay(self, rows):
        half = SIDE // 2
        grid = rows.view(-1, 2, half, 2, half, WIDTH).transpose(2, 3)
        return grid.reshape(-1, half * half, WIDTH)


class EveryOther(Patches):
    """Every other row of the image goes with those like it (MobileViT)."""

    def lay(self, rows):
        grid = rows.transpose(1, 2).reshape(-1, WIDTH, SIDE * SIDE // 2, 2)
        return grid.permute(0, 3, 2, 1).reshape(-1, SIDE * SIDE // 2, WIDTH)


class Masked(EveryOther):
    """The same, where a mask that is held joins the scores and tells its cells to nobody (SwinIR's shifted windows)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([MaskedPart(), FeedForwardPart(), MaskedPart(), FeedForwardPart()])


class MaskedPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(WIDTH), MaskedLook()
        places = SIDE * SIDE // 2
        self.register_buffer("attn_mask", -100.0 * (torch.arange(places) % 3 == 1).repeat(2, places, 1))

    def forward(self, x):
        return x + self.look(self.norm(x), mask=self.attn_mask)


class MaskedLook(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT) * (WIDTH // 2) ** -0.5
        scores = scores.view(BATCH, 2, *scores.shape[1:]) + mask.unsqueeze(1).unsqueeze(0)
        return self.out((scores.flatten(0, 1).softmax(-1) @ v).transpose(1, 2).flatten(2))


class Tiles(Patches):
    """Several images in a row of the batch, as a model may be given them (LLaVA)."""

    def forward(self, image):
        return super().forward(image.flatten(0, 1))


class PlacesFirst(Patches):
    """A sequence whose places stand before its batch."""

    def lay(self, rows):
        return rows.transpose(0, 1).transpose(0, 1).contiguous()


def read_attention(model, *shape):
    found = read(model, torch.randn(*shape))
    (tower,) = found.towers
    attention = next(one for one in tower.branches if isinstance(one, Attention))
    return attention, describe_station(tower, attention)


def test_windows_cut_before_the_first_layer_are_told():
    attention, told = read_attention(CutIntoWindows(), BATCH, 3, 2 * SIDE, 2 * SIDE)

    assert (attention.window, attention.rolled, attention.partial) == (SIDE * SIDE // 4, False, None)
    assert told == "Every place looks at no more than 9 places."


def test_places_of_one_image_that_became_several_sequences_are_not_told_to_see_all():
    attention, told = read_attention(EveryOther(), BATCH, 3, 2 * SIDE, 2 * SIDE)

    assert (attention.window, attention.partial) == (None, True)
    assert told == "Every place looks at every other of the 18 in its sequence."


def test_how_many_places_see_each_other_is_not_told_where_a_mask_may_hide_some():
    attention, told = read_attention(Masked(), BATCH, 3, 2 * SIDE, 2 * SIDE)

    assert (attention.window, attention.partial, attention.together) == (None, True, None)
    assert "every other" not in told


def test_whole_images_and_tiles_see_all():
    for model, shape in ((Patches(), (BATCH, 3)), (Tiles(), (2, BATCH, 3)), (PlacesFirst(), (BATCH, 3))):
        attention, told = read_attention(model, *shape, 2 * SIDE, 2 * SIDE)

        assert (attention.window, attention.partial) == (None, None)
        assert told == "Every place looks at every other."


class Film(Patches):
    """Places of each picture look at each other in one layer, places of all pictures of a film in the next (Latte)."""

    def __init__(self, *, across):
        super().__init__()
        self.across = across

    def forward(self, films):
        count, pictures = films.shape[:2]
        x = self.patches(films.flatten(0, 1)).flatten(2).transpose(1, 2)
        for number, layer in enumerate(self.layers):
            if self.across and number == 2:
                x = x.view(count, pictures, -1, WIDTH).transpose(1, 2).flatten(0, 1)
            x = layer(x)
        return x


def test_places_of_a_picture_see_those_in_it_where_later_layers_lay_the_pictures_of_a_film_apart():
    told = [read_attention(Film(across=across), 2, 3, 3, 2 * SIDE, 2 * SIDE)[1] for across in (True, False)]

    assert told == ["Every place looks at every other of the 36 in its sequence.", "Every place looks at every other."]


class FilmByTurns(Film):
    """Layers of pictures and of places across them by turns; the first of the latter is added its times (Latte)."""

    def __init__(self):
        super().__init__(across=True)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for layer in (*self.layers, *self.layers))
        self.register_buffer("times", torch.randn(1, 3, WIDTH))

    def forward(self, films):
        count, pictures = films.shape[:2]
        x = self.patches(films.flatten(0, 1)).flatten(2).transpose(1, 2)
        for number, layer in enumerate(self.layers):
            if number % 4 == 2:
                x = x.view(count, pictures, -1, WIDTH).transpose(1, 2).flatten(0, 1)
                x = x * 0.5 + self.times if number == 2 else x
            x = layer(x)
            if number % 4 == 3:
                x = x.view(count, -1, pictures, WIDTH).transpose(1, 2).flatten(0, 1)
        return x


class FilmAsking(Film):
    """Layers of pictures that look at many words too, and more of them behind a convolution (AnimateDiff)."""

    def __init__(self):
        super().__init__(across=False)
        self.asks, self.fewer = Looking(WIDTH, 2), nn.Conv2d(WIDTH, WIDTH, 2, 2)
        self.later = nn.ModuleList([AttentionPart(), FeedForwardPart()])

    def forward(self, video, words):  # type: ignore[override]
        x = self.patches(video.flatten(0, 1)).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        x = self.asks(x, words) + x
        x = self.fewer(x.transpose(1, 2).unflatten(2, (SIDE, SIDE))).flatten(2).transpose(1, 2)
        for layer in self.later:
            x = layer(x)
        return x


def test_pictures_are_no_films_behind_layers_that_look_at_many_words():
    (tower,) = read(FilmAsking(), torch.rand(2, 3, 3, 2 * SIDE, 2 * SIDE), torch.rand(6, 40, WIDTH)).towers

    assert [one.together for one in tower.branches if isinstance(one, Attention) and one.source == "self"] == [
        36,
        36,
        9,
    ]


def test_later_layers_of_pictures_are_told_as_the_first_where_a_sum_stands_between():
    (tower,) = read(FilmByTurns(), torch.rand(2, 3, 3, 2 * SIDE, 2 * SIDE)).towers

    assert {one.together for one in tower.branches if isinstance(one, Attention)} == {36, 3}


class BesideLearned(Patches):
    """Signals of a batch beside more learned ones, each a sequence of its own (CoTracker's tracks)."""

    def __init__(self):
        super().__init__()
        self.enter, self.learned = nn.Linear(7, WIDTH), nn.Parameter(torch.zeros(1, 4, 1, WIDTH))

    def forward(self, signals):
        x = self.enter(signals)
        x = torch.cat([x, self.learned.repeat(len(x), 1, x.shape[2], 1)], 1).flatten(0, 1)
        for layer in self.layers:
            x = layer(x)
        return x


class TurnAbout(nn.Module):
    """Columns of each line of a table look at each other, then all lines do, as one sequence (SAINT)."""

    def __init__(self, *, together=True):
        super().__init__()
        self.together, self.columns = together, nn.Embedding(50, WIDTH)
        self.within = nn.ModuleList([AttentionPart(), FeedForwardPart()])
        self.across = nn.ModuleList([Layer(3 * WIDTH, Looking(3 * WIDTH, 2), norm="before")])

    def forward(self, ids):
        x = self.columns(ids) * (ids > 0)[..., None]
        x = nn.functional.pad(x, (0, 0, 0, 1))
        for layer in self.within:
            x = layer(x)
        x = x.reshape(1, len(ids), -1) if self.together else x
        for layer in self.across if self.together else self.within:
            x = layer(x)
        return x


def test_signals_that_become_sequences_see_those_of_their_own_whatever_is_learned_beside_them():
    assert (
        read_attention(BesideLearned(), 2, 3, 11, 7)[1] == "Every place looks at every other of the 11 in its sequence."
    )


def test_sequences_that_are_one_in_other_layers_are_parts_of_it():
    ids = torch.ones(5, 2, dtype=torch.int64)
    told = []
    for together in (True, False):
        tower = read(TurnAbout(together=together), ids).towers[0]
        attentions = [one for one in tower.branches if isinstance(one, Attention)]
        told.append([describe_station(tower, one) for one in attentions])

    assert told[0] == [
        "Every place looks at every other of the 3 in its sequence.",
        "Every place looks at every other.",
    ]
    assert {*told[1]} == {"Every place looks at every other."}


class Carried(Patches):
    """Pooled rows of an image look at each other, and then at the places of a window each (FasterViT)."""

    def forward(self, image):
        maps = self.patches(image)
        rows, half = nn.functional.avg_pool2d(maps, SIDE // 2).flatten(2).transpose(1, 2), SIDE // 2
        rows = self.layers[1](self.layers[0](rows))
        cut = maps.unflatten(2, (2, half)).unflatten(4, (2, half)).permute(0, 2, 4, 3, 5, 1)
        x = torch.cat([rows.reshape(-1, 1, WIDTH), cut.reshape(-1, half * half, WIDTH)], 1)
        return self.layers[3](self.layers[2](x))


def test_windows_beside_rows_of_the_whole_image_are_sequences_of_their_own():
    (tower,) = read(Carried(), torch.randn(1, 3, 2 * SIDE, 2 * SIDE)).towers
    told = [(one.partial, one.together) for one in tower.branches if isinstance(one, Attention)]

    assert told == [(None, None), (True, 10)]


class CutInside(nn.Module):
    """A map is cut into windows within a sublayer, around whose sums another one stands (VRT)."""

    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Looking(WIDTH, 3)
        self.think, self.last = FeedForwardPart(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows, half = x.permute(0, 2, 3, 1), SIDE // 2
        cut = self.norm(rows).view(-1, 2, half, 2, half, WIDTH).transpose(2, 3).reshape(-1, half * half, WIDTH)
        found = self.attention(cut, cut).view(-1, 2, 2, half, half, WIDTH).transpose(2, 3).reshape(rows.shape)
        return x + self.last(self.think(rows + found)).permute(0, 3, 1, 2)


def test_windows_cut_of_a_map_within_a_sublayer_are_no_sequences():
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 2, 2), CutInside(), CutInside())

    attention, told = read_attention(model, BATCH, 3, 2 * SIDE, 2 * SIDE)
    assert (attention.partial, attention.together) == (True, None)
    assert "in its sequence" not in told


class OverTime(nn.Module):
    """A layer of pictures that the model is given: what stands at one place looks over time."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.attention, self.think = nn.LayerNorm(WIDTH), Looking(WIDTH, 3), FeedForwardPart()

    def forward(self, x):
        rows = x.view(2, -1, *x.shape[1:]).permute(0, 3, 4, 1, 2)
        read = self.first(rows.flatten(0, 2))
        normed = self.norm(read)
        found = self.last(self.think(read + self.attention(normed, normed)))
        return x + found.view(rows.shape).permute(0, 3, 4, 1, 2).flatten(0, 1)


def test_pictures_whose_places_look_over_time_within_a_sublayer_are_no_whole_that_each_place_sees():
    attention, told = read_attention(nn.Sequential(OverTime(), OverTime()), 2 * BATCH, WIDTH, SIDE, SIDE)

    assert (attention.partial, attention.together) == (True, BATCH)
    assert told.startswith(f"Every place looks at every other of the {BATCH} in its sequence.")
