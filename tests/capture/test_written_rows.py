"""Rows that are put into a tensor, or beside it, leave its axes their words; halves of a layer are as wide as d_ff."""

import pytest
import torch
from torch import nn

import xray

WIDTH, WORDS, ROWS, FF = 14, 5, 3, 11


class Gated(nn.Module):
    """Attention, and a feed-forward whose gate and way up come out of one layer; what stands between is handed in."""

    def __init__(self, put_in=lambda rows, given: rows, mix=lambda up, gate: nn.functional.silu(gate) * up):
        super().__init__()
        self.table = nn.Embedding(23, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.both = nn.Linear(WIDTH, 2 * FF)
        self.down = nn.Linear(FF, WIDTH)
        self.put_in, self.mix = put_in, mix

    def forward(self, ids, given):
        x = self.put_in(self.table(ids), given)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(self.mix(*self.both(x).chunk(2, -1)))


def trace(**changes):
    given = torch.rand(2 * ROWS, WIDTH)
    return xray.trace(Gated(**changes), torch.arange(2 * WORDS).view(2, WORDS), given)


def find(trace, op):
    return [step for step in trace.steps if step.op == op]


def scatter_by_mask(rows, given):
    return rows.masked_scatter((torch.arange(WORDS) < ROWS)[None, :, None].expand_as(rows), given)


def put_at(rows, given):
    return rows.index_put((torch.arange(2)[:, None], torch.arange(ROWS)[None]), given.view(2, ROWS, WIDTH))


def copy_along(rows, given):
    return rows.index_copy(1, torch.arange(ROWS), given.view(2, ROWS, WIDTH))


def mix_several(rows, given):
    return torch.stack([rows, rows * 2, rows * 3], 1).sum(1)


@pytest.mark.parametrize("put_in", [scatter_by_mask, put_at, copy_along, mix_several])
def test_a_stream_that_rows_are_put_into_keeps_its_words(put_in):
    last = [step for step in trace(put_in=put_in).steps if step.op == "add"][-1]

    assert last.outputs[0].axes == ("batch", "seq_len", "d_model")


def test_rows_that_are_put_in_get_no_length_of_the_stream():
    step = next(step for step in trace(put_in=copy_along).steps if step.op == "index_copy")

    assert step.inputs[-1].axes[1] == ""


@pytest.mark.parametrize(
    ("mix", "word"),
    [
        (lambda up, gate: nn.functional.silu(gate) * up, "d_ff"),
        (lambda up, gate: up * nn.functional.gelu(gate), "d_ff"),
        (lambda up, gate: torch.sigmoid(gate) * up, ""),  # such a gate stands elsewhere too
        (lambda up, gate: nn.functional.silu(gate) * up.cumsum(1), ""),  # what goes on is no half of the layer
    ],
)
def test_a_gate_and_what_it_lets_through_are_as_wide_as_d_ff(mix, word):
    product = find(trace(mix=mix), "mul")[-1]

    assert product.outputs[0].axes == ("batch", "seq_len", word)


class Overwrites(nn.Module):
    def forward(self, x, rows):
        x = x + 0
        x[..., rows, :2] = 0.0
        x[rows] = 1.0
        return x


def test_what_stands_around_the_ids_of_an_index_is_noted():
    steps = find(xray.trace(Overwrites(), torch.rand(5, 5, 7), torch.arange(3)), "index_put_")

    assert [step.settings.get("around") for step in steps] == ["..., ids, :2", None]
