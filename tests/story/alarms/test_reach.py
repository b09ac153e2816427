"""Masks that no attention reads raise an alarm, unless what was made in their stead hides the same."""

import pytest
import torch
from torch import nn

import xray
from xray.story.alarms.whole import audit

BATCH, LENGTH, WIDTH = 2, 7, 8
ROWS = torch.zeros(BATCH, LENGTH, WIDTH)
FUTURE = nn.Transformer.generate_square_subsequent_mask(LENGTH)


class Forgetful(nn.Module):
    """torch's layers, called with the mask that it makes of the one it was given."""

    def __init__(self, remake):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
        self.layers, self.remake = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), remake

    def forward(self, rows, tgt_mask):
        return self.layers(rows, mask=self.remake(tgt_mask))


def raise_kinds(model, **given):
    return [alarm.kind for alarm in audit(xray.trace(model, **given)).alarms]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("mask", [FUTURE, FUTURE.bool()], ids=["added", "of bools"])
@pytest.mark.parametrize("sources", [LENGTH, 5])
def test_a_mask_that_torch_makes_anew_as_causal_raises_nothing(trains, mask, sources):
    model = nn.Transformer(WIDTH, 2, 1, 2, 16, batch_first=True).train(trains)

    assert raise_kinds(model, src=torch.zeros(BATCH, sources, WIDTH), tgt=ROWS, tgt_mask=mask) == []


def test_a_mask_that_torch_makes_anew_raises_nothing_on_meta():
    model = nn.Transformer(WIDTH, 2, 1, 2, 16, batch_first=True).to("meta")

    assert raise_kinds(model, src=ROWS.to("meta"), tgt=ROWS.to("meta"), tgt_mask=FUTURE) == []


class Attending(nn.Module):
    """torch's heads, which read the mask beside is_causal where weights are asked for."""

    def __init__(self, weights, is_causal=True):
        super().__init__()
        self.attention, self.says = nn.MultiheadAttention(WIDTH, 2, batch_first=True), {"is_causal": is_causal}
        self.says["need_weights"] = weights

    def forward(self, rows, attn_mask):
        return self.attention(rows, rows, rows, attn_mask=attn_mask, **self.says)[0]


@pytest.mark.parametrize("weights", [True, False])
def test_a_causal_mask_beside_is_causal_raises_nothing(weights):
    assert raise_kinds(Attending(weights).train(), rows=ROWS, attn_mask=FUTURE) == []


@pytest.mark.parametrize("weights", [True, False])
def test_a_mask_of_lowest_numbers_is_not_tried_as_0_and_1(weights):
    far = torch.ones(LENGTH, LENGTH).triu(3).bool()
    near = torch.zeros(LENGTH, LENGTH).masked_fill(far | far.T, -100.0)
    model = Attending(weights, is_causal=False).train()

    assert raise_kinds(model, rows=ROWS, attn_mask=near) == []


@pytest.mark.parametrize("trains", [True, False])
def test_a_mask_in_whose_stead_nothing_was_made_is_told(trains):
    model = Forgetful(lambda mask: None).train(trains)

    assert raise_kinds(model, rows=ROWS, tgt_mask=FUTURE) == ["unreached"]


def test_a_large_mask_that_torch_makes_anew_raises_nothing():
    long = 1031
    model = nn.Transformer(WIDTH, 2, 1, 1, 16, batch_first=True).to("meta")
    given = {name: torch.zeros(1, long, WIDTH, device="meta") for name in ("src", "tgt")}

    assert raise_kinds(model, **given, tgt_mask=nn.Transformer.generate_square_subsequent_mask(long)) == []


def test_a_mask_in_whose_stead_less_is_hidden_is_told():
    narrow = FUTURE.isinf() | FUTURE.isinf().T.roll(-2, 1).tril(-3)
    model = Forgetful(lambda mask: nn.Transformer.generate_square_subsequent_mask(LENGTH)).train()

    assert raise_kinds(model, rows=ROWS, tgt_mask=narrow) == ["unreached"]


class Windowed(nn.Module):
    """Attention written out, each layer of which reads one of two masks, as those of Gemma 3 do."""

    def __init__(self, reads):
        super().__init__()
        self.layers, self.reads = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in reads), reads

    def forward(self, rows, mask, local_mask):
        for layer, reads in zip(self.layers, self.reads, strict=True):
            query, key, value = layer(rows).chunk(3, -1)
            scores = query @ key.transpose(1, 2) + reads(mask, local_mask)
            rows = rows + scores.softmax(-1) @ value
        return rows


LOCAL = FUTURE.masked_fill(torch.ones(LENGTH, LENGTH).tril(-2).bool(), -torch.inf)
ALONE = torch.zeros(LENGTH, LENGTH).masked_fill(~torch.eye(LENGTH).bool(), -torch.inf)


def test_layers_that_obey_a_mask_of_their_own_raise_nothing():
    model = Windowed([lambda mask, local: local, lambda mask, local: mask])

    assert raise_kinds(model, rows=ROWS, mask=FUTURE, local_mask=LOCAL) == []


def test_a_layer_without_the_mask_that_others_obey_beside_a_second_one_is_told():
    model = Windowed([lambda mask, local: local, lambda mask, local: mask + local])

    assert raise_kinds(model, rows=ROWS, mask=FUTURE, local_mask=LOCAL) == ["some layers"]


@pytest.mark.parametrize(("second", "told"), [(FUTURE, ["future"]), (ALONE, [])])
def test_layers_in_which_each_place_sees_itself_alone_hide_no_future(second, told):
    model = Windowed([lambda mask, local: 0.0, lambda mask, local: local])

    assert raise_kinds(model, rows=ROWS, mask=None, local_mask=second) == told


class Translator(nn.Module):
    """An encoder that sees all of the source; the loss asks for the next word of the target, or of the source too."""

    def __init__(self, asks_source):
        super().__init__()
        self.words, self.head, self.asks_source = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 11), asks_source
        self.both = nn.Transformer(WIDTH, 2, 2, 2, 16, 0.0, batch_first=True)

    def forward(self, source, target):
        memory = self.both.encoder(self.words(source))
        found = memory if self.asks_source else self.both.decoder(self.words(target), memory, tgt_mask=FUTURE)
        scores = self.head(found)[:, :-1].flatten(0, 1)
        return nn.functional.cross_entropy(scores, target[:, 1:].flatten())


@pytest.mark.parametrize(("asks_source", "told"), [(True, ["future"]), (False, [])])
def test_an_encoder_of_another_text_may_see_all_of_it(asks_source, told):
    ids = torch.arange(BATCH * LENGTH).view(BATCH, LENGTH) % 11
    assert raise_kinds(Translator(asks_source), source=ids, target=ids) == told


class SameWithSame(nn.Module):
    """Attention of places whose numbers are alike, as ESM C's: of words to words, and of padding to padding."""

    def __init__(self, compare):
        super().__init__()
        self.make, self.compare = nn.Linear(WIDTH, 3 * WIDTH), compare

    def forward(self, rows, attention_mask):
        query, key, value = self.make(rows).chunk(3, -1)
        seen = self.compare(attention_mask[:, :, None], attention_mask[:, None, :])
        scores = (query @ key.mT * WIDTH**-0.5).masked_fill(~seen, float("-inf"))
        return rows + scores.softmax(-1) @ value


@pytest.mark.parametrize(
    ("compare", "kinds"),
    [
        (torch.eq, []),
        (lambda one, other: ~(one ^ other), []),
        (lambda one, other: (one == one) & (other == other), ["unreached"]),
        (lambda one, other: (one | ~one) & (other | ~other), ["unreached"]),
    ],
)
def test_a_mask_compared_with_itself_is_lost_only_where_mixed_ones_give_the_same_too(compare, kinds):
    mask = torch.ones(BATCH, LENGTH, dtype=torch.bool)

    assert raise_kinds(SameWithSame(compare), rows=ROWS, attention_mask=mask) == kinds


class Says(nn.Module):
    """Attention whose block says whether it is causal, and which hides nothing."""

    def __init__(self, is_causal):
        super().__init__()
        self.made, self.out, self.is_causal = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), is_causal

    def forward(self, rows):
        q, k, v = (one.unflatten(-1, (2, -1)).transpose(1, 2) for one in self.made(rows).chunk(3, -1))
        found = (q @ k.mT / 2).softmax(-1) @ v
        return rows + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("before", "kinds"), [(False, []), (True, ["future"])])
def test_rows_that_saw_all_before_have_no_future_to_hide(before, kinds):
    model = nn.Sequential(Says(before), Says(True))

    assert raise_kinds(model, input=torch.rand(BATCH, LENGTH, WIDTH)) == kinds
