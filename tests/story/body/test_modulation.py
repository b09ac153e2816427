from story.body.elsewhere import kept

from xray.ir.flow.dataflow import read_flow
from xray.story.body.modulation import find_beside_gate, list_modulation
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage


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


def test_an_ordinary_norm_is_scaled_by_nothing_beside_it():
    flow, stages = stages_of("vit_tiny_patch16_224")
    assert not any(list_modulation(flow, norm) for stage in stages for norm in stage.norms)
    assert not any(find_beside_gate(flow, joint.region.end) for stage in stages for joint in stage.joints)


def test_a_learned_scale_at_the_end_of_a_branch_is_no_gate_from_beside():
    flow, stages = stages_of("vit_small_patch14_dinov2")
    assert not any(find_beside_gate(flow, joint.region.end) for stage in stages for joint in stage.joints)
