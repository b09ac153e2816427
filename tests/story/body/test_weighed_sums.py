"""Sums that weigh a stream against a branch by gates, and layers whose places are predicted anew (D-FINE, RT-DETR)."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from story.body.test_stacks import PlacedAttention
from torch import nn
from torch.nn import functional

from xray.story.anatomy.tree import FeedForward

LAYERS = 3


class Weighed(nn.Module):
    """A feed-forward that is weighed against the stream by gates that both work out (D-FINE)."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.gate = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        made = self.back(functional.gelu(self.wide(x)))
        one, other = torch.sigmoid(self.gate(torch.cat([x, made], dim=-1))).chunk(2, dim=-1)
        return self.norm(one * x + other * made)


class OneSided(Weighed):
    """The same with gates that the stream alone works out, as those of a recurrence."""

    def forward(self, x):
        made = self.back(functional.gelu(self.wide(x)))
        one, other = torch.sigmoid(self.gate(torch.cat([x, x], dim=-1))).chunk(2, dim=-1)
        return self.norm(one * x + other * made)


class Refining(nn.Module):
    """Layers whose queries are told their places by boxes that the layer before predicted."""

    def __init__(self):
        super().__init__()
        self.project, self.place, self.first = nn.Linear(7, WIDTH), nn.Linear(4, WIDTH), nn.Linear(7, 4)
        self.look = nn.ModuleList(PlacedAttention() for _ in range(LAYERS))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))
        self.box = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)) for _ in range(LAYERS))

    def forward(self, x):
        boxes, x = torch.sigmoid(self.first(x)), self.project(x)
        for look, think, box in zip(self.look, self.think, self.box, strict=True):
            x = think(look(x, self.place(boxes)))
            boxes = torch.sigmoid(box(x) + torch.logit(boxes)).detach()
        return x, boxes


def test_a_branch_that_is_weighed_against_the_stream_is_added_to_it():
    (tower,) = read(Reader(*(part for _ in range(2) for part in (AttentionPart(), Weighed()))), rows()).towers

    (group,) = tower.groups
    assert group.count == 2
    assert [stage.scale for stage in group.stages] == [None, "gates"]
    assert [one.d_ff for one in tower.branches if isinstance(one, FeedForward)] == [17]
    assert (group.stages[1].norm.place, group.stages[1].norm.on) == ("after", "stream")


def test_the_gates_of_a_weighed_sum_are_drawn_with_their_parameters():
    nodes = {node.label: node for node in draw(Reader(AttentionPart(), Weighed()), rows())}

    assert nodes["GATES OF BOTH"].extra == f"{(2 * WIDTH + 1) * 2 * WIDTH} parameters"
    assert not nodes["EACH × ITS GATE, ADD"].remark


def test_gates_that_the_branch_does_not_work_out_with_the_stream_weigh_nothing():
    (tower,) = read(Reader(AttentionPart(), OneSided(), AttentionPart(), OneSided()), rows()).towers

    assert {stage.scale for group in tower.groups for stage in group.stages} == {None}


def test_places_that_are_predicted_anew_are_no_part_of_a_layer():
    found = read(Refining(), rows())

    (tower,) = found.towers
    (group,) = tower.groups
    assert group.count == LAYERS
    assert (group.stages[0].norm.place, group.stages[0].branches[0].positions) == ("after", "none")
    assert {"box.0.1", "box.1.1"} <= {one.path for one in found.untold}
