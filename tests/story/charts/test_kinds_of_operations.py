"""Operations at the entrance by their kind: norms, convolutions, transforms, sums by weights."""

import pytest
import torch
from story.body.test_mistaken import WIDTH
from story.charts.entrance_operations import PLACES, chart_of, labels_of, rows
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.operation_labels import label_step


class SoFar(nn.Module):
    """A norm whose mean and spread are those of all places until each of them (Gemma 3n's ear)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        ones = torch.ones_like(x)
        count = ones.sum(-1, keepdim=True).cumsum(1).clamp(min=1.0)
        mean = x.sum(-1, keepdim=True).cumsum(1) / count
        spread = (x - mean).pow(2).sum(-1, keepdim=True).cumsum(1) / count
        return (x - mean) * torch.rsqrt(spread + 1e-3) * self.weight.view(1, 1, -1) * ones


def test_a_norm_over_all_places_so_far_is_one_box():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), SoFar(), nn.Linear(WIDTH, WIDTH))

    assert labels_of(model, rows()) == ["LINEAR", "NORM OVER ALL PLACES SO FAR", "LINEAR"]


def test_angles_and_powers_between_products_are_drawn():
    class Angles(nn.Module):
        """Scores by the angle between a query and a key (YOSO)."""

        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x):
            near = torch.tanh(self.query(x) @ self.key(x).transpose(-1, -2))
            return (1 - torch.acos(near) / 3.14159) ** 9 @ self.value(x)

    labels = labels_of(Angles(), rows())

    assert labels[-4:] == ["TANH", "ACOS", "POWER 9", "PRODUCT"]


def test_a_convolution_is_told_with_its_step():
    model = nn.Sequential(nn.Conv1d(3, 5, 2, stride=2), nn.ReLU(), nn.Conv1d(5, 4, 3), nn.ConvTranspose1d(4, 3, 4, 2))

    labels = [label for label in labels_of(model, torch.ones(2, 3, 16)) if "CONVOLUTION" in label]

    assert [label.removesuffix(" + ReLU") for label in labels] == [
        "CONVOLUTION 2, STEP 2",
        "CONVOLUTION 3",
        "TRANSPOSED CONVOLUTION 4, STEP 2",
    ]


class Cut(nn.Module):
    """Places made more by a transposed convolution, of which some are left out (Mimi's decoder)."""

    def __init__(self, *parts):
        super().__init__()
        self.wide, self.parts, self.last = nn.ConvTranspose1d(3, 5, 4, 2), parts, nn.Conv1d(5, 7, 3)

    def forward(self, x):
        x = self.wide(x)
        return self.last(sum(x[part] for part in self.parts))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([(..., slice(0, 32))], ", CUT TO 32"),
        ([(..., slice(0, -2))], ", CUT TO 32"),
        ([(slice(0, 1),)], ""),
        ([(..., slice(0, 32)), (..., slice(2, 34))], ""),
    ],
)
def test_places_that_a_transposed_convolution_makes_and_that_are_cut_off_are_told(parts, told):
    labels = labels_of(Cut(*parts), torch.ones(2, 3, 16))

    assert labels[0] == f"TRANSPOSED CONVOLUTION 4, STEP 2{told}"


class LooksBack(nn.Module):
    """A convolution padded on both sides, of which what lies behind the last place is left out (LFM2)."""

    def __init__(self):
        super().__init__()
        self.mixed, self.last = nn.Conv1d(3, 5, 4, padding=3), nn.Conv1d(5, 7, 1)

    def forward(self, x):
        return self.last(self.mixed(x)[..., : x.shape[-1]])


def test_a_convolution_that_looks_back_alone_gives_as_many_places_as_it_reads():
    nodes = chart_of(LooksBack(), torch.ones(2, 3, 11)).nodes

    assert next((node.label, node.record.shape) for node in nodes) == ("CONVOLUTION OF THE LAST 4", (2, 5, 11))


def test_the_rms_norm_of_torch_is_called_so():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH))

    assert labels_of(model, rows()) == ["LINEAR", "RMS NORM", "LINEAR"]


class Weighed(nn.Module):
    """Rows weighed by one score each and added up, which others are multiplied by (MobileViTV2)."""

    def __init__(self, axis):
        super().__init__()
        self.all, self.out, self.axis = nn.Conv2d(WIDTH, 1 + 2 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1), axis

    def forward(self, x):
        query, key, value = self.all(x).split([1, WIDTH, WIDTH], dim=1)
        found = (key * query.softmax(-1)).sum(self.axis, keepdim=True)
        return self.out(value.relu() * found.expand_as(value))


@pytest.mark.parametrize(("axis", "told"), [(-1, ["SUM OF 5"]), (2, ["SUM OF 3"]), (1, []), (0, [])])
def test_rows_that_are_added_up_are_told_with_their_number(axis, told):
    labels = labels_of(Weighed(axis), torch.ones(2, WIDTH, 3, 5))

    assert [label for label in labels if label.startswith("SUM")] == told


class Additive(nn.Module):
    """Rows of length 1, each weighed by one number of its own, and their sum, which others are multiplied by."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.score = nn.Parameter(torch.rand(8, 1))

    def forward(self, x):
        query = nn.functional.normalize(self.query(x), dim=-1)
        found = (query * (query @ self.score).softmax(1)).sum(1, keepdim=True)
        return self.out(found * self.key(x)) + query


def test_rows_that_are_weighed_by_one_number_each_and_added_up_are_a_box():
    assert "ROWS WEIGHED, ADDED UP" in labels_of(Additive(), rows(8))


class Affine(nn.Module):
    """Rows times learned numbers, and others added, in one operation (ResMLP)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.factors, self.shifts = nn.Parameter(torch.ones(1, 1, 8)), nn.Parameter(torch.zeros(1, 1, 8))

    def forward(self, x):
        return self.last(torch.addcmul(self.shifts, self.factors, self.first(x)))


def test_a_product_and_a_sum_in_one_operation_are_called_by_what_they_hold():
    assert labels_of(Affine(), rows(8)) == ["LINEAR", "SCALE AND SHIFT", "LINEAR"]


@pytest.mark.parametrize("highest", [lambda x: x.amax(1), lambda x: x.max(1).values])
def test_the_highest_of_several_rows_has_one_name(highest):
    class Highest(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)

        def forward(self, x):
            return highest(self.first(x))

    flow = read_flow(xray.trace(Highest(), rows(8)).passes[0])
    (place,) = (place for place, step in enumerate(flow.steps) if step.op in ("amax", "max"))

    assert label_step(flow, place) == "MAX"


class Stem(nn.Module):
    """A convolution whose weights are brought to a length before it (wav2vec 2.0's places)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.near = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 3, padding=1), dim=2)

    def forward(self, x):
        return self.last(nn.functional.gelu(self.near(self.first(x).mT)).mT)


def test_what_weights_go_through_belongs_to_the_step_that_works_with_them():
    (convolution,) = (node for node in chart_of(Stem(), rows(8)).nodes if node.label.startswith("CONVOLUTION"))

    assert convolution.extra == f"{8 * 8 * 3 + 3 + 8} parameters"
    assert convolution.told == ("weights normed",)
    assert not [label for label in labels_of(Stem(), rows(8)) if "NORM" in label]


class Transformed(nn.Module):
    """Rows mixed by a Fourier transform of places and widths, of which the real part goes on, or its size (FNet)."""

    def __init__(self, part):
        super().__init__()
        self.first, self.last, self.part = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), part

    def forward(self, x):
        return self.last(self.part(torch.fft.fftn(self.first(x), dim=(1, 2))))


@pytest.mark.parametrize(
    ("part", "told"),
    [(torch.real, ["FOURIER TRANSFORM, ITS REAL PART"]), (torch.abs, ["FOURIER TRANSFORM", "ABS"])],
)
def test_that_the_real_part_of_a_transform_alone_goes_on_is_said(part, told):
    assert labels_of(Transformed(part), rows()) == ["LINEAR", *told, "LINEAR"]


def test_the_real_part_of_a_transform_stands_in_its_box():
    (box,) = (node for node in chart_of(Transformed(torch.real), rows()).nodes if node.label.startswith("FOURIER"))

    assert box.record.dtype == "float32"
    assert [step.op for step in box.steps] == ["fft_fftn", "real"]


class Turned(nn.Module):
    """Rows times the cosine of angles that a parameter tells, of which a layer beside is trained."""

    def __init__(self, learned):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.angles = nn.Parameter(torch.rand(WIDTH), requires_grad=learned)

    def forward(self, x):
        return self.first(x) * (torch.arange(PLACES)[:, None] * self.angles).cos()


@pytest.mark.parametrize(
    ("learned", "frozen", "told"),
    [(True, False, "LEARNED NUMBERS"), (False, False, "FIXED NUMBERS"), (False, True, "LEARNED NUMBERS")],
)
def test_numbers_that_require_no_gradient_where_others_do_are_called_fixed(learned, frozen, told):
    model = Turned(learned)
    if frozen:
        model.requires_grad_(False)

    assert labels_of(model, rows()) == ["LINEAR", f"× WHAT IS MADE OF {told}"]


class Emptied(nn.Module):
    """Rows of which no number, or some, go by a norm and stand beside what that gives."""

    def __init__(self, kept):
        super().__init__()
        self.first, self.kept = nn.Linear(WIDTH, WIDTH), kept
        self.norm, self.last = nn.LayerNorm(WIDTH - kept), nn.Linear(WIDTH, 7)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.cat((x[..., : self.kept], self.norm(x[..., self.kept :])), -1))


@pytest.mark.parametrize("kept", [0, 3])
def test_no_line_leads_from_numbers_that_are_none(kept):
    chart = chart_of(Emptied(kept), rows())
    ways = {(chart.node(one.source).label, chart.node(one.target).label) for one in chart.edges}

    assert any(source == "LINEAR" and target != "LAYER NORM" for source, target in ways) == bool(kept)


class Distant(nn.Module):
    """Rows times others picked from a table: each its own, by how far they are, or all the same."""

    def __init__(self, equation, pick):
        super().__init__()
        self.first, self.table = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.rand(2 * PLACES, WIDTH))
        self.equation, self.pick = equation, pick

    def forward(self, x):
        x = self.first(x)
        return torch.einsum(self.equation, x, self.table[self.pick(x)])


def tell_distances(_):
    return torch.arange(PLACES)[:, None] - torch.arange(PLACES)[None] + PLACES


@pytest.mark.parametrize(
    ("equation", "pick", "told"),
    [
        ("bnc,nkc->bnk", tell_distances, "PRODUCT"),
        ("bnc,kc->bnk", lambda _: torch.arange(PLACES) + 1, "LINEAR"),
    ],
)
def test_rows_that_meet_rows_of_their_own_from_a_table_are_multiplied_and_no_linear_layer(equation, pick, told):
    assert labels_of(Distant(equation, pick), rows()) == ["LINEAR", told]


class DistantInTurn(Distant):
    """The same as a product of matrices, one for each place: the places stand first for it (torchvision's MViT)."""

    def forward(self, x):
        return (self.first(x).transpose(0, 1) @ self.table[self.pick(x)].mT).transpose(0, 1)


def test_rows_that_meet_rows_of_their_own_are_multiplied_where_no_equation_says_so():
    assert "PRODUCT" in labels_of(DistantInTurn("", tell_distances), rows())


class Visited(nn.Module):
    """Scores of which those of places seen before are written over, as a solver of tours does."""

    def forward(self, scores, seen):
        scores = scores + 0.0
        scores[seen] = -torch.inf
        return scores.softmax(-1)


def test_numbers_written_where_a_mask_names_each_are_no_rows():
    seen = torch.tensor([[True, False, False], [False, False, True]])
    flow = read_flow(xray.trace(Visited(), torch.rand(2, 3), seen).passes[0])

    assert label_step(flow, flow.places["Visited.index_put_#0"]) == "NUMBERS OF A MASK SET TO −∞"


class Scales(nn.Module):
    """Rows times several learned rows, by letters of which none is summed over (gated attention units)."""

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(3, WIDTH))

    def forward(self, x):
        return torch.einsum("btd,hd->bthd", x, self.gamma)


def test_letters_of_which_none_is_summed_over_make_no_linear_layer():
    flow = read_flow(xray.trace(Scales(), rows()).passes[0])
    (node,) = [place for place, step in enumerate(flow.steps) if step.op == "einsum"]

    assert label_step(flow, node) == "× LEARNED NUMBERS"
