"""The swift forward pass of training against the readable model: the same losses, the same gradients."""

import pytest
import torch
from small_models import SETTINGS, SIZES, SRC, TGT
from torch.nn import functional

from xray.config import PAD, ModelConfig
from xray.learn.runs.build import build_model
from xray.model.fast.forward import FastForward
from xray.model.fast.loss import judge_answers
from xray.model.fast.packed_weights import PackedWeights


def loss_of(logits):
    return functional.cross_entropy(logits.flatten(0, 1), TGT[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)


def both(settings, src=SRC):
    """The readable model with its gradients, and packed weights with theirs, after a backward pass each."""
    config = ModelConfig(**{**SIZES, **settings})
    readable, packed = build_model(config, 7), PackedWeights(build_model(config, 7))
    losses = [loss_of(readable(src, TGT[:, :-1])), loss_of(FastForward(packed)(src, TGT[:, :-1]))]
    for loss in losses:
        loss.backward()
    packed.gather_gradients()
    return losses, readable, packed


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_loss_is_that_of_the_readable_model(settings):
    (readable, swift), *_ = both(settings)
    assert torch.allclose(readable, swift, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_gradient_is_that_of_the_readable_model(settings):
    _, readable, packed = both(settings)
    wanted = {name: parameter.grad for name, parameter in readable.named_parameters()}
    found = dict(packed.cut(packed.block.grad))
    assert wanted.keys() == found.keys()
    assert [name for name in wanted if not torch.allclose(wanted[name], found[name], atol=1e-6)] == []


def test_questions_of_one_length_need_no_mask():
    (readable, swift), *_ = both({}, SRC.clone().masked_fill(SRC == PAD, 11))
    assert torch.allclose(readable, swift, atol=1e-6)


def test_packing_changes_no_weight():
    model = build_model(ModelConfig(**SIZES), 7)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    PackedWeights(model)
    assert [name for name, one in model.named_parameters() if not torch.equal(one, before[name])] == []


def test_what_is_written_into_the_block_is_in_the_model():
    packed = PackedWeights(build_model(ModelConfig(**SIZES), 7))
    packed.block.data.fill_(3.0)
    assert all(bool((one == 3.0).all()) for one in packed.model.parameters())


def test_dropout_drops_while_training_and_not_in_evaluation():
    packed = PackedWeights(build_model(ModelConfig(**SIZES, dropout=0.5), 7))
    swift = FastForward(packed)
    packed.model.train()
    once, again = swift(SRC, TGT), swift(SRC, TGT)
    packed.model.eval()
    assert not torch.equal(once, again)
    assert torch.equal(swift(SRC, TGT), swift(SRC, TGT))


def test_bfloat16_comes_near():
    config = ModelConfig(**SIZES)
    swift = FastForward(PackedWeights(build_model(config, 7)))
    exact = loss_of(swift(SRC, TGT[:, :-1]))
    with torch.autocast("cpu", torch.bfloat16):
        near = loss_of(swift(SRC, TGT[:, :-1]))
    assert torch.allclose(exact, near.float(), rtol=0.02)


@pytest.mark.parametrize(
    ("block", "few"), [(1 << 23, 1 << 18), (1 << 23, 0), (40, 0)], ids=["plain", "one block", "several blocks"]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_the_loss_in_blocks_has_the_gradients_of_the_loss_in_one(monkeypatch, block, few, smoothing, share):
    monkeypatch.setattr("xray.model.fast.loss.BLOCK", block)
    monkeypatch.setattr("xray.model.fast.loss.FEW", few)
    chance = torch.Generator().manual_seed(3)
    shapes = (2, 7, 11), (13, 11), (13,)
    states, weight, bias = (torch.randn(*shape, generator=chance).requires_grad_() for shape in shapes)
    targets = torch.randint(4, 13, (2, 7), generator=chance)
    targets[1, 4:] = PAD
    logits = functional.linear(states, weight, bias)
    wanted = share * functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )

    found = share * judge_answers(states, weight, bias, targets, smoothing, torch.float32)

    assert torch.allclose(found, wanted, atol=1e-6)
    slopes = (torch.autograd.grad(one, (states, weight, bias)) for one in (found, wanted))
    for one, other in zip(*slopes, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_loss_of_a_guess_that_is_surely_wrong_is_finite(monkeypatch):
    monkeypatch.setattr("xray.model.fast.loss.FEW", 0)
    states, weight = torch.full((1, 1, 2), 200.0), torch.tensor([[0.0, 0.0]] * 4 + [[1.0, 1.0]])

    loss = judge_answers(states, weight, torch.zeros(5), torch.tensor([[3]]), 0.0, torch.float32)

    assert float(loss) == pytest.approx(400.0)
