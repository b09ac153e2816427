"""What may be asked of a model beside its name."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xray.sources.sizes import Wishes

TURNS = 4
"""So many words a model answers with, where nobody says how many."""


@dataclass(frozen=True)
class Asked:
    """What a model is to answer: a text, or None for made ids, and with how many words."""

    prompt: str | None = None
    turns: int = TURNS


@dataclass(frozen=True)
class Request:
    """What somebody asked of a model beside its name.

    `inputs` are written as on the command line and stand in for those that X-Ray would make. `kind` chooses among the
    library's classes for a model, as "causal-lm", `dtype` is the type of its weights, as "bfloat16". Code from the hub
    runs only with `trust_remote_code`. With `answer` it goes on word by word, instead of being called once.
    """

    inputs: Sequence[str] = ()
    meta: bool = False
    kind: str | None = None
    wishes: Wishes = field(default_factory=Wishes)
    trust_remote_code: bool = False
    dtype: str | None = None
    answer: Asked | None = None
