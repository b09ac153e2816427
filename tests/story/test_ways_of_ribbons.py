"""How ribbons between towers are drawn: within the page, without small bends, in one piece."""

import pytest
import torch
from handwritten import Attention
from story.test_ribbons import WIDTH, Beginning, Taking, draw_model, list_ribbons
from torch import nn

from xray.story.regions.ribbons.links import LITTLE, ROUND, go_straight
from xray.story.type_sizes import MARGIN


def test_a_page_keeps_its_margin_right_of_a_ribbon_beside_its_last_column():
    layout = draw_model(Beginning())[1]

    right = max(x for points in list_ribbons(layout) for x, _ in points)
    assert right > max(box.right for box in layout.boxes)
    assert right + MARGIN <= layout.width


@pytest.mark.parametrize(
    ("aside", "turned"),
    [(-LITTLE, -LITTLE), (ROUND, ROUND), (-ROUND, ROUND), (-3 * ROUND, 0.0), (3 * ROUND, 0.0)],
)
def test_a_ribbon_that_leaves_above_its_tower_goes_straight_on_or_bends_all_round(aside, turned):
    roof = 100.0

    assert go_straight(roof, [roof + aside, roof - 9 * ROUND]) == roof + turned
    assert go_straight(roof, []) == roof


def test_a_box_that_stands_for_a_sublayer_has_as_much_air_below_it_as_above():
    _, layout = draw_model(Taking((3, True), (5, True)))
    (closed,) = (box for box in layout.boxes if box.lines and box.lines[0][0].text == "CROSS-ATTENTION" and box.filled)

    around = [
        [y for x, y in panel.path] for panel in layout.panels if min(panel.path)[0] < closed.x < max(panel.path)[0]
    ]
    low, high = min(
        ((min(ys), max(ys)) for ys in around if min(ys) < closed.y < max(ys)), key=lambda one: one[1] - one[0]
    )
    assert closed.bottom - low == pytest.approx(high - closed.top)


def test_no_casing_cuts_a_ribbon_off_that_begins_at_the_same_box():
    curves = [curve for curve in draw_model(Taking((3, True), (5, True)))[1].curves if curve.kind == "ribbon"]
    last, first = {}, {}
    for place, curve in enumerate(curves):
        if curve.role == "casing":
            last[curve.points[0]] = place
        else:
            first.setdefault(curve.points[0], place)

    assert len(curves) > 2 * len(first)
    assert all(place < first[start] for start, place in last.items())


class OfNotes(Taking):
    """Words look at rows made of notes, of which what the eye gives chose how much of each (AutoBots' roads)."""

    def __init__(self, *, of_notes):
        super().__init__((3, True), (3, True))
        self.notes = nn.Parameter(torch.rand(1, 5, 7)) if of_notes else None
        self.lead, self.ask = nn.Linear(7, WIDTH), Attention(WIDTH, 3)

    def forward(self, ids, image):
        x, seen = self.words(ids), self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        if self.notes is not None:
            seen = self.ask(seen, self.lead(self.notes.expand(len(ids), -1, -1)))
        for layer in self.reader:
            x = layer(x, seen)
        return x


@pytest.mark.parametrize("of_notes", [False, True])
def test_no_ribbon_leads_to_keys_that_are_not_proven_to_be_what_a_tower_gives(of_notes):
    _, layout = draw_model(OfNotes(of_notes=of_notes))

    assert bool(list_ribbons(layout)) is not of_notes
