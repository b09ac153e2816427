"""What the record of each family holds: scores and mask of every attention, and where queries and keys come from."""

from collections import Counter

import pytest
import torch
from families.data_flow import find_ancestors_of
from families.recordings import recorded_inference, recorded_training
from families.specimens import BY_NAME

import xray

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
WITH_CROSS = [name for name, one in BY_NAME.items() if "cross" in one.scores]

READS_VALUES = ["BART", "Marian", "GPT-2"]
"""What asks its ids or masks for values, so that it cannot run without storage."""


def attentions(trace):
    """The softmax of each attention; what it is given are the masked scores."""
    return [step for step in trace.steps if step.op.endswith("softmax") and len(step.outputs[0].shape) == 4]


def expected_scores(specimen):
    encoders, decoders = specimen.layers
    counts = {"encoder": encoders, "decoder": decoders, "cross": decoders}
    return Counter({shape: counts[kind] for kind, shape in specimen.scores.items()})


def masks_of(trace, shape):
    """The kinds of all masks that some step applied to scores of this shape."""
    return {
        one.mask.kind
        for step in trace.steps
        for one in step.inputs
        if one.mask is not None
        and one.role == "mask"
        and step.outputs
        and step.outputs[0].shape == shape
        and one.shape[-2:] == shape[-2:]
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_inference_holds_the_scores_of_every_attention(name):
    found = Counter(step.outputs[0].shape for step in attentions(recorded_inference(name)))

    assert found == expected_scores(BY_NAME[name])


@pytest.mark.parametrize("name", BY_NAME)
def test_training_holds_the_scores_of_every_attention(name):
    found = Counter(step.outputs[0].shape for step in attentions(recorded_training(name)))

    assert found == expected_scores(BY_NAME[name])


@pytest.mark.parametrize("name", ["T5", "BART", "Marian", "Whisper"])
def test_the_decoder_is_causal(name):
    assert masks_of(recorded_inference(name), BY_NAME[name].scores["decoder"]) == {"causal"}


@pytest.mark.parametrize("name", ["T5", "BART", "Marian", "BERT"])
def test_the_encoder_hides_padding(name):
    assert masks_of(recorded_inference(name), BY_NAME[name].scores["encoder"]) == {"padding"}


@pytest.mark.parametrize("name", ["T5", "BART", "Marian"])
def test_cross_attention_hides_the_padding_of_the_source(name):
    assert masks_of(recorded_inference(name), BY_NAME[name].scores["cross"]) == {"padding"}


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_a_padded_decoder_only_model_is_causal_and_hides_padding(name):
    assert masks_of(recorded_inference(name), BY_NAME[name].scores["decoder"]) == {"padding+causal"}


@pytest.mark.parametrize("name", ["ViT", "Whisper"])
def test_the_eyes_and_ears_hide_nothing(name):
    assert masks_of(recorded_inference(name), BY_NAME[name].scores["encoder"]) == set()


def test_hidden_shares_are_those_of_the_masks_given():
    specimen = BY_NAME["BERT"]
    trace = recorded_inference("BERT")

    shares = {
        one.mask.hidden_share
        for step in trace.steps
        for one in step.inputs
        if one.mask is not None and one.shape[-2:] == specimen.scores["encoder"][-2:]
    }

    assert shares == {round(3 / 22, 6)}  # of 2 x 11 words 3 are padding


def test_grouped_queries_share_their_keys():
    trace = recorded_inference("Llama")
    scores = attentions(trace)[0]

    before = {step.outputs[0].shape for step in find_ancestors_of(trace.passes[0], scores) if step.outputs}

    # two heads of keys, made three times as many, for six of queries
    assert {(2, 2, 11, 14), (2, 2, 3, 11, 14), (2, 6, 11, 14)} <= before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["T5", "BART", "BERT", "GPT-2", "Llama"])
def test_eager_and_fused_attention_have_the_same_scores(name, attention):
    specimen = BY_NAME[name]
    model = specimen.build().eval()
    model.set_attn_implementation(attention)

    with torch.no_grad():
        found = Counter(step.outputs[0].shape for step in attentions(xray.trace(model, **specimen.make_inputs())))

    assert found == expected_scores(specimen)


@pytest.mark.parametrize("name", WITH_CROSS)
def test_keys_of_cross_attention_come_from_the_encoder(name):
    trace = recorded_inference(name)
    one_pass = trace.passes[0]
    crossing = next(step for step in attentions(trace) if step.outputs[0].shape == BY_NAME[name].scores["cross"])
    product = next(
        step
        for step in find_ancestors_of(one_pass, crossing)
        if step.op in ("matmul", "bmm", "baddbmm") and step.outputs[0].shape[-1] == 11
    )
    key = product.inputs[-1].source

    before = [step.path for step in find_ancestors_of(one_pass, one_pass.by_id[key])]

    assert any("encoder.layers.1" in path or "encoder.block.1" in path for path in before)


@pytest.mark.parametrize("name", WITH_CROSS)
def test_queries_of_cross_attention_come_from_the_decoder(name):
    trace = recorded_inference(name)
    one_pass = trace.passes[0]
    crossing = next(step for step in attentions(trace) if step.outputs[0].shape == BY_NAME[name].scores["cross"])

    before = [step.path for step in find_ancestors_of(one_pass, crossing)]

    assert any("decoder.layers.0" in path or "decoder.block.0" in path for path in before)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in READS_VALUES])
def test_the_meta_device_gives_the_shapes_of_the_cpu(name):
    specimen = BY_NAME[name]
    inputs = without_mask(specimen.make_inputs())
    real = xray.trace(specimen.build(), **inputs)
    with torch.device("meta"):
        meta = xray.trace(specimen.build(), **{key: value.to("meta") for key, value in inputs.items()})

    assert shapes_of(meta) == shapes_of(real)


@pytest.mark.parametrize("name", READS_VALUES)
def test_a_model_that_reads_values_raises_its_own_error_on_the_meta_device(name):
    specimen = BY_NAME[name]
    inputs = {key: value.to("meta") for key, value in specimen.make_inputs().items()}
    with torch.device("meta"):
        model = specimen.build()
        with pytest.raises(RuntimeError) as plain:
            model(**inputs)
        with pytest.raises(RuntimeError) as recorded:
            xray.trace(model, **inputs)

    assert str(recorded.value) == str(plain.value)


def without_mask(inputs):
    """`transformers` reads the values of a mask that it is given; without one it needs none."""
    return {key: value for key, value in inputs.items() if key != "attention_mask"}


def shapes_of(trace):
    return {step.id: [one.shape for one in step.outputs] for step in trace.steps}
