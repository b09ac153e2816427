"""From the scores to the weights under canonical paths: scale, bias, mask, softmax, dropout."""

from dataclasses import replace

from xray.ir.records import TensorRecord
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import DROPOUTS, SOFTMAXES
from xray.story.recognition.retold_moves import name_operands
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.scored_parts import Scored, read_scored

CAPPED = "capped"
"""A setting of a softmax: its scores were bent by tanh before, so that none grows large."""


def add_scores(
    told: Retold, path: str, site: Site, previous: dict[str, tuple[TensorRecord, str | None]], block: Block
) -> None:
    """Scores, scale, bias, mask, softmax, dropout."""
    flow = told.flow
    parts = read_scored(flow, site.scored)
    if any(step.path == f"{path}.scale" for step in told.steps[-24:]):
        parts = [part for part in parts if part.kind != "scale" or not is_idle(flow, part.nodes[0])]
    rest = {node for part in parts for node in part.nodes}
    nodes = [site.scores]
    for node in site.scored[1:]:
        if node in rest:
            break
        nodes.append(node)
    makers = dict(zip(("left", "right"), flow.makers[site.scores][-2:], strict=True))
    told.add(
        f"{path}.scores",
        "matmul",
        nodes,
        [("left", site.query.end, makers["left"]), ("right", site.key.end, makers["right"])],
        [flow.output(nodes[-1])],
        inside=block,
        params=0,
    )
    name_operands(told, {"left": previous.get("query"), "right": previous.get("key")})
    used: dict[str, int] = {}
    last, record = nodes[-1], flow.output(nodes[-1])
    for part in parts:
        taken = any(step.path == f"{path}.{part.kind}" for step in told.steps[-32:])
        used[part.kind] = used.get(part.kind, int(taken and part.kind == "scale")) + 1
        label = part.kind if used[part.kind] == 1 else f"{part.kind}_{used[part.kind]}"
        label, given = inputs_of(part, label, record, last)
        source = told.steps[-1].outputs[0].source
        told.add(
            f"{path}.{label}",
            {"mask": "mask_scores", "bias": "add"}.get(part.kind, part.kind),
            part.nodes,
            given,
            [flow.output(part.nodes[-1])],
            inside=block,
            params=0,
            core=with_fixes(flow, site, part),
        )
        name_operands(told, {given[0][0]: (record, source)})
        if part.kind == "mask" and part.operand is not None and told.steps[-1].inputs[-1].source is None:
            told.replace_sources("mask", told.mask_of(path, part.operand.record))
        last, record = part.nodes[-1], flow.output(part.nodes[-1])
    if any(flow.op(node) in ("tanh", "tanh_") for node in site.scored):
        told.steps[-1] = replace(told.steps[-1], settings={**told.steps[-1].settings, CAPPED: True})
    add_weights_dropout(told, path, site, block)


def with_fixes(flow: Flow, site: Site, part: Scored) -> tuple[int, ...]:
    """The steps of a part; those of a softmax with what puts its rows right afterwards."""
    fixes = [node for node in site.weighed[:1] if flow.op(node) in ("mul", "masked_fill", "where", "nan_to_num")]
    return (*part.nodes, *fixes) if part.kind == "softmax" and not is_drawn(flow, site.softmax) else part.nodes


def is_idle(flow: Flow, node: int) -> bool:
    """Whether a scaling multiplies by one."""
    return flow.steps[node].settings.get("factor") == 1.0


def inputs_of(part: Scored, label: str, record: TensorRecord, maker: int) -> tuple[str, list[Named]]:
    """The canonical names of what a scored part reads."""
    if part.kind == "scale":
        return label, [("x", record, maker)]
    given: list[Named] = [("scores", record, maker)]
    if part.operand is not None:
        given.append((part.kind, part.operand.record, part.operand.maker))
    return label, given


def add_weights_dropout(told: Retold, path: str, site: Site, block: Block) -> None:
    """The dropout of the weights, also one that dropped nothing."""
    flow = told.flow
    softmax = told.owners.get(site.softmax)
    made = [node for node in site.weighed if flow.op(node) in DROPOUTS or is_drawn(flow, node)]
    handed = [
        node
        for maker in (site.softmax, *site.weighed)
        for node in flow.handed.get(maker, ())
        if flow.op(node) in DROPOUTS
    ]
    for node in (made or handed)[:1]:
        given: list[Named] = [("input", flow.output(site.softmax), site.softmax)]
        owns = node in made
        told.add(f"{path}.dropout", "dropout", [node], given, [flow.output(node)], inside=block, owns=owns, params=0)
        name_operands(told, {"input": (flow.output(site.softmax), softmax)})
        if not owns:
            told.hand_on()


def is_drawn(flow: Flow, node: int) -> bool:
    """Whether a product multiplies weights by what was drawn at random: a dropout spelled out."""
    if flow.op(node) not in ("mul", "mul_") or len(flow.steps[node].inputs) != 2:
        return False
    todo = [maker for maker in flow.makers[node] if maker is not None]
    for _ in range(8):
        if not todo:
            return False
        here = todo.pop()
        if flow.op(here).rstrip("_") in ("bernoulli", "rand", "rand_like"):
            return True
        if flow.op(here) not in SOFTMAXES:
            todo += [maker for maker in flow.makers[here] if maker is not None]
    return False
