"""From the scores to the weights under canonical paths: scale, bias, mask, softmax, dropout."""

from itertools import takewhile

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import DROPOUTS, SOFTMAXES
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.scored_parts import Scored, read_scored


def add_scores(told: Retold, path: str, site: Site) -> None:
    """Scores, scale, bias, mask, softmax, dropout."""
    flow = told.flow
    parts = read_scored(flow, site.scored)
    is_scaled = f"{path}.scale" in told.origins
    if is_scaled:
        parts = [part for part in parts if part.kind != "scale" or not is_idle(flow, part.nodes[0])]
    rest = {node for part in parts for node in part.nodes}
    nodes = [site.scores, *takewhile(lambda node: node not in rest, site.scored[1:])]
    told.add(f"{path}.scores", nodes)
    used: dict[str, int] = {"scale": 1} if is_scaled else {}
    for part in parts:
        used[part.kind] = used.get(part.kind, 0) + 1
        label = part.kind if used[part.kind] == 1 else f"{part.kind}_{used[part.kind]}"
        told.add(f"{path}.{label}", part.nodes, core=with_fixes(flow, site, part))
    add_weights_dropout(told, path, site)


def with_fixes(flow: Flow, site: Site, part: Scored) -> tuple[int, ...]:
    """The steps of a part; those of a softmax with what puts its rows right afterwards."""
    fixes = [node for node in site.weighed[:1] if flow.op(node) in ("mul", "masked_fill", "where", "nan_to_num")]
    return (*part.nodes, *fixes) if part.kind == "softmax" and not is_drawn(flow, site.softmax) else part.nodes


def is_idle(flow: Flow, node: int) -> bool:
    """Whether a scaling multiplies by one."""
    return flow.steps[node].settings.get("factor") == 1.0


def add_weights_dropout(told: Retold, path: str, site: Site) -> None:
    """The dropout of the weights, also one that dropped nothing."""
    flow = told.flow
    made = [node for node in site.weighed if flow.op(node) in DROPOUTS or is_drawn(flow, node)]
    handed = [
        node
        for maker in (site.softmax, *site.weighed)
        for node in flow.handed.get(maker, ())
        if flow.op(node) in DROPOUTS
    ]
    for node in (made or handed)[:1]:
        told.add(f"{path}.dropout", [node], owns=node in made)


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
