"""The card of costs: what the record of a run proves of them."""

from dataclasses import replace

import pytest
import torch
from recorded import recorded
from small_traces import small_inference_passes, small_trace
from story.sentences.makers import FALSE, make_anatomy
from torch import nn

import xray
from xray.ir.peak import find_peak
from xray.story.anatomy.branches import Experts
from xray.story.anatomy.tree import Head
from xray.story.anatomy.wording import counts_whole_table
from xray.story.cards.costs import list_costs
from xray.story.facts.totals import count_work
from xray.text import say_at_least, say_short


def test_the_counts_are_those_of_the_whole_trace():
    trace = small_trace()
    told, work = dict(list_costs(trace)), count_work(trace)

    assert told["weights"] == f"{say_short(work.params)} numbers, {say_short(work.param_bytes, 'B')}"
    assert told["FLOPs"] == say_at_least(work.flops)  # a way back is among the passes


def test_the_fullest_moment_holds_the_weights_too():
    trace = small_trace(*small_inference_passes())
    fullest = max(find_peak(one).bytes for one in trace.passes)

    assert dict(list_costs(trace))["memory at the fullest"] == say_at_least(
        count_work(trace).param_bytes + fullest, "B"
    )


def test_where_weights_are_nearly_all_what_stands_beside_them_is_told():
    trace = xray.trace(nn.Linear(1000, 1239), torch.rand(1, 1000))  # 4,960,956 bytes, and one row

    told = dict(list_costs(trace))
    assert told["weights"] == "1.24 M numbers, 4.96 MB"
    assert told["memory at the fullest"] == f"weights, and {say_at_least(find_peak(trace.passes[0]).bytes, 'B')}"


class Scaled(nn.Linear):
    """A linear layer whose numbers are divided by one."""

    def __init__(self, by):
        super().__init__(7, 31)
        self.by = by

    def forward(self, x):
        return super().forward(x) / self.by


@pytest.mark.parametrize(("by", "told"), [(1.0, "div by 1, 2×5×31"), (2.0, "div, 2×5×31")])
def test_a_fullest_moment_that_changes_no_number_is_told_to_be_by_one(by, told):
    assert dict(list_costs(xray.trace(Scaled(by), torch.rand(2, 5, 7))))["that much at"] == told


class Holding(nn.Module):
    """What holds on to 30 and 30 numbers of each row that nothing reads any more, while it makes 20 others."""

    def forward(self, x):
        wide = x.repeat(1, 30)
        doubled = wide * 2
        return doubled.sum(1, keepdim=True).repeat(1, 20) + len(wide)


def test_no_step_is_told_to_be_the_fullest_as_a_program_may_hold_on_to_more():
    told = dict(list_costs(xray.trace(nn.Sequential(nn.Linear(1, 1), Holding()), torch.rand(2, 1))))

    assert told["memory at the fullest"] == say_at_least(8 + 2 * (30 + 30) * 4, "B")
    assert told["that much at"] == "mul, 2×30"
    assert "which is at" not in told


def test_of_a_way_back_no_fullest_moment_is_told():
    assert "memory at the fullest" not in dict(list_costs(small_trace()))


def test_parameters_that_every_place_meets_are_not_told_twice():
    trace = small_trace()

    assert "of these used" not in dict(list_costs(trace, count_work(trace).params))
    assert "of these used" in dict(list_costs(trace, 1))


def test_where_nearly_all_is_used_it_is_told_how_much_is_not():
    trace = xray.trace(nn.Linear(61, 61), torch.ones(2, 61))

    assert dict(list_costs(trace, 61 * 61))["of these used"] == "3.72 k (98.4%)"
    assert dict(list_costs(trace, 61 * 62 - 1))["of these used"] == "all but 1"


def test_a_table_of_which_a_place_looks_up_one_row_is_said_to_be_counted_whole():
    trace = xray.trace(nn.Linear(61, 61), torch.ones(2, 61))

    told = dict(list_costs(trace, 61 * 61, has_whole_table=True))

    assert told["of these used"] == "3.72 k (98.4%), word table whole"


@pytest.mark.parametrize(
    ("vocab", "head", "is_whole"),
    [
        (61, Head("vocabulary", 61, False), True),
        (61, None, True),
        (61, Head("none"), True),
        (61, Head("vocabulary", 61, True), False),  # which reads every row of it
        (61, Head("vocabulary", 61), False),  # which may
        (None, Head("numbers", 61, False), False),
    ],
)
def test_a_table_of_words_is_counted_whole_where_experts_are_chosen_and_no_head_reads_it(vocab, head, is_whole):
    chosen, none = (
        make_anatomy(FALSE, Experts(5, 2, 1, 17, "relu", gated=False), head=head),
        make_anatomy(FALSE, head=head),
    )

    assert counts_whole_table(replace(chosen, towers=(replace(chosen.towers[0], vocab=vocab),))) == is_whole
    assert not counts_whole_table(replace(none, towers=(replace(none.towers[0], vocab=vocab),)))


def test_what_is_kept_is_told_of_windows_that_are_not_full_where_there_are_windows():
    trace = recorded("untrained, cached")

    kept = dict(list_costs(trace))["keys, values for each place"]

    assert (
        dict(list_costs(trace, has_windows=True))["keys, values for each place"] == f"{kept}, with windows not yet full"
    )
