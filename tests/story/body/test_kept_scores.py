"""Scores that are hidden by what they are themselves: all but the highest of each row, or some that are not known."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH, Layer
from story.body.test_seen_keys import LENGTH, Scoring, look, read_parts
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

KEPT, LOWEST = 3, -1e30


class Sparse(Scoring):
    """Every row keeps its highest scores, behind a mask that hides the future (x-transformers' sparse attention)."""

    def change(self, scores, others):
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        return self.keep(scores.masked_fill(future, LOWEST))

    def keep(self, scores):
        lowest = scores.topk(KEPT, dim=-1).values.select(-1, -1).unsqueeze(-1)
        return scores.masked_fill(~((scores >= lowest) & (scores > LOWEST)), LOWEST)


class Below(Sparse):
    def keep(self, scores):
        return scores.masked_fill(scores < scores.topk(KEPT).values[..., -1:], LOWEST)


class Chosen(Sparse):
    def keep(self, scores):
        return torch.where(scores >= scores.topk(KEPT)[0][..., -1, None], scores, LOWEST)


class Above(Sparse):
    """The lowest of the highest is hidden, too."""

    def keep(self, scores):
        return scores.masked_fill(scores <= scores.topk(KEPT).values[..., -1:], LOWEST)


class Lowest(Sparse):
    def keep(self, scores):
        return scores.masked_fill(scores < scores.topk(KEPT, largest=False).values[..., -1:], LOWEST)


class Bounded(Sparse):
    """Of the highest, those are hidden that are below a number."""

    def keep(self, scores):
        kept = (scores >= scores.topk(KEPT).values[..., -1:]) & (scores > 0.5)
        return scores.masked_fill(~kept, LOWEST)


class Emptied(Sparse):
    """Rows of which all is hidden are made 0."""

    def keep(self, scores):
        return scores.masked_fill((scores <= LOWEST).all(-1, keepdim=True), 0.0)


class Filled(Scoring):
    """A mask of one axis hides the last key for every query."""

    def change(self, scores, others):
        return scores.masked_fill(torch.arange(LENGTH) > LENGTH - 2, LOWEST)


@pytest.mark.parametrize(
    ("attention", "kept"),
    [(Sparse, KEPT), (Below, KEPT), (Chosen, KEPT), (Above, None), (Lowest, None), (Bounded, None), (Emptied, None)],
)
def test_how_many_of_its_scores_each_row_keeps_is_told_where_a_comparison_proves_it(attention, kept):
    assert look(attention()).kept_scores == kept


@pytest.mark.parametrize(
    ("attention", "parts"),
    [
        (Sparse, ["mask", "kept", "softmax"]),
        (Above, ["mask", "kept", "softmax"]),
        (Emptied, ["mask", "softmax"]),
        (Filled, ["mask", "softmax"]),
    ],
)
def test_no_step_that_hides_scores_is_left_out_of_their_parts(attention, parts):
    assert read_parts(attention()) == parts


@pytest.mark.parametrize(
    ("attention", "box", "formula", "sentence"),
    [
        (Sparse, "EACH ROW'S 3 HIGHEST, ELSE HIDDEN", " , 3 highest ) · V", "the 3 highest of its scores"),
        (Above, "REPLACED WHERE SCORES SAY SO", " , some replaced ) · V", ""),
    ],
)
def test_what_scores_hide_by_themselves_stands_in_a_box_and_in_the_formula(attention, box, formula, sentence):
    layers = (Layer(attention()) for _ in range(2))
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), *layers), torch.arange(LENGTH)[None])
    boxes = compose_poster(trace, text_width).boxes
    told = ["".join(run.text for run in line) for one in boxes for line in one.lines]

    (found,) = [one for one in boxes if one.lines and one.lines[0][0].text.startswith(box)]
    assert {step.rpartition(".")[2] for step in found.steps} >= {"topk#0", "masked_fill#1"}
    assert any(formula in line for line in told)
    assert any("of its scores" in line and sentence in line for line in told) == bool(sentence)
    assert "Places look back, never ahead." in told
