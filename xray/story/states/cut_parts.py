"""Into which parts all is cut that a step gives, right behind it."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, COPIES, CURVES, FINDINGS, SPLITS
from xray.ir.turns import TURNED
from xray.story.recognition.between import follow_turned, is_linear
from xray.story.sentences.of_parts import IN_OTHER_PARTS, IN_PARTS
from xray.story.states.selective import name_parts
from xray.story.wording import join_words


def tell_parts(flow: Flow, node: int) -> tuple[str, ...]:
    """How wide the parts are into which all is cut that a linear layer gives, where it is cut right behind (LFM2).

    Of a selective state they are told with what they are to it, and so is what a curve gives that is cut there.
    """
    is_layer = is_linear(flow, node) and flow.op(node) not in FINDINGS
    if not is_layer and flow.op(node) not in CURVES:
        return ()
    laid, channels = follow_turned(flow, node, len(flow.output(node).shape) - 1, TURNED | COPIES)
    split = find_split(flow, laid if is_layer else node, COPIES if is_layer else CARRYING - SPLITS)
    if split is None:
        return ()
    names = name_parts(flow, split)
    before, shapes = flow.steps[split].inputs[0].shape, [one.shape for one in flow.steps[split].outputs]
    axes = [axis for axis, size in enumerate(before) if any(shape[axis] != size for shape in shapes)]
    sizes = [shape[axes[0]] for shape in shapes] if len(axes) == 1 and (names or axes == [channels]) else []
    if len(sizes) < 2 or not (names or (is_layer and sum(sizes) == flow.output(node).shape[-1])):
        return ()
    words = [f"{size:,}{f' ({names[part]})' if part in names else ''}" for part, size in enumerate(sizes)]
    told = IN_PARTS if len(set(sizes)) == 1 and not names else IN_OTHER_PARTS
    return (told.format(many=len(sizes), wide=sizes[0], sizes=join_words(words)),)


def find_split(flow: Flow, node: int, among: Collection[str]) -> int | None:
    """The split that alone reads a step, behind some operations that each alone read the one before."""
    readers = flow.leaf_readers(node)
    while len(readers) == 1 and flow.op(readers[0]) in among:
        readers = flow.leaf_readers(readers[0])
    return readers[0] if len(readers) == 1 and flow.op(readers[0]) in SPLITS else None
