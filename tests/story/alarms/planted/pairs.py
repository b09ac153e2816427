"""Pairs of models, one with a bug in its masks and one without; `bug` marks the line to be found."""

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
    says, prepare = others.pop("says", {}), others.pop("prepare", None)

    def build(how: Any) -> nn.Module:
        return Stack(base, how, prepare, **says)

    return whole(name, kind, inputs, lambda: build(good), build, **others)


def prepared(
    name: str, kind: str, inputs: Callable[[], dict[str, Any]], good: Any, how: Any, base: Any = Layer, **others: Any
) -> Any:
    """Notes a function that makes the mask of all layers, with a bug."""
    says = others.pop("says", {})

    def build(prepare: Any) -> nn.Module:
        return Stack(base, how, prepare, **says)

    return whole(name, kind, inputs, lambda: build(good), build, **others)


def whole(
    name: str,
    kind: str,
    inputs: Callable[[], dict[str, Any]],
    good: Callable[[], nn.Module],
    build: Callable[[Any], nn.Module] = lambda bad: bad(),
    **others: Any,
) -> Any:
    """Notes a class of models with a bug, or what `build` makes a model with a bug of."""

    def note(bad: Any) -> Any:
        PAIRS.append(Pair(name, kind, lambda: build(bad), good, inputs, bad, **others))
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
