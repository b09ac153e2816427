"""What of a model takes no part in a recording: told where it is proven, and silent where something ran unseen."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import xray
from xray.story.facts.totals import count_work
from xray.story.facts.unused import find_unused

ROWS = torch.zeros(2, 3)


class Model(nn.Module):
    """Two layers, of which `forward` uses what the test says."""

    def __init__(self, use, *, own=False, within=None):
        super().__init__()
        self.used, self.spare = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5, bias=False))
        self.token = nn.Parameter(torch.zeros(7)) if own else None
        self.within = within
        self.use = use

    def forward(self, x):
        return self.use(self, x)


def unused(use, **parts):
    return xray.trace(Model(use, **parts), ROWS).unused


def test_a_part_that_does_not_run_is_named_once_with_all_it_holds():
    assert unused(lambda model, x: model.used(x)) == {"spare": 16 + 20}


def test_of_a_part_that_runs_in_half_the_other_half_is_named():
    assert unused(lambda model, x: model.spare[0](model.used(x))) == {"spare.1": 20}


def test_a_parameter_that_nobody_reads_is_named_alone():
    assert unused(lambda model, x: model.spare(model.used(x)), own=True) == {"token": 7}
    assert unused(lambda model, x: model.spare(model.used(x)) + model.token.sum(), own=True) == {}


def test_weights_are_used_without_their_layer():
    assert unused(lambda model, x: x @ model.used.weight) == {"used.bias": 3, "spare": 36}
    assert unused(lambda model, x: x @ nn.Identity()(model.used.weight)) == {"used.bias": 3, "spare": 36}
    assert unused(lambda model, x: torch.cat([x, model.used.weight]) + model.used.bias) == {"spare": 36}
    assert unused(lambda model, x: model.used(x), within=parametrizations.weight_norm(nn.Linear(3, 3)))["within"] == 15


def test_weights_that_another_layer_shares_are_used():
    tied = Model(lambda model, x: model.spare[0](x))
    tied.used, first = nn.Linear(3, 4), tied.spare[0]
    assert isinstance(first, nn.Linear)
    tied.used.weight, tied.used.bias = first.weight, first.bias

    assert xray.trace(tied, ROWS).unused == {"spare.1": 20}


def test_nothing_is_said_of_what_stands_beside_unseen_work():
    def unseen(x, weight):
        with torch._C.DisableTorchFunction():
            return x @ weight

    assert unused(lambda model, x: unseen(x, model.used.weight) + 1) is None
    assert unused(lambda model, x: unseen(x, model.used.weight)) is None
    assert unused(lambda model, x: model.used(unseen(model.spare(x), torch.ones(5, 3)))) == {}
    with pytest.warns(DeprecationWarning, match="jit"):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    assert unused(lambda model, x: model.within(x), within=scripted) is None


def test_nothing_is_said_where_others_stand_in_for_parameters():
    model = Model(lambda model, x: model.used(x) + model.token.sum(), own=True)
    others: dict[str, torch.Tensor] = {
        name: nn.Parameter(one.detach().clone()) for name, one in model.named_parameters()
    }

    with xray.record(model) as recorder:
        torch.func.functional_call(model, others, ROWS)

    assert recorder.trace.unused is None


def test_of_a_part_that_is_called_alone_no_other_part_is_taken_off():
    model = Model(lambda model, x: x)

    with xray.record(model) as recorder:
        model.spare[0](ROWS)

    assert recorder.trace.unused == {"used": 12, "spare.1": 20}
    assert find_unused(recorder.trace) == {}


def test_what_a_model_keeps_and_is_given_is_nothing_unseen():
    class Keeping(Model):
        def __init__(self):
            super().__init__(lambda model, x: model.used(x * model.scale))
            self.register_buffer("scale", torch.ones(3))

    assert xray.trace(Keeping(), ROWS).unused == {"spare": 36}


def test_of_a_model_that_failed_nothing_is_said():
    with pytest.raises(RuntimeError) as caught:
        xray.trace(Model(lambda model, x: model.spare(x.view(5))), ROWS)

    assert caught.value.xray_trace.unused is None  # type: ignore[attr-defined]
    assert xray.record(Model(lambda model, x: x)).trace.unused is None


def test_a_chatbot_uses_all_it_has(inference_trace, training_trace):
    assert training_trace.unused == {}
    assert inference_trace.unused == {}


def test_what_is_unused_is_told_on_poster_and_in_words():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
            self.norm, self.spares = nn.LayerNorm(8), nn.ModuleList(nn.Linear(8, 9, bias=False) for _ in range(2))

        def forward(self, x):
            return x + self.second(self.first(self.norm(x)).relu())

    trace = xray.trace(nn.Sequential(Layer(), Layer()), torch.zeros(2, 5, 8))

    assert set(trace.unused) == {"0.spares", "1.spares"}
    (joined,) = xray.anatomy(trace).unused
    assert (joined.path, joined.params) == ("*.spares", 4 * 72)
    assert "of these unused: *.spares" in xray.render(trace, "svg")
    whole = xray.anatomy(trace)
    assert whole.active_params == whole.params - 4 * 72


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores, mask: scores.masked_fill(mask, float("-inf")),
        lambda scores, mask: torch.where(mask, float("-inf"), scores),
        lambda scores, mask: scores.masked_fill_(mask[:7, :7], float("-inf")),
        lambda scores, mask: nn.functional.scaled_dot_product_attention(scores, scores, scores, attn_mask=mask),
    ],
)
def test_a_mask_that_is_a_parameter_takes_part_and_is_as_wide_as_it_is(hide):
    class Hiding(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(7, 7)
            self.mask = nn.Parameter(torch.ones(7, 7).tril().bool(), requires_grad=False)

        def forward(self, x):
            return hide(self.first(x) + 0, self.mask)

    trace = xray.trace(nn.Sequential(Hiding(), nn.Linear(7, 3)), torch.zeros(2, 7, 7))

    assert trace.unused == {}
    assert any(record.weight == "0.mask" for step in trace.steps for record in step.inputs)
    assert count_work(trace).param_bytes == 4 * (56 + 24) + 49
