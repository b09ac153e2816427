"""Learned rows that look at other rows before a tower, in small models: told where another tower made those."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass
from xray.story.cards.undrawn import list_unboxed
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.exits.exit_chart import chart_exit
from xray.story.sheet.columns import read_columns

ROWS, SEEN, PLACES, BATCH = 3, 11, 5, 2


class Asking(nn.Module):
    """Learned rows that look at others once, by plain products."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(ROWS, WIDTH))
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def weigh(self, q, k):
        return (q @ k.transpose(-1, -2)).softmax(dim=-1)

    def forward(self, seen):
        rows = self.rows.expand(len(seen), -1, -1)
        return self.out(self.weigh(self.q(rows), self.k(seen)) @ self.v(seen))


class Turned(Asking):
    """Keys stand first in the product, so that its columns are the rows that ask."""

    def weigh(self, q, k):
        return (k @ q.transpose(-1, -2)).softmax(dim=-2).transpose(-1, -2)


class Lettered(Asking):
    """The product as an equation."""

    def weigh(self, q, k):
        return torch.einsum("bqd,bkd->bqk", q, k).softmax(dim=-1)


class AtItself(Asking):
    """Learned rows that look at learned rows, as in an encoder of prompts."""

    def forward(self, seen):
        return super().forward(self.rows.expand(len(seen), -1, -1))


class Among(nn.Module):
    """Rows of an image with layers of their own; what asks them stands before words."""

    def __init__(self, kind=Asking):
        super().__init__()
        self.lay, self.asking, self.words = nn.Linear(7, WIDTH), kind(), nn.Embedding(17, WIDTH)
        self.eye, self.layers = (
            nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart)) for _ in range(2)
        )

    def forward(self, image, ids):
        x = self.lay(image)
        for layer in self.eye:
            x = layer(x)
        return self.read(x, ids)

    def read(self, seen, ids):
        x = torch.cat([self.asking(seen), self.words(ids)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


class AmongWords(Among):
    """What asks looks at the words themselves; there is no image."""

    def forward(self, image, ids):
        return self.read(self.words(ids), ids)


def resamplers(model):
    ids = torch.arange(BATCH * PLACES).view(BATCH, PLACES)
    with torch.no_grad():
        reading = read_pass(xray.trace(model, torch.randn(BATCH, SEEN, 7), ids).passes[0])
    last = reading.towers[-1]
    told = [part.size for part in last.tower.entrance if part.part == "resampler"]
    assert told == [one.rows for one in last.resamplers]
    return [(one.rows, one.seen, reading.flow.steps[one.end].path.startswith("asking.out")) for one in last.resamplers]


@pytest.mark.parametrize("kind", [Asking, Turned, Lettered])
def test_learned_rows_that_look_at_another_tower_are_a_resampler(kind):
    assert resamplers(Among(kind)) == [(ROWS, SEEN, True)]


def test_learned_rows_that_look_at_learned_rows_are_none():
    assert resamplers(Among(AtItself)) == []


def test_learned_rows_that_look_at_rows_of_the_same_entrance_are_none():
    assert resamplers(AmongWords()) == []


class Pooling(nn.Module):
    """A learned row looks at what layers gave, and what it found goes on beside a feed-forward (SigLIP)."""

    def __init__(self):
        super().__init__()
        self.lay, self.pool, self.think = nn.Linear(7, WIDTH), Asking(), FeedForwardPart()
        self.pool.rows = nn.Parameter(torch.randn(1, WIDTH))
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, image):
        x = self.lay(image)
        for layer in self.layers:
            x = layer(x)
        return self.think(self.pool(x))[:, 0]


def test_a_learned_row_that_looks_at_what_a_tower_gives_is_one_box_above_it():
    reading = read_pass(xray.trace(Pooling(), torch.randn(BATCH, SEEN, 7)).passes[0])
    (tower,) = reading.towers

    nodes = chart_exit(reading.flow, tower, ()).nodes
    labels = [node.label for node in nodes]
    assert labels == [f"ONE LEARNED ROW LOOKS AT {SEEN}", "LAYER NORM", "LINEAR", "GELU", "LINEAR", "ADDED UP"]
    held = sum(one.numel() for one in Pooling().pool.parameters())
    assert nodes[0].extra == f"{held:,} parameters"
    assert {"pool.q", "pool.k", "pool.v", "pool.out"} <= {step.path for step in nodes[0].steps}


class ReadTwice(Asking):
    """The learned row goes through a norm first; an Identity reads it too, and nobody what that gives (Perceiver)."""

    def __init__(self):
        super().__init__()
        self.norm, self.beside = nn.LayerNorm(WIDTH), nn.Identity()

    def forward(self, seen):
        rows = self.rows.expand(len(seen), -1, -1)
        self.beside(rows)
        return self.out(self.weigh(self.q(self.norm(rows)), self.k(seen)) @ self.v(seen))


def test_learned_rows_that_go_through_a_norm_first_count_where_they_look():
    model = Pooling()
    model.pool = ReadTwice()
    reading = read_pass(xray.trace(model, torch.randn(BATCH, SEEN, 7)).passes[0])

    nodes = chart_exit(reading.flow, reading.towers[0], ()).nodes
    held = sum(one.numel() for one in model.pool.parameters())
    assert nodes[0].extra == f"{held:,} parameters"


class Closed(Asking):
    """What learned rows found goes through a norm of the same block (VideoPrism)."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Parameter(torch.randn(1, WIDTH)), nn.LayerNorm(WIDTH)

    def forward(self, seen):
        return self.norm(super().forward(seen))


def test_a_learned_row_is_counted_in_the_box_in_which_it_looks_at_others():
    model = nn.Sequential(nn.Linear(7, WIDTH), AttentionPart(), FeedForwardPart(), AttentionPart(), Closed())
    reading = read_pass(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)).passes[0])
    box = chart_exit(reading.flow, reading.towers[0], ()).nodes[0]

    assert (box.label, box.extra) == (
        f"ONE LEARNED ROW LOOKS AT {PLACES}",
        f"{4 * WIDTH * (WIDTH + 1) + WIDTH:,} parameters",
    )


class Retyped(nn.LayerNorm):
    """A norm that gives its rows the type that they had (OpenCLIP)."""

    def forward(self, x):
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps).to(x.dtype)


class Normed(Asking):
    """Learned rows that go through a norm before they look at others (CoCa)."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.last = norm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, seen):
        query, key, value = self.q(self.norm(self.rows)).expand(len(seen), -1, -1), self.k(seen), self.v(seen)
        return self.last(self.out((query @ key.transpose(1, 2) / WIDTH**0.5).softmax(-1) @ value))


@pytest.mark.parametrize("norm", [nn.LayerNorm, Retyped])
def test_learned_rows_are_counted_where_they_look_at_others_be_it_behind_a_norm(norm):
    model = nn.Sequential(nn.Linear(7, WIDTH), AttentionPart(), FeedForwardPart(), AttentionPart(), Normed(norm))
    reading = read_pass(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)).passes[0])
    box = chart_exit(reading.flow, reading.towers[0], ()).nodes[0]

    held = sum(one.numel() for one in model[-1].parameters()) - 2 * WIDTH
    assert box.extra == f"{held:,} parameters"


class Held(nn.Module):
    """Learned rows that a module of their own gives, and a norm brings to one length (Perceiver)."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Parameter(torch.randn(1, WIDTH)), nn.LayerNorm(WIDTH)

    def forward(self, count):
        return self.norm(self.rows.expand(count, -1, -1))


def test_what_makes_learned_rows_is_drawn_with_what_they_look_at():
    model = Pooling()
    model.pool.q = nn.Sequential(Held(), model.pool.q)  # type: ignore[assignment]
    model.pool.forward = lambda seen: model.pool.out(  # type: ignore[method-assign]
        model.pool.weigh(model.pool.q(len(seen)), model.pool.k(seen)) @ model.pool.v(seen)
    )
    model.pool.rows = None

    columns = read_columns(xray.trace(model, torch.randn(BATCH, SEEN, 7)))

    assert list_unboxed(columns) == ()


class Plain(nn.Module):
    """A learned row is the query itself, with no layer of its own, in one kernel (AIMv2)."""

    def __init__(self):
        super().__init__()
        self.row, self.heads = nn.Parameter(torch.randn(1, 1, WIDTH)), 2
        self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, seen):
        query, key, value = (
            one.view(len(seen), -1, self.heads, WIDTH // self.heads).transpose(1, 2)
            for one in (self.row.expand(len(seen), -1, -1), self.k(seen), self.v(seen))
        )
        found = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out(found.transpose(1, 2).reshape(len(seen), WIDTH))


def test_a_learned_row_that_is_a_query_as_it_is_multiplies_as_no_linear_layer():
    model = nn.Sequential(nn.Linear(7, WIDTH), AttentionPart(), FeedForwardPart(), AttentionPart(), Plain())
    reading = read_pass(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)).passes[0])
    chart = chart_exit(reading.flow, reading.towers[0], ())

    assert [node.label for node in chart.nodes] == [f"ONE LEARNED ROW LOOKS AT {PLACES} WITH 2 HEADS"]


class Prepared(nn.Module):
    """Learned rows go through a norm and a layer before an attention in one kernel makes its own queries of them."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Parameter(torch.randn(ROWS, WIDTH)), nn.LayerNorm(WIDTH)
        self.query, self.key, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.inner = nn.MultiheadAttention(WIDTH, 1, batch_first=True)

    def forward(self, seen):
        rows = self.query(self.norm(self.rows.repeat(len(seen), 1, 1)))
        return self.out(self.inner(rows, self.key(seen), self.key(seen))[0])


def test_no_parameters_stand_in_two_boxes_where_learned_rows_are_prepared():
    ids = torch.arange(BATCH * PLACES).view(BATCH, PLACES)
    model = Among(Prepared).eval()
    with torch.no_grad():
        reading = read_pass(xray.trace(model, torch.randn(BATCH, SEEN, 7), ids).passes[0])

    chart = chart_entrance(reading.flow, reading.towers[-1])
    extras = {node.label: node.extra for node in chart.nodes}
    assert extras["LAYER NORM"] == f"{2 * WIDTH} parameters"
    assert extras[f"{ROWS} LEARNED ROWS LOOK AT {SEEN}"] == f"{4 * WIDTH * (WIDTH + 1):,} parameters"


class Headed(Prepared):
    """The same with several heads, and keys and values of layers of their own (Aria)."""

    def __init__(self):
        super().__init__()
        self.value, self.inner = nn.Linear(WIDTH, WIDTH), nn.MultiheadAttention(WIDTH, 3, batch_first=True)

    def forward(self, seen):
        rows = self.query(self.norm(self.rows.repeat(len(seen), 1, 1)))
        return self.out(self.inner(rows, self.key(seen), self.value(seen))[0])


def test_layers_before_an_attention_of_learned_rows_are_named_for_what_it_makes_of_them_and_its_heads_told():
    ids = torch.arange(BATCH * PLACES).view(BATCH, PLACES)
    with torch.no_grad():
        reading = read_pass(xray.trace(Among(Headed).eval(), torch.randn(BATCH, SEEN, 7), ids).passes[0])
    labels = {node.steps[0].path: node.label for node in chart_entrance(reading.flow, reading.towers[-1]).nodes}

    assert {labels[f"asking.{name}"] for name in ("query", "key", "value")} == {"LINEAR Q", "LINEAR K", "LINEAR V"}
    assert f"{ROWS} LEARNED ROWS LOOK AT {SEEN} WITH 3 HEADS" in labels.values()


class Repeated(nn.Module):
    """Learned rows, repeated for each sample, of which an attention in one kernel makes its own queries (AutoBots)."""

    def __init__(self):
        super().__init__()
        self.rows, self.inner = nn.Parameter(torch.randn(ROWS, 1, WIDTH)), nn.MultiheadAttention(WIDTH, 3)

    def forward(self, seen):
        rows = self.rows.repeat(1, len(seen), 1)
        return self.inner(rows, seen.transpose(0, 1), seen.transpose(0, 1))[0].transpose(0, 1)


def test_learned_rows_that_their_box_counts_are_drawn():
    ids = torch.arange(BATCH * PLACES).view(BATCH, PLACES)
    with torch.no_grad():
        columns = read_columns(xray.trace(Among(Repeated).eval(), torch.randn(BATCH, SEEN, 7), ids))
    extras = [node.extra for node in columns[-1].entrance.nodes if "LEARNED ROWS LOOK" in node.label]

    assert extras == [f"{4 * WIDTH * (WIDTH + 1) + ROWS * WIDTH:,} parameters"]
    assert list_unboxed(columns) == ()
