"""What looks like experts and is none: chosen numbers and rows, one feed-forward for all, no sum at the end."""

import pytest
import torch
from story.body.test_mistaken import WIDTH
from torch import nn

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sheet.columns import read_columns

EXPERTS, CHOSEN, WIDE, PLACES = 4, 2, 24, 7


def make_each(wide=WIDE, bend=nn.GELU):
    return nn.Sequential(nn.Linear(WIDTH, wide), bend(), nn.Linear(wide, WIDTH))


class Part(nn.Module):
    """What stands in the place of a feed-forward; `each` are its experts, chosen by `gate` and added up by `work`."""

    def __init__(self, each=(), **layers):
        super().__init__()
        self.norm, self.each = nn.LayerNorm(WIDTH), nn.ModuleList(each)
        self.gate = nn.Linear(WIDTH, EXPERTS)
        for name, layer in layers.items():
            setattr(self, name, layer)

    def work(self, rows):
        scores, names = self.gate(rows).topk(CHOSEN, -1)
        weights, found = scores.softmax(-1), torch.zeros_like(rows)
        for number, one in enumerate(self.each):
            row, nth = torch.where(names == number)
            found.index_add_(0, row, one(rows[row]) * weights[row, nth, None])
        return found

    def forward(self, x):
        return x + self.work(self.norm(x).view(-1, WIDTH)).view(x.shape)


class HighestKept(Part):
    """Of the wide rows the highest numbers alone go on."""

    def work(self, rows):
        wide = self.up(rows).relu()
        kept, names = wide.topk(CHOSEN, -1)
        return self.down(torch.zeros_like(wide).scatter(-1, names, kept))


class RowsOfTable(Part):
    """Rows of a table are picked by scores, and weighed by these."""

    def work(self, rows):
        scores, names = self.up(rows).topk(CHOSEN, -1)
        return (scores.softmax(-1)[..., None] * self.table(names)).sum(-2)


class WorkedOrNot(Part):
    """All rows go through one feed-forward, and what it gives is dropped where the first score is higher."""

    def work(self, rows):
        best, which = self.gate(rows).softmax(-1).max(-1)
        return torch.where((which == 1)[:, None], self.once(rows) * best[:, None], torch.zeros_like(rows))


class Beside(Part):
    """Experts without a bend beside a feed-forward."""

    def work(self, rows):
        return super().work(rows) + self.once(rows)


class LedOn(Part):
    """What experts give goes through one more layer."""

    def work(self, rows):
        return self.last(super().work(rows))


def trace_two(make):
    torch.manual_seed(0)
    return xray.trace(nn.Sequential(make(), make()).eval(), torch.randn(2, PLACES, WIDTH))


def list_experts(trace):
    return {one for tower in xray.anatomy(trace).towers for one in tower.branches if isinstance(one, Experts)}


@pytest.mark.parametrize(
    "make",
    [
        lambda: HighestKept(up=nn.Linear(WIDTH, WIDE), down=nn.Linear(WIDE, WIDTH)),
        lambda: RowsOfTable(up=nn.Linear(WIDTH, WIDE), table=nn.Embedding(WIDE, WIDTH)),
        lambda: WorkedOrNot(once=make_each()),
        lambda: Part([make_each()] * EXPERTS),
    ],
    ids=["highest numbers", "rows of a table", "one for all or none", "one under several numbers"],
)
def test_what_has_no_weights_of_several_is_no_experts(make):
    assert list_experts(trace_two(make)) == set()


def test_experts_of_unlike_bends_are_not_told_by_the_first():
    bends = (nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh)

    (found,) = list_experts(trace_two(lambda: Part(make_each(bend=bend) for bend in bends)))

    assert (found.chosen, found.d_ff, found.activation) == (CHOSEN, None, None)


def test_experts_of_several_widths_have_no_one_width():
    (found,) = list_experts(trace_two(lambda: Part(make_each(wide=12 + 3 * number) for number in range(EXPERTS))))

    assert (found.d_ff, found.activation) == (None, "gelu")


def test_experts_are_not_told_by_the_feed_forward_beside_them():
    def make_low():
        return nn.Sequential(nn.Linear(WIDTH, 3, bias=False), nn.Linear(3, WIDTH, bias=False))

    (found,) = list_experts(trace_two(lambda: Beside((make_low() for _ in range(EXPERTS)), once=make_each())))

    assert (found.shared, found.activation) == (1, None)


def test_experts_that_hand_rows_on_are_no_feed_forwards():
    some = [make_each(), make_each(), nn.Identity(), nn.Identity()]

    assert {one.d_ff for one in list_experts(trace_two(lambda: Part(some)))} == {None}


def test_what_experts_give_is_no_sum_where_a_layer_stands_behind():
    trace = trace_two(lambda: LedOn((make_each() for _ in range(EXPERTS)), last=nn.Linear(WIDTH, WIDTH)))

    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert not any(label.startswith("SUM") for label in labels)
