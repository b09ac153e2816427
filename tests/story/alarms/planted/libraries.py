"""Bugs planted in the masks of transformers' models, by forwards wrapped or replaced as people do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import xray

VOCAB = 31
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 12,
    "intermediate_size": 20,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass
class Pair:
    """A bug of a kind: how the model that has it is recorded, and the one that has not."""

    name: str
    kind: str
    record: Callable[[bool], xray.Trace]


PAIRS: list[Pair] = []


def pair(name: str, kind: str) -> Any:
    """Notes a function that records a model, with the bug or without it."""

    def note(record: Callable[[bool], xray.Trace]) -> Callable[[bool], xray.Trace]:
        PAIRS.append(Pair(name, kind, record))
        return record

    return note


def words() -> torch.Tensor:
    return torch.randint(3, VOCAB, (2, 7), generator=torch.Generator().manual_seed(3))


def padding(*, left: bool = False) -> torch.Tensor:
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, slice(0, 3) if left else slice(4, 7)] = 0
    return mask


def run(model: nn.Module, **given: Any) -> xray.Trace:
    with torch.no_grad():
        return xray.trace(model.eval(), **given)


def make_bert() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {name: size for name, size in SIZES.items() if name not in ("num_key_value_heads", "head_dim")}
    torch.manual_seed(0)
    return BertForMaskedLM(BertConfig(**sizes))


def make_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def make_mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=3))


def make_gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=12, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2))


class Wrapped(nn.Module):
    """A model of a library inside one's own, which is given the mask or not."""

    def __init__(self, model: nn.Module, hand_on: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.model, self.hand_on = model, hand_on

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=ids, attention_mask=self.hand_on(attention_mask)).logits


def replace_mask(module: Any, change: Callable[[Any], Any]) -> None:
    """A module that sees another mask than it is given."""
    forward = module.forward

    def changed(*args: Any, **given: Any) -> Any:
        if "attention_mask" in given:
            given["attention_mask"] = change(given["attention_mask"])
            return forward(*args, **given)
        return forward(args[0], change(args[1]), *args[2:], **given)

    module.forward = changed


@pair("BERT inside a model that forgets the mask", "unreached")
def forget(bug: bool) -> xray.Trace:
    return run(Wrapped(make_bert(), lambda mask: None if bug else mask), ids=words(), attention_mask=padding())


@pair("Llama inside a model that forgets the mask", "unreached")
def forget_in_llama(bug: bool) -> xray.Trace:
    return run(Wrapped(make_llama(), lambda mask: None if bug else mask), ids=words(), attention_mask=padding())


@pair("BERT given ones instead of the mask", "unreached")
def all_ones(bug: bool) -> xray.Trace:
    def hand_on(mask: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(mask) if bug else mask

    return run(Wrapped(make_bert(), hand_on), ids=words(), attention_mask=padding())


@pair("BERT given the mask turned round", "inverted")
def turned_round(bug: bool) -> xray.Trace:
    return run(Wrapped(make_bert(), lambda mask: 1 - mask if bug else mask), ids=words(), attention_mask=padding())


@pair("one layer of BERT without its mask", "some layers")
def one_layer(bug: bool) -> xray.Trace:
    model = make_bert()
    if bug:
        replace_mask(model.bert.encoder.layer[1].attention, lambda mask: None)
    return run(model, input_ids=words(), attention_mask=padding())


@pair("one layer of Llama without its mask", "some layers")
def one_layer_of_llama(bug: bool) -> xray.Trace:
    model = make_llama()
    if bug:
        replace_mask(model.model.layers[2].self_attn, lambda mask: None)
    return run(model, input_ids=words(), attention_mask=padding())


@pair("Llama's layers shown one key too many", "future")
def one_too_many(bug: bool) -> xray.Trace:
    model = make_llama()
    for layer in model.model.layers:
        replace_mask(layer.self_attn, lambda mask: triangle(1 if bug else 0))
    return run(model, input_ids=words())


def triangle(diagonal: int) -> torch.Tensor:
    return torch.ones(1, 1, 7, 7, dtype=torch.bool).tril(diagonal)


@pair("Llama's layers shown everything", "future")
def everything(bug: bool) -> xray.Trace:
    model = make_llama()
    for layer in model.model.layers:
        replace_mask(layer.self_attn, lambda mask: triangle(7 if bug else 0))
    return run(model, input_ids=words())


@pair("Llama's triangle turned round", "inverted")
def turned_triangle(bug: bool) -> xray.Trace:
    model = make_llama()
    for layer in model.model.layers:
        replace_mask(layer.self_attn, lambda mask: ~triangle(0) if bug else triangle(0))
    return run(model, input_ids=words())


@pair("Mistral's window one too wide", "window")
def wide_window(bug: bool) -> xray.Trace:
    model = make_mistral()
    for layer in model.model.layers:
        replace_mask(layer.self_attn, lambda mask: triangle(0).triu(-3 if bug else -2))
    return run(model, input_ids=words())


@pair("GPT-2 writing on behind padding", "padding side")
def padded_right(bug: bool) -> xray.Trace:
    model = make_gpt2().eval()
    with torch.no_grad(), xray.record(model) as recorder:
        model.generate(
            input_ids=words(), attention_mask=padding(left=not bug), max_new_tokens=3, min_new_tokens=3, do_sample=False
        )
    return recorder.trace


@pair("GPT-2 writing on behind padding without a cache", "padding side")
def padded_right_without_cache(bug: bool) -> xray.Trace:
    model = make_gpt2().eval()
    given = {"input_ids": words(), "attention_mask": padding(left=not bug), "use_cache": False}
    with torch.no_grad(), xray.record(model) as recorder:
        model.generate(**given, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    return recorder.trace


@pair("a loop of one's own that writes on behind padding", "padding side")
def loop_behind_padding(bug: bool) -> xray.Trace:
    model, ids, mask = make_gpt2().eval(), words(), padding(left=not bug)
    with torch.no_grad(), xray.record(model) as recorder:
        for _ in range(2):
            new = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, -1:].argmax(-1)
            ids, mask = torch.cat([ids, new], 1), torch.cat([mask, torch.ones_like(new)], 1)
    return recorder.trace


@pair("Llama writing on behind padding", "padding side")
def padded_right_in_llama(bug: bool) -> xray.Trace:
    model = make_llama().eval()
    with torch.no_grad(), xray.record(model) as recorder:
        model.generate(
            input_ids=words(), attention_mask=padding(left=not bug), max_new_tokens=3, min_new_tokens=3, do_sample=False
        )
    return recorder.trace


@pair("packed rows that Llama is not told of", "packed")
def packed(bug: bool) -> xray.Trace:
    model = make_llama()
    if bug:  # a mask of one's own switches off what the library reads from the places
        for layer in model.model.layers:
            replace_mask(layer.self_attn, lambda mask: triangle(0))
    return run(model, input_ids=words()[:1], position_ids=torch.tensor([[0, 1, 2, 0, 1, 2, 3]]), use_cache=False)


@pair("packed rows, and a mask of ones that switches off how Llama reads them", "packed")
def packed_with_ones(bug: bool) -> xray.Trace:
    given = {"input_ids": words()[:1], "position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3]]), "use_cache": False}
    return run(make_llama(), **given, **({"attention_mask": torch.ones(1, 7, dtype=torch.long)} if bug else {}))


@pair("Llama given ones and zeros to add", "mixed")
def ones_and_zeros(bug: bool) -> xray.Trace:
    keep = torch.ones(1, 1, 7, 7).tril()
    mask = keep if bug else (1 - keep) * torch.finfo(torch.float32).min
    return run(make_llama(), input_ids=words(), attention_mask=mask, use_cache=False)
