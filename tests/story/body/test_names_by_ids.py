"""What towers are called that read ids, where there are several: by the names under which a model is given these."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray


class Reads(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.layers = nn.Sequential(*(part() for part in 2 * (AttentionPart, FeedForwardPart)))

    def forward(self, ids):
        return self.layers(self.words(ids))


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Reads(31), Reads(23)

    def forward(self, input_ids, protein_input_ids=None, other_ids=None):
        other = protein_input_ids if other_ids is None else other_ids
        return self.one(input_ids) if other is None else self.one(input_ids) @ self.other(other[:, 1:]).mT


@pytest.mark.parametrize(
    ("given", "names"),
    [((), ["text"]), (("protein_input_ids",), ["text", "protein"]), (("other_ids",), ["text", "tokens"])],
)
def test_a_tower_of_ids_is_called_by_their_name_among_others(given, names):
    ids, others = torch.arange(14).view(2, 7), torch.arange(22).view(2, 11)
    anatomy = xray.anatomy(xray.trace(Both().eval(), ids, **dict.fromkeys(given, others)))
    assert sorted(tower.name for tower in anatomy.towers) == sorted(names)


class Codes(Reads):
    def forward(self, input_ids):
        return super().forward(input_ids.flatten(1))


@pytest.mark.parametrize(("shape", "name"), [((2, 3, 3), "tokens"), ((2, 3, 5), "text"), ((2, 2), "text")])
def test_as_many_rows_as_columns_of_ids_are_no_text(shape, name):
    (tower,) = xray.anatomy(xray.trace(Codes(31).eval(), torch.randint(31, shape))).towers
    assert tower.name == name
