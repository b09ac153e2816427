"""What is_causal of a fused attention does to a mask that was given too, and beside a cache."""

from collections.abc import Iterator, Sequence

import numpy as np

from xray.ir.flow.attention_sites import Site, count_pairs
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, JOINS, REPEATS
from xray.ir.trace import Step
from xray.story.alarms.arguments import given_values
from xray.story.alarms.bench import Bench, mark_hidden
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.alarms.squares import Square, joint
from xray.story.recognition.values.mask_cells import read_cells
from xray.story.recognition.values.value_shapes import Values

FUSED = frozenset({"scaled_dot_product_attention"})


def check_kernels(flow: Flow, sites: Sequence[Site]) -> Iterator[Alarm]:
    """The alarms of is_causal."""
    yield from check_both(flow)
    for site in sites:
        kernel = kernel_of(flow, site)
        if kernel is None or kernel.settings.get("is_causal") is not True:
            continue
        scores = flow.output(site.scores).shape
        queries, keys = count_pairs(flow, site)
        given = flow.one_pass.by_id.get(kernel.parent or "")
        found = find_overridden(flow, site, kernel)
        if found is not None:
            yield found
        elif queries < keys and joins_cache(flow, site) and given is not None:
            sees = "the oldest key alone" if queries == 1 else f"the {queries} oldest keys at most"
            text = (
                f"is_causal=True counts from the first key: of the {keys} keys the {queries} queries of {scores} see "
                f"{sees}."
            )
            yield alarm_at(flow.one_pass, kernel, "misaligned", text)


def check_aligned(flow: Flow, squares: Sequence[Square]) -> Iterator[Alarm]:
    """Masks that count queries from the first key, where keys that were kept stand before them."""
    for square in squares:
        cells, site = square.cells, square.site
        if cells is None or not 0 < cells.shape[-2] < cells.shape[-1]:
            continue
        queries, keys = cells.shape[-2:]
        own = np.diagonal(cells, keys - queries, -2, -1)
        seeing = (cells == 0).sum(axis=-1)
        counts = (seeing > 0).all() and (seeing <= np.arange(1, queries + 1)).all()  # each query one more, at most
        if (own == 1).all() and counts and joins_cache(flow, site):
            seen = int(seeing.max())
            text = (
                f"A new query of the scores {flow.output(site.scores).shape} sees {seen} of {keys} keys at most, and "
                "not its own: the mask counts from the first key, and new words stand at the last."
            )
            yield alarm_at(flow.one_pass, flow.steps[joint(flow, site)], "misaligned", text)
            return


def kernel_of(flow: Flow, site: Site) -> Step | None:
    """The fused operation that an attention was opened from."""
    step = flow.steps[site.softmax]
    return flow.one_pass.by_id.get(step.parent or "") if step.settings.get("derived") else None


def joins_cache(flow: Flow, site: Site) -> bool:
    """Whether keys are new ones put behind those that were kept."""
    here: int | None = flow.makers[site.scores][1] if len(flow.makers[site.scores]) > 1 else None
    while here is not None and flow.makers[here]:
        if flow.op(here) in JOINS:
            return len(flow.makers[here]) > 1
        if flow.op(here) not in CARRYING | REPEATS:
            return False
        here = flow.makers[here][0]
    return False


def check_both(flow: Flow) -> Iterator[Alarm]:
    """A fused attention that is given a mask and is_causal at once."""
    for step in flow.steps:
        masks = [record for record in step.inputs if record.name in ("attn_mask", "attn_bias")]
        if masks and step.settings.get("is_causal") is True and step.op in FUSED:
            text = (
                f"{step.op} is given attn_mask {masks[0].shape} and is_causal=True: torch allows one of them, and "
                "kernels differ in what they make of both."
            )
            yield alarm_at(flow.one_pass, step, "overridden", text, masks[0].given)
            return


def find_overridden(flow: Flow, site: Site, kernel: Step) -> Alarm | None:
    """A module that was given a mask of its own and runs a kernel that knows is_causal alone."""
    if any(record.name in ("attn_mask", "attn_bias") for record in kernel.inputs):
        return None
    block = flow.one_pass.by_id.get(kernel.parent or "")
    while block is not None:
        for number, record in enumerate(block.inputs):
            queries, keys = count_pairs(flow, site)
            if record.name in ("attn_mask", "src_mask", "tgt_mask", "mask") and record.shape[-2:] == (queries, keys):
                hidden = hidden_by(flow, block, number)
                if hidden is not None and not np.array_equal(hidden, np.triu(np.ones((queries, keys)), 1)):
                    text = (
                        f"{block.path} is given {record.name} {record.shape}, and with is_causal=True its kernel "
                        "hides the future "
                        f"instead: {int((hidden != np.triu(np.ones((queries, keys)), 1)).sum()):,} cells differ."
                    )
                    return alarm_at(flow.one_pass, block, "overridden", text, record.given)
        block = flow.one_pass.by_id.get(block.parent or "")
    return None


def hidden_by(flow: Flow, block: Step, number: int) -> Values | None:
    """What a mask that a module of torch is given hides: True, or what is very negative."""
    record = block.inputs[number]
    values = read_cells(record)
    if values is None:
        place = flow.places[block.id]
        values = Bench(flow, given_values(flow)).read(record, flow.makers[place][number])
    if values is None or np.isnan(values).any():
        return None
    hidden = values if record.dtype == "bool" else mark_hidden(values)
    return hidden.reshape(-1, *record.shape[-2:])[0] if hidden.ndim == 2 else None
