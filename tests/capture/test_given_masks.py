import pytest
import torch
from torch import nn

import xray
from xray.ir.json_form import trace_from_json, trace_to_json


class Hides(nn.Module):
    def forward(self, x, attention_mask, position_ids=None):
        turned = 1.0 - attention_mask[:, None]
        return x + turned


def record_hiding(device="cpu"):
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]], device=device)
    return xray.trace(Hides(), torch.zeros(2, 2, 3, device=device), attention_mask=mask)


def inputs_of(trace, path):
    return next(step for step in trace.steps if step.path == path).inputs


def test_a_mask_is_known_by_the_name_under_which_the_model_was_given_it():
    trace = record_hiding()
    assert [record.given for record in inputs_of(trace, "Hides.index")] == ["attention_mask"]
    assert [record.given for record in inputs_of(trace, "Hides")] == [None, "attention_mask"]


def test_the_values_of_a_given_mask_are_noted_once():
    trace = record_hiding()
    assert inputs_of(trace, "Hides")[1].preview.values == (1, 1, 0, 1, 1, 1)
    assert inputs_of(trace, "Hides.index")[0].preview is None


def test_without_storage_a_given_mask_keeps_its_name():
    record = inputs_of(record_hiding("meta"), "Hides.index")[0]
    assert (record.given, record.preview) == ("attention_mask", None)


def test_only_what_was_given_says_so_in_json():
    trace = record_hiding()
    text = trace_to_json(trace)
    assert text.count('"given":') == 2
    assert trace_from_json(text) == trace


def test_a_mask_changed_in_place_is_no_longer_what_was_given():
    class Changes(nn.Module):
        def forward(self, x, attention_mask):
            attention_mask[0] = 0
            return x + attention_mask

    trace = xray.trace(Changes(), torch.zeros(2, 3), attention_mask=torch.ones(2, 3, dtype=torch.long))
    assert inputs_of(trace, "Changes.add")[1].given is None


def test_a_window_that_only_the_configuration_knows_is_noted():
    class Config:
        sliding_window = 4

    class HasOne(Hides):
        def __init__(self):
            super().__init__()
            vars(self)["config"] = Config()

    trace = xray.trace(HasOne(), torch.zeros(2, 2, 3), attention_mask=torch.ones(2, 3))
    assert trace.steps[0].settings["config.sliding_window"] == 4


class Chooses(nn.Module):
    """Scores where a condition holds, or where it does not, and one number elsewhere (ImageGPT)."""

    def __init__(self, below, *, turned=False):
        super().__init__()
        self.below, self.turned = below, turned

    def forward(self, scores):
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if self.turned:
            return torch.where(~visible, self.below, scores)
        return torch.where(visible, scores, self.below)


@pytest.mark.parametrize("below", [float("-inf"), torch.tensor(torch.finfo(torch.float32).min)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_condition_where_scores_give_way_to_a_number_far_below_is_a_mask(below, turned):
    trace = xray.trace(Chooses(below, turned=turned), torch.zeros(2, 4, 4))

    condition = inputs_of(trace, "Chooses.where")[0]
    assert (condition.role, condition.mask.kind, condition.mask.hidden_share) == ("mask", "causal", 0.375)


@pytest.mark.parametrize("other", [0.0, torch.zeros(2, 4, 4), torch.tensor(-3.0)])
def test_a_condition_between_any_other_numbers_is_no_mask(other):
    trace = xray.trace(Chooses(other), torch.zeros(2, 4, 4))

    assert inputs_of(trace, "Chooses.where")[0].mask is None
