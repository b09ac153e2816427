"""What the walk is made of: a chapter for each station, with its questions answered and the texts' disagreements."""

from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord

Text = tuple[str | TensorRecord, ...]
"""A sentence or more; where a record stands, its shape is to be shown in the hues of its axes."""

Phase = Literal["training", "inference", "forward"]


@dataclass(frozen=True)
class Answer:
    """A question that the station raises, answered."""

    question: str
    text: Text


@dataclass(frozen=True)
class Opinion:
    """What some texts say, and what it looks like; `is_used` where this run does so."""

    who: str
    says: str
    example: str
    is_used: bool


@dataclass(frozen=True)
class Debate:
    """A point on which the texts differ, with every side of it."""

    topic: str
    opinions: tuple[Opinion, ...]
    remark: str


@dataclass(frozen=True)
class Chapter:
    """One station told with the words and numbers of one run: in training, at one turn of inference, or in any forward.

    `steps` are the ids of the steps to look at, in order.
    """

    station: int
    title: str
    phase: Phase
    turn: int
    text: tuple[Text, ...]
    answers: tuple[Answer, ...]
    debates: tuple[Debate, ...]
    steps: tuple[str, ...]
