"""A model that is too large to be run as it is, is recorded as a small copy, and the trace says so."""

import pytest
import torch
from torch import nn

from xray.capture.targets.target import run_target
from xray.ir.trace import SMALL_COPY
from xray.sources.request import Request
from xray.sources.ways import COPIED, WITH_CHANCE, Made, list_targets
from xray.story.sentences import of_runs


def feed(model, *, has_storage):
    yield Made({"input": torch.ones(2, 3)}, {})


@pytest.mark.parametrize(("way", "is_copy"), [(COPIED, True), (WITH_CHANCE, False)])
def test_a_small_copy_is_owned_up_to(way, is_copy):
    trace = run_target(next(list_targets(nn.Linear(3, 5), feed, Request(), way))).trace

    assert trace.config.get(SMALL_COPY, False) is is_copy
    assert bool(of_runs.COPIED.tell(trace)) is is_copy
