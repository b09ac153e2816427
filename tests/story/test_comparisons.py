"""Two towers that are compared: rows made one long, and the box in which those of one meet those of the other."""

import re

import pytest
import torch
from story.compared import SHARED, Compares, ComparesTwice, divided, text_of, times_one_by_root
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


def divided_by_norm(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


def divided_by_vector_norm(rows):
    return rows / torch.linalg.norm(rows, ord=2, dim=-1, keepdim=True)


def times_one_by_more(rows):
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1.0)


def divided_by_absolutes(rows):
    return rows / rows.norm(p=1, dim=-1, keepdim=True)


def divided_by_columns(rows):
    return rows / rows.pow(2).sum(0, keepdim=True).sqrt()


class ComparesMeans(Compares):
    """The mean of all rows is brought to one length, and nothing else stands behind the layers (X-CLIP)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.shorten(read.mean(1)) @ self.shorten(seen.mean(1)).t() * self.scale.exp()


@pytest.mark.parametrize("shorten", [divided_by_norm, nn.functional.normalize])
def test_rows_of_one_length_are_no_last_norm_and_have_one_box(shorten):
    trace = xray.trace(ComparesMeans(shorten), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    named = [text_of(box) for box in compose_poster(trace, text_width).boxes]

    assert [told.partition(" 2")[0] for told in named if "ITS LENGTH" in told] == ["A MEAN OF ROWS ÷ ITS LENGTH"] * 2
    assert not [told for told in named if "LAST NORM" in told]


def compose(shorten):
    torch.manual_seed(0)
    trace = xray.trace(Compares(shorten), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    return compose_poster(trace, text_width)


def test_a_tower_that_two_others_are_compared_with_has_a_box_for_each_side_by_side():
    torch.manual_seed(0)
    trace = xray.trace(ComparesTwice(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8), torch.rand(2, 20, 18))
    layout = compose_poster(trace, text_width)

    boxes = [box for box in layout.boxes if text_of(box).startswith("WITH ")]
    lengths = [box for box in layout.boxes if "ITS LENGTH" in text_of(box)]
    assert [text_of(box).partition(" 2")[0] for box in boxes] == ["WITH VISION", "WITH AUDIO"]
    assert boxes[0].right < boxes[1].left
    assert boxes[0].y == boxes[1].y
    assert len(lengths) == 3
    sentence = "What the audio and vision towers give is compared with what the tokens tower gives."
    assert any(sentence in text_of(box) for box in layout.boxes)
    roofs = {curve.points[1][1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert len(roofs) == 2
    ends = {curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert ends == {(box.x, box.top) for box in boxes}


@pytest.mark.parametrize(
    "shorten", [divided, divided_by_norm, divided_by_vector_norm, times_one_by_root, nn.functional.normalize]
)
def test_rows_of_one_length_and_the_comparison_are_drawn_with_all_their_steps(shorten):
    layout = compose(shorten)
    words = [text_of(box) for box in layout.boxes]

    assert sum("EACH ROW ÷ ITS LENGTH" in one for one in words) == 2
    (box,) = [one for one in layout.boxes if text_of(one).startswith("COMPARED WITH THE VISION TOWER")]
    assert {step.rpartition("/")[2].partition("#")[0].rpartition(".")[2] for step in box.steps} == {
        "t",
        "matmul",
        "mul",
    }
    assert not [word for word in words if "in no box" in word]
    assert [curve for curve in layout.curves if curve.role == curve.kind == "ribbon"]


class ComparesFixed(Compares):
    """Rows of both that are compared, times a number that is not learned."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.shorten(self.read(read[:, 0])) @ self.shorten(self.seen(seen[:, 0])).t() * 7.5


class ComparesLearned(Compares):
    """Rows of both that are compared, times a number that is learned as it is."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.shorten(self.read(read[:, 0])) @ self.shorten(self.seen(seen[:, 0])).t() * self.scale


class ComparesMoved(Compares):
    """Rows of both that are compared, times a number that is learned, and another one is added (SigLIP, PE-AV)."""

    def __init__(self, shorten):
        super().__init__(shorten)
        self.bias = nn.Parameter(torch.tensor([-3.0]))

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        met = self.shorten(self.read(read[:, 0])) @ self.shorten(self.seen(seen[:, 0])).t()
        return met * self.scale + self.bias


class ComparesBothWays(Compares):
    """Rows of both that are compared, and once more the other way round, times a number of its own (CLAP)."""

    def __init__(self, shorten):
        super().__init__(shorten)
        self.other = nn.Parameter(torch.ones(()))

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        seen, read = self.shorten(self.seen(seen[:, 0])), self.shorten(self.read(read[:, 0]))
        scale, other = self.scale.exp(), self.other.exp()
        return read @ seen.t() * scale, seen @ read.t() * other


class ComparesAlike(ComparesBothWays):
    """The same, both times one number."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        seen, read = self.shorten(self.seen(seen[:, 0])), self.shorten(self.read(read[:, 0]))
        scale = self.scale.exp()
        return read @ seen.t() * scale, seen @ read.t() * scale


class ComparesHeld(ComparesLearned):
    """The number held below another one before it is a power of e (AIMv2)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        scale = self.scale.clamp(0.0, 4.6).exp()
        return self.shorten(self.read(read[:, 0])) @ self.shorten(self.seen(seen[:, 0])).t() * scale


class ComparesCapped(ComparesLearned):
    """The power of e held below a number (SigLIP's makers may): whose bound that is, is not told."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        scale = self.scale.exp().clamp(0.0, 100.0)
        return self.shorten(self.read(read[:, 0])) @ self.shorten(self.seen(seen[:, 0])).t() * scale


SCALED = {
    ComparesHeld: "scaled by e to a learned number that is clamped",
    ComparesCapped: "scaled by a learned number",
    Compares: "scaled by e to a learned number",
    ComparesLearned: "scaled by a learned number",
    ComparesFixed: "scaled",
    ComparesMoved: "scaled by a learned number, another added",
    ComparesBothWays: "both ways, each scaled by e to a learned number",
    ComparesAlike: "both ways, scaled by e to a learned number",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("model", "told"), SCALED.items())
def test_what_two_towers_make_together_has_the_colour_of_neither_and_tells_what_scales_it(model, told):
    trace = xray.trace(model(divided_by_norm), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    boxes = compose_poster(trace, text_width).boxes

    (box,) = [one for one in boxes if text_of(one).startswith("COMPARED WITH THE VISION TOWER")]
    words = [text_of(one) for one in boxes]
    assert box.on == "card"
    assert re.findall("(?:both ways, )?(?:each )?scale[a-z, ]*[a-z]", text_of(box)) == [told]
    assert "between towers" in words
    assert sum(one == "What leaves the tower is compared with another's." for one in words) == 1


@pytest.mark.parametrize("shorten", [divided_by_absolutes, divided_by_columns, times_one_by_more])
def test_what_is_not_divided_by_the_length_of_its_rows_is_not_called_so(shorten):
    words = [text_of(box) for box in compose(shorten).boxes]

    assert not [one for one in words if "ITS LENGTH" in one]
    assert [one for one in words if one.startswith("COMPARED")]


class ComparesScaled(Compares):
    """The same where the words are multiplied by the learned number before, and the image's rows are averaged."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        seen, read = self.shorten(seen.mean(1)), self.shorten(read[:, 0])
        return torch.einsum("bd,cd->bc", seen, self.scale.exp() * read)


def test_rows_of_one_length_that_are_scaled_say_both():
    torch.manual_seed(0)
    trace = xray.trace(ComparesScaled(divided_by_norm), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    told = [text_of(box) for box in compose_poster(trace, text_width).boxes]

    assert [one for one in told if one.startswith("A MEAN OF ROWS ÷ ITS LENGTH 2")]
    assert [one for one in told if one.startswith("THE FIRST ROW ÷ ITS LENGTH, SCALED ")]
    assert not [one for one in told if one.startswith("COMPARED") and "scaled" in one]  # it is once


class Correlates(Compares):
    """The numbers of both, each against each, added up over the batch: no rows are compared (Barlow Twins)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.read(read[:, 0]).t() @ self.seen(seen[:, 0])


class Contexts(Compares):
    """The keys of one by the values of the other, added up over places: queries take these up (DAEFormer)."""

    def __init__(self, *, is_taken):
        super().__init__(None)
        self.is_taken = is_taken

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        made = self.read(read[:, :4]).softmax(1).mT @ self.seen(seen[:, :4])
        return self.read(read).softmax(-1) @ made if self.is_taken else made


class ComparesScores(Compares):
    """What one scores of itself by what the other does: products meet, and no rows (BasisFormer)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        own, other = self.read(read[:, :4]), self.seen(seen[:, :4])
        return (own @ own.mT) @ (other @ other.mT)


def test_scores_that_meet_are_no_rows_that_are_compared():
    trace = xray.trace(ComparesScores(None), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    assert not [box for box in compose_poster(trace, text_width).boxes if "COMPARED" in text_of(box)]


@pytest.mark.parametrize("is_taken", [True, False])
def test_what_meets_is_not_compared_where_more_rows_take_it_up(is_taken):
    trace = xray.trace(Contexts(is_taken=is_taken), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    told = [text_of(box) for box in compose_poster(trace, text_width).boxes]
    assert any("COMPARED" in one or "compared" in one for one in told) is not is_taken


class Matches(Compares):
    """Each row of one against each of the other by letters, and more worked out of what comes of it (SuperGlue)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        scores = torch.einsum("bdn,bdm->bnm", self.read(read).mT, self.seen(seen).mT) / SHARED**0.5
        for axis in (1, 2, 1, 2):
            scores = scores - scores.logsumexp(axis, keepdim=True)
        return scores


def test_numbers_that_meet_along_the_batch_are_no_comparison():
    trace = xray.trace(Correlates(None), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    told = [text_of(box) for box in compose_poster(trace, text_width).boxes]
    assert not [one for one in told if "COMPARED" in one or "compared" in one]


def test_rows_that_meet_by_letters_have_the_box_of_the_comparison_alone():
    trace = xray.trace(Matches(None), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    boxes = [box for box in compose_poster(trace, text_width).boxes if "forward/Matches.einsum#0" in box.steps]
    assert [text_of(box).partition("  ")[0] for box in boxes] == ["COMPARED WITH THE VISION TOWER"]
