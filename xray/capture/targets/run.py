"""A chatbot under the X-ray: the same that answers, and a trace of what happens while it learns or answers."""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from xray.capture.axes.twin import Change, keep, name_axes
from xray.capture.targets.page_values import preview_for_page
from xray.capture.targets.passes import Words, record_inference, record_training
from xray.capture.targets.twins import check_twin
from xray.capture.values import PreviewRule, preview_everything_small
from xray.config import SPECIAL_TOKENS
from xray.data.tokens.tokeniser import Tokeniser
from xray.errors import UsageError
from xray.ir.trace import Pass, Setting, Trace
from xray.ir.twins import TWIN
from xray.ir.work import add_up_multiplications
from xray.learn.answers.chatbot import Chatbot
from xray.learn.runs.load import load_run, untrained_chatbot
from xray.learn.runs.run_folder import RunFolder
from xray.learn.threads import fitting_threads
from xray.model.lacking import LACKING, leave_out

Phase = Literal["training", "inference", "both"]
Values = Literal["few", "page"]
PREVIEWS: dict[str, PreviewRule] = {"few": preview_everything_small, "page": preview_for_page}
CANDIDATES = 10
"""How many words that might have come next are noted in every turn."""
DEFAULT_QUESTION = "What's your favourite character in The Expanse series?"
USUAL_RUN = Path("runs/movie_qa")
"""The run folder of `xray demo`."""
DEFAULT_TURNS = 20
"""The most words that an answer may have in a trace, `<eos>` included."""


@dataclass(frozen=True)
class Run:
    """A chatbot, trained or not, that answers and that can be traced."""

    chatbot: Chatbot

    def __repr__(self) -> str:
        config, taught = self.chatbot.config, "trained" if self.chatbot.trained else "untrained, its words are chance"
        layers = f"{config.encoder_layers}+{config.decoder_layers} layers"
        sizes = f"{layers}, {config.heads} heads, d_model {config.d_model}, {config.tgt_vocab:,} words out"
        return f"Run({self.chatbot.name!r}: {taught}; {sizes})"

    def answer(self, question: str) -> str:
        """The greedy answer to a question.

        Raises:
            UsageError: the question is empty.
        """
        check_question(question)
        return self.chatbot.answer(question)

    def trace(
        self,
        phase: Phase = "both",
        question: str | None = None,
        max_turns: int = DEFAULT_TURNS,
        *,
        kv_cache: bool = False,
        values: Values = "few",
        twin: str | None = None,
    ) -> Trace:
        """Every tensor shape and every mask of a training step on the first pairs of the corpus, of an answer, or both.

        With `kv_cache` the answer is decoded as real systems do it, one query row a turn against growing keys.
        Of the values a "few" are kept: ids, the attention of the first sequence, single numbers. A "page" keeps a block
        of every tensor and what the whole of it comes to. Recording takes the explicit path through attention and
        leaves the chatbot, its gradients and all random state as they were. A `twin` is the same chatbot with one thing
        changed, the same weights and the same question: "kv-cache", "no-cross-mask", "no-scale" and others.

        Raises:
            UsageError: the phase is unknown, the question is empty, or there is no such twin of this chatbot.
            TraceError: the recorded shapes contradict the configuration.
        """
        if phase not in get_args(Phase):
            raise UsageError(f"the phase {phase!r} is unknown. Choose {', '.join(get_args(Phase))}.")
        if not isinstance(values, str) or values not in PREVIEWS:
            raise UsageError(f"values={values!r} is unknown. Choose {' or '.join(PREVIEWS)}.")
        if type(max_turns) is not int or max_turns < 1:
            raise UsageError(f"max_turns={max_turns!r} is out of range. It must be a whole number from 1 on.")
        asked = self.default_question if question is None else question
        check_question(asked)
        if twin is not None:
            check_twin(twin, self.chatbot.config, phase, kv_cache=kv_cache)
        if twin is None or twin not in LACKING:
            caches = kv_cache if twin is None else twin == "kv-cache"
            found = self._trace(phase, asked, max_turns, kv_cache=caches, values=values)
        else:
            change = partial(leave_out, lacking=twin)
            other = Run(replace(self.chatbot, model=change(self.chatbot.model)))
            found = other._trace(phase, asked, max_turns, kv_cache=kv_cache, values=values, change=change)
        return found if twin is None else replace(found, config={**found.config, TWIN: twin})

    def _trace(
        self,
        phase: Phase,
        asked: str,
        max_turns: int,
        *,
        kv_cache: bool,
        values: Values,
        change: Change = keep,
    ) -> Trace:
        recorded: list[Trace] = []
        preview = PREVIEWS[values]
        with fitting_threads(self.chatbot.config):
            if phase != "inference":
                recorded.append(self._trace_training(preview))
            if phase != "training":
                recorded.append(self._trace_inference(asked, max_turns, kv_cache, preview))
        passes = tuple(one_pass for one in recorded for one_pass in one.passes)
        passes = name_axes(passes, self.chatbot.config, kv_cache=kv_cache, change=change)
        config: dict[str, Setting] = {
            **self.chatbot.config.to_dict(),
            "label_smoothing": self.chatbot.label_smoothing,
            "batch": self.chatbot.batch,
            "batch_tokens": self.chatbot.batch_tokens,
            "trained": self.chatbot.trained,
            "run": self.chatbot.name if self.chatbot.trained else None,
            "device": str(self.chatbot.device),
            "torch": str(torch.__version__),
        }
        if phase != "training":
            config |= {"question": asked, "answer": self._answer_of(passes), "kv_cache": kv_cache}
        if kv_cache and phase != "training":
            config |= self._count_savings(passes)
        unused = next((one.unused for one in recorded if one.unused == {}), None)
        sizes = self._sizes(passes)
        return Trace(title="X-Ray Transformer", sizes=sizes, config=config, passes=passes, unused=unused)

    @property
    def default_question(self) -> str:
        """What is asked where nobody asks: the usual question, or one of its own where it knows not all its words."""
        tokens = self.chatbot.tokenisers
        usual = tokens.kind == "word" and not self.chatbot.read(DEFAULT_QUESTION).unknown
        return DEFAULT_QUESTION if usual else self.chatbot.own_question

    def notes(self, question: str | None = None) -> tuple[str, ...]:
        """What a user should know before the question is answered: words that are unknown, words that were cut.

        Raises:
            UsageError: the question is empty.
        """
        read = self.chatbot.read(self.default_question if question is None else question)
        notes = []
        if read.unknown and self.chatbot.trained:
            shown = ", ".join(dict.fromkeys(read.unknown))
            notes.append(f"{len(read.unknown)} of {len(read.words)} words are unknown to this chatbot (<unk>): {shown}")
        if read.cut:
            notes.append(
                f"the question is longer than {self.chatbot.config.max_len} tokens; the last {read.cut} were cut"
            )
        return tuple(notes)

    def _trace_training(self, preview: PreviewRule) -> Trace:
        batch = self.chatbot.poster_batch()
        return record_training(
            self.chatbot.model,
            batch.src,
            batch.tgt,
            src_words=batch.src_words,
            tgt_words=batch.tgt_words,
            label_smoothing=self.chatbot.label_smoothing,
            preview=preview,
        )

    def _trace_inference(self, question: str, max_turns: int, kv_cache: bool, preview: PreviewRule) -> Trace:
        src, read = self.chatbot.question_batch(question)
        tgt = self.chatbot.tokenisers.tgt
        answered = record_inference(
            self.chatbot.model,
            src,
            src_words=(read.seen,),
            spell=lambda ids: spell_ids(ids, tgt),
            max_turns=min(max_turns, self.chatbot.config.max_len),
            cache=self.chatbot.model.make_cache() if kv_cache else None,
            preview=preview,
        )
        return replace(answered, passes=tuple(note_candidates(one, tgt) for one in answered.passes))

    def _count_savings(self, passes: tuple[Pass, ...]) -> dict[str, Setting]:
        """The multiplications of an answer with the cache, and of the same answer computed anew in every turn.

        Recomputing is recorded from other words, as many: only shapes count.
        """
        cached = [one for one in passes if one.kind in ("encode", "decode")]
        turns = [one for one in cached if one.kind == "decode"]
        src = torch.zeros(1, cached[0].sizes["src_len"], dtype=torch.long, device=self.chatbot.device)
        recomputed = 0
        for turn in turns:
            plain = record_inference(
                self.chatbot.model, src, src_words=(), spell=lambda _: (), max_turns=1, start_len=turn.number
            )
            recomputed += sum(
                add_up_multiplications(one) for one in plain.passes if turn.number == 1 or one.kind == "decode"
            )
        return {
            "multiplications": sum(add_up_multiplications(one) for one in cached),
            "multiplications_without_cache": recomputed,
        }

    def _answer_of(self, passes: tuple[Pass, ...]) -> str:
        words = [one.tokens["new"][0][0] for one in passes if one.kind == "decode"]
        return self.chatbot.tokenisers.spelling.write([word for word in words if word not in SPECIAL_TOKENS[1:]])

    def _sizes(self, passes: tuple[Pass, ...]) -> dict[str, int]:
        config = self.chatbot.config
        lengths: dict[str, int] = {}
        for one in passes:
            lengths = {**one.sizes, **lengths}
        return {
            "batch": lengths["batch"],
            "heads": config.heads,
            "encoder_layers": config.encoder_layers,
            "decoder_layers": config.decoder_layers,
            "d_model": config.d_model,
            "d_k": config.d_k,
            "d_ff": config.d_ff,
            "src_vocab": config.src_vocab,
            "tgt_vocab": config.tgt_vocab,
            "src_len": lengths["src_len"],
            "tgt_len": lengths["tgt_len"],
        }


def load(folder: str | Path | None = None, device: str = "auto") -> Run:
    """The trained chatbot in a run folder, as `xray train` left it.

    Without a folder it is the one that `xray demo` left in runs/movie_qa, here or in a folder above; where there is
    none, an untrained chatbot and a warning: its shapes are exact, its words are chance.

    Raises:
        RunError: there is no trained model in the folder, or its files are damaged.
        UsageError: the folder is no path.
    """
    if folder is None:
        folder = find_usual_run()
    if folder is None:
        warnings.warn(
            f"no trained chatbot in {USUAL_RUN} here or above, so this one is untrained: its shapes are exact, its "
            "words are chance. To train one: xray demo",
            stacklevel=2,
        )
        return make_untrained(device)
    if not isinstance(folder, str | Path):
        raise UsageError(f"a {type(folder).__name__} is no run folder. Give its path, as in runs/movie_qa.")
    return Run(load_run(Path(folder), device=device))


def find_usual_run() -> Path | None:
    """Where `xray demo` left its chatbot: in this folder, or in the nearest one above."""
    here = Path.cwd()
    return next((place / USUAL_RUN for place in (here, *here.parents) if RunFolder(place / USUAL_RUN).holds_run), None)


def check_question(question: object) -> None:
    """Make sure that a question is a text.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(question, str):
        raise UsageError(f'the question is a {type(question).__name__}. Ask with words, as in "Who is Ripley?".')


def make_untrained(device: str = "auto") -> Run:
    """A chatbot with the default sizes and random weights: exact in its shapes, foolish in its answers.

    Raises:
        DataError: the corpus that gives it its words is missing from the installation.
    """
    return Run(untrained_chatbot(device=device))


def note_candidates(one_pass: Pass, tokeniser: Tokeniser) -> Pass:
    """A decode pass with the words that might have come next, the likeliest first, under "candidates"."""
    step = one_pass.by_id.get("next_word.softmax#0")
    preview = step.outputs[0].preview if step is not None and step.outputs else None
    if preview is None or not all(isinstance(value, float) for value in preview.values):
        return one_pass
    chances = [float(value) for value in preview.values]
    best = sorted(range(len(chances)), key=lambda number: -chances[number])[:CANDIDATES]
    return replace(one_pass, tokens={**one_pass.tokens, "candidates": (tuple(tokeniser.words(best)),)})


def spell_ids(ids: Tensor, tokeniser: Tokeniser) -> Words:
    """The words for a tensor of ids (batch, len), a row for each sequence."""
    return tuple(tuple(tokeniser.words(row)) for row in ids.tolist())
