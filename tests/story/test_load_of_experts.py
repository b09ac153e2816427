"""How many places chose each expert is what the routers themselves gave, counted by hooks."""

import pytest
import torch
from printed import words_of

import xray
from xray.renderers.fonts import text_width
from xray.renderers.table.table import draw_tables
from xray.story.body.reading import read_passes
from xray.story.experts.experts import count_places
from xray.story.poster import compose_poster

COMMON = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
ONE_SIDE = {**COMMON, "num_key_value_heads": 4, "moe_intermediate_size": 16}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12}
PAIR = {"vocab_size": 97, "d_model": 48, "num_experts": 5}
MODELS = {
    "Mixtral": ("ForCausalLM", {**COMMON, "num_local_experts": 5, "num_experts_per_tok": 2}),
    "Qwen3Moe": ("ForCausalLM", {**ONE_SIDE, "head_dim": 12, "num_experts": 7, "num_experts_per_tok": 3}),
    "DeepseekV3": (
        "ForCausalLM",
        {
            **ONE_SIDE,
            **LATENT,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "n_group": 4,
            "topk_group": 2,
            "first_k_dense_replace": 1,
        },
    ),
    "GptOss": ("ForCausalLM", {**COMMON, "head_dim": 12, "num_local_experts": 6, "num_experts_per_tok": 2}),
    "SwitchTransformers": (
        "ForConditionalGeneration",
        {
            **PAIR,
            "d_kv": 12,
            "d_ff": 26,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "num_heads": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
        },
    ),
    "NllbMoe": (
        "ForConditionalGeneration",
        {
            **PAIR,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_ffn_dim": 26,
            "decoder_ffn_dim": 26,
            "encoder_sparse_step": 2,
            "decoder_sparse_step": 2,
        },
    ),
}
NAMES = [pytest.param(name, marks=() if name == "Mixtral" else pytest.mark.slow) for name in MODELS]


def build(name):
    transformers = pytest.importorskip("transformers")
    kind, settings = MODELS[name]
    torch.manual_seed(5)
    model = getattr(transformers, f"{name}{kind}")(getattr(transformers, f"{name}Config")(**settings)).eval()
    ids = {"input_ids": torch.randint(3, 97, (2, 9))}
    return model, ids if kind == "ForCausalLM" else {**ids, "decoder_input_ids": torch.randint(3, 97, (2, 7))}


def count_by_hooks(model, given, experts):
    """What the routers gave: a choice of experts for each place, or a row with a 1 for the one that is chosen."""
    counts = []

    def count(module, args, out):
        (chosen,) = (one for one in out if not one.is_floating_point())
        is_row = chosen.dim() == 3
        counts.append(
            tuple(
                chosen.sum((0, 1)).tolist() if is_row else torch.bincount(chosen.flatten(), minlength=experts).tolist()
            )
        )

    routers = [one for one in model.modules() if type(one).__name__.endswith("Router")]
    hooks = [one.register_forward_hook(count) for one in routers]
    model(**given)
    for hook in hooks:
        hook.remove()
    return counts


def record(model, given):
    with xray.record(model) as recorder:
        model(**given)
    return recorder.trace


def list_loads(trace):
    return [
        count_places(reading.flow, one.region.inner)
        for reading in read_passes(trace)
        for tower in reading.towers
        for staging in tower.stagings
        for one in staging.branches
        if one.branch.part == "experts"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_as_many_places_chose_an_expert_as_the_router_says(name):
    model, given = build(name)

    told = list_loads(record(model, given))

    if name == "NllbMoe":  # first and second choices are two steps each: what is not plain is not told
        assert set(told) == {()}
    else:
        assert told == count_by_hooks(model, given, len(told[0]))


def test_poster_and_tables_say_how_many_places_chose_each_expert():
    trace = record(*build("Mixtral"))
    counts = ", ".join(map(str, list_loads(trace)[0]))

    assert f"places that chose each: {counts}" in words_of(compose_poster(trace, text_width))
    assert f"places that chose each: {counts}" in " ".join(draw_tables(trace, width=400).split())


def test_without_values_nothing_is_said_of_the_load():
    model, given = build("Mixtral")
    trace = xray.trace(model, **given)

    assert set(list_loads(trace)) == {()}
    assert "places that chose" not in words_of(compose_poster(trace, text_width))


def test_experts_that_no_place_chose_are_taken_off_once():
    settings = MODELS["SwitchTransformers"][1]
    model, _ = build("SwitchTransformers")
    words = torch.tensor([[1, 2, 3]])  # fewer than there are experts: some are chosen by none
    found = xray.anatomy(record(model, {"input_ids": words, "decoder_input_ids": words}))
    each = 2 * settings["d_model"] * settings["d_ff"]

    assert sum(one.params for one in found.unused) >= each
    assert found.active_params == found.params - 2 * (settings["num_experts"] - 1) * each
