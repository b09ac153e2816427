"""Norms and sublayers that are scaled, shifted and gated by what stands beside the stream."""

from dataclasses import replace

import pytest
import torch
from handwritten import Attention
from printed import words_of
from story.body.elsewhere import kept
from torch import nn

import xray
from xray import anatomy
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.body.reading import read_pass
from xray.story.cards.boxless import count_unsaid, find_unsaid
from xray.story.cards.undrawn import list_unboxed
from xray.story.charts.stage_chart import chart_stage
from xray.story.facts.totals import count_params
from xray.story.passages.modulation import find_beside_gate, list_modulation
from xray.story.poster import compose_poster
from xray.story.sentences.of_norms import describe_adaptive
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares


def stages_of(name):
    one_pass = kept(name)[0].passes[0]
    return read_flow(one_pass), read_pass(one_pass).towers[0].layers[0]


def test_a_diffusion_transformer_scales_shifts_and_gates_each_sublayer():
    flow, stages = stages_of("DiTTransformer2DModel")
    labels = [[node.label for node in chart_stage(flow, stage).nodes] for stage in stages]
    assert [(one[0], one[-2:]) for one in labels] == [
        ("LAYER NORM, SCALED AND SHIFTED", ["× GATE", "ADD"]),
        ("LAYER NORM, SCALED AND SHIFTED", ["× GATE", "ADD"]),
    ]
    assert not [label for one in labels for label in one if "COMBINE" in label or label in ("SCALE", "MULTIPLIED")]


def test_a_condition_that_is_worked_out_once_more_for_the_last_norm_is_no_part_of_the_exit():
    (column,) = read_columns(kept("DiTTransformer2DModel")[0])

    norm, linear = column.exit.nodes
    assert (norm.label, linear.label) == ("LAST NORM, SCALED AND SHIFTED", "LINEAR")
    assert [step.op for step in norm.steps] == ["layer_norm", "mul", "add"]


def test_an_ordinary_norm_is_scaled_by_nothing_beside_it():
    flow, stages = stages_of("vit_tiny_patch16_224")
    assert not any(list_modulation(flow, norm) for stage in stages for norm in stage.norms)
    assert not any(find_beside_gate(flow, joint.region.end, joint.stream) for stage in stages for joint in stage.joints)


def test_a_learned_scale_at_the_end_of_a_branch_is_no_gate_from_beside():
    flow, stages = stages_of("vit_small_patch14_dinov2")
    assert not any(find_beside_gate(flow, joint.region.end, joint.stream) for stage in stages for joint in stage.joints)


CONDITIONS = {
    "DiTTransformer2DModel": [("timestep", "class_labels")],
    "PixArtTransformer2DModel": [("timestep",)],
    "SD3Transformer2DModel": [("timestep", "pooled_projections")] * 2,
    "FluxTransformer2DModel": [("timestep", "pooled_projections")] * 3,
    "AuraFlowTransformer2DModel": [("timestep",)] * 3,
    "vit_tiny_patch16_224": [()],
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_named_by_the_arguments_that_they_are_made_of(name):
    assert [tower.conditions for tower in anatomy(kept(name)[0]).towers] == CONDITIONS[name]


def test_parameters_of_a_condition_are_none_of_the_attention():
    trace = kept("DiTTransformer2DModel")[0]
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    # diffusers' attention.py and normalization.py: four linear layers 128 wide with biases; in each layer an embedding
    # of times and of 1,001 classes, and a linear layer to six times the width; in the end the first embedding once
    # more, and a linear layer to twice the width
    assert shares["self-attention × 4"] == 4 * 4 * (128 * 128 + 128)
    embedding = (256 * 128 + 128) + (128 * 128 + 128) + 1001 * 128
    assert shares["conditions"] == 4 * (embedding + 128 * 768 + 768) + (128 * 256 + 256)
    assert sum(shares.values()) == count_params(trace)


@pytest.mark.parametrize(
    ("name", "condition", "sublayers"),
    [
        # six times the width for each stream, of the time and what stands beside it, which all layers share
        ("SD3Transformer2DModel", 128 * 768 + 768, (66_048, 131_712)),
        ("FluxTransformer2DModel", 128 * 768 + 768, (66_112, 131_712)),
        ("AuraFlowTransformer2DModel", 128 * 768, (262_144,)),
        ("PixArtTransformer2DModel", 6 * 128, (66_048, 66_048, 131_712)),
    ],
)
def test_a_layer_counts_its_own_condition_and_not_that_of_another_stream_or_of_all_layers(name, condition, sublayers):
    columns = read_columns(kept(name)[0])[:2]  # behind the two streams of Flux stand layers of both
    frames = [frame for column in columns for frame in column.frames if 0 in frame.group.layers]

    assert {tuple(panel.params for panel in frame.panels) for frame in frames} == {sublayers}
    assert {frame.params for frame in frames} == {condition + sum(sublayers)}


def test_a_step_of_an_attention_of_two_streams_is_no_weight_that_their_layers_share():
    assert {tower.some_weights_of for tower in anatomy(kept("SD3Transformer2DModel")[0]).towers} == {None}


def test_the_way_of_a_condition_is_drawn_from_its_inputs_to_all_that_it_scales():
    (column,) = read_columns(kept("DiTTransformer2DModel")[0])
    labels = [node.label for node in sorted(column.condition.nodes, key=lambda node: node.row)]

    assert anatomy(kept("DiTTransformer2DModel")[0]).towers[0].conditioned == ("scales", "shifts", "gates")
    assert {"TIMESTEP", "CLASS LABELS", "SINES AND COSINES", "LOOK UP"} <= set(labels)
    assert column.condition.node(column.condition.head).record.shape == (2, 768)
    layout = compose_poster(kept("DiTTransformer2DModel")[0], text_width)
    assert (
        sum(line.kind == "condition" for line in layout.curves) == 4
    )  # two norms and two gates: what scales the last norm is in no box


def test_a_norm_that_is_only_shifted_is_not_called_scaled():
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(12)
            self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
            self.time = torch.nn.Linear(5, 12)

        def forward(self, rows, time):
            for _ in range(2):
                read = self.norm(rows) + self.time(time)[:, None]
                rows = rows + self.attention(read, read, read, need_weights=False)[0]
            return rows

    reading = read_pass(xray.trace(Shifted(), torch.rand(2, 7, 12), torch.rand(2, 5)).passes[0])
    (tower,) = reading.towers

    labels = [node.label for node in chart_stage(reading.flow, tower.layers[0][0]).nodes]
    assert labels[0] == "LAYER NORM, SHIFTED"
    assert tower.tower.conditioned == ("shifts",)
    assert tower.tower.conditions == ("time",)


def test_a_condition_made_of_what_the_model_holds_is_named_by_no_argument():
    class Paced(torch.nn.Module):
        """Norms are scaled by waves of a number that the model has of its own (Voxtral Realtime's delay)."""

        def __init__(self):
            super().__init__()
            self.register_buffer("rates", torch.rand(5))
            self.norm = torch.nn.LayerNorm(12)
            self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
            self.pace = torch.nn.Linear(10, 12)

        def forward(self, rows):
            angles = torch.full((1,), 6.0) * self.rates
            pace = self.pace(torch.cat([angles.cos(), angles.sin()])[None])
            for _ in range(2):
                read = self.norm(rows) * (1 + pace)
                rows = rows + self.attention(read, read, read, need_weights=False)[0]
            return rows

    trace = xray.trace(Paced(), torch.rand(2, 7, 12))
    (column,) = read_columns(trace)
    labels = [node.label for node in sorted(column.condition.nodes, key=lambda node: node.row)]

    assert anatomy(trace).towers[0].conditions == ()
    assert labels == ["SINES AND COSINES OF 6", "LINEAR"]
    assert anatomy(trace).towers[0].conditioned == ("scales",)
    texts = words_of(compose_poster(trace, text_width))
    assert "says how much each is scaled." in texts
    assert "condition: scales" in texts
    assert "condition: scales," not in texts
    assert column.condition.nodes[-1].extra == "132 parameters"


class Timed(torch.nn.Module):
    """Norms are scaled by waves of two numbers, each with linear layers of its own (Flux's time and guidance)."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(12)
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        self.first, self.second = torch.nn.Linear(10, 12), torch.nn.Linear(10, 12)

    def forward(self, rows, time, guidance, pooled=None):
        time = time if pooled is None else time + pooled.mean(dim=-1)
        pace = self.first(self.wave(time)) + self.second(self.wave(guidance))
        for _ in range(2):
            read = self.norm(rows) * (1 + pace)[:, None]
            rows = rows + self.attention(read, read, read, need_weights=False)[0]
        return rows

    def wave(self, number):
        angles = number[:, None] * torch.arange(5)
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return torch.cat([waves[:, 5:], waves[:, :5]], dim=-1)


def test_each_of_two_numbers_goes_through_sines_and_cosines_of_its_own():
    (column,) = read_columns(xray.trace(Timed(), torch.rand(2, 7, 12), torch.rand(2), torch.rand(2)))

    labels = {node.key: node.label for node in column.condition.nodes}
    led = [(labels[edge.source], labels[edge.target]) for edge in column.condition.edges]
    assert [way for way in led if "LINEAR" in way[1]] == [("SINES AND COSINES", "LINEAR")] * 2
    assert sorted(way for way in led if "SINES" in way[1]) == [
        ("GUIDANCE", "SINES AND COSINES"),
        ("TIME", "SINES AND COSINES"),
    ]


def forget_arguments(trace):
    """The same as an older version records it: which argument of the model a step reads is not said."""
    steps = (
        replace(step, inputs=tuple(replace(one, argument=None) for one in step.inputs))
        for step in trace.passes[0].steps
    )
    return replace(trace, passes=(replace(trace.passes[0], steps=tuple(steps)),))


def test_what_a_condition_is_made_of_is_told_where_all_of_it_is_known_alone():
    trace = xray.trace(Timed(), torch.rand(2, 7, 12), torch.rand(2), torch.rand(2), torch.rand(2, 5))

    assert set(anatomy(trace).towers[0].conditions) == {"time", "guidance", "pooled"}
    assert anatomy(forget_arguments(trace)).towers[0].conditions == ()
    assert "made of" not in describe_adaptive(anatomy(forget_arguments(trace)))


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


class ReadTwice(nn.Module):
    """Layers whose norms a condition scales; before some keys it does not, and what some norms give not at all."""

    def __init__(self, *, plain):
        super().__init__()
        self.norms, self.time = nn.ModuleList(nn.LayerNorm(12) for _ in range(4)), nn.Linear(5, 12)
        self.mixes, self.plain = nn.ModuleList(Attention(12, 3) for _ in range(4)), plain

    def forward(self, rows, time):
        scale = 1 + self.time(time)[:, None]
        for number, (norm, mix) in enumerate(zip(self.norms, self.mixes, strict=True)):
            read = norm(rows)
            asks = read * scale if number < 2 or not self.plain else read
            rows = rows + mix(asks, asks if number < 2 else read)
        return rows


@pytest.mark.parametrize(("plain", "told"), [(True, "Adaptive norms of some sublayers: "), (False, "Adaptive norms: ")])
def test_a_norm_that_is_scaled_for_some_of_its_readers_is_not_said_to_be_scaled_or_not(plain, told):
    found = anatomy(xray.trace(ReadTwice(plain=plain), torch.rand(2, 7, 12), torch.rand(2, 5)))

    assert describe_adaptive(found).startswith(told)


class RowsFirst(nn.Module):
    """Rows before the batch, scaled and let through by what is laid out for each place beforehand (ERNIE-Image)."""

    def __init__(self, *, laid):
        super().__init__()
        self.norms, self.mixes = (
            nn.ModuleList(nn.LayerNorm(12) for _ in range(3)),
            nn.ModuleList(Attention(12, 3) for _ in range(3)),
        )
        self.lead, self.time, self.laid = nn.Linear(12, 12), nn.Linear(5, 24), laid

    def forward(self, rows, time):
        rows = self.lead(rows).transpose(0, 1).contiguous()
        made = self.time(time).unsqueeze(0)
        made = made.expand(7, -1, -1).contiguous() if self.laid else made
        scale, gate = made.chunk(2, dim=-1)
        for norm, mix in zip(self.norms, self.mixes, strict=True):
            read = (norm(rows) * (1 + scale)).transpose(0, 1)
            rows = rows + gate * mix(read, read).transpose(0, 1)
        return rows


@pytest.mark.parametrize("laid", [True, False])
def test_a_condition_is_known_where_rows_stand_before_the_batch(laid):
    (tower,) = anatomy(xray.trace(RowsFirst(laid=laid), torch.rand(2, 7, 12), torch.rand(2, 5))).towers

    assert tower.conditions == ("time",)
    assert tower.conditioned == ("scales", "gates")


def test_places_that_the_model_holds_are_told_and_drawn():
    trace = kept("DiTTransformer2DModel")[0]
    (column,) = read_columns(trace)

    # diffusers' embeddings.py, PatchEmbed: sines for 16 x 16 patches, kept as a buffer
    assert EntrancePart("positions", 256, learned=False, sines=True) in anatomy(trace).towers[0].entrance
    assert "+ SINES OF PLACES" in [node.label for node in column.entrance.nodes]
