"""Norms that are scaled: by a condition behind a number, before a projection, or by their own rows."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray import anatomy
from xray.story.sentences.of_norms import describe_adaptive, describe_bare_norms
from xray.story.sheet.columns import read_columns


class ScaledBeforeProjection(torch.nn.Module):
    """A layer whose norm, of length 1, times a number, is scaled and shifted before one linear layer (Voicebox)."""

    def __init__(self):
        super().__init__()
        self.scales, self.shifts = torch.nn.Linear(5, 12), torch.nn.Linear(5, 12)
        self.all_three, self.back = torch.nn.Linear(12, 36), torch.nn.Linear(12, 12)

    def forward(self, rows, time):
        read = torch.nn.functional.normalize(rows, dim=-1) * 12**0.5
        read = read * self.scales(time)[:, None] + self.shifts(time)[:, None]
        ways = (one.unflatten(-1, (3, 4)).transpose(1, 2) for one in self.all_three(read).chunk(3, dim=-1))
        seen = torch.nn.functional.scaled_dot_product_attention(*ways)
        return rows + self.back(seen.transpose(1, 2).flatten(2))


class Voiced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(ScaledBeforeProjection() for _ in range(3))

    def forward(self, rows, time):
        for layer in self.layers:
            rows = layer(rows, time)
        return rows


def test_what_is_scaled_and_shifted_before_the_projection_bears_no_letters_of_what_that_makes():
    trace = xray.trace(Voiced(), torch.rand(2, 7, 12), torch.rand(2, 5))
    labels = [node.label for node in read_columns(trace)[0].frames[0].panels[0].chart.nodes]

    assert labels[:4] == ["NORM", "× 3.464", "MULTIPLIED, ADDED UP", "ONE LINEAR FOR Q, K, V"]


def test_a_norm_that_a_condition_scales_behind_a_number_is_adaptive():
    found = anatomy(xray.trace(Voiced(), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert describe_adaptive(found).startswith("Adaptive norms of sublayers: ")
    assert not describe_bare_norms(found)


class Squeezed(nn.Module):
    """Norms whose rows are multiplied by what a linear layer makes of the mean of the very rows that they read."""

    def __init__(self):
        super().__init__()
        self.mix, self.work = Attention(12, 3), nn.Sequential(nn.Linear(12, 17), nn.GELU(), nn.Linear(17, 12))
        self.norms, self.squeeze = nn.ModuleList(nn.LayerNorm(12) for _ in range(2)), nn.Linear(12, 12)

    def forward(self, x):
        rows = self.norms[0](x) * (1 + self.squeeze(x.mean(1, keepdim=True)))
        x = x + self.mix(rows, rows)
        return x + self.work(self.norms[1](x))


def test_a_norm_that_its_own_rows_scale_is_not_adaptive():
    model = nn.Sequential(*(Squeezed() for _ in range(2)))
    found = anatomy(xray.trace(model, torch.rand(2, 7, 12)))

    assert not describe_adaptive(found)


class PlacesTimed(nn.Module):
    """A layer whose scale, shift and gate of each place are cut from one tensor, a time for each place (Wan 2.2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(12, elementwise_affine=False), Attention(12, 3)
        self.norms, self.work = nn.LayerNorm(12), nn.Sequential(nn.Linear(12, 17), nn.GELU(), nn.Linear(17, 12))
        self.table = nn.Parameter(torch.rand(6, 12))

    def forward(self, x, time):
        parts = [part.squeeze(2) for part in (self.table + time).chunk(6, dim=2)]
        rows = self.norm(x) * (1 + parts[0]) + parts[1]
        x = x + self.mix(rows, rows) * parts[2]
        return x + self.work(self.norm(x) * (1 + parts[3]) + parts[4]) * parts[5]


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.times = nn.ModuleList(PlacesTimed() for _ in range(3)), nn.Linear(5, 6 * 12)

    def forward(self, rows, times):
        made = self.times(times).unflatten(-1, (6, 12))
        for layer in self.layers:
            rows = layer(rows, made)
        return rows


def test_each_place_may_have_a_scale_a_shift_and_a_gate_of_its_own():
    found = anatomy(xray.trace(Timed(), torch.rand(2, 7, 12), torch.rand(2, 7, 5)))

    (tower,) = found.towers
    assert (tower.layers, tower.conditions, tower.conditioned) == (3, ("times",), ("scales", "shifts", "gates"))
    assert [branch.part for branch in tower.branches] == ["attention", "feed_forward"]


class Placed(nn.Module):
    """Norms to which a linear layer of what comes in beside them is added, a row for each place (DETR's queries)."""

    def __init__(self):
        super().__init__()
        self.mix, self.work = Attention(12, 3), nn.Sequential(nn.Linear(12, 17), nn.GELU(), nn.Linear(17, 12))
        self.norms, self.places = nn.ModuleList(nn.LayerNorm(12) for _ in range(2)), nn.Linear(5, 12)

    def forward(self, x, places):
        rows = self.norms[0](x) + self.places(places)
        x = x + self.mix(rows, rows)
        return x + self.work(self.norms[1](x))


def test_rows_of_places_that_are_added_behind_a_norm_are_no_condition():
    found = anatomy(xray.trace(Placed(), torch.rand(2, 7, 12), torch.rand(2, 7, 5)))

    assert not describe_adaptive(found)


class GatedTogether(nn.Module):
    """Attention and feed-forward side by side, whose sum a condition lets through (Flux 3)."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(12, elementwise_affine=False), Attention(12, 3)
        self.work, self.made = nn.Sequential(nn.Linear(12, 17), nn.GELU(), nn.Linear(17, 12)), nn.Linear(5, 36)

    def forward(self, x, time):
        shift, scale, gate = self.made(time)[:, None].chunk(3, -1)
        rows = self.norm(x) * (1 + scale) + shift
        return x + gate * (self.mix(rows, rows) + self.work(rows))


class TogetherTimed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(GatedTogether() for _ in range(3))

    def forward(self, rows, time):
        for layer in self.layers:
            rows = layer(rows, time)
        return rows


def test_sublayers_side_by_side_may_go_through_one_gate():
    trace = xray.trace(TogetherTimed(), torch.rand(2, 7, 12), torch.rand(2, 5))
    (stage,) = anatomy(trace).towers[0].groups[0].stages
    (panel,) = read_columns(trace)[0].frames[0].panels

    assert (stage.parallel, [branch.part for branch in stage.branches]) == (True, ["attention", "feed_forward"])
    assert [node.label for node in panel.chart.nodes][-3:] == ["ADDED UP", "× GATE", "ADD"]
