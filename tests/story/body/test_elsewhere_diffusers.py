"""The anatomy of models of diffusers, held to their settings and to what their code says."""

import pytest
from story.body.elsewhere import DIFFUSERS, kept

from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward


def test_a_u_net_is_one_tower():
    (tower,) = anatomy(kept("UNet2DConditionModel")[0]).towers

    assert tower.reads == "map"
    assert {(one.heads, one.d_k) for one in tower.branches if isinstance(one, Attention)} == {(8, 4), (8, 8)}


TRANSFORMERS = [name for name in DIFFUSERS if name != "UNet2DConditionModel"]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_diffusion_transformer_has_adaptive_norms_and_the_sizes_of_its_settings(name):
    first = anatomy(kept(name)[0]).towers[0]

    told = {(one.heads, one.d_k) for one in first.branches if isinstance(one, Attention)}
    wide = {one.d_ff for one in first.branches if isinstance(one, FeedForward)}

    inner = int(128 * 2.5) if name.startswith("Sana") else 4 * 128
    assert (first.layers, first.d_model, told, wide) == (4, 128, {(4, 32)}, {inner})
    assert all(group.stages[0].norm.adaptive for group in first.groups)


JOINT = {"SD3Transformer2DModel": (3,), "AuraFlowTransformer2DModel": (4, 3), "FluxTransformer2DModel": (4, 3)}
"""Those in which an image and a text attend together: layers of the text, and of the stack behind that reads both.

In Stable Diffusion 3's last layer nothing is done with the text after it was attended to.
"""


@pytest.mark.parametrize("name", JOINT)
def test_two_streams_of_one_attention_are_told_as_joint(name):
    image, text, *behind = anatomy(kept(name)[0]).towers

    for one, other in ((image, text), (text, image)):
        joint = [branch for branch in one.groups[0].stages[0].branches if isinstance(branch, Attention)]
        assert [(branch.source, branch.beside) for branch in joint] == [("self", other.name)]
    assert (text.layers, *(one.layers for one in behind)) == JOINT[name]
    later = [branch for one in behind for branch in one.branches if isinstance(branch, Attention)]
    assert all((branch.source, branch.beside) == ("self", None) for branch in later)
    assert len(later) == len(behind)


def test_a_layer_with_one_linear_layer_for_both_branches_is_told_with_both():
    single = anatomy(kept("FluxTransformer2DModel")[0]).towers[2].groups[0].stages[0]

    assert single.parallel
    assert [branch.part for branch in single.branches] == ["attention", "feed_forward"]
    assert single.branches[1] == FeedForward(512, "gelu tanh", gated=False)


def test_the_text_of_a_stable_diffusion_transformer_is_a_stream_until_its_last_block():
    _, text = anatomy(kept("SD3Transformer2DModel")[0]).towers

    assert text.layers == 3


@pytest.mark.parametrize(("name", "told"), [("deit3_small_patch16_224", "learned"), ("vit_tiny_patch16_224", None)])
def test_a_learned_scale_of_what_a_branch_gives_is_told_where_there_is_one(name, told):
    (tower,) = anatomy(kept(name)[0]).towers

    assert {stage.scale for group in tower.groups for stage in group.stages} == {told}
