"""What each layer of a tower works out of a condition by itself, and what is made of it before all layers."""

import torch
from printed import lines_of
from story.body.test_modulation import Scaled

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.cards.boxless import count_unsaid, find_unsaid
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class AsKind(Scaled):
    """The same, where only the kind of number, and the shape, are taken of a text (Wan's timestep)."""

    def forward(self, rows, time, text=None):
        return super().forward(rows, time.type_as(text).expand_as(text))


def test_what_only_the_kind_of_a_condition_is_taken_of_is_no_part_of_it():
    trace = xray.trace(AsKind(3), torch.rand(2, 7, 12), torch.rand(2, 5).double(), torch.rand(2, 5))
    (column,) = read_columns(trace)

    assert anatomy(trace).towers[0].conditions == ("time",)
    assert [node.label for node in column.condition.nodes] == ["TIME", "LINEAR"]


class Long(Scaled):
    """The same, scaled by the sum of what two ways of many linear layers give (Mochi's time and pooled text)."""

    def __init__(self):
        super().__init__(1)
        self.ways = torch.nn.ModuleList(
            torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(9))) for _ in range(2)
        )

    def forward(self, rows, time, text=None):
        first, second = self.ways
        both = first(time) + second(text)
        return super().forward(rows, both.relu() + both.tanh())


def test_what_brings_the_ways_of_a_long_condition_together_has_a_box():
    (column,) = read_columns(xray.trace(Long(), torch.rand(2, 7, 12), torch.rand(2, 5), torch.rand(2, 5)))

    labels = {node.key: node.label for node in column.condition.nodes}
    led = [(labels[edge.source], labels[edge.target]) for edge in column.condition.edges]
    assert [way for way in led if way[1] == "ADDED UP"][:2] == [("LINEAR", "ADDED UP")] * 2


class Refined(Scaled):
    """Two layers are gated by what comes of a text, behind them three are scaled by a time (HunyuanVideo's text)."""

    def __init__(self):
        super().__init__(3)
        self.gates = torch.nn.ModuleList(torch.nn.Linear(7, 24) for _ in range(2))
        self.thinking = torch.nn.Sequential(torch.nn.Linear(12, 31), torch.nn.ReLU(), torch.nn.Linear(31, 12))
        self.deeper = torch.nn.Sequential(*self.thinking, torch.nn.ReLU(), torch.nn.Linear(12, 12))

    def forward(self, rows, time, text=None):
        for gates in self.gates:
            looks, thinks = gates(text)[:, None].chunk(2, dim=-1)
            read = self.norm(rows)
            rows = rows + looks * self.attention(read, read, read, need_weights=False)[0]
            rows = rows + thinks * self.thinking(self.norm(rows))
        for times in self.times:
            read = self.norm(rows) * (1 + times(time))[:, None]
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
            rows = rows + self.deeper(self.norm(rows))
        return rows


def record_refined():
    return xray.trace(Refined(), torch.rand(2, 5, 12), torch.rand(2, 5), torch.rand(2, 7))


def test_what_scales_norms_is_made_of_nothing_that_gates_other_layers():
    (tower,) = anatomy(record_refined()).towers

    assert (tower.conditions, tower.conditioned) == (("time",), ("scales",))


def test_layers_that_have_a_part_of_a_condition_of_one_shape_are_told_beside_others():
    (column,) = read_columns(record_refined())

    assert [node.extra for node in column.condition.nodes if node.extra] == ["192 parameters × 2 layers"]


def test_a_condition_leads_to_no_layers_whose_own_way_has_no_box():
    layout = compose_poster(record_refined(), text_width)

    assert lines_of(layout).count("CONDITION") == 1


class PlainFirst(Refined):
    """The same with layers before that no condition touches (Krea 2's text)."""

    def forward(self, rows, time, text=None):
        for _ in range(2):
            read = self.norm(rows)
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
        return super().forward(rows, time, text)


def test_no_box_of_a_first_layer_without_a_condition_stands_for_that_of_others():
    trace = xray.trace(PlainFirst(), torch.rand(2, 5, 12), torch.rand(2, 5), torch.rand(2, 7))
    (column,) = read_columns(trace)

    assert column.condition is None
    assert dict(count_unsaid([column], find_unsaid([column])))["elsewhere"]["linear"] == 5
