"""From sources to a stored corpus: read as a stream, sifted, its vocabularies learnt, tokenised once."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, compress, islice
from pathlib import Path

from xray.config import EOS, SOS, Sharing, TextConfig
from xray.data.origin import Origin
from xray.data.pairs import Pair, Sieve
from xray.data.reading import BLOCK, Rows, open_rows
from xray.data.store import CorpusWriter
from xray.data.tokeniser import split_text
from xray.data.tokenisers import Tokenisers


@dataclass(frozen=True)
class Prepared:
    """What is known of a corpus once it is stored: `learnt` pairs come first, those only to measure on behind them.

    `digest` is the SHA-256 of all its texts.
    """

    tokenisers: Tokenisers
    learnt: int
    digest: str
    notes: tuple[str, ...]


def prepare_corpus(origin: Origin, text: TextConfig, sharing: Sharing, max_len: int, path: Path) -> Prepared:
    """Store at `path` the pairs of all sources that can be learnt, as text and as ids.

    The sources are gone through a few times, a block at a time, and never held in memory.

    Raises:
        DataError: a source cannot be read, or holds no pair that can be learnt.
    """
    with ExitStack() as opened:
        sources = [opened.enter_context(open_rows(source)) for source in origin.sources]
        notes = tuple(note for _, several in sources for note in several)
        parts = [rows for rows, _ in sources]
        learn, measure = parts[: len(origin.learn)], parts[len(origin.learn) :]
        sieve = Sieve(max_len)
        if text.tokeniser == "word":
            kept = [bytearray(passing(sieve, rows)) for rows in parts]
            sieve.notes(origin.name)
            tokenisers = Tokenisers.learn_streaming(lambda: all_pairs(learn, kept), text, sharing)
            found = chain(all_pairs(learn, kept), [None], all_pairs(measure, kept[len(learn) :]))
            storing = Storing(path, tokenisers, None)
        else:
            tokenisers = Tokenisers.learn_streaming(lambda: chain.from_iterable(learn), text, sharing)
            found = chain(chain.from_iterable(learn), [None], chain.from_iterable(measure))
            storing = Storing(path, tokenisers, sieve)
        learnt = storing.store(found)
        notes += sieve.notes(origin.name)
    return Prepared(tokenisers, learnt, storing.digest.hexdigest(), notes)


def passing(sieve: Sieve, rows: Rows) -> Iterator[bool]:
    """For every pair of words whether it can be learnt."""
    for pair in rows:
        yield sieve.passes(split_text(pair.question), split_text(pair.answer))


def all_pairs(parts: Iterable[Rows], kept: Iterable[bytearray]) -> Iterator[Pair]:
    """The pairs that were kept, of one source after the other."""
    for rows, flags in zip(parts, kept, strict=False):
        yield from compress(rows, flags)


class Storing:
    """A corpus on its way into its file; with a sieve, pairs with too many ids are left out on the way."""

    def __init__(self, path: Path, tokenisers: Tokenisers, sieve: Sieve | None) -> None:
        self.writer = CorpusWriter(path)
        self.tokenisers = tokenisers
        self.sieve = sieve
        self.digest = sha256()
        self.stored = 0

    def store(self, pairs: Iterable[Pair | None]) -> int:
        """Store all pairs; the number of those before the None that stands between the parts."""
        learnt, stream = 0, iter(pairs)
        while block := list(islice(stream, BLOCK)):
            if None in block:
                edge = block.index(None)
                self.store_block([pair for pair in block[:edge] if pair is not None])
                learnt = self.stored
                block = block[edge + 1 :]
            self.store_block([pair for pair in block if pair is not None])
        self.writer.close()
        return learnt

    def store_block(self, pairs: list[Pair]) -> None:
        """Tokenise and write a few pairs."""
        src = self.tokenisers.src.encode_many([pair.question for pair in pairs])
        tgt = self.tokenisers.tgt.encode_many([pair.answer for pair in pairs])
        if self.sieve is not None:
            passed = [self.sieve.passes(tuple(asked), tuple(said)) for asked, said in zip(src, tgt, strict=True)]
            pairs, src, tgt = (list(compress(column, passed)) for column in (pairs, src, tgt))  # type: ignore[assignment]
        if not pairs:
            return
        for pair in pairs:
            self.digest.update(("\0" if self.stored else "").encode())
            self.digest.update(f"{pair.question}\0{pair.answer}".encode())
            self.stored += 1
        self.writer.write(pairs, src, [[SOS, *ids, EOS] for ids in tgt])
