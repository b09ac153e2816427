"""A head reads the rows that a mask names alone (the rows of one id in the fine-tuned GPT)."""

import pytest
import torch
from handwritten import make_writer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, VOCAB, PLACES = 15, 19, 7


class Chooses(nn.Module):
    """A score for each row of one id, of all sequences, be their rows laid in a row before that."""

    def __init__(self, is_flat):
        super().__init__()
        self.writer, self.head, self.is_flat = make_writer(WIDTH), nn.Linear(WIDTH, 1), is_flat
        self.writer.scores = nn.Identity()

    def forward(self, ids):
        rows, chosen = self.writer(ids), ids == 5
        return self.head(rows.view(-1, WIDTH)[chosen.view(-1)] if self.is_flat else rows[chosen])


@pytest.mark.parametrize("is_flat", [True, False])
def test_a_head_says_that_it_reads_rows_that_a_mask_lets_through(is_flat):
    (column,) = read_columns(xray.trace(Chooses(is_flat).eval(), torch.arange(2 * PLACES).view(2, -1) % PLACES))

    (node,) = column.exit.nodes
    assert node.label == "LINEAR OF ROWS THAT A MASK LETS THROUGH"
    assert [step.op for step in node.steps] == ["linear", "index"]
