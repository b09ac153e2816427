"""What stands between scores and softmax: scale, a bias for positions, the mask."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site, hides_places, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import read_mixing
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, MASKINGS, SCALINGS, SUMS, WRITES, ZEROS
from xray.ir.flow.remembering import once_each
from xray.ir.records import TensorRecord
from xray.story.recognition.addends import NEGATIONS, fills_low, list_behind, read_addend
from xray.story.recognition.score_operands import Kind, Operand, Scored

SETTLING = CARRYING | DROPOUTS | frozenset(["max", "maximum", "clamp", "clamp_", "min", "minimum", "nan_to_num"])
"""What goes with the part before it."""


def read_scored(flow: Flow, scored: tuple[int, ...]) -> list[Scored]:
    """The parts of the way from the scores to the softmax, in order; moves and casts go with the part before them."""
    parts: list[Scored] = []
    spine = set(scored)
    fixed: list[int] = []
    first = scored[0]
    is_added = flow.op(first) == "baddbmm" and flow.steps[first].settings.get("beta") != 0
    if is_added and not is_nothing(flow, flow.makers[first][0]):
        parts += read_addend(flow, first, Operand(flow.steps[first].inputs[0], flow.makers[first][0]))
    for node in scored[1:-1]:
        step = flow.steps[node]
        if read_mixing(flow, node) is not None or joins_mixed(flow, node, parts, spine):
            parts += join_mixes(parts, node)
            continue
        others = [
            Operand(record, maker)
            for record, maker in flow.given(node)
            if maker not in spine
            and record.role != "parameter"
            and len(record.shape) > (step.op not in MASKINGS | SCALINGS)
        ]
        if others and all(is_nothing(flow, one.maker) for one in others) and step.op in SUMS | {"mask_scores"}:
            fixed.append(node)
            continue
        learned = [
            Operand(record, maker)
            for record, maker in flow.given(node)
            if maker not in spine and record.role == "parameter" and len(record.shape) > 1
        ]
        if step.op in MASKINGS and others:
            mask = pick_mask(others)
            if step.op == "mask_scores" and mask.record.dtype != "bool":
                parts += read_addend(flow, node, mask)
            elif made_of_scores(flow, mask.maker, spine):
                is_of_rows = mask.record.shape[-1] == 1  # such as have no visible key
                parts += [] if is_of_rows else [Scored("kept", (node,))]
                fixed += [node] if is_of_rows else []
            else:
                is_hiding = step.op == "mask_scores" or fills_low(flow, node)
                parts.append(peel(flow, node, mask, "mask" if is_hiding else "changed"))
        elif hides_places(flow, node):
            parts.append(Scored("mask", (node,)))
        elif step.op in WRITES and (hidden := find_hidden(flow, node, spine)) is not None:
            parts += join_masks(parts, Scored("mask", hidden[1], hidden[0]))
        elif step.op in ("sub", "sub_") and others and made_of_scores(flow, others[0].maker, spine):
            fixed.append(node)
        elif step.op in SUMS | {"sub", "sub_"} and (others or learned):
            parts += read_addend(flow, node, (others or learned)[0])
        elif step.op in SCALINGS:
            of_pairs = (one for one in (*others, *learned) if not is_for_all_pairs(one.record))
            parts.append(Scored("scale", (node,), next(of_pairs, None)))
        elif parts and step.op in SETTLING:
            parts[-1] = Scored(parts[-1].kind, (*parts[-1].nodes, node), parts[-1].operand)
    parts.append(Scored("softmax", (*fixed, scored[-1])))
    parts = [replace(part, kind="mask") if goes_with_mask(flow, part, parts) else part for part in parts]
    parts = [replace(part, kind="changed") if multiplies_pairs(flow, part, spine) else part for part in parts]
    last = max((place for place, part in enumerate(parts) if part.kind == "mix"), default=0)
    hiding = [place for place, part in enumerate(parts[:last]) if part.kind in ("mask", "kept")]
    return [replace(part, kind="mixed_mask") if place in hiding else part for place, part in enumerate(parts)]


@once_each
def are_masked(flow: Flow, node: int) -> bool:
    """Whether scores were masked up to a step, be it in the attention of which scores are added to them (Uni-Mol)."""
    site = next((one for one in list_sites(flow) if node in one.scored[:-1]), None)
    for part in () if site is None else read_scored(flow, site.scored):
        if part.nodes[0] > node or part.operand is None:
            continue
        added = flow.carried_from(part.operand.maker, CARRYING | SCALINGS) if part.kind == "bias" else None
        if part.kind == "mask" or (added is not None and are_masked(flow, added)):
            return True
    return False


def list_changing(flow: Flow, site: Site, masks: Sequence[Operand] = ()) -> list[int]:
    """The steps behind softmax that change weights pair by pair, or key by key, by another mask than some."""
    known, own = {find_root(flow, one.maker) for one in masks}, {site.softmax, *site.weighed}
    return [
        node
        for node in site.weighed
        if node != site.weighted_sum
        and flow.op(node) in SCALINGS | MASKINGS
        and any(
            maker not in own and record.shape[-1:] != (1,) and len(record.shape) > 1
            for record, maker in flow.given(node)
            if find_root(flow, maker) not in known
        )
    ]


def find_root(flow: Flow, maker: int | None) -> int | None:
    """The step that made a mask, be it negated, or compared with one number (CPM-Ant)."""
    here = flow.carried_from(maker)
    while here is not None and flow.op(here) in NEGATIONS | {"eq"}:
        here = flow.carried_from(flow.makers[here][0])
    return here


def joins_mixed(flow: Flow, node: int, parts: list[Scored], spine: set[int]) -> bool:
    """Whether a step adds scores that were mixed across heads to what they were."""
    is_own = all(maker in spine for maker in flow.makers[node]) and len(flow.steps[node].inputs) > 1
    return flow.op(node) in SUMS and is_own and bool(parts) and parts[-1].kind == "mix"


def join_mixes(parts: list[Scored], node: int) -> list[Scored]:
    """A step that mixes heads, or that adds what was mixed; it goes with the one before it where that does so too."""
    if not parts or parts[-1].kind != "mix":
        return [Scored("mix", (node,))]
    parts[-1] = Scored("mix", (*parts[-1].nodes, node))
    return []


def find_hidden(flow: Flow, node: int, spine: set[int]) -> tuple[Operand, tuple[int, ...]] | None:
    """The condition where some scores are written over by what hides them, and the steps that do; None if none is."""
    chosen = next((maker for maker in flow.makers[node] if maker is not None and maker not in spine), None)
    if chosen is None or flow.op(chosen) not in MASKINGS or not made_of_scores(flow, chosen, spine):
        return None
    given = [Operand(record, maker) for record, maker in flow.given(chosen) if record.dtype == "bool"]
    return (given[0], (chosen, node)) if len(given) == 1 else None


def join_masks(parts: list[Scored], mask: Scored) -> list[Scored]:
    """A mask that is written over some scores; it goes with the one before it where that hides others of them alike."""
    before = parts[-1] if parts and parts[-1].kind == "mask" else None
    shapes = [None if one is None or one.operand is None else one.operand.record.shape for one in (before, mask)]
    if before is None or shapes[0] != shapes[1]:
        return [mask]
    parts[-1] = Scored("mask", (*before.nodes, *mask.nodes), before.operand)
    return []


def is_for_all_pairs(record: TensorRecord) -> bool:
    """Whether a tensor holds one number for all queries and keys, be it another one for each head (Swin v2)."""
    return {*record.shape[-2:]} <= {1}


def is_nothing(flow: Flow, maker: int | None) -> bool:
    """Whether a tensor is filled with 0 and nothing else, as what T5 adds for places where it has no table of them."""
    made = flow.carried_from(maker)
    return made is not None and flow.op(made) in ZEROS


def made_of_scores(flow: Flow, maker: int | None, spine: set[int]) -> bool:
    """Whether a mask is read off the scores themselves, as by a softmax that minds rows without any visible key."""
    todo = [] if maker is None else [maker]
    for _ in range(6):
        if not todo:
            return False
        here = todo.pop()
        if here in spine:
            return True
        todo += [one for one in flow.makers[here] if one is not None]
    return False


def goes_with_mask(flow: Flow, part: Scored, parts: Collection[Scored]) -> bool:
    """Whether a part multiplies scores by a mask, and what is added to hide keys is made of that same mask (GPT)."""
    if part.kind != "scale" or part.operand is None or part.operand.maker is None:
        return False
    added = (one.operand for one in parts if one.kind == "mask" and one.nodes[0] > part.nodes[0])
    return any(one is not None and part.operand.maker in list_behind(flow, one.maker) for one in added)


def multiplies_pairs(flow: Flow, part: Scored, spine: set[int]) -> bool:
    """Whether a part multiplies scores by other numbers than one for all, which are not made of them: a mask, say."""
    return part.kind == "scale" and part.operand is not None and not made_of_scores(flow, part.operand.maker, spine)


def peel(flow: Flow, node: int, mask: Operand, kind: Kind) -> Scored:
    """A masking step with the negation before it: what is negated is the mask."""
    maker = mask.maker
    if maker is not None and flow.op(maker) in NEGATIONS and flow.makers[maker]:
        record, before = next(flow.given(maker))
        return Scored(kind, (maker, node), Operand(record, before))
    return Scored(kind, (node,), mask)


def pick_mask(others: list[Operand]) -> Operand:
    """The mask among the operands of a masking step."""
    for one in others:
        if one.record.mask is not None or one.record.role == "mask" or one.record.dtype == "bool":
            return one
    return others[0]
