"""Flex attention is opened: what its functions hide is read cell by cell."""

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import xray

pytestmark = pytest.mark.filterwarnings("ignore")


class Flexible(nn.Module):
    def __init__(self, hides=None, scores=None, block=128):
        super().__init__()
        self.qkv, self.hides, self.scores, self.block = nn.Linear(6, 18), hides, scores, block

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (3, 2)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        length = x.shape[1]
        mask = None
        if self.hides is not None:
            mask = create_block_mask(self.hides, None, None, length, length, device="cpu", BLOCK_SIZE=self.block)
        return flex_attention(q, k, v, score_mod=self.scores, block_mask=mask)


def trace_of(hides=None, scores=None, length=4, block=128):
    with torch.no_grad():
        return xray.trace(Flexible(hides, scores, block), torch.rand(2, length, 6))


def mask_of(trace):
    return next((r.mask for s in trace.steps if s.op == "mask_scores" for r in s.inputs if r.role == "mask"), None)


def causal(batch, head, query, key):
    return query >= key


def falling(score, batch, head, query, key):
    return score - (query - key)


def test_what_mask_mod_hides_is_read():
    assert mask_of(trace_of(causal)).cells == ((".fff", "..ff", "...f", "...."),)


def test_what_score_mod_hides_is_read():
    def hide(score, batch, head, query, key):
        return torch.where(query >= key, score, -float("inf"))

    assert mask_of(trace_of(scores=hide)).cells == ((".fff", "..ff", "...f", "...."),)


def test_scores_are_derived_with_their_shape():
    steps = {step.path.rpartition(".")[2]: step for step in trace_of(causal, falling).steps}
    assert steps["softmax"].outputs[0].shape == (2, 3, 4, 4)
    assert steps["score_mod"].op == "add"


def test_without_functions_nothing_is_hidden():
    assert mask_of(trace_of()) is None


def test_a_triangle_that_begins_too_late_is_told():
    (alarm,) = xray.audit(trace_of(lambda batch, head, query, key: query + 1 >= key)).alarms
    assert (alarm.kind, alarm.location.rpartition("/")[2].partition(":")[0]) == ("future", "test_flex_attention.py")


@pytest.mark.parametrize("functions", [(causal,), (causal, falling), ()])
def test_a_sound_one_raises_nothing(functions):
    assert xray.audit(trace_of(*functions)).alarms == ()


def test_the_blocks_are_read_with_their_size():
    trace = trace_of(causal, length=40, block=16)
    blocks = mask_of(trace).blocks

    assert (blocks.queries, blocks.keys, blocks.cells) == (16, 16, (("/xx", "./x", "///"),))


def test_a_mask_of_many_cells_is_read_by_its_rows():
    mask = mask_of(trace_of(causal, length=300))

    assert (mask.kind, mask.cells, mask.spans) == ("causal", None, (((300, 0, 0, 1, 1),),))
    assert mask.blocks.cells == (("/xx", "./x", "///"),)


def falling_and_hiding(score, batch, head, query, key):
    return torch.where(query >= key, score - (query - key), -float("inf"))


SCORE_MODS = {
    "adds": falling,
    "scales": lambda score, batch, head, query, key: score * 2,
    "bends": lambda score, batch, head, query, key: 9 * torch.tanh(score / 9),
    "adds, hides": falling_and_hiding,
}


@pytest.mark.parametrize("does", SCORE_MODS)
def test_what_score_mod_does_is_said(does):
    step = next(step for step in trace_of(scores=SCORE_MODS[does]).steps if step.op == "flex_attention")

    assert step.settings["score_mod_does"] == does
