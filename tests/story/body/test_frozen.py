"""Places are called learned only where their table is trained: a model may freeze it, or who runs the model."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_ends import describe_places

VOCAB, PLACES, WIDTH, HEADS = 61, 5, 12, 3
SAID = "Learned places are added."
DRAWN = "+ LEARNED PLACES"


class Places(nn.Module):
    """A small encoder whose places are looked up, or a parameter that is added as it is."""

    def __init__(self, *, looks_up):
        super().__init__()
        self.words, self.held_places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.place_rows = None if looks_up else nn.Parameter(torch.zeros(1, PLACES, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 17, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        rows = self.held_places(torch.arange(PLACES)) if self.place_rows is None else self.place_rows
        return self.layers(self.words(ids) + rows)

    @property
    def places(self):
        return self.held_places if self.place_rows is None else self.place_rows


def frozen(model):
    """Nothing is trained."""
    model.requires_grad_(False)


def frozen_places(model):
    model.places.requires_grad_(False)


def adapted(model):
    """Everything is frozen but a few weights in the layers."""
    frozen(model)
    model.layers.layers[0].linear1.requires_grad_(True)


def record_places(freeze, *, looks_up):
    torch.manual_seed(0)
    model = Places(looks_up=looks_up)
    freeze(model)
    return xray.trace(model, torch.arange(2 * PLACES).view(2, PLACES))


def told_of(trace):
    """Whether the anatomy calls the places learned, and the texts on the poster."""
    (part,) = (part for tower in anatomy(trace).towers for part in tower.entrance if part.part == "positions")
    boxes = compose_poster(trace, text_width).boxes
    texts = {"".join(run.text for run in line) for box in boxes for line in box.lines}
    return part.learned, any(SAID in text for text in texts), any(DRAWN in text for text in texts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("looks_up", [True, False])
@pytest.mark.parametrize(
    ("freeze", "learned"), [(lambda _: None, True), (frozen_places, False), (frozen, None), (adapted, None)]
)
def test_places_are_called_learned_where_they_are_trained(freeze, learned, looks_up):
    is_learned = learned is True
    assert told_of(record_places(freeze, looks_up=looks_up)) == (learned, is_learned, is_learned and not looks_up)


@pytest.mark.parametrize("looks_up", [True, False])
def test_an_older_trace_does_not_say_whether_places_are_learned(looks_up):
    trace = record_places(lambda _: None, looks_up=looks_up)

    assert told_of(forget_training(trace)) == (None, False, False)


def test_layers_that_differ_in_what_is_frozen_are_alike():
    trained, frozen_in_part = (anatomy(record_places(one, looks_up=True)) for one in (lambda _: None, adapted))

    assert [tower.groups for tower in frozen_in_part.towers] == [tower.groups for tower in trained.towers]


def forget_training(trace):
    """The trace as it was recorded before it was noted what is trained."""

    def forget(step):
        inputs, outputs = (tuple(replace(one, trained=None) for one in side) for side in (step.inputs, step.outputs))
        return replace(step, inputs=inputs, outputs=outputs, trained=None)

    return replace(trace, passes=tuple(replace(one, steps=tuple(map(forget, one.steps))) for one in trace.passes))


@pytest.mark.parametrize(
    ("freeze", "told"),
    [(frozen_places, "Places of a fixed table are added."), (frozen, "Places are added.")],
)
def test_places_of_a_table_that_does_not_learn_are_called_so(freeze, told):
    (tower,) = anatomy(record_places(freeze, looks_up=True)).towers

    assert describe_places(tower) == told
