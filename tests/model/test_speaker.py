"""Answers said word by word, against the readable model that computes everything again."""

import pytest
import torch
from small_models import SETTINGS, SIZES, SRC, TGT

from xray.config import ModelConfig
from xray.learn.runs.build import build_model
from xray.model.fast.speaker import Speaker


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@torch.inference_mode()
def test_every_word_is_answered_as_by_the_readable_model(settings):
    model = build_model(ModelConfig(**{**SIZES, **settings}), 7).eval()
    answer = TGT[:, :4]  # no padding yet
    speaker = Speaker(model, SRC)
    said = torch.stack([speaker.hear(answer[:, place : place + 1]) for place in range(4)], dim=1)
    assert torch.allclose(said, model(SRC, answer), atol=1e-5)


@torch.inference_mode()
def test_the_room_for_words_grows(monkeypatch):
    monkeypatch.setattr("xray.model.fast.speaker.PLACES", 1)
    model = build_model(ModelConfig(**SIZES), 7).eval()
    speaker = Speaker(model, SRC)
    said = torch.stack([speaker.hear(TGT[:, place : place + 1]) for place in range(4)], dim=1)
    assert torch.allclose(said, model(SRC, TGT[:, :4]), atol=1e-5)


@torch.inference_mode()
def test_rows_that_are_kept_go_on_as_they_were():
    model = build_model(ModelConfig(**SIZES), 7).eval()
    answer = TGT[:, :3]
    speaker = Speaker(model, SRC)
    speaker.hear(answer[:, :1])
    speaker.hear(answer[:, 1:2])
    rows = torch.tensor([1, 0, 1])
    speaker.keep(rows)
    assert torch.allclose(speaker.hear(answer[rows, 2:3]), model(SRC, answer)[rows, 2], atol=1e-5)
