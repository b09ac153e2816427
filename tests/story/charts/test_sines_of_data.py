"""What is added to scores is of sines of places only where nothing but these is in it."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.charts.test_what_scores_meet import PLACES, Meeting
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class OfPoints(Meeting):
    """Scores get a linear layer's numbers of pairs of rows, to which sines of places were added (Genie)."""

    def __init__(self):
        super().__init__()
        self.one, self.far = nn.Linear(WIDTH // HEADS, 6), nn.Linear(6, 1)

    def meet(self, scores, query):
        places = torch.arange(PLACES)[:, None] * 0.1 ** torch.arange(3)
        rows = self.one(query) + torch.cat([places.sin(), places.cos()], -1)
        pairs = rows[:, :, :, None] - rows[:, :, None]
        return scores + self.far(pairs)[..., 0]


def test_a_bias_of_data_that_sines_were_added_to_is_not_of_sines():
    model = nn.Sequential(OfPoints(), FeedForwardPart(), OfPoints(), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    nodes = {node.label: node for node in column.frames[0].panels[0].chart.nodes}

    assert [node.told for label, node in nodes.items() if "BIAS" in label] == [()]
