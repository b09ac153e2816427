"""What True means in a mask, settled once it is known how the mask was used: guessed at first sight, proven later."""

from collections.abc import Iterable, Iterator

import torch

from xray.capture.calls import OpenCall, Seen
from xray.capture.masks.facts import SeenMask, is_far_below
from xray.capture.masks.spans import turn_spans
from xray.ir.records import Polarity

FILLS = frozenset({"masked_fill", "masked_fill_"})
MOVES = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "flatten", "expand", "expand_as", "index", "transpose", "permute"}
    | {"repeat", "repeat_interleave", "contiguous", "clone"}
    | {"to", "bool", "float", "int", "long", "type", "type_as"}
)
NEGATIONS = frozenset({"invert", "logical_not", "bitwise_not"})
PRODUCTS = frozenset({"mul", "mul_", "multiply"})
MOST_MOVES = 8
TURNED = bytes.maketrans(b"\x00\x01", b"\x01\x00")


def settle_masks(calls: Iterable[OpenCall]) -> dict[int, SeenMask]:
    """What masks hide that were first taken to say the opposite, by the identity of what was seen of them."""
    settled: dict[int, SeenMask] = {}
    makers: dict[int, OpenCall] = {}
    for call in calls:
        makers[call.serial] = call
        for seen in list_filled(call):
            for mask, polarity in list_sources(seen, makers):
                if mask.polarity not in (polarity, "additive") and mask.kind is None and id(mask) not in settled:
                    settled[id(mask)] = turn_round(mask, polarity)
    return settled


def list_filled(call: OpenCall) -> Iterator[Seen]:
    """The boolean tensors that say where a call fills something in, or what it makes very low where that is not 0."""
    given = {seen[0]: seen for seen in call.inputs}
    if call.op in PRODUCTS and len(given) == 1 and any(is_far_below(value) for _, value in call.options):
        yield call.inputs[0]
    name = "mask" if call.op in FILLS else "condition" if call.op == "where" and fills_where_true(call, given) else ""
    if name in given and given[name][1].dtype is torch.bool:
        yield given[name]


def fills_where_true(call: OpenCall, given: dict[str, Seen]) -> bool:
    """Whether `where` takes a single number where its condition is True, and a whole tensor elsewhere."""
    one, other = given.get("input"), given.get("other")
    return other is not None and len(other[1].shape) > 1 and (one is None or not one[1].shape)


def list_sources(seen: Seen, makers: dict[int, OpenCall]) -> Iterator[tuple[SeenMask, Polarity]]:
    """What was seen of a mask that hides where True, and of the tensors it was moved or negated from."""
    polarity: Polarity = "true_is_hidden"
    for _ in range(MOST_MOVES):
        known = seen[1]
        if known.mask is not None:
            yield known.mask, polarity
        maker = None if known.maker is None else makers.get(known.maker)
        if maker is None or not maker.inputs:
            return
        if maker.op in NEGATIONS or (maker.op == "rsub" and ("other", 1) in maker.options):
            polarity = "true_is_visible" if polarity == "true_is_hidden" else "true_is_hidden"
        elif maker.op not in MOVES:
            return
        seen = maker.inputs[0]


def turn_round(mask: SeenMask, polarity: Polarity) -> SeenMask:
    """The same mask read the other way; how many of its rows see nothing is not known if its cells were not kept."""
    visible = None if mask.visible is None else mask.visible.translate(TURNED)
    spans = None if mask.spans is None else turn_spans(mask.spans, mask.shape[-1])
    return SeenMask(mask.kind, polarity, mask.shape, visible, round(1 - mask.hidden_share, 6), None, spans)
