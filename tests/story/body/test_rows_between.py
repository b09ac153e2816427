"""Rows of another tower that are added to a stream between its layers (Qwen3-VL's deepstack)."""

from dataclasses import replace

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from story.sentences.makers import FALSE, make_anatomy
from torch import nn
from unsaid import list_unsaid

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Group
from xray.story.body.ends import list_untold
from xray.story.cards.pattern import describe_rows_added
from xray.story.cards.undrawn import list_told, list_unboxed
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

DEPTH, SEEN = 4, 3


def make_layers():
    return nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(DEPTH))


class Deep(nn.Module):
    """Words of which the first few are an image: what its tower made on its way comes to them behind two layers."""

    def __init__(self, *, deep=True):
        super().__init__()
        self.project, self.see, self.end = nn.Linear(7, WIDTH), make_layers(), nn.LayerNorm(WIDTH)
        self.words, self.read, self.deep = nn.Embedding(11, WIDTH), make_layers(), deep
        self.adapt = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 11)

    def forward(self, pixel_values, ids):
        seen, kept = self.project(pixel_values), []
        for layer in self.see:
            seen = layer(seen)
            kept.append(seen)
        is_seen = torch.arange(ids.shape[1]) < SEEN
        x = self.words(ids).masked_scatter(is_seen[None, :, None], self.end(seen)[:, :SEEN])
        marks = is_seen.expand(ids.shape)
        for number, layer in enumerate(self.read):
            x = layer(x)
            if number < len(self.adapt):
                given = kept[number] if self.deep else torch.ones(kept[number].shape)
                x = x.clone()
                x[marks, :] = x[marks, :] + self.adapt[number](given)[:, :SEEN].flatten(0, 1)
        return self.head(x)


def list_added(**ways):
    with torch.no_grad():
        found = anatomy(xray.trace(Deep(**ways), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))
    return [(tower.reads, tower.rows_added) for tower in found.towers]


def test_layers_behind_which_rows_of_another_tower_are_added_are_told():
    assert list_added() == [("image", ()), ("ids", (0, 1))]


def test_the_layers_of_the_other_tower_behind_which_those_rows_are_taken_are_told():
    with torch.no_grad():
        found = anatomy(xray.trace(Deep(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))

    assert [(link.kind, link.behind) for link in found.links] == [("joined", (0, 1, DEPTH - 1))]


class Bridged(nn.Module):
    """Layers that end with a norm: what another tower made on its way comes to every row before each (BridgeTower)."""

    def __init__(self):
        super().__init__()
        self.project, self.words = nn.Linear(7, WIDTH), nn.Embedding(11, WIDTH)
        self.see, self.read = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(DEPTH)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH - 1))
        self.adapt = nn.Linear(WIDTH, WIDTH)

    def forward(self, pixel_values, ids):
        seen, x = self.project(pixel_values), self.words(ids)
        for number, (see, read) in enumerate(zip(self.see, self.read, strict=True)):
            seen = see(seen)
            x = read(self.norms[number - 1](x + self.adapt(seen)) if number else x)
        return x


def test_rows_that_are_added_behind_the_norm_of_a_layer_are_told():
    with torch.no_grad():
        found = anatomy(xray.trace(Bridged(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))

    assert sorted(tower.rows_added for tower in found.towers) == [(), (0, 1, 2)]
    assert [link.behind for link in found.links] == [(1, 2, 3)]


class BegunWith(Bridged):
    """The same, and what the first layer of the other tower gives comes to the rows before their first layer (TNT)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)

    def forward(self, pixel_values, ids):
        seen, x = self.project(pixel_values), self.words(ids)
        for number, (see, read) in enumerate(zip(self.see, self.read, strict=True)):
            seen = see(seen)
            x = read(self.norms[number - 1](x + self.adapt(seen)) if number else x + self.first(seen))
        return x


def test_what_leads_to_the_beginning_of_a_tower_is_named_by_the_layer_that_it_comes_from():
    trace = xray.trace(BegunWith().eval(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long))

    texts = [
        " ".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes
    ]
    assert [text for text in texts if text.startswith("BEHIND")] == ["BEHIND LAYER 1"]


class BridgedByKind(Bridged):
    """The same, whose last two layers have fewer heads: one row for all is added to those of the image."""

    def __init__(self):
        super().__init__()
        last = (Layer(WIDTH, Attention(WIDTH, 1), norm="after") for _ in range(2))
        self.read, self.kinds = nn.ModuleList([*self.read[:2], *last]), nn.Embedding(2, WIDTH)

    def forward(self, pixel_values, ids):
        seen, x = self.project(pixel_values), self.words(ids)
        kind = self.kinds(torch.zeros(1, dtype=torch.long))
        for number, (see, read) in enumerate(zip(self.see, self.read, strict=True)):
            seen = see(seen)
            x = read(self.norms[number - 1](x + (self.adapt(seen) + kind)) if number else x)
        return x


def test_rows_that_are_added_before_each_of_some_layers_are_drawn_before_the_first_of_these():
    with torch.no_grad():
        columns = read_columns(xray.trace(BridgedByKind(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))
    first, second = next(column for column in columns if len(column.frames) > 1).frames

    assert (first.group.layers, second.group.layers) == ((0, 1), (2, 3))
    assert first.bridge is None
    assert [(node.label, node.told) for node in second.bridge.nodes] == [
        ("ROWS OF THE VISION TOWER", ("behind its layer 3",)),
        ("LINEAR", ()),
        ("+ A ROW LOOKED UP BEFORE", ()),
        ("ADD + LAYER NORM", ("as behind layers 1, 3",)),
    ]
    assert [step.op for step in second.bridge.nodes[0].steps] == ["layer_norm"]  # which ends a layer of that tower
    assert list_untold(list_told(columns)) == ()


@pytest.mark.parametrize(
    ("added", "told"), [((0, 1), "; rows added behind 1–2"), ((0, 1, 2), "; rows added"), ((3,), "")]
)
def test_the_card_says_behind_which_layers_of_a_kind_rows_are_added(added, told):
    tower = make_anatomy(FALSE).towers[0]

    assert describe_rows_added(Group((0, 1, 2), ()), replace(tower, rows_added=added)) == told


def test_rows_that_no_tower_made_are_none_of_another_one():
    assert [added for _, added in list_added(deep=False)] == [(), ()]


def test_what_works_out_the_rows_that_are_added_is_counted_by_itself():
    with torch.no_grad():
        trace = xray.trace(Deep(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long))
    shares = list_shares(read_columns(trace), trace)

    assert [(name, count) for name, _, count in shares if "rows added" in name] == [
        ("tokens rows added × 2", 2 * (WIDTH + 1) * WIDTH)
    ]


def test_what_works_out_those_rows_is_drawn_once_behind_the_last_of_these_layers():
    with torch.no_grad():
        columns = read_columns(xray.trace(Deep(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))
    first, second = columns[-1].frames
    chart = second.bridge

    assert (first.group.layers, second.group.layers) == ((0, 1), (2, 3))
    assert first.bridge is None
    assert [(node.label, node.told) for node in chart.nodes] == [
        ("ROWS OF THE VISION TOWER", ("behind its layer 2",)),
        ("LINEAR", ()),
        ("ADDED TO SOME ROWS", ("as behind layer 1",)),
    ]
    assert chart.feet == (chart.head,) == (chart.nodes[-1].key,)
    assert list_unsaid(columns) == ()
    assert list_unboxed(columns) == ()


def test_sums_of_those_rows_are_told_where_the_frames_of_a_tower_stand_in_two_columns():
    with torch.no_grad():
        *before, text = read_columns(xray.trace(Deep(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))
    lower = replace(text, frames=text.frames[:1], exit=None, is_last=False)
    upper = replace(text, frames=text.frames[1:], entrance=None, is_first=False)

    assert list_unsaid([*before, lower, upper]) == ()


def test_rows_of_another_tower_have_its_colour_and_what_is_made_of_them_that_of_no_tower_before_they_are_added():
    with torch.no_grad():
        columns = read_columns(xray.trace(Deep(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))
    chart = columns[-1].frames[-1].bridge

    assert [node.surface for node in chart.nodes] == ["memory", "ghost", "own"]


def test_layers_behind_which_rows_are_added_all_along_stay_in_one_frame():
    with torch.no_grad():
        columns = read_columns(xray.trace(Bridged(), rows(), torch.ones(BATCH, PLACES, dtype=torch.long)))

    assert [len(column.frames) for column in columns] == [1, 1]


class Looks(nn.Module):
    """Layers that look at the rows of another stack, to which rows of an image were added before (BridgeTower)."""

    def __init__(self):
        super().__init__()
        self.project, self.words = nn.Linear(7, WIDTH), nn.Embedding(11, WIDTH)
        self.see, self.read = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, heads), norm="after") for heads in some)
            for some in ([3] * DEPTH, [3, *[1] * (DEPTH - 1)])
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH - 1))
        self.adapt, self.last = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Asking() for _ in range(2))

    def forward(self, pixel_values, ids, asked):
        seen, x, kept = self.project(pixel_values), self.words(ids), []
        for number, (see, read) in enumerate(zip(self.see, self.read, strict=True)):
            seen = see(seen)
            kept.append(self.norms[number - 1](x + self.adapt(seen)) if number else x)
            x = read(kept[-1])
        y = self.words(asked)
        for layer, memory in zip(self.last, kept[1:], strict=False):
            y = layer(y, memory)
        return y


class Asking(nn.Module):
    """Attention to itself, to a memory, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.own, self.other = Attention(WIDTH, 3), Attention(WIDTH, 3)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x, memory):
        x = self.norms[0](x + self.own(x, x))
        x = self.norms[1](x + self.other(x, memory))
        return self.norms[2](x + self.think(x))


def test_what_looks_at_rows_behind_others_that_were_added_is_led_from_the_tower_that_adds_them():
    ids = torch.ones(BATCH, PLACES, dtype=torch.long)
    with torch.no_grad():
        found = anatomy(xray.trace(Looks(), rows(), ids, torch.zeros(BATCH, 3, dtype=torch.long)))
    ways = {(one.source, one.behind) for one in found.links if one.kind == "memory"}

    assert ways == {("encoder 2", (0, 1))}


def test_what_looks_at_them_is_led_from_the_box_that_adds_them():
    ids = torch.ones(BATCH, PLACES, dtype=torch.long)
    with torch.no_grad():
        layout = compose_poster(xray.trace(Looks(), rows(), ids, torch.zeros(BATCH, 3, dtype=torch.long)), text_width)
    (box,) = (box for box in layout.boxes if "forward/norms.0#0" in box.steps)

    starts = {curve.points[0] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert starts == {(box.right, box.y)}


class InFront(nn.Module):
    """Every other row, bent, behind the first one as it was (CANINE)."""

    def __init__(self):
        super().__init__()
        self.fewer, self.norm = nn.Conv1d(WIDTH, WIDTH, 2, 2), nn.LayerNorm(WIDTH)

    def forward(self, x):
        made = nn.functional.gelu(self.fewer(x.transpose(1, 2)).transpose(1, 2))
        return self.norm(torch.cat([x[:, :1], made[:, :-1]], dim=1))


def test_a_box_between_layers_that_reads_the_stream_past_others_is_led_from_it():
    made = Reader(AttentionPart(), FeedForwardPart(), InFront(), AttentionPart(), FeedForwardPart())
    with torch.no_grad():
        *_, column = read_columns(xray.trace(made, torch.randn(BATCH, 2 * PLACES, 7)))
    (chart,) = (frame.bridge for frame in column.frames if frame.bridge is not None)

    labels = {node.key: node.label.partition(":")[0] for node in chart.nodes}
    assert [labels[key] for key in chart.feet] == ["CONVOLUTION 2, STEP 2", "THE STREAM'S FIRST ROW IN FRONT"]


class Pyramid(nn.Module):
    """Layers, and four rows laid into one behind the second, to which is added what layers beside gave (HiFormer)."""

    def __init__(self):
        super().__init__()
        self.project, self.see, self.lead = nn.Linear(7, WIDTH), make_layers(), nn.Linear(7, WIDTH)
        self.read, self.adapt, self.fewer = make_layers(), nn.Linear(WIDTH, WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows):
        seen, x = self.project(rows), self.lead(rows.flip(1))
        for number, (see, read) in enumerate(zip(self.see, self.read, strict=True)):
            if number == 2:
                x = self.fewer((x + self.adapt(seen)).reshape(BATCH, -1, 4 * WIDTH))
            x, seen = read(x), see(seen)
        return x


@pytest.fixture(scope="module")
def pyramid():
    with torch.no_grad():
        return xray.trace(Pyramid(), torch.randn(BATCH, 4 * PLACES, 7))


def test_layers_of_another_tower_do_not_stand_between_those_to_which_they_give_rows(pyramid):
    charts = [frame.bridge for column in read_columns(pyramid) for frame in column.frames if frame.bridge is not None]
    paths = [step.path for chart in charts for node in chart.nodes for step in node.steps]

    assert {"adapt", "fewer"} <= {*paths}
    assert not any(path.startswith("see.") for path in paths)


def test_a_box_between_layers_that_reads_another_tower_alone_is_led_to_from_it(pyramid):
    layout = compose_poster(pyramid, text_width)
    (box,) = (box for box in layout.boxes if "forward/adapt#0" in box.steps)

    ends = {curve.points[-1][1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert box.y in ends
