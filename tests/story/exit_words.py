"""What is written at the exit of a small model."""

import re

import torch
from story.body.test_mistaken import AttentionPart, FeedForwardPart, rows

import xray
from xray.renderers.sheet.poster import draw_poster


def words_of(make):
    model = make(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))).eval()
    with torch.no_grad():
        drawn = draw_poster(xray.trace(model, rows()), "svg")
    return [word for word in re.split("<[^>]+>", drawn) if word.strip()]
