"""Exported programs, .pt2 files."""

import pytest
import torch
from torch import nn

from xray.capture.targets.target import run_target
from xray.errors import TraceError
from xray.sources.loading import load_source
from xray.sources.request import Request

TRUSTED = Request(trust_remote_code=True)


@pytest.mark.filterwarnings("ignore")  # torch warns about its own parts while it saves
def test_an_exported_program_is_recorded_with_its_inputs(tmp_path):
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(5, 7), nn.ReLU()), (torch.ones(3, 5),)), path)

    outcome = run_target(load_source(str(path), TRUSTED))

    assert outcome.error is None
    assert outcome.trace.passes[0].steps[0].outputs[0].shape == (3, 7)


def test_a_file_that_is_not_there_is_told():
    with pytest.raises(TraceError, match=r"cannot read missing\.pt2: no such file"):
        load_source("missing.pt2")


def test_a_file_that_is_no_program_is_told(tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(b"no zip")

    with pytest.raises(TraceError, match="holds no exported program"):
        load_source(str(path), TRUSTED)


def test_a_file_that_is_not_trusted_is_not_opened(tmp_path, monkeypatch):
    path = tmp_path / "model.pt2"
    path.write_bytes(b"no zip")
    monkeypatch.setattr(torch.export, "load", lambda *_: pytest.fail("it was opened"))

    with pytest.raises(TraceError, match=r"model\.pt2 may bring code along: .* run it with --trust-remote-code\."):
        load_source(str(path))
