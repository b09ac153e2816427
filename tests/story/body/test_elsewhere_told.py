"""What sheets of timm's and diffusers' models say, held to their code."""

import pytest
from story.body.elsewhere import NAMES, kept

from xray.renderers.fonts import text_width
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares


def nodes_of(name, tower, layer):
    """The nodes of a layer's charts by their labels."""
    reading = read_pass(kept(name)[0].passes[0])
    stagings = reading.towers[tower].layers[layer]
    return {node.label: node for staging in stagings for node in chart_stage(reading.flow, staging).nodes}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_stands_in_two_lines_of_the_table(name):
    trace, sizes = kept(name)

    told = list_shares(read_columns(trace), trace)

    assert sum(count for _, _, count in told) == sizes["params"]


def test_a_row_that_was_taken_out_and_changed_does_not_stand_beside_the_stream():
    last = read_pass(kept("volo_d1_224")[0].passes[0]).towers[0].layers[-1]

    # timm's volo.py, ClassBlock: torch.cat([cls_embed, x[:, 1:]], dim=1), where cls_embed came out of x
    assert [staging.added for staging in last] == [None] * len(last)


def test_the_feed_forward_of_the_words_beside_an_image_is_known():
    nodes = nodes_of("AuraFlowTransformer2DModel", 1, 0)

    # diffusers' auraflow_transformer_2d.py, AuraFlowFeedForward: silu(linear_1(x)) * linear_2(x)
    assert [nodes[label].extra for label in ("GATE + SiLU", "UP")] == [f"{128 * 512:,} parameters"] * 2
    assert nodes["GATE × UP"].record.shape == (2, 18, 512)


def test_a_linear_layer_before_those_of_queries_keys_and_values_makes_none_of_them():
    labels = set(nodes_of("UNet2DConditionModel", 0, 6))

    # diffusers' transformer_2d.py: proj_in makes a stream of its own, which norm1 and to_q, to_k, to_v read
    assert {"LINEAR", "LINEAR Q", "LINEAR K", "LINEAR V"} <= labels
    assert "ONE LINEAR FOR Q, K, V" not in labels


def test_queries_that_are_made_beside_a_stream_are_called_queries_where_colours_are_told():
    boxes = compose_poster(kept("gcvit_xxtiny")[0], text_width).boxes
    texts = {run.text for box in boxes for line in box.lines for run in line}

    # timm's gcvit.py: q_global comes from the global block, keys and values from the stream
    assert [text for text in texts if text.startswith(("memory: ", "from "))] == ["from elsewhere: queries"]
