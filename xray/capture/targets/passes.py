"""What X-Ray records of its own transformer: one training step, and greedy inference word by word."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from xray.capture.recorder import Recorder
from xray.capture.values import PreviewRule
from xray.config import EOS, SOS
from xray.ir.records import Role
from xray.ir.trace import Trace
from xray.model.attention import explicit_attention
from xray.model.cache import LayerCache
from xray.model.choosing import AppendWord, NextWord
from xray.model.teaching import AnswerLoss, ShiftAnswer
from xray.model.transformer import Transformer

Words = tuple[tuple[str, ...], ...]
SpellIds = Callable[[Tensor], Words]
"""Words for the ids of a (batch, len) tensor, a row for each sequence."""


def record_training(
    model: Transformer,
    src: Tensor,
    tgt: Tensor,
    *,
    src_words: Words,
    tgt_words: Words,
    label_smoothing: float,
    preview: PreviewRule | None = None,
) -> Trace:
    """One training step: the shift, both masks, the way through the model, the loss, and the gradients it sends back.

    The model is left as it was: no gradient is stored, its train/eval flags and the random state are put back.

    Shapes:
        src: (batch, src_len)
        tgt: (batch, tgt_len + 1)
    """
    shift, loss = ShiftAnswer(), AnswerLoss(label_smoothing)
    tokens = {
        "src": src_words,
        "tgt": tgt_words,
        "decoder_input": tuple(row[:-1] for row in tgt_words),
        "targets": tuple(row[1:] for row in tgt_words),
    }
    recorder = Recorder(model, {"shift": shift, "loss": loss}, preview=preview)
    with (
        in_mode(model, training=True),
        explicit_attention(model),
        torch.enable_grad(),
        recorder,
        recorder.declared_pass("training", tokens=tokens),
    ):
        recorder.add_step("tokenize.src", "tokenize", outputs={"src": src})
        recorder.add_step("tokenize.tgt", "tokenize", outputs={"tgt": tgt})
        shifted = shift(tgt)
        value = loss(model(src, shifted.decoder_input), shifted.targets)
        parameters = dict(model.named_parameters())
        gradients = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        sent_back = {f"{n}.grad": g for n, g in zip(parameters, gradients, strict=True) if g is not None}
        roles: dict[str, Role] = dict.fromkeys(sent_back, "parameter")
        recorder.add_step("backward", "backward", inputs={"loss": value}, outputs=sent_back, roles=roles)
    return recorder.trace


def record_inference(
    model: Transformer,
    src: Tensor,
    *,
    src_words: Words,
    spell: SpellIds,
    max_turns: int,
    start_len: int = 1,
    cache: Sequence[LayerCache] | None = None,
    preview: PreviewRule | None = None,
) -> Trace:
    """Greedy inference: the question encoded once, then one turn for each new word until `<eos>` or `max_turns`.

    The answer starts as `start_len` times `<sos>`: one, unless only shapes matter. With a cache, each turn computes
    the newest word only.

    Shapes:
        src: (1, src_len)
    """
    next_word, append = NextWord(), AppendWord()
    recorder = Recorder(model, {"next_word": next_word, "append": append}, preview=preview)
    with in_mode(model, training=False), explicit_attention(model), torch.no_grad(), recorder:
        with recorder.declared_pass("encode", tokens={"src": src_words}):
            recorder.add_step("tokenize.src", "tokenize", outputs={"src": src})
            memory, src_mask = model.encode(src)
        answer = torch.full((len(src), start_len), SOS, device=src.device)
        for turn in range(1, max_turns + 1):
            tokens = {"decoder_input": spell(answer)}
            with recorder.declared_pass("decode", turn, tokens):
                if cache is None:
                    logits = model.decode(answer, memory, src_mask)
                else:
                    logits = model.decode_next(answer, memory, src_mask, cache)
                word = next_word(logits)
                answer = append(answer, word)
                tokens["new"] = spell(word)
            if answer.is_meta or bool((word == EOS).all()):
                break
    return recorder.trace


@contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Inside the block the model trains or not; after it every module's own flag and the random state are as before."""
    modules: Sequence[nn.Module] = list(model.modules())
    flags = [module.training for module in modules]
    devices = sorted({parameter.device.index for parameter in model.parameters() if parameter.is_cuda})
    with torch.random.fork_rng(devices=devices):
        try:
            model.train(training)
            yield
        finally:
            for module, flag in zip(modules, flags, strict=True):
                module.training = flag
