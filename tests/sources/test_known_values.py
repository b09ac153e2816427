"""Running without storage: what follows from the inputs alone has its values, what hangs on weights a shape alone."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from xray.capture.values import is_of_sines, is_readable
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


@pytest.mark.parametrize(("rows", "fits"), [(3, True), (1, True), (5, False)])
def test_as_many_rows_are_put_as_there_are_places_for_them(rows, fits):
    places, told = (torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2])), rf"value tensor of shape \[{rows}, 7\]"
    with known_values(), nullcontext() if fits else pytest.raises(RuntimeError, match=told):
        assert torch.empty(2, 3, 7, device="meta").index_put(places, torch.empty(rows, 7)).shape == (2, 3, 7)


def test_rows_are_put_where_a_mask_that_nobody_knows_says():
    with known_values():
        held = torch.empty(2, 3, 7, device="meta")
        held[torch.empty(2, 3, device="meta") > 0] = 0.5

    assert held.shape == (2, 3, 7)


def test_a_number_that_nobody_knows_cannot_be_asked_for():
    with known_values(), pytest.raises(RuntimeError, match="meta"):
        torch.empty(3, device="meta").sum().item()


def test_large_constants_are_not_worked_out():
    with known_values():
        assert torch.zeros(3_000, 3_000, device="meta").is_meta


def test_what_is_asked_again_is_as_it_was_the_first_time():
    """Every result of the same operations twice over, the second time without torch's own way to its shape."""

    def run(one, other):
        yield one + other
        yield one.transpose(0, 1) + 1
        yield torch.cat([one, other])
        yield (one > 0).sum(dim=1)
        yield one.double() * 1
        yield one.view(5, 3) * 2
        yield from torch.sort(one, dim=0)

    def tell(made):
        return made.shape, made.stride(), made.dtype, made.is_meta, made.untyped_storage().nbytes()

    with known_values():
        one, other = torch.empty(3, 5, device="meta"), torch.empty(5, 3, device="meta").T
        first = [tell(made) for made in run(one, other)]
        again = [tell(made) for made in run(one, other)]

    assert again == first == [tell(made) for made in run(one, other)]


def test_a_number_and_its_kind_are_told_apart():
    with known_values():
        whole = torch.empty(3, dtype=torch.int64, device="meta")

        assert [(whole * by).dtype for by in (1, 1.0, True, 1)] == [
            torch.int64,
            torch.float32,
            torch.int64,
            torch.int64,
        ]


def test_a_view_that_is_asked_for_again_is_a_view():
    with known_values():
        one = torch.empty(3, 5, device="meta")
        views = [one.T, one.T, torch.ops.aten._unsafe_view(one, (5, 3)), torch.ops.aten._unsafe_view(one, (5, 3))]
        new = [one + 1, one + 1]

    assert {view.untyped_storage()._cdata for view in views} == {one.untyped_storage()._cdata}
    assert len({made.untyped_storage()._cdata for made in (*new, one)}) == 3


def test_what_was_met_is_not_worked_out_again():
    slow = []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            slow.append(func)
            return func(*args, **(kwargs or {}))

    with Counted(), known_values():
        one = torch.empty(3, 5, device="meta")
        for _ in range(4):
            one + 1

    assert slow.count(torch.ops.aten.add.Tensor) == 1


def test_a_division_of_whole_numbers_is_of_the_type_that_is_the_default():
    made = []
    with known_values():
        whole = torch.empty(3, dtype=torch.int64, device="meta")
        for kind in (torch.float32, torch.float64):
            torch.set_default_dtype(kind)
            try:
                made.append((whole / 2).dtype)
            finally:
                torch.set_default_dtype(torch.float32)

    assert made == [torch.float32, torch.float64]


UNKNOWN = torch.empty(1, device="meta")


@pytest.mark.parametrize(
    "move",
    [
        lambda known: known.to("meta"),
        lambda known: known.to(UNKNOWN),
        lambda known: known.to(UNKNOWN.device, torch.float32),
        lambda known: known.to(device="meta", dtype=torch.float32, non_blocking=True),
        lambda known: known.to(dtype=torch.float32),
    ],
)
def test_what_is_known_is_handed_on_where_it_is_sent_to_what_is_not(move):
    known = torch.arange(3.0)
    with known_values():
        assert move(known) is known


@pytest.mark.parametrize(
    "copy", [lambda known: known.to("meta", torch.float64), lambda known: known.to("meta", copy=True)]
)
def test_what_is_known_is_copied_where_its_type_is_changed_or_a_copy_is_asked_for(copy):
    known = torch.arange(3.0)
    with known_values():
        made = copy(known)
    assert made is not known
    assert made.tolist() == known.tolist()


class Placed(nn.Module):
    """A table of places into which sines are written, and then perhaps others."""

    def __init__(self, *, is_kept):
        super().__init__()
        turns = torch.arange(30)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.01])
        self.places, self.other = nn.Embedding(30, 4), nn.Parameter(turns.cos())
        with torch.no_grad():
            self.places.weight.copy_(turns.sin())
            if not is_kept:
                self.places.weight.normal_()


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_table_without_storage_is_known_to_be_of_sines_that_were_written_into_it(is_kept):
    model = build_on_meta(lambda: Placed(is_kept=is_kept))

    held = dict(model.named_parameters())
    assert all(one.is_meta for one in held.values())
    assert {name: is_of_sines(one) for name, one in held.items()} == {"places.weight": is_kept, "other": True}


def test_ids_that_are_filled_after_room_was_made_for_them_are_known():
    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            ids = torch.empty(3, 4, dtype=torch.long)
            self.register_buffer("ids", ids.copy_(torch.arange(12).view(3, 4)), persistent=False)

    (ids,) = build_on_meta(Held).buffers()

    assert torch.equal(ids, torch.arange(12).view(3, 4))
