"""A picture's rows and a few that ask about it look at each other in turn; finer maps are added behind (SAM 2)."""

from functools import cache
from itertools import pairwise

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy import branches
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, WIDE, HIGH, POINTS, MASKS = 15, 24, 2, 4, 4


class Looks(nn.Module):
    """What rows take from others, which is added to them and normed."""

    def __init__(self):
        super().__init__()
        self.look, self.norm = Attention(WIDTH, 3), nn.LayerNorm(WIDTH)

    def forward(self, one, other):
        return self.norm(one + self.look(one, other))


class Thinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.norm = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(x + self.narrow(torch.relu(self.wide(x))))


def make_head(size):
    return nn.Sequential(nn.Linear(WIDTH, 11), nn.ReLU(), nn.Linear(11, 13), nn.ReLU(), nn.Linear(13, size))


class Segments(nn.Module):
    """An eye, a neck, two streams that look at each other in turn, and behind them masks and how sure they are.

    With `neck` the picture's rows are worked on once more before they begin as the second stream, with `finer` maps are
    added that the eye alone gave, with `lost` a learned row is added to what nobody reads.
    """

    def __init__(self, *, neck=True, finer=True, heads=MASKS, lost=True):
        super().__init__()
        wide = WIDE if neck else WIDTH
        made = nn.Sequential(nn.Conv2d(wide, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1))
        self.neck: nn.Module | None = made if neck else None
        self.begun = nn.Parameter(torch.rand(WIDTH, 1, 1))
        self.patches = nn.Conv2d(3, wide, 4, stride=4)
        self.eye = nn.ModuleList(Layer(wide, Attention(wide, 3), norm="before") for _ in range(2))
        self.points, self.none = nn.Linear(2, WIDTH), nn.Parameter(torch.rand(1, WIDTH))
        self.there, self.back = (nn.ModuleList(Looks() for _ in range(2)) for _ in range(2))
        self.thinks = nn.ModuleList(Thinks() for _ in range(2))
        self.last: nn.Module = Looks()
        self.up: nn.Module = nn.ConvTranspose2d(WIDTH, WIDTH, 2, stride=2)
        self.fine = nn.ConvTranspose2d(wide, WIDTH, 2, stride=2)
        self.after: nn.Module = nn.Identity()
        self.heads = nn.ModuleList(make_head(WIDTH) for _ in range(heads))
        self.sure, self.more, self.finer = make_head(MASKS), make_head(1), finer
        self.lost = nn.Parameter(torch.rand(wide)) if lost else None

    def forward(self, image, points, known):
        seen, fine = self.see(self.patches(image).flatten(2).mT)
        _ = None if self.lost is None else seen.mean((2, 3)) + self.lost
        rows = (self.neck(seen) + self.begun if self.neck is not None else seen).flatten(2).mT
        few = torch.where(known, self.none, self.points(points))
        for there, think, back in zip(self.there, self.thinks, self.back, strict=True):
            few = think(there(few, rows))
            rows = back(rows, few)
        few = self.last(few, rows)
        seen = self.up(rows.mT.unflatten(2, (HIGH, HIGH)))
        seen = self.after(torch.relu(seen + fine if self.finer else seen))
        masks = torch.stack([head(few[:, place]) for place, head in enumerate(self.heads)], dim=1)
        return self.meet(masks, seen.flatten(2)), self.sure(few[:, 0]), self.more(few[:, 0])

    def see(self, rows):
        for layer in self.eye:
            rows = layer(rows)
        seen = rows.mT.unflatten(2, (HIGH, HIGH))
        return seen, self.fine(seen)

    def meet(self, made, seen):
        return made @ seen


class Eye(nn.Module):
    """The layers of an eye with what makes its finer map, in one block."""

    def __init__(self, layers, fine):
        super().__init__()
        self.layers, self.fine = layers, fine

    def forward(self, rows):
        for layer in self.layers:
            rows = layer(rows)
        seen = rows.mT.unflatten(2, (HIGH, HIGH))
        return seen, self.fine(seen)


class SegmentsWithEye(Segments):
    def __init__(self):
        super().__init__()
        self.whole, self.eye, self.fine = Eye(self.eye, self.fine), None, None

    def see(self, rows):
        return self.whole(rows)


@cache
def record(make=Segments, **options):
    torch.manual_seed(0)
    known = torch.tensor([[[False], [True], [False], [False]]] * 2)
    return xray.trace(make(**options).eval(), torch.rand(2, 3, 8, 8), torch.rand(2, POINTS, 2), known)


def list_beginnings(trace):
    """What each attention of the stream that asks tells to be the beginning of what it looks at."""
    towers = xray.anatomy(trace).towers
    asking = next(one for one in towers if one.name == "decoder")
    return [branch.beginning for branch in asking.branches if isinstance(branch, branches.Attention)]


def list_texts(trace):
    boxes = compose_poster(trace, text_width).boxes
    return [" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes]


def find_exit(trace, name):
    return next(one.exit for one in read_columns(trace) if one.name == name and one.is_last)


def test_keys_are_what_another_stream_begins_with_before_its_first_layer_alone():
    trace = record()

    assert list_beginnings(trace) == ["stack", None, None]
    told = [one for one in list_texts(trace) if one.startswith("The decoder asks")]
    assert told == [
        "The decoder asks; keys and values come from what the stack begins with.",
        "The decoder asks; keys and values come from the stack.",
    ]


def test_keys_that_are_the_end_of_a_tower_are_no_beginning():
    assert list_beginnings(record(neck=False)) == [None, None]


def test_a_learned_row_that_is_chosen_for_some_places_is_a_box():
    entrance = next(one.entrance for one in read_columns(record()) if one.name == "decoder" and one.is_first)

    assert [(one.label, one.extra) for one in entrance.nodes][-1] == ("A LEARNED ROW PUT IN", f"{WIDTH} parameters")


class ChoosesGiven(nn.Module):
    """Each row is one of two that are given."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(2, WIDTH), nn.Linear(3, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, image, points, known):
        x = torch.where(known, self.one(points), self.other(image[:, :, 0, :POINTS].mT))
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_that_are_chosen_among_given_ones_are_no_learned_row():
    (column,) = read_columns(record(ChoosesGiven))

    labels = {node.label for node in column.entrance.nodes}
    assert "ONE OR THE OTHER" in labels
    assert "A LEARNED ROW PUT IN" not in labels


@pytest.mark.parametrize(("lost", "told"), [(True, f"Not drawn, with parameters: lost ({WIDE})."), (False, "")])
def test_learned_numbers_that_no_module_holds_are_named_where_no_box_tells_of_them(lost, told):
    found = [one for one in list_texts(record(lost=lost)) if "Not drawn" in one]

    assert "".join(found) == told


class OwnNames(nn.Module):
    """A look whose parts have names that no other has."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.normed = nn.LayerNorm(WIDTH)

    def forward(self, one, other):
        made = (self.q(one), self.k(other), self.v(other))
        q, k, v = (rows.view(*rows.shape[:2], 3, -1).transpose(1, 2) for rows in made)
        weights = (q @ k.transpose(-2, -1) / (WIDTH // 3) ** 0.5).softmax(-1)
        return self.normed(one + self.o((weights @ v).transpose(1, 2).flatten(2)))


class NamedApart(Segments):
    """The last look has names of its own (SAM 2)."""

    def __init__(self):
        super().__init__(lost=False)
        self.last = OwnNames()


def test_keys_and_values_of_a_closed_layer_with_names_of_its_own_are_drawn_where_it_is_like_another():
    assert not [one for one in list_texts(record(NamedApart)) if "Not drawn" in one]


def test_maps_of_another_tower_are_added_behind_the_last_layer():
    chart = find_exit(record(), "stack")
    (added,) = (node for node in chart.nodes if node.label == "ADDED UP")
    read = [chart.node(edge.source) for edge in chart.edges if edge.target == added.key]

    assert [(one.label.split()[0], one.surface, one.key in chart.memory) for one in read] == [
        ("TRANSPOSED", "memory", True),
        ("TRANSPOSED", "own", False),
    ]
    assert chart.feet == (read[1].key,)


@pytest.mark.parametrize(("make", "counted"), [(Segments, ["", "2,370"]), (SegmentsWithEye, ["1,455", "915"])])
def test_a_map_that_is_made_in_the_block_of_the_eye_is_counted_as_what_that_gives(make, counted):
    told = dict(pairwise(lines_of(compose_poster(record(make), text_width))))

    assert WIDTH * (4 * WIDE + 1) == 1_455
    assert [told.get(f"{name} exit", "") for name in ("encoder", "stack")] == counted


def test_no_map_is_added_where_none_is():
    chart = find_exit(record(finer=False), "stack")

    assert "ADDED UP" not in {node.label for node in chart.nodes}
    assert chart.memory == ()


class Larger(nn.Module):
    """Maps are made as large as those that are added."""

    def forward(self, x):
        return nn.functional.interpolate(x, scale_factor=2.0)


class Resizes(Segments):
    def __init__(self):
        super().__init__()
        self.up, self.after = Larger(), nn.Conv2d(WIDTH, WIDTH, 1)


def test_what_makes_a_map_as_large_as_the_other_one_is_a_box():
    chart = find_exit(record(Resizes), "stack")
    keys = {node.label: node.key for node in chart.nodes}

    assert (keys["RESIZED"], keys["ADDED UP"]) in {(edge.source, edge.target) for edge in chart.edges}
    assert chart.feet == (keys["RESIZED"],)


class AddsOwn(Segments):
    """What is added behind the layers was made of the stream itself."""

    def __init__(self):
        super().__init__(finer=False)
        self.up = Beside()


class Beside(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.ConvTranspose2d(WIDTH, WIDTH, 2, stride=2), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        x = self.one(x)
        return x + self.other(x)


def test_a_map_of_a_stream_s_own_comes_from_no_other_tower():
    chart = find_exit(record(AddsOwn), "stack")

    assert chart.memory == ()
    assert {node.surface for node in chart.nodes} == {"own", "ghost"}


def test_heads_alike_whose_numbers_are_stacked_stand_in_one_lane():
    trace = record()
    chart = find_exit(trace, "decoder")
    lanes = {node.place[0] for node in chart.nodes if not node.key.startswith("meeting")}
    alike = [node for node in chart.nodes if node.label.startswith(f"{MASKS} LINEAR LAYERS")]

    assert len(lanes) == 3
    assert [node.extra for node in alike] == [f"{MASKS * n:,} parameters" for n in (16 * 11, 12 * 13, 14 * 15)]
    assert {len(node.steps) for node in alike} == {MASKS}
    assert [node.label.endswith(", A ROW EACH") for node in alike] == [True, False, False]


class CutsOne(Segments):
    """The last of the heads that are stacked makes a mask of its own (SAM-HQ)."""

    def meet(self, made, seen):
        return made[:, :-1] @ seen, made[:, -1:] @ seen


def test_a_head_whose_numbers_are_cut_out_alone_is_none_of_those_alike():
    alike = [node for node in find_exit(record(CutsOne), "decoder").nodes if "LINEAR LAYERS" in node.label]

    layers = f"{MASKS - 1} LINEAR LAYERS"
    assert [node.label for node in alike] == [f"{layers}, A ROW EACH + ReLU", f"{layers} + ReLU", layers]


def test_a_head_alone_stands_for_itself():
    chart = find_exit(record(heads=1), "decoder")

    assert not [node for node in chart.nodes if "LAYERS" in node.label]


def test_a_ribbon_leads_to_an_attention_that_is_one_box():
    layout = compose_poster(record(), text_width)
    named = [(box, "".join(run.text for run in line)) for box in layout.boxes for line in box.lines[:1]]
    (whole,) = (box for box, told in named if told.startswith("CROSS-ATTENTION") and "3 heads of" in told)
    ends = [curve.points[-1] for curve in layout.curves if curve.kind == "ribbon" and curve.head]

    assert [(x, y) for x, y in ends if abs(y - whole.y) < 1 and min(abs(x - whole.left), abs(x - whole.right)) < 1]


def test_a_ribbon_tells_behind_which_of_several_layers_it_begins():
    assert [one for one in list_texts(record()) if one.startswith("BEHIND")] == ["BEHIND LAYER 1"]


class AddsAlone(Segments):
    """What the eye gives in one block goes through one sum alone, before it begins as the second stream (SAM)."""

    def __init__(self):
        super().__init__(finer=False, lost=False)
        self.whole, self.eye, self.fine = Eye(self.eye, self.neck), None, None
        self.neck = nn.Identity()

    def see(self, rows):
        _, narrow = self.whole(rows)
        return narrow, None


def test_a_ribbon_leaves_a_box_before_layers_beside_the_one_that_comes_in_there():
    layout = compose_poster(record(AddsAlone), text_width)
    ways = [curve.points for curve in layout.curves if curve.role == curve.kind == "ribbon"]
    entered = [box for box in layout.boxes if (box.left, box.y) in [way[-1] for way in ways]]
    raised = {y - one.y for one in entered for (x, y), *_ in ways if x == one.left and abs(y - one.y) < one.height / 2}

    assert raised
    assert min(raised) > 0
