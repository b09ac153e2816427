"""The kinds of alarms: what each is called, and what to do about it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from xray.ir.trace import Pass, PassKind, Step

AlarmKind = Literal[
    "unreached",
    "some layers",
    "overridden",
    "misaligned",
    "inverted",
    "future",
    "padding side",
    "mixed",
    "weak",
    "axis",
    "packed",
    "ends",
    "window",
    "spread",
    "blind",
    "nan",
    "infinite",
]

TITLES: dict[AlarmKind, str] = {
    "unreached": "a mask reaches no attention",
    "some layers": "a mask does not reach every layer",
    "overridden": "is_causal stands in for the mask",
    "misaligned": "a mask does not fit the cache",
    "inverted": "a mask hides what it should show",
    "future": "attention sees the future",
    "padding side": "padding stands between words",
    "mixed": "truth values are added like numbers",
    "weak": "a mask hides too little",
    "axis": "a mask lies along the wrong axis",
    "packed": "packed sequences see each other",
    "ends": "sequences do not end where the words do",
    "window": "a window is not as wide as set",
    "spread": "heads are laid out across places",
    "blind": "rows see nothing",
    "nan": "NaN begins",
    "infinite": "infinity begins",
}
"""What each kind is called in a heading."""

REMEDIES: dict[AlarmKind, str] = {
    "unreached": "Hand it on to the attention, or take it out of the arguments.",
    "some layers": "Hand the mask to every layer.",
    "overridden": "Give either the mask or is_causal=True, never both; what is_causal says must be part of the mask.",
    "misaligned": "With a cache leave is_causal out for one new word; for several give a mask that is "
    "aligned to the last key.",
    "inverted": "Turn the mask round (~mask, 1 - mask). nn.MultiheadAttention hides where True, "
    "scaled_dot_product_attention shows where True.",
    "future": "Hide the keys behind each query: tril(ones(len, len)) is visible, its diagonal included; add it to the "
    "padding mask.",
    "padding side": "Pad on the left for generation (padding_side='left'), so that each answer goes on "
    "at its last word.",
    "mixed": "Use a truth value with masked_fill, or turn it into 0 and a very negative number before it is added.",
    "weak": "Fill with float('-inf') or torch.finfo(scores.dtype).min, before the softmax.",
    "axis": "A key mask of (batch, keys) belongs to the last axis of the scores: mask[:, None, None, :].",
    "packed": "Let each word see its own sequence only: a mask with a block for each, or a kernel told of cu_seqlens.",
    "ends": "cu_seqlens begins at 0, adds up the lengths and ends at the number of words; max_seqlen is the longest "
    "length.",
    "window": "Query i sees the keys i - window + 1 to i: key > query - window.",
    "spread": "Turn places before heads first, if this is not meant: found.transpose(1, 2).reshape(batch, places, -1).",
    "blind": "Let each query see at least one key, itself for instance.",
    "nan": "Look at what goes into this step.",
    "infinite": "Look at what goes into this step.",
}
"""What to do about each kind."""


@dataclass(frozen=True)
class Alarm:
    """Something wrong at a step of a pass; `masks` are the masks that it is about, where it is about any."""

    kind: AlarmKind
    pass_kind: PassKind
    number: int
    step: str
    text: str
    location: str | None = None
    mask: str | None = None

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self.kind]

    def to_dict(self) -> dict[str, Any]:
        """Plain words for JSON."""
        return {**asdict(self), "remedy": self.remedy}


def alarm_at(one_pass: Pass, step: Step, kind: AlarmKind, text: str, mask: str | None = None) -> Alarm:
    """An alarm at a step, with its line of code; where that is torch's own, with the line that called torch."""
    here: Step | None = step
    while here is not None and (here.location is None or here.location.startswith("torch/")):
        here = one_pass.by_id.get(here.parent or "")
    line = step.location if here is None else here.location
    return Alarm(kind, one_pass.kind, one_pass.number, step.id, text, line, mask)
