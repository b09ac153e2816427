"""Parameters are counted in the one part that works with them, whatever holds or reads them."""

from typing import Any

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.cards.undrawn import list_unboxed
from xray.story.facts.totals import count_params
from xray.story.recognition.between import weights_of
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares, tell_parts

WIDTH = 15


class Asking(nn.Module):
    """Learned rows that first look at each other, and then at what comes in (DETR)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(5, WIDTH))
        self.own = nn.ModuleList(nn.MultiheadAttention(WIDTH, 3, batch_first=True) for _ in range(2))
        self.cross = nn.ModuleList(nn.MultiheadAttention(WIDTH, 3, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))

    def forward(self, x):
        rows = self.rows.expand(len(x), -1, -1)
        for number, (own, cross) in enumerate(zip(self.own, self.cross, strict=True)):
            rows = self.norms[2 * number](rows + own(rows, rows, rows, need_weights=False)[0])
            rows = self.norms[2 * number + 1](rows + cross(rows, x, x, need_weights=False)[0])
        return rows


def test_a_sublayer_that_no_data_reached_keeps_its_norm():
    torch.manual_seed(0)
    model = Asking()
    trace = xray.trace(model, torch.rand(2, 7, WIDTH))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["self-attention × 2"] == sum(one.numel() for one in model.own.parameters()) + 4 * WIDTH
    assert shares["cross-attention × 2"] == sum(one.numel() for one in model.cross.parameters()) + 4 * WIDTH


class WithMessage(nn.Module):
    """A layer that looks at one row more, worked out of the stream, that has looked at others (X-CLIP)."""

    def __init__(self):
        super().__init__()
        self.begin, self.look = nn.Linear(WIDTH, WIDTH), Attention(WIDTH, 3)
        self.layer: Any = Layer(WIDTH, Attention(WIDTH, 3), norm="before")

    def forward(self, x):
        message = self.begin(x[:, 0]).unsqueeze(0)
        message = (message + self.look(message, message)).view(-1, 1, WIDTH)
        wide = torch.cat([x, message], dim=1)
        y = self.layer.three(wide)
        x = (wide + self.layer.one(y, y))[:, : x.shape[1]]
        return x + self.layer.two(self.layer.four(x))


def test_what_works_out_rows_beside_a_stream_has_a_line_of_its_own():
    torch.manual_seed(0)
    layers: Any = [Layer(WIDTH, Attention(WIDTH, 3), norm="before"), *(WithMessage() for _ in range(3))]
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(14).view(2, 7))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}
    parts = [part for layer in layers[1:] for part in (layer.begin, layer.look)]

    assert shares["rows beside × 3"] == sum(one.numel() for part in parts for one in part.parameters())
    assert "all else" not in shares


class LooksLate(nn.Module):
    """Words that look at an image, which is read only after they were looked up (Idefics)."""

    def __init__(self):
        super().__init__()
        self.words, self.patches = nn.Embedding(31, WIDTH), nn.Conv2d(3, WIDTH, 4, stride=4)
        self.eye = nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3)))
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(4))
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, ids, image):
        x = self.words(ids)
        seen = self.eye(self.patches(image).flatten(2).mT)
        for number, layer in enumerate(self.layers):
            x = layer(x, seen if number % 2 == 0 else None)
        return self.head(x)


def test_a_tower_that_layers_look_at_is_not_counted_with_them():
    torch.manual_seed(0)
    model = LooksLate()
    trace = xray.trace(model, torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    columns = read_columns(trace)
    listed = list_shares(columns, trace)
    each = [sum(one.numel() for one in layer.parameters()) for layer in model.layers]

    assert sum(count for _, _, count in listed) == sum(one.numel() for one in model.parameters())
    assert [frame.params for frame in columns[-1].frames] == each[:2]
    assert sum(panel.params for frame in columns[-1].frames for panel in frame.panels) == sum(each[:2])


class Levels(nn.Module):
    """Two kinds of rows, each told by a row of one table which it is of (Grounding DINO)."""

    def __init__(self):
        super().__init__()
        self.words, self.others = nn.Embedding(31, WIDTH), nn.Linear(7, WIDTH)
        self.level, self.asked = nn.Parameter(torch.randn(2, WIDTH)), nn.Embedding(11, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, ids, rows):
        others = self.others(rows) + self.asked.weight.unsqueeze(0)
        x = torch.cat([self.words(ids) + self.level[0], others + self.level[1]], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_table_of_which_rows_are_taken_one_by_one_is_counted_once():
    model = Levels()
    trace = xray.trace(model, torch.arange(10).view(2, 5), torch.randn(2, 11, 7))

    listed = list_shares(read_columns(trace), trace)

    assert sum(count for _, _, count in listed) == sum(one.numel() for one in model.parameters())


class Lends(nn.Module):
    """A reader of words whose first attention holds the table of places too, and does not work with it (UDOP)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(7, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.layers[0].one.places = self.places  # type: ignore[union-attr]
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_a_table_that_a_layer_holds_and_another_part_works_with_is_counted_there_alone():
    torch.manual_seed(0)
    trace = xray.trace(Lends().eval(), torch.randint(31, (2, 5)))

    shares = {name: n for name, _, n in list_shares(read_columns(trace), trace)}

    assert shares["entrance"] == (31 + 7) * WIDTH
    assert shares["self-attention × 3"] == 3 * (4 * WIDTH * (WIDTH + 1) + 2 * WIDTH)
    assert sum(shares.values()) == count_params(trace)


class Scores(nn.Module):
    """One head for what each layer gives, held once for each (Deformable DETR)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.heads: Any = nn.ModuleList(nn.Linear(WIDTH, 7) for _ in range(3))
        for head in self.heads:
            head.weight, head.bias = self.heads[0].weight, self.heads[0].bias

    def forward(self, ids):
        x = self.words(ids)
        scores = []
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x)
            scores.append(head(x))
        return scores


def test_a_head_of_every_layer_is_counted_behind_the_last_where_it_is_drawn():
    trace = xray.trace(Scores().eval(), torch.arange(10).view(2, 5))

    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}
    assert shares["head"] == 7 * (WIDTH + 1)
    assert "all else" not in shares


class Adapts(nn.Module):
    """A layer whose feed-forward other layers may have too, with a narrow way of its own beside it (Zamba 2)."""

    def __init__(self, wide):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), wide, nn.Linear(29, WIDTH)
        self.down, self.up = nn.Linear(WIDTH, 2), nn.Linear(2, 29)
        self.before, self.attention = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x):
        rows = self.before(x)
        x = x + self.attention(rows, rows)
        normed = self.norm(x)
        return x + self.back(torch.relu(self.wide(normed) + self.up(self.down(normed))))


@pytest.mark.parametrize(
    ("groups", "seen", "rows"),
    [
        ([{"a": 7}, {"b": 5}], "", {" × 2": 12}),
        ([{"a": 7, "b": 5}, {"a": 7, "c": 3}], "", {" × 2, in common": 7, " × 2, of their own": 8}),
        ([{"a": 7, "b": 5}, {"a": 7, "c": 3}], "a", {" × 2": 8}),
        ([{"a": 7}, {"a": 7}, {"a": 7}], "", {" × 3, weights of 1": 7}),
        ([{"a": 7}, {"b": 5}, {"c": 3}], "a", {" × 3, 1 counted above": 8}),
        ([{"a": 7}, {"b": 5}, {"b": 5}], "a", {" × 3, weights of 1": 5}),
    ],
)
def test_of_how_many_parts_weights_are_is_told(groups, seen, rows):
    found = tell_parts(groups, len(groups), seen)

    assert {name: sum(weights.values()) for name, weights in found.items()} == rows


@pytest.mark.parametrize("shares", [True, False])
def test_what_sublayers_have_in_common_is_counted_apart_from_what_each_has_of_its_own(shares):
    torch.manual_seed(0)
    wide = nn.Linear(WIDTH, 29)
    model = nn.Sequential(
        nn.Embedding(31, WIDTH), *(Adapts(wide if shares else nn.Linear(WIDTH, 29)) for _ in range(3))
    )
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    found = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    of_all = sum(one.numel() for one in wide.parameters())
    layers = [layer for layer in model if isinstance(layer, Adapts)]
    own = sum(one.numel() for layer in layers for one in layer.parameters())
    own -= sum(one.numel() for layer in layers for part in (layer.attention, layer.before) for one in part.parameters())
    rows = {name: count for name, count in found.items() if name.startswith("feed-forward")}
    both = {"feed-forward × 3, in common": of_all, "feed-forward × 3, of their own": own - 3 * of_all}
    assert rows == (both if shares else {"feed-forward × 3": own})
    assert sum(found.values()) == sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize(("undrawn", "left_out"), [((), ()), (("2",), ()), (("2.back", "3.back"), ("2", "3"))])
def test_a_sublayer_of_which_nothing_is_drawn_is_counted_with_its_kind(undrawn, left_out):
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(Adapts(nn.Linear(WIDTH, 29)) for _ in range(3)))
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    columns = read_columns(trace)
    row = "feed-forward × 3"
    found, every = ({name: n for name, _, n in list_shares(columns, trace, {*names})} for names in (undrawn, ()))

    backs = [model.get_submodule(f"{name}.back") for name in left_out]
    less = sum(one.numel() for back in backs for one in back.parameters())
    assert found[row] == every[row] - less


class ScalesTwice(nn.Module):
    """Multiplies what comes in by a learned scale, between two linear layers by it again, or by another one."""

    def __init__(self, *, has_another=False):
        super().__init__()
        self.scale, self.begin = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, WIDTH)
        self.goes_on = nn.Linear(WIDTH, WIDTH)
        self.other = nn.Parameter(torch.ones(WIDTH)) if has_another else None
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, x):
        x = self.goes_on(self.begin(x * self.scale) * (self.scale if self.other is None else self.other))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("has_another", [True, False])
def test_a_scale_that_rows_are_multiplied_by_again_is_counted_once(has_another):
    model = ScalesTwice(has_another=has_another)
    trace = xray.trace(model, torch.rand(2, 7, WIDTH))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["entrance"] == WIDTH * (2 * WIDTH + 3 + has_another)
    assert sum(shares.values()) == sum(one.numel() for one in model.parameters())


class Mixes(nn.Module):
    """Looks, with what a filter that other layers have too makes of what comes in beside it (CoaT)."""

    def __init__(self, filter_of_all):
        super().__init__()
        self.looks, self.filter_of_all, self.out = Attention(WIDTH, 3), filter_of_all, nn.Linear(WIDTH, WIDTH)

    def forward(self, x, *_):
        return self.out(self.looks(x, x) + self.filter_of_all(x.mT).mT)


class InStages(nn.Module):
    """Two stages of two layers, with a filter for each stage, before each of which a learned row is put in front."""

    def __init__(self):
        super().__init__()
        self.rows: Any = nn.ParameterList(torch.randn(1, 1, WIDTH) for _ in range(2))
        self.narrow = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        filters = [nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(2)]
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Mixes(filters[n // 2]), norm="before") for n in range(4))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            if number % 2 == 0:
                x = self.narrow[number // 2](x[:, number // 2 :])
                x = torch.cat([self.rows[number // 2].expand(len(x), -1, -1), x], dim=1)
            x = layer(x)
        return x


def test_a_module_that_several_blocks_hold_is_counted_once_and_hides_no_row_beside_them():
    model = InStages()
    trace = xray.trace(model, torch.rand(2, 7, WIDTH))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["between layers × 1"] == shares["entrance"] == WIDTH * (WIDTH + 2)
    assert sum(shares.values()) == count_params(trace) == sum(one.numel() for one in model.parameters())
    assert "all else" not in shares


class Offering(nn.Module):
    """A block that makes rows to be kept, out of a norm, and what it gives, out of both."""

    def __init__(self):
        super().__init__()
        self.norm, self.kept, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, before=None):
        kept = self.kept(self.norm(x))
        return self.out(kept if before is None else kept + before), kept


class InPieces(nn.Module):
    """A block that goes over two pieces, the second time with what it kept of the first (block-recurrent)."""

    def __init__(self):
        super().__init__()
        self.block = Offering()

    def forward(self, x):
        first, second = x.chunk(2, dim=1)
        made, kept = self.block(first)
        return made, self.block(second, kept)[0]


def test_parts_of_a_block_that_another_run_of_it_used_are_counted_with_it():
    model = InPieces()
    (forward,) = xray.trace(model, torch.rand(2, 6, WIDTH)).passes
    flow = read_flow(forward)
    runs = [place for place, step in enumerate(flow.steps) if step.path == "block"]
    kept = {place for place, step in enumerate(flow.steps) if step.path in ("block.norm", "block.kept")}
    nodes = kept.union(range(runs[1], flow.ends[runs[1]]))

    assert sum(weights_of(flow, nodes).values()) == sum(one.numel() for one in model.parameters())


class Between(nn.Module):
    """Makes other rows of a stream, and adds places that are turned round, and a row of the kind of each sequence."""

    def __init__(self):
        super().__init__()
        self.out, self.into = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)
        self.places, self.kinds = nn.Parameter(torch.rand(7, WIDTH)), nn.Parameter(torch.rand(4, 1, WIDTH))

    def forward(self, x, kinds):
        return self.into(self.out(x)) + self.places.flip(0) + self.kinds[kinds]


class Flows(nn.Module):
    """Pairs of layers with something between them (TarFlow)."""

    def __init__(self, pairs):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2 * pairs))
        self.betweens: Any = nn.ModuleList(Between() for _ in range(pairs - 1))

    def forward(self, ids, kinds):
        x = self.words(ids)
        for number, layer in enumerate(self.layers):
            x = layer(self.betweens[number // 2 - 1](x, kinds) if number and number % 2 == 0 else x)
        return x


@pytest.mark.parametrize("pairs", [2, 3])
def test_what_is_added_between_layers_out_of_learned_numbers_is_counted_there(pairs):
    model = Flows(pairs)
    trace = xray.trace(model, torch.arange(14).view(2, 7), torch.tensor([1, 3]))
    columns = read_columns(trace)
    shares = {name: count for name, _, count in list_shares(columns, trace)}

    assert shares[f"between layers × {pairs - 1}"] == sum(one.numel() for one in model.betweens.parameters())
    assert "all else" not in shares
    assert not list_unboxed(columns)
