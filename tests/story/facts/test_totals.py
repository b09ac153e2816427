from dataclasses import replace

import pytest
import torch
from poster_traces import make_trace
from small_traces import small_inference_passes, small_trace, small_training_pass, step
from torch import nn

import xray
from xray.config import ModelConfig
from xray.ir.trace import Pass
from xray.ir.work import add_up_multiplications
from xray.model.transformer import Transformer
from xray.renderers.table.totals import list_work
from xray.story.cards.costs import list_costs
from xray.story.facts.totals import add_up, count_params, count_work


def test_a_module_seen_in_two_passes_counts_once():
    trace = small_trace(*small_inference_passes())

    assert count_params(trace) == 211 + 223 + 646


def test_training_and_inference_together_count_no_parameter_twice():
    assert count_params(small_trace()) == count_params(small_trace(small_training_pass()))


def test_a_whole_model_counts_instead_of_its_parts():
    whole = step("Transformer", "transformer", params=1009)
    inside = tuple(replace(each, parent=each.parent or whole.id) for each in small_training_pass().steps)

    trace = small_trace(Pass("training", 0, {}, (whole, *inside)), *small_inference_passes())

    assert count_params(trace) == 1009


@pytest.mark.parametrize("sharing", ["none", "decoder", "all"])
def test_parts_that_share_weights_count_them_once(sharing):
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "sharing": sharing, "src_vocab": 61, "tgt_vocab": 61}

    trace = make_trace("inference", turns=1, **sizes)

    assert count_params(trace) == sum(one.numel() for one in Transformer(ModelConfig(**sizes)).parameters())


class MakesLayers(nn.Module):
    """A layer that it makes while it runs, around one that it holds (a BERT of a tutorial)."""

    def __init__(self):
        super().__init__()
        self.held = nn.Linear(5, 7)

    def forward(self, x):
        return nn.LayerNorm(11)(nn.Sequential(self.held, nn.Linear(7, 11))(x))


def test_layers_that_a_model_makes_while_it_runs_count_and_those_that_it_holds_once():
    trace = xray.trace(MakesLayers(), torch.rand(2, 5))

    assert count_params(trace) == (5 * 7 + 7) + (7 * 11 + 11) + 2 * 11
    assert xray.anatomy(trace).params == count_params(trace)


def test_gradients_are_no_tensors_of_the_forward_pass():
    trace = small_trace(Pass("training", 0, {}, small_training_pass().steps[-1:]))

    assert add_up(trace).tensors == 0


def test_masks_are_counted_where_they_are_made():
    assert add_up(small_trace(small_training_pass())).masks == 4


def test_the_work_of_all_passes_is_added_up(both_trace):
    each = [count_work(replace(both_trace, passes=(one,))) for one in both_trace.passes]
    whole = count_work(both_trace)

    assert (whole.flops, whole.elements, whole.activation_bytes) == (
        sum(one.flops for one in each),
        sum(one.elements for one in each),
        sum(one.activation_bytes for one in each),
    )


def test_two_flops_are_one_multiplication(both_trace):
    assert count_work(both_trace).flops == 2 * sum(map(add_up_multiplications, both_trace.passes))


def test_our_own_model_is_counted_in_full(both_trace):
    assert count_work(both_trace).not_counted == ()


def test_back_propagation_is_said_to_be_left_out(training_trace, inference_trace):
    assert count_work(training_trace).with_backward
    assert not count_work(inference_trace).with_backward


def test_what_is_not_counted_is_named_with_how_often():
    class Waves(nn.Module):
        def forward(self, x):
            return torch.fft.ifft(torch.fft.fft(torch.fft.fft(x)))

    assert count_work(xray.trace(Waves(), torch.ones(3))).not_counted == (("fft_fft", 2), ("fft_ifft", 1))


def test_tied_weights_take_their_bytes_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            return self.head(self.words(ids))

    work = count_work(xray.trace(Tied(), torch.ones(2, 3, dtype=torch.int64)))

    assert (work.params, work.param_bytes) == (35, 140)


def test_parameters_of_two_widths_each_take_their_own():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.narrow, self.wide = nn.Linear(3, 5).half(), nn.Linear(5, 7)

        def forward(self, x):
            return self.wide(self.narrow(x).float())

    work = count_work(xray.trace(Mixed(), torch.ones(2, 3).half()))

    assert work.param_bytes == 2 * (3 * 5 + 5) + 4 * (5 * 7 + 7)


class Given(nn.Module):
    """A linear layer that gives its weights the type of the rows before it works with them."""

    def __init__(self, width, dtype):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(7, width)), nn.Parameter(torch.rand(7, dtype=dtype))

    def forward(self, x):
        return nn.functional.linear(x, self.weight.type_as(x), self.bias.type_as(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_that_operations_read_take_their_own_width_beside_a_module_of_another(dtype):
    model = nn.Sequential(nn.Embedding(11, 5).bfloat16(), Given(5, dtype))

    work = count_work(xray.trace(model, torch.ones(2, 3, dtype=torch.int64)))

    assert work.param_bytes == sum(one.numel() * one.element_size() for one in model.parameters())


def test_the_bytes_of_parameters_are_not_known_where_some_are_read_nowhere_and_others_are_of_two_widths():
    class Partly(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(3, 5).half(), nn.Linear(5, 7), nn.Linear(7, 7))

        def forward(self, x):
            return self[1](self[0](x).float())

    trace = xray.trace(Partly(), torch.ones(2, 3).half())

    assert count_work(trace).param_bytes == 0
    assert dict(list_costs(trace))["weights"] == "118 numbers"
    assert not any("Parameters take" in one for one in list_work(count_work(trace)))


def test_a_part_that_ran_by_itself_is_not_counted_beside_the_whole():
    whole = step("Net", "net", params=1009)
    part = step("encoder", "encoder", params=211)
    passes = (Pass("forward", 0, {}, (part,)), Pass("forward", 1, {}, (whole,)))

    assert count_params(replace(small_trace(*passes), title="Net")) == 1009


def test_parameters_are_as_wide_as_they_are_and_not_as_what_they_make():
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(3, 5)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.net(x)

    work = count_work(xray.trace(Cast(), torch.ones(2, 3)))

    assert (work.param_bytes, work.activation_bytes) == (4 * 20, 2 * 10)
