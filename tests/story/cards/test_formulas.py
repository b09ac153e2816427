"""The card of formulas: those of every attention that is drawn, each with its stations where not all are alike."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

import xray
from xray.renderers.sheet.poster import draw_poster
from xray.story.cards import formulas
from xray.story.cards.told import Told


def read_card(monkeypatch: pytest.MonkeyPatch, dropout: float = 0.0, **masks: Any) -> list[tuple[str, str]]:
    """The names and formulas on the poster of a small encoder-decoder."""
    torch.manual_seed(0)
    model = torch.nn.Transformer(32, 4, 1, 1, 77, dropout, batch_first=True).train()
    return draw_card(monkeypatch, model, torch.randn(2, 5, 32), torch.randn(2, 6, 32), **masks)[1]


def draw_card(
    monkeypatch: pytest.MonkeyPatch, model: torch.nn.Module, *given: torch.Tensor, **options: Any
) -> tuple[Told, list[tuple[str, str]]]:
    """What the cards of a model's poster tell of, and the names and formulas on it."""
    told: list[Told] = []
    listed = formulas.list_lines
    monkeypatch.setattr(formulas, "list_lines", lambda one: (told.append(one), listed(one))[1])
    draw_poster(xray.trace(model, *given, **options), "svg")
    return told[0], [(name, "".join(run.text for run in line)) for name, line in listed(told[0])]


def test_where_one_attention_alone_is_masked_each_formula_says_its_stations(monkeypatch: pytest.MonkeyPatch) -> None:
    future = torch.nn.Transformer.generate_square_subsequent_mask(6)
    card = dict(read_card(monkeypatch, tgt_mask=future, tgt_is_causal=True))

    (masked,) = [name for name, formula in card.items() if "mask" in formula]
    (open_to_all,) = [name for name, formula in card.items() if formula.startswith("softmax") and "mask" not in formula]
    stations = {int(number) for number in re.findall(r"\d+", masked.partition(":")[0])}
    others = {int(number) for number in re.findall(r"\d+", open_to_all.partition(":")[0])}
    assert (len(stations), len(others)) == (1, 2)
    assert min(others) < min(stations) < max(others)  # encoder, decoder, and the decoder's way to the memory
    assert card["width of one head, d_k"] == "d_model / heads = 32 / 4 = 8"


def test_where_all_are_alike_no_station_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, _ in read_card(monkeypatch)]

    assert names == ["attention: each row sums to 1", "width of one head, d_k"]


def test_rows_of_weights_of_which_some_are_dropped_sum_to_1_before_that(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, _ in read_card(monkeypatch, dropout=0.1)]

    assert names == ["attention: each row sums to 1 before dropout", "width of one head, d_k"]


def test_stations_are_told_in_words() -> None:
    assert formulas.describe_stations([4]) == " at station 4"
    assert formulas.describe_stations([5, 2, 9]) == " at stations 2, 5 and 9"


class Beside(torch.nn.Module):
    """Attention that hides the future and a feed-forward beside each other, both of them read one norm (GPT-J)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.project, self.out = torch.nn.LayerNorm(12), torch.nn.Linear(12, 36), torch.nn.Linear(12, 12)
        self.up, self.down = torch.nn.Linear(12, 30), torch.nn.Linear(30, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = (one.view(2, 5, 3, 4).transpose(1, 2) for one in self.project(normed).chunk(3, -1))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(seen.transpose(1, 2).flatten(2)) + self.down(torch.relu(self.up(normed)))


def test_the_formula_of_what_has_another_branch_beside_it_has_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    _, card = draw_card(monkeypatch, torch.nn.Sequential(Beside(), Beside()), torch.randn(2, 5, 12))

    found = [formula for _, formula in card]
    assert [one for one in found if "softmax" in one] == ["softmax( Q·KT / √dk + mask ) · V"]


class Heads(torch.nn.Module):
    """Attention of heads that are so wide, whatever the stream is."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.wide, self.norm, self.out = wide, torch.nn.LayerNorm(12), torch.nn.Linear(3 * wide, 12)
        self.ways = torch.nn.ModuleList(torch.nn.Linear(12, 3 * wide) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = (way(normed).view(2, 5, 3, self.wide).transpose(1, 2) for way in self.ways)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_the_width_of_heads_is_of_its_station_where_attentions_that_stand_closed_have_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    told, card = draw_card(monkeypatch, torch.nn.Sequential(*map(Heads, (7, 7, 11, 7))), torch.randn(2, 5, 12))

    assert not any(panel.is_open for panel in told.frames[0][1][1].panels)
    assert dict(card)["width of one head, d_k at station 2"] == "heads × d_k = 3 × 7 = 21, d_model 12"


def test_the_width_of_heads_is_not_told_where_boxes_show_other_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    told, _ = draw_card(monkeypatch, torch.nn.Sequential(Beside(), Beside()), torch.randn(2, 5, 12))
    tower, panel, branch = next(formulas.list_attentions(told))

    found = {
        heads: [name for name, *_ in formulas.list_formulas(tower, replace(branch, heads=heads), panel.chart.nodes)]
        for heads in (3, 6)
    }
    assert {heads: "width of one head, d_k" in names for heads, names in found.items()} == {3: True, 6: False}


class Sunk(Heads):
    """The same written out, with a learned score beside the keys or without."""

    def __init__(self, sunk: bool) -> None:
        super().__init__(4)
        self.sinks = torch.nn.Parameter(torch.zeros(3)) if sunk else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = (way(normed).view(2, 5, 3, self.wide).transpose(1, 2) for way in self.ways)
        scores = q @ k.transpose(2, 3) / 2
        if self.sinks is not None:
            scores = torch.cat([scores, self.sinks.view(1, 3, 1, 1).expand(2, 3, 5, 1)], -1)
        seen = scores.softmax(-1)[..., :5] @ v
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_a_formula_with_a_sink_is_of_its_station_where_attentions_that_stand_closed_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    told, card = draw_card(
        monkeypatch, torch.nn.Sequential(*map(Sunk, (True, True, False, True))), torch.randn(2, 5, 12)
    )

    named = {formula: name for name, formula in card}
    opened = [panel.is_open for frame in told.frames[0][1] for panel in frame.panels]
    told_of = [name for line, name in named.items() if "softmax" in line]
    assert len(told_of) == sum(opened)
    assert all("at station" in name for name in told_of)


class Hiding(Heads):
    """The same written out, which looks back alone, be it that it hides the future twice, or everywhere."""

    def __init__(self, hides: int) -> None:
        super().__init__(4)
        self.hides = hides

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = (way(normed).view(2, 5, 3, self.wide).transpose(1, 2) for way in self.ways)
        scores = q @ k.transpose(2, 3) / 2
        for _ in range(self.hides):
            scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -1e9)
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("hides", [(1, 1, 0, 1), (2, 2, 1, 2)])
def test_a_formula_with_a_mask_is_of_its_station_where_attentions_that_stand_closed_have_fewer(
    monkeypatch: pytest.MonkeyPatch, hides: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    told, card = draw_card(monkeypatch, torch.nn.Sequential(*map(Hiding, hides)), torch.randn(2, 5, 12))

    assert not any(panel.is_open for panel in told.frames[0][1][1].panels)
    assert [name for name, line in card if "mask" in line] == ["attention at station 2: each row sums to 1"]
