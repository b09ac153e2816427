"""What leads to a comparison of two towers, and what behind it reads of it."""

from dataclasses import replace

import pytest
import torch
from handwritten import Attention, Layer
from story.compared import SHARED, WIDTH, Compares, ComparesTwice, divided, text_of, times_one_by_root
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.charts.chart import Chart, Edge, Node, chart_alone
from xray.story.exits.meeting_chart import add_comparisons, list_leading
from xray.story.poster import compose_poster
from xray.story.regions.ribbons.links import leads_to
from xray.story.sheet.columns import read_columns

HEADS = ("heads.0", "heads.1", "heads.2")


class ScoresBeside(Compares):
    """The words are compared with all places of the image, and a head beside that tells how sure they are (SAM)."""

    def __init__(self):
        super().__init__(nn.Identity())
        self.sure = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return read[:, 1:] @ seen.mT, self.sure(read[:, 0])


def test_a_head_beside_a_comparison_does_not_lead_to_it():
    torch.manual_seed(0)
    trace = xray.trace(ScoresBeside(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    exit = next(one.exit for one in read_columns(trace) if one.towering.tower.name == "tokens")
    (meeting,) = [node.key for node in exit.nodes if node.label.startswith("COMPARED")]

    assert {node.label.split(" OF ")[0] for node in exit.nodes} >= {"LINEAR", "ReLU"}
    assert meeting in exit.feet
    assert not [edge for edge in exit.edges if edge.target == meeting]


class TakesSome(ScoresBeside):
    """The same, of which the first word's are left out (SAM's masks)."""

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return (read @ seen.mT)[:, 1:], self.sure(read[:, 0])


def test_what_is_taken_of_a_comparison_has_a_box_of_its_own():
    torch.manual_seed(0)
    trace = xray.trace(TakesSome(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    exit = next(one.exit for one in read_columns(trace) if one.towering.tower.name == "tokens")

    *_, meeting, taken = exit.nodes
    assert [step.op for step in meeting.steps] == ["matmul", "transpose"]
    assert (taken.label, taken.record.shape) == ("6 OF 7 TAKEN", (2, 6, 4))
    assert [edge.source for edge in exit.edges if edge.target == taken.key] == [meeting.key]


class ComparesRows(Compares):
    """The same, with the last row of what a norm gives (VideoPrism)."""

    def __init__(self, shorten):
        super().__init__(shorten)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.shorten(self.norm(read)[:, -1]) @ self.shorten(self.seen(seen[:, 0])[:, :WIDTH] @ self.back).t()

    @property
    def back(self):
        return self.seen.weight


def test_a_row_that_is_picked_behind_the_last_norm_and_made_one_long_is_told():
    torch.manual_seed(0)
    trace = xray.trace(ComparesRows(times_one_by_root), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    words = [text_of(box) for box in compose_poster(trace, text_width).boxes]

    assert [one for one in words if one.startswith("THE LAST ROW ÷ ITS LENGTH")]


class ComparesThrough(ComparesTwice):
    """Words compared with what a second tower made of an image and the image's own rows, added up (Mask2Former)."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.ModuleList(Layer(SHARED, Attention(SHARED, 2), norm="before") for _ in range(2))

    def forward(self, ids, image, sound=None):
        seen, read = self.patches(image).flatten(2).mT, self.words(ids)
        seen = self.layers[0](seen)
        found = self.ends[2](seen)
        for layer in self.narrow:
            found = layer(found)
        read = self.layers[2](read)
        return self.ends[1](read[:, 0]) @ (found[:, 0] + self.ends[0](seen[:, 0])).t()


def test_one_product_with_what_two_towers_made_together_is_one_box():
    trace = xray.trace(ComparesThrough(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    first, second, _ = (tower.name for tower in xray.anatomy(trace).towers)

    told = [text_of(box) for box in compose_poster(trace, text_width).boxes]

    assert [one for one in told if one.startswith(f"COMPARED WITH {first} AND {second}".upper())]
    assert not [one for one in told if one.startswith("WITH ")]


class ComparesWithMemory(ComparesThrough):
    """The same, where the words also look at what the second tower made (OneFormer)."""

    def __init__(self):
        super().__init__()
        self.asking = nn.ModuleList(Layer(SHARED, Attention(SHARED, 2), norm="before") for _ in range(2))

    def forward(self, ids, image, sound=None):
        seen = self.layers[0](self.patches(image).flatten(2).mT)
        found, read = self.ends[2](seen), self.ends[1](self.words(ids))
        for layer in self.narrow:
            found = layer(found)
        for layer in self.asking:
            read = layer(read, found)
        return read[:, 0] @ (found[:, 0] + self.ends[0](seen[:, 0])).t()


def test_all_that_meet_in_one_product_are_compared_be_one_a_memory_too():
    trace = xray.trace(ComparesWithMemory(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    first, second, third = (tower.name for tower in xray.anatomy(trace).towers)

    links = {(link.kind, link.source, link.target) for link in xray.anatomy(trace).links}

    assert {("memory", second, third), ("compared", first, third), ("compared", second, third)} <= links


class ComparesLater(ComparesThrough):
    """The same, where the second tower runs behind that of the words (SAM 2)."""

    def forward(self, ids, image, sound=None):
        seen = self.layers[0](self.patches(image).flatten(2).mT)
        read = self.layers[2](self.words(ids))
        found = self.ends[2](seen)
        for layer in self.narrow:
            found = layer(found)
        return self.ends[1](read[:, 0]) @ (found[:, 0] + self.ends[0](seen[:, 0])).t()


def test_a_comparison_names_what_a_later_tower_made_together_with_an_earlier_one():
    trace = xray.trace(ComparesLater(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    first, _, last = (tower.name for tower in xray.anatomy(trace).towers)

    told = [text_of(box) for box in compose_poster(trace, text_width).boxes]

    assert [one for one in told if one.startswith(f"COMPARED WITH {first} AND {last}".upper())]
    assert not [one for one in told if one.startswith(f"COMPARED WITH THE {first} TOWER".upper())]


def test_a_way_leads_to_a_comparison_only_from_what_is_compared_itself():
    torch.manual_seed(0)
    trace = xray.trace(Compares(divided), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    columns = read_columns(trace)
    seen, read = (next(one for one in columns if one.name == name and one.exit) for name in ("vision", "tokens"))
    key = next(node.key for node in read.exit.nodes if node.key.startswith("meeting"))
    before = seen.reading.flow.steps[min(seen.towering.sums)]

    assert leads_to(seen, read, key, columns)
    assert not leads_to(replace(seen, exit=chart_alone(Node("early", "", 0, (0.5, 1), (before,)))), read, key, columns)


class ComparesSome(Compares):
    """The same with three rows of words, of which two are compared; the third one is given back (SAM-HQ's own mask)."""

    def __init__(self):
        super().__init__(nn.functional.normalize)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, SHARED) for _ in HEADS)

    def forward(self, ids, image):
        seen, read = self.patches(image).flatten(2).mT, self.words(ids)
        for eye, text in zip(self.eye, self.text, strict=True):
            seen, read = eye(seen), text(read)
        rows = torch.stack([head(read[:, place]) for place, head in enumerate(self.heads)], dim=1)
        return rows[:, :2] @ self.seen(seen).mT, rows[:, 2:]


@pytest.mark.parametrize(("drawn", "led"), [([], ["heads.0", "heads.1"]), (["stack"], ["stack"])])
def test_a_row_that_is_cut_off_before_a_comparison_does_not_lead_to_it(drawn, led):
    flow = read_flow(xray.trace(ComparesSome(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8)).passes[0])
    boxes = {
        one.path if one.path in HEADS else one.op: one for one in flow.steps if one.path in HEADS or one.op in drawn
    }
    meeting = max(place for place, step in enumerate(flow.steps) if step.op == "matmul")
    chart = Chart(tuple(Node(key, "", 0, (0.5, 1), (step,)) for key, step in boxes.items()), (), (), "")

    assert list_leading(flow, chart, meeting) == led


class ComparesProducts(nn.Module):
    """Rows are compared with others, and what comes of that with a third kind (BasisFormer's scores of two turns)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(5, 5)

    def forward(self, own, seen, third):
        return self.lead(own) @ seen.mT @ third


def test_what_is_made_of_a_comparison_is_no_comparison_beside_it():
    flow = read_flow(xray.trace(ComparesProducts(), *(torch.rand(2, size, 5) for size in (3, 7, 7))).passes[0])
    first, second = (place for place, step in enumerate(flow.steps) if step.op == "matmul")
    lead = next(step for step in flow.steps if step.path == "lead")
    chart = Chart((Node("lead", "", 0, (0.5, 1), (lead,), lead.outputs[0]),), (), (), "lead")
    led = add_comparisons(flow, chart, "own", {("seen", "own"): first, ("third", "own"): second})

    assert [node.label for node in led.nodes] == ["", "COMPARED WITH THE SEEN TOWER"]
    assert led.edges == (Edge("lead", "meeting_seen"),)


class LooksOnceMore(Compares):
    """Behind all layers the words look at the image in one more attention, and a layer ends it (SAM 3's masks)."""

    def __init__(self):
        super().__init__(nn.functional.normalize)
        self.look, self.end = Attention(WIDTH, 3), nn.Linear(WIDTH, SHARED)

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        return self.end(self.look(read, seen))


def test_rows_that_meet_in_an_attention_behind_all_layers_are_not_compared():
    trace = xray.trace(LooksOnceMore(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    assert not [box for box in compose_poster(trace, text_width).boxes if "COMPARED" in text_of(box)]


class Chooses(nn.Module):
    """Words, and rows of which those that meet a word best ask on (OmDet)."""

    def __init__(self):
        super().__init__()
        self.words, self.bring, self.out = nn.Embedding(31, WIDTH), nn.Linear(7, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.rows, self.text, self.looks, self.asks = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm=norm) for _ in range(3))
            for norm in ("before", "before", "after", "after")
        )
        self.first, self.second, self.head = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, ids, x):
        x, y = self.bring(x), self.words(ids)
        for layer in self.rows:
            x = layer(x)
        for layer in self.text:
            y = layer(y)
        y, z = self.first(y), self.second(self.out(x))
        best = torch.topk((z @ y.mT).max(-1)[0], 3, dim=1)[1]
        found = torch.gather(z, 1, best.unsqueeze(-1).repeat(1, 1, WIDTH))
        for look, ask in zip(self.looks, self.asks, strict=True):
            found = ask(look(found), x)
        return self.head(found)


def test_a_product_that_chooses_the_rows_of_a_tower_is_drawn_before_that_tower_alone():
    torch.manual_seed(0)
    columns = read_columns(xray.trace(Chooses().eval(), torch.arange(10).view(2, 5), torch.rand(2, 11, 7)))

    drawn = {one.name: [node.label for node in one.exit.nodes] for one in columns if one.exit is not None}
    assert drawn["tokens"] == ["LAST NORM"]
    assert "PRODUCT" in [node.label for node in columns[-1].entrance.nodes]
