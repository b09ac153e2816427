"""A decoder whose stream begins with what its encoder gives, and which looks at that again in each layer."""

import pytest
import torch
from torch import nn

import xray
from xray.story.anatomy.attentions import FORMER_ROWS
from xray.story.anatomy.attentions import Attention as Attended


class Decoding(nn.Module):
    """Two encoder layers and some of a decoder, whose stream begins with the memory, with places or not."""

    def __init__(self, places, first, layers=2):
        super().__init__()
        self.lead, self.head = nn.Linear(7, 12), nn.Linear(12, 3)
        self.places = nn.Parameter(torch.rand(5, 12)) if places else None
        how = {"dim_feedforward": 31, "batch_first": True, "norm_first": first}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, **how), 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 2, **how), layers)

    def forward(self, x):
        memory = self.encoder(self.lead(x))
        memory = memory if self.places is None else memory + self.places
        return self.head(self.decoder(memory, memory))


@pytest.mark.parametrize("places", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_decoder_that_begins_with_its_memory_looks_at_former_rows_in_each_layer(places, first):
    trace = xray.trace(Decoding(places, first).eval(), torch.rand(2, 5, 7))
    (tower,) = xray.anatomy(trace).towers

    branches = ((group.count, [one for stage in group.stages for one in stage.branches]) for group in tower.groups)
    sources = [(count, [one.source for one in held if isinstance(one, Attended)]) for count, held in branches]
    assert sources == [(2, ["self"]), (2, ["self", FORMER_ROWS])]
    assert "come from former rows" in xray.render(trace, "svg")


def test_the_last_of_many_layers_of_a_decoder_looks_at_former_rows_too():
    trace = xray.trace(Decoding(places=False, first=True, layers=12).eval(), torch.rand(2, 5, 7))
    (tower,) = xray.anatomy(trace).towers

    assert [group.count for group in tower.groups] == [2, 12]
