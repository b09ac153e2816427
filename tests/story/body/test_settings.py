"""Anatomies of small models, of sizes that no default has, held against their settings by machine."""

import warnings

import pytest
import torch
import transformers
from story.body.building import ids
from story.body.truth import activation_of
from transformers.models.auto import modeling_auto

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Experts, FeedForward, Unknown

SIZES = {
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 88,
    "moe_intermediate_size": 40,
    "vocab_size": 211,
    "max_position_embeddings": 64,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WORDS = """
    apertus arcee bitnet cohere cohere2 cwm diffllama doge ernie4_5 exaone4 falcon_h1 gemma gemma2 gemma3_text glm
    glm4 gpt_neox granite granite_swa helium hrm_text internlm3 iquestcoder jais2 lfm3 llama llama4_text ministral3
    mistral modernbert-decoder nanochat nemotron olmo olmo2 olmo3 olmo_hybrid persimmon phi phi3 qwen2 qwen3
    seed_oss smollm3 stablelm starcoder2 vaultgemma
"""
CHOOSING = """
    afmoe cohere2_moe ernie4_5_moe exaone_moe flex_olmo flint glm4_moe granitemoe granitemoe_swa granitemoeshared
    hy_v3 kolibri1 laguna mellum minimax minimax_m2 mixtral nemotron_h olmoe phimoe qwen2_moe qwen3_moe solar_open
"""
BOTH_WAYS = """
    albert bert camembert data2vec-text electra ernie eurobert gte jina_embeddings_v3 modernbert mpnet nomic_bert
    roberta roberta-prelayernorm ultrabert xlm-roberta xlm-roberta-xl
"""
FAST = {"llama", "qwen3", "gemma2", "gpt_neox", "mixtral", "bert"}
KINDS = {"causal": WORDS, "experts": CHOOSING, "both ways": BOTH_WAYS}
FAMILIES = [
    pytest.param((kind, name), id=name, marks=() if name in FAST else pytest.mark.slow)
    for kind, names in KINDS.items()
    for name in names.split()
]


@pytest.fixture(scope="module", params=FAMILIES)
def read(request):
    """What a model is held against: its settings, whether it looks back alone, its anatomy."""
    kind, name = request.param
    return *record_small(kind, name), kind != "both ways"


def record_small(kind, name):
    """The settings of a family at small sizes, and its anatomy; experts are multiplied in no other type than this."""
    made = transformers.CONFIG_MAPPING[name]
    usual = made(**{"num_key_value_heads": 2} if name == "nemotron" else {})
    changes = {key: size for key, size in SIZES.items() if getattr(usual, key, None) is not None}
    config = made(**changes, **IDS)
    classes = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    classes = classes if kind == "both ways" else modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    with torch.device("meta"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, classes[name])(config).eval()
        trace = xray.trace(model.to(torch.bfloat16) if kind == "experts" else model, input_ids=ids(10))
    return config, xray.anatomy(trace)


@pytest.mark.sampled(3)
def test_there_is_one_tower_of_so_many_layers_words_and_numbers(read):
    config, found, _ = read

    (tower,) = found.towers
    wanted = config.num_hidden_layers, config.hidden_size, config.vocab_size
    assert (tower.layers, tower.d_model, tower.vocab) == wanted


def test_attentions_have_the_heads_that_are_set(read):
    config, found, looks_back = read

    heads = config.num_attention_heads
    of_keys = getattr(config, "num_key_value_heads", None) or heads
    d_k = getattr(config, "head_dim", None) or config.hidden_size // heads
    looking = {
        (one.heads, one.kv_heads, one.d_k, one.causal) for one in list_branches(found) if isinstance(one, Attention)
    }
    assert looking <= {(heads, of_keys, d_k, looks_back)}


def test_feed_forwards_are_as_wide_and_bent_as_is_set(read):
    config, found, _ = read

    thinking = [one for one in list_branches(found) if isinstance(one, FeedForward)]
    assert {one.d_ff for one in thinking} <= {getattr(config, "intermediate_size", None)}
    bends = {one.activation for one in list_branches(found) if isinstance(one, FeedForward | Experts)}
    assert bends <= {activation_of(config) or next(iter(bends), None)}


def test_so_many_experts_are_there_and_chosen(read):
    config, found, _ = read

    names = ("num_experts", "num_local_experts", "n_routed_experts")
    count = next((size for name in names if (size := getattr(config, name, None))), None)
    choosing = {(one.experts, one.chosen) for one in list_branches(found) if isinstance(one, Experts)}
    assert choosing <= {(count, getattr(config, "num_experts_per_tok", None))}


def test_the_head_scores_every_word_by_a_table_of_its_own_or_not(read):
    config, found, _ = read

    assert found.head is not None
    assert (found.head.kind, found.head.size, found.head.tied) == (
        "vocabulary",
        config.vocab_size,
        bool(config.tie_word_embeddings),
    )


def test_nothing_is_unknown(read):
    _, found, _ = read

    assert not any(isinstance(one, Unknown) for one in list_branches(found))
    assert found.untold == ()


def list_branches(found):
    """The branches of all towers."""
    return [branch for tower in found.towers for branch in tower.branches]
