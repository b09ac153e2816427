"""Models with a bug in their masks, each beside the same model without it; `bug` marks the line to be found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import xray

SEQUENCES, PLACES, HEADS, WIDTH, VOCAB, PAD = 3, 7, 2, 8, 23, 0
HIDDEN = float("-inf")


@dataclass
class Pair:
    """A bug of a kind: the model that has it, the one that has not, and what both are called with."""

    name: str
    kind: str
    bad: Callable[[], nn.Module]
    good: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Any]]
    place: Any = None
    """The function in which the line stands."""
    on_meta: bool = True
    trains: bool = False
    """torch has other kernels for training."""


PAIRS: list[Pair] = []


def lengths() -> Tensor:
    return torch.tensor([7, 5, 4])


def words() -> Tensor:
    ids = torch.randint(1, VOCAB, (SEQUENCES, PLACES), generator=torch.Generator().manual_seed(1))
    return torch.where(torch.arange(PLACES)[None] < lengths()[:, None], ids, PAD)


def padded() -> dict[str, Any]:
    """Ids and a mask, 1 for a word; one sequence has no padding."""
    return {"ids": words(), "attention_mask": (words() != PAD).long()}


def ids_only() -> dict[str, Any]:
    return {"ids": words()}


class Layer(nn.Module):
    """An attention written out; `hide` is told the scores, the mask and the number of the layer."""

    def __init__(self, number: int, hide: Callable[..., Tensor], **says: Any) -> None:
        super().__init__()
        self.number, self.hide = number, hide
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        vars(self).update(says)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = self.hide(scores, mask, self.number)
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Fused(nn.Module):
    """An attention by torch's own kernel; `attend` is told queries, keys, values, the mask and the number."""

    def __init__(self, number: int, attend: Callable[..., Tensor], **says: Any) -> None:
        super().__init__()
        self.number, self.attend = number, attend
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        vars(self).update(says)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        return x + self.out(self.attend(q, k, v, mask, self.number).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    """Words, three layers, scores for each word; `prepare` makes the layers' mask of what the model is given."""

    def __init__(self, kind: type[nn.Module], how: Callable[..., Tensor], prepare: Any = None, **says: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(kind(number, how, **says) for number in range(3))
        self.head = nn.Linear(WIDTH, VOCAB)
        self.prepare = prepare

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, **others: Any) -> Tensor:
        mask = attention_mask if self.prepare is None else self.prepare(ids, attention_mask, **others)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def pair(
    name: str, kind: str, inputs: Callable[[], dict[str, Any]], good: Any, *, base: Any = Layer, **others: Any
) -> Any:
    """Notes a function that hides keys, or attends, with a bug; `good` is the one that does it well."""

    def note(bad: Any) -> Any:
        makes = {key: others.pop(key) for key in ("prepare", "says") if key in others}
        says, prepare = makes.get("says", {}), makes.get("prepare")
        PAIRS.append(
            Pair(
                name,
                kind,
                lambda: Stack(base, bad, prepare, **says),
                lambda: Stack(base, good, prepare, **says),
                inputs,
                bad,
                **others,
            )
        )
        return bad

    return note


def prepared(
    name: str, kind: str, inputs: Callable[[], dict[str, Any]], good: Any, how: Any, base: Any = Layer, **others: Any
) -> Any:
    """Notes a function that makes the mask of all layers, with a bug."""

    def note(bad: Any) -> Any:
        says = others.pop("says", {})
        PAIRS.append(
            Pair(
                name,
                kind,
                lambda: Stack(base, how, bad, **says),
                lambda: Stack(base, how, good, **says),
                inputs,
                bad,
                **others,
            )
        )
        return bad

    return note


def whole(
    name: str, kind: str, inputs: Callable[[], dict[str, Any]], good: Callable[[], nn.Module], **others: Any
) -> Any:
    """Notes a class of models with a bug."""

    def note(bad: Any) -> Any:
        PAIRS.append(Pair(name, kind, bad, good, inputs, bad, **others))
        return bad

    return note


# What is right


def hide(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, HIDDEN)


def hide_future(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device)).bool()
    return scores.masked_fill(~visible, HIDDEN)


def hide_both(scores, mask, number):
    return hide(hide_future(scores, mask, number), mask, number)


def add(scores, mask, number):
    return scores + mask


def attend(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())


def attend_given(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attend_causal(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


# A mask that goes nowhere


@whole("layers that take a mask and leave it", "unreached", padded, lambda: Stack(Layer, hide))
class Forgetful(Stack):
    def __init__(self):
        super().__init__(Layer, lambda scores, mask, number: scores)

    def forward(self, ids, attention_mask=None, **others):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, attention_mask)  # bug
        return self.head(x)


@prepared("a mask overwritten by ones", "unreached", padded, lambda ids, mask: mask, hide)
def overwrite(ids, mask):
    return torch.ones_like(mask)  # bug


@prepared("a mask compared with what it never is", "unreached", padded, lambda ids, mask: mask, hide)
def compare_with_nothing(ids, mask):
    return (mask >= 0).long()  # bug


@pair("a kernel that is given no mask", "unreached", padded, attend, base=Fused, on_meta=True)
def attend_to_all(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v)


@whole("a mask that waits for a setting", "unreached", padded, lambda: Stack(Layer, hide))
class Waiting(Stack):
    def __init__(self):
        super().__init__(Layer, hide_future)
        self.use_mask = False

    def forward(self, ids, attention_mask=None, **others):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, attention_mask if self.use_mask else None)
        return self.head(x)


@pair("one layer left out", "some layers", padded, hide)
def leave_one_out(scores, mask, number):
    return scores if number == 1 else hide(scores, mask, number)


@pair("the first layer only", "some layers", padded, hide)
def first_only(scores, mask, number):
    return hide(scores, mask, number) if number == 0 else scores


@pair("the last layer without its kernel's mask", "some layers", padded, attend, base=Fused)
def all_but_last(q, k, v, mask, number):
    if number == 2:
        return nn.functional.scaled_dot_product_attention(q, k, v)  # bug
    return attend(q, k, v, mask, number)


@pair("a layer that reads the future's mask only", "some layers", padded, hide_both)
def future_only_in_one(scores, mask, number):
    return hide_future(scores, mask, number) if number == 2 else hide_both(scores, mask, number)


# Turned round


@pair("what is kept is filled", "inverted", padded, hide, on_meta=False)
def fill_what_is_kept(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 1, HIDDEN)  # bug


@prepared("words instead of padding", "inverted", ids_only, lambda ids, mask: (ids != PAD).long(), hide)
def words_instead_of_padding(ids, mask):
    return (ids == PAD).long()


@pair("a forgotten 1 -", "inverted", padded, lambda s, m, n: s + (1.0 - m[:, None, None, :]) * -1e9, on_meta=False)
def forgotten_one_minus(scores, mask, number):
    return scores + mask[:, None, None, :] * -1e9  # bug


@pair(
    "where the wrong way",
    "inverted",
    padded,
    lambda s, m, n: torch.where(m[:, None, None].bool(), s, HIDDEN),
    on_meta=False,
)
def where_the_wrong_way(scores, mask, number):
    return torch.where(mask[:, None, None].bool(), HIDDEN, scores)  # bug


@pair("a kernel told what is padding", "inverted", ids_only, attend, base=Fused, prepare=lambda ids, mask: ids)
def kernel_told_padding(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(mask == PAD)[:, None, None, :])  # bug


@pair("the triangle of what is hidden given to a kernel", "inverted", ids_only, attend_causal, base=Fused)
def wrong_triangle(q, k, v, mask, number):
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)  # bug


@pair("the triangle filled on its wrong side", "inverted", ids_only, hide_future)
def fill_the_past(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device))
    return scores.masked_fill(visible == 1, HIDDEN)  # bug


@pair("an added triangle on its wrong side", "inverted", ids_only, hide_future)
def add_the_past(scores, mask, number):
    return scores + torch.full(scores.shape[-2:], HIDDEN, device=scores.device).tril()  # bug


def by_lengths() -> dict[str, Any]:
    return {"ids": words(), "lengths": lengths()}


def behind_the_end(ids, mask, lengths):
    return torch.arange(ids.shape[1], device=ids.device)[None] >= lengths[:, None]


@pair(
    "lengths read the wrong way",
    "inverted",
    by_lengths,
    lambda s, m, n: s.masked_fill(m[:, None, None], -1e9),
    prepare=behind_the_end,
)
def before_the_end(scores, mask, number):
    return scores.masked_fill(~mask[:, None, None], -1e9)  # bug


# Too weak


@pair("a forgotten minus", "weak", padded, hide)
def forgotten_minus(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, 1e-9)  # bug


@pair("zero instead of infinity", "weak", padded, hide)
def fill_with_zero(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, 0.0)  # bug


@pair("minus one", "weak", padded, hide)
def fill_with_minus_one(scores, mask, number):
    return scores.masked_fill(mask[:, None, None, :] == 0, -1.0)  # bug


@pair("scores times the mask", "weak", padded, hide)
def times_the_mask(scores, mask, number):
    return scores * mask[:, None, None, :]  # bug


@pair("minus ten in a kernel", "weak", padded, attend, base=Fused)
def weak_in_a_kernel(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(1.0 - mask[:, None, None, :]) * -10.0)  # bug


@pair("where with a small number", "weak", ids_only, hide, prepare=lambda ids, mask: (ids != PAD).long())
def where_small(scores, mask, number):
    return torch.where(mask[:, None, None, :] == 1, scores, -5.0)  # bug


# Truth values and numbers mixed


@pair("ones and zeros added", "mixed", padded, hide)
def add_the_mask(scores, mask, number):
    return scores + mask[:, None, None, :]  # bug


@pair("truth values added", "mixed", ids_only, hide, prepare=lambda ids, mask: (ids != PAD).long())
def add_truth(scores, mask, number):
    return scores + (mask == 1)[:, None, None, :].to(scores.dtype)  # bug


@pair("a float mask of ones in a kernel", "mixed", padded, attend, base=Fused)
def float_in_a_kernel(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].to(q.dtype))  # bug


# Along the wrong axis


@pair("keys' mask on queries", "axis", padded, hide)
def on_queries(scores, mask, number):
    return scores.masked_fill(mask[:, None, :, None] == 0, -1e9)  # bug


@pair("keys' mask on queries, added", "axis", padded, hide)
def added_on_queries(scores, mask, number):
    return scores + ((1 - mask) * -1e9).view(SEQUENCES, 1, PLACES, 1)  # bug


@pair("queries in a kernel", "axis", ids_only, attend, base=Fused, prepare=lambda ids, mask: (ids != PAD).long())
def queries_in_a_kernel(q, k, v, mask, number):
    visible = (mask == 1)[:, None, :, None].expand(-1, 1, -1, k.shape[-2])
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)  # bug


@pair("the mask of another sequence", "axis", padded, hide)
def of_another_sequence(scores, mask, number):
    return hide(scores, mask.flip(0), number)


# The future


@pair("a triangle one too wide", "future", ids_only, hide_future)
def one_too_wide(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device), diagonal=1)
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@pair("hidden from the second key on", "future", ids_only, attend_causal, base=Fused)
def from_the_second(q, k, v, mask, number):
    hidden = torch.full((q.shape[-2], k.shape[-2]), HIDDEN, device=q.device).triu(2)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)  # bug


@pair("places compared one off", "future", ids_only, hide_future)
def places_one_off(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill(places[None, :] > places[:, None] + 1, -1e9)  # bug


@pair("one layer that sees ahead", "future", ids_only, hide_future)
def one_sees_ahead(scores, mask, number):
    return scores if number == 2 else hide_future(scores, mask, number)


@pair("one kernel without is_causal", "future", ids_only, attend_causal, base=Fused)
def one_not_causal(q, k, v, mask, number):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=number != 1)  # bug


@pair("padding instead of the future", "future", padded, hide_both, says={"is_causal": True})
def padding_instead(scores, mask, number):
    return hide(scores, mask, number)


class Taught(Stack):
    """A model that is taught the next word in its forward."""

    def forward(self, ids, attention_mask=None, **others):
        logits = super().forward(ids, attention_mask)
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@whole("taught the word that it sees", "future", padded, lambda: Taught(Layer, hide_both))
class SeesTheAnswer(Taught):
    def __init__(self):
        super().__init__(Layer, hide)


# Rows that see nothing


@pair("a triangle without its diagonal", "blind", ids_only, hide_future)
def without_diagonal(scores, mask, number):
    visible = torch.tril(torch.ones(scores.shape[-2:], device=scores.device), diagonal=-1)
    return scores.masked_fill(visible == 0, HIDDEN)  # bug


@prepared("a sequence that is all padding", "blind", padded, lambda ids, mask: mask, hide, on_meta=False)
def all_padding(ids, mask):
    mask = mask.clone()
    mask[1] = 0
    return mask


@pair("a window and padding that leave nothing", "blind", padded, hide_both, on_meta=False)
def narrow_and_padded(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    near = (places[:, None] - places[None, :]).abs() < 2
    return hide(scores.masked_fill(~near, HIDDEN), mask, number)


# is_causal


@pair("is_causal with one new word", "misaligned", ids_only, attend_causal, base=Fused)
def one_new_word(q, k, v, mask, number):
    k, v = (torch.cat([one, one], dim=-2) for one in (k, v))
    return nn.functional.scaled_dot_product_attention(q[..., -1:, :], k, v, is_causal=True).expand_as(q)  # bug


@pair("is_causal with a few new words", "misaligned", ids_only, attend_causal, base=Fused)
def few_new_words(q, k, v, mask, number):
    k, v = (torch.cat([one[..., :3, :], one], dim=-2) for one in (k, v))
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # bug


@pair("a mask and is_causal", "overridden", padded, attend, base=Fused)
def mask_and_causal(q, k, v, mask, number):
    visible = mask[:, None, None, :].bool()
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=True)  # bug


# Windows and packed sequences


def window(width):
    def hide_far(scores, mask, number):
        places = torch.arange(scores.shape[-1], device=scores.device)
        away = places[:, None] - places[None, :]
        return scores.masked_fill((away < 0) | (away >= width), -1e9)

    return hide_far


@pair("a window one too wide", "window", ids_only, window(3), says={"sliding_window": 3})
def window_one_too_wide(scores, mask, number):
    places = torch.arange(scores.shape[-1], device=scores.device)
    away = places[:, None] - places[None, :]
    return scores.masked_fill((away < 0) | (away > 3), -1e9)  # bug


@pair("a window left out", "window", ids_only, window(3), says={"sliding_window": 3})
def window_left_out(scores, mask, number):
    return hide_future(scores, mask, number)


@pair("half a window", "window", ids_only, window(4), says={"window_size": 4})
def half_a_window(scores, mask, number):
    return window(2)(scores, mask, number)


DOCUMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2], [0] * 7])


def documents() -> dict[str, Any]:
    return {"ids": words(), "document_ids": DOCUMENTS}


def same_document(ids, mask, document_ids):
    return document_ids[:, None, :, None] == document_ids[:, None, None, :]


def hide_others(scores, mask, number):
    return hide_future(scores, mask, number).masked_fill(~mask, HIDDEN)


@pair("documents that see each other", "packed", documents, hide_others, prepare=same_document, on_meta=False)
def see_each_other(scores, mask, number):
    return hide_future(scores, mask, number)


@prepared("documents joined by or", "packed", documents, same_document, hide_others, on_meta=False)
def joined_by_or(ids, mask, document_ids):
    both = document_ids[:, None, :, None] == document_ids[:, None, None, :]
    return both | (document_ids[:, None, None, :] == 0)


def places() -> dict[str, Any]:
    return {"ids": words()[:1], "position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3]])}


def same_run(ids, mask, position_ids):
    runs = (position_ids == 0).cumsum(-1)
    return runs[:, None, :, None] == runs[:, None, None, :]


@pair(
    "places that begin anew, and one triangle for all", "packed", places, hide_others, prepare=same_run, on_meta=False
)
def one_triangle(scores, mask, number):
    return hide_future(scores, mask, number)


def ends() -> dict[str, Any]:
    return {"ids": words()[:1], "cu_seqlens": torch.tensor([0, 3, 7])}


def same_stretch(ids, mask, cu_seqlens):
    stretch = (torch.arange(ids.shape[1], device=ids.device)[:, None] >= cu_seqlens[None]).sum(-1)
    return (stretch[:, None] == stretch[None, :])[None, None]


@pair("ends that nobody minds", "packed", ends, hide_others, prepare=same_stretch, on_meta=False)
def unminded_ends(scores, mask, number):
    return hide_future(scores, mask, number)


# torch's own layers


class Encoder(nn.Module):
    """nn.TransformerEncoder between words and scores; `call` gives it its masks."""

    def __init__(self, call, layers=2, norm_first=False):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.call = call

    def forward(self, ids, attention_mask=None):
        return self.head(self.call(self.encoder, self.words(ids), ids, attention_mask))


def torch_pair(name, kind, inputs, good, **others):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Encoder(bad), lambda: Encoder(good), inputs, bad, **others))
        return bad

    return note


def encode_well(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=ids == PAD)


def encode_by_mask(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=mask == 0)


def encode_causally(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).triu(1))


@torch_pair("torch's encoder told what are words", "inverted", ids_only, encode_well)
def told_words(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=ids != PAD)


@torch_pair("torch's encoder given a library's mask", "inverted", padded, encode_by_mask, on_meta=False)
def given_a_librarys_mask(encoder, x, ids, mask):
    return encoder(x, src_key_padding_mask=mask.bool())


@torch_pair("torch's encoder given what is visible", "inverted", ids_only, encode_causally, on_meta=False)
def given_what_is_visible(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).tril())


@torch_pair("torch's encoder given no mask", "unreached", padded, encode_by_mask)
def given_no_mask(encoder, x, ids, mask):
    return encoder(x)


@torch_pair("torch's encoder one off", "future", ids_only, encode_causally, on_meta=False)
def torch_one_off(encoder, x, ids, mask):
    return encoder(x, mask=torch.ones(PLACES, PLACES, dtype=torch.bool, device=x.device).triu(2))


class Heads(nn.Module):
    """nn.MultiheadAttention between words and scores; `call` calls it."""

    def __init__(self, call):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.call = call

    def forward(self, ids, attention_mask=None):
        x = self.words(ids)
        return self.head(x + self.call(self.attention, x, ids, attention_mask)[0])


def heads_pair(name, kind, inputs, good, **others):
    def note(bad):
        PAIRS.append(Pair(name, kind, lambda: Heads(bad), lambda: Heads(good), inputs, bad, **others))
        return bad

    return note


def near(x):
    places = torch.arange(PLACES, device=x.device)
    return (places[:, None] - places[None, :]).abs() > 2


@heads_pair(
    "is_causal in the place of a window",
    "overridden",
    ids_only,
    lambda a, x, i, m: a(x, x, x, attn_mask=near(x)),
    on_meta=False,
    trains=True,
)
def causal_in_its_place(attention, x, ids, mask):
    return attention(x, x, x, attn_mask=near(x), is_causal=True, need_weights=False)  # bug


@heads_pair(
    "torch's heads told what are words", "inverted", ids_only, lambda a, x, i, m: a(x, x, x, key_padding_mask=i == PAD)
)
def heads_told_words(attention, x, ids, mask):
    return attention(x, x, x, key_padding_mask=ids != PAD)


@heads_pair(
    "a weak float mask in torch's heads", "weak", padded, lambda a, x, i, m: a(x, x, x, key_padding_mask=m == 0)
)
def weak_in_heads(attention, x, ids, mask):
    return attention(x, x, x, key_padding_mask=(1.0 - mask) * -2.0)


def trace_pair(one: Pair, build: Callable[[], nn.Module], device: str = "cpu") -> xray.Trace:
    """What one of the two models does, as far as it gets."""
    torch.manual_seed(0)
    with torch.device(device):
        model = build().train(one.trains)
    given = {name: value.to(device) for name, value in one.inputs().items()}
    try:
        with torch.set_grad_enabled(one.trains):
            return xray.trace(model, **given)
    except RuntimeError as error:
        found: xray.Trace = vars(error)["xray_trace"]
        return found
