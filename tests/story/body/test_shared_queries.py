"""Learned queries that are there once for a whole batch, and become a sequence of their own at the first sum."""

import torch
from transformers import Blip2QFormerConfig, Blip2QFormerModel

import xray
from xray.story.anatomy.attentions import Attention

QUERIES, SEEN, LENGTH, WIDTH = 3, 20, 7, 32


def test_the_first_layer_looks_at_what_it_is_given_as_the_others_do():
    config = Blip2QFormerConfig(
        hidden_size=WIDTH,
        encoder_hidden_size=SEEN,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=40,
        cross_attention_frequency=2,
    )
    model = Blip2QFormerModel(config).eval()
    trace = xray.trace(
        model, query_embeds=torch.randn(1, QUERIES, WIDTH), encoder_hidden_states=torch.randn(2, LENGTH, SEEN)
    )
    (tower,) = xray.anatomy(trace).towers

    # transformers' modeling_blip_2.py:687: every second layer, from the first on, looks at the image
    looks = {layer: [one for one in stages_of(tower, layer) if one.source != "self"] for layer in range(4)}
    assert [len(looks[layer]) for layer in range(4)] == [1, 0, 1, 0]
    scores = next(step for step in trace.passes[0].steps if "layer.0.cross" in step.id and "scores#" in step.id)
    assert scores.outputs[0].shape == (2, 4, QUERIES, LENGTH)


def stages_of(tower, layer):
    (group,) = (one for one in tower.groups if layer in one.layers)
    return [one for stage in group.stages for one in stage.branches if isinstance(one, Attention)]
