"""What models cost: held against torch's own counters on runs with numbers, and against published figures."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from xray.errors import UsageError
from xray.ir.cost import fit_polynomial
from xray.renderers.cost import print_cost
from xray.sources.costing import cost_by_name
from xray.sources.request import Request
from xray.sources.sizes import Wishes

transformers = pytest.importorskip("transformers", reason="the library whose models are measured here")

LENGTHS = (8, 12, 20, 28)
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


@pytest.fixture
def measure(tmp_path):
    def measure(model_type, model_class, lengths=LENGTHS, batch=1, **sizes):
        settings = {"model_type": model_type, "architectures": [model_class], **SIZES, **sizes}
        (tmp_path / "config.json").write_text(json.dumps(settings))
        return cost_by_name(str(tmp_path), Request(wishes=Wishes(batch=batch)), lengths)

    return measure


@pytest.fixture
def llama(measure):
    return measure("llama", "LlamaForCausalLM")


def make_llama(implementation):
    config = transformers.LlamaConfig(**SIZES, attn_implementation=implementation)
    return transformers.LlamaForCausalLM(config)


def test_forward_flops_are_those_that_torch_counts(llama):
    ids = torch.arange(28)[None]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        make_llama("eager")(ids)

    assert llama.runs[-1].inference_flops == counter.get_total_flops()


def test_training_flops_are_within_two_percent_of_those_that_torch_counts(llama):
    ids = torch.arange(8)[None]
    with FlopCounterMode(display=False) as counter:
        make_llama("eager")(ids, labels=ids, use_cache=False).loss.backward()

    assert llama.runs[0].training_flops == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_the_most_memory_is_what_torch_tracks_with_numbers(llama):
    from torch.distributed._tools.mem_tracker import MemTracker

    model, ids = make_llama("sdpa"), torch.arange(28)[None]
    tracker = MemTracker()
    tracker.track_external(model, ids)
    with tracker, torch.no_grad():
        answer = model(ids)
    found = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]

    assert answer.logits is not None
    assert llama.runs[-1].inference.bytes == pytest.approx(found, rel=0.02)


def test_parameters_are_counted_by_type(llama):
    params = sum(one.numel() for one in make_llama("sdpa").parameters())

    assert llama.params == params == llama.active_params
    assert llama.param_bytes == {"float32": 4 * params}


def test_the_moments_of_the_optimiser_are_twice_as_large_as_the_weights(llama):
    assert llama.runs[0].training.kinds["optimiser"] == 2 * llama.param_bytes["float32"]


def test_every_layer_keeps_keys_and_values_of_every_word(llama):
    assert [one.kind for one in llama.cache] == ["full", "full"]
    assert [one.bytes_per_word for one in llama.cache] == [2 * 1 * 32 * 4] * 2


def test_a_window_stops_the_growth(measure):
    found = measure("mistral", "MistralForCausalLM", lengths=(4, 8, 20, 28), sliding_window=10)

    assert {one.kind for one in found.cache} == {"sliding"}


def test_of_experts_one_word_meets_those_that_are_chosen(measure):
    found = measure("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=1)
    experts = 2 * 4 * 3 * 96 * 212

    assert found.params - found.active_params == experts * 3 // 4


def test_laws_hold_at_a_length_from_which_they_were_not_made(llama):
    law = llama.laws["inference_flops"]

    assert law.checked_at == 28
    assert law.at(28) == llama.runs[-1].inference_flops


def test_a_law_that_misses_its_check_is_none():
    assert fit_polynomial([(1, 1), (2, 4), (3, 9), (4, 17)]) is None
    assert fit_polynomial([(1, 1), (2, 4), (3, 9), (4, 16)]).at(10) == 100


def test_costs_are_told_as_a_table_and_as_json(llama):
    told = print_cost(llama, (1000,))

    assert "layers 0 to 1" in told
    assert "1,000" in told
    assert json.loads(json.dumps(llama.to_dict()))["laws"]["cache_bytes"]["coefficients"] == ["0", "512", "0"]


def test_a_model_with_inputs_of_its_own_has_no_length():
    with pytest.raises(UsageError, match="has inputs of one size"):
        cost_by_name("examples/tiny_gpt.py:build", Request())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "kept", "active"),
    [
        (
            {
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "vocab_size": 128_256,
                "dtype": "bfloat16",
            },
            131_072,
            8.03e9,
        ),
        (
            {
                "model_type": "mixtral",
                "architectures": ["MixtralForCausalLM"],
                "num_key_value_heads": 8,
                "dtype": "bfloat16",
            },
            131_072,
            12.9e9,
        ),
    ],
    ids=["Llama 3.1 8B", "Mixtral 8x7B"],
)
def test_published_figures_are_met(tmp_path, config, kept, active):
    (tmp_path / "config.json").write_text(json.dumps(config))

    found = cost_by_name(str(tmp_path), Request(wishes=Wishes(batch=1)), LENGTHS)

    assert sum(one.bytes_per_word for one in found.cache) == kept
    assert found.active_params == pytest.approx(active, rel=0.005)
