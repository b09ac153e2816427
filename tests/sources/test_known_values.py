"""Running without storage: what follows from the inputs alone has its values, what hangs on weights a shape alone."""

import pytest
import torch
from torch import nn

from xray.capture.values import is_readable
from xray.sources.known_values import build_on_meta, is_unknown, known_values


class Masked(nn.Module):
    """Words that see those before them only; it asks how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(31, 12)
        self.bias = nn.Parameter(torch.zeros(12))
        self.register_buffer("places", torch.arange(7))

    def forward(self, ids):
        vectors = self.words(ids) + self.bias
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=vectors.device).tril()
        if int(mask.sum()) < 1:
            raise ValueError
        return nn.functional.scaled_dot_product_attention(vectors, vectors, vectors, attn_mask=mask), mask


@pytest.fixture
def run():
    model = build_on_meta(Masked)
    with known_values(), torch.no_grad():
        yield model(torch.arange(10).reshape(2, 5))


def test_what_hangs_on_weights_has_a_shape_alone(run):
    assert run[0].is_meta
    assert run[0].shape == (2, 5, 12)


def test_masks_have_their_values(run):
    assert run[1].tolist() == torch.ones(5, 5).tril().bool().tolist()


def test_parameters_have_no_values_but_constants_have():
    model = build_on_meta(Masked)

    assert all(one.is_meta for one in model.parameters())
    assert model.places.tolist() == list(range(7))


def test_shared_parameters_stay_shared():
    def build():
        with torch.no_grad():
            pair = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
            pair[0].weight = pair[1].weight = nn.Parameter(torch.zeros(3, 3))
        return pair

    model = build_on_meta(build)

    assert model[0].weight is model[1].weight
    assert model[0].weight.is_meta


def test_numbers_keep_their_values_on_the_meta_device():
    with known_values():
        assert torch.tensor([3, 5], device="meta").tolist() == [3, 5]


def test_what_is_overwritten_with_the_unknown_is_unknown():
    with known_values():
        known = torch.zeros(4)
        known[:2] = torch.empty(2, device="meta")

    assert is_unknown(known)
    assert not is_readable(known)


def test_a_known_mask_picks_as_many_rows_as_it_has_places():
    with known_values():
        picked = torch.empty(2, 3, 7, device="meta")[torch.tensor([[True, False, True], [False, False, True]])]

    assert picked.shape == (3, 7)


def test_a_number_that_nobody_knows_cannot_be_asked_for():
    with known_values(), pytest.raises(RuntimeError, match="meta"):
        torch.empty(3, device="meta").sum().item()


def test_large_constants_are_not_worked_out():
    with known_values():
        assert torch.zeros(3_000, 3_000, device="meta").is_meta
