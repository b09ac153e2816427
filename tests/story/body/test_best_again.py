"""A feed-forward on all rows, and another one on those alone that score best (CoLT5)."""

import torch
from story.body.test_mistaken import AttentionPart
from torch import nn

import xray
from xray.story.anatomy.branches import FeedForward
from xray.story.sentences.stations.of_stations import describe_station

BATCH, PLACES, WIDTH, BEST = 2, 5, 12, 3


class Twice(nn.Module):
    """A narrow feed-forward of each row, and a wide one of the best rows, or of all."""

    def __init__(self, *, chooses, experts=1):
        super().__init__()
        self.chooses, self.scores = chooses, nn.Linear(WIDTH, experts, bias=False)
        self.light = nn.Sequential(nn.Linear(WIDTH, 7), nn.GELU(), nn.Linear(7, WIDTH))
        self.heavy = nn.Sequential(nn.Linear(WIDTH, 37), nn.GELU(), nn.Linear(37, WIDTH))

    def forward(self, x):
        if not self.chooses:
            return x + self.heavy(x)
        best = self.scores(x).transpose(1, 2).squeeze(1).topk(BEST, dim=-1)
        rows = torch.arange(len(x)).view(-1, *(1,) * (best.indices.dim() - 1))
        again = self.heavy(x[rows, best.indices]) * best.values[..., None]
        return x + (self.light(x) + torch.zeros_like(x).index_put((rows, best.indices), again, accumulate=True))


def read_second(*, chooses, experts=1):
    torch.manual_seed(0)
    layers = [one for _ in range(2) for one in (AttentionPart(), Twice(chooses=chooses, experts=experts))]
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()
    tower = xray.anatomy(xray.trace(model, torch.rand(BATCH, PLACES, WIDTH))).towers[0]
    branch = tower.branches[1]
    return branch, describe_station(tower, branch)


def test_rows_that_score_best_go_through_another_feed_forward_too():
    branch, told = read_second(chooses=True)

    assert (branch.best_again, branch.d_ff) == (True, None)
    assert told == "Each place alone; those that score best once more."


def test_rows_that_each_of_several_chose_for_itself_are_not_those_that_score_best():
    branch, told = read_second(chooses=True, experts=2)

    assert not isinstance(branch, FeedForward) or branch.best_again is None
    assert "best" not in told


def test_one_feed_forward_of_all_rows_is_wider_and_back():
    branch, told = read_second(chooses=False)

    assert (branch.best_again, branch.d_ff) == (None, 37)
    assert told == "Each place alone, wider and back."
