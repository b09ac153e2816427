"""The words that a tower reads, and the ids that they became: facts of a pass that was recorded with its tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.wording import PADDING

Rows = tuple[tuple[str, ...], ...]
TITLES = {"src": "QUESTIONS", "tgt": "ANSWERS"}


@dataclass(frozen=True)
class Words:
    """What a tower reads in words.

    `read` names the tokens that go in, `whole` those that they were cut from (the same where nothing is cut). `ids` is
    the step that has the whole rows as numbers, `shift` the one that cuts them into what is read and what is to be
    said. `record` are the ids that go in. Where each pass reads its own words, there is no step for the ids.
    """

    passes: tuple[Pass, ...]
    read: str
    whole: str
    record: TensorRecord
    lookup: Step
    ids: Step | None
    shift: Step | None

    @property
    def first(self) -> Pass:
        """The first pass."""
        return self.passes[0]

    @property
    def rows(self) -> Rows:
        """The words of every sequence, uncut."""
        return self.first.tokens.get(self.whole, ())

    @property
    def targets(self) -> Rows:
        """What is to be said at each place."""
        return self.first.tokens.get("targets", ()) if self.shift is not None else ()

    @property
    def title(self) -> str:
        """What the words are called."""
        return TITLES.get(self.whole, "WORDS")

    @property
    def is_answer(self) -> bool:
        """Whether each pass reads the answer so far, one word longer each time."""
        return self.first.kind == "decode"

    def read_in(self, one_pass: Pass) -> tuple[str, ...]:
        """The words that a pass reads, those of its first sequence."""
        return next(iter(one_pass.tokens.get(self.read, ())), ())

    def steps(self, step_id: str) -> list[tuple[int, Step]]:
        """A step in every pass that has it, with the pass's number."""
        return [(one.number, one.by_id[step_id]) for one in self.passes if step_id in one.by_id]

    @property
    def reads_newest(self) -> bool:
        """Whether every pass reads its newest word alone, because a cache holds what it needs of the others."""
        lengths = [step.inputs[0].shape[-1] for _, step in self.steps(self.lookup.id) if step.inputs]
        return len(lengths) > 1 and set(lengths) == {1}

    @property
    def grows(self) -> bool:
        """Whether each pass reads one word more than the one before it."""
        counts = [len(self.read_in(one_pass)) for one_pass in self.passes]
        return len(counts) > 1 and counts == list(range(counts[0], counts[0] + len(counts)))

    @property
    def is_shifted(self) -> bool:
        """Whether what is read is all but the last word of each row, and what is to be said all but the first."""
        reads, says = self.first.tokens.get(self.read, ()), self.targets
        pairs = zip(self.rows, reads, says, strict=False)
        return bool(reads) and bool(says) and all(row[:-1] == read and row[1:] == said for row, read, said in pairs)

    @property
    def is_padded(self) -> bool:
        """Whether rows are filled up to one length."""
        return any(PADDING in row for row in self.rows)

    def appending(self, one_pass: Pass) -> Step | None:
        """The step that puts a pass's new word behind what it read."""
        return next((step for step in one_pass.steps if step.op == "append" and step.outputs), None)


def find_words(flow: Flow, passes: Sequence[Pass], lookup: Step, record: TensorRecord, place: int) -> Words | None:
    """The words that became the ids which a step reads; None where the pass was recorded without."""
    tokens = flow.one_pass.tokens
    maker = next((made for one, made in flow.given(place) if one is record), None)
    chain = list(walk_back(flow, maker))
    names = [
        next((one.name for one in flow.steps[made].outputs if one.shape == record.shape), "") for made in chain[:1]
    ]
    read = next((name for name in names if name in tokens), "decoder_input")
    if read not in tokens:
        return None
    kept = [flow.steps[one] for one in chain if flow.steps[one].outputs[0].role == "ids"]
    ids = kept[-1] if kept and flow.one_pass.kind != "decode" else None
    shift = next((flow.steps[one] for one in chain if len(flow.steps[one].outputs) == 2), None)
    whole = ids.outputs[0].name if ids is not None and ids.outputs[0].name in tokens else read
    return Words(tuple(passes), read, whole, record, lookup, ids, shift)


def walk_back(flow: Flow, place: int | None) -> Iterator[int]:
    """The steps that some ids come from, one behind the other."""
    while place is not None and flow.steps[place].outputs:
        yield place
        place = next(iter(flow.makers[place]), None)
