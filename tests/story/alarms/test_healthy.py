"""Models of libraries that are as they should be raise nothing."""

import inspect

import pytest
import torch
from recorded import recorded
from recorders import RECORDERS
from story.body.building import build_family
from story.body.table import FAMILIES

import xray
from xray.story.alarms.whole import audit

KEPT = tuple(RECORDERS)
FAST = ("GPT-2, inference", "BERT, training", "T5 writes", "BART writes with beams", "nn.Transformer, training")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in KEPT]
)
def test_a_kept_trace_raises_nothing(name):
    assert audit(recorded(name)).alarms == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_raises_nothing(name):
    _, model, given = build_family(FAMILIES[name])
    with torch.no_grad():
        assert audit(xray.trace(model, **given)).alarms == ()


def takes_mask(name):
    """Whether a family's model is built with numbers, and takes a mask beside ids."""
    import transformers

    asked = inspect.signature(getattr(transformers, FAMILIES[name].model).forward).parameters
    return FAMILIES[name].tiny and {"input_ids", "attention_mask"} <= set(asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].tiny])
def test_a_family_given_padding_raises_nothing(name):
    if not takes_mask(name):
        pytest.skip("it takes no mask")
    _, model, given = build_family(FAMILIES[name])
    mask = torch.ones(given["input_ids"].shape, dtype=torch.long)
    mask[-1, -3:] = 0
    with torch.no_grad():
        assert audit(xray.trace(model, **{**given, "attention_mask": mask})).alarms == ()
