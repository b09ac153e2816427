"""A box of a cut shows its first part: what another part goes on to is led there from what is cut."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import normalize, scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns

WAIST, HEADS, D_K, BESIDE = 4, 3, 5, 2


class WaistWithMore(nn.Module):
    """Keys and values by way of a waist; a few numbers beside it go into the keys of all heads as they are."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, HEADS * (D_K + BESIDE)), nn.Linear(HEADS * D_K, WIDTH)
        self.down, self.norm, self.up = nn.Linear(WIDTH, WAIST + BESIDE), nn.LayerNorm(WAIST), nn.Linear(WAIST, 30)

    def forward(self, x):
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, HEADS, -1).transpose(1, 2)
        waist, beside = self.down(x).split([WAIST, BESIDE], dim=-1)
        both = self.up(self.norm(waist)).view(batch, length, HEADS, 2 * D_K).transpose(1, 2)
        key, value = both.chunk(2, dim=-1)
        beside = beside.view(batch, 1, length, BESIDE).expand(-1, HEADS, -1, -1)
        seen = scaled_dot_product_attention(query, torch.cat([key, beside], dim=-1), value)
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_what_lies_beside_a_waist_is_led_from_what_is_cut():
    model = nn.Sequential(WaistWithMore(), FeedForwardPart(), WaistWithMore(), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.ones(2, 11, WIDTH)))

    chart = column.frames[0].panels[0].chart
    nodes = {node.key: node for node in chart.nodes}
    cut = next(key for key, node in nodes.items() if node.label == f"CUT: {WAIST} OF {WAIST + BESIDE}")
    below = next(key for key, node in nodes.items() if node.record is not None and node.record.shape[-1] == BESIDE)
    ways = [nodes[edge.source].label for edge in chart.edges if edge.target == below]
    assert ways == ["DOWN TO A WAIST FOR K, V"]
    assert [nodes[edge.target].label for edge in chart.edges if edge.source == cut] == ["NORM BEFORE K, V"]


class NearAndFar(nn.Module):
    """Each place looks at its neighbours and at means of all, of both by one softmax; a layer makes all (TransNeXt)."""

    def __init__(self):
        super().__init__()
        self.query, self.both, self.out = (nn.Linear(WIDTH, wide) for wide in (WIDTH, 2 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        query = normalize(self.query(x).view(batch, length, HEADS, -1).transpose(1, 2), dim=-1)
        key, value = self.both(x).chunk(2, dim=-1)
        rows = torch.cat([normalize(key, dim=-1), value], dim=-1).mT.unsqueeze(-1)
        near = nn.functional.unfold(rows, (3, 1), padding=(1, 0)).view(batch, 2 * HEADS, -1, 3, length)
        key, value = near.permute(0, 1, 4, 2, 3).chunk(2, dim=1)
        means = self.both(x.view(batch, length // 3, 3, -1).mean(2)).view(batch, length // 3, 2 * HEADS, -1)
        far_key, far_value = means.transpose(1, 2).chunk(2, dim=1)
        scores = (query.unsqueeze(-2) @ key).squeeze(-2), query @ normalize(far_key, dim=-1).mT
        near_by, far_by = torch.cat(scores, dim=-1).softmax(-1).split([3, length // 3], dim=-1)
        seen = (near_by.unsqueeze(-2) @ value.mT).squeeze(-2) + far_by @ far_value
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_a_layer_of_which_one_piece_alone_is_keys_or_values_makes_more():
    model = nn.Sequential(NearAndFar(), FeedForwardPart(), NearAndFar(), FeedForwardPart()).eval()

    (column,) = read_columns(xray.trace(model, torch.rand(2, 12, WIDTH)))

    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert {"LINEAR Q", "LINEAR K AND MORE", "LINEAR V AND MORE"} <= {*labels}
    assert "NORM Q" in labels
    assert not any(label.startswith("NORM K") for label in labels)  # what is not normed goes on beside it
