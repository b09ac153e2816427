"""The anatomy of models of timm and diffusers, held to the sizes of their modules and to what their code says."""

import json
import lzma
from itertools import pairwise

import pytest
from story.body.elsewhere import FOLDER, NAMES, USUAL, find_package, kept, path_of, record, write
from test_recorded import differences

from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Convolution, FeedForward, PlaceMixing
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sentences.stations.of_stations import describe_station
from xray.story.sheet.columns import read_columns

RELATIVE = ("vit_relpos", "beit", "swin")


def branches_of(name, kind):
    """The branches of a kind, layer by layer, in order."""
    tower = anatomy(kept(name)[0]).towers[0]
    layers = {number: group for group in tower.groups for number in group.layers}
    return [
        branch
        for number in sorted(layers)
        for stage in layers[number].stages
        for branch in stage.branches
        if isinstance(branch, kind)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_what_is_recorded(name, update_recordings):
    if find_package(name) is None:
        pytest.skip(f"the package of {name} is not installed")
    now = json.loads(json.dumps(record(name)))
    before = json.loads(lzma.decompress(path_of(name).read_bytes())) if path_of(name).exists() else {}
    if not update_recordings and before["package"] != now["package"]:
        pytest.skip(f"{name} was kept with {before['package']}")
    found = differences(before, now)
    if found and update_recordings:
        write(name, now)
        kept.cache_clear()
    else:
        assert found == []


def test_every_kept_model_has_a_recorder():
    assert {path.name for path in FOLDER.iterdir()} == {path_of(name).name for name in NAMES}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_counted_once(name):
    trace, sizes = kept(name)

    assert anatomy(trace).params == sizes["params"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in USUAL if name != "hiera_tiny_224"])
def test_every_layer_has_the_heads_of_its_module(name):
    told = [[one.heads, one.d_k] for one in branches_of(name, Attention)]

    assert told == kept(name)[1]["attentions"][: len(told)]
    assert len(told) >= 8


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in USUAL if not name.startswith("vit_relpos")])
def test_every_feed_forward_is_as_wide_as_its_module(name):
    told = [one.d_ff for one in branches_of(name, FeedForward)]

    assert told == kept(name)[1]["forwards"][: len(told)]
    assert len(told) >= 8


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", USUAL)
def test_places_are_told_as_the_code_makes_them(name):
    told = {one.positions for one in branches_of(name, Attention)}

    wanted = "relative" if name.startswith(RELATIVE) else "rotary" if name.startswith("eva02") else "none"
    assert told == {wanted}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", USUAL)
def test_only_cosine_attention_has_norms_on_queries_and_keys(name):
    told = {one.qk_norm for one in branches_of(name, Attention)}

    assert told == {name.startswith("swinv2")}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", USUAL)
def test_nothing_in_an_image_is_called_causal(name):
    assert True not in {one.causal for one in branches_of(name, Attention)}


def test_attention_across_channels_is_not_told_as_one_of_places():
    told = branches_of("xcit_nano_12_p16_224", Attention)

    assert len(told) == 2  # the class token's, behind the twelve layers


@pytest.mark.parametrize(("name", "layers"), [("mixer_s16_224", 8), ("resmlp_12_224", 12)])
def test_linear_layers_across_places_are_no_feed_forward(name, layers):
    told = [one.d_ff for one in branches_of(name, FeedForward)]

    assert told == [wide for wide in kept(name)[1]["forwards"] if wide == max(kept(name)[1]["forwards"])]
    assert anatomy(kept(name)[0]).towers[0].layers == layers


@pytest.mark.parametrize(
    ("name", "wide", "activation"), [("mixer_s16_224", 256, "gelu"), ("resmlp_12_224", None, None)]
)
def test_linear_layers_across_places_mix_these(name, wide, activation):
    # timm's mlp_mixer.py: MixerBlock's tokens_dim is half of 512; ResBlock has one linear layer of 196 to 196
    assert {*branches_of(name, PlaceMixing)} == {PlaceMixing(196, wide, activation)}


def test_a_norm_within_a_branch_is_not_denied():
    (tower,) = anatomy(kept("convnext_tiny")[0]).towers

    assert {stage.norm.place for group in tower.groups for stage in group.stages} == {None}


def test_every_block_of_a_small_resnet_is_a_layer():
    (tower,) = anatomy(kept("resnet18")[0]).towers

    assert tower.layers == 8
    assert [(group.count, group.d_model) for group in tower.groups] == [(2, 64)] + [
        (1, width) for width in (128, 256, 512) for _ in range(2)
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["mobilevit_s", "maxvit_nano_rw_256", "twins_svt_small"])
def test_every_layer_of_a_hierarchy_has_the_heads_of_its_module(name):
    found = anatomy(kept(name)[0])

    assert [[one.heads, one.d_k] for one in branches_of(name, Attention)] == kept(name)[1]["attentions"]
    assert [(tower.name, tower.reads) for tower in found.towers] == [("vision", "image")]
    assert not found.links


def test_one_kind_of_attention_in_turns_with_one_across_channels():
    told = branches_of("davit_tiny", Attention)

    assert [[one.heads, one.d_k] for one in told] == kept("davit_tiny")[1]["attentions"][::2]
    assert {one.window for one in told} == {49, None}


def test_places_of_a_window_or_of_a_grid_are_counted():
    told = branches_of("maxvit_nano_rw_256", Attention)

    assert [one.window for one in told] == [64] * 12 + [None] * 2  # the last stage is one window


def test_the_class_token_has_layers_of_its_own_that_look_at_the_patches():
    patches, token = anatomy(kept("cait_xxs24_224")[0]).towers

    assert {one.mixed_heads for one in patches.branches if isinstance(one, Attention)} == {"both"}
    assert (patches.layers, token.layers) == (24, 2)
    assert [(one.beside, one.heads) for one in token.branches if isinstance(one, Attention)] == [("vision", 4)]


def test_blocks_without_a_sum_stand_between_layers():
    found = anatomy(kept("efficientnet_b0")[0])

    assert found.towers[0].layers == 9  # of 16 blocks
    # timm's efficientnet.py: blocks 2.0, 3.0, 4.0 and 5.0 change the width, and have no skip
    assert [(one.d_in, one.d_out) for one in found.towers[0].bridges] == [(24, 40), (40, 80), (80, 112), (112, 192)]
    assert found.untold == ()


HIERARCHIES = {
    "swin_tiny_patch4_window7_224": [96, 192, 384, 768],
    "swinv2_tiny_window8_256": [96, 192, 384, 768],
    "pvt_v2_b0": [32, 64, 160, 256],
    "convnext_tiny": [96, 192, 384, 768],
    "davit_tiny": [96, 192, 384, 768],
    "twins_svt_small": [64, 128, 256, 512],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "widths"), HIERARCHIES.items())
def test_stages_of_growing_width_are_bridged(name, widths):
    found = anatomy(kept(name)[0])
    (tower,) = found.towers

    wider = [(one.joined, one.d_in, one.d_out) for one in tower.bridges if one.d_in != one.d_out]
    assert wider == [(4, *pair) for pair in pairwise(widths)]
    assert found.untold == ()


def test_a_convolution_behind_the_first_block_of_each_stage_is_of_none():
    (tower,) = anatomy(kept("twins_svt_small")[0]).towers

    assert [one.before for one in tower.bridges if one.d_in == one.d_out] == [1, 3, 5, 15]


SHORTENED = {
    "hiera_tiny_224": ([1, 3, 10], [96, 192, 384, 768]),
    "maxvit_nano_rw_256": ([1, 3, 6], [64, 128, 256, 512]),
}


@pytest.mark.parametrize("name", SHORTENED)
def test_a_stream_that_becomes_shorter_on_its_way_past_a_sublayer_is_told_and_drawn(name):
    layers, widths = SHORTENED[name]
    (column,) = read_columns(kept(name)[0])
    (tower,) = anatomy(kept(name)[0]).towers

    # timm's hiera.py: self.proj and do_pool; maxxvit.py: Downsample2d as shortcut
    found = [(one.before, one.joined, one.d_in, one.d_out, one.within) for one in tower.bridges]
    assert found == [(at, 4, *pair, True) for at, pair in zip(layers, pairwise(widths), strict=True)]
    sums = {at: chart_stage(column.reading.flow, column.towering.layers[at][0]).node("add") for at in (0, layers[0])}
    told = "the stream comes by through "
    assert sums[layers[0]].told[0].startswith(told)
    assert sums[layers[0]].remark == ""
    assert (name == "hiera_tiny_224") == (sums[0].told == ())


def test_what_makes_global_queries_is_no_layer_of_the_stream():
    found = anatomy(kept("gcvit_xxtiny")[0])
    (tower,) = found.towers

    # timm's gcvit.py: GlobalContextVitStage, global_block(x) asks in every other block; downsample has a sum of its own
    told = [[one.heads, one.d_k] for one in branches_of("gcvit_xxtiny", Attention)]
    assert told == kept("gcvit_xxtiny")[1]["attentions"]
    assert (tower.name, tower.reads, found.links) == ("vision", "image", ())
    asking = [one.foreign_queries for one in branches_of("gcvit_xxtiny", Attention)]
    assert asking == [None, True] * 6  # in turns
    drawn = {node.label for node in nodes_of("gcvit_xxtiny") if node.key.endswith("_q")}
    assert drawn == {"REPEAT Q ×16", "REPEAT Q ×64", "Q ÷ √d_k", "HEADS Q"}
    assert [one.path for one in found.untold] == [f"stages.{stage}.global_block" for stage in range(4)]
    pairs = pairwise([64, 128, 256, 512])  # before all blocks, what makes fewer places is the entrance's own
    assert [(one.joined, one.d_in, one.d_out) for one in tower.bridges] == [(4, *pair) for pair in pairs]


def test_neighbours_are_drawn_side_by_side_as_they_are_joined():
    (column,) = read_columns(kept("swin_tiny_patch4_window7_224")[0])

    bridges = [frame.bridge for frame in column.frames if frame.bridge is not None]

    assert [node.label for node in bridges[0].nodes] == [
        "2×2 NEIGHBOURS SIDE BY SIDE: 96·4 = 384",
        "LAYER NORM",
        "LINEAR",
    ]
    assert len(bridges) == 3


def test_a_mask_of_rolled_windows_is_no_bias_of_places():
    reading = read_pass(kept("swin_tiny_patch4_window7_224")[0].passes[0])
    rolled = chart_stage(reading.flow, reading.towers[0].layers[1][0])

    assert [node.label for node in rolled.nodes if node.key.startswith(("bias", "mask", "named_mask"))] == [
        "+ BIAS OF RELATIVE PLACES",
        "MASK",
    ]


def test_shares_that_differ_from_layer_to_layer_are_told():
    (tower,) = anatomy(kept("swin_tiny_patch4_window7_224")[0]).towers

    # timm's swin_transformer.py: drop_path grows evenly from 0 to 0.1 over twelve layers
    several = [group for group in tower.groups if group.count > 1]
    assert [group.drop_paths for group in several] == [
        pytest.approx((group.layers[0] / 110, group.layers[-1] / 110), abs=0.001) for group in several
    ]
    assert several
    assert {group.drop_paths for group in tower.groups if group.count == 1} == {None}
    assert {group.dropouts for group in tower.groups} == {None}


def test_rows_beside_each_other_are_not_called_a_cache():
    labels = {node.label for node in nodes_of("SD3Transformer2DModel")}

    assert {"JOIN Q", "JOIN K", "JOIN V"} <= labels
    assert not any(label.startswith("CACHE") for label in labels)


def test_a_convolution_inside_a_feed_forward_is_drawn():
    assert "CONVOLUTION 3×3 BY CHANNEL" in {node.label for node in nodes_of("mobilevit_s")}


def nodes_of(name):
    """Every node of every chart of a model's first tower."""
    reading = read_pass(kept(name)[0].passes[0])
    stagings = reading.towers[0].stagings
    return [node for staging in stagings for node in chart_stage(reading.flow, staging).nodes]


def test_rolled_windows_are_told_from_those_that_are_not():
    rolled = [branch.rolled for branch in branches_of("swin_tiny_patch4_window7_224", Attention)]

    assert rolled[:10] == [False, True] * 5  # timm's swin_transformer.py: shift_size is 0 in every other block
    assert not any(rolled[10:])  # the last stage is one window


def test_windows_that_are_not_rolled_and_pooled_queries_are_told_as_they_are():
    found = branches_of("hiera_tiny_224", Attention)

    assert not any(branch.rolled for branch in found)
    # timm's hiera.py: the first block of each later stage pools its queries, in the windows of the stage before
    assert [(place, branch.pooled, branch.window) for place, branch in enumerate(found) if branch.pooled] == [
        (1, 4, 64),
        (3, 4, 16),
        (10, 4, None),
    ]
    assert {branch.pooled for branch in branches_of("vit_tiny_patch16_224", Attention)} == {None}


def test_a_class_token_that_asks_alone_pools_no_queries():
    told = branches_of("volo_d1_224", Attention)

    # timm's volo.py: two blocks of class attention behind fourteen of self-attention
    assert [one.pooled for one in told] == [None] * 16
    assert [[one.heads, one.d_k] for one in told[:14]] == [[12, 32]] * 14


def test_a_convolution_that_alone_mixes_places_is_no_feed_forward_though_rows_grow_wide():
    told = branches_of("mambaout_femto", Convolution)

    # timm's mambaout.py, GatedConvBlock: act(g) * cat(i, conv(c)), all cut from one linear layer
    assert {one.kernel for one in told} == {(7, 7)}
    assert not branches_of("mambaout_femto", FeedForward)
    assert [group.d_model for group in anatomy(kept("mambaout_femto")[0]).towers[0].groups] == [48, 96, 192, 288]


def test_a_gate_of_places_is_no_feed_forward():
    assert anatomy(kept("gmlp_s16_224")[0]).towers == ()  # timm's mlp.py: SpatialGatingUnit multiplies across places


def test_values_before_the_weights_are_as_wide_as_they_are():
    # timm's shvit.py: channels first, v @ attn; 0.214 of 224 and of 320 channels attend, with keys of 16
    assert {(one.d_k, one.d_v) for one in branches_of("shvit_s1", Attention)} == {(16, 48), (16, 68)}


def test_queries_and_keys_of_one_layer_have_as_many_heads():
    towers = anatomy(kept("tnt_s_patch16_224")[0]).towers

    # timm's tnt.py: qk in one linear layer, v in another; 4 heads for the pixels of a patch, 6 for patches
    told = [{(one.heads, one.kv_heads) for one in tower.branches if isinstance(one, Attention)} for tower in towers]
    assert told == [{(4, 4)}, {(6, 6)}]
    assert [part.size for part in towers[0].entrance if part.part == "positions"] == [16]


@pytest.mark.parametrize(("name", "width"), [("mixer_s16_224", 512), ("resmlp_12_224", 384)])
def test_columns_of_places_are_not_told_as_the_width_of_rows(name, width):
    assert anatomy(kept(name)[0]).towers[0].d_model == width


def test_keys_that_a_convolution_gathers_are_counted():
    told = branches_of("pvt_v2_b0", Attention)

    # timm's pvt_v2.py: sr_ratios of 8, 4, 2, 1, two layers each
    assert [one.gathered for one in told] == [64, 64, 16, 16, 4, 4, None, None]
    assert describe_station(anatomy(kept("pvt_v2_b0")[0]).towers[0], told[0]).endswith("by one key for every 64.")


def test_of_how_many_places_a_key_is_stands_in_the_boxes_of_layers_that_are_closed():
    (column,) = read_columns(kept("pvt_v2_b0")[0])

    closed = [node.extra for frame in column.frames for one in frame.panels for node in one.chart.nodes]
    told = [one for one in closed if " heads of 32" in one]
    assert told == [
        "2 heads of 32, one key for every 16 places",
        "5 heads of 32, one key for every 4 places",
        "8 heads of 32",
    ]


def test_a_head_behind_two_towers_is_drawn_behind_the_later_one_alone():
    first, second = read_columns(kept("cait_xxs24_224")[0])

    assert first.exit is None
    assert second.exit is not None
    assert [node.label for node in second.exit.nodes] == ["END TO END", "LAYER NORM", "LINEAR OF THE FIRST ROW"]
