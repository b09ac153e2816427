"""Stages that stand as one box: at which station their like is open, and which have no like and are open themselves."""

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart, TanhGated
from story.charts.test_closed_biases import PLACES as SIX
from story.charts.test_closed_biases import WithBias
from torch import nn

import xray
from xray.story.cards.undrawn import list_named_alike, list_unboxed
from xray.story.sheet.columns import read_columns
from xray.story.sheet.stand_ins import join_labels

PLACES, JOINED = 10, 2


class Merging(nn.Module):
    """A feed-forward of two rows side by side, which become one; their mean goes past it."""

    def __init__(self):
        super().__init__()
        wide = JOINED * WIDTH
        self.norm, self.wide, self.back = nn.LayerNorm(wide), nn.Linear(wide, 53), nn.Linear(53, WIDTH)

    def forward(self, x):
        rows = x.reshape(BATCH, -1, JOINED * WIDTH)
        mean = x.reshape(BATCH, -1, JOINED, WIDTH).mean(2)
        return mean + self.back(torch.relu(self.wide(self.norm(rows))))


def read_panels(*parts, places=PLACES):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, WIDTH), *parts).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(BATCH, places, 7)))
    return [panel for frame in column.frames for panel in frame.panels]


def test_a_stage_that_is_one_box_tells_where_its_boxes_are_drawn():
    bends = (nn.GELU, nn.ReLU, nn.ReLU)
    panels = read_panels(*(part for bend in bends for part in (AttentionPart(), FeedForwardPart(bend=bend))))
    closed = [panel for panel in panels if not panel.is_open]
    stations = {panel.staging.stage.branches[0].part: panel.station for panel in panels if panel.is_open}

    assert [node.extra for panel in closed for node in panel.chart.nodes] == [
        f"3 heads of 4; boxes as at {stations['attention']}"
    ]


class OtherwiseNormed(AttentionPart):
    """An attention whose norm is called otherwise (DAE-Former's second ones)."""

    def __init__(self):
        super().__init__()
        self.add_module("before", self._modules.pop("norm"))

    def __getattr__(self, name):
        return super().__getattr__("before" if name == "norm" else name)


def test_what_stands_in_a_closed_box_where_its_like_has_boxes_is_drawn_whatever_it_is_called():
    torch.manual_seed(0)
    parts = (OtherwiseNormed(), FeedForwardPart(), *(AttentionPart(), FeedForwardPart(bend=nn.ReLU)) * 2)
    columns = read_columns(xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *parts).eval(), torch.rand(BATCH, PLACES, 7)))

    assert [one.is_open for frame in columns[0].frames for one in frame.panels] == [False, True, True, True]
    assert list_unboxed(columns) == ()


class Mixing(nn.Module):
    """A convolution of neighbouring places, channel by channel, bent before it or behind."""

    def __init__(self, bends_first=False):
        super().__init__()
        self.norm, self.back, self.bends_first = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), bends_first
        self.mixed = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        rows = self.norm(x).transpose(1, 2)
        rows = self.mixed(torch.relu(rows)) if self.bends_first else torch.relu(self.mixed(rows))
        return x + self.back(rows.transpose(1, 2))


@pytest.mark.parametrize(("bends_first", "told"), [(False, "kernel 3; boxes as at 2"), (True, "kernel 3")])
def test_a_convolution_that_is_one_box_tells_where_its_boxes_are_drawn_if_they_are_in_the_same_order(bends_first, told):
    around = [part for _ in range(2) for part in (Mixing(), FeedForwardPart())]
    mixing = [one for one in read_panels(*around, AttentionPart(), Mixing(bends_first)) if is_convolution(one)]

    assert [one.is_open for one in mixing] == [True, False]
    assert [node.extra for node in mixing[1].chart.nodes] == [told]


def is_convolution(panel):
    return panel.staging.stage.branches[0].part == "convolution"


def test_a_stage_without_windows_is_told_to_lack_what_cuts_them():
    parts = [part for window in (3, 3, SIX) for part in (WithBias(window), FeedForwardPart())]
    panels = read_panels(*parts, places=SIX)
    (closed,) = (one for one in panels if not one.is_open and one.staging.stage.branches[0].part == "attention")

    (node,) = closed.chart.nodes
    assert node.extra == "3 heads of 4; boxes as at 2 without CUT INTO WINDOWS OF 3 and WINDOWS JOINED"


class Rolled(nn.Module):
    """Places of a map of two lines look at each other line by line, be the lines rolled first, and back behind."""

    def __init__(self, rolls):
        super().__init__()
        self.norm, self.out, self.rolls = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), rolls
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        rows = self.norm(x).view(BATCH, 2, -1, WIDTH)
        rows = (rows.roll(shifts=(1, 1), dims=(1, 2)) if self.rolls else rows).reshape(2 * BATCH, -1, WIDTH)
        query, key, value = (
            one(rows).unflatten(-1, (3, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        scores = query @ key.mT / 2
        scores = scores + torch.where(torch.eye(PLACES // 2) > 0, 0.0, -100.0) if self.rolls else scores
        made = self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(-2)).view(BATCH, 2, -1, WIDTH)
        return x + (made.roll(shifts=(-1, -1), dims=(1, 2)) if self.rolls else made).reshape(BATCH, PLACES, WIDTH)


def test_a_stage_without_rolling_is_told_to_lack_it_and_what_hides_places_then():
    panels = read_panels(*(part for rolls in (False, True, True) for part in (Rolled(rolls), FeedForwardPart())))
    looks = [one for one in panels if one.staging.stage.branches[0].part == "attention"]

    assert [one.is_open for one in looks] == [False, True]
    assert [node.extra for node in looks[0].chart.nodes] == ["3 heads of 4; boxes as at 2 without ROLLING and MASK"]


class ThinksOfFirst(FeedForwardPart):
    """A feed-forward of the first row alone, or of all; the others stand beside it as they are."""

    def __init__(self, *, alone):
        super().__init__()
        self.alone = alone

    def forward(self, x):
        rows = x[:, :1] if self.alone else x
        made = self.back(self.bend(self.wide(rows)))
        return x + (torch.cat([made, x[:, 1:]], 1) if self.alone else made)


@pytest.mark.parametrize(("alone", "told"), [(True, []), (False, ["d_ff 17; boxes as at 3 without LAYER NORM"])])
def test_a_feed_forward_of_one_row_has_no_boxes_as_one_of_all_rows(alone, told):
    panels = read_panels(*(AttentionPart(), FeedForwardPart()) * 2, AttentionPart(), ThinksOfFirst(alone=alone))
    thinks = [one for one in panels if one.staging.stage.branches[0].part == "feed_forward"]

    assert [node.extra for one in thinks if not one.is_open for node in one.chart.nodes] == told
    own = [node.label for node in thinks[-1].chart.nodes if thinks[-1].is_open]
    assert own == (["LINEAR + GELU", "LINEAR", "END TO END", "ADD"] if alone else [])


class Masked(AttentionPart):
    """Attention whose mask hides all but so many places before each."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 3, -1)).permute(2, 0, 3, 1, 4)
        near = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril().triu(1 - self.seen)
        made = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=near)
        return x + self.out(made.transpose(1, 2).flatten(-2))


def test_a_window_that_a_mask_makes_changes_no_box():
    panels = read_panels(*(part for seen in (3, 3, PLACES) for part in (Masked(seen), FeedForwardPart())))
    looks = [one for one in panels if one.staging.stage.branches[0].part == "attention"]

    assert [one.staging.stage.branches[0].window for one in looks] == [3, None]
    assert [one.is_open for one in looks] == [True, False]
    assert [node.extra for node in looks[1].chart.nodes] == [f"3 heads of 4; boxes as at {looks[0].station}"]


def test_a_stage_that_lacks_a_box_of_another_one_tells_which():
    gated = [part for _ in range(2) for part in (AttentionPart(), TanhGated(FeedForwardPart()))]
    panels = read_panels(*gated, AttentionPart(), FeedForwardPart())
    thinks = [one for one in panels if one.staging.stage.branches[0].part == "feed_forward"]

    assert [one.is_open for one in thinks] == [True, False]
    (node,) = thinks[1].chart.nodes
    assert node.extra == f"d_ff 17; boxes as at {thinks[0].station} without × TANH OF A LEARNED NUMBER"


class NormedRow(FeedForwardPart):
    """A feed-forward behind a norm of one row, which is put back where it was (XCiT's class row)."""

    def forward(self, x):
        x = x.clone()
        x[:, 0:1] = self.norm(x[:, 0:1])
        return x + self.back(self.bend(self.wide(x)))


def test_a_stage_whose_norm_stands_outside_of_it_is_not_told_to_lack_one():
    parts = [part for make in (FeedForwardPart, NormedRow) for _ in range(2) for part in (AttentionPart(), make())]
    thinks = [one for one in read_panels(*parts) if one.staging.stage.branches[0].part == "feed_forward"]

    assert [one.staging.stage.norm.place for one in thinks] == ["before", None]
    assert not any("without" in node.extra for one in thinks for node in one.chart.nodes)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["ROTATE Q", "ROTATE K"], "ROTATE Q and K"),
        (["REPEAT K ×2", "REPEAT V ×2"], "REPEAT K and V ×2"),
        (["ROTATE Q", "NORM K"], "ROTATE Q and NORM K"),
        (["MASK"], "MASK"),
        (["LAYER NORM", "ROTATE"], "LAYER NORM and ROTATE"),
    ],
)
def test_boxes_that_are_missing_have_what_they_are_called_in_common(labels, told):
    assert join_labels(labels) == told


def test_a_feed_forward_that_makes_one_row_of_several_is_opened_beside_another_one():
    parts = [part for _ in range(2) for part in (AttentionPart(), FeedForwardPart(bend=nn.ReLU))]
    panels = read_panels(*parts, AttentionPart(), Merging(), AttentionPart(), FeedForwardPart(bend=nn.ReLU))
    (merging,) = (one for one in panels if getattr(one.staging.stage.branches[0], "joined", None))

    assert merging.is_open


class FewerKeys(nn.Module):
    """One key head for two of queries: repeated by the kernel, or before it (Gemma 4, where heads are wide)."""

    def __init__(self, repeats):
        super().__init__()
        self.repeats, self.norm = repeats, nn.LayerNorm(WIDTH)
        self.query, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)

    def forward(self, x):
        rows = self.norm(x)
        query = self.query(rows).view(BATCH, -1, 2, WIDTH // 2).transpose(1, 2)
        key, value = (one(rows).unsqueeze(1) for one in (self.key, self.value))
        if self.repeats:
            key, value = (one.expand(-1, 2, -1, -1).reshape(query.shape) for one in (key, value))
        found = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=not self.repeats)
        return x + self.out(found.transpose(1, 2).reshape(x.shape))


def test_what_one_kernel_does_inside_is_not_told_as_what_another_does_before_it():
    parts = [part for repeats in (False, False, True) for part in (FewerKeys(repeats), FeedForwardPart())]
    closed = [node.extra for panel in read_panels(*parts) if not panel.is_open for node in panel.chart.nodes]

    assert closed == ["2 heads of 6", "d_ff 17; boxes as at 3"]


@pytest.mark.parametrize(
    ("held", "is_told"),
    [
        ("blocks.0.own.place.weight", True),
        ("others.0.own.place.weight", True),
        ("blocks.0.cross.place.weight", False),  # another attention of the layer (Conditional DETR's first)
        ("first.place.weight", False),
    ],
)
def test_a_parameter_is_told_by_a_box_where_its_name_in_its_layer_is_that_of_the_one_there(held, is_told):
    inside = ["blocks.1.own.query.weight", "blocks.1.own.place.weight", "blocks.1.own_norm.weight"]

    assert list_named_alike([held], inside[1:], inside) == ({held} if is_told else set())


def test_a_number_that_a_layer_holds_itself_makes_no_other_of_its_names_longer():
    inside = ["gated.0.norm.weight", "gated.0.wide.weight", "gated.0.alpha"]

    assert list_named_alike(["layers.3.wide.weight"], inside, inside) == {"layers.3.wide.weight"}
    assert not list_named_alike(["layers.3.alpha"], inside, inside)


class Guided(nn.Module):
    """Every other layer is given what a layer of another stream says by a linear layer of its own (WanVACE)."""

    def __init__(self):
        super().__init__()
        self.begin, self.control = nn.Linear(5, 12), nn.Linear(3, 12)
        self.layers = nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(6))
        self.guides = nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(3))
        self.hints, self.out = nn.ModuleList(nn.Linear(12, 12) for _ in range(3)), nn.Linear(12, 5)

    def forward(self, x, control):
        x, hints = self.begin(x), []
        y = self.control(control) + x
        for layer, hint in zip(self.guides, self.hints, strict=True):
            y = layer(y)
            hints.append(hint(y))
        for number, layer in enumerate(self.layers):
            x = layer(x)
            x = x if number % 2 else x + hints[number // 2]
        return self.out(x)


def test_what_makes_added_rows_of_which_no_box_tells_is_named_but_for_that_of_the_exit():
    columns = read_columns(xray.trace(Guided(), torch.rand(2, 9, 5), torch.rand(2, 9, 3)))

    assert [one.path for one in list_unboxed(columns)] == ["hints.0", "hints.1"]


class Sending(nn.Module):
    """Experts that have names and not numbers, of which each row goes through one, and through no `shut` one."""

    def __init__(self, shut):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)
        nn.init.constant_(self.router.bias[shut : shut + 1], -99)
        self.experts = nn.ModuleDict({f"expert_{number}": self.make() for number in range(3)})

    def make(self):
        return nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH))

    def forward(self, x):
        rows = self.norm(x).flatten(0, 1)
        weights, numbers = self.router(rows).softmax(-1).topk(1)
        found = torch.zeros_like(rows)
        for number, one in enumerate(self.experts.values()):
            places, order = torch.where(numbers == number)
            if len(places):
                found.index_add_(0, places, one(rows[places]) * weights[places, order, None])
        return x + found.reshape(x.shape)


@pytest.mark.parametrize("last", [0, 1])
def test_experts_that_no_row_of_the_drawn_layer_chose_stand_in_its_box(last):
    torch.manual_seed(0)
    parts = (part for shut in (2, 2, last) for part in (AttentionPart(), Sending(shut)))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *parts).eval(), torch.rand(BATCH, 40, 7) * 9)
    ran = {step.path for one in trace.passes for step in one.steps}

    assert "2.experts.expert_2" not in ran
    assert "6.experts.expert_2" in ran
    assert list_unboxed(read_columns(trace)) == ()
