"""Streams that are multiplied by a number: on their way past a branch, or behind the sum (LASR, Beam, Gemma 4)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class ScaledBehind(FeedForwardPart):
    """A feed-forward behind whose sum all is multiplied by one number that the model keeps (Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("number", torch.ones(1))

    def forward(self, x):
        return super().forward(x) * self.number


class Scaled(nn.Module):
    """A sum whose stream is multiplied by a number, or by a row."""

    def __init__(self, by):
        super().__init__()
        self.wide, self.back, self.by = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), by

    def forward(self, x):
        return self.by * x + self.back(torch.relu(self.wide(x)))


def stream_scales(*parts):
    (tower,) = read(Reader(*parts), rows()).towers
    return [stage.stream_scale for group in tower.groups for _ in range(group.count) for stage in group.stages]


class ScaledByOneHeld(Scaled):
    """A sum whose stream is multiplied by one number that the model keeps, and may change."""

    def __init__(self):
        super().__init__(None)
        self.register_buffer("number", torch.full((1,), 1.5))

    def forward(self, x):
        return self.number * x + self.back(torch.relu(self.wide(x)))


@pytest.mark.parametrize(
    ("scaled", "told"),
    [(lambda: Scaled(1.5), "× 1.5"), (lambda: Scaled(0.25), "÷ 4"), (ScaledByOneHeld, "× ONE NUMBER")],
)
def test_a_stream_that_is_multiplied_before_the_sum_is_told_and_drawn_with_its_number(scaled, told):
    parts = [AttentionPart(), scaled(), AttentionPart(), scaled()]

    assert stream_scales(*parts) == [None, "before"] * 2
    assert f"STREAM {told}, ADD" in {node.label for node in draw(Reader(*parts), rows())}


def test_a_stream_that_each_layer_multiplies_by_another_number_says_so():
    model = Reader(AttentionPart(), Scaled(1.5), AttentionPart(), Scaled(0.5), AttentionPart(), Scaled(2.5))
    (column,) = read_columns(xray.trace(model, rows()))

    labels = {node.label for frame in column.frames for panel in frame.panels for node in panel.chart.nodes}
    assert "STREAM × A NUMBER OF EACH LAYER, ADD" in labels
    assert "STREAM × ONE NUMBER, ADD" not in labels


def test_a_stream_that_is_multiplied_behind_the_sum_is_told_and_drawn_also_in_the_last_layer():
    parts = [AttentionPart(), ScaledBehind(), AttentionPart(), ScaledBehind()]

    assert stream_scales(*parts) == [None, "after"] * 2
    assert "ADD, × ONE NUMBER" in {node.label for node in draw(Reader(*parts), rows())}


def test_a_factor_of_one_and_a_learned_row_are_no_number_by_which_a_stream_is_multiplied():
    assert stream_scales(AttentionPart(), Scaled(1.0), AttentionPart(), Scaled(1.0)) == [None] * 4
    learned = nn.Parameter(torch.ones(WIDTH))
    assert "before" not in stream_scales(AttentionPart(), Scaled(learned), AttentionPart(), Scaled(learned))


class Averaged(nn.Module):
    """What a branch makes of the rows of a norm is added to these times learned numbers; gates mix that in (MEGA)."""

    def __init__(self):
        super().__init__()
        self.norm, self.by, self.lead = nn.LayerNorm(WIDTH), nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x):
        rows = self.norm(x)
        made = self.lead(nn.functional.silu(self.by * rows + self.back(torch.relu(self.wide(rows)))))
        return torch.addcmul(x, made.sigmoid(), made - x)


def test_rows_of_a_norm_that_the_stream_goes_past_are_no_stream_that_is_multiplied():
    parts = (FeedForwardPart(), Averaged(), FeedForwardPart(), Averaged(), FeedForwardPart())
    towers = read(Reader(*parts), rows()).towers

    assert not any(stage.stream_scale for tower in towers for group in tower.groups for stage in group.stages)


class Balanced(FeedForwardPart):
    """A feed-forward past which the stream is shifted, and multiplied, by learned numbers (Zaya)."""

    def __init__(self):
        super().__init__()
        self.shares, self.shifts = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return (x + self.shifts) * self.shares + self.back(self.bend(self.wide(self.norm(x))))


def test_numbers_that_the_stream_meets_past_a_branch_count_to_its_layer():
    parts = [AttentionPart(), Balanced(), AttentionPart(), Balanced()]
    with torch.no_grad():
        (column,) = read_columns(xray.trace(Reader(*parts), rows()))
    (frame,) = column.frames

    counted = [sum(one.numel() for one in part.parameters()) for part in parts[:2]]
    assert [panel.params for panel in frame.panels] == counted
    assert frame.params == sum(counted)


class Begun(Reader):
    """Rows that learned numbers shift and multiply before all layers, which do the same to the stream (Zaya)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.share, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):  # type: ignore[override]
        x = (self.project(x) + self.shift) * self.share
        for layer in self.layers:
            x = layer(x)
        return x


def test_numbers_that_the_stream_meets_before_all_layers_are_none_of_the_first_one():
    parts = [Balanced(), Balanced()]
    with torch.no_grad():
        (column,) = read_columns(xray.trace(Begun(*parts), rows()))

    own = sum(one.numel() for one in parts[0].parameters())
    assert [frame.params for frame in column.frames for _ in range(frame.group.count)] == [own, own]


def test_numbers_that_the_stream_meets_before_all_layers_stand_in_the_entrance():
    with torch.no_grad():
        (column,) = read_columns(xray.trace(Begun(Balanced(), Balanced()), rows()))

    assert column.entrance is not None
    assert [node.label for node in column.entrance.nodes[-2:]] == ["+ A LEARNED ROW", "× LEARNED NUMBERS"]


class Weighed(nn.Module):
    """A feed-forward that ends with a norm, and with a gate that learned numbers open (Muse Spark)."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.gate = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        made = self.back(torch.relu(self.wide(x)))
        normed = made * torch.rsqrt(made.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x + normed * torch.sigmoid(self.gate / 0.3)


def test_a_gate_that_learned_numbers_open_is_no_part_of_the_norm_before_it():
    parts = [AttentionPart(), Weighed(), AttentionPart(), Weighed()]
    boxes = {node.key: (node.label, node.extra) for node in draw(Reader(*parts), rows())}

    assert boxes["closing"] == ("RMS NORM", "")
    assert boxes["scale"] == ("× LEARNED NUMBERS", f"{WIDTH} parameters")


class ShiftedBehind(FeedForwardPart):
    """A feed-forward behind whose sum all is multiplied by learned numbers, and shifted by others (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.factors, self.shifts = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return super().forward(x) * self.factors + self.shifts


def test_a_stream_that_is_scaled_and_shifted_behind_the_sum_says_both_in_the_layer_alone():
    parts = [part for _ in range(2) for part in (AttentionPart(), ShiftedBehind())]
    model = nn.Sequential(Reader(*parts), nn.Linear(WIDTH, 29))
    (column,) = read_columns(xray.trace(model, rows()))

    assert "ADD, SCALE AND SHIFT" in {node.label for node in draw(model, rows())}
    assert [node.label for node in column.exit.nodes] == ["LINEAR"]
