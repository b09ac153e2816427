"""Finer maps that meet what an encoder gives, in its block behind its layers, before a decoder begins with both."""

from itertools import pairwise

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Link
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

EYE, WIDTH, LATER = 24, 15, 12


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="after") for _ in range(count))


class Block(nn.Module):
    """Two convolutions over neighbouring places, added to the map."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(EYE, EYE, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return x + self.second(self.first(x).relu())


class Encoder(nn.Module):
    """Layers over a small map, and what they give, as large as a finer one, beside that, where it is to do that."""

    def __init__(self, is_whole):
        super().__init__()
        self.layers = make_layers(WIDTH, 2)
        self.merge = nn.Conv2d(2 * WIDTH, WIDTH, 1) if is_whole else None

    def forward(self, x, finer):
        height, width = x.shape[2:]
        rows = x.flatten(2).mT
        for layer in self.layers:
            rows = layer(rows)
        x = nn.functional.interpolate(rows.mT.reshape(-1, WIDTH, height, width), scale_factor=2.0)
        return x if self.merge is None else self.merge(torch.cat([x, finer], 1)).relu()


class Finder(nn.Module):
    """An eye, an encoder of its last map, and a decoder that begins with rows of both, put together somewhere."""

    def __init__(self, is_whole):
        super().__init__()
        self.is_whole = is_whole
        self.patches = nn.Conv2d(3, EYE, 4, stride=4)
        self.eye, self.layers = nn.ModuleList(Block() for _ in range(4)), make_layers(LATER, 3)
        self.coarse: nn.Module = nn.Conv2d(EYE, WIDTH, 2, stride=2)
        self.finer: nn.Module = nn.Conv2d(EYE, WIDTH, 1)
        self.encoder = Encoder(is_whole)
        self.merge = nn.Conv2d(WIDTH if is_whole else 2 * WIDTH, LATER, 1)
        self.score = nn.Linear(LATER, 1)

    def forward(self, image):
        maps = [self.patches(image)]
        for block in self.eye:
            maps.append(block(maps[-1]))
        finer = self.finer(maps[2])
        memory = self.encoder(self.coarse(maps[-1]), finer)
        memory = self.merge(memory if self.is_whole else torch.cat([memory, finer], 1)).flatten(2).mT
        best = self.score(memory).squeeze(-1).topk(3).indices
        x = memory.gather(1, best[..., None].expand(-1, -1, LATER))
        for layer in self.layers:
            x = layer(x, memory)
        return x


def paths_of(chart):
    return [step.path for node in chart.nodes for step in node.steps]


@pytest.fixture(scope="module", params=[True, False], ids=["in the encoder", "behind it"])
def found(request):
    torch.manual_seed(0)
    model = Finder(request.param).eval()
    return request.param, model, xray.trace(model, torch.rand(2, 3, 16, 32))


def test_maps_that_meet_an_encoders_rows_in_its_block_are_joined_into_no_other_stream(found):
    is_met, _, trace = found
    first, second, third = (tower.name for tower in xray.anatomy(trace).towers)

    links = {one for one in xray.anatomy(trace).links if one.source == first and one.kind != "memory" and one.behind}
    assert links == {Link("met", first, second, (1,)) if is_met else Link("joined", first, third, (1,))}


def test_where_they_meet_stands_behind_the_encoders_layers(found):
    is_met, _, trace = found
    _, encoder, decoder = read_columns(trace)

    leaves, enters = [] if encoder.exit is None else paths_of(encoder.exit), paths_of(decoder.entrance)
    assert [one for one in ("finer", "encoder.merge") if one in leaves] == (
        ["finer", "encoder.merge"] if is_met else []
    )
    assert [one for one in ("finer", "merge") if one in enters] == (["merge"] if is_met else ["finer", "merge"])


def test_a_ribbon_leads_them_there_from_the_layer_that_gave_them(found):
    layout = compose_poster(found[-1], text_width)

    boxes = {step: box for box in layout.boxes for step in box.steps}
    box = boxes["forward/finer#0"]
    ends = [curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"]
    assert any(box.left <= x + 1 and x - 1 <= box.right and box.bottom <= y + 1 and y - 1 <= box.top for x, y in ends)


def test_their_weights_are_counted_on_the_way_to_the_encoder(found):
    is_met, model, trace = found
    lines = lines_of(compose_poster(trace, text_width))
    first, second, third = (tower.name for tower in xray.anatomy(trace).towers)

    def count(*parts):
        return f"{sum(one.numel() for part in parts for one in part.parameters()):,}"

    told = dict(pairwise(lines))
    assert told[f"{first} to {second}"] == count(model.coarse, *[model.finer] * is_met)
    assert (f"{first} to {third}" in told) is (not is_met)


class Eye(nn.Module):
    """Convolutions added to the map, and a stage without a sum behind them, where that is in its block."""

    def __init__(self, stage):
        super().__init__()
        self.patches, self.blocks, self.stage = nn.Conv2d(3, EYE, 4, stride=4), nn.ModuleList(), stage
        self.blocks.extend(Block() for _ in range(4))

    def forward(self, image):
        maps = [self.patches(image)]
        for block in self.blocks:
            maps.append(block(maps[-1]))
        return maps[2], maps[-1] if self.stage is None else self.stage(maps[-1])


class Staged(Finder):
    """The same with an eye of which the last stage has no sum (D-FINE's), in its block or behind it."""

    def __init__(self, is_inside, *, is_read=True, is_long=False):
        super().__init__(is_whole=True)
        first = [nn.Conv2d(EYE, EYE, 3, padding=1), nn.ReLU()]
        last = [nn.Conv2d(EYE, WIDTH, 2, stride=2)]
        stage = nn.Sequential(*first if is_read or is_long else (), *last if not is_read else ())
        if not is_read:
            self.coarse = nn.Sequential()  # what it is given
        self.see, self.behind = Eye(stage if is_inside else None), None if is_inside else stage

    def forward(self, image):
        finer, last = self.see(image)
        last = last if self.behind is None else self.behind(last)
        memory = self.merge(self.encoder(self.coarse(last), self.finer(finer))).flatten(2).mT
        best = self.score(memory).squeeze(-1).topk(3).indices
        x = memory.gather(1, best[..., None].expand(-1, -1, LATER))
        for layer in self.layers:
            x = layer(x, memory)
        return x


class Bringing(Encoder):
    """An encoder that convolves the finer map itself, before its layers (RT-DETR of Kornia)."""

    def __init__(self):
        super().__init__(is_whole=True)
        self.bring = nn.Conv2d(EYE, WIDTH, 1)

    def forward(self, x, finer):
        return super().forward(x, self.bring(finer))


def test_a_map_that_the_encoder_itself_brings_to_its_width_comes_from_the_eye_too():
    torch.manual_seed(0)
    model = Finder(is_whole=True)
    model.finer, model.encoder = nn.Identity(), Bringing()
    trace = xray.trace(model.eval(), torch.rand(2, 3, 16, 32))
    _, encoder, _ = read_columns(trace)
    boxes = {node.key: [step.path for step in node.steps] for node in encoder.exit.nodes}

    assert [boxes[key] for key in encoder.exit.memory] == [["encoder.bring"]]
    assert all("encoder.bring" not in boxes[key] for key in encoder.exit.feet)


@pytest.mark.parametrize("is_inside", [True, False], ids=["in its block", "behind it"])
def test_the_last_stage_of_an_eye_stands_behind_its_layers_where_it_is_in_its_block(is_inside):
    torch.manual_seed(0)
    trace = xray.trace(Staged(is_inside).eval(), torch.rand(2, 3, 16, 32))
    eye, encoder, _ = read_columns(trace)

    leaves, enters = [] if eye.exit is None else paths_of(eye.exit), paths_of(encoder.entrance)
    assert [one for one in leaves if "stage" in one or "behind" in one] == ["see.stage.0", "see.stage.1"] * is_inside
    assert [one for one in enters if "stage" in one or "behind" in one] == ["behind.0", "behind.1"] * (not is_inside)
    assert "coarse" in enters


def test_a_ribbon_leads_from_that_stage_to_the_foot_of_the_next_tower():
    torch.manual_seed(0)
    layout = compose_poster(xray.trace(Staged(True).eval(), torch.rand(2, 3, 16, 32)), text_width)

    boxes = {step: box for box in layout.boxes for step in box.steps}
    ends = [(curve.points[0], curve.points[-1]) for curve in layout.curves if curve.role == curve.kind == "ribbon"]

    def is_at(box, point):
        return box.left <= point[0] + 1 and point[0] - 1 <= box.right and abs(point[1] - box.y) <= box.height / 2 + 1

    given, taken = boxes["forward/see.stage.1#0"], boxes["forward/coarse#0"]
    assert any(is_at(given, first) and is_at(taken, last) for first, last in ends)


def test_a_stage_that_alone_leads_to_the_next_tower_stands_at_its_foot():
    torch.manual_seed(0)
    trace = xray.trace(Staged(True, is_read=False).eval(), torch.rand(2, 3, 16, 32))
    eye, encoder, _ = read_columns(trace)

    assert eye.exit is None or "see.stage.0" not in paths_of(eye.exit)
    assert "see.stage.0" in paths_of(encoder.entrance)


def test_of_a_longer_stage_the_last_convolution_alone_stands_there():
    torch.manual_seed(0)
    trace = xray.trace(Staged(True, is_read=False, is_long=True).eval(), torch.rand(2, 3, 16, 32))
    eye, encoder, _ = read_columns(trace)

    assert "see.stage.0" in paths_of(eye.exit)
    assert [path for path in paths_of(encoder.entrance) if path.startswith("see.stage")] == ["see.stage.2"]


class Side(nn.Module):
    """One half of a codec: a convolution, layers over places, and another convolution."""

    def __init__(self, first, width, last):
        super().__init__()
        self.first, self.last = (nn.Conv1d(one, two, 3, padding=1) for one, two in ((first, width), (width, last)))
        self.layers = make_layers(width, 2)

    def forward(self, x):
        rows = self.first(x).mT
        for layer in self.layers:
            rows = layer(rows)
        return self.last(rows.mT)


class Codec(nn.Module):
    """A sound becomes a few numbers for each place, with noise added, and a sound again (VibeVoice)."""

    def __init__(self, *, is_handed):
        super().__init__()
        self.encoder, self.decoder, self.is_handed = Side(1, WIDTH, 5), Side(5, LATER, 1), is_handed

    def forward(self, sound):
        latents = self.encoder(sound)
        latents = latents + torch.randn_like(latents)
        made = self.decoder(latents)
        return (made, latents) if self.is_handed else made


@pytest.mark.parametrize("is_handed", [True, False])
def test_the_convolution_that_ends_an_encoder_stands_behind_its_layers_where_the_model_hands_that_out(is_handed):
    torch.manual_seed(0)
    trace = xray.trace(Codec(is_handed=is_handed).eval(), torch.rand(2, 1, 16))
    encoder, decoder = read_columns(trace)

    leaves = [] if encoder.exit is None else paths_of(encoder.exit)
    assert (leaves, "encoder.last" in paths_of(decoder.entrance)) == (["encoder.last"] * is_handed, not is_handed)
    assert [node.label for node in decoder.entrance.nodes][-2:] == ["+ NOISE", "CONVOLUTION 3"]


def test_what_a_tower_that_reads_nothing_else_begins_with_is_told_so():
    trace = xray.trace(Codec(is_handed=True).eval(), torch.rand(2, 1, 16))

    assert "The stack tower's stream begins with what the audio tower gives." in list_sentences(xray.anatomy(trace))


class Bins(nn.Module):
    """An eye, a map made of what it gives, and layers over pieces of it, whose rows meet that map again (AdaBins)."""

    def __init__(self):
        super().__init__()
        self.patches, self.eye = nn.Conv2d(3, EYE, 2, stride=2), nn.ModuleList(Block() for _ in range(4))
        self.grow, self.again = nn.Conv2d(EYE, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.pieces, self.layers, self.out = nn.Conv2d(WIDTH, WIDTH, 2, 2), make_layers(WIDTH, 2), nn.Conv2d(7, 5, 1)
        self.wide = nn.Linear(WIDTH, 5)

    def forward(self, image):
        x = self.patches(image)
        for block in self.eye:
            x = block(x)
        grown = self.grow(x).relu()
        rows = self.pieces(grown).flatten(2).mT
        for layer in self.layers:
            rows = layer(rows)
        met = self.again(grown).flatten(2).mT @ rows[:, 1:8].mT
        return self.wide(rows[:, 0]).relu(), self.out(met.mT.unflatten(2, grown.shape[2:]))


def test_a_map_that_layers_began_with_is_no_other_towers_where_their_rows_meet_it():
    torch.manual_seed(0)
    trace = xray.trace(Bins().eval(), torch.rand(2, 3, 12, 16))

    labels = {line for line in lines_of(compose_poster(trace, text_width)) if line.startswith(("COMPARED", "PRODUCT"))}
    assert labels == {"PRODUCT"}
