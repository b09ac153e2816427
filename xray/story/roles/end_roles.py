"""The roles of what stands before the first layer of a tower, and behind its last one."""

from collections.abc import Collection
from math import isclose, sqrt

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIVISIONS, FINDINGS, JOINS, LOOKUPS, SHAPING, SOFTMAXES, SUMS
from xray.ir.flow.projections import is_projection
from xray.story.anatomy.tree import Head
from xray.story.body.towers import Towering
from xray.story.entrance.entrance import cuts_patches, is_number_scale, list_norms
from xray.story.entrance.given import find_input
from xray.story.entrance.tables import looks_up_places
from xray.story.exits.exit_chart import chart_exit
from xray.story.exits.loss_chart import PICKS, is_loss
from xray.story.passages.added_places import describe_sum
from xray.story.recognition.between import is_linear
from xray.story.recognition.values.value_shapes import number
from xray.story.roles.giving import Given
from xray.story.roles.layer_roles import list_opening

MOST_STEPS = 64
SCORES = ("logit", "classif", "lm_head")
"""Names of what makes scores hold one of these."""


def give_entrance(given: Given, towering: Towering, side: str) -> None:
    """The embedding with its parts."""
    flow, nodes = given.flow, towering.entrance
    if not nodes:
        return
    given.block(nodes, f"{side}embedding", [towering.chains[0].joints[0].add])
    main = find_input(flow, towering)
    for norm in list_norms(flow, nodes):
        given.part(norm.nodes, "embedding: norm", main=norm.end)
    for node in sorted(list_rows_handed_on(flow, nodes)):
        words = describe_entry(flow, node, None if main is None else main[2])
        if words and flow.op(node) in FINDINGS:
            given.part([node, *list_moves(flow, node, nodes)], words, main=node)
        elif words and flow.is_leaf(node):
            given.part([node], words)
    given.dropouts(nodes | list_opening(flow, towering), "embedding: dropout")


def list_rows_handed_on(flow: Flow, nodes: Collection[int]) -> set[int]:
    """The steps of an entrance whose rows are led out of it: not such as only say which rows are picked (PCT)."""
    todo = [node for node in nodes if any(reader not in nodes for reader in flow.readers.get(node, ()))]
    found = {*todo}
    while todo:
        given = flow.given(todo.pop())
        new = {maker for record, maker in given if maker is not None and maker in nodes and record.is_float} - found
        found |= new
        todo += new
    return found


def list_moves(flow: Flow, node: int, nodes: Collection[int]) -> list[int]:
    """The moves right behind a step, as long as nothing else reads it."""
    found: list[int] = []
    here = node
    while len(onward := flow.readers.get(here, ())) == 1 and onward[0] in nodes and flow.op(onward[0]) in SHAPING:
        here = onward[0]
        found.append(here)
    return found


def describe_entry(flow: Flow, node: int, words: int | None) -> str:
    """The words for a step of the entrance; `words` is the step that looks up the input."""
    if flow.op(node) in LOOKUPS:
        if node == words:
            return "embedding: ids to vectors"
        return "embedding: positions" if looks_up_places(flow, node) else "embedding: rows of another table"
    if flow.op(node) in FINDINGS:
        return "embedding: patches to vectors" if cuts_patches(flow, node) else "embedding: convolution"
    if is_linear(flow, node):
        return "embedding: projection"
    if flow.op(node) in SUMS and len(flow.steps[node].inputs) == 2:
        return "embedding: add positions" if adds_places(flow, node) else "embedding: add"
    if is_number_scale(flow, node):
        step, width = flow.steps[node], flow.output(node).shape[-1:]
        factor = number(step, "factor") or number(step)
        is_root = factor is not None and bool(width) and isclose(factor, sqrt(width[0]), rel_tol=1e-4)
        done = "divided by" if flow.op(node) in DIVISIONS else "times"
        return f"embedding: {done} sqrt(d_model)" if is_root else "embedding: scale"
    if flow.op(node) == "positions":
        return "embedding: positions"
    return ""


def adds_places(flow: Flow, node: int) -> bool:
    """Whether a sum adds rows of places: such as were looked up, or any others."""
    origins = (flow.carried_from(maker) for maker in flow.makers[node])
    is_looked_up = any(one is not None and flow.op(one) in LOOKUPS and looks_up_places(flow, one) for one in origins)
    return is_looked_up or next(describe_sum(flow, node, ()), None) is not None


def give_exit(given: Given, towering: Towering, head: Head | None, side: str, others: set[int]) -> list[int]:
    """The last norm, the head, the loss, and the choice of a word; gives the head."""
    flow = given.flow
    if towering.final is not None:
        given.part(towering.final.nodes, f"last norm of the {side}" if side else "last norm", main=towering.final.end)
    chart = chart_exit(flow, towering, others)
    if chart is None:
        return []
    places = [flow.places[node.steps[0].id] for node in chart.nodes]
    losses = [place for place in places if is_loss(flow, place)]
    for place in losses:
        give_loss(given, place)
    linears = [place for place in places if is_linear(flow, place)]
    if linears and head is not None and head.kind != "none":
        made = "logits" if makes_logits(flow, linears[-1], head, losses) else "numbers"
        given.linear(linears[-1], f"head: vectors to {made}")
        give_choice(given, linears[-1])
        return linears[-1:]
    return []


def makes_logits(flow: Flow, linear: int, head: Head, losses: Collection[int]) -> bool:
    """Whether a head makes scores: of words, for a loss over classes, for a choice, or by a name that says so."""
    step = flow.steps[linear]
    named = (
        step.path.rpartition(".")[2],
        *(record.name for record in flow.steps[0].outputs if record.source == step.id),
    )
    is_named = any(word in name.lower() for name in named for word in SCORES)
    is_compared = any(flow.op(loss).startswith("cross_entropy") for loss in losses)
    return head.kind == "vocabulary" or is_named or is_compared or find_choice(flow, linear) is not None


def give_loss(given: Given, loss: int) -> None:
    """The comparison itself, and what it is given laid flat."""
    flow = given.flow
    words = "loss: cross-entropy" if flow.op(loss).startswith("cross_entropy") else "loss"
    flat = {
        name: maker
        for name, (_, maker) in zip(("logits", "targets"), flow.given(loss), strict=False)
        if maker is not None and flow.op(maker) in ("flatten", "view", "reshape")
    }
    block = given.block([loss, *flat.values()], "loss", [node for node in range(loss) if flow.steps[node].params])
    del block
    given.name(loss, words)
    for name, maker in flat.items():
        given.name(maker, f"loss: {name} laid flat")


def give_choice(given: Given, head: int) -> None:
    """How the next word is chosen after the head, and put behind the others, where the pass shows it."""
    flow = given.flow
    way = find_choice(flow, head)
    if way is None:
        return
    rank = len(flow.output(head).shape)
    row = next((node for node in way if len(flow.output(node).shape) < rank), None)
    softmax = next((node for node in way if flow.op(node) in SOFTMAXES), None)
    given.block(way, "choose the next word", [head])
    for words, node in (
        ("next word: logits of the last place", row),
        ("next word: probabilities", softmax),
        ("next word: the choice", way[-1]),
        ("the new word behind the others", find_append(flow, way[-1])),
    ):
        if node is not None:
            given.name(node, words)


def find_choice(flow: Flow, head: int) -> list[int] | None:
    """The steps from the head to the choice of a word, that last; None where no word is chosen."""
    todo: list[list[int]] = [[head]]
    seen = {head}
    while todo and len(seen) < MOST_STEPS:
        way = todo.pop(0)
        for reader in flow.readers.get(way[-1], ()):
            if reader in seen or not flow.steps[reader].outputs:
                continue
            if flow.op(reader) in PICKS:
                return [*way[1:], reader]
            before, after = flow.output(way[-1]), flow.output(reader)
            if before.shape[-1:] == after.shape[-1:] and not is_projection(flow, reader):
                seen.add(reader)
                todo.append([*way, reader])
    return None


def find_append(flow: Flow, chosen: int) -> int | None:
    """The step that puts a chosen word behind the others."""
    todo, seen = [chosen], {chosen}
    while todo and len(seen) < 16:
        here = todo.pop(0)
        for reader in flow.readers.get(here, ()):
            step = flow.steps[reader]
            if reader in seen or not step.outputs or step.outputs[0].dtype.startswith("float"):
                continue
            if (step.op in JOINS or step.op == "append") and len(step.inputs) == 2:
                return reader
            seen.add(reader)
            todo.append(reader)
    return None
