"""What one more word costs, held to what configurations say of heads, widths and layers."""

import pytest
from story.body.building import record_family
from story.body.table import FAMILIES

from xray.story.anatomy.attentions import Attention
from xray.story.facts.kept_keys import measure_growth

FAST = ("llama", "mistral_with_a_short_window")
NAMES = (
    *FAST,
    "qwen3",
    "gemma",
    "gemma2",
    "gemma3",
    "olmo2",
    "exaone4",
    "cohere2",
    "phi3",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "falcon",
    "opt",
    "mixtral",
    "deepseek_v3",
    "jamba",
    "recurrent_gemma",
    "t5",
    "bart",
    "blip_writes",
    "llava",
)
DEEP = {"qwen3": 32}
"""As many layers as the settings have by default, where others than the usual two are told."""


def count_word(config, truth, element_bytes):
    """The bytes of one word's keys and values in all layers that look back on themselves; of its waist, if it has one.

    Beside a waist the keys that are turned are kept, one head for all.
    """
    branches = [
        (len(group.layers), branch)
        for tower in truth.towers
        for group in tower.groups
        for stage in group.stages
        for branch in stage.branches
        if isinstance(branch, Attention) and branch.source == "self" and branch.causal is True
    ]
    numbers = (
        one.kv_heads * (one.d_k + one.d_v) if one.latent is None else one.latent.kv + config.qk_rope_head_dim
        for _, one in branches
    )
    return element_bytes * sum(count * each for (count, _), each in zip(branches, numbers, strict=True))


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in NAMES])
def test_a_word_costs_its_keys_and_values_in_every_layer(name):
    family = FAMILIES[name]
    config, trace = record_family(family, **({"num_hidden_layers": DEEP[name]} if name in DEEP else {}))

    growth = measure_growth(trace)

    assert growth.per_word == count_word(config, family.truth(config), 2 if family.half else 4) > 0


@pytest.mark.slow
def test_one_row_is_kept_where_it_is_key_and_value():
    """Its queries are put together of two parts too, and that is no cache."""
    config, trace = record_family(FAMILIES["deepseek_v4"])

    growth = measure_growth(trace)

    row = config.num_hidden_layers * config.head_dim * 4
    assert growth.per_word == row
    assert [(turn.words, turn.bytes) for turn in growth.turns] == [(10, 2 * 10 * row)]
