"""What a head gives at the end: scores of words or classes, of how many, and of which rows."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH, LatentAttention, Layer
from story.endings import Ends, labels_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import describe_bending
from xray.story.sheet.columns import read_columns


def test_a_number_for_all_words_is_told_by_what_it_is():
    assert "× √d_model" in labels_of(factor=WIDTH**0.5)
    assert "× 3" in labels_of(factor=3.0)
    assert "÷ 4" in labels_of(factor=0.25)
    assert "× 0.22" in labels_of(factor=0.22)
    assert not [label for label in labels_of() if label.startswith("×")]


class Divided(Ends):
    """Ends whose words are divided by the root of their width."""

    def forward(self, ids):
        return self.head(self.layers(self.words(ids) / WIDTH**0.5))


def test_words_that_are_divided_by_the_root_of_their_width_are_told_so():
    layout = compose_poster(xray.trace(Divided(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    labels = {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in layout.boxes if box.lines}

    assert "÷ √d_model" in labels
    assert "× √d_model" not in labels


def test_scores_for_a_part_of_the_table_are_not_called_classes():
    trace = xray.trace(Ends(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert xray.anatomy(trace).head is None  # 4 scores for each place, and a table of 3 times 4 words
    trace = xray.trace(Ends(out=lambda x: x[:, -1]), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert xray.anatomy(trace).head.kind == "classes"


class SaidInPart(Ends):
    """Ends with a layer that is named for its words: it scores some of those that the table holds."""

    def __init__(self, said):
        super().__init__()
        self.lm_head = nn.Linear(WIDTH, said)

    def forward(self, ids):
        return self.lm_head(self.layers(self.words(ids)))


def words_of_said(said):
    layout = compose_poster(xray.trace(SaidInPart(said), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    return [line for box in layout.boxes for line in ("".join(run.text for run in row) for row in box.lines)]


def test_scores_of_all_words_but_some_are_scores_of_words():
    told = words_of_said(11)

    assert "A score for 11 of the 12 ids." in told
    assert any(line.startswith("LINEAR TO VOCABULARY") for line in told)
    assert any("ids 12" in line for line in told)


def test_words_of_another_table_than_the_ids_are_of_are_counted_apart():
    told = words_of_said(40)

    assert any("vocab 40" in line for line in told)
    assert any("ids 12" in line for line in told)
    assert not any("vocab 12" in line for line in told)


def test_scores_of_few_rows_of_a_table_are_no_scores_of_its_words():
    assert "A score for every word." in words_of_said(12)
    assert not [line for line in words_of_said(5) if line.startswith(("A score", "LINEAR TO"))]


class SameSize(Ends):
    """As many numbers as there are words, made of all rows or of one, with more made of them perhaps."""

    def __init__(self, rows, words=31, more=()):
        super().__init__(out=rows)
        self.words, self.head = nn.Embedding(words, WIDTH), nn.Sequential(nn.Linear(WIDTH, words), *more)


@pytest.mark.parametrize(
    ("model", "are_words"),
    [
        (SameSize(lambda x: x), True),
        (SameSize(lambda x: x[:, -1]), True),
        (SameSize(lambda x: x[:, 0]), False),
        (SameSize(lambda x: x.mean(1)), False),
        (SameSize(lambda x: x, words=WIDTH), False),
        (SameSize(lambda x: x, more=(nn.ReLU(), nn.Linear(31, 5))), False),
    ],
)
def test_as_many_numbers_as_words_are_scores_of_words_where_each_place_has_them_last(model, are_words):
    layout = compose_poster(xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    told = " ".join("".join(run.text for run in row) for box in layout.boxes for row in box.lines)

    assert ("LINEAR TO VOCABULARY" in told) == are_words
    assert ("A score for every word." in told) == are_words


@pytest.mark.parametrize(
    ("out", "told"),
    [
        (lambda x: x / 8, "÷ 8"),
        (lambda x: 30 * torch.tanh(x / 30), "30 · TANH( EACH / 30 )"),
        (lambda x: 30 * torch.tanh(x * 0.3 / 30), "30 · TANH( EACH · 0.3 / 30 )"),
        (lambda x: 30 * torch.tanh(x / 30) * 1.5, "30 · TANH( EACH / 30 ) × 1.5"),
        (lambda x: x / 1, None),
    ],
)
@pytest.mark.parametrize("has_loss", [False, True])
def test_what_all_scores_are_multiplied_by_or_cannot_pass_is_drawn(out, told, has_loss):
    class Scored(Ends):
        def forward(self, ids):
            scores = out(super().forward(ids))
            return nn.functional.cross_entropy(scores.flatten(0, 1), ids.flatten() % 2) if has_loss else scores

    boxes = compose_poster(xray.trace(Scored(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width).boxes
    labels = {"".join(run.text for run in box.lines[0]).partition("  ")[0] for box in boxes if box.lines}

    assert {label for label in labels if "TANH" in label or label.startswith("÷")} == ({told} if told else set())


class BothHeard(nn.Module):
    """Two towers, a head of each if wished, and one of both together (PE-AV)."""

    def __init__(self, *, own):
        super().__init__()
        self.towers = nn.ModuleList(nn.Sequential(nn.Linear(5, WIDTH), *self.layers()) for _ in range(2))
        self.own = nn.ModuleList(nn.Linear(WIDTH, 3) for _ in range(2)) if own else None
        self.both = nn.Linear(2 * WIDTH, 4)

    def layers(self):
        return (Layer(LatentAttention("nothing")) for _ in range(2))

    def forward(self, one, other):
        rows = [tower(given)[:, 0] for tower, given in zip(self.towers, (one, other), strict=True)]
        both = self.both(torch.cat(rows, dim=-1))
        return both if self.own is None else (both, *(head(row) for head, row in zip(self.own, rows, strict=True)))


@pytest.mark.parametrize("own", [True, False])
def test_a_tower_ends_in_a_head_of_its_own_where_it_has_one(own):
    trace = xray.trace(BothHeard(own=own).eval(), torch.randn(1, 3, 5), torch.randn(1, 4, 5))
    heads = [
        box
        for box in compose_poster(trace, text_width).boxes
        if box.lines and "".join(run.text for run in box.lines[0]).startswith("LINEAR OF")
    ]

    assert len(heads) == 2 * own


class HandsOut(nn.Module):
    """A sound through two layers and a linear layer as wide as they are, handed out under a name."""

    def __init__(self, name):
        super().__init__()
        self.first, self.layers = nn.Conv1d(1, WIDTH, 3, 2, 1), Ends().layers
        self.head, self.name = nn.Linear(WIDTH, WIDTH), name

    def forward(self, sound):
        return {self.name: self.head(self.layers(self.first(sound).mT))}


@pytest.mark.parametrize(("name", "kind"), [("logits", "numbers"), ("last_hidden_state", "none")])
def test_scores_as_many_as_a_row_is_wide_are_known_by_what_they_are_handed_out_as(name, kind):
    trace = xray.trace(HandsOut(name).eval(), torch.rand(2, 1, 48))

    assert xray.anatomy(trace).head.kind == kind


def test_scores_of_the_rows_of_all_sequences_at_once_come_out_for_each_place():
    model = Ends(out=lambda x: x.reshape(-1, WIDTH), mixes=False)
    model.head = nn.Sequential(nn.Linear(WIDTH, 7), nn.Unflatten(0, (2, 3)))
    head = xray.anatomy(xray.trace(model, torch.tensor([[1, 2, 3], [4, 5, 6]]))).head

    assert (head.kind, head.size) == ("numbers", 7)


OF_ROWS, OF_SCORES = "The rows that the last layer reads are multiplied by", "The scores of the words are multiplied by"


class Scores(Ends):
    """A score for each of 12 words; its rows are multiplied by a number before the last layer, or the scores behind."""

    def __init__(self, rows, scores):
        super().__init__(out=lambda x: x * rows, choose=lambda made: made * scores)
        self.head = nn.Linear(WIDTH, 12)


@pytest.mark.parametrize(
    ("rows", "scores", "told"),
    [
        (0.25, 1, f"{OF_ROWS} 0.25."),
        (1, 3, f"{OF_SCORES} 3."),
        (0.25, 3, f"{OF_ROWS} 0.25. {OF_SCORES} 3."),
        (1, 1, ""),
    ],
)
def test_rows_times_a_number_before_the_last_layer_are_told_as_rows_and_not_as_scores(rows, scores, told):
    whole = xray.anatomy(xray.trace(Scores(rows, scores), torch.tensor(((1, 2, 3), (4, 5, 6)))))

    assert describe_bending(whole) == told


@pytest.mark.parametrize(
    ("bend", "told"),
    [
        (lambda made: 15 * made * torch.rsqrt(made.square() + 225), ""),
        (lambda made: 15 * made, f"{OF_SCORES} 15."),
        (lambda made: (15 * made).log_softmax(-1), f"{OF_SCORES} 15."),
        (lambda made: (scores := 15 * made) - scores.logsumexp(-1, keepdim=True), f"{OF_SCORES} 15."),
    ],
    ids=["softly bound", "times a number", "and shared out", "and shared out by hand"],
)
def test_scores_that_something_made_of_them_bends_are_not_told_as_multiplied_by_a_number(bend, told):
    model = Ends(choose=bend)
    model.head = nn.Linear(WIDTH, 12)

    assert describe_bending(xray.anatomy(xray.trace(model, torch.tensor(((1, 2, 3), (4, 5, 6)))))) == told


@pytest.mark.parametrize("factor", [None, 3.0])
def test_the_first_layer_is_a_block_of_its_own_be_words_multiplied_before_it(factor):
    (column,) = read_columns(xray.trace(Ends(factor), torch.tensor([[1, 2, 3]])))
    first = column.frames[0].panels[0]

    assert first.block is not None
    assert first.block.path == "layers.0"


class Shown(nn.Module):
    """Words, and their scores, which are handed out as they are, in part, or as what became of them."""

    def __init__(self, end):
        super().__init__()
        self.words, self.layers, self.end = nn.Embedding(32, WIDTH), Ends().layers, end
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, ids):
        return self.end(self.head(self.layers(self.words(ids))))


@pytest.mark.parametrize(
    ("end", "is_told"),
    [
        (lambda scores: scores.log_softmax(-1), True),
        (lambda scores: scores[..., :-1], False),
        (lambda scores: scores.log_softmax(-1)[..., 3].sum(-1), False),
        (lambda scores: scores[..., :16] * scores[..., 16:].sigmoid(), False),
    ],
)
def test_a_score_for_every_word_is_told_where_all_of_them_come_out(end, is_told):
    sheet = compose_poster(xray.trace(Shown(end).eval(), torch.arange(14).view(2, 7)), text_width)
    told = {"".join(run.text for run in line) for box in sheet.boxes for line in box.lines}

    assert ("A score for every word." in told) is is_told


class Taught(nn.Module):
    """What layers give, held to what comes in, or to what another linear layer makes of it."""

    def __init__(self, is_taught):
        super().__init__()
        self.first, self.layers, self.head = nn.Linear(5, WIDTH), Ends().layers, nn.Linear(WIDTH, 5)
        self.teacher = nn.Linear(5, 5) if is_taught else nn.Identity()

    def forward(self, x):
        return nn.functional.mse_loss(self.teacher(x), self.head(self.layers(self.first(x))))


@pytest.mark.parametrize("is_taught", [False, True])
def test_targets_are_what_no_learned_weights_make(is_taught):
    sheet = compose_poster(xray.trace(Taught(is_taught).eval(), torch.rand(2, 7, 5)), text_width)
    told = " ".join("".join(run.text for run in line) for box in sheet.boxes for line in box.lines)

    assert ("TARGETS" in told) is not is_taught
    assert ("Compared with the target." in told) is not is_taught
    assert "come out" not in told
