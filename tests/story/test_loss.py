"""A poster tells a training step only where back-propagation ran; of a loss it says which it is, and over what."""

from dataclasses import replace

import pytest
import torch
from handwritten import make_writer
from printed import lines_of, text_of, words_of
from recorded import recorded
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.exits.loss_chart import ONE_NUMBER
from xray.story.poster import compose_poster

IDS = torch.arange(14).view(2, 7)
BACK = ("Gradients", "NEW BATCH", "BACK-PROPAGATION", "training step", "TRAINING")
"""What is only said where gradients went back."""


class Judged(nn.Module):
    """A writer that gives the loss of its own words; `compare` works it out."""

    def __init__(self, compare):
        super().__init__()
        self.writer, self.compare = make_writer(), compare

    def forward(self, ids):
        return self.compare(self.writer(ids), ids)


def by_words(scores, ids):
    return functional.cross_entropy(scores.flatten(0, 1), ids.flatten())


def by_distance(scores, ids):
    return functional.mse_loss(scores, functional.one_hot(ids, scores.shape[-1]).float())


def by_the_highest(scores, ids):
    return functional.mse_loss(scores.softmax(-1).amax(-1), torch.ones(ids.shape))


def by_words_and_more(scores, ids):
    return by_words(scores, ids) + 0.01 * scores.pow(2).mean()


def by_words_more_and_both(scores, ids):
    words = by_words(scores, ids)
    return words + 0.01 * scores.pow(2).mean(), words


def by_words_one_by_one(scores, ids):
    return functional.cross_entropy(scores.flatten(0, 1), ids.flatten(), reduction="none")


def by_hand(scores, ids):
    return (scores.logsumexp(-1) - scores.gather(-1, ids[..., None]).squeeze(-1)).mean()


def by_each_place(scores, ids):
    return scores.logsumexp(-1) - scores.gather(-1, ids[..., None]).squeeze(-1)


def poster_of(trace):
    return compose_poster(trace, text_width)


def test_a_loss_alone_is_no_training_step():
    said = words_of(poster_of(xray.trace(Judged(by_words), IDS)))

    assert "one forward pass and its loss" in said
    assert [word for word in BACK if word in said] == []


def test_a_loss_that_was_sent_back_is_a_training_step():
    model = Judged(by_words)
    with xray.record(model) as recorder:
        model(IDS).backward()

    assert "Every tensor of one training step, recorded." in words_of(poster_of(recorder.trace))


def test_nothing_is_drawn_from_a_loss_that_was_not_sent_back():
    layout = poster_of(xray.trace(Judged(by_words), IDS))

    assert [curve for curve in layout.curves if curve.kind == "backprop"] == []


def test_the_chatbot_without_its_gradients_is_no_training_step():
    trace = recorded("one layer, training")
    training = trace.passes[0]
    cut = replace(training, steps=tuple(step for step in training.steps if step.path != "backward"))

    said = words_of(poster_of(replace(trace, passes=(cut,))))

    assert [word for word in BACK[:-1] if word in said] == []


def test_the_mean_of_a_loss_is_told_only_over_words_that_are_known():
    said = words_of(poster_of(xray.trace(Judged(by_words), IDS)))

    assert "mean over" not in said


@pytest.mark.parametrize(("compare", "name"), [(by_words, "CROSS-ENTROPY"), (by_distance, "MSE")])
def test_a_loss_is_called_what_it_is(compare, name):
    layout = poster_of(xray.trace(Judged(compare), IDS))

    assert f"{name}  the loss" in lines_of(layout)


@pytest.mark.parametrize(
    ("compare", "size"),
    [(by_words_and_more, "one number"), (by_words_more_and_both, "one number"), (by_words_one_by_one, "14")],
)
def test_a_part_of_what_a_pass_gives_is_not_the_loss(compare, size):
    layout = poster_of(xray.trace(Judged(compare), IDS))
    (box,) = (box for box in layout.boxes if box.lines and text_of(box.lines[0]).startswith("CROSS-ENTROPY"))

    assert text_of(box.lines[0]) == "CROSS-ENTROPY"
    assert text_of(box.lines[1]).split()[0] == size.split()[0]
    assert "A score for every word, compared with the target." in words_of(layout)


def test_what_is_compared_are_scores_only_where_the_loss_reads_as_many():
    layout = compose_poster(xray.trace(Judged(by_the_highest), IDS), text_width)

    assert "Compared with the target." in words_of(layout)
    assert "A score for every word, compared with the target." not in words_of(layout)


@pytest.mark.parametrize("compare", [by_words, by_distance])
def test_a_loss_is_joined_to_the_head(compare):
    layout = poster_of(xray.trace(Judged(compare), IDS))
    loss = next(box for box in layout.boxes if "the loss" in text_of(box.lines[0]))

    assert [curve for curve in layout.curves if abs(curve.points[-1][1] - loss.bottom) < 1] != []


def test_label_smoothing_is_said_of_the_chatbot():
    trace = recorded("one layer, training")

    assert f"label smoothing {trace.config['label_smoothing']}" in words_of(poster_of(trace))


def test_a_loss_that_is_given_its_targets_first_stands_above_the_head():
    turned = poster_of(xray.trace(Judged(lambda scores, ids: by_distance_turned(scores, ids)), IDS))

    assert "LAST NORM" in words_of(turned) or "LINEAR TO VOCABULARY" in words_of(turned)
    assert {"TARGETS", "PREDICTIONS"} <= {text_of(box.lines[0]) for box in turned.boxes if box.lines}


class Flowing(nn.Module):
    """The way from what comes in to noise, judged by the noise less what came in (π0)."""

    def __init__(self):
        super().__init__()
        self.writer = make_writer()

    def forward(self, ids, given):
        wanted = torch.randn(given.shape) - given
        return functional.mse_loss(wanted, self.writer(ids))


def test_targets_that_are_noise_less_what_came_in_say_so():
    given = torch.rand(make_writer()(IDS).shape)
    says = [text_of(line) for box in poster_of(xray.trace(Flowing(), IDS, given)).boxes for line in box.lines]

    assert "noise less what came in" in says
    assert not any("sub (" in text for text in says)  # its step stands in that box
    assert "noise less" not in words_of(poster_of(xray.trace(Judged(by_distance_turned), IDS)))


def by_distance_turned(scores, ids):
    """The same with what is wanted before what was found (Pi0)."""
    return functional.mse_loss(functional.one_hot(ids, scores.shape[-1]).float(), scores)


@pytest.mark.parametrize(("compare", "is_told"), [(by_hand, True), (by_words, False), (by_each_place, False)])
def test_a_loss_that_is_written_out_is_told_as_the_one_number_that_comes_of_the_scores(compare, is_told):
    layout = poster_of(xray.trace(Judged(compare), IDS))
    told = [box for box in layout.boxes if ONE_NUMBER in words_of(replace(layout, boxes=(box,)))]

    assert [[step.split(".")[-1].split("#")[0] for step in box.steps] for box in told] == is_told * [
        ["mean", "sub", "squeeze", "gather", "logsumexp"]
    ]
    assert ("in no box" in words_of(layout)) == (compare is by_each_place)
    assert ("A score for every word; of all of them one number is made." in words_of(layout)) == is_told


def by_words_that_a_mask_names(scores, ids):
    return functional.cross_entropy(scores[ids > 3], ids[ids > 3])


def by_the_words_behind(scores, ids):
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@pytest.mark.parametrize(("compare", "is_told"), [(by_words_that_a_mask_names, True), (by_the_words_behind, False)])
def test_what_is_compared_where_a_mask_says_so_is_told_as_that(compare, is_told):
    lines = lines_of(compose_poster(xray.trace(Judged(compare).eval(), IDS), text_width))

    assert {"TARGETS", "PREDICTIONS"} <= {*lines}
    assert lines.count("where a mask says so") == 2 * is_told
