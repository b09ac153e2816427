"""Parameters that were changed in place before the layers that work with them are counted where they work."""

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.facts.totals import count_params
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import count_common, list_shares

WIDTH = 15


class Divides(nn.Module):
    """A reader of words that divides some of its weights before it reads them (RWKV)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, ids):
        for layer in self.layers:
            with torch.no_grad():
                layer.two[2].weight.div_(2)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_weights_that_were_divided_first_are_counted_in_their_layers():
    torch.manual_seed(0)
    model = Divides()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    listed = list_shares(read_columns(trace, all_layers=False), count_params(trace), {})
    shares = {name: count for name, _, count in listed}
    wide = sum(one.numel() for layer in model.layers for one in layer.get_submodule("two").parameters())

    assert shares["feed-forward × 3"] == wide + 3 * 2 * WIDTH  # the norms before them
    assert sum(shares.values()) == sum(one.numel() for one in model.parameters())
    assert "all else" not in shares
    assert xray.anatomy(trace).towers[0].groups[0].shared_in_part is None


class ScaledByOneMore(nn.Module):
    """A root mean square norm that multiplies by one more than its learned numbers (Gemma)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (normed * (1.0 + self.weight.float())).type_as(x)


class EndsInNorm(nn.Module):
    """A reader of words that ends in such a norm."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.norm = ScaledByOneMore()

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def test_a_last_norm_has_all_its_learned_numbers():
    torch.manual_seed(0)
    trace = xray.trace(EndsInNorm(), torch.arange(14).view(2, 7))
    listed = list_shares(read_columns(trace, all_layers=False), count_params(trace), {})

    assert [(name, count) for name, _, count in listed][-1] == ("last norm", WIDTH)


class Pools(nn.Module):
    """A reader of words with norms behind its sums, whose end is what one learned row finds among all rows."""

    def __init__(self):
        super().__init__()
        self.words, self.probe = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(1, 1, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(3))
        self.attention, self.scores = nn.MultiheadAttention(WIDTH, 3, batch_first=True), nn.Linear(WIDTH, 2)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        found, _ = self.attention(self.probe.repeat(len(x), 1, 1), x, x)
        return self.scores(found[:, 0])


def test_norms_behind_sums_and_an_attention_at_the_end_have_all_their_weights():
    torch.manual_seed(0)
    model = Pools()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}
    end = (model.probe, *model.attention.parameters(), *model.scores.parameters())

    wide = sum(one.numel() for layer in model.layers for one in layer.get_submodule("two").parameters())
    assert shares["feed-forward × 3"] == wide + 3 * 2 * WIDTH
    assert shares["head"] == sum(one.numel() for one in end)
    assert "all else" not in shares


class SharesAttention(nn.Module):
    """Three layers with one attention for all, and a feed-forward for each."""

    def __init__(self):
        super().__init__()
        self.words, self.attention = nn.Embedding(31, WIDTH), Attention(WIDTH, 3)
        self.layers = nn.ModuleList(Layer(WIDTH, self.attention, norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_that_share_a_part_say_so_and_count_it_once():
    model = SharesAttention()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    (group,) = xray.anatomy(trace).towers[0].groups
    assert (group.shared, group.shared_in_part, group.shared_sets) == (False, True, 1)
    assert f"{sum(one.numel() for one in model.layers.parameters()):,} parameters in all" in texts
    assert not any(text.endswith("parameters each") for text in texts)
    assert "3 layers share one set of weights, and each has others" in " ".join(texts)


class TwoSets(nn.Module):
    """A feed-forward behind a norm, in two halves, each with a scale and a shift of its own in rows of one table."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * 17), nn.Linear(2 * 17, WIDTH)
        self.scales, self.shifts = nn.Parameter(torch.ones(2, 17)), nn.Parameter(torch.zeros(2, 17))

    def forward(self, x):
        halves = self.wide(self.norm(x)).chunk(2, dim=-1)
        bent = [torch.relu(half) * self.scales[place] + self.shifts[place] for place, half in enumerate(halves)]
        return x + self.back(torch.cat(bent, dim=-1))


class SharesBeside(nn.Module):
    """Three layers of one attention for all and such a feed-forward for each."""

    def __init__(self):
        super().__init__()
        self.words, self.attention, self.norm = nn.Embedding(31, WIDTH), Attention(WIDTH, 3), nn.LayerNorm(WIDTH)
        self.own: Any = nn.ModuleList(TwoSets() for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for own in self.own:
            normed = self.norm(x)
            x = own(x + self.attention(normed, normed))
        return x


def test_what_a_block_holds_beside_its_modules_is_counted_in_full_in_layers_that_share_a_part():
    model = SharesBeside()
    trace = xray.trace(model, torch.arange(14).view(2, 7))

    (column,) = read_columns(trace)
    assert [frame.group.shared_in_part for frame in column.frames] == [True]
    assert column.frames[0].panels[-1].params == sum(one.numel() for one in model.own[0].parameters())


class InTurn(SharesAttention):
    """A reader whose layers share two parts in turn."""

    def __init__(self):
        super().__init__()
        parts = [Attention(WIDTH, 3) for _ in range(2)]
        self.layers = nn.ModuleList(Layer(WIDTH, parts[number % 2], norm="before") for number in range(4))


def test_how_many_sets_layers_share_in_part_is_told():
    trace = xray.trace(InTurn(), torch.arange(14).view(2, 7))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.shared_sets == 2
    assert "4 layers share 2 sets of weights, and each has others" in " ".join(texts)


class EndToEnd(nn.Module):
    """A reader whose scores are worked out by the table of words and one more matrix, end to end (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.words, self.wide = nn.Embedding(31, 9), nn.Linear(9, WIDTH)
        self.layers: Any = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.last, self.more = nn.LayerNorm(WIDTH), nn.Parameter(torch.randn(WIDTH - 9, 31))

    def forward(self, ids):
        x = self.wide(self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return self.last(x) @ torch.cat([self.words.weight.t(), self.more])


def test_matrices_that_are_put_end_to_end_are_counted_where_they_work():
    torch.manual_seed(0)
    model = EndToEnd()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}

    assert shares["head"] == 2 * WIDTH + model.more.numel()
    assert sum(shares.values()) == sum(one.numel() for one in model.parameters())
    assert "all else" not in shares


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
    shares = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}

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
    shares = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}
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
    listed = list_shares(columns, count_params(trace), {})
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

    listed = list_shares(read_columns(trace), count_params(trace), {})

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

    shares = {name: n for name, _, n in list_shares(read_columns(trace), count_params(trace), {})}

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

    shares = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}
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


def test_weights_of_which_one_part_alone_has_more_are_not_counted_apart():
    count, seen = Mock(), {"a": 7, "b": 5, "c": 3}
    count.key, count.params, count.handing_on = {0: "a", 1: "b", 2: "a", 3: "c"}.get, {0: 7, 1: 5, 2: 7, 3: 3}.get, ()
    count.flow.steps = [Mock(settings={})] * 4

    assert count_common(count, [[0, 1], [2]], set()) is None
    assert count_common(count, [[0, 1], [2, 3]], set()) == (7, 8)
    assert count_common(count, [[0, 1], [2, 3]], seen.keys()) is None


@pytest.mark.parametrize("shares", [True, False])
def test_what_sublayers_have_in_common_is_counted_apart_from_what_each_has_of_its_own(shares):
    torch.manual_seed(0)
    wide = nn.Linear(WIDTH, 29)
    model = nn.Sequential(
        nn.Embedding(31, WIDTH), *(Adapts(wide if shares else nn.Linear(WIDTH, 29)) for _ in range(3))
    )
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    found = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}

    of_all = sum(one.numel() for one in wide.parameters())
    layers = [layer for layer in model if isinstance(layer, Adapts)]
    own = sum(one.numel() for layer in layers for one in layer.parameters())
    own -= sum(one.numel() for layer in layers for part in (layer.attention, layer.before) for one in part.parameters())
    rows = {name: count for name, count in found.items() if name.startswith("feed-forward")}
    both = {"feed-forward × 3, in common": of_all, "feed-forward × 3, of their own": own - 3 * of_all}
    assert rows == (both if shares else {"feed-forward × 3": own})
    assert sum(found.values()) == sum(one.numel() for one in model.parameters())


class Biased(nn.Module):
    """An attention that runs a network of biases that it does not hold (x-transformers)."""

    def __init__(self):
        super().__init__()
        self.all, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, biases):
        q, k, v = (one.unflatten(-1, (3, -1)).transpose(1, 2) for one in self.all(x).chunk(3, dim=-1))
        places = torch.arange(x.shape[1])
        bias = biases((places[:, None] - places)[..., None].float()).permute(2, 0, 1)
        weights = (q @ k.mT / (WIDTH // 3) ** 0.5 + bias).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


class BiasedByOne(nn.Module):
    """Layers that all run the same network of biases."""

    def __init__(self):
        super().__init__()
        self.words, self.biases = nn.Embedding(31, WIDTH), nn.Sequential(nn.Linear(1, 7), nn.SiLU(), nn.Linear(7, 3))
        self.looks, self.norms = (nn.ModuleList(make() for _ in range(3)) for make in (Biased, self.make_norm))
        self.wide = nn.ModuleList(nn.Linear(WIDTH, 29) for _ in range(3))
        self.back = nn.ModuleList(nn.Linear(29, WIDTH) for _ in range(3))

    @staticmethod
    def make_norm():
        return nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        for look, norm, wide, back in zip(self.looks, self.norms, self.wide, self.back, strict=True):
            x = x + look(norm(x), self.biases)
            x = x + back(torch.relu(wide(x)))
        return x


def test_a_network_that_blocks_run_and_do_not_hold_is_counted_beside_what_they_hold():
    torch.manual_seed(0)
    model = BiasedByOne()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    found = {name: count for name, _, count in list_shares(read_columns(trace), count_params(trace), {})}

    own = sum(one.numel() for part in (model.looks, model.norms) for one in part.parameters())
    assert found["self-attention × 3, in common"] == sum(one.numel() for one in model.biases.parameters())
    assert found["self-attention × 3, of their own"] == own
    assert "all else" not in found
