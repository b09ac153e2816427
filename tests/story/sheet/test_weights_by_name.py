"""Parameters are counted by their names: each in one row, a row of a stack alone, those not reached with the others."""

import torch
from handwritten import Attention
from torch import nn
from torch.nn import functional

import xray
from xray.story.facts.totals import count_params
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, WIDE, EXPERTS = 12, 17, 5


class Stacked(nn.Module):
    """Experts whose weights lie in two stacks, of which those that are chosen are taken by their number."""

    def __init__(self, *chosen):
        super().__init__()
        self.chosen, self.norm = chosen, nn.LayerNorm(WIDTH)
        self.wide, self.back = (
            nn.Parameter(torch.rand(EXPERTS, WIDE, WIDTH)),
            nn.Parameter(torch.rand(EXPERTS, WIDTH, WIDE)),
        )

    def forward(self, x):
        rows = self.norm(x)
        made = [
            functional.linear(functional.gelu(functional.linear(rows, self.wide[n])), self.back[n]) for n in self.chosen
        ]
        return x + torch.stack(made).sum(0)


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x):
        rows = self.norm(x)
        return x + self.look(rows, rows)


def shares_of(model, *given):
    trace = xray.trace(model.eval(), *given)
    columns = read_columns(trace)
    return {name: count for name, _, count in list_shares(columns, trace)}, columns, count_params(trace)


def test_rows_of_a_stack_that_no_step_takes_belong_to_the_layer_that_takes_others():
    model = nn.Sequential(nn.Embedding(31, WIDTH), *(part for _ in range(2) for part in (Looks(), Stacked(0, 3))))
    shares, (column,), params = shares_of(model, torch.arange(14).view(2, 7))

    stacks = 2 * EXPERTS * WIDE * WIDTH
    assert [panel.params for frame in column.frames for panel in frame.panels][1] == stacks + 2 * WIDTH
    assert sum(count for name, count in shares.items() if not name.startswith("of these")) == params
    assert shares["of these unused: *.wide"] == 2 * (EXPERTS - 2) * WIDE * WIDTH


class TwoParts(nn.Module):
    """Learned places that are added in two pieces, each cut out of one table (DPT)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(7, WIDTH))
        self.layers = nn.Sequential(Looks(), Looks())

    def forward(self, ids):
        x = self.words(ids)
        return self.layers(torch.cat([x[:, :1] + self.places[:1], x[:, 1:] + self.places[1:]], dim=1))


def test_a_table_of_which_two_parts_are_read_counts_once():
    shares, _, params = shares_of(TwoParts(), torch.arange(14).view(2, 7))

    assert shares["entrance"] == (31 + 7) * WIDTH
    assert sum(shares.values()) == params
