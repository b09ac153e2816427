"""What stands between towers is counted where it stands: in the block of one, or in that of none."""

from typing import Any

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, SEEN = 15, 21


class Eye(nn.Module):
    """Reads an image in patches; its own projector comes behind its layers, and may read a layer before the last."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, SEEN, 4, stride=4)
        self.layers: Any = nn.ModuleList(Layer(SEEN, Attention(SEEN, 3), norm="before") for _ in range(3))
        self.norm, self.projector = nn.LayerNorm(SEEN), nn.Sequential(nn.Linear(SEEN, 19), nn.GELU())
        self.last = nn.Linear(19, WIDTH)

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return self.last(self.projector(self.norm(x)))


class Reader(nn.Module):
    """Reads words, which it looks up itself or is given as vectors."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(4))
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Sees(nn.Module):
    """Words behind an image, between whose towers a connector stands, if any."""

    def __init__(self, connector=None):
        super().__init__()
        self.eye, self.reader, self.connector = Eye(), Reader(), connector

    def forward(self, ids, image):
        seen = self.eye(image)
        seen = seen if self.connector is None else self.connector(seen)
        return self.reader(torch.cat([seen, self.reader.words(ids)], dim=1))


def count(module):
    """The parameters of a module."""
    return sum(one.numel() for one in module.parameters())


def record(model):
    """A trace of words and an image."""
    return xray.trace(model, torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))


def list_lines(trace):
    """How many parameters each part has."""
    return {name: count for name, _, count in list_shares(read_columns(trace), trace)}


@pytest.mark.parametrize("connector", [None, nn.Linear(WIDTH, WIDTH)], ids=["without", "with"])
def test_the_lines_of_a_tower_add_up_to_its_block(connector):
    torch.manual_seed(0)
    model = Sees(connector)
    lines = list_lines(record(model))

    assert sum(lines.values()) == count(model)
    assert sum(params for name, params in lines.items() if name.startswith("vision ") and " to " not in name) == count(
        model.eye
    )
    assert sum(params for name, params in lines.items() if name.startswith("tokens ")) == count(model.reader)
    assert lines["tokens entrance"] == count(model.reader.words)


def test_what_stands_in_no_towers_block_has_a_line_of_its_own():
    torch.manual_seed(0)
    model = Sees(nn.Sequential(nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH)))

    assert list_lines(record(model))["vision to tokens"] == count(model.connector)


def list_surfaces(model):
    """What the boxes below the last tower stand on, by the end of the path of the step that gives their shape."""
    entrance = read_columns(record(model))[-1].entrance
    return {node.steps[0].path.rpartition(".")[2]: node.surface for node in entrance.nodes if node.extra}


def test_boxes_have_the_colour_of_the_tower_in_whose_block_they_stand():
    torch.manual_seed(0)

    assert list_surfaces(Sees(nn.Linear(WIDTH, WIDTH))) == {
        "0": "memory",
        "last": "memory",
        "connector": "ghost",
        "words": "own",
    }


class Placed(nn.Module):
    """A linear layer, and what it gives with places that are looked up (Florence-2)."""

    def __init__(self):
        super().__init__()
        self.project, self.places = nn.Linear(WIDTH, WIDTH), nn.Embedding(4, WIDTH)

    def forward(self, x):
        return self.project(x + self.places(torch.arange(x.shape[1])))


def test_places_that_are_added_between_towers_have_the_colour_of_neither():
    torch.manual_seed(0)
    surfaces = list_surfaces(Sees(Placed()))

    assert (surfaces["project"], surfaces["places"], surfaces["words"]) == ("ghost", "ghost", "own")


class Begins(nn.Module):
    """Vectors, of which the first is a learned one, through layers; some numbers take no part, if any (Pocket TTS)."""

    def __init__(self, *, is_idle):
        super().__init__()
        self.row, self.project, self.layers = nn.Parameter(torch.rand(5)), nn.Linear(5, WIDTH), Reader().layers
        self.idle = nn.Parameter(torch.rand(7)) if is_idle else None

    def forward(self, x):
        x = torch.where(torch.arange(x.shape[1])[:, None] == 0, self.project(self.row), x)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_learned_row_of_no_module_with_which_rows_begin_is_counted_at_the_entrance(is_idle):
    torch.manual_seed(0)
    trace = xray.trace(Begins(is_idle=is_idle), torch.rand(2, 7, WIDTH))

    told = list_lines(trace)
    assert told["entrance"] == 6 * WIDTH + 5
    assert told.get("unused: idle") == (7 if is_idle else None)


class Places(nn.Module):
    """Vectors with learned places through layers; as many numbers take no part."""

    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(5, WIDTH), Reader().layers
        self.places, self.idle = nn.Parameter(torch.rand(7, WIDTH)), nn.Parameter(torch.rand(7 * WIDTH))

    def forward(self, x):
        x = self.project(x) + self.places
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_no_part_has_is_not_the_entrances_where_it_is_as_much_as_places_that_are_counted_there():
    torch.manual_seed(0)
    told = list_lines(xray.trace(Places(), torch.rand(2, 7, 5)))

    assert (told["entrance"], told["unused: idle"]) == (6 * WIDTH + 7 * WIDTH, 7 * WIDTH)


@pytest.mark.parametrize(("connector", "is_told"), [(None, False), (nn.Linear(WIDTH, WIDTH), True)])
def test_the_colour_of_what_no_tower_made_is_told_where_it_occurs(connector, is_told):
    torch.manual_seed(0)
    boxes = compose_poster(record(Sees(connector)), text_width).boxes
    texts = ["".join(run.text for line in box.lines for run in line) for box in boxes]

    assert ("between towers" in texts) == is_told


class Deep(nn.Module):
    """Rows of each layer of an image, projected in the block that reads it, are added between the layers of words."""

    def __init__(self):
        super().__init__()
        self.eye, self.reader = DeepEye(), Reader()

    def forward(self, ids, image):
        rows, added = self.eye(image)
        x = torch.cat([rows, self.reader.words(ids)], dim=1)
        for layer, more in zip(self.reader.layers, (*added, None, None), strict=True):
            x = layer(x)
            if more is not None:
                x = x + nn.functional.pad(more, (0, 0, 0, ids.shape[1]))
        return self.reader.head(x)


class DeepEye(Eye):
    """An eye that gives rows of its first layers too."""

    def __init__(self):
        super().__init__()
        self.more = nn.ModuleList(nn.Linear(SEEN, WIDTH) for _ in range(2))

    def forward(self, image):
        x, added = self.patches(image).flatten(2).mT, []
        for number, layer in enumerate(self.layers):
            x = layer(x)
            added += [self.more[number](x)] if number < len(self.more) else []
        return self.last(self.projector(self.norm(x))), added


def test_rows_added_between_layers_are_counted_in_the_block_that_works_them_out():
    torch.manual_seed(0)
    model = Deep()
    lines = list_lines(record(model))

    assert sum(lines.values()) == count(model)
    assert lines["vision exit"] == count(model.eye.projector) + count(model.eye.last) + count(model.eye.more)
    assert not any("rows added" in name for name in lines)


class Aligner(nn.Module):
    """A block of which one part reads one eye, one the other, and one what both of them became."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.both = nn.Linear(WIDTH, 11), nn.Linear(WIDTH, 13), nn.Linear(24, WIDTH)

    def forward(self, one, other):
        return self.both(torch.cat([self.left(one), self.right(other)], dim=-1))


class SeesTwice(nn.Module):
    """Words behind what two eyes see, brought together in one block (DeepSeek-VL's hybrid)."""

    def __init__(self):
        super().__init__()
        self.eye, self.other, self.aligner, self.reader = Eye(), Eye(), Aligner(), Reader()

    def forward(self, ids, image):
        seen = self.aligner(self.eye(image), self.other(image))
        return self.reader(torch.cat([seen, self.reader.words(ids)], dim=1))


def test_a_block_whose_parts_stand_behind_several_towers_is_counted_once():
    torch.manual_seed(0)
    model = SeesTwice()
    lines = list_lines(record(model))

    assert sum(lines.values()) == count(model)
    assert sum(params for name, params in lines.items() if " to tokens" in name) == count(model.aligner)
    assert lines["tokens entrance"] == count(model.reader.words)


class Asking(nn.Module):
    """Learned rows, normed, that look at what the image gives (Aria)."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Parameter(torch.rand(3, WIDTH)), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, seen):
        query = self.query(self.norm(self.rows.expand(len(seen), -1, -1)))
        return (query @ self.key(seen).mT).softmax(dim=-1) @ self.value(seen)


class LedIn(Reader):
    """Reads words behind a learned row that a linear layer of its own made as wide as they are."""

    def __init__(self):
        super().__init__()
        self.row, self.lead = nn.Parameter(torch.rand(1, SEEN)), nn.Linear(SEEN, WIDTH)

    def forward(self, x):
        return super().forward(torch.cat([self.lead(self.row).expand(len(x), 1, -1), x], dim=1))


@pytest.mark.parametrize(("asks", "surface"), [(True, "ghost"), (False, "own")])
def test_learned_rows_are_of_what_they_lead_to(asks, surface):
    torch.manual_seed(0)
    model = Sees(Asking() if asks else nn.Linear(WIDTH, WIDTH))
    model.reader = model.reader if asks else LedIn()
    entrance = read_columns(record(model))[-1].entrance

    assert [node.surface for node in entrance.nodes if node.label.endswith(("LEARNED ROWS", "LEARNED ROW"))] == [
        surface
    ]


class Silent(nn.Module):
    """A linear layer, beside whose rows another one's stand: of zeros, or of learned rows (MusicGen Melody's sound)."""

    def __init__(self, *, is_learned):
        super().__init__()
        self.project, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(7, WIDTH)
        self.rows = nn.Parameter(torch.rand(1, 2, 7)) if is_learned else None

    def forward(self, x):
        rows = torch.zeros(1, 2, 7) if self.rows is None else self.rows
        return torch.cat([self.other(rows).expand(len(x), -1, -1), self.project(x)], dim=1)


@pytest.mark.parametrize("is_learned", [False, True])
def test_rows_of_zeros_beside_those_that_a_tower_gives_are_no_way_from_it(is_learned):
    torch.manual_seed(0)
    model = Sees(Silent(is_learned=is_learned))
    between, other = model.connector, count(model.connector.other)

    lines = list_lines(record(model))
    assert lines["vision to tokens"] == count(between.project) + is_learned * (other + 2 * 7)
    assert lines["tokens entrance"] == count(model.reader.words) + (not is_learned) * other


class Reads(nn.Module):
    """What normed rows find in others, or in themselves."""

    def __init__(self):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x, memory):
        return self.look(self.norm(x), memory)


class Meets(nn.Module):
    """A layer of each of two streams: each reads a text of its own, then what the other one has come to (LTX-2)."""

    def __init__(self):
        super().__init__()
        self.read, self.meet = (nn.ModuleList(Reads() for _ in "xy") for _ in range(2))
        self.think = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH)) for _ in "xy"
        )

    def forward(self, x, y, first, other):
        x, y = x + self.read[0](x, first), y + self.read[1](y, other)
        x, y = x + self.meet[0](x, y), y + self.meet[1](y, x)
        return x + self.think[0](x), y + self.think[1](y)


class Meeting(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.ModuleList(nn.Linear(5, WIDTH) for _ in range(4))
        self.layers = nn.ModuleList(Meets() for _ in range(3))

    def forward(self, *given):
        x, y, first, other = (linear(one) for linear, one in zip(self.begin, given, strict=True))
        for layer in self.layers:
            x, y = layer(x, y, first, other)
        return x, y


def test_keys_that_the_other_stream_makes_of_its_text_are_none_of_the_attention_to_that_stream():
    columns = read_columns(xray.trace(Meeting().eval(), *(torch.rand(2, long, 5) for long in (9, 8, 7, 7))))

    reads = sum(one.numel() for one in Reads().parameters())
    assert [[panel.params for panel in column.frames[0].panels][:2] for column in columns] == [[reads, reads]] * 2
