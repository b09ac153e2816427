"""A model that is too large to be run as it is, is recorded as a small copy, and the trace says so."""

import pytest
import torch
from torch import nn

from xray.capture.targets.target import run_target
from xray.ir.trace import SMALL_COPY
from xray.sources import ways
from xray.sources.request import Request
from xray.sources.ways import COPIED, WITH_CHANCE, Made, build_seeded, list_targets
from xray.story.sentences import of_runs


def feed(model, *, has_storage):
    yield Made({"input": torch.ones(2, 3)}, {})


@pytest.mark.parametrize(("way", "is_copy"), [(COPIED, True), (WITH_CHANCE, False)])
def test_a_small_copy_is_owned_up_to(way, is_copy):
    trace = run_target(next(list_targets(nn.Linear(3, 5), feed, Request(), way))).trace

    assert trace.config.get(SMALL_COPY, False) is is_copy
    assert bool(of_runs.COPIED.tell(trace)) is is_copy


def test_large_weights_repeat_one_stretch_of_chance_and_no_two_rows_are_alike(monkeypatch):
    monkeypatch.setattr(ways, "STRETCH", 101)

    weight = build_seeded(lambda: nn.Linear(30, 50)).weight.detach()
    assert torch.equal(weight.flatten()[:101], weight.flatten()[101:202])
    assert len({tuple(row.tolist()) for row in weight}) == 50
    assert 0 < weight.std() < 1 / 30**0.5


def test_small_weights_are_what_torch_draws():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        own = nn.Linear(30, 50).weight

    assert torch.equal(build_seeded(lambda: nn.Linear(30, 50)).get_parameter("weight"), own)
