"""What each layer of a tower works out of a condition by itself, and what is made of it before all layers."""

import pytest
import torch
from printed import lines_of

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.cards.boxless import count_unsaid, find_unsaid
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import list_unboxed


class Scaled(torch.nn.Module):
    """Layers, be it with a linear layer for each of them that a condition goes through first."""

    def __init__(self, many, layers=3):
        super().__init__()
        self.norm = torch.nn.LayerNorm(12)
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        self.times = torch.nn.ModuleList(torch.nn.Linear(5, 12) for _ in range(many))
        self.layers = layers

    def forward(self, rows, time):
        for layer in range(self.layers):
            read = self.norm(rows) * self.times[layer % len(self.times)](time)[:, None]
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
        return rows


@pytest.mark.parametrize(("many", "told"), [(3, "72 parameters × 3 layers"), (1, "72 parameters")])
def test_parameters_of_a_condition_that_each_layer_has_of_its_own_are_told_to_be_so(many, told):
    (column,) = read_columns(xray.trace(Scaled(many), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert [node.extra for node in column.condition.nodes if node.extra] == [told]


class AsKind(Scaled):
    """The same, where only the kind of number, and the shape, are taken of a text (Wan's timestep)."""

    def forward(self, rows, time, text=None):
        return super().forward(rows, time.type_as(text).expand_as(text))


def test_what_only_the_kind_of_a_condition_is_taken_of_is_no_part_of_it():
    trace = xray.trace(AsKind(3), torch.rand(2, 7, 12), torch.rand(2, 5).double(), torch.rand(2, 5))
    (column,) = read_columns(trace)

    assert anatomy(trace).towers[0].conditions == ("time",)
    assert [node.label for node in column.condition.nodes] == ["TIME", "LINEAR"]


class AddsTables(Scaled):
    """The same, each layer by what all share and a table of its own, or by that of another layer (PixArt)."""

    def __init__(self, many):
        super().__init__(1)
        self.shared = torch.nn.Linear(5, 24)
        self.tables = torch.nn.ParameterList(torch.randn(2, 12) for _ in range(many))

    def forward(self, rows, time):
        shared = self.shared(time).unflatten(-1, (2, 12))
        for layer in range(self.layers):
            scale, shift = (self.tables[layer % len(self.tables)][None] + shared).chunk(2, dim=1)
            read = self.norm(rows) * (1 + scale) + shift
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
        return rows


@pytest.mark.parametrize(("many", "told"), [(3, "24 parameters × 3 layers"), (1, "24 parameters")])
def test_a_table_of_a_condition_that_each_layer_has_of_its_own_is_told_to_be_so(many, told):
    (column,) = read_columns(xray.trace(AddsTables(many), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert [node.extra for node in column.condition.nodes if node.label == "ADDED UP"] == [told]


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


class ScaledByTurns(Scaled):
    """Layers of which every second one works its scales out of the condition's rows for each of its places."""

    def forward(self, rows, time):
        for layer, times in enumerate(self.times):
            scale = times(time[:, None].expand(-1, 7, -1))[:, :1] if layer % 2 else times(time)[:, None]
            read = self.norm(rows) * scale
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
        return rows


def test_layers_are_told_to_have_a_part_of_a_condition_only_where_it_is_of_one_shape():
    (column,) = read_columns(xray.trace(ScaledByTurns(4), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert "72 parameters × 2 layers" in [node.extra for node in column.condition.nodes]
    unsaid = find_unsaid([column])
    assert [(one.path, one.params) for one in list_unboxed([column])] == [("times.1", 72), ("times.3", 72)]
    assert dict(count_unsaid([column], unsaid))["elsewhere"]["linear"] == 2


class ScaledAtLast(Scaled):
    """The same, with a last norm that a linear layer of its own scales, of waves of one number."""

    def __init__(self):
        super().__init__(3)
        self.at_last, self.last = torch.nn.Linear(5, 12), torch.nn.LayerNorm(12)

    def forward(self, rows, time):
        time = (time * 1000.0 * torch.arange(5)).cos()
        return self.last(super().forward(rows, time)) * (1 + self.at_last(time.relu()))[:, None]


def test_what_works_a_condition_out_for_the_last_norm_alone_is_in_no_box_nor_is_what_serves_all_layers():
    (column,) = read_columns(xray.trace(ScaledAtLast(), torch.rand(2, 7, 12), torch.rand(2, 1)))

    told = dict(count_unsaid([column], find_unsaid([column])))
    assert told["elsewhere"] == {"mul": 1, "relu": 1, "linear": 1, "add": 1}


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
