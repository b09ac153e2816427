"""What models cost: held against torch's own counters on runs with numbers, and against published figures."""

import inspect
import json
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from xray.errors import UsageError
from xray.renderers.cost_plot import draw_plot, print_plot
from xray.renderers.table.cost import print_cost
from xray.sources.costing import cost_by_name, cut_long
from xray.sources.request import Request

transformers = pytest.importorskip("transformers", reason="the library whose models are measured here")

LENGTHS = (256, 512)
SIZES = {
    "hidden_size": 96,
    "intermediate_size": 212,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 61,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module")
def measure(tmp_path_factory):
    def measure(model_type, model_class, lengths=LENGTHS, batches=(1,), dtype=None, **sizes):
        folder = tmp_path_factory.mktemp("settings")
        settings = {"model_type": model_type, "architectures": [model_class], **SIZES, **sizes}
        (folder / "config.json").write_text(json.dumps(settings))
        return cost_by_name(str(folder), Request(dtype=dtype), lengths, batches)

    return measure


@pytest.fixture(scope="module")
def llama(measure):
    return measure("llama", "LlamaForCausalLM", batches=(1, 4))


def make_llama(implementation):
    config = transformers.LlamaConfig(**SIZES, attn_implementation=implementation)
    return transformers.LlamaForCausalLM(config)


def run_at(cost, length):
    return cost.find_run((1, length))


@pytest.mark.slow
def test_forward_flops_are_those_that_torch_counts(llama):
    ids = torch.arange(256)[None] % 61
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        make_llama("eager")(ids)

    assert run_at(llama, 256).inference_flops == counter.get_total_flops()


def test_training_flops_are_those_that_torch_counts_and_the_scores_made_once_more(llama):
    ids = torch.arange(256)[None] % 61
    with FlopCounterMode(display=False) as counter:
        make_llama("eager")(ids, labels=ids, use_cache=False).loss.backward()

    scores_again = 2 * 2 * 3 * 256 * 256 * 32  # layers, heads, a row and a column of each, d_k
    assert run_at(llama, 256).training_flops == counter.get_total_flops() + scores_again


def track(run, *known):
    """The most bytes at any moment by torch's own tracker, on a run with numbers; the tracker is told what is there."""
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    tracker.track_external(*known)
    with tracker:
        run()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


NO_DROPOUT = dict.fromkeys(
    ("resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_rate"),
    0.0,
)
"""With dropout a processor takes another kernel than the fused one."""
REAL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "LlamaForCausalLM", {}),
    "gpt2": ("gpt2", "GPT2LMHeadModel", {"n_embd": 96, "n_layer": 2, "n_head": 3, "n_positions": 512, **NO_DROPOUT}),
    "bert": ("bert", "BertForMaskedLM", NO_DROPOUT),
    "t5": (
        "t5",
        "T5ForConditionalGeneration",
        {"d_model": 96, "d_kv": 32, "d_ff": 212, "num_heads": 3, "num_layers": 2, **NO_DROPOUT},
    ),
    "mixtral": ("mixtral", "MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_the_most_memory_of_inference_is_what_torch_tracks_with_numbers(measure, name):
    model_type, model_class, sizes = REAL[name]
    found = measure(model_type, model_class, **sizes)
    model, given = make_real(model_type, model_class, sizes, 256)

    def run():
        with torch.no_grad():
            model(**given)

    assert run_at(found, 256).inference.bytes == pytest.approx(track(run, model), rel=0.005)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Module is None")  # of torch's tracker, on its way out of a model
@pytest.mark.parametrize("name", REAL)
def test_the_most_memory_of_a_training_step_is_what_torch_tracks_with_numbers(measure, name):
    model_type, model_class, sizes = REAL[name]
    found = measure(model_type, model_class, **sizes)
    model, given = make_real(model_type, model_class, sizes, 256)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), foreach=False)
    words = given.get("decoder_input_ids", given["input_ids"])
    names = inspect.signature(model.forward).parameters
    cache = {"use_cache": False} if "use_cache" in names else {}

    def run():
        model(**given, labels=words, **cache).loss.backward()
        optimiser.step()

    run()
    model.zero_grad()
    assert run_at(found, 256).training.bytes == pytest.approx(track(run, model, optimiser), rel=0.005)


def make_real(model_type, model_class, sizes, length):
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **sizes})
    model = getattr(transformers, model_class)(config).eval()
    ids = torch.randint(5, 60, (1, length))
    given = {"input_ids": ids}
    if config.is_encoder_decoder:
        given["decoder_input_ids"] = ids[:, : length * 7 // 10]
    return model, given


def test_parameters_are_counted_by_type(llama):
    params = sum(one.numel() for one in make_llama("sdpa").parameters())

    assert llama.params == params == llama.active_params
    assert llama.param_bytes == {"float32": 4 * params}


def test_another_type_of_the_weights_is_measured_as_such(measure, llama):
    found = measure("llama", "LlamaForCausalLM", dtype="bfloat16")

    assert found.param_bytes == {"bfloat16": 2 * llama.params}
    assert found.bytes_per_word * 2 == llama.bytes_per_word


def test_a_loop_over_words_is_not_run_for_ever():
    assert cut_long([64, 1024, 131_072], 0.002) == (
        [64, 256],
        "It takes its words one after the other; no more than 256 were run.",
    )
    assert cut_long([64, 1024], 1e-6) == ([64, 1024], "")
    assert cut_long([64, 1024], -1e-6) == ([64, 1024], "")


def test_the_moments_of_the_optimiser_are_twice_as_large_as_the_weights(llama):
    assert run_at(llama, 256).training.kinds["optimiser"] == 2 * llama.param_bytes["float32"]


def test_what_a_module_makes_and_frees_again_is_workspace(llama):
    kinds = run_at(llama, 512).inference.kinds

    assert kinds["workspace"] >= 512 * 212 * 4  # the product of gate and up, in the widest layer
    assert sum(kinds.values()) == run_at(llama, 512).inference.bytes


def test_every_layer_keeps_keys_and_values_of_every_word(llama):
    assert [one.kind for one in llama.cache] == ["full", "full"]
    assert [one.bytes_per_word for one in llama.cache] == [2 * 1 * 32 * 4] * 2


def test_a_window_stops_the_growth(measure):
    found = measure("mistral", "MistralForCausalLM", sliding_window=100)

    assert {one.kind for one in found.cache} == {"sliding"}
    assert found.bytes_per_word == 0


@pytest.mark.slow
def test_of_local_layers_among_global_ones_each_is_told(measure):
    layers = ["sliding_attention", "full_attention"]
    found = measure("gemma3_text", "Gemma3ForCausalLM", sliding_window=100, layer_types=layers)

    assert [one.kind for one in found.cache] == ["sliding", "full"]


@pytest.mark.slow
def test_a_latent_is_kept_in_place_of_keys_and_values(measure):
    sizes = {"kv_lora_rank": 24, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
    found = measure(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        n_routed_experts=4,
        n_group=1,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=31,
        head_dim=8,
        num_key_value_heads=3,
        **sizes,
    )

    assert {one.kind for one in found.cache} == {"latent"}
    assert [one.bytes_per_word for one in found.cache] == [(24 + 8) * 4] * 2


@pytest.mark.slow
def test_what_the_encoder_said_is_kept_as_it_is(measure):
    model_type, model_class, sizes = REAL["t5"]
    found = measure(model_type, model_class, **sizes)

    assert {one.layer: one.kind for one in found.cache} == {
        "self.0": "full",
        "self.1": "full",
        "cross.0": "static",
        "cross.1": "static",
    }


@pytest.mark.slow
def test_a_recurrent_state_does_not_grow(measure):
    found = measure("mamba", "MambaForCausalLM", lengths=(64,), state_size=5, conv_kernel=3)

    assert {one.kind for one in found.cache} == {"state"}


@pytest.mark.slow
def test_of_experts_one_word_meets_those_that_are_chosen(measure):
    found = measure("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=1)
    experts = 2 * 4 * 3 * 96 * 212

    assert found.params - found.active_params == experts * 3 // 4


def test_of_a_table_one_word_passes_all_rows_but_one(llama):
    assert llama.passed_rows == 60 * 96


@pytest.mark.slow
def test_a_table_that_is_the_head_as_well_is_met_as_a_whole(measure):
    found = measure("llama", "LlamaForCausalLM", tie_word_embeddings=True)

    assert found.passed_rows == 0


def test_laws_hold_at_sizes_from_which_they_were_not_made(llama):
    law = llama.laws["inference_flops"]

    assert (4, 512) in law.tested_at
    assert not set(law.tested_at) & set(law.made_from)
    assert law.at((4, 512)) == llama.find_run((4, 512)).inference_flops


def test_a_size_that_was_not_run_follows_from_the_law(llama):
    assert llama.find_run((3, 400)) is None
    assert llama.tell("cache_bytes", (3, 400)) == 512 * 3 * 400


def test_nothing_is_said_beyond_what_was_tested(llama):
    assert llama.tell("cache_bytes", (3, 513)) is None
    assert llama.tell("cache_bytes", (5, 512)) is None


@pytest.mark.slow
def test_a_law_does_not_reach_below_a_window(measure):
    found = measure("mistral", "MistralForCausalLM", lengths=(16, 8192), sliding_window=100)

    assert found.laws["cache_bytes"].covers((1, 4096))
    assert not found.laws["cache_bytes"].covers((1, 64))


@pytest.mark.slow
def test_a_size_without_a_law_is_run_by_itself(measure):
    found = measure("mistral", "MistralForCausalLM", lengths=(64, 8192), sliding_window=100)

    assert found.find_run((1, 64)).cache_bytes == 64 * 2 * 2 * 32 * 4


def test_costs_are_told_as_a_table_and_as_json(llama):
    told = print_cost(llama, [(1, 256), (3, 400), (8, 512)])

    assert "layers 0 to 1" in told
    assert "  400*" in told
    assert "- nothing that was run bears out a number there." in told
    laws = json.loads(json.dumps(llama.to_dict()))["laws"]
    assert laws["cache_bytes"]["formula"] == "512·b·n"


def test_costs_over_the_length_are_drawn(llama):
    told, drawn = print_plot(llama), draw_plot(llama)

    assert "t training   i inference   k kept   w weights" in told
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "inference" in drawn


def test_a_model_with_inputs_of_its_own_has_no_length():
    with pytest.raises(UsageError, match="has inputs of one size"):
        cost_by_name("examples/tiny_gpt.py:build", Request())


WITHOUT_TABLES = {"DeepSeek-V3"}
"""Whose makers count the rows that a word looks up, "36.6B (including 0.9B for the output Head)", and not the table."""
PUBLISHED = {
    "Llama 3.1 8B": (
        "llama",
        "LlamaForCausalLM",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 128_256,
        },
        (8_030_261_248, 8_030_261_248, 131_072),
    ),
    "Mixtral 8x7B": (
        "mixtral",
        "MixtralForCausalLM",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 32_000,
        },
        (46_702_792_704, 12.9e9, 131_072),
    ),
    "DeepSeek-V3": (
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        {
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "vocab_size": 129_280,
            "head_dim": 64,
        },
        (671e9, 36.6e9, 576 * 61 * 2),
    ),
}


SHALLOW = 4
"""How many layers are measured in place of all, and one more: those that follow are like the last."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures_are_met(measure, name):
    model_type, model_class, sizes, (params, active, kept) = PUBLISHED[name]

    def count(layers):
        found = measure(
            model_type, model_class, lengths=(64,), dtype="bfloat16", **{**sizes, "num_hidden_layers": layers}
        )
        passed = found.passed_rows if name in WITHOUT_TABLES else 0
        return found.params, found.active_params - passed, found.bytes_per_word

    more = sizes["num_hidden_layers"] - SHALLOW
    figures = [few + (one_more - few) * more for few, one_more in zip(count(SHALLOW), count(SHALLOW + 1), strict=True)]

    assert figures[0] == pytest.approx(params, rel=0.0002)
    assert figures[1] == pytest.approx(active, rel=0.002)
    assert figures[2] == kept
