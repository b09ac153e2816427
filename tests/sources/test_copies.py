"""A model that is too large to be run as it is, or too slow, is recorded with less of it, and this is told."""

from functools import partial

import pytest
import torch
from torch import nn

from xray.capture.targets.target import run_target
from xray.ir.trace import SMALL_COPY
from xray.sources import ways
from xray.sources.loading import load_source
from xray.sources.request import Request
from xray.sources.sizes import Wishes
from xray.sources.ways import OF_LITTLE, WITHOUT_STORAGE, Made, SmallCopy, build_seeded, run_ways
from xray.story.sentences import of_runs


class Choosing(nn.Module):
    """Layers, before which a number is asked for that hangs on weights; so it does not run without storage."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(layers))

    def forward(self, x):
        x = x * self.layers[0].weight.sum().item()
        for layer in self.layers:
            x = layer(x)
        return x


def feed(model, *, has_storage):
    yield Made({"x": torch.ones(2, 3)}, {})


@pytest.mark.parametrize(
    ("limit", "told"),
    [(100, "It is a small copy of the model: n_layer 2 of 13. The whole model has 156 parameters."), (10_000, "")],
)
def test_a_small_copy_is_owned_up_to_and_what_it_lacks(monkeypatch, limit, told):
    monkeypatch.setattr(ways, "MOST_BYTES", limit)
    small = SmallCopy(lambda: Choosing(2), ("n_layer 2 of 13",))

    trace = run_target(run_ways(lambda: Choosing(13), feed, Request(), "some", small)).trace

    assert trace.config.get(SMALL_COPY, False) is bool(told)
    assert len({step.path for step in trace.steps if step.op == "linear"}) == (2 if told else 13)
    assert of_runs.COPIED.tell(trace) == told


SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 2}


class PlaceByPlace(nn.Linear):
    """Works on each row by itself, as some choose the keys of each place."""

    def forward(self, x):
        return torch.stack([super(PlaceByPlace, self).forward(row) for row in x])


@pytest.mark.parametrize(("rows", "told", "seen"), [(53, OF_LITTLE, 5), (7, WITHOUT_STORAGE, 7)])
def test_a_model_that_takes_very_long_is_given_a_small_image(monkeypatch, rows, told, seen):
    monkeypatch.setattr(ways, "MOST_OPERATIONS", 50)

    def feed_rows(rows, model, *, has_storage):
        yield Made({"x": torch.empty(rows, 3, device="meta")}, {})

    feeds, make = [partial(feed_rows, count) for count in (rows, 5)], partial(PlaceByPlace, 3, 3)
    outcome = run_target(run_ways(make, feeds[0], Request(), "some", feed_little=lambda model: feeds[1]))

    assert (outcome.error, outcome.told) == (None, told)
    assert sum(step.op == "linear" for step in outcome.trace.steps) == seen


@pytest.mark.parametrize("feed_little", [None, lambda model: None])
def test_a_model_that_takes_very_long_and_can_be_given_no_less_is_waited_for(monkeypatch, feed_little):
    monkeypatch.setattr(ways, "MOST_OPERATIONS", 1)

    def feed_rows(model, *, has_storage):
        yield Made({"x": torch.empty(7, 3, device="meta")}, {})

    outcome = run_target(run_ways(lambda: PlaceByPlace(3, 3), feed_rows, Request(), "some", feed_little=feed_little))

    assert (outcome.error, outcome.told) == (None, WITHOUT_STORAGE)


@pytest.mark.parametrize(
    ("kind", "side", "told"),
    [("Swin", None, OF_LITTLE), ("Swin", 96, WITHOUT_STORAGE), ("ViT", None, WITHOUT_STORAGE)],
)
def test_a_named_model_of_images_is_given_a_small_one_where_none_was_asked_for_and_it_takes_one(
    monkeypatch, tmp_path, kind, side, told
):
    transformers = pytest.importorskip("transformers", reason="the library whose model is named")
    monkeypatch.setattr(ways, "MOST_OPERATIONS", 60)
    own = {"embed_dim": 8, "depths": [2], "num_heads": [2]} if kind == "Swin" else SIZES
    config = getattr(transformers, f"{kind}Config")(**own, image_size=96, architectures=[f"{kind}Model"])
    config.save_pretrained(tmp_path)

    outcome = run_target(load_source(str(tmp_path), Request(wishes=Wishes(image_size=side))))

    assert (outcome.error, outcome.told) == (None, told)


def test_a_named_model_of_words_is_not_said_to_have_a_small_image(monkeypatch, tmp_path):
    transformers = pytest.importorskip("transformers", reason="the library whose model is named")
    monkeypatch.setattr(ways, "MOST_OPERATIONS", 60)
    transformers.BertConfig(**SIZES, vocab_size=31, architectures=["BertModel"]).save_pretrained(tmp_path)

    outcome = run_target(load_source(str(tmp_path)))

    assert (outcome.error, outcome.told) == (None, WITHOUT_STORAGE)


def test_large_weights_repeat_one_stretch_of_chance_and_no_two_rows_are_alike(monkeypatch):
    monkeypatch.setattr(ways, "STRETCH", 101)

    weight = build_seeded(lambda: nn.Linear(30, 50)).weight.detach()
    assert torch.equal(weight.flatten()[:101], weight.flatten()[101:202])
    assert len({tuple(row.tolist()) for row in weight}) == 50
    assert 0 < weight.std() < 1 / 30**0.5


def test_small_weights_are_what_torch_draws():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        own = nn.Linear(30, 50).weight

    assert torch.equal(build_seeded(lambda: nn.Linear(30, 50)).get_parameter("weight"), own)
