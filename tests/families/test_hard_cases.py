"""What people do with these models, and where recorders break: odd inputs, caches, wrappers, precisions."""

import copy
import pickle
import threading

import pytest
import torch
from families.built import build, ids
from families.data_flow import find_gaps, find_unreached
from families.invariants import call_with_gradients
from families.specimens import BY_NAME, VOCAB, make_ids
from torch import nn

import xray
from xray.capture.recorder import record

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


# What goes in


def test_a_list_of_tensors_is_one_argument():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build("BERT")

        def forward(self, texts):
            return [self.inner(input_ids=one).logits for one in texts]

    first = xray.trace(Both(), [ids(), ids()[:, :5]]).steps[0]

    assert [(one.name, one.shape) for one in first.inputs] == [("texts.0", (2, 11)), ("texts.1", (2, 5))]
    assert [one.shape for one in first.outputs] == [(2, 11, VOCAB), (2, 5, VOCAB)]


def test_a_dict_of_tensors_is_one_argument():
    class Unpack(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = build("BERT")

        def forward(self, batch):
            return self.inner(**batch)

    first = xray.trace(Unpack(), {"input_ids": ids(), "attention_mask": torch.ones(2, 11)}).steps[0]

    assert [one.name for one in first.inputs] == ["batch.input_ids", "batch.attention_mask"]


def test_embeddings_may_be_given_instead_of_ids():
    model = build("GPT-2")
    given = torch.randn(2, 5, 35)

    recorded = xray.trace(model, inputs_embeds=given)

    assert find_gaps(recorded, model, [given]) == []


def test_outputs_of_the_encoder_may_be_given():
    model = build("BART")
    encoded = model.get_encoder()(input_ids=ids())

    recorded = xray.trace(model, encoder_outputs=encoded, decoder_input_ids=make_ids(7, 2))

    assert not any(".encoder." in step.path for step in recorded.steps)
    assert find_gaps(recorded, model, [encoded.last_hidden_state]) == []


def test_a_mask_with_four_axes_may_be_given():
    model = build("BERT")
    mask = torch.ones(2, 1, 11, 11, dtype=torch.bool).tril()

    recorded = xray.trace(model, input_ids=ids(), attention_mask=mask)

    kinds = {one.mask.kind for step in recorded.steps for one in step.inputs if step.op == "mask_scores" and one.mask}
    assert kinds == {"causal"}


def test_padding_on_the_left_is_padding_and_future():
    words = torch.ones(2, 11, dtype=torch.long)
    words[1, :3] = 0

    recorded = xray.trace(build("Llama"), input_ids=ids(), attention_mask=words)

    masks = [one.mask for step in recorded.steps for one in step.inputs if step.op == "mask_scores" and one.mask]
    assert {mask.kind for mask in masks} == {"padding+causal"}


# What comes out


@pytest.mark.parametrize("as_dict", [True, False])
def test_a_result_is_opened_whatever_its_form(as_dict):
    outputs = xray.trace(build("BERT"), input_ids=ids(), return_dict=as_dict).steps[0].outputs

    assert [(one.shape, one.source is not None) for one in outputs] == [((2, 11, VOCAB), True)]


def test_attentions_in_the_result_come_from_the_softmax():
    model = build("BERT")
    model.set_attn_implementation("eager")

    recorded = xray.trace(model, input_ids=ids(), output_attentions=True)

    given = [one for one in recorded.steps[0].outputs if one.shape == (2, 5, 11, 11)]
    ways = [recorded.passes[0].by_id[one.source].op for one in given]
    assert len(ways) == 3
    assert set(ways) <= {"softmax", "dropout"}


def test_hidden_states_in_the_result_have_their_makers():
    recorded = xray.trace(build("GPT-2"), input_ids=ids(), output_hidden_states=True)

    given = [one for one in recorded.steps[0].outputs if one.shape == (2, 11, 35)]
    assert len({one.source for one in given}) == 4  # the embedding and three layers, the last one normalised


def test_the_loss_is_in_the_record():
    recorded = xray.trace(build("GPT-2"), input_ids=ids(), labels=ids())

    assert recorded.steps[0].outputs[0].shape == ()


@pytest.mark.parametrize("name", ["GPT-2", "BART", "T5", "BERT"])
def test_shared_weights_are_counted_once(name):
    specimen = BY_NAME[name]
    model = specimen.build()

    first = xray.trace(model, **specimen.make_inputs()).steps[0]

    assert first.params == sum(one.numel() for one in model.parameters())


# What is done with the model


@pytest.mark.parametrize("name", ["nn.Transformer", "BERT", "Llama"])
def test_a_model_copies_and_pickles_after_a_recording(name):
    specimen = BY_NAME[name]
    model = specimen.build().eval()
    with torch.no_grad():
        xray.trace(model, **specimen.make_inputs())

    copied = pickle.loads(pickle.dumps(copy.deepcopy(model)))

    assert {key: one.shape for key, one in copied.state_dict().items()} == {
        key: one.shape for key, one in model.state_dict().items()
    }


def test_two_models_in_two_threads_keep_apart():
    names, traces = ("BERT", "GPT-2"), {}
    models = {name: build(name) for name in names}

    def run(name):
        with torch.no_grad():
            traces[name] = xray.trace(models[name], **BY_NAME[name].make_inputs())

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    alone = {name: xray.trace(models[name], **BY_NAME[name].make_inputs()) for name in names}
    assert {name: [step.id for step in traces[name].steps] for name in names} == {
        name: [step.id for step in alone[name].steps] for name in names
    }


def test_a_training_step_has_a_gradient_for_each_parameter():
    model, inputs = BY_NAME["GPT-2"].build(), BY_NAME["GPT-2"].make_inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model) as recorder:
        model(**inputs, labels=inputs["input_ids"]).loss.backward()
        optimizer.step()

    backward = next(step for step in recorder.trace.steps if step.op == "backward")
    assert {one.name for one in backward.outputs} == {f"{name}.grad" for name, _ in model.named_parameters()}
    assert any(step.path == "optimizer.step" for step in recorder.trace.steps)


def test_a_failing_layer_is_marked_and_its_error_is_the_models_own():
    model = build("BERT")
    model.bert.encoder.layer[1].output.dense = nn.Linear(40, 35)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        xray.trace(model, input_ids=ids())

    failed = [step.path for step in caught.value.xray_trace.steps if step.error]  # type: ignore[attr-defined]
    assert failed[-1].startswith("bert.encoder.layer.1.output.dense")


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_torchs_own_attention_has_scores_alone(need_weights, batched):
    attention = nn.MultiheadAttention(28, 4, batch_first=True).eval()
    query, key = torch.randn(2, 7, 28), torch.randn(2, 11, 28)
    if not batched:
        query, key = query[0], key[0]
    with torch.no_grad():
        recorded = xray.trace(attention, query, key, key, need_weights=need_weights)

    shapes = {step.outputs[0].shape[-2:] for step in recorded.steps if step.op.endswith("softmax")}
    assert shapes == {(7, 11)}


# What users of other recorders ran into


def test_modules_hidden_in_a_list_are_recorded():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(5, 7), nn.TransformerEncoderLayer(7, 1, 11, batch_first=True)]

        def forward(self, x):
            for module in self.hidden:
                x = module(x)
            return x

    model = Hidden()
    recorded = xray.trace(model, torch.randn(2, 3, 5))

    assert {"linear", "transformer_encoder_layer"} <= {step.op for step in recorded.steps}
    assert recorded.steps[0].outputs[0].source is not None


def test_a_second_recording_equals_the_first():
    model = build("BERT")

    first, second = (xray.trace(model, input_ids=ids()) for _ in range(2))

    assert first == second


def test_an_activation_shared_by_all_layers_has_a_step_in_each():
    shared = nn.ReLU()
    layers = [nn.Sequential(nn.Linear(5, 5), shared) for _ in range(3)]

    recorded = xray.trace(nn.Sequential(*layers), torch.randn(2, 5))

    assert [step.parent for step in recorded.steps if step.op == "relu"] == ["0#0", "1#0", "2#0"]


def test_a_batch_from_a_tokeniser_is_opened():
    from transformers import BatchEncoding

    batch = BatchEncoding({"input_ids": ids(), "attention_mask": torch.ones(2, 11, dtype=torch.long)})

    first = xray.trace(build("BERT"), **batch).steps[0]

    assert [one.name for one in first.inputs] == ["input_ids", "attention_mask"]


def test_a_result_that_holds_itself_ends_quietly():
    class Knot(nn.Module):
        def forward(self, x):
            knot = [x + 1]
            knot.append(knot)
            return knot

    assert xray.trace(Knot(), torch.ones(2, 3)).steps[0].outputs[0].shape == (2, 3)


def test_a_tensor_made_of_tensors_is_made_as_ever():
    class Nested(nn.Module):
        def forward(self, x):
            return x + torch.tensor([torch.tensor(-1.0)])

    recorded = xray.trace(Nested(), torch.ones(3))

    assert [one.shape for one in recorded.steps[0].outputs] == [(3,)]
    assert torch.equal(torch.tensor([torch.tensor(1.0)]), torch.ones(1))


def test_layers_that_share_their_weights_are_each_recorded():
    """ALBERT has one layer and goes through it three times."""
    from transformers import AlbertConfig, AlbertForMaskedLM

    sizes = {"hidden_size": 35, "num_hidden_layers": 3, "num_attention_heads": 5, "intermediate_size": 41}
    model = AlbertForMaskedLM(AlbertConfig(vocab_size=VOCAB, embedding_size=13, **sizes)).eval()

    recorded = xray.trace(model, input_ids=ids())

    shared = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    assert [step.call for step in recorded.steps if step.path == shared] == [0, 1, 2]
    assert recorded.steps[0].params == sum(one.numel() for one in model.parameters())


def test_a_score_for_each_word_keeps_its_way_through_a_squeeze():
    from transformers import ElectraConfig, ElectraForPreTraining

    sizes = {"hidden_size": 35, "num_hidden_layers": 2, "num_attention_heads": 5, "intermediate_size": 41}
    model = ElectraForPreTraining(ElectraConfig(vocab_size=VOCAB, embedding_size=13, **sizes))
    with record(model) as recorder:
        call_with_gradients(model, {"input_ids": ids()})

    assert find_gaps(recorder.trace, model) == []
    assert find_unreached(recorder.trace, model) == []


def test_experts_that_are_not_asked_are_no_steps():
    """A router sends each word to one of three experts; the ways of all that ran lead to the result."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(5, 3)
            self.experts = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))

        def forward(self, x):
            choice, out = self.router(x).argmax(-1), torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                chosen = choice == number
                if chosen.any():
                    out[chosen] = expert(x[chosen])
            return out

    torch.manual_seed(0)
    model, x = Experts(), torch.randn(1, 5)
    with record(model) as recorder:
        call_with_gradients(model, {"x": x})

    asked = [step.path for step in recorder.trace.steps if step.path.startswith("experts.")]
    assert len(asked) == 1
    assert find_gaps(recorder.trace, model, [x]) == []
    assert find_unreached(recorder.trace, model) == []
