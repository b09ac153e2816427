"""What a run folder says about its run, besides the weights: settings, corpus, vocabularies, the poster's pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from xray.config import Count, ModelConfig, TextConfig, TokeniserKind, TrainConfig
from xray.data.pairs import Pair
from xray.data.reading import origin as origins
from xray.data.reading.origin import Origin, as_origin, file_digest, fingerprints
from xray.data.tokens.spelling import PieceSpelling, Spelling
from xray.data.tokens.tokenisers import Tokenisers, tokeniser_from_json
from xray.errors import ConfigError, RunError
from xray.learn.runs.checkpoint import wrong_format
from xray.learn.runs.run_folder import (
    ANSWERS,
    CORPUS,
    FORMAT,
    PAIRS,
    QUESTIONS,
    READABLE,
    RUN,
    SPELLING,
    TRAIN_AGAIN,
    RunFolder,
    digest,
    to_json,
    xray_version,
)
from xray.text import show_controls


@dataclass(frozen=True)
class RunFacts:
    """A run without its weights.

    `corpus` is the SHA-256 of all pairs, `held_out` the numbers of those not learnt, `files` the SHA-256 of every file
    of the corpus by its path, and `stored` that of the corpus as the run keeps it.
    """

    name: str
    model: ModelConfig
    training: TrainConfig
    text: TextConfig
    origin: Origin
    files: Mapping[str, str]
    corpus: str
    held_out: tuple[int, ...]
    tokenisers: Tokenisers
    poster: tuple[Pair, ...]
    suggestions: tuple[str, ...]
    stored: str = ""
    format: int = FORMAT


class RunTable(msgspec.Struct):
    """`run.json` as it is written; format 1 knew single files only, and kept no corpus."""

    format: int
    name: str
    model: dict[str, Any]
    training: dict[str, Any]
    corpus: str
    held_out: tuple[Count, ...]
    sha256: dict[str, str]
    text: dict[str, Any] = {}
    origin: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    files: dict[str, str] = {}
    stored: str = ""


class PairsTable(msgspec.Struct):
    """`pairs.json`: what the poster draws, and what to ask."""

    poster: Annotated[tuple[Pair, ...], msgspec.Meta(min_length=1)]
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
    run = {
        "format": FORMAT,
        "xray": xray_version(),
        "name": facts.name,
        "model": facts.model.to_dict(),
        "training": facts.training.to_dict(),
        "text": facts.text.to_dict(),
        "origin": origins.to_dict(facts.origin),
        "files": dict(facts.files),
        "corpus": facts.corpus,
        "held_out": list(facts.held_out),
        "sha256": {name: digest(data) for name, data in files.items()},
        "stored": file_digest(folder.path / CORPUS),
    }
    folder.write(RUN, to_json(run))


def read_run(folder: RunFolder) -> RunFacts:
    """What `write_run` wrote.

    Raises:
        RunError: there is no run, it is damaged, or another X-Ray made it.
    """
    folder.settle()
    if not folder.holds_run:
        raise RunError(f'no trained model in {folder.name}: run "xray train FILE.csv" first.')
    table = folder.read_json(RUN)
    if table.get("format") not in READABLE:
        raise RunError(wrong_format(folder.name, table))
    try:
        run = msgspec.convert(table, RunTable)
        files = {name: whole_file(folder, name, run.sha256[name]) for name in (QUESTIONS, ANSWERS, SPELLING, PAIRS)}
        text, pairs = TextConfig.from_dict(run.text), msgspec.json.decode(files[PAIRS], type=PairsTable)
        spelling = folder.read_json(SPELLING)
        src, tgt = (tokeniser_from_json(text.tokeniser, files[name].decode()) for name in (QUESTIONS, ANSWERS))
        facts = RunFacts(
            name=run.name,
            model=ModelConfig.from_dict(run.model),
            training=TrainConfig.from_dict(run.training),
            text=text,
            origin=read_origin(run),
            files=run.files,
            corpus=run.corpus,
            held_out=run.held_out,
            tokenisers=Tokenisers(src, tgt, read_spelling(text.tokeniser, spelling)),
            poster=pairs.poster,
            suggestions=pairs.suggestions,
            stored=run.stored,
            format=run.format,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ConfigError, msgspec.MsgspecError) as error:
        reason = show_controls(f"{type(error).__name__} {error}".rstrip("."))
        raise RunError(f"{folder.name}/{RUN} is damaged: {reason}. {TRAIN_AGAIN}") from error
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


def read_origin(run: RunTable) -> Origin:
    """Where the corpus of a run came from."""
    return origins.from_dict(run.origin) if run.origin is not None else as_origin(origins.read(run.source))


def read_spelling(kind: TokeniserKind, tables: dict[str, Any]) -> Spelling | PieceSpelling:
    """How the answers of a run are written."""
    return Spelling.from_dict(tables) if kind == "word" else PieceSpelling()


def check_corpus(folder: RunFolder, facts: RunFacts, given: Origin | None) -> None:
    """Make sure that the corpus kept in the run is whole, and that the files it came from still say the same.

    A file that is gone is not missed: the run keeps its pairs.

    Raises:
        RunError: the run is of an older format, its corpus is damaged, or a file has other contents.
    """
    if facts.format != FORMAT:
        raise RunError(wrong_format(folder.name, {"format": facts.format}))
    if not (folder.path / CORPUS).is_file() or file_digest(folder.path / CORPUS) != facts.stored:
        raise RunError(f"{folder.name}/{CORPUS} is damaged: it is not what training wrote. {TRAIN_AGAIN}")
    wanted = set(facts.files.values())
    for path, found in fingerprints(given or facts.origin).items():
        if wanted and found not in wanted:
            raise RunError(
                f"{show_controls(Path(path).name)} is not the corpus that {folder.name} was begun with, or has changed "
                "since. Give it the old one, or begin another run with --out."
            )


def check_wishes(folder: RunFolder, facts: RunFacts, wishes: Mapping[str, Any]) -> None:
    """A resumed run goes on as it began: name the first setting that is wished otherwise.

    Raises:
        RunError: there is one.
    """
    begun = facts.model.to_dict() | facts.training.to_dict() | facts.text.to_dict()
    begun["tgt_vocab"] = facts.text.tgt_limit or facts.model.tgt_vocab
    for name, wish in wishes.items():
        if name in begun and begun[name] != wish:
            raise RunError(
                f"{folder.name} was begun with {name}={begun[name]}, and --resume asks for {wish}. "
                "Leave the option out, or begin another run with --out."
            )
