"""An answer of a model of the library: what it is asked, how it goes on word by word, and what its ids spell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from torch import nn

from xray.capture.targets.inputs import Target
from xray.errors import TraceError
from xray.ir.records import Preview
from xray.ir.trace import Pass, Setting, Step, Trace, count
from xray.sources.library import list_kinds, list_some
from xray.sources.sizes import SETTINGS, find_setting
from xray.sources.tokenising import Tokeniser
from xray.sources.ways import WITHOUT_STORAGE
from xray.text import show_controls

DECODER_IDS = "decoder_input_ids"
READ = ("input_ids", DECODER_IDS)
"""The arguments by which a model is given what it reads."""


@dataclass(frozen=True)
class Prompt:
    """What a model goes on from: a text and its ids, or nothing, and then `made` says why ids are made for it."""

    text: str = ""
    ids: tuple[int, ...] = ()
    made: str = ""


def read_prompt(text: str | None, tokeniser: Tokeniser | None, name: str) -> Prompt:
    """The prompt with its ids, as far as there is somebody to make ids of words.

    Raises:
        TraceError: the text has no ids.
    """
    if text is None:
        return Prompt(made="as none was asked for")
    if tokeniser is None:
        return Prompt(made="as it has no tokenizer.json that can be read")
    ids = tokeniser.encode(text)
    if not ids:
        raise TraceError(f"the tokenizer of {show_controls(name)} makes no ids of {show_controls(text)!r}. Ask more.")
    return Prompt(text, ids)


def check_writes(model: nn.Module, name: str) -> None:
    """Make sure that a model goes on word by word.

    Raises:
        TraceError: it does not; the message names those of its kind that do.
    """
    can = getattr(model, "can_generate", None)
    if can is not None and can():
        return
    kinds = list_kinds(import_module("transformers"), getattr(model, "config", None))
    writing = {kind: one for kind, one in kinds.items() if getattr(one, "can_generate", bool)()}
    advice = f"Choose one that does: --as {list_some(writing)}." if writing else "Leave out --phase and --ask."
    raise TraceError(f"{show_controls(name)} as {type(model).__name__} does not answer word by word. {advice}")


def let_answer(target: Target, prompt: Prompt, turns: int, tokeniser: Tokeniser | None) -> Target:
    """The target and all behind it as they answer the prompt, instead of being called once."""
    has_numbers = target.told != WITHOUT_STORAGE
    finish = target.finish or (lambda trace: trace)
    asked = f"{count(prompt.ids, 'id', 'ids')} of its tokenizer" if prompt.ids else f"made ids, {prompt.made}"
    chosen = "those that chance weights like best" if has_numbers else "not chosen, as that takes numbers"

    def go_on(error: BaseException) -> Target | None:
        other = target.otherwise(error) if target.otherwise is not None else None
        return None if other is None else let_answer(other, prompt, turns, tokeniser)

    return replace(
        target,
        kwargs={name: value for name, value in target.kwargs.items() if name != DECODER_IDS},
        axes={},  # by whatever names generate hands on what it was given
        call=partial(write, turns=turns),
        finish=lambda trace: note_answer(finish(trace), prompt, turns, tokeniser, has_numbers=has_numbers),
        told=f"{target.told}; its prompt is {asked}, its {turns} new words are {chosen}",
        otherwise=go_on,
    )


def write(model: Any, turns: int, **given: Any) -> object:
    """So many turns of a model's own `generate`, always the likeliest word.

    It ends after the last turn, not at an end sign: without trained weights that would be a matter of chance.
    """
    settings = model.generation_config
    settings.eos_token_id = None
    starts = (settings.decoder_start_token_id, settings.bos_token_id)
    if getattr(model.config, "is_encoder_decoder", False) and starts == (None, None):
        settings.decoder_start_token_id = 0
    return model.generate(**given, max_new_tokens=turns, do_sample=False, num_beams=1)


def note_answer(trace: Trace, prompt: Prompt, turns: int, tokeniser: Tokeniser | None, *, has_numbers: bool) -> Trace:
    """The trace with what was asked and how it was answered, and the words of its ids where somebody can spell them."""
    config: dict[str, Setting] = {
        "prompt": prompt.text if prompt.ids else f"made ids, {prompt.made}",
        "new_words": turns,
        "chosen": "by chance weights" if has_numbers else "not at all, for want of numbers",
    }
    passes = trace.passes if tokeniser is None or not prompt.ids else [spell(one, tokeniser) for one in trace.passes]
    return replace(trace, config={**trace.config, **config}, passes=tuple(passes))


def spell(one_pass: Pass, tokeniser: Tokeniser) -> Pass:
    """A pass with the words that its model read, and with the one that was chosen, where their ids are known."""
    root = next((step for step in one_pass.steps if step.id in one_pass.blocks), None)
    given = [] if root is None else [one.preview for one in root.inputs if one.name in READ]
    chosen = [step for step in one_pass.steps if is_choice(step)]
    found = {"input": given[:1], "new": [chosen[-1].outputs[0].preview] if chosen else []}
    tokens = {name: rows for name, previews in found.items() for rows in spell_rows(previews, tokeniser)}
    return replace(one_pass, tokens={**one_pass.tokens, **tokens})


def is_choice(step: Step) -> bool:
    """Whether a step outside of the model picks the next word."""
    return step.parent is None and step.op == "argmax" and bool(step.outputs)


def spell_rows(previews: Sequence[Preview | None], tokeniser: Tokeniser) -> list[tuple[tuple[str, ...], ...]]:
    """The words of ids, a row for each sequence; none where the values were not kept."""
    rows = []
    for preview in previews:
        if preview is not None and preview.values and len(preview.shape) <= 2:
            listed = preview.rows() if len(preview.shape) == 2 else [(value,) for value in preview.values]
            rows.append(tuple(tokeniser.spell([int(value) for value in row]) for row in listed))
    return rows


def check_vocabulary(prompt: Prompt, config: Any, name: str) -> None:
    """Make sure that the model has a place for every id of the prompt.

    Raises:
        TraceError: the tokenizer is that of another model.
    """
    words = find_setting(config, SETTINGS["vocab"].names, SETTINGS["vocab"].of)
    most = max(prompt.ids, default=0)
    if isinstance(words, int) and most >= words:
        raise TraceError(
            f"the tokenizer of {show_controls(name)} makes id {most:,}, and its settings have {words:,} words. "
            "Put the tokenizer of this model there."
        )
