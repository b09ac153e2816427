"""Models that are run in unusual ways: checkpointed, compiled, at half precision, by a functional call, with caches."""

import pytest
import torch
from families.built import build, ids
from families.data_flow import find_gaps, find_unreached
from families.invariants import call_with_gradients, find_changes
from families.specimens import BY_NAME, make_ids

import xray
from xray.capture.recorder import record

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def softmaxes(trace):
    return [step.outputs[0].shape for step in trace.steps if step.op == "softmax" and len(step.outputs[0].shape) == 4]


def test_checkpointed_layers_are_recorded_once_and_compute_the_same():
    def make():
        model = BY_NAME["Llama"].build()
        model.activation_checkpointing_enable()
        return model

    assert find_changes(make, BY_NAME["Llama"].make_inputs, training=True) == []


def test_checkpointed_layers_lead_to_the_result():
    model = BY_NAME["Llama"].build()
    model.activation_checkpointing_enable()

    with record(model) as recorder:
        call_with_gradients(model, BY_NAME["Llama"].make_inputs())

    assert find_unreached(recorder.trace, model) == []
    assert len(softmaxes(recorder.trace)) == 3


@pytest.mark.parametrize("name", ["BERT", "GPT-2"])
@pytest.mark.slow
def test_a_compiled_model_is_seen_and_stays_compiled(name):
    specimen = BY_NAME[name]
    torch.compiler.reset()
    model = torch.compile(build(name), backend="eager")
    inputs = specimen.make_inputs()
    with torch.no_grad():
        before = model(**inputs).logits
        recorded = xray.trace(model, **inputs)  # type: ignore[arg-type]
        after = model(**inputs).logits

    assert len(softmaxes(recorded)) == 3
    assert torch.equal(before, after)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["T5", "Llama", "nn.Transformer"])
def test_half_precision_changes_nothing_and_is_told(name):
    specimen = BY_NAME[name]

    def make_inputs():
        given = specimen.make_inputs()
        return {key: one.bfloat16() if one.is_floating_point() else one for key, one in given.items()}

    assert find_changes(lambda: specimen.build().bfloat16(), make_inputs, training=True) == []


def test_autocast_is_seen_in_the_record():
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        recorded = xray.trace(build("GPT-2"), input_ids=ids())

    assert {step.outputs[0].dtype for step in recorded.steps if step.path.endswith(".scores")} == {"bfloat16"}


def test_inference_mode_is_fine():
    model = build("BART")
    with torch.inference_mode():
        recorded = xray.trace(model, input_ids=ids(), decoder_input_ids=make_ids(7, 2))

    assert find_gaps(recorded, model) == []


def test_forward_called_by_its_name_is_recorded():
    model = build("BERT")
    with record(model) as recorder, torch.no_grad():
        model.forward(input_ids=ids())

    assert len(softmaxes(recorder.trace)) == 3


def test_a_functional_call_is_recorded_with_the_weights_given():
    model = build("GPT-2")
    weights = {name: torch.zeros_like(one) for name, one in model.named_parameters()}
    with record(model) as recorder, torch.no_grad():
        out = torch.func.functional_call(model, weights, (), {"input_ids": ids()})

    assert not out.logits.any()
    assert len(softmaxes(recorder.trace)) == 3


def test_a_fixed_cache_shows_its_full_width():
    from transformers import StaticCache

    model = build("Llama")
    cache = StaticCache(config=model.config, max_cache_len=17)
    with torch.no_grad():
        model(input_ids=ids(), past_key_values=cache)
        recorded = xray.trace(model, input_ids=ids()[:, :1], past_key_values=cache)

    # the library folds the three queries of a key head into rows
    assert {shape[-1] for shape in softmaxes(recorded)} == {17}


def test_an_assistant_that_guesses_ahead_is_no_part_of_the_record():
    def write(model, inputs):
        with torch.no_grad():
            return model.generate(
                input_ids=inputs["input_ids"][:1, :5], assistant_model=build("GPT-2"), max_new_tokens=5, do_sample=False
            )

    assert find_changes(BY_NAME["GPT-2"].build, BY_NAME["GPT-2"].make_inputs, call=write) == []
