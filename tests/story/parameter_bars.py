"""The card of parameters, and how many a model has."""

import torch
from printed import text_of

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

IDS = torch.arange(14).view(2, 7)


def poster_of(model, *args, **kwargs):
    return compose_poster(xray.trace(model, *args, **kwargs), text_width)


def bars_of(layout):
    """The bars of the card by their names, every one with its count."""
    labels, counts = (
        {round(box.y): text_of(box.lines[0]) for box in layout.boxes if (box.on, box.align) == ("card", align)}
        for align in ("left", "right")
    )
    return {labels[y]: int(count.replace(",", "")) for y, count in counts.items()}


def count(*models):
    return sum(one.numel() for model in models for one in model.parameters())
