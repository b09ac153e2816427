"""What stands before the layers: words or patches, positions, their sum; and the masks."""

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.entrance_steps import Entrance, comes_from, counts_up
from xray.story.recognition.operation_kinds import CARRYING, LOOKUPS
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.scored_parts import Operand
from xray.story.recognition.stacks import Stack


def retell_entrance(told: Retold, side: str, stack: Stack, found: Entrance) -> None:
    """The block of the embedding."""
    path = f"{side}.embedding"
    told.open(path, found.nodes, apart=[stack.layers[0][0].add])
    if found.words:
        told.add(f"{path}.words", found.words)
    elif found.patches:
        told.add(f"{path}.patches", found.patches)
    if found.scale:
        told.add(f"{path}.scale", found.scale)
    retell_positions(told, path, found)
    if found.norm is not None:
        told.add(f"{path}.norm", found.norm.nodes)
    last = stack.entry if found.last is None else found.last
    if found.dropout is not None and last is not None:
        dropout = told.flow.steps[found.dropout]
        told.add(f"{path}.dropout", [found.dropout], owns=dropout.outputs[0].source == dropout.id)


def retell_positions(told: Retold, path: str, found: Entrance) -> None:
    """What is added to the words for their places, and the sum; token types first, where there are any."""
    flow = told.flow
    sides: list[tuple[int, Operand]] = []
    main = {*found.words, *found.scale, *found.patches}
    for add in found.sums:
        places = [place for place, maker in enumerate(flow.makers[add]) if not comes_from(flow, maker, main)]
        other = places[0] if places else len(flow.makers[add]) - 1
        sides.append((add, Operand(flow.steps[add].inputs[other], flow.makers[add][other])))
        main.add(add)
    ranked = sorted(sides, key=lambda one: looks_like_places(flow, one[1]), reverse=True)
    for add, operand in sides:
        name = "positions" if add == ranked[0][0] else "types"
        carried = flow.carried_from(operand.maker, CARRYING)
        node = carried if carried is not None else operand.maker if operand.maker is not None else add
        told.add(f"{path}.{name}", [node], owns=operand.maker is not None)
        label = "add" if add == found.sums[-1] else "add_types" if name == "types" else "add_positions"
        told.add(f"{path}.{label}", [add])


def looks_like_places(flow: Flow, operand: Operand) -> int:
    """How much an addend looks like positions: the same for every sequence, counted out, or a learned square."""
    record = operand.record
    score = 0
    if record.role == "parameter" or operand.maker is None:
        score += 2
    if len(record.shape) < 3 or record.shape[0] == 1:
        score += 3
    here = flow.carried_from(operand.maker, CARRYING)
    if here is not None and flow.op(here) in LOOKUPS:
        number = flow.steps[here].settings.get("num_embeddings")
        score += 1 if isinstance(number, int) and number > 4 else 0
        ids = flow.makers[here][0] if flow.makers[here] else None
        score += 2 if counts_up(flow, ids) else 0
    return score
