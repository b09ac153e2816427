"""Models whose class has a `__call__` of its own are recorded wholly, and once."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import xray


class CallsForward(nn.Module):
    """Goes past torch's own call, as TransformerCPI does; what it multiplies with is a parameter of the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 5))
        self.linear = nn.Linear(5, 7)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.linear(rows @ self.weight)
        return out

    def __call__(self, data: tuple[Tensor, Tensor], trains: bool = True) -> Tensor:
        rows, wanted = data
        return nn.functional.cross_entropy(self.forward(rows), wanted)


class CallsTorch(CallsForward):
    """Does something of its own around torch's call."""

    def __call__(self, data: tuple[Tensor, Tensor], trains: bool = True) -> Tensor:
        rows, wanted = data
        return nn.functional.cross_entropy(nn.Module.__call__(self, rows), wanted)


class HandsOn(CallsForward):
    """Hands on whatever it is given."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = nn.Module.__call__(self, *args, **kwargs)
        return out


class Fails(CallsForward):
    """Fails in its own call."""

    def __call__(self, data: tuple[Tensor, Tensor], trains: bool = True) -> Tensor:
        raise ValueError(f"no {data[0].shape}")


DATA = torch.rand(2, 3), torch.tensor([0, 6])


@pytest.mark.parametrize("kind", [CallsForward, CallsTorch])
def test_a_call_of_the_models_own_is_recorded_wholly_and_once(kind: type[CallsForward]) -> None:
    trace = xray.trace(kind(), DATA)
    ops = [(step.op, step.parent is None) for step in trace.steps]
    assert [op for op, _ in ops[1:]] == ["matmul", "linear", "cross_entropy"]
    assert [is_top for _, is_top in ops] == [True, False, False, False]
    top = trace.steps[0]
    assert (top.params, [one.name for one in top.inputs]) == (57, ["data.0", "data.1"])
    assert [one.shape for one in top.outputs] == [()]


def test_inputs_that_are_handed_on_keep_the_names_of_forward() -> None:
    trace = xray.trace(HandsOn(), rows=DATA[0], axes={"rows": ("batch", "time")})
    assert [(one.name, one.axes) for one in trace.steps[0].inputs] == [("rows", ("batch", "time"))]
    assert len(trace.steps) == 3


def test_a_call_of_the_models_own_that_fails_is_told() -> None:
    with pytest.raises(ValueError, match="no torch") as caught:
        xray.trace(Fails(), DATA)
    (step,) = caught.value.xray_trace.steps  # type: ignore[attr-defined]
    assert (step.error or "").startswith("ValueError: no torch.Size")


@pytest.mark.parametrize("kind", [CallsForward, CallsTorch])
def test_the_class_is_left_as_it_was_found(kind: type[CallsForward]) -> None:
    own, other = vars(kind)["__call__"], kind()
    with xray.record(model := kind()) as recorder:
        other(DATA)
        model(DATA)
        model(DATA)
    assert vars(kind)["__call__"] is own
    assert [len(one.steps) for one in recorder.trace.passes] == [4, 4]
