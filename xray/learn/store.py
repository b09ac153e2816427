"""What a run folder says about its run, besides the weights: settings, corpus, vocabularies, the poster's pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from xray.config import ModelConfig, TrainConfig
from xray.data.pairs import Pair
from xray.data.source import Source
from xray.data.spelling import Spelling
from xray.data.tokeniser import WordTokeniser
from xray.data.tokenisers import Tokenisers
from xray.errors import ConfigError, RunError
from xray.learn.checkpoint import wrong_format
from xray.learn.folder import (
    ANSWERS,
    FORMAT,
    PAIRS,
    QUESTIONS,
    RUN,
    SPELLING,
    TRAIN_AGAIN,
    RunFolder,
    digest,
    to_json,
    xray_version,
)


@dataclass(frozen=True)
class RunFacts:
    """A run without its weights; `corpus` is the SHA-256 of all pairs, `held_out` the numbers of those not learnt."""

    name: str
    model: ModelConfig
    training: TrainConfig
    source: Source
    corpus: str
    held_out: tuple[int, ...]
    tokenisers: Tokenisers
    poster: tuple[Pair, ...]
    suggestions: tuple[str, ...]


def write_run(folder: RunFolder, facts: RunFacts) -> None:
    """Write all files of a run but its weights; `run.json` comes last, with the SHA-256 of the others."""
    files = {
        QUESTIONS: facts.tokenisers.src.to_json().encode(),
        ANSWERS: facts.tokenisers.tgt.to_json().encode(),
        SPELLING: to_json(facts.tokenisers.spelling.to_dict()),
        PAIRS: to_json({"poster": [vars(pair) for pair in facts.poster], "suggestions": list(facts.suggestions)}),
    }
    for name, data in files.items():
        folder.write(name, data)
    source = facts.source
    run = {
        "format": FORMAT,
        "xray": xray_version(),
        "name": facts.name,
        "model": facts.model.to_dict(),
        "training": facts.training.to_dict(),
        "source": {**vars(source), "path": str(source.path.resolve())},
        "corpus": facts.corpus,
        "held_out": list(facts.held_out),
        "sha256": {name: digest(data) for name, data in files.items()},
    }
    folder.write(RUN, to_json(run))


def read_run(folder: RunFolder) -> RunFacts:
    """What `write_run` wrote.

    Raises:
        RunError: there is no run, it is damaged, or another X-Ray made it.
    """
    if not folder.holds_run:
        raise RunError(f'no trained model in {folder.name}: run "xray train FILE.csv" first.')
    run = folder.read_json(RUN)
    if run.get("format") != FORMAT:
        raise RunError(wrong_format(folder.name, run))
    try:
        files = {name: whole_file(folder, name, run["sha256"][name]) for name in (QUESTIONS, ANSWERS, SPELLING, PAIRS)}
        source = Source(**{**run["source"], "path": Path(run["source"]["path"])})
        spelling, pairs = folder.read_json(SPELLING), folder.read_json(PAIRS)
        src, tgt = (WordTokeniser.from_json(files[name].decode()) for name in (QUESTIONS, ANSWERS))
        facts = RunFacts(
            name=run["name"],
            model=ModelConfig.from_dict(run["model"]),
            training=TrainConfig.from_dict(run["training"]),
            source=source,
            corpus=run["corpus"],
            held_out=tuple(run["held_out"]),
            tokenisers=Tokenisers(src, tgt, Spelling.from_dict(spelling)),
            poster=tuple(Pair(**pair) for pair in pairs["poster"]),
            suggestions=tuple(pairs["suggestions"]),
        )
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise RunError(f"{folder.name}/{RUN} is damaged: {type(error).__name__} {error}. {TRAIN_AGAIN}") from error
    if (facts.model.src_vocab, facts.model.tgt_vocab) != (src.vocab, tgt.vocab):
        raise RunError(f"{folder.name}/{RUN} is damaged: its vocabularies are not those of its model. {TRAIN_AGAIN}")
    return facts


def whole_file(folder: RunFolder, name: str, sha256_written: str) -> bytes:
    """A file of the run, unchanged since it was written.

    Raises:
        RunError: it is missing or has changed.
    """
    data = folder.read(name)
    if digest(data) != sha256_written:
        raise RunError(f"{folder.name}/{name} is damaged: it is not what training wrote. {TRAIN_AGAIN}")
    return data


def corpus_digest(pairs: Sequence[Pair]) -> str:
    """The SHA-256 of all pairs in their order, by which a resumed run knows its corpus again."""
    return sha256("\0".join(text for pair in pairs for text in (pair.question, pair.answer)).encode()).hexdigest()


def check_wishes(folder: RunFolder, facts: RunFacts, wishes: Mapping[str, Any]) -> None:
    """A resumed run goes on as it began: name the first setting that is wished otherwise.

    Raises:
        RunError: there is one.
    """
    begun = facts.model.to_dict() | facts.training.to_dict()
    for name, wish in wishes.items():
        if name in begun and begun[name] != wish:
            raise RunError(
                f"{folder.name} was begun with {name}={begun[name]}, and --resume asks for {wish}. "
                "Leave the option out, or begin another run with --out."
            )
