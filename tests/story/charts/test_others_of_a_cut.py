"""Rows of which a part goes a way of its own beside the heads are led there from what is cut (ProphetNet)."""

import pytest
import torch
from story.halves import D_K, HEADS, WIDTH, chart_of
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Parts(nn.Module):
    """The first row looks, and something else is made beside it: of the other part of a cut, or of that row too."""

    def __init__(self, *, in_parts):
        super().__init__()
        self.in_parts = in_parts
        self.query, self.key, self.value = (nn.Linear(WIDTH, HEADS * D_K) for _ in range(3))
        self.end = nn.Linear(HEADS * D_K, WIDTH)

    def forward(self, x):
        query, key, value = (
            made(x).view(*x.shape[:2], HEADS, D_K).transpose(1, 2) for made in (self.query, self.key, self.value)
        )
        if self.in_parts:
            first, other = query.split([1, 4], dim=2)
        else:
            first = other = query[:, :, :1]
        seen = scaled_dot_product_attention(first, key, value).transpose(1, 2).flatten(2)
        other = self.end(other.transpose(1, 2).flatten(2).tanh())
        rows = torch.cat([self.end(seen), other], dim=1)
        return rows if self.in_parts else rows.mean(dim=1, keepdim=True).expand_as(x)


@pytest.mark.parametrize(("in_parts", "led"), [(True, "HEADS Q"), (False, "1 OF 5 ROWS Q")])
def test_the_other_part_of_cut_rows_is_not_led_out_of_the_box_of_the_first_one(in_parts, led):
    chart = chart_of(lambda: Parts(in_parts=in_parts))
    (box,) = (node for node in chart.nodes if node.label == "END TO END")

    found = {chart.node(edge.source).label for edge in chart.edges if edge.target == box.key}
    assert found == {"LINEAR O", led}
    assert "1 OF 5 ROWS Q" in {node.label for node in chart.nodes}


class Meeting(nn.Module):
    """Queries, or the rows that keys are made of too, meet learned rows, and what comes of it is added (SAM)."""

    def __init__(self, *, met):
        super().__init__()
        self.qkv, self.end = nn.Linear(WIDTH, 3 * HEADS * D_K), nn.Linear(HEADS * D_K, WIDTH)
        self.rows, self.met = nn.Parameter(torch.randn(5, 5, D_K)), met

    def forward(self, x):
        parts = self.qkv(x).unflatten(-1, (3, HEADS * D_K)).permute(2, 0, 1, 3).unbind(0)
        query, key, value = (one.view(*x.shape[:2], HEADS, D_K).transpose(1, 2) for one in parts)
        met = parts[self.met].reshape(*x.shape[:2], HEADS, D_K).transpose(1, 2)
        bias = torch.einsum("bhqc,qkc->bhqk", met, self.rows)
        return self.end(scaled_dot_product_attention(query, key, value, attn_mask=bias).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("met", "led"), [(0, "HEADS Q"), (1, "HEADS K")])
def test_what_meets_one_part_of_a_cut_is_led_out_of_the_box_that_moves_that_part(met, led):
    chart = chart_of(lambda: Meeting(met=met))
    (bias,) = (node for node in chart.nodes if node.label.startswith("+ "))

    found = {chart.node(edge.source).label for edge in chart.edges if edge.target == bias.key}
    assert found == {"SCORES Q·K^T ÷ √d_k", led}


class OfOne(nn.Module):
    """One row of a sequence alone makes a query, which leaves its axis: a class token's (CaiT)."""

    def __init__(self, *, row):
        super().__init__()
        self.row = row
        self.query, self.key, self.value = (nn.Linear(WIDTH, HEADS * D_K) for _ in range(3))
        self.end = nn.Linear(HEADS * D_K, WIDTH)

    def forward(self, x):
        query = self.query(x[:, self.row]).unsqueeze(1)
        query, key, value = (
            one.unflatten(-1, (HEADS, D_K)).transpose(1, 2) for one in (query, self.key(x), self.value(x))
        )
        seen = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return self.end(seen).expand_as(x)


@pytest.mark.parametrize(("row", "label"), [(0, "THE FIRST ROW"), (-1, "THE LAST ROW")])
def test_a_row_that_alone_makes_queries_is_told_by_its_place(row, label):
    assert label in {node.label for node in chart_of(lambda: OfOne(row=row)).nodes}
