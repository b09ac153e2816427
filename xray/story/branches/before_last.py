"""What is done to what a branch worked out, before its last linear layer: gates of an attention, and norms (BitNet)."""

from collections.abc import Collection, Sequence

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DIVISIONS, DROPOUTS, REPEATS, SCALINGS, SPLITS, SUMS
from xray.ir.flow.projections import data_input
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import NormKind
from xray.story.branches.rows import PICKS
from xray.story.branches.scored.caps import name_bend
from xray.story.recognition.addends import list_behind
from xray.story.recognition.between import Region, is_linear
from xray.story.recognition.norms import Norm, find_norm, name_norm
from xray.story.recognition.statistics import is_of_weights

WHOLE = CARRYING - SPLITS - {"unbind"} - PICKS
"""What moves rows and leaves none of them away."""


def find_gate(flow: Flow, site: Site, region: Region) -> int | None:
    """The step that makes by how much all that the heads found is multiplied; None where no gate does."""
    followed = list(site.concat) if site.output is not None else list_behind_heads(flow, site, region)
    gates = (node for node in followed if list_gate(flow, site, node))
    return next((list_gate(flow, site, one)[0] for one in gates if goes_through(flow, site, region, one)), None)


def goes_through(flow: Flow, site: Site, region: Region, node: int) -> bool:
    """Whether all that the heads found goes through a step on its way to the end of a branch."""
    return region.end not in flow.ahead(site.weighted_sum, within=lambda one: one != node)


def list_gate(flow: Flow, site: Site, node: int) -> list[int]:
    """The steps that make a gate by which a step multiplies, the last first; none where it multiplies by no gate.

    A linear layer makes it, whose numbers a curve bends, learned ones or one number added at most; and it is none of
    the queries, keys and values of the attention.
    """
    if flow.op(node) not in SCALINGS - DIVISIONS or len(flow.makers[node]) != 2:
        return []
    operands = [*[*flow.given(site.scores)], [*flow.given(site.weighted_sum)][-1]]
    taken = {find_uncut(flow, *one) for one in operands}
    for maker in reversed(flow.makers[node]):  # it may stand before what it multiplies (HRM)
        found, here = list[int](), maker
        while here is not None and not is_linear(flow, here) and (given := find_bent(flow, here)) is not None:
            found.append(here)
            _, here = given
        bends = [one for one in found if flow.op(one) in CURVES]
        if here is not None and bends and is_linear(flow, here):
            return [] if find_uncut(flow, *next(flow.given(bends[-1]))) in taken else [*found, here]
    return []


def find_bent(flow: Flow, node: int) -> tuple[TensorRecord, int | None] | None:
    """What a step moves or bends, or adds learned numbers or one number to; None for others."""
    given = [one for one in flow.given(node) if not is_of_weights(flow, *one)]
    return given[0] if len(given) == 1 and flow.op(node) in CARRYING | CURVES | SUMS else None


def find_uncut(flow: Flow, record: TensorRecord, maker: int | None) -> tuple[int | None, int | None]:
    """The step that made a tensor, and which of its outputs it is, before it was moved as a whole or scaled."""
    record, maker = flow.before_moves(record, maker, WHOLE | REPEATS | SCALINGS)
    return maker, record.output


def name_gate_curve(flow: Flow, maker: int | None) -> str | None:
    """The activation by which the numbers of a gate are bent at last; None where others follow it."""
    bend = flow.carried_from(maker, CARRYING)
    if bend is None or flow.op(bend) not in CURVES:
        return None
    return name_bend(flow.steps[bend])


def list_behind_heads(flow: Flow, site: Site, region: Region) -> list[int]:
    """Every step of a branch that works on what the heads found."""
    found = {site.weighted_sum}
    for node in sorted(region.inner):
        if node > site.weighted_sum and not found.isdisjoint(flow.makers[node]):
            found.add(node)
    return sorted(found - {site.weighted_sum})


def is_sink_share(flow: Flow, site: Site, node: int) -> bool:
    """Whether a step multiplies what the heads found by what a sink leaves of it."""
    return flow.op(node) in SCALINGS and any(
        weighs_all_scores(flow, site, list_behind(flow, maker))
        for maker in flow.makers[node]
        if maker is not None and maker != site.weighted_sum and maker not in site.concat
    )


def weighs_all_scores(flow: Flow, site: Site, behind: Sequence[int]) -> bool:
    """Whether a factor is the share that all scores have beside a learned one: a sink, applied after the softmax."""
    sums = any(flow.op(one) == "logsumexp" and set(flow.makers[one]) & {site.scores, *site.scored} for one in behind)
    return sums and any(
        flow.op(one) in ("sub", "rsub") and any(is_learned(flow, *given) for given in flow.given(one)) for one in behind
    )


def is_learned(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is a parameter, moved at most."""
    while record.role != "parameter" and maker is not None and flow.op(maker) in CARRYING and flow.makers[maker]:
        record, maker = next(flow.given(maker))
    return record.role == "parameter"


def find_inner_norm(flow: Flow, projection: int, worked_out: Collection[int], *, is_gated: bool = False) -> Norm | None:
    """The norm whose rows a linear layer reads, if it normalises what some steps worked out; None if there is none.

    Where that `is_gated`, the norm may stand before the product with the gate (Muse Spark).
    """
    number = data_input(flow, projection)
    here = None if number is None else flow.makers[projection][number]
    while here is not None:
        norm = find_norm(flow, here)
        if norm is not None:
            return norm if flow.carried_from(norm.origin) in worked_out else None
        if is_gated and flow.op(here) in SCALINGS and len(flow.makers[here]) == 2:
            here = next((maker for maker in flow.makers[here] if maker in worked_out), None)
            continue
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            return None
        here = flow.makers[here][0]
    return None


def name_inner_norm(
    flow: Flow, projection: int | None, worked_out: Collection[int], *, is_gated: bool = False
) -> NormKind | None:
    """Which norm that is."""
    norm = None if projection is None else find_inner_norm(flow, projection, worked_out, is_gated=is_gated)
    return None if norm is None else name_norm(flow, norm)
