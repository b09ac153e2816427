"""Two towers that are compared: rows made one long, and the box in which those of one meet those of the other."""

import re
from dataclasses import replace

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.charts.chart import Chart, Node, chart_alone
from xray.story.exits.meeting_chart import list_leading
from xray.story.poster import compose_poster
from xray.story.regions.links import leads_to
from xray.story.regions.past_boxes import tell_past
from xray.story.sheet.columns import read_columns

WIDTH, SHARED = 15, 10
HEADS = ("heads.0", "heads.1", "heads.2")


def divided(rows):
    return rows / rows.pow(2).sum(-1, keepdim=True).sqrt()


def divided_by_norm(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


def divided_by_vector_norm(rows):
    return rows / torch.linalg.norm(rows, ord=2, dim=-1, keepdim=True)


def times_one_by_root(rows):
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1e-6)


def times_one_by_more(rows):
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1.0)


def divided_by_absolutes(rows):
    return rows / rows.norm(p=1, dim=-1, keepdim=True)


def divided_by_columns(rows):
    return rows / rows.pow(2).sum(0, keepdim=True).sqrt()


class Compares(nn.Module):
    """An image and words, the first row of each brought to one width and compared (CLIP)."""

    def __init__(self, shorten):
        super().__init__()
        self.shorten = shorten
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.eye, self.text = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.seen, self.read = nn.Linear(WIDTH, SHARED), nn.Linear(WIDTH, SHARED)
        self.scale = nn.Parameter(torch.zeros(()))

    def work(self, ids, image):
        """The rows of both, behind their layers."""
        seen, read = self.patches(image).flatten(2).mT, self.words(ids)
        for layer in self.eye:
            seen = layer(seen)
        for layer in self.text:
            read = layer(read)
        return seen, read

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        seen, read = self.shorten(self.seen(seen[:, 0])), self.shorten(self.read(read[:, 0]))
        return read @ seen.t() * self.scale.exp()


class ComparesTwice(nn.Module):
    """Sound, an image and words; the words are compared with both others."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(20, WIDTH, 3, stride=2, padding=1)
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))) for _ in range(3)
        )
        self.ends = nn.ModuleList(nn.Linear(WIDTH, SHARED) for _ in range(3))

    def forward(self, ids, image, sound):
        streams = [self.frames(sound).mT, self.patches(image).flatten(2).mT, self.words(ids)]
        ends = []
        for stream, layers, end in zip(streams, self.layers, self.ends, strict=True):
            stream = layers(stream)
            ends.append(nn.functional.normalize(end(stream[:, 0])))
        heard, seen, read = ends
        return read @ heard.t(), read @ seen.t()


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
    sentence = "What the audio and vision towers give is compared with what the text tower gives."
    assert any(sentence in text_of(box) for box in layout.boxes)
    roofs = {curve.points[1][1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert len(roofs) == 2
    ends = {curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert ends == {(box.x, box.top) for box in boxes}


def text_of(box):
    return " ".join("".join(run.text for run in line) for line in box.lines)


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
    exit = next(one.exit for one in read_columns(trace) if one.towering.tower.name == "text")
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
    exit = next(one.exit for one in read_columns(trace) if one.towering.tower.name == "text")

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
    seen, read = (next(one for one in columns if one.name == name and one.exit) for name in ("vision", "text"))
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
    assert drawn["text"] == ["LAST NORM"]
    assert "PRODUCT" in [node.label for node in columns[-1].entrance.nodes]


@pytest.mark.parametrize(("left_out", "told"), [({"seen"}, ("past 1 linear layer in no box",)), (set(), ())])
def test_a_comparison_tells_of_learned_layers_in_no_box_that_lead_to_it(left_out, told):
    trace = xray.trace(Compares(divided).eval(), torch.tensor([[4, 7, 2], [3, 9, 1]]), torch.rand(2, 3, 8, 12))
    column = read_columns(trace)[-1]
    flow = column.reading.flow
    boxed = {"eye", "text", "patches", "words", "seen", "read"} - left_out
    free = {place for place, step in enumerate(flow.steps) if step.path.split(".")[0] not in boxed}

    (met,) = [one for one in tell_past(flow, column.exit, free).nodes if one.label.startswith("COMPARED")]

    assert met.told == told
