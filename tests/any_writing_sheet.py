"""What a sheet of a transformer in any hand-writing says that is not true."""

import re
from collections.abc import Iterator
from typing import Any

from any_writing import ROOM, SOURCE, VOCAB, Writing
from any_writing_truth import CAUSAL, PLACES, ROTARY, Lie, is_fused, list_parts, name_norm
from any_writing_whole import Whole
from story.body.arrows import list_unproven
from story.body.counted import count_in_boxes


def list_texts(layout) -> list[str]:
    """What each box of a sheet says."""
    return [
        " / ".join(
            "".join({"sup": "^", "sub": "_"}.get(run.shift or "", "") + run.text for run in line) for line in box.lines
        )
        for box in layout.boxes
    ]


def list_sheet_lies(how: Writing, model: Whole, layout) -> Iterator[Lie]:
    """What a sheet says falsely, by its words."""
    texts = list_texts(layout)
    both = how.kind in ("both", "beside")
    is_single = how.length == 1
    is_causal = how.mask in CAUSAL or is_single or how.past > 0
    is_masked = how.mask != "none" or how.cache == "whole"
    places = PLACES.get(how.extra)
    only_if = {
        r"never ahead|hides the future|look back": is_causal,
        r"every other": how.mask in ("none", "padding") or both or is_single,
        r"ROTATE|TURN|Rotary": how.positions in ROTARY,
        r"POSITIONS|PLACES|SINES": places == "relative" or how.positions in ("learned", "sines kept", "sines"),
        r"ALiBi": places == "alibi",
        r"Relative places": places == "relative",
        r"\+ bias|\+ BIAS": places is not None,
        r"capped|tanh\( ": how.extra == "cap",
        r"not divided by √d_k": how.scale == "none",
        r"[÷/] √d": how.scale not in ("none", "odd"),
        r"0\.37": how.scale == "odd",
        r"\+ mask": is_masked,
        r"MASK": is_masked,
        r"RMS": name_norm(how) == "rms" or how.head_norm,
        r"LAYER NORM|Layer norm": name_norm(how) == "layer",
        r"Gated feed-forward": how.gated != "no",
        r"GELU": "gelu" in how.curve and how.feed_forward != "none",
        r"QuickGELU": how.curve == "quick gelu",
        r"ReLU": "relu" in how.curve and how.feed_forward != "none",
        r"ReLU²": "relu squared" in how.curve,
        r"SiLU": "silu" in how.curve and how.feed_forward != "none",
        r"Sublayers side by side": how.parallel != "no",
        r"Layer scale": how.layer_scale,
        r"Grouped queries": how.sharing > 1,
        r"All layers use one": how.shared and how.layers > 1 and how.kind != "both",
        r"is also the last layer": how.tied != "no",
        r"at once": is_fused(how) or how.mask == "none",
        r"No places are added": how.positions == "none"
        and places is None
        and (how.mask in ("causal", "causal padding", "packed") or is_single or how.past > 0),
        r"LAST NORM|at the end": how.final_norm,
        r"before each sublayer": how.norm_place in ("before", "both"),
        r"after each": how.norm_place in ("after", "branch"),
        r"TO VOCABULARY|score for every word": how.head == "vocabulary",
        r"window|Window|WINDOW": how.mask in ("window", "sides", "blocks", "packed", "cut"),
        r"no more than": how.mask in ("window", "sides", "blocks", "packed", "cut"),
        r"padding": "padding" in how.mask or how.mask == "cut" or how.cache == "whole",
        r"[Cc]onvol": False,
        r"dropout 0.1, idle": how.dropout > 0 and not how.training,
        r"in one kernel|derived": how.product in ("sdpa", "module"),
        r"ONE LINEAR": is_fused(how) or how.gated.startswith("fused"),
        r"One linear layer": is_fused(how),
        r"wider and back": how.d_ff > how.width and how.feed_forward != "none",
        r"halves|HALVES": how.positions == "rotary halves",
        r"neighbours": how.positions in ("rotary pairs", "rotary complex") or how.token_shift != "no",
        r"[Ee]ach head turns": how.positions in ROTARY,
    }
    for pattern, is_true in only_if.items():
        yield from ((pattern, text) for text in texts if re.search(pattern, text) and not is_true)
    if how.layers > 1:
        yield from (
            ("layers", text)
            for text in texts
            if (found := re.search(r"LAYER × (\d+)", text)) and int(found[1]) != how.layers
        )
    total = sum(one.numel() for one in model.parameters())
    yield from (
        ("parameters", text)
        for text in texts
        if text.startswith("parameters ") and int(text.split()[1].replace(",", "")) != total
    )
    yield from list_share_lies(how, model, texts)
    yield from list_size_lies(how, texts)


PARTS = {"self-attention": "attention", "cross-attention": "crossing", "feed-forward": "feed_forward"}
SIZES = re.compile(r"([\d,]+) / ([\d,]+) = ([\d,]+)")


def list_size_lies(how: Writing, texts: list[str]) -> Iterator[Lie]:
    """What is said falsely of how wide a head is."""
    for text in texts:
        if "d_model / heads" in text and (found := SIZES.search(text)):
            wide, heads, each = (int(one.replace(",", "")) for one in found.groups())
            if (wide, heads, each) != (how.width, how.heads, how.head_width) or wide != heads * each:
                yield "d_model / heads", text
        if (found := re.search(r"heads (\d+) ", text)) and text.startswith("heads") and int(found[1]) != how.heads:
            yield "heads", text


def count_own(model: Whole, number: int, *, reading: bool, whole: bool) -> tuple[int, int]:
    """How many parameters a sublayer has, without what stands around it and with that."""
    layers: Any = (model.reads if reading and model.reads is not None else model.writes).rows
    some = layers if whole else layers[:1]
    least = sum(one.numel() for layer in some for one in layer.parts[number].parameters())
    beside = 0
    for layer in some:
        norms = list(layer.norms) if layer.how.parallel == "one norm" else layer.norms
        if layer.how.norm_place == "both":
            norms = list(layer.norms)[2 * number : 2 * number + 2]
        elif layer.how.parallel != "one norm" and layer.norms:
            norms = [layer.norms[number]]
        gains = [layer.gains[number]] if hasattr(layer, "gains") else []
        context = [layer.before_memory] if hasattr(layer, "before_memory") and number == 1 else []
        beside += sum(one.numel() for norm in [*norms, *context] for one in norm.parameters())
        beside += sum(one.numel() for one in gains)
    return least, least + beside


def list_share_lies(how: Writing, model: Whole, texts: list[str]) -> Iterator[Lie]:
    """Whether the parts of the card of parameters come to all there are, and each is its own."""
    if "WHERE THE PARAMETERS ARE" not in texts:
        return
    start = texts.index("WHERE THE PARAMETERS ARE") + 1
    end = texts.index("WHAT IT COSTS") if "WHAT IT COSTS" in texts else len(texts)
    told = [*zip(texts[start:end:2], texts[start + 1 : end : 2], strict=False)]
    numbers = {name: int(number.replace(",", "")) for name, number in told if re.fullmatch(r"[\d,]+", number)}
    if sum(numbers.values()) > sum(one.numel() for one in model.parameters()):
        yield "shares", texts[start:end]
    for name, number in numbers.items():
        found = re.fullmatch(r"(?:\w+ )?(self-attention|cross-attention|feed-forward) × \d+", name)
        if found is None:
            continue
        readings = (False, True) if how.kind == "both" else (False,)
        spans = [
            count_own(model, parts.index(PARTS[found[1]]), reading=reading, whole=True)
            for reading in readings
            if PARTS[found[1]] in (parts := list_parts(how, reading=reading))
        ]
        if not any(least <= number <= most for least, most in spans):
            yield "share", (name, number, spans)


def list_chart_lies(how: Writing, model: Whole, columns) -> Iterator[Lie]:
    """What charts show falsely: arrows, sizes of axes that have a name, parameters in boxes."""
    yield from (("arrow", one) for one in list_unproven(columns))
    places = {how.length, how.past + how.length, SOURCE, *((ROOM,) if how.cache == "whole" else ())}
    sizes = {
        "batch": {how.batch},
        "heads": {how.heads, *((1,) if how.projection in ("each head", "head modules") else ())},
        "kv_heads": {how.heads // how.sharing},
        "d_model": {how.width},
        "d_k": {how.head_width},
        "d_v": {how.value_width or how.head_width},
        "d_ff": {how.d_ff},
        "seq_len": places,
        "vocab": {VOCAB},
    }
    for column in columns:
        for chart in column.charts:
            for node in chart.nodes:
                record = node.record
                for word, size in zip(record.axes, record.shape, strict=True) if record is not None else ():
                    if size not in sizes.get(word, {size}):
                        yield f"axis {word}", (node.label, record.axes, record.shape)
        for frame in column.frames:
            for panel in frame.panels:
                if count_in_boxes(panel.chart) > panel.params:
                    yield "in boxes", (panel.station, count_in_boxes(panel.chart), panel.params)
