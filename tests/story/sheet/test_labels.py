"""Names of boxes that are too wide for one line stand on two."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.renderers.sheet.dot import RAISED
from xray.story.canvas import Canvas
from xray.story.charts.chart import Node
from xray.story.layout import ASCENT, CAP, SHIFTED, Box, Run, baselines
from xray.story.poster import compose_poster
from xray.story.sheet.canvas.lines import add_below, break_label, op_line, room_in
from xray.story.sheet.panels import spell_title
from xray.story.type_sizes import DIGIT, SYMBOL, THREE_LINES


class Branches(nn.Module):
    """A signal that three convolutions read beside each other before it goes into layers."""

    def __init__(self):
        super().__init__()
        self.reads = nn.ModuleList(nn.Conv1d(1, WIDTH, 16, stride=8, padding=4 + number) for number in range(3))
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, signal):
        one, two, three = (read(signal)[..., :5].mT for read in self.reads)
        return self.layers(one + two * three)


def test_a_long_name_in_a_narrow_box_stands_on_two_lines():
    layout = compose_poster(xray.trace(Branches().eval(), torch.rand(2, 1, 64)), text_width)

    lines = [["".join(run.text for run in line) for line in box.lines] for box in layout.boxes]
    named = [one for one in lines if one and one[0].startswith("CONVOLUTION 16")]

    assert len(named) == 3
    assert all(" ".join(one[:2]).startswith("CONVOLUTION 16, STEP 8") for one in named)


class Narrowed(nn.Module):
    """A convolution whose name leaves no room beside it, before layers of maps."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(60, 60, (11, 13), stride=2, padding=6, groups=30)
        self.layers = nn.ModuleList(nn.Conv2d(60, 60, 3, padding=1) for _ in range(3))

    def forward(self, image):
        x = self.first(image)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def test_parameters_that_have_no_room_beside_a_name_stand_behind_its_sizes():
    layout = compose_poster(xray.trace(Narrowed().eval(), torch.rand(2, 60, 20, 20)), text_width)

    lines = [["".join(run.text for run in line) for line in box.lines] for box in layout.boxes]
    (named,) = [one for one in lines if one and one[0].startswith("CONVOLUTION 11×13")]
    assert named == ["CONVOLUTION 11×13 IN 30 GROUPS, STEP 2", f"2×60×11×10  {60 * 2 * 11 * 13 + 60:,} parameters"]


class Tables(nn.Module):
    """Words, looked up in three tables beside each other."""

    def __init__(self, rows):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, WIDTH) for _ in range(3))
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, ids):
        one, two, three = (table(ids) for table in self.tables)
        return self.layers(one + two + three)


@pytest.mark.parametrize("rows", [70, 21_111_111])
def test_parameters_that_are_wider_than_a_box_stand_on_two_lines(rows):
    with torch.device("meta"):
        layout = compose_poster(xray.trace(Tables(rows).eval(), torch.arange(14).view(2, 7)), text_width)

    lines = [["".join(run.text for run in line) for line in box.lines] for box in layout.boxes]
    named = [one for one in lines if one and one[0].startswith("TABLE LOOKUP")]
    count = f"{rows * WIDTH:,}"
    assert len(named) == 3
    assert all(one[-2:] == [count, "parameters"] if rows > 70 else count in one[-1] for one in named)


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("SELF-ATTENTION", ("SELF-ATTENTION",)),
        ("SELF-ATTENTION IN ROLLED WINDOWS OF 49", ("SELF-ATTENTION IN", "ROLLED WINDOWS OF 49")),
        (
            "SELF-ATTENTION IN WINDOWS OF 196, POOLED 4 TO 1",
            ("SELF-ATTENTION IN", "WINDOWS OF 196,", "POOLED 4 TO 1"),
        ),
    ],
)
def test_a_title_that_has_no_room_on_one_line_stands_on_more(title, lines):
    canvas = Canvas(lambda text, size, weight: 5.0 * len(text))

    assert spell_title(canvas, title, 115) == lines


@pytest.mark.parametrize(
    ("room", "told"), [(75, ("A BRANCH", "THEN ANOTHER", "THEN A THIRD")), (55, ("A BRANCH,", "ANOTHER,", "A THIRD"))]
)
def test_a_title_of_many_lines_tells_what_follows_with_commas(room, told):
    canvas = Canvas(lambda text, size, weight: 5.0 * len(text))

    assert spell_title(canvas, "A BRANCH THEN ANOTHER THEN A THIRD", room) == told


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("676 OF 1,352 ROWS Q", ("676 OF 1,352", "ROWS Q")),
        ("676 OF 1,352 ROWS KV", ("676 OF 1,352 ROWS", "KV")),
        ("UNPARTITIONEDROWS Q", ("UNPARTITIONEDROWS", "Q")),
    ],
)
def test_a_letter_at_the_end_of_a_name_stands_alone_only_where_it_has_to(label, told):
    canvas = Canvas(lambda text, size, weight: 5.0 * len(text))

    assert break_label(canvas, Node("some_q", label, 0, (0.5, 1.0), (), None), 98) == told


def test_what_scores_are_divided_by_stands_behind_its_sign_on_a_line_of_its_own():
    node = Node("out1", "SCORES Q·K^T ÷ √d_k", 0, (0.5, 0.3), (), None)

    assert break_label(Canvas(text_width), node, 90) == ("SCORES Q·K^T", "÷ √d_k")


def test_a_name_in_a_box_that_is_a_third_as_wide_is_told_in_full():
    node = Node("mix", "CONVOLUTION OF THE LAST 4 BY CHANNEL", 0, (0.5, 0.3), (), None)

    lines = break_label(Canvas(text_width), node, 107)

    assert " ".join(lines) == node.label
    assert all(text_width(line, SYMBOL, "semibold") <= 107 for line in lines)


def test_sizes_keep_clear_of_a_thick_outline():
    plain, framed = (Node("one", "ADD", 0, (0.5, 1.0), outline=outline) for outline in ("", "boundary"))

    assert room_in(framed, 100.0) == room_in(plain, 100.0) - 8 == 86.0


@pytest.mark.parametrize(("ink", "told"), [("quiet", "2×7  ·  6 parameters"), ("text", "2×7  6 parameters")])
def test_a_remark_behind_axis_words_stands_apart_from_these(ink, told):
    line = (Run("2×", DIGIT), Run("7", SYMBOL, ink))

    (found,) = add_below(Canvas(text_width), [line], "6 parameters", 300.0)
    assert "".join(run.text for run in found) == told


def test_a_raised_letter_keeps_off_the_edge_of_a_low_box():
    line = op_line("TRANSPOSE K^T")
    box = Box("box", 0.0, 0.0, 200.0, THREE_LINES, (line, (Run("2×7", DIGIT),), (Run("batch×7", SYMBOL),)), "encoder")

    (raised,) = (run for run in line if run.shift == "sup")
    top = baselines(box)[0] + (RAISED["sup"] + (ASCENT - CAP) * SHIFTED) * raised.size
    assert box.top - top > 2
