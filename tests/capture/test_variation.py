"""Axis words for models that X-Ray was not written for: right also when every size is equal."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.capture.axes.structure import name_axes_by_structure
from xray.capture.axes.twin import trace_twin
from xray.capture.targets.target import Target, run_target
from xray.config import ModelConfig
from xray.model.attention import MultiHeadAttention
from xray.model.transformer import Transformer


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.back(functional.gelu(self.wide(x)))


class Decoder(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.words = nn.Embedding(11, width)
        self.block = Block(width, heads)
        self.lm_head = nn.Linear(width, 11)

    def forward(self, ids):
        return self.lm_head(self.block(self.words(ids)))


def words_of(build, *args, **kwargs):
    target = Target(build(), args, kwargs, rebuild=build)
    trace = run_target(target).trace
    return {step.id: step for step in trace.steps}


@pytest.mark.parametrize(("batch", "length", "width"), [(2, 5, 12), (4, 4, 8), (8, 8, 8), (2, 2, 4)])
def test_a_decoder_that_nobody_wrote_for_x_ray_gets_its_words(batch, length, width):
    steps = words_of(lambda: Decoder(width), torch.zeros(batch, length, dtype=torch.long))
    attention = "block.scaled_dot_product_attention"

    assert steps["words#0"].outputs[0].axes == ("batch", "seq_len", "d_model")
    assert steps["block.permute#0"].outputs[0].axes == ("", "batch", "heads", "seq_len", "d_k")
    assert steps[f"{attention}.scores#0"].outputs[0].axes == ("batch", "heads", "seq_len", "seq_len")
    assert steps[f"{attention}.transpose_key#0"].outputs[0].axes == ("batch", "heads", "d_k", "seq_len")
    assert steps["block.transpose#0"].outputs[0].axes == ("batch", "seq_len", "heads", "d_k")
    assert steps["block.wide#0"].outputs[0].axes == ("batch", "seq_len", "d_ff")
    assert steps["block#0"].outputs[0].axes == ("batch", "seq_len", "d_model")
    assert steps["lm_head#0"].outputs[0].axes == ("batch", "seq_len", "vocab")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("explicit", [True, False])
def test_the_words_of_our_own_model_are_those_of_its_twin(equal, explicit):
    sizes: dict[str, Any] = (
        {"src_vocab": 8, "tgt_vocab": 8, "d_model": 8, "heads": 2, "d_ff": 8} if equal else {"src_vocab": 23}
    )
    config = ModelConfig(**sizes, encoder_layers=1, decoder_layers=2)

    def build():
        model = Transformer(config)
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.explicit = explicit
        return model

    found = words_of(build, torch.full((8, 8), 5), torch.full((8, 8), 5))
    expected = trace_twin(config)["training"]

    wrong, known, total = [], 0, 0
    for step_id, words in expected.items():
        if step_id not in found or step_id.startswith("tgt_mask"):
            continue
        for number, record in enumerate(found[step_id].outputs):
            for axis, word in enumerate(words.get(("out", record.name), ())):
                total += 1
                said = record.axes[axis]
                known += said != ""
                if said not in ("", word) and (said, word) not in (("vocab", "tgt_vocab"), ("batch*1", "1")):
                    wrong.append((step_id, number, axis, said, word))
    assert wrong == []
    assert known / total > 0.85


def test_axes_that_move_only_together_have_one_word():
    class Masked(nn.Module):
        def forward(self, ids, attention_mask):
            return ids * attention_mask

    steps = words_of(Masked, torch.ones(3, 7), torch.ones(3, 7))

    assert steps["Masked#0"].outputs[0].axes == ("batch", "seq_len")


def test_a_small_model_that_looks_at_numbers_gets_its_words():
    class Looking(nn.Module):
        def forward(self, x):
            return x / x.max().item() if bool((x > 0).all()) else x

    steps = words_of(Looking, torch.ones(2, 3, 5))

    assert steps["Looking#0"].outputs[0].axes == ("batch", "seq_len", "x_2")


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: x[x > 0],
        lambda x: (x > 0).nonzero(),
        lambda x: torch.where(x > 0)[0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.view(-1).repeat_interleave(torch.ones(x.numel(), dtype=torch.long)),
    ],
)
def test_a_size_that_numbers_decide_has_no_word_of_an_input(choose):
    class Choosing(nn.Module):
        def forward(self, x):
            return choose(x)

    steps = words_of(Choosing, torch.ones(3, 2))

    assert [step.outputs[0].axes[0] for step in steps.values() if step.path == "Choosing"] == [""]


def test_what_the_first_run_changed_is_not_run_again_with_numbers():
    class Growing(nn.Module):
        def forward(self, x, kept):
            kept.append(x)
            return torch.cat(kept, 1)

    trace = run_target(Target(Growing(), (torch.ones(2, 3), []), rebuild=Growing)).trace

    assert trace.passes[0].steps[0].outputs[0].axes == ("", "")


def test_threads_are_as_many_as_before():
    before = torch.get_num_threads()
    words_of(Decoder, torch.zeros(2, 5, dtype=torch.long))

    assert torch.get_num_threads() == before


def test_a_large_model_is_run_again_without_storage(monkeypatch):
    monkeypatch.setattr("xray.capture.axes.reruns.MOST_PARAMETERS", 10)
    devices = []

    class Noting(Decoder):
        def forward(self, ids):
            devices.append(ids.device.type)
            return super().forward(ids)

    words_of(Noting, torch.zeros(2, 5, dtype=torch.long))

    assert devices == ["cpu", "meta", "meta"]


def test_what_moves_with_no_input_and_is_no_attention_keeps_no_word():
    steps = words_of(lambda: nn.Sequential(nn.Linear(3, 5)), torch.ones(2, 3))

    assert steps["0#0"].outputs[0].axes == ("batch", "")


def test_images_have_their_own_words():
    steps = words_of(lambda: nn.Sequential(nn.Conv2d(3, 7, 3), nn.Flatten()), torch.ones(2, 3, 9, 9))

    assert steps["0#0"].outputs[0].axes == ("batch", "", "height", "width")
    assert steps["1#0"].outputs[0].axes == ("batch", "height*width")


def test_a_model_that_cannot_run_at_another_size_keeps_its_numbers():
    class Fixed(nn.Module):
        def forward(self, x):
            assert x.shape == (2, 3)
            return x * x.sum().item()

    steps = words_of(Fixed, torch.ones(2, 3))

    assert steps["Fixed#0"].outputs[0].axes == ("", "")


def test_the_second_runs_leave_chance_and_the_first_model_alone():
    model = Decoder()
    before, weights = torch.get_rng_state(), model.words.weight.clone()

    run_target(Target(model, (torch.zeros(2, 5, dtype=torch.long),), rebuild=Decoder))

    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(model.words.weight, weights)


def test_a_plain_trace_has_the_words_that_operations_tell():
    step = {s.id: s for s in xray.trace(Decoder(), torch.zeros(2, 5, dtype=torch.long)).steps}["words#0"]

    assert step.outputs[0].axes == ("batch", "seq_len", "d_model")


def test_naming_twice_changes_nothing():
    trace = xray.trace(Decoder(), torch.zeros(2, 5, dtype=torch.long))

    assert name_axes_by_structure(trace) == trace
