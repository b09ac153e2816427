"""What was worked out once stands in one box, also where two lanes read it, or a router and an expert beside it."""

from collections import Counter

import pytest
import torch
import transformers
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.ends import list_untold
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import list_told


def build_glpn():
    config = transformers.GLPNConfig(
        num_encoder_blocks=2,
        depths=[2, 2],
        hidden_sizes=[12, 20],
        sr_ratios=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        patch_sizes=[7, 3],
        strides=[4, 2],
    )
    return transformers.GLPNModel(config), {"pixel_values": torch.rand(2, 3, 64, 64)}


def build_qwen2_moe():
    config = transformers.Qwen2MoeConfig(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=36,
        moe_intermediate_size=20,
        shared_expert_intermediate_size=28,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_experts=5,
        num_experts_per_tok=2,
    )
    return transformers.Qwen2MoeForCausalLM(config), {"input_ids": torch.arange(12).view(2, 6)}


def build_switch():
    config = transformers.SwitchTransformersConfig(
        vocab_size=50,
        d_model=24,
        d_kv=6,
        d_ff=36,
        num_layers=2,
        num_decoder_layers=2,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        num_heads=4,
        num_experts=3,
    )
    ids = torch.arange(12).view(2, 6)
    model = transformers.SwitchTransformersForConditionalGeneration(config)
    return model, {"input_ids": ids, "decoder_input_ids": ids[:, :4]}


def build_deformable_detr():
    net = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 24, 40, 48],
        depths=[1, 1, 2, 1],
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.DeformableDetrConfig(
        backbone_config=net,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=36,
        decoder_ffn_dim=36,
        num_queries=7,
    )
    return transformers.DeformableDetrForObjectDetection(config), {"pixel_values": torch.rand(2, 3, 64, 64)}


def read(build):
    torch.manual_seed(0)
    model, inputs = build()
    return read_columns(xray.trace(model.eval(), **inputs))


@pytest.mark.parametrize("build", [build_glpn, build_qwen2_moe, build_switch])
def test_no_step_stands_in_two_boxes_of_a_panel(build):
    for column in read(build):
        for panel in (one for frame in column.frames for one in frame.panels):
            held = Counter(name for node in panel.chart.nodes for name in {step.id for step in node.steps})
            merged = {step.id for node in panel.chart.nodes for step in node.steps if step.op == "mask_scores"}
            assert not {name for name, times in held.items() if times > 1} - merged


def test_a_convolution_that_makes_keys_and_values_fewer_is_drawn_for_both_at_once():
    (column,) = read(build_glpn)

    nodes = {node.label: node for node in column.frames[0].panels[0].chart.nodes}

    assert "CONVOLUTION 4×4, STEP 4" in nodes
    assert "NORM BEFORE K, V" in nodes
    assert not [label for label in nodes if label.startswith(("CONV 4", "NORM K"))]


def test_an_encoder_does_not_end_with_what_a_router_of_the_decoder_chooses():
    encoder, _ = read(build_switch)

    assert [node.label for node in encoder.exit.nodes] == ["LAST NORM"]


def test_a_bend_behind_a_sum_stands_in_the_box_of_that_sum_alone():
    columns = read(build_deformable_detr)

    panels = [panel for one in columns for frame in one.frames for panel in frame.panels]
    ends = {step.id for panel in panels for step in panel.chart.nodes[-1].steps}
    around = [chart for one in columns for chart in (one.entrance, one.exit) if chart is not None]
    assert any("ReLU" in panel.chart.nodes[-1].label for panel in panels)
    assert ends.isdisjoint(node.steps[0].id for chart in around for node in chart.nodes if node.steps)


def test_heads_that_work_with_the_weights_of_one_that_is_drawn_are_not_told_as_left_out():
    columns = read(build_deformable_detr)

    assert [one.path for one in list_untold(list_told(columns))] == ["model.reference_points"]


class WithSinks(nn.Module):
    """A layer of attention in which a number stands beside the keys, and the largest is taken off before softmax."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.qkv = nn.Embedding(53, 30), nn.LayerNorm(30), nn.Linear(30, 90)
        self.sinks, self.out = nn.Parameter(torch.zeros(1, 3, 1, 1)), nn.Linear(30, 30)
        self.wider, self.back, self.head = nn.Linear(30, 40), nn.Linear(40, 30), nn.Linear(30, 53)

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = (one.unflatten(-1, (3, 10)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        scores = q @ k.mT / 10**0.5
        scores = torch.cat([scores, self.sinks.expand(*scores.shape[:-1], 1)], dim=-1)
        weights = (scores - scores.max(dim=-1, keepdim=True).values).softmax(-1)[..., :-1]
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return self.head(x + self.back(self.wider(x).relu()))


def test_a_step_of_a_box_is_told_once():
    poster = compose_poster(xray.trace(WithSinks().eval(), torch.arange(14).view(2, 7)), text_width)

    (softmax,) = (box for box in poster.boxes if box.id.endswith("softmax#0"))
    assert len(softmax.steps) == len(set(softmax.steps)) > 1
    assert softmax.tooltip.count("WithSinks.sub\n") == 1
