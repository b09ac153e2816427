"""How many learned numbers a box says it has, where no module of its own holds them."""

import pytest
import torch
from handwritten import Attention
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from story.charts.entrance_operations import chart_of, rows
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Factored(nn.Module):
    """Rows times one learned row, shifted by another, one learned number in front."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.row, self.one = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(1))

    def forward(self, x):
        made = self.first(x)
        made = made * made.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt() * self.row
        return self.last(torch.cat((self.one.expand(2, 1, 8), made), 1))


class Probed(nn.Module):
    """A learned row, through a norm and a layer of its own, that looks at all others (SigLIP's head, Aria)."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.ask, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)
        self.row = nn.Parameter(torch.ones(1, 1, 8))
        self.both = nn.Parameter(torch.ones(16, 8))

    def forward(self, x):
        made = self.first(x)
        key, value = (made @ one.T for one in self.both.chunk(2))
        scores = self.ask(self.norm(self.row)).expand(2, -1, -1) @ key.transpose(1, 2)
        return self.last(scores.softmax(-1) @ value)


def extras_of(model):
    return {node.label: node.extra for node in chart_of(model, rows(8)).nodes}


def test_learned_rows_are_counted_once_be_they_repeated():
    extras = extras_of(Factored())

    assert extras["RMS NORM"] == "8 parameters"
    assert extras["A LEARNED ROW IN FRONT"] == "1 parameter"


def test_the_parts_of_a_parameter_are_counted_where_they_are_read():
    extras = [node.extra for node in chart_of(Probed(), rows(8)).nodes if node.label in ("LINEAR", "LAYER NORM")]

    assert extras == [f"{count} parameters" for count in (72, 24, 64, 64, 72, 72)]


class Grouped(nn.Module):
    """A feed-forward whose linear layers are convolutions over one place, in groups of channels (SqueezeBERT)."""

    def __init__(self, groups):
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.wide, self.back = nn.Conv1d(12, 18, 1, groups=groups), nn.Conv1d(18, 12, 1, groups=groups)

    def forward(self, x):
        return x + self.back(self.wide(self.norm(x).mT).relu()).mT


@pytest.mark.parametrize(("groups", "told"), [(1, ""), (3, " IN 3 GROUPS")])
def test_a_linear_layer_in_groups_is_called_so(groups, told):
    (column,) = read_columns(xray.trace(nn.Sequential(Grouped(groups), Grouped(groups)), torch.rand(2, 5, 12)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert f"LINEAR{told} + ReLU" in labels
    assert f"LINEAR{told}" in labels


class Led(Factored):
    """One row of a learned table, the same for every sequence, put in front (ViLT's first place)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(1, 16, 8))

    def forward(self, x):
        return self.last(torch.cat((self.table[:, :1].expand(2, -1, -1), self.first(x)), 1))


def test_one_row_of_a_table_is_counted_once_be_it_repeated():
    assert extras_of(Led())["A LEARNED ROW IN FRONT"] == "8 parameters"


class Places(nn.Module):
    """A table without a module of its own, in which rows are picked by their numbers (Whisper's decoder)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(16, WIDTH))

    def forward(self, x):
        return self.table[torch.arange(x.shape[1]).repeat(len(x), 1)]


class FirstPlaces(Places):
    """The first rows of such a table."""

    def forward(self, x):
        return self.table[: x.shape[1]]


class Unprompted(nn.Module):
    """A learned row stands in for a prompt that is not there, in the block that would read one (SAM)."""

    def __init__(self):
        super().__init__()
        self.row, self.read = nn.Parameter(torch.ones(1, WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.row.reshape(1, 1, WIDTH).expand(len(x), -1, -1)


class Begun(nn.Module):
    """What a block gives is added to rows that are led to a width, or looked up, before layers read them."""

    def __init__(self, lead, added):
        super().__init__()
        self.lead, self.added = lead, added
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, x):
        x = self.lead(x)
        x = x + self.added(x)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("lead", "given", "held"),
    [
        (nn.Embedding(31, WIDTH), torch.arange(10).view(2, 5), 31 * WIDTH),
        (nn.Linear(8, WIDTH), torch.rand(2, 5, 8), 9 * WIDTH),
    ],
)
@pytest.mark.parametrize(("added", "count"), [(Places, 16 * WIDTH), (FirstPlaces, 16 * WIDTH), (Unprompted, WIDTH)])
def test_what_is_added_before_layers_is_counted_once_and_in_its_own_box(lead, given, held, added, count):
    (column,) = read_columns(xray.trace(Begun(lead, added()).eval(), given))

    extras = [node.extra for node in column.entrance.nodes if node.extra]
    assert extras == [f"{held} parameters", f"{count} parameters"]


class Ended(nn.Module):
    """The same learned row behind each of two pieces, or one for each of them (LLaVA-NeXT's line ends)."""

    def __init__(self, *, same):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.ends = nn.ParameterList(torch.ones(1, 1, 8) for _ in range(1 if same else 2))

    def forward(self, x):
        pieces = self.first(x).chunk(2, dim=1)
        ended = [torch.cat((one, self.ends[-number].expand(2, -1, -1)), 1) for number, one in enumerate(pieces)]
        return self.last(torch.cat([one.relu() for one in ended], 1))


@pytest.mark.parametrize(("same", "told"), [(True, ["8 parameters", "same weights"]), (False, ["8 parameters"] * 2)])
def test_a_learned_row_that_is_put_behind_several_is_counted_once(same, told):
    nodes = [node for node in chart_of(Ended(same=same), rows(8)).nodes if "LEARNED ROW" in node.label]

    assert sorted(node.extra for node in nodes) == told


class Separated(Ended):
    """A learned row behind every row of each picture, and another one behind the whole of it (Unlimited OCR)."""

    def forward(self, x):
        row, other = self.ends
        pictures = [torch.cat((one.unsqueeze(1), row.expand(len(one), -1, -1)), 1) for one in self.first(x)]
        return self.last(torch.stack([torch.cat((one.reshape(-1, 8), other[0]), 0) for one in pictures]))


def test_a_learned_row_is_no_other_one_of_as_many_numbers():
    nodes = chart_of(Separated(same=False), rows(8)).nodes

    assert [node.extra for node in nodes if node.extra][1:-1] == ["8 parameters", "same weights"] * 2


class Standardised(nn.Conv2d):
    """A convolution whose filters are brought to mean 0 and variance 1 first (BiT)."""

    def forward(self, x):
        flat = self.weight.reshape(1, self.out_channels, -1)
        normed = nn.functional.batch_norm(flat, None, None, training=True, momentum=0.0)
        return nn.functional.conv2d(x, normed.reshape_as(self.weight), self.bias, padding=1)


class Written(nn.Conv2d):
    """The same, by its mean and variance (TransUNet)."""

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, dim=[1, 2, 3], keepdim=True, unbiased=False)
        return nn.functional.conv2d(x, (self.weight - mean) / torch.sqrt(variance + 1e-5), self.bias, padding=1)


class Responding(nn.Module):
    """Channels that stand last, times learned numbers and shifted by others, added to what came (ConvNeXt V2).

    Be it in two steps, or `at_once` (timm's).
    """

    def __init__(self, *, at_once):
        super().__init__()
        self.first, self.last, self.at_once = nn.Linear(8, 8), nn.Linear(8, 8), at_once
        self.weight, self.bias = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

    def forward(self, x):
        made, weight, bias = self.first(x), self.weight.view(1, 1, 1, -1), self.bias.view(1, 1, 1, -1)
        shares = made * made.norm(dim=(1, 2), keepdim=True)
        changed = torch.addcmul(bias, weight, shares) if self.at_once else weight * shares + bias
        return self.last(changed + made)


@pytest.mark.parametrize("standardised", [Standardised, Written])
def test_a_convolution_counts_the_weights_that_it_changes_before_it_uses_them(standardised):
    nodes = chart_of(nn.Sequential(standardised(6, 5, 3), nn.Conv2d(5, 7, 3)), torch.rand(2, 6, 11, 13)).nodes

    assert [(node.label, node.extra) for node in nodes] == [
        ("CONVOLUTION 3×3, OF NORMED WEIGHTS", "275 parameters"),
        ("CONVOLUTION 3×3", "322 parameters"),
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_learned_numbers_of_channels_that_stand_last_are_a_box_before_the_sum(at_once):
    nodes = chart_of(Responding(at_once=at_once), torch.rand(2, 5, 7, 8)).nodes

    assert [(node.label, node.extra) for node in nodes][-3:] == [
        ("SCALE AND SHIFT", "16 parameters"),
        ("ADDED UP", ""),
        ("LINEAR", "72 parameters"),
    ]


class Bend(nn.Module):
    """An activation with two learned numbers, and a slope that is held (xIELU)."""

    def __init__(self):
        super().__init__()
        self.above, self.below = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.slope, self.least = nn.Buffer(torch.tensor(0.5)), nn.Buffer(torch.tensor(-1e-6))

    def forward(self, x):
        above, below = nn.functional.softplus(self.above), self.slope + nn.functional.softplus(self.below)
        return torch.where(
            x > 0,
            above * x * x + self.slope * x,
            (torch.expm1(torch.min(x, self.least)) - x) * below + self.slope * x,
        )


class Square(nn.Module):
    """A norm written out with a power."""

    def forward(self, x):
        return x * x.pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()


class Bent(FeedForwardPart):
    """A feed-forward with both."""

    def __init__(self):
        super().__init__(4 * WIDTH, Bend)
        self.norm = Square()  # type: ignore[assignment]


def test_what_an_activation_learned_is_counted_with_the_layer_before_it():
    model = nn.Sequential(*(part for _ in range(2) for part in (AttentionPart(), Bent())))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 5, WIDTH)))
    extras = {node.label: node.extra for panel in column.frames[0].panels for node in panel.chart.nodes}

    assert extras["LINEAR + xIELU"] == f"{4 * WIDTH * WIDTH + 4 * WIDTH + 2} parameters"


class BiasedInPart(nn.Module):
    """A layer with learned biases for the first and the last third of what it makes, zeros between (Swin V2)."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.weight = nn.Linear(8, 8), nn.Linear(9, 8), nn.Parameter(torch.ones(9, 8))
        self.begun, self.ended = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def forward(self, x):
        bias = torch.cat((self.begun, torch.zeros_like(self.ended), self.ended))
        return self.last(nn.functional.linear(self.first(x), self.weight, bias))


def test_biases_that_are_put_end_to_end_are_counted_where_they_are_added():
    extras = [node.extra for node in chart_of(BiasedInPart(), rows(8)).nodes if node.label == "LINEAR"]

    assert extras == [f"{count} parameters" for count in (72, 9 * 8 + 3 + 3, 80)]


class AskingPool(nn.Module):
    """The mean of all places looks at them and itself, by three layers whose weights a function is given (CLIP)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        rows = self.first(x).transpose(0, 1)
        rows = torch.cat((rows.mean(0, keepdim=True), rows))
        weights = {f"{name}_proj_weight": getattr(self, name).weight for name in "qkv"}
        made, _ = nn.functional.multi_head_attention_forward(
            rows[:1],
            rows,
            rows,
            8,
            2,
            None,
            torch.cat([self.q.bias, self.k.bias, self.v.bias]),
            None,
            None,
            False,
            0.0,
            self.out.weight,
            self.out.bias,
            training=False,
            need_weights=False,
            use_separate_proj_weight=True,
            **weights,
        )
        return self.last(made[0])


def test_layers_of_weights_that_a_function_is_given_are_each_counted_with_their_biases():
    chart = chart_of(AskingPool(), rows(8))

    told = [node.extra for node in chart.nodes if node.label == "LINEAR"]
    assert told == [f"{count} parameters" for count in (72, 72, 72, 72, 72, 72)]


class WrittenNorm(nn.Module):
    """A norm of roots of mean squares, written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LearnedStream(nn.Module):
    """Learned rows that layers norm before they ask what came in (the resampler of Idefics 2)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(5, 16))
        self.norms = nn.ModuleList(WrittenNorm() for _ in range(2))
        self.looks = nn.ModuleList(Attention(16, 2) for _ in range(2))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        rows = self.rows[None].expand(len(x), -1, -1)
        for norm, look in zip(self.norms, self.looks, strict=True):
            rows = rows + look(norm(rows), x)
        return self.head(rows)


def test_learned_rows_that_are_the_stream_count_where_it_begins():
    layout = compose_poster(xray.trace(LearnedStream().eval(), torch.randn(2, 9, 16)), text_width)
    told = ["".join(run.text for run in box.lines[0]) for box in layout.boxes if box.filled]

    assert "5 LEARNED ROWS  80 parameters" in told
    assert "RMS NORM  16 parameters" in told
    assert not [one for one in told if "96 parameters" in one]
