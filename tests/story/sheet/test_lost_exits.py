"""What is worked out behind the layers and read by nothing is said to be that."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH
from story.sheet.test_unsaid import Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


def list_exit(is_handed):
    """The texts of a tower with a pooler whose row the model hands out, or drops."""

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Layer(nn.Identity()) for _ in range(2)))
            self.norm, self.pool = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            x = self.norm(self.layers(x))
            row = torch.tanh(self.pool(x[:, 0]))
            return (x, row) if is_handed else x

    layout = compose_poster(xray.trace(Pooled().eval(), torch.rand(2, 5, WIDTH)), text_width)
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


@pytest.mark.parametrize("is_handed", [True, False])
def test_an_exit_that_nothing_reads_is_not_said_to_leave_the_tower(is_handed):
    texts = list_exit(is_handed)

    assert ("What leaves the tower." in texts) == is_handed
    assert ("Made of what the tower gives, and read by nothing." in texts) == (not is_handed)


class Pools(nn.Module):
    """A pooler of the first row that is worked out beside the scores, and handed out or not."""

    def __init__(self, *, hands, halts=False):
        super().__init__()
        self.hands, self.halts = hands, halts
        self.words, self.layers, self.head = nn.Embedding(12, WIDTH), nn.ModuleList(), nn.Linear(WIDTH, 12)
        self.layers.extend(Layer(lambda x: x) for _ in range(2))
        self.pool = nn.Sequential(nn.Linear(WIDTH, 31), nn.Tanh())

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        pooled = self.pool(x[:, 0])
        scores = self.head(x)
        if self.halts and pooled.mean() > 5:
            return scores
        return (scores, pooled) if self.hands else scores


@pytest.mark.parametrize(
    ("how", "is_lost"), [({"hands": False}, True), ({"hands": True}, False), ({"hands": False, "halts": True}, False)]
)
def test_of_a_part_whose_numbers_go_nowhere_that_is_said_and_not_what_it_works_out(how, is_lost):
    model = Pools(**how).eval()
    trace = xray.trace(model, torch.tensor([[1, 2, 3], [4, 5, 6]]))
    boxes = compose_poster(trace, text_width).boxes
    text = " ".join("".join(run.text for run in line) for box in boxes for line in box.lines)

    assert ("nothing reads what it gives" in text) == is_lost
    assert ("tanh" in text) <= (not is_lost)


class PoolsOn(Pools):
    """The same, and what is pooled is read by another part, whose numbers go nowhere (LoFTR's finer maps)."""

    def __init__(self):
        super().__init__(hands=False)
        self.narrow = nn.Linear(31, 5)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        self.narrow(self.pool(x[:, 0]).exp())
        return self.head(x)


def test_what_another_part_reads_is_not_read_by_nothing_be_that_one_itself():
    boxes = compose_poster(xray.trace(PoolsOn().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width).boxes
    text = " ".join("".join(run.text for run in line) for box in boxes for line in box.lines)

    assert "pool (682), narrow (160; nothing reads what it gives)" in text
