"""Small detectors whose layers correct boxes for the next, or do not."""

import torch
from handwritten import Attention
from story.body.test_sampled import SIDES, Sampling
from torch import nn

import xray
from xray import anatomy
from xray.story.sheet.columns import read_columns

BATCH, ROWS, WIDTH, HEADS, DEPTH = 2, 7, 15, 3, 4


class Head(nn.Module):
    """What a layer gives, as so many numbers for each row."""

    def __init__(self, sides):
        super().__init__()
        self.wide, self.back = nn.Linear(WIDTH, 11), nn.Linear(11, sides)

    def forward(self, x):
        return self.back(self.wide(x).relu())


class Looking(nn.Module):
    """A layer whose queries and keys are told the places of boxes."""

    def __init__(self):
        super().__init__()
        self.look, self.one, self.two = Attention(WIDTH, HEADS), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, places):
        asks = x + places
        x = self.one(x + self.look(asks, asks))
        return self.two(x + self.think(x))


class Detector(nn.Module):
    """Layers behind each of which boxes are corrected by what it gives; the next layer's places are made of them."""

    def __init__(self, *, shared=False, sides=4, depth=DEPTH):
        super().__init__()
        self.rows, self.layers = nn.Linear(5, WIDTH), nn.ModuleList(Looking() for _ in range(depth))
        self.first: nn.Module = nn.Linear(5, sides)
        self.places: nn.Module = nn.Linear(2 * sides, WIDTH)
        own, self.kinds = Head(sides), nn.Linear(WIDTH, 3)
        self.heads = nn.ModuleList(own if shared else Head(sides) for _ in range(depth))

    def forward(self, rows):
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes

    def place(self, boxes):
        return self.places((boxes[..., None] * torch.arange(1.0, 3.0)).sin().flatten(2))

    def correct(self, boxes, delta):
        return (delta + torch.logit(boxes, eps=1e-3)).sigmoid()


class Far(Detector):
    """Places are made of logarithms, with the sign of each number, or of what these are bent to; and a map is read."""

    def __init__(self, *, is_bent=False):
        super().__init__()
        self.is_bent = is_bent

    def place(self, boxes):
        apart = boxes[..., None] - torch.arange(1.0, 3.0)
        far = apart.sign() * (apart.abs() + 1).log2() / 3
        points = boxes[:, :, None, :2] * 2 - 1
        found = nn.functional.grid_sample(torch.ones(BATCH, WIDTH, 5, 3), points, align_corners=False)
        return self.places((far.tanh() if self.is_bent else far).flatten(2)) + found[..., 0].transpose(1, 2)


class Points(Looking):
    """A layer that samples a map at points about each row's box, too."""

    def __init__(self, *, is_whole):
        super().__init__()
        self.is_whole, self.sample = is_whole, Sampling(width=WIDTH)

    def forward(self, x, places, boxes, maps):  # type: ignore[override]
        asks = x + places
        x = self.one(x + self.look(asks, asks))
        x = self.sample(x, maps, places, boxes[..., :2] if self.is_whole else places[..., :2])
        return self.two(x + self.think(x))


class Sampled(Detector):
    """Layers sample a map at points that are measured from the boxes, or from their places."""

    def __init__(self, *, is_whole=True):
        super().__init__()
        self.layers, self.maps = nn.ModuleList(Points(is_whole=is_whole) for _ in range(DEPTH)), nn.Linear(5, WIDTH)

    def forward(self, rows):
        maps = self.maps(torch.ones(BATCH, sum(side * side for side in SIDES), 5) * rows[:, :1])
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes), boxes, maps)
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Begun(Detector):
    """The first boxes are learned, one for each row."""

    def __init__(self):
        super().__init__(shared=True)
        self.first, self.begin = nn.Identity(), nn.Parameter(torch.rand(ROWS, 4))

    def forward(self, rows):
        x, boxes = self.rows(rows), self.begin.sigmoid().expand(BATCH, -1, -1)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Early(Detector):
    """Boxes of what comes in are handed out too, by the weights that correct boxes behind each layer."""

    def __init__(self):
        super().__init__(shared=True)

    def forward(self, rows):
        early = self.heads[0](self.rows(rows))
        return *super().forward(rows), early


class Samples(Detector):
    """What the next layer is told is what a map has at the middle of each box."""

    def place(self, boxes):
        points = boxes[:, :, None, :2] * 2 - 1
        found = nn.functional.grid_sample(torch.ones(BATCH, WIDTH, 5, 3), points, align_corners=False)
        return found[..., 0].transpose(1, 2)


class NoPlaces(Detector):
    """Four numbers of each row are corrected, and nothing says that they are places in a picture."""

    def __init__(self):
        super().__init__()
        self.places = nn.Linear(4, WIDTH)

    def place(self, boxes):
        return self.places(boxes)


class Anew(Detector):
    """Boxes are made anew behind each layer: nothing is left of what they were."""

    def correct(self, boxes, delta):
        return delta.sigmoid()


class Kept(Detector):
    """All layers are told the places of the boxes that came first; each corrects others, which none reads."""

    def forward(self, rows):
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        places = self.place(boxes)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, places)
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Asking(Looking):
    """The places are added to what asks alone."""

    def forward(self, x, places):
        x = self.one(x + self.look(x + places, x))
        return self.two(x + self.think(x))


class Waves(Kept):
    """Two linear layers read sines and cosines of the boxes that came first, or these and the boxes (LW-DETR)."""

    def __init__(self, *, is_whole=True):
        super().__init__()
        self.is_whole, self.layers = is_whole, nn.ModuleList(Asking() for _ in range(DEPTH))
        wide = 2 * 4 if is_whole else 3 * 4
        self.places = nn.Sequential(nn.Linear(wide, 11), nn.ReLU(), nn.Linear(11, WIDTH))

    def place(self, boxes):
        waves = [boxes.sin(), boxes.cos()] if self.is_whole else [boxes.sin(), boxes.cos(), boxes.exp()]
        return self.places(torch.cat(waves, -1))


class Learned(Detector):
    """What boxes were goes through learned numbers before the correction is added: it is no correction of these."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def correct(self, boxes, delta):
        return (delta + self.mix(boxes)).sigmoid()


class Summed(Detector):
    """Numbers are added up from layer to layer, beginning behind the first; boxes are made of these (D-FINE)."""

    def __init__(self):
        super().__init__(sides=8)
        self.first, self.places = nn.Linear(5, 4), nn.Linear(8, WIDTH)

    def forward(self, rows):
        x, boxes, numbers = self.rows(rows), self.first(rows).sigmoid(), None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            numbers = head(x) if numbers is None else head(x) + numbers
            boxes = (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1)
        return self.kinds(x), boxes


class Twice(Summed):
    """Behind the first layer boxes are corrected by a head of their own, and later ones are worked out of these."""

    def __init__(self):
        super().__init__()
        self.own = Head(4)

    def forward(self, rows):
        x, boxes, before, numbers = self.rows(rows), self.first(rows).sigmoid(), None, None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            before = self.correct(boxes, self.own(x)) if before is None else before
            numbers = head(x) if numbers is None else head(x) + numbers
            boxes = before + (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1) / 5
        return self.kinds(x), boxes


class Scored(Twice):
    """Heads read what the layer before gave too, and what the last numbers are is added to the scores of kinds."""

    def __init__(self):
        super().__init__()
        self.trust, self.far = nn.Linear(8, 3), nn.Parameter(torch.ones(1))

    def forward(self, rows):
        x, boxes, before, last, numbers = self.rows(rows), self.first(rows).sigmoid(), None, None, None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            before = self.correct(boxes, self.own(x)) if before is None else before
            numbers = head(x) if numbers is None or last is None else head(x + last) + numbers
            boxes = before + (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1) / self.far
            last = x
        return self.kinds(x) + self.trust(numbers), boxes


class Beside(Summed):
    """Boxes are made of numbers that are added up, and the next layer reads these too: they are more than boxes."""

    def __init__(self):
        super().__init__()
        self.places = nn.Linear(8, WIDTH)
        self.size = nn.Linear(4, WIDTH)

    def forward(self, rows):
        x, numbers = self.rows(rows), torch.zeros(BATCH, ROWS, 8)
        for layer, head in zip(self.layers, self.heads, strict=True):
            boxes = (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1)
            x = layer(x, self.places(numbers) + self.size(boxes))
            numbers = head(x) + numbers
        return self.kinds(x), numbers


def record(model):
    with torch.no_grad():
        return xray.trace(model, torch.zeros(BATCH, ROWS, 5))


def read(model):
    (tower,) = anatomy(record(model)).towers
    return tower.boxes


def draw(model):
    (column,) = read_columns(record(model))
    (frame,) = column.frames
    return column, frame
