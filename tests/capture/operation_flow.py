"""What an operation records, and that recording it changes nothing."""

import torch
from torch import nn

from xray.capture.recorder import record


class Model(nn.Module):
    """A module around a function, for tests that need nothing else."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def flow(recorded):
    """Each operation with the makers of its inputs, in order."""
    return [(step.op, [record.source for record in step.inputs]) for step in list(recorded.steps)[1:]]


def assert_same(plain, recorded):
    leaves = torch.utils._pytree.tree_leaves
    for one, other in zip(leaves(plain), leaves(recorded), strict=True):
        assert torch.equal(one, other)


def record_and_compare(model, *args, **kwargs):
    """The trace of a call whose results are bit for bit those of an unrecorded one, before and after."""
    torch.manual_seed(3)
    plain = model(*args, **kwargs)
    torch.manual_seed(3)
    with record(model) as recorder:
        recorded = model(*args, **kwargs)
    assert_same(plain, recorded)
    torch.manual_seed(3)
    assert_same(plain, model(*args, **kwargs))
    return recorder.trace
