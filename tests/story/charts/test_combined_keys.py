"""Places that are added to another tower's rows for keys alone have a box; linear layers are called what they are."""

import pytest
import torch
from story.body.test_beginnings import AsksByPlace
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.attention.chart import chart_attention
from xray.story.body.reading import read_pass
from xray.story.poster import compose_poster
from xray.story.sentences.stations.of_stations import describe_station

LENGTH, ASKING = 7, 5


class LooksByPlace(nn.Module):
    """Cross-attention whose keys are made of the memory and its places, and values of the memory alone (DETR).

    Rows of all sequences may be laid out as one before a linear layer reads them (Mask2Former). Or the memory goes
    through a norm of the layer's own and has no places (Perceiver).
    """

    def __init__(self, *, is_laid=False, is_normed=False):
        super().__init__()
        self.is_laid, self.own_norm = is_laid, nn.LayerNorm(WIDTH) if is_normed else None
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, memory, places):
        memory = memory if self.own_norm is None else self.own_norm(memory)
        keys = memory + places if self.own_norm is None else memory
        keys = self.key(keys.flatten(0, 1)).view(keys.shape) if self.is_laid else self.key(keys)
        rows = self.query(x), keys, self.value(memory)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


class Detects(nn.Module):
    def __init__(self, *, is_learned=False, is_laid=False, is_normed=False):
        super().__init__()
        self.places = nn.Parameter(torch.rand(LENGTH, WIDTH)) if is_learned else None
        self.lead, self.ask = nn.Linear(WIDTH, WIDTH), nn.Embedding(ASKING, WIDTH)
        self.encoder = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
        self.attend, self.wide = (nn.ModuleList(part() for _ in range(2)) for part in (AttentionPart, FeedForwardPart))
        self.look = nn.ModuleList(LooksByPlace(is_laid=is_laid, is_normed=is_normed) for _ in range(2))

    def forward(self, rows):
        memory, asked = self.encoder(self.lead(rows)), self.ask.weight.expand(len(rows), -1, -1)
        places = torch.linspace(0, 1, LENGTH)[:, None].expand_as(memory) if self.places is None else self.places
        for attend, look, wide in zip(self.attend, self.look, self.wide, strict=True):
            asked = wide(look(attend(asked), memory, places))
        return asked


def look_up(**how):
    """The chart of the cross-attention, and the label of each box by its key."""
    torch.manual_seed(0)
    trace = xray.trace(Detects(**how).eval(), torch.rand(2, LENGTH, WIDTH))
    reading = read_pass(trace.passes[0])
    found = next(
        one
        for staging in reading.towers[1].stagings
        for one in staging.branches
        if getattr(one.branch, "source", None) == "encoder"
    )
    chart = chart_attention(reading.flow, found)
    return chart, {node.key: node.label for node in chart.nodes}


@pytest.mark.parametrize(("is_learned", "told"), [(False, "ADDED UP K"), (True, "+ LEARNED PLACES K")])
def test_places_that_keys_alone_have_are_added_where_the_memory_comes_in(is_learned, told):
    chart, labels = look_up(is_learned=is_learned)

    assert [labels[key] for key in chart.memory] == [told, "LINEAR V"]
    assert (told, "LINEAR K") in {(labels[edge.source], labels[edge.target]) for edge in chart.edges}


def test_places_are_added_before_rows_are_laid_out_for_the_linear_layer():
    chart, labels = look_up(is_learned=True, is_laid=True)
    led = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    assert [labels[key] for key in chart.memory] == ["+ LEARNED PLACES K", "LINEAR V"]
    assert {("+ LEARNED PLACES K", "CUT ANEW"), ("CUT ANEW", "LINEAR K")} <= led


def test_a_norm_that_a_layer_puts_a_memory_through_is_where_it_comes_in():
    chart, labels = look_up(is_normed=True)
    led = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    assert [labels[key] for key in chart.memory] == ["NORM BEFORE K, V"]
    assert {("NORM BEFORE K, V", "LINEAR K"), ("NORM BEFORE K, V", "LINEAR V")} <= led


def test_linear_layers_of_one_width_lead_neither_down_nor_up():
    torch.manual_seed(0)
    layers = (AsksByPlace(), FeedForwardPart(), AsksByPlace(), FeedForwardPart())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()
    reading = read_pass(xray.trace(model, torch.rand(2, LENGTH, WIDTH)).passes[0])
    chart = chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0])

    assert [node.label for node in chart.nodes].count("LINEAR Q") == 1
    assert not [node.label for node in chart.nodes if node.label.startswith(("UP", "DOWN"))]


class AsksWith(AsksByPlace):
    """Attention of queries and keys to which places are added, here of boxes that something else gave."""

    def forward(self, x, places=None):
        rows = self.query(x + places), self.key(x + places), self.value(x)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


class Refines(nn.Module):
    """Learned rows look at each other, their places worked out of `boxes` (Grounding DINO), or learned too (DETR)."""

    def __init__(self, *, is_learned):
        super().__init__()
        self.rows, self.lead = nn.Parameter(torch.rand(LENGTH, WIDTH)), nn.Linear(4, WIDTH)
        self.places = nn.Parameter(torch.rand(LENGTH, WIDTH)) if is_learned else None
        self.look = nn.ModuleList(AsksWith() for _ in range(2))
        self.wide = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, boxes):
        places = self.lead(boxes).relu() if self.places is None else self.places
        x = self.rows[None].repeat(boxes.shape[0], 1, 1)
        for look, wide in zip(self.look, self.wide, strict=True):
            x = wide(look(x, places))
        return x


@pytest.mark.parametrize(("is_learned", "told"), [(False, "ADDED UP"), (True, "+ LEARNED PLACES")])
def test_learned_rows_are_not_the_places_that_are_added_to_them(is_learned, told):
    torch.manual_seed(0)
    reading = read_pass(xray.trace(Refines(is_learned=is_learned).eval(), torch.rand(2, LENGTH, 4)).passes[0])
    chart = chart_attention(reading.flow, reading.towers[-1].stagings[0].branches[0])

    labels = [node.label for node in chart.nodes]
    assert [label for label in labels if label.startswith(("+", "ADDED"))] == [f"{told} Q", f"{told} K"]


class Repeats(Refines):
    """The same by places that are there once for each sequence, one repeated behind the other (SAM)."""

    def forward(self, boxes):
        places = self.places[None].repeat_interleave(boxes.shape[0], 0)
        x = self.lead(boxes)
        for look, wide in zip(self.look, self.wide, strict=True):
            x = wide(look(x, places))
        return x


def test_places_that_are_repeated_for_each_sequence_are_places_still():
    torch.manual_seed(0)
    reading = read_pass(xray.trace(Repeats(is_learned=True).eval(), torch.rand(2, LENGTH, 4)).passes[0])
    chart = chart_attention(reading.flow, reading.towers[-1].stagings[0].branches[0])

    assert {f"+ LEARNED PLACES {side}" for side in "QK"} <= {node.label for node in chart.nodes}


class AsksWithOwn(AsksByPlace):
    """Attention to whose queries and keys the places are added behind linear layers of their own (Conditional DETR)."""

    def __init__(self):
        super().__init__()
        self.query_places, self.key_places = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, places=None):
        rows = self.query(x) + self.query_places(places), self.key(x) + self.key_places(places), self.value(x)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(("is_learned", "told"), [(False, "ADDED UP"), (True, f"+ LINEAR OF {LENGTH} LEARNED ROWS")])
def test_learned_rows_that_go_through_a_linear_layer_before_they_are_added_are_told(is_learned, told):
    torch.manual_seed(0)
    model = Refines(is_learned=is_learned)
    model.look = nn.ModuleList(AsksWithOwn() for _ in range(2))
    trace = xray.trace(model.eval(), torch.rand(2, LENGTH, 4))
    reading = read_pass(trace.passes[0])
    chart = chart_attention(reading.flow, reading.towers[-1].stagings[0].branches[0])

    labels = [node.label for node in chart.nodes]
    assert [label for label in labels if label.startswith(("+", "ADDED"))] == [f"{told} Q", f"{told} K"]


class LooksAtPlaces(LooksByPlace):
    """The same, where values are made of the places alone (OneFormer's queries)."""

    def forward(self, x, memory, places):
        rows = self.query(x), self.key(memory + places), self.value(places)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(("last", "named"), [(LooksByPlace, "MEMORY"), (LooksAtPlaces, "FROM THE ENCODER TOWER")])
def test_a_ribbon_that_leads_to_keys_alone_is_not_called_memory(last, named):
    torch.manual_seed(0)
    model = Detects().eval()
    model.look.append(last())
    model.attend.append(AttentionPart())
    model.wide.append(FeedForwardPart(31))  # in a frame of its own, where what is drawn before is one box
    trace = xray.trace(model, torch.rand(2, LENGTH, WIDTH))

    boxes = compose_poster(trace, text_width).boxes
    texts = [box.lines[0][0].text for box in boxes if box.lines and not box.filled]
    assert [one for one in texts if one == "MEMORY" or one.startswith("FROM THE")] == [named]


@pytest.mark.parametrize(("look", "told"), [(LooksByPlace, "keys and values come"), (LooksAtPlaces, "keys come")])
def test_values_are_not_told_as_of_a_tower_that_only_keys_are_made_of(look, told):
    torch.manual_seed(0)
    model = Detects().eval()
    model.look = nn.ModuleList(look() for _ in range(2))
    trace = xray.trace(model, torch.rand(2, LENGTH, WIDTH))
    tower = xray.anatomy(trace).towers[-1]

    (asking,) = [one for one in tower.branches if getattr(one, "source", "self") != "self"]
    assert describe_station(tower, asking) == f"The decoder asks; {told} from the encoder."


class LooksAtScales(AsksByPlace):
    """Keys and values are made of all rows, of which some go through a convolution of their own first (MISSFormer)."""

    def __init__(self):
        super().__init__()
        self.shorten, self.norm_of_keys = nn.Conv1d(WIDTH, WIDTH, 2, 2), nn.LayerNorm(WIDTH)

    def forward(self, x):
        many, few = x[:, :4].mT, x[:, 4:]
        rows = self.norm_of_keys(torch.cat([self.shorten(many).mT, few], dim=1))
        made = self.query(x), self.key(rows), self.value(rows)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        weights = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))


def test_pieces_of_rows_that_are_put_together_before_keys_are_made_of_them_are_one_box():
    torch.manual_seed(0)
    layers = (LooksAtScales(), FeedForwardPart(), LooksAtScales(), FeedForwardPart())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()
    reading = read_pass(xray.trace(model, torch.rand(2, LENGTH, WIDTH)).passes[0])
    chart = chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0])

    labels = [node.label for node in chart.nodes]
    assert not [label for label in labels if label.endswith("ROWS") or label == "END TO END"]
    (box,) = [node for node in chart.nodes if "CONV" in node.label]
    assert {step.op for step in box.steps} >= {"conv1d", "cat", "index"}
