"""Each specimen recorded once in inference and once in training; a record is frozen, so tests may share it."""

from functools import cache

import torch
from families.specimens import BY_NAME

import xray
from xray.ir.trace import Trace


@cache
def record_inference(name: str) -> Trace:
    specimen = BY_NAME[name]
    with torch.no_grad():
        return xray.trace(specimen.build().eval(), **specimen.make_inputs())


@cache
def record_training(name: str) -> Trace:
    specimen = BY_NAME[name]
    return xray.trace(specimen.build(), **specimen.make_inputs())


RECORDINGS = {"inference": record_inference, "training": record_training}
