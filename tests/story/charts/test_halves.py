"""What changes the stream between layers without a learned number, and what a box of several steps counts."""

from itertools import pairwise

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class NormedInside(nn.Module):
    """A feed-forward with a batch norm between its layers (LeViT)."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm, self.back = nn.Conv1d(WIDTH, 40, 1), nn.BatchNorm1d(40), nn.Conv1d(40, WIDTH, 1)

    def forward(self, x):
        return x + self.back(self.norm(self.wide(x.mT)).relu()).mT


class Halves(nn.Module):
    """Sequences in two halves, which after some layers become their mean (SegGPT)."""

    def __init__(self):
        super().__init__()
        self.before = nn.Sequential(AttentionPart(), NormedInside(), AttentionPart(), NormedInside())
        self.behind = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, x):
        x = self.before(x)
        half = len(x) // 2
        return self.behind((x[:half] + x[half:]) * 0.5)


def read_charts():
    (column,) = read_columns(xray.trace(Halves().eval(), torch.rand(4, 6, WIDTH)))
    return column


def test_halves_of_a_batch_that_are_added_up_between_layers_are_drawn():
    frames = read_charts().frames

    (bridge,) = [frame.bridge for frame in frames if frame.bridge is not None]
    assert [(node.label, node.record.shape) for node in bridge.nodes][:1] == [("ADDED UP", (2, 6, WIDTH))]


def test_a_box_counts_the_norm_that_it_names():
    panels = [panel for frame in read_charts().frames for panel in frame.panels]

    (box,) = [node for panel in panels for node in panel.chart.nodes if "BATCH NORM" in node.label]
    assert box.label == "LINEAR + BATCH NORM + ReLU"
    assert box.extra == f"{WIDTH * 40 + 40 + 2 * 40} parameters"


class Lasts(nn.Module):
    """Rows that are repeated between layers, each as often as it is to last (FastSpeech 2)."""

    def __init__(self):
        super().__init__()
        self.before = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
        self.behind = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, x):
        return self.behind(self.before(x).repeat_interleave(torch.arange(1, 1 + x.shape[1]), 1))


def test_rows_that_are_repeated_between_layers_are_drawn():
    (column,) = read_columns(xray.trace(Lasts().eval(), torch.rand(2, 4, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [(node.label, node.record.shape) for node in bridge.nodes] == [("EACH ROW REPEATED", (2, 10, WIDTH))]


class Predicts(Lasts):
    """Of what a layer gave is worked out how often each row is repeated, sequence by sequence: the last, or another."""

    def __init__(self, of_last):
        super().__init__()
        self.of_last, self.more = of_last, nn.Sequential(AttentionPart(), FeedForwardPart())
        self.often = nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.often.weight)
        nn.init.zeros_(self.often.bias)

    def forward(self, x):
        earlier = self.before(x)
        x = self.more(earlier)
        often = self.often(x if self.of_last else earlier).squeeze(-1).exp() + torch.arange(x.shape[1])
        often = (often - 1.5).round().clamp(min=0).long()
        found = torch.zeros(len(x), int(often.sum(1).max()), WIDTH)
        for number, (rows, times) in enumerate(zip(x, often, strict=True)):
            found[number, : times.sum()] = rows.repeat_interleave(times, 0)
        return self.behind(found)


def test_what_says_how_often_rows_are_repeated_is_drawn_with_what_it_is_made_of():
    (column,) = read_columns(xray.trace(Predicts(of_last=False).eval(), torch.rand(2, 5, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    labels = [node.label for node in bridge.nodes]
    ways = [(bridge.node(edge.source).label, bridge.node(edge.target).label) for edge in bridge.edges]
    assert labels == ["WHAT LAYER 2 GAVE", "LINEAR", "EXP", "− 1.5", "ROUNDED", "AT LEAST 0", "EACH ROW REPEATED"]
    assert ways == [*pairwise(labels)]
    assert [bridge.node(key).label for key in bridge.feet] == ["EACH ROW REPEATED"]
    assert bridge.nodes[-1].record.shape == (2, 8, WIDTH)


@pytest.mark.parametrize(("of_last", "counted"), [(True, 2), (False, 1)])
def test_an_anatomy_tells_of_which_layer_is_worked_out_how_often_rows_are_repeated(of_last, counted):
    trace = xray.trace(Predicts(of_last).eval(), torch.rand(2, 5, WIDTH))

    ((bridge,),) = (tower.bridges for tower in xray.anatomy(trace).towers)
    assert (bridge.before, bridge.counted) == (3, counted)


def test_the_stream_is_led_to_what_says_how_often_rows_are_repeated_where_that_is_made_of_it():
    (column,) = read_columns(xray.trace(Predicts(of_last=True).eval(), torch.rand(2, 5, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [bridge.node(key).label for key in bridge.feet] == ["LINEAR", "EACH ROW REPEATED"]


def test_rows_that_are_repeated_as_the_model_says_itself_count_nothing():
    ((bridge,),) = (tower.bridges for tower in xray.anatomy(xray.trace(Lasts().eval(), torch.rand(2, 4, WIDTH))).towers)

    assert bridge.counted is None


@pytest.mark.parametrize(
    ("times", "label"), [(3, "EACH OF 3 ROWS 3 TIMES"), (torch.tensor([1, 6, 2]), "EACH ROW REPEATED")]
)
def test_rows_that_are_repeated_alike_say_how_often(times, label):
    class Alike(Lasts):
        def forward(self, x):
            x = self.before(x)
            return self.behind(torch.cat([x[:, :1], x[:, 1:].repeat_interleave(times, 1)], 1))

    (column,) = read_columns(xray.trace(Alike().eval(), torch.rand(2, 4, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    front = "THE STREAM'S FIRST ROW IN FRONT: 1 + 9"
    assert [node.label for node in bridge.nodes] == ["ALL ROWS BUT THE FIRST", label, front]


def test_rows_that_are_cut_and_padded_between_layers_are_counted_all_the_way():
    class Cut(Lasts):
        def forward(self, x):
            x = self.before(x)
            more = nn.functional.pad(x[:, 1:].repeat_interleave(2, 1), (0, 0, 0, 5))
            return self.behind(torch.cat([x[:, :1], more[:, :8]], 1))

    (column,) = read_columns(xray.trace(Cut().eval(), torch.rand(2, 4, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [(node.label, node.record.shape[1]) for node in bridge.nodes] == [
        ("ALL ROWS BUT THE FIRST", 3),
        ("EACH OF 3 ROWS 2 TIMES", 6),
        ("PADDED TO 11 ROWS", 11),
        ("THE FIRST 8 OF 11 ROWS", 8),
        ("THE STREAM'S FIRST ROW IN FRONT: 1 + 8", 9),
    ]


def test_a_row_that_is_repeated_alone_says_which_it_is_and_how_often():
    class Last(Lasts):
        def forward(self, x):
            x = self.before(x)
            return self.behind(torch.cat([x[:, :-1].repeat_interleave(3, 1), x[:, -1:].repeat_interleave(5, 1)], 1))

    (column,) = read_columns(xray.trace(Last().eval(), torch.rand(2, 4, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    ways = {bridge.node(edge.source).label: bridge.node(edge.target).label for edge in bridge.edges}
    assert ways["ALL ROWS BUT THE LAST"] == "EACH OF 3 ROWS 3 TIMES"
    assert ways["THE LAST ROW"] == "EACH ROW 5 TIMES"


@pytest.mark.parametrize(("pad", "told"), [((1, 2), ["PADDED TO 8 PLACES", "CONVOLUTION 4"]), ((3, 0), None)])
def test_places_that_are_padded_before_a_convolution_are_counted_where_it_does_not_look_back_alone(pad, told):
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.pad, self.mix = nn.ConstantPad1d(pad, 0), nn.Conv1d(WIDTH, WIDTH, 4)

        def forward(self, x):
            x = self.pad(x.mT) if told else nn.functional.pad(x.mT, pad)
            return self.mix(x).mT

    lasts = Lasts()
    model = nn.Sequential(lasts.before, Padded(), lasts.behind).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, 5, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [node.label for node in bridge.nodes] == (told or ["CONVOLUTION OF THE LAST 4"])


def test_a_number_by_which_rows_between_layers_are_multiplied_at_last_is_drawn():
    class Scaled(Lasts):
        def forward(self, x):
            return self.behind(self.before(x).repeat_interleave(torch.arange(1, 1 + x.shape[1]), 1) * WIDTH**0.5)

    (column,) = read_columns(xray.trace(Scaled().eval(), torch.rand(2, 4, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    assert [node.label for node in bridge.nodes] == ["EACH ROW REPEATED", "× √d_model"]


class Chooses(nn.Module):
    """Words, of which some are one learned row worked out for all of them (Gradium's beginning of sound)."""

    def __init__(self):
        super().__init__()
        self.words, self.sound = nn.Embedding(11, WIDTH), nn.Linear(5, WIDTH)
        self.latent = nn.Parameter(torch.rand(5))
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, ids):
        return self.layers(torch.where(ids.eq(4)[..., None], self.sound(self.latent), self.words(ids)))


def test_rows_that_are_taken_from_one_of_two_come_in_from_both():
    (column,) = read_columns(xray.trace(Chooses().eval(), torch.arange(10).view(2, 5)))
    chart = column.entrance

    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert labels[chart.head] == "ONE OR THE OTHER"
    assert {("TABLE LOOKUP", "ONE OR THE OTHER"), ("LINEAR", "ONE OR THE OTHER")} <= ways


def test_the_first_row_of_a_learned_table_between_layers_is_none_of_the_stream():
    class Places(Lasts):  # PVT's last stage
        def __init__(self):
            super().__init__()
            self.fewer, self.places = nn.Conv1d(WIDTH, WIDTH, 2, 2), nn.Parameter(torch.rand(1, 5, WIDTH))

        def forward(self, x):
            x = self.fewer(self.before(x).mT).mT
            others = nn.functional.interpolate(self.places[:, 1:].mT, x.shape[1] - 1).mT
            return self.behind(x + torch.cat([self.places[:, :1], others], 1))

    (column,) = read_columns(xray.trace(Places().eval(), torch.rand(2, 8, WIDTH)))

    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    *_, box = bridge.nodes
    assert [node.label for node in bridge.nodes] == ["CONVOLUTION 2, STEP 2", "+ LEARNED PLACES"]
    assert box.extra == f"{5 * WIDTH} parameters"
