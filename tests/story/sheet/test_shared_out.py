"""Parameters that were changed in place before the layers that work with them are counted where they work."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from handwritten import Attention, Layer
from story.sentences.makers import FALSE
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.widths import is_shared, join_parts, list_weight_sets
from xray.story.charts.stage_names import name_branch
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.parts import leave_places
from xray.story.sheet.shares import list_shares

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
    listed = list_shares(read_columns(trace, all_layers=False), trace)
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
    listed = list_shares(read_columns(trace, all_layers=False), trace)

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
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}
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


class Normed(nn.Module):
    """Attention behind a norm that is written by hand, and a linear layer of the layer's own behind both (Zamba 2)."""

    def __init__(self, norm, attend):
        super().__init__()
        self.norm, self.attend, self.own = norm, attend, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = self.norm(x)
        return x + self.own(self.attend(rows, rows))


def test_a_norm_written_by_hand_that_layers_share_counts_with_them():
    norm, attend = ScaledByOneMore(), Attention(WIDTH, 3)
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(Normed(norm, attend) for _ in range(3)))
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]

    assert f"{sum(one.numel() for one in model[1:].parameters()):,} parameters in all" in texts
    assert f"{sum(one.numel() for one in model[1].parameters()):,} parameters" in texts


class AddsOneTable(nn.Module):
    """Three layers of torch's own attention, with one table of places added to the queries and keys of each.

    The first reads a map that was laid out.
    """

    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, 24, 4, stride=4), nn.Parameter(torch.randn(16, 1, 24))
        self.attentions = nn.ModuleList(nn.MultiheadAttention(24, 3) for _ in range(3))
        self.feeds = nn.ModuleList(nn.Sequential(nn.Linear(24, 37), nn.ReLU(), nn.Linear(37, 24)) for _ in range(3))

    def forward(self, image):
        x = self.patches(image).flatten(2).permute(2, 0, 1)
        for attention, feed in zip(self.attentions, self.feeds, strict=True):
            placed = x + self.places
            x = x + attention(placed, placed, x)[0]
            x = x + feed(x)
        return x


def test_a_table_that_each_layer_adds_is_no_set_of_weights_that_they_share():
    trace = xray.trace(AddsOneTable(), torch.randn(1, 3, 16, 16))

    (group,) = xray.anatomy(trace).towers[0].groups
    assert (group.layers, group.shared_in_part) == ((0, 1, 2), None)


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
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares["head"] == 2 * WIDTH + model.more.numel()
    assert sum(shares.values()) == sum(one.numel() for one in model.parameters())
    assert "all else" not in shares


def test_turns_that_work_with_a_part_of_the_weights_of_the_first_are_of_one_set():
    turns = [frozenset({"query", "key"}), frozenset({"query"}), frozenset({"query"})]

    assert is_shared(join_parts(turns))
    assert list_weight_sets((0, 1, 2), join_parts(turns)) == ()
    assert not is_shared(join_parts([*turns, frozenset({"query", "other"})]))


@pytest.mark.parametrize(
    ("branch", "told"),
    [
        (replace(FALSE, window=5, rolled=True, pooled=2), "SELF-ATTENTION"),
        (replace(FALSE, window=5, foreign_queries=True), "ATTENTION"),
        (replace(FALSE, window=5, beside="text"), "JOINT ATTENTION"),
    ],
)
def test_windows_are_no_part_of_what_an_attention_is_called_whose_weights_are_counted(branch, told):
    assert name_branch(leave_places(branch)) == told
