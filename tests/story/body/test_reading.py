"""What the anatomy says beside the table of families: what is counted, kept, and left unsaid."""

import pytest
import torch
from story.body.building import record_family
from story.body.table import FAMILIES
from torch import nn

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_passes


@pytest.mark.parametrize(
    ("name", "idle"),
    [
        ("mixtral", lambda c: (c.num_local_experts - 2) * 3 * c.hidden_size * c.intermediate_size),
        ("llama", lambda c: 0),
    ],
)
def test_parameters_of_experts_that_are_not_chosen_are_not_active(name, idle):
    config, trace = record_family(FAMILIES[name], num_hidden_layers=1)

    found = anatomy(trace)

    assert found.active_params == found.params - idle(config)


def test_a_trace_is_read_once():
    _, trace = record_family(FAMILIES["gpt2"], num_hidden_layers=1)

    assert anatomy(trace) is anatomy(trace)


def test_every_stage_tells_other_towers_by_their_names():
    _, trace = record_family(FAMILIES["bart"], encoder_layers=1, decoder_layers=1)

    (reading,) = read_passes(trace)

    told = {
        one.branch.source
        for tower in reading.towers
        for staging in (*tower.stagings, *(staging for layer in tower.layers for staging in layer))
        for one in staging.branches
        if isinstance(one.branch, Attention)
    }
    assert told == {"self", "encoder"}


class Waves(nn.Module):
    """Two sums that add what nobody knows (Autoformer's, between which its stream is cut)."""

    def __init__(self):
        super().__init__()
        self.asks, self.answers, self.out = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, x):
        for _ in range(2):
            x = x + self.out((self.asks(x) @ self.answers(x).mT).sin() @ x)
        return x


def test_sums_of_nothing_that_is_known_are_no_tower():
    trace = xray.trace(nn.Sequential(nn.Linear(7, 12), Waves(), Waves()), torch.rand(2, 8, 7))

    assert [one.tower.layers for one in read_passes(trace)[0].towers] != []
    assert anatomy(trace).towers == ()
