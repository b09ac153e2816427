"""Where streams end: the head, and the parameters that nothing was said of."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    COPIES,
    CURVES,
    DROPOUTS,
    FINDINGS,
    LOOKUPS,
    NORMS,
    SCALINGS,
    SIDE_BY_SIDE,
    STATISTICS,
    SUMS,
    TURNS,
)
from xray.ir.flow.projections import is_product
from xray.ir.flow.remembering import once
from xray.ir.flow.weights import by_module, gather_weights, list_above, list_shared, list_worked, read_weights
from xray.ir.trace import name_weights
from xray.story.anatomy.branches import Experts, Unknown
from xray.story.anatomy.tree import Head, Untold
from xray.story.body.last_norms import POOLINGS
from xray.story.body.links import Meetings
from xray.story.body.scale import read_bending
from xray.story.body.towers import Towering
from xray.story.entrance.place_tables import count_unread
from xray.story.entrance.tables import looks_up_counted, table_rows
from xray.story.experts.idle import count_idle, holds_choice, name_held
from xray.story.passages.ordered_rows import takes_all_in_order
from xray.story.recognition.between import find_region, is_linear, list_leading_on, weights_of, width_out

ROWS, SCORES = ("hidden", "pool", "embed"), ("logits",)
"""What is in the name under which a model hands out rows, or scores."""
PARAMETRIZED = ".parametrizations."
"""Stands in the paths of modules that work out a weight, behind that of the module whose weight it is."""
ALONE = NORMS | CURVES | DROPOUTS | SCALINGS | SUMS | STATISTICS | CASTING | COPIES | {"pow", "rsqrt", "sqrt", "sub"}
"""What works on each row by itself where it gives as many."""
TOGETHER = frozenset({"mean", "sum", "amax", "logsumexp"})
"""What makes one row of several."""
LEAST_SAID = 0.5
"""A layer scores the words of a table if it has a score for more than this share of the table's rows."""


def read_head(flow: Flow, towers: Sequence[Towering], meetings: Meetings) -> Head | None:
    """What the last tower's stream is made into: scores for every word, or for a few classes."""
    if meetings:
        return Head("none")
    last = towers[-1]
    vocabs = {one.tower.vocab for one in towers if one.tower.vocab is not None}
    leading = list_leading_on(flow)
    heads = [one for one in list_heads(flow, last) if leading is None or one in leading]
    if not heads:
        return Head("none")
    head = heads[-1]
    if is_convolved(flow, head):
        return None  # a spectrogram, or what becomes sound (VITS)
    size = width_out(flow, head)
    if hands_out(flow, head, ROWS):
        return Head("none")
    if any(width_out(flow, one) == size and flow.makers[one] == flow.makers[head] for one in heads[:-1]):
        return None  # one of several that read the same rows (MusicGen)
    if any(scores_words(flow, head, vocab) for vocab in vocabs):
        tied = is_tied(flow, towers, head)
        of_last = tied is True and is_of_last(flow, towers, head)
        return Head("vocabulary", size, tied, *read_bending(flow, head), of_last=of_last)
    if any(scores_words(flow, one, vocab) for one in heads[:-1] for vocab in vocabs):
        return None  # not all that leaves: words were scored before it (BERT as it is pretrained)
    shape = read_laid_shape(flow, head)
    if size == flow.output(last.chains[-1].end).shape[-1] and not hands_out(flow, head, SCORES):
        return Head("none")
    if len(shape) == 3 and last.tower.causal and any(rows and rows % size == 0 for rows in vocabs):
        return None  # a part of the table that the ids are from: words of one kind (CSM), or classes
    tied = works_with_table(flow, head)
    if tied:
        return Head("vocabulary", size, tied, *read_bending(flow, head))
    pooled = len(flow.output(last.chains[-1].end).shape) > 2
    if len(shape) == 3 and is_of_each_place(flow, last.chains[-1].end, head):
        # classes, letters, or words of a table that is another; boxes beside them are not told (RT-DETR)
        return Head("numbers", size) if {*heads} <= {head, *flow.behind(head)} else None
    laid, end = list_rows_cut(flow, head), flow.output(last.chains[-1].end)
    kind: Literal["classes", "numbers"] = "numbers" if laid else "classes"
    axes = dict(zip(end.axes, end.shape, strict=False))
    is_of_places = "batch" in axes and flow.output(head).axes[0] in axes.keys() - {"", "batch"}
    has_more = kind == "classes" and (is_of_places or shape[0] > axes.get("batch", shape[0]))
    has_more |= kind == "classes" and meets_more(flow, head)
    is_one = not has_more and not any(hands_out_apart(flow, one, head) for one in heads)
    is_one &= not laid or end.shape[:-1] in laid
    return Head(kind, size) if len(shape) == 2 and pooled and is_one else None


def read_laid_shape(flow: Flow, head: int) -> tuple[int, ...]:
    """The shape of what a head makes: of a map of one place, that then is only laid out, without this (ResNet v2)."""
    shape, ahead = flow.output(head).shape, filter(flow.is_leaf, flow.ahead(head))
    is_laid_out = all(one == head or flow.op(one) in CARRYING for one in ahead)
    return shape[:2] if flow.op(head) in FINDINGS and prod(shape[2:]) == 1 and is_laid_out else shape


def meets_more(flow: Flow, head: int) -> bool:
    """Whether what a head makes of a row is put beside what others make, or multiplied by rows: more comes out."""
    ahead = [one for one in flow.ahead(head) if one != head and flow.is_leaf(one)]
    beside = any(flow.op(one) in SIDE_BY_SIDE | {"stack"} and len(flow.steps[one].inputs) > 1 for one in ahead)
    return beside or any(is_product(flow, one) and not is_linear(flow, one) for one in ahead)


def list_heads(flow: Flow, last: Towering) -> list[int]:
    """The linear layers behind the layers of the last tower that read what is made of its stream, in order."""
    reached = {last.end, last.chains[-1].end}
    heads: list[int] = []
    for place in range(last.chains[-1].end + 1, len(flow.steps)):
        makers = [maker for maker in flow.makers[place] if maker is not None]
        if not any(maker in reached for maker in makers):
            continue
        reached.add(place)
        if is_linear(flow, place):
            heads.append(place)
    return heads


def holds_head(flow: Flow, towers: Sequence[Towering], own: Towering) -> bool:
    """Whether the head reads what a tower gives, and not by way of the layers of another (CoCa's text, not its image).

    Of several that it reads it is told of the last.
    """
    heads = list_heads(flow, towers[-1])
    reading = [one.tower.name for one in towers if heads and heads[-1] in list_past(flow, towers, one)]
    return own.tower.name == (reading or [towers[-1].tower.name])[-1]


def list_past(flow: Flow, towers: Sequence[Towering], own: Towering) -> set[int]:
    """The steps that read what a tower gives, and are no part of another tower's layers nor behind these."""
    others = {
        node
        for one in towers
        if one is not own
        for chain in one.chains
        for joint in chain.joints
        for node in (joint.add, *joint.region.inner)
    }
    return set(flow.ahead(own.end, within=lambda node: node not in others))


def scores_words(flow: Flow, node: int, vocab: int | None) -> bool:
    """Whether a step gives a score for each word of a table, or for each but some, as a layer that is named for it.

    Rows of a table that are never said stand behind those of the words: of pictures (Molmo2), of prompts (CPM-Ant).
    Scores that are cut up are those of several codes, each of a part of the table (Dia). As many numbers as the stream
    is wide, those of a whole text, and those of which another linear layer makes others tell nothing of words.
    """
    size = flow.output(node).shape[-1:]
    if is_mere_size(flow, node) or reads_pooled(flow, node) or leads_to_linear(flow, node):
        return False
    if any(prod(shape) == prod(size) for shape in list_cuts(flow, node)):
        return False
    if vocab is None or size == (vocab,):
        return size == (vocab,)
    return flow.output(node).axes[-1:] == ("vocab",) and vocab < size[0] / LEAST_SAID < vocab / LEAST_SAID


def is_mere_size(flow: Flow, node: int) -> bool:
    """Whether a step gives as many numbers as it reads, not by a table that it shares, nor as scores by their name."""
    step = flow.steps[node]
    is_square = bool(step.inputs) and step.inputs[0].shape[-1:] == step.outputs[0].shape[-1:]
    return is_square and not list_shared(flow, node) and not hands_out(flow, node, SCORES)


def reads_pooled(flow: Flow, node: int) -> bool:
    """Whether a step reads the mean of rows, or the first of them, which is of a whole text."""
    here = next(iter(flow.makers[node]), None)
    while here is not None and flow.makers[here]:
        index = str(flow.steps[here].settings.get("index", ""))
        if flow.op(here) in POOLINGS or (flow.op(here) == "index" and index in (":, 0", ":, 0, :")):
            return True
        here = flow.makers[here][0] if flow.op(here) in CARRYING else None
    return False


def leads_to_linear(flow: Flow, node: int) -> bool:
    """Whether a linear layer reads what a step gives, be it moved, or bent by itself."""
    plain = CARRYING | CURVES | DROPOUTS
    onward = flow.ahead(node, within=lambda one: one == node or flow.op(one) in plain)
    return any(is_linear(flow, reader) for one in onward for reader in flow.readers.get(one, ()) if reader != node)


def list_cuts(flow: Flow, node: int) -> list[tuple[int, ...]]:
    """The last two sizes of what a step makes, where it is laid out with one axis more by what reads it first."""
    axes = len(flow.output(node).shape)
    moved = (flow.output(place).shape for place in flow.readers.get(node, ()) if flow.op(place) in CARRYING)
    return [shape[-2:] for shape in moved if len(shape) == axes + 1 and 1 not in shape[-2:]]


def is_of_each_place(flow: Flow, end: int, head: int) -> bool:
    """Whether a head works on each row of a stream by itself, from where that ends, and all these rows go on."""
    rows = flow.output(end).shape[:-1]
    way = {*flow.behind(head, within=lambda one: one > end)} & {*flow.ahead(end)} - {end}
    ahead = [one for one in (head, *flow.ahead(head)) if flow.steps[one].outputs]
    handed = any(flow.steps[one].id in flow.one_pass.results and flow.output(one).shape[:-1] == rows for one in ahead)
    moves = (
        (flow.steps[one].inputs[:1], flow.output(one).shape)
        for one in ahead[1:]
        if flow.op(one) in CARRYING or (flow.op(one) in TOGETHER and flow.output(one).shape and not handed)
    )
    are_whole = all(
        after[: len(rows)] == rows or any(prod(one.shape) == prod(after) for one in given) for given, after in moves
    )
    return are_whole and all(
        flow.output(one).shape[:-1] == rows
        and (is_linear(flow, one) or flow.op(one) in ALONE or takes_all_in_order(flow, one))
        for one in way
    )


def list_rows_cut(flow: Flow, head: int) -> list[tuple[int, ...]]:
    """How many sequences and rows what a head makes of all of these at once is laid out by behind it (Perceiver)."""
    shape = flow.output(head).shape
    cut = (flow.output(place).shape for place in flow.ahead(head) if flow.op(place) in CARRYING)
    return [one[:-1] for one in cut if len(one) == 3 and one[-1] == shape[-1] and one[0] * one[1] == shape[0] != one[0]]


def is_convolved(flow: Flow, head: int) -> bool:
    """Whether what a step makes goes on through convolutions that see more than one place."""
    onward = flow.ahead(*flow.readers.get(head, ()))
    return any(flow.op(place) in FINDINGS and not is_linear(flow, place) for place in onward)


def hands_out_apart(flow: Flow, one: int, head: int) -> bool:
    """Whether a model hands out what another linear layer makes beside its last one, and nothing of this."""
    if one in flow.behind(head):
        return False
    whole = flow.steps[[head, *flow.parents(head)][-1]]
    handed = {flow.places.get(record.source or "") for record in whole.outputs}
    return not handed.intersection(flow.ahead(one)) <= {*flow.ahead(head)}


def hands_out(flow: Flow, head: int, called: Collection[str]) -> bool:
    """Whether a model hands out what its last linear layer makes under such a name: as hidden states, or as scores."""
    made = {flow.steps[place].id for place in flow.ahead(head)}
    whole = flow.steps[[head, *flow.parents(head)][-1]]
    return any(record.source in made and any(word in record.name for word in called) for record in whole.outputs)


def is_tied(flow: Flow, towers: Sequence[Towering], head: int) -> bool | None:
    """Whether the head was recorded to multiply by the table of the words; None where a tower has several such."""
    tables = [{name_weights(flow.steps[node]) for node in list_lookups(flow, one)} for one in towers]
    step = flow.steps[head]
    if not step.module or not step.params or not any(tables):
        return None
    used = name_weights(step)
    return None if any(used in one and len(one) > 1 for one in tables) else any(used in one for one in tables)


def list_lookups(flow: Flow, towering: Towering) -> list[int]:
    """The steps that look a tower's words up in their table, be there as many places as words in another one."""
    vocab = towering.tower.vocab
    found = (node for node in towering.entrance if flow.op(node) in LOOKUPS and not looks_up_counted(flow, node))
    return [node for node in found if vocab is not None and table_rows(flow, node) == vocab]


def is_of_last(flow: Flow, towers: Sequence[Towering], head: int) -> bool:
    """Whether the head multiplies by the table of the last tower's words, while others have one of their own."""
    used = name_weights(flow.steps[head])
    *others, own = ({name_weights(flow.steps[node]) for node in list_lookups(flow, one)} for one in towers)
    return used in own and any(others) and all(used not in one for one in others)


def works_with_table(flow: Flow, head: int) -> Literal[True] | None:
    """Whether a head was recorded to multiply by a whole table that ids are looked up in, and no other is as large."""
    tables: dict[str, int] = {}
    for node, step in enumerate(flow.steps):
        if step.op in LOOKUPS and any(one.role == "ids" for one in step.inputs) and not looks_up_counted(flow, node):
            tables |= read_weights(flow, node)
    weights = gather_weights(flow, flow.behind(head, within=lambda one: one == head or flow.op(one) in TURNS))
    used = [tables[name] for name in tables.keys() & weights.keys()]
    return True if any([*tables.values()].count(size) == 1 for size in used) else None


def count_active(
    towers: Sequence[Towering],
    flow: Flow,
    params: int | None,
    unused: Mapping[str, int] | None,
    left: Mapping[str, int],
) -> int | None:
    """How many parameters work on each place: all but those of what took no part, and of experts not chosen for it.

    First rows of tables that no step reads took none either, nor those that are `left` of tables, unless of experts.
    """
    branchings = [one for tower in towers for staging in tower.stagings for one in staging.branches]
    if params is None or unused is None or any(isinstance(one.branch, Unknown) for one in branchings):
        return None
    counted: set[str] = set()
    inside = (one.region.inner for one in branchings if isinstance(one.branch, Experts))
    of_experts = {name.partition("[")[0] for nodes in inside for name in gather_weights(flow, nodes)}
    params -= sum(unused.values()) + count_unread(flow)
    params -= sum(count for table, count in left.items() if table not in of_experts)
    for one in branchings:
        if isinstance(one.branch, Experts):
            held = name_held(flow, one.region, one.branch)
            if held and held <= counted:  # the layers of another tower work with them (DiffusionGemma)
                continue
            idle = count_idle(flow, one.region, one.branch, unused)
            if idle is None or held & counted:
                return None
            counted |= held
            params -= idle
        elif holds_choice(flow, one.region):
            return None
    return params


def read_untold(flow: Flow, towers: Sequence[Towering], meetings: Meetings) -> tuple[Untold, ...]:
    """The outermost parts with parameters of which no step has a place in a tower; what joins two stages has none."""
    told: set[int] = set()
    for one in towers:
        told |= one.nodes
    last = towers[-1].chains[-1].end
    reached = {one.end for one in towers} | {chain.end for one in towers for chain in one.chains}
    for place in range(last + 1, len(flow.steps)):
        if any(maker in reached for maker in flow.makers[place] if maker is not None):
            reached.add(place)
    heads = [place for place in reached if is_linear(flow, place) and place > last and not is_convolved(flow, place)]
    for head in heads:
        for one in towers:
            region = find_region(flow, one.chains[-1].end, head)
            others = {place for other in towers if other is not one for place in other.sums}
            if region is not None and (one is towers[-1] or others.isdisjoint(region.inner)):
                told |= region.inner | (region.beside if one is towers[-1] else frozenset())
    for meeting in meetings.values():
        told.update(list(flow.behind(meeting, within=lambda place: place not in told)))
    return tuple(one for one in list_untold([(flow, told)]) if one.path in list_calls(flow))


def list_untold(told: Iterable[tuple[Flow, Collection[int]]]) -> tuple[Untold, ...]:
    """What no step that is told of works with, in any pass: outermost modules, and single parameters by their names."""
    flows, known, halved = list[Flow](), set[str](), set[str]()
    for flow, nodes in told:
        halved.update(flow.steps[block].path for node in nodes for block in flow.parents(node))
        known |= weights_of(flow, nodes, list_lending(flow, nodes)).keys()
        flows.append(flow)
    return name_outermost(flows, known, halved)


def name_outermost(flows: Sequence[Flow], known: Collection[str], halved: Collection[str] = ()) -> tuple[Untold, ...]:
    """What no known parameter is: outermost modules that ran, but `halved` ones, and single parameters by their names.

    Rows of a table that is known are known.
    """
    worked = {name: count for flow in flows for name, count in list_worked(flow).items()}
    holding, found = by_module(known), dict[str, int]()
    ran = {step.path for flow in flows for step in flow.steps if step.module}
    for name, count in worked.items():
        if name not in known and name.partition("[")[0] not in known:
            others = [one for one in list_above(name) if one in ran.difference(halved) and one not in holding]
            path = others[-1] if others else name.partition("[")[0]
            found[path] = found.get(path, 0) + count
    calls = {path: [flow for flow in flows if path in list_calls(flow)] for path in found}
    lost = {path for path, some in calls.items() if some and all(is_led_nowhere(flow, path) for flow in some)}
    return tuple(Untold(path, count, path in lost) for path, count in found.items())


def list_lending(flow: Flow, nodes: Collection[int]) -> set[int]:
    """The steps of a pass that belong to others than some steps do: they lend these nothing."""
    around = {block for node in nodes for block in flow.parents(node)}
    return {place for place in range(len(flow.steps)) if is_of_others(flow, place, around)}


def is_of_others(flow: Flow, place: int, around: Collection[int]) -> bool:
    """Whether a step is a module with parameters, or stands in a module that is not among some: it lends nothing."""
    module = next((one for one in flow.parents(place) if flow.steps[one].module), None)
    is_strange = bool(flow.steps[place].params) or module not in (None, *around)
    return is_strange and PARAMETRIZED not in flow.steps[place].path


def is_led_nowhere(flow: Flow, path: str) -> bool:
    """Whether nothing that a part works out leads to what is handed out, or to another part (SigLIP for classes).

    So it is not where what becomes of it is read by nothing in the end (finer maps of LoFTR, no match found).
    """
    leading = list_leading_on(flow)
    own = {node for place in list_calls(flow).get(path, []) for node in range(place, flow.ends[place])}
    if leading is None or not leading.isdisjoint(own):
        return False
    return not any(flow.is_leaf(node) and flow.steps[node].params for node in {*flow.ahead(*own)} - own)


@once
def list_calls(flow: Flow) -> dict[str, list[int]]:
    """The steps of each path, in order."""
    found: dict[str, list[int]] = {}
    for place, step in enumerate(flow.steps):
        found.setdefault(step.path, []).append(place)
    return found
