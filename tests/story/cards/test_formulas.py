"""The card of formulas: those of every attention that is drawn, each with its stations where not all are alike."""

import re
from typing import Any

import pytest
import torch

import xray
from xray.renderers.sheet.poster import draw_poster
from xray.story.cards import formulas
from xray.story.cards.told import Told


def read_card(monkeypatch: pytest.MonkeyPatch, **masks: Any) -> list[tuple[str, str]]:
    """The names and formulas on the poster of a small encoder-decoder."""
    told: list[Told] = []
    listed = formulas.list_lines
    monkeypatch.setattr(formulas, "list_lines", lambda one: (told.append(one), listed(one))[1])
    torch.manual_seed(0)
    model = torch.nn.Transformer(32, 4, 1, 1, 77, batch_first=True).train()
    trace = xray.trace(model, torch.randn(2, 5, 32), torch.randn(2, 6, 32), **masks)
    draw_poster(trace, "svg")
    return [(name, "".join(run.text for run in line)) for name, line in listed(told[0])]


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
    told: list[Told] = []
    listed = formulas.list_lines
    monkeypatch.setattr(formulas, "list_lines", lambda one: (told.append(one), listed(one))[1])
    torch.manual_seed(0)
    draw_poster(xray.trace(torch.nn.Sequential(Beside(), Beside()), torch.randn(2, 5, 12)), "svg")

    found = ["".join(run.text for run in line) for _, line in listed(told[0])]
    assert [one for one in found if "softmax" in one] == ["softmax( Q·KT / √dk + mask ) · V"]
