"""Rows of an eye's layers put beside what a tower behind it gives, in its block, before words look at both (Mllama)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Link
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

WIDTH, WORDS, PIECES, ROWS = 15, 12, 2, 7
BESIDE = "SIDE BY SIDE: 15 + 30 = 45"


class Eye(nn.Module):
    """Layers over rows, and others over what these give; pieces lose their last rows, and earlier rows lie beside."""

    def __init__(self, is_inside):
        super().__init__()
        self.near, self.far = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count)) for count in (3, 2)
        )
        self.norm, self.kinds, self.is_inside = nn.LayerNorm(WIDTH), nn.Embedding(9, WIDTH), is_inside

    def forward(self, x, kind):
        given = []
        for layer in self.near:
            x = layer(x)
            given.append(x)
        x = self.norm(x) + self.kinds(kind)
        for layer in self.far:
            x = layer(x)
        pieces = x.unflatten(1, (PIECES, ROWS))[:, :, :-2]
        earlier = torch.stack(given[:2], dim=-1).reshape(len(x), PIECES, ROWS, 2 * WIDTH)[:, :, :-2]
        return torch.cat([pieces, earlier], dim=-1) if self.is_inside else (pieces, earlier)


class Sees(nn.Module):
    """Words that look at what an eye gives; what its layers gave comes beside that in the eye, or behind it."""

    def __init__(self, is_inside):
        super().__init__()
        self.patches, self.eye = nn.Linear(5, WIDTH), Eye(is_inside)
        self.lead, self.words, self.is_inside = nn.Linear(3 * WIDTH, WORDS), nn.Embedding(11, WORDS), is_inside
        self.layers = nn.ModuleList(Layer(WORDS, Attention(WORDS, 3), norm="before") for _ in range(2))

    def forward(self, rows, kind, ids):
        given = self.eye(self.patches(rows).reshape(len(kind), PIECES * ROWS, WIDTH), kind)
        memory = self.lead(given if self.is_inside else torch.cat(given, dim=-1)).flatten(1, 2)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, memory)
        return x


def record(is_inside, *, apart=True):
    torch.manual_seed(0)
    rows = torch.rand(2 * PIECES, ROWS, 5) if apart else torch.rand(2, PIECES * ROWS, 5)
    kind, ids = torch.tensor([[4], [8]]), torch.randint(11, (2, 3))
    return xray.trace(Sees(is_inside).eval(), rows, kind, ids)


@pytest.mark.parametrize("is_inside", [True, False])
def test_what_lower_layers_gave_meets_what_the_next_tower_gives_in_its_block(is_inside):
    whole = xray.anatomy(record(is_inside))
    eye, other, words = (tower.name for tower in whole.towers)
    met, memory = Link("met", eye, other, (0, 1)), Link("memory", eye, words, (0, 1))

    assert ((met in whole.links), (memory in whole.links)) == (is_inside, not is_inside)
    told = f"What the {eye} tower gives behind layers 1, 2 of 3 is put together with what the {other} tower gives."
    assert (told in list_sentences(whole)) == is_inside


def test_a_ribbon_leads_to_the_box_that_puts_both_side_by_side():
    _, second, _ = read_columns(record(is_inside=True))
    layout = compose_poster(record(is_inside=True), text_width)
    boxes = {"".join(run.text for run in box.lines[0]): box for box in layout.boxes if box.lines}
    ends = [curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"]

    assert second.exit is not None
    assert [node.label for node in second.exit.nodes if node.key in second.exit.memory] == [
        "SIDE BY SIDE: 15 + 30 = 45"
    ]
    box = boxes["SIDE BY SIDE: 15 + 30 = 45"]
    assert (box.x, box.bottom) in ends


@pytest.mark.parametrize("apart", [True, False])
def test_rows_that_pieces_lose_at_their_end_have_a_box_where_they_were_read_apart(apart):
    _, second, _ = read_columns(record(is_inside=True, apart=apart))

    assert second.exit is not None
    assert ("ALL ROWS BUT THE LAST 2 OF EACH PIECE" in [node.label for node in second.exit.nodes]) == apart
