"""Masks that lie otherwise over scores than queries and keys do as a rule: what was taken for rows and keys is none."""

from collections.abc import Iterator
from dataclasses import replace

from xray.ir.flow.attention_sites import Site, count_pairs, list_sites
from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.softmax_axis import read_pair
from xray.ir.records import MaskFacts, TensorRecord
from xray.ir.trace import Pass, Step, Trace

MOST_MOVES = 8
Key = tuple[str | None, tuple[int, ...], MaskFacts | None]


def drop_turned_masks(trace: Trace) -> Trace:
    """The same trace without what masks seem to hide whose last two axes are not those of queries and keys.

    Which axes these are, the letters of the product tell, and the axis along which softmax makes weights.
    """
    return replace(trace, passes=tuple(map(drop_from, trace.passes)))


def drop_from(one_pass: Pass) -> Pass:
    if not any(step.op == "einsum" for step in one_pass.steps):
        return one_pass
    flow = read_flow(one_pass)
    turned = {key for site in list_sites(flow) for key in list_turned(flow, site)}
    return replace(one_pass, steps=tuple(clear(step, turned) for step in one_pass.steps)) if turned else one_pass


def list_turned(flow: Flow, site: Site) -> Iterator[Key]:
    """What is masked by in an attention whose scores do not end with queries and keys, back to where it still does."""
    if read_pair(flow.steps[site.scores], flow.steps[site.softmax]) == (-2, -1):
        return
    pair = count_pairs(flow, site)
    todo = [given for node in site.scored[1:] for given in flow.given(node)]
    for _ in range(MOST_MOVES):
        moved = [(record, maker) for record, maker in todo if record.mask is not None and record.shape[-2:] != pair]
        yield from (name_key(record) for record, _ in moved)
        todo = [given for _, maker in moved if maker is not None for given in flow.given(maker)]


def name_key(record: TensorRecord) -> Key:
    return record.source, record.shape, record.mask


def clear(step: Step, turned: set[Key]) -> Step:
    """The step, nothing said of what such a mask hides."""

    def forget(records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
        is_turned = (one.mask is not None and name_key(one) in turned for one in records)
        return tuple(replace(one, mask=None) if gone else one for one, gone in zip(records, is_turned, strict=True))

    if not any(one.mask for one in (*step.inputs, *step.outputs)):
        return step
    return replace(step, inputs=forget(step.inputs), outputs=forget(step.outputs))
