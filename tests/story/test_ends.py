"""What stands at the two ends of a tower: learned rows in front, a number for all, and which rows are handed on."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH
from story.endings import Ends, labels_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.whole import anatomy
from xray.story.poster import compose_poster


@pytest.mark.parametrize(
    ("out", "told"),
    [
        (lambda x: x[:, 0], "LINEAR OF THE FIRST ROW"),
        (lambda x: x[:, -1], "LINEAR OF THE LAST ROW"),
        (lambda x: x[torch.arange(2), torch.tensor([1, 2])], "LINEAR OF ONE ROW OF EACH"),
        (lambda x: x.mean(dim=1), "LINEAR OF A MEAN OF ROWS"),
        (lambda x: x[:, :1].mean(dim=1), "LINEAR OF THE ONLY ROW"),
        (lambda x: x.mT[..., None].mean(dim=(2, 3)), "LINEAR OF A MEAN OF PLACES"),
        (lambda x: x[:, :1].mT[..., None].mean(dim=(2, 3)), "LINEAR OF THE FIRST ROW"),
        (lambda x: x[:, :1].cos()[:, 0], "LINEAR OF THE ONLY ROW"),
        (lambda x: x.roll(1, 1)[:, 0], "LINEAR"),
        (lambda x: x.sort(1).values[:, 0], "LINEAR"),
        (lambda x: x, "LINEAR"),
        (lambda x: x[:, 1:], "LINEAR"),
        (lambda x: x[0], "LINEAR"),
        (lambda x: x * x.mean(dim=-1, keepdim=True), "LINEAR"),
    ],
)
def test_a_head_says_which_row_it_reads_only_where_it_reads_one(out, told):
    assert {label for label in labels_of(out=out) if label.startswith("LINEAR OF")} == {told} - {"LINEAR"}


@pytest.mark.parametrize(
    "out", [lambda x: x[0], lambda x: x.select(0, 0), lambda x: x.mean(0), lambda x: x.mT[:, 0], lambda x: x.mT.mean(1)]
)
def test_a_sequence_or_one_number_of_each_row_is_no_row_though_sizes_are_the_same(out):
    ids = [[(row + place) % 12 for place in range(WIDTH)] for row in range(WIDTH)]

    assert not [label for label in labels_of(ids, out=out) if label.startswith("LINEAR OF")]


def test_numbers_of_each_place_of_all_sequences_together_are_not_told_as_those_of_one():
    kept, lost = (
        xray.trace(Ends(out=out), torch.ones(5, 3, dtype=torch.int))
        for out in (lambda x: x.mean(1), lambda x: x.mean(0))
    )

    assert [anatomy(one).head.size for one in (kept, lost) if anatomy(one).head is not None] == [4]


@pytest.mark.parametrize(
    ("choose", "is_told"),
    [
        (lambda made, rows: made.softmax(-1), True),
        (lambda made, rows: made @ made.mT, False),
        (lambda made, rows: torch.stack([made, made.cos()], 1), False),
        (lambda made, rows: rows.mean(1), False),
    ],
)
def test_numbers_come_out_where_nothing_else_is_made_of_those_of_a_head(choose, is_told):
    rows = []
    trace = xray.trace(
        Ends(out=lambda x: rows.append(x) or x[:, 0], choose=lambda made: choose(made, rows[-1])),
        torch.tensor(((1, 2, 3), (4, 5, 6))),
    )

    assert (getattr(anatomy(trace).head, "size", None) == 4) is is_told


def test_a_sum_of_two_rows_is_not_told_of_the_first_alone():
    labels = labels_of(out=lambda x: x[:, 0] + x[:, 1])

    assert "ADDED UP" in labels
    assert not any("OF THE FIRST ROW" in label for label in labels)


def test_a_mean_of_one_place_has_no_box():
    labels = labels_of(out=lambda x: x[:, :1].mT[..., None].mean(dim=(2, 3)))
    assert not [label for label in labels if "MEAN" in label]


class PicksById(Ends):
    """The head reads of each sequence the row that its ids tell."""

    def __init__(self, pick):
        super().__init__()
        self.pick = pick

    def forward(self, ids, flags=None):
        made = self.layers(self.words(ids))
        return self.head(made[torch.arange(len(ids)), self.pick(ids if flags is None else flags)])


@pytest.mark.parametrize(
    ("pick", "told"),
    [
        (lambda ids: ids.int().argmax(-1), "LINEAR OF THE HIGHEST ID'S ROW"),
        (lambda ids: (ids == 5).int().argmax(-1), "LINEAR OF THE FIRST ROW OF ID 5"),
        (lambda ids: (ids != 5).int().argmax(-1), "LINEAR OF ONE ROW OF EACH"),
        (lambda ids: ids.argmin(-1), "LINEAR OF ONE ROW OF EACH"),
    ],
)
def test_a_row_that_ids_pick_says_by_which(pick, told):
    ids = torch.tensor(((1, 5, 3), (4, 2, 5)))
    alone, beside = (xray.trace(PicksById(pick), *given) for given in ((ids,), (ids, ids % 3)))
    labels = [
        ["".join(run.text for run in box.lines[0]) for box in compose_poster(one, text_width).boxes if box.lines]
        for one in (alone, beside)
    ]

    assert any(label.startswith(told) for label in labels[0])
    assert any(label.startswith("LINEAR OF ONE ROW OF EACH") for label in labels[1])


@pytest.mark.parametrize(
    ("out", "told"),
    [
        (lambda x: x[:, 1:], "ALL ROWS BUT THE FIRST"),
        (lambda x: x[:, :-1].mean(dim=1), "ALL ROWS BUT THE LAST"),
        (lambda x: x[:, 0], None),
    ],
)
def test_rows_that_are_left_out_behind_the_last_layer_have_a_box(out, told):
    assert {label for label in labels_of(out=out) if label.startswith("ALL ROWS")} == {told} - {None}


@pytest.mark.parametrize(
    ("out", "told"),
    [
        (lambda x: torch.cat([x, x.cos()], -1).reshape(2, -1, WIDTH), {"EACH ROW CUT INTO 2"}),
        (lambda x: nn.functional.pad(x, (0, 0, 0, 2)), {"PADDED TO 5 ROWS"}),
        (lambda x: torch.cat([x[..., :-2].cos(), x.new_zeros(*x.shape[:2], 2)], -1), {f"PADDED TO {WIDTH} COLUMNS"}),
        (lambda x: torch.cat([x.new_zeros(len(x), 4, WIDTH), x], 1).cos(), {"PADDED TO 7 ROWS"}),
        (lambda x: torch.cat([x[..., :-2].cos(), x.new_ones(*x.shape[:2], 2)], -1), set()),
        (lambda x: torch.cat([x, x.cos()], -1).mT.reshape(2, -1, WIDTH), set()),
        (lambda x: nn.functional.pad(x, (0, 0, 0, 0)), set()),
    ],
)
def test_rows_that_are_cut_or_put_behind_the_others_on_the_way_out_have_a_box(out, told):
    assert {label for label in labels_of(out=out) if label.startswith(("EACH ROW", "PADDED"))} == told


def test_what_goes_on_through_convolutions_is_drawn_with_them():
    assert {"LINEAR", "CONVOLUTION 3"} & labels_of() == {"LINEAR"}
    assert {"LINEAR", "CONVOLUTION 3", "What leaves the tower."} <= labels_of(mixes=True)


def test_rows_that_are_chosen_behind_the_last_layer_are_told_with_their_number():
    def choose(x):
        chosen = torch.tensor([[0, 2], [4, 1]])
        boxes = torch.linspace(0, 1, x.shape[1])[:, None].expand_as(x)
        return (x + boxes).gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))

    labels = labels_of(ids=((1, 2, 3, 4, 5), (4, 5, 6, 7, 8)), choose=choose)

    assert {"LINEAR", "ADDED UP", "2 OF 5 ROWS"} <= labels


@pytest.mark.parametrize(
    ("score", "told"),
    [(lambda x: x.amax(-1), ", BY EACH ONE'S HIGHEST SCORE"), (lambda x: x[..., 0], ", BY THEIR SCORES")],
)
def test_rows_that_are_chosen_by_their_scores_say_so(score, told):
    def choose(x):
        boxes = torch.linspace(0, 1, x.shape[1])[:, None].expand_as(x)
        chosen = score(boxes).topk(2, dim=1).indices
        return (x + boxes).gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))

    assert f"2 OF 5 ROWS{told}" in labels_of(ids=((1, 2, 3, 4, 5), (4, 5, 6, 7, 8)), choose=choose)


@pytest.mark.parametrize(("number", "told"), [(torch.finfo(torch.float32).min, "PUSHED FAR DOWN"), (0.5, "SET TO 0.5")])
def test_scores_that_are_written_over_by_one_number_are_told(number, told):
    def write(x, places):
        x[..., places] = number
        return x

    assert labels_of(choose=lambda x: write(x, [0, 2])) - labels_of() == {f"SOME {told}"}
    assert labels_of(choose=lambda x: write(x, [])) - labels_of() == {f"NONE {told}"}
    mask = torch.tensor([True, False, True, False])
    assert f"SOME {told}" in labels_of(choose=lambda x: x.masked_fill(mask, number))


def test_a_row_in_front_is_learned_only_where_it_is_a_parameter():
    assert "A LEARNED ROW IN FRONT" in labels_of(row=True)
    assert "A LEARNED ROW IN FRONT" not in labels_of(row=False) | labels_of()


def test_rows_that_each_place_looks_up_and_adds_are_counted():
    told = "4 ROWS ADDED UP"

    assert told in labels_of(ids=((((1, 2, 3, 4),) * 3),) * 2)
    assert told not in labels_of()


def labels_of_heard(entrance):
    """What a model says that makes rows of a sound before the two layers."""
    model = Ends()
    model.forward = lambda sound: model.head(model.layers(entrance(sound)))  # type: ignore[method-assign]
    model.entrance = entrance
    boxes = compose_poster(xray.trace(model.eval(), torch.rand(2, 1, 48)), text_width).boxes
    return {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in boxes if box.lines}


class Heard(nn.Module):
    """A convolution, one of kernel and step 2 behind it, and some of the rows that these make."""

    def __init__(self, kept, drawn=False):
        super().__init__()
        self.first, self.then, self.kept = nn.Conv1d(1, WIDTH, 3, 2, 1), nn.Conv1d(WIDTH, WIDTH, 2, 2), kept
        self.drawn = drawn

    def forward(self, sound):
        rows = self.then(self.first(sound)).mT
        order = torch.rand(rows.shape[:2]).argsort(1) if self.drawn else torch.arange(rows.shape[1]).expand(2, -1)
        return rows.gather(1, order[:, : self.kept, None].repeat(1, 1, WIDTH))


def test_a_convolution_behind_another_cuts_no_patches():
    labels = labels_of_heard(Heard(kept=12))

    assert {"CONVOLUTION 3, STEP 2", "CONVOLUTION 2, STEP 2"} <= labels
    assert "PATCHES" not in labels


def test_rows_that_are_left_out_before_the_first_layer_are_counted():
    assert "5 OF 12 ROWS" in labels_of_heard(Heard(kept=5))
    assert not any(label.endswith("ROWS") for label in labels_of_heard(Heard(kept=12)))


def test_rows_in_the_order_of_numbers_that_are_drawn_are_told_to_be():
    assert "5 OF 12 ROWS, DRAWN BY CHANCE" in labels_of_heard(Heard(kept=5, drawn=True))


class Pointing(Heard):
    """Each of some places points at the row that it lies on, if it lies on any; all may lie on one (UDOP, π0)."""

    def forward(self, sound):
        rows = self.then(self.first(sound)).mT
        places = (torch.arange(self.kept).expand(len(rows), -1) // self.kept)[..., None]
        rows = rows.gather(1, places.repeat(1, 1, WIDTH))
        rows[places[..., 0] > 2] = 0.0
        return rows


def test_rows_that_may_all_be_the_same_one_are_not_counted_as_some_of_all():
    labels = labels_of_heard(Pointing(kept=5))

    assert "FOR EACH PLACE ONE OF 12 ROWS" in labels
    assert "5 OF 12 ROWS" not in labels


def test_rows_of_a_mask_that_are_set_to_zero_are_told():
    assert "ROWS OF A MASK SET TO 0" in labels_of_heard(Pointing(kept=5))


def test_rows_that_a_mask_takes_out_are_counted_and_so_the_zeros_that_stand_for_them():
    class Masked(Heard):
        def forward(self, sound):
            rows = self.then(self.first(sound)).mT
            left = [one[torch.arange(12) % 4 != self.kept] for one in rows]
            return torch.stack([torch.cat([one, torch.zeros_like(rows[0, :3])]) for one in left])

    assert {"9 OF 12 ROWS", "PADDED TO 12 ROWS"} <= labels_of_heard(Masked(kept=1))


def test_noise_that_a_model_draws_itself_is_no_input():
    class Drawn(Heard):
        def forward(self, sound):
            return super().forward(torch.randn(2, 48, 1).mT)

    labels = labels_of_heard(Drawn(kept=5))
    assert {"NOISE, DRAWN BY CHANCE", "Noise is drawn by chance."} <= labels
    assert labels.isdisjoint({"INPUT", "SIGNAL"})


class DrawnIds(Ends):
    """Draws its ids itself, and brings each of their rows to a mean square of 1, with no learned numbers."""

    def forward(self, ids):
        rows = self.words(torch.randint(0, 12, (len(ids), 5)))
        normed = rows * rows.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()
        return self.head(self.layers(normed))


def test_ids_that_a_model_draws_itself_are_no_input_and_a_norm_of_their_rows_is_no_mask():
    boxes = compose_poster(xray.trace(DrawnIds(), torch.tensor([[1], [2]])), text_width).boxes
    entrance = [one for one in boxes if any(not step.startswith("forward/layers") for step in one.steps)]
    labels = {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in entrance if box.lines}

    assert {"IDS, DRAWN BY CHANCE", "RMS NORM"} <= labels
    assert labels.isdisjoint({"INPUT", "TOKEN IDS", "× ONE NUMBER FOR EACH PLACE"})


def test_a_snake_is_one_box_and_a_sum_with_a_sine_is_none():
    assert "SNAKE" in labels_of(out=lambda x: x + (x * 3.0).sin().pow(2) / 2.0)
    assert "SNAKE" not in labels_of(out=lambda x: x + (x * 3.0).sin())
    assert "SNAKE" not in labels_of(out=lambda x: x + x.mean(dim=1, keepdim=True).sin().pow(2))


@pytest.mark.parametrize(("count", "told"), [(7, "LAYER NORM + GELU"), (2, "GELU")])
def test_bends_are_drawn_in_the_boxes_before_them_where_a_part_is_long(count, told):
    more = nn.Sequential(
        *(one for _ in range(count) for one in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()))
    )

    found = {label for label in labels_of(out=more) if label.endswith("GELU")}

    assert found == {told}


def test_the_bend_of_a_pooler_is_drawn():
    class Pooled(Ends):
        def forward(self, ids):
            return torch.tanh(super().forward(ids))

    trace = xray.trace(Pooled(out=lambda x: x[:, 0]), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    texts = ["".join(run.text for run in box.lines[0]) for box in compose_poster(trace, text_width).boxes if box.lines]

    assert "TANH" in texts
    assert "TANH" not in labels_of(out=lambda x: x[:, 0])


def test_what_an_exit_works_out_and_does_not_draw_is_said():
    class Averaged(Ends):
        def forward(self, ids):
            return super().forward(ids).std(dim=1)

    trace = xray.trace(Averaged(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    text = " ".join(
        "".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines
    )

    assert "in no box: std (exit)" in text


def test_rows_behind_rows_lie_end_to_end_and_wider_ones_side_by_side():
    class Entered(Ends):
        def __init__(self, dim):
            super().__init__()
            self.dim, self.other = dim, nn.Embedding(12, WIDTH)
            self.into = nn.Linear(WIDTH * (2 if dim == -1 else 1), WIDTH)

        def forward(self, ids):
            x = torch.cat([self.words(ids), self.other(ids)], dim=self.dim)
            return self.head(self.layers(self.into(x)))

    told = {}
    for dim in (0, -1):
        boxes = compose_poster(xray.trace(Entered(dim), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width).boxes
        told[dim] = {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in boxes if box.lines}

    assert "END TO END" in told[0]
    assert "SIDE BY SIDE" in told[-1]
    assert "END TO END" not in told[-1]


def test_rows_put_in_place_behind_others_lie_end_to_end():
    class Put(Ends):
        def __init__(self):
            super().__init__()
            self.last, self.map = nn.LayerNorm(WIDTH), nn.Conv2d(WIDTH, 4, 1)

        def forward(self, ids):
            x = self.last(self.layers(self.words(ids)))
            first, others = x[:, :1], x[:, 1:]
            places = torch.arange(others.shape[1]).flip(0)[None, :, None].expand_as(others)
            rows = torch.cat([first, torch.zeros_like(others).scatter_(1, places, others)], dim=1)
            return self.map(rows[:, 1:].mT.contiguous().view(len(x), WIDTH, -1, 1))

    boxes = compose_poster(xray.trace(Put(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width).boxes
    told = {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in boxes if box.lines}

    assert "END TO END" in told
    assert "SIDE BY SIDE" not in told
