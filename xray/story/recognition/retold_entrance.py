"""What stands before the layers: words or patches, positions, their sum; and the masks."""

from dataclasses import replace

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.entrance_steps import Entrance, comes_from, counts_up
from xray.story.recognition.operation_kinds import CARRYING, LOOKUPS
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.retold_sublayers import add_norm
from xray.story.recognition.scored_parts import Operand
from xray.story.recognition.stacks import Stack


def retell_entrance(told: Retold, side: str, stack: Stack, found: Entrance | None, inside: Block) -> list[Named]:
    """The block of the embedding, if the pass has one; gives what it reads."""
    flow = told.flow
    if found is None:
        return []
    path = f"{side}.embedding"
    apart = [stack.layers[0][0].add]
    block = told.open(path, "embed", found.nodes, inside, apart=apart)
    entry: list[Named] = []
    if found.words:
        ids = [
            (record, maker)
            for record, maker in flow.given(found.words[0])
            if record.role == "ids" or not record.dtype.startswith("float")
        ]
        entry = [("ids", *ids[0])] if ids else []
        told.add(
            f"{path}.words",
            "embedding",
            found.words,
            [("input", *ids[0])] if ids else [],
            [flow.output(found.words[-1])],
            inside=block,
        )
    elif found.patches:
        record, maker = next(flow.given(found.patches[0]))
        entry = [("x", record, maker)]
        told.add(
            f"{path}.patches",
            "patches",
            found.patches,
            [("x", record, maker)],
            [flow.output(found.patches[-1])],
            inside=block,
        )
    if found.scale:
        record, maker = next(flow.given(found.scale[0]))
        told.add(
            f"{path}.scale", "scale", found.scale, [("x", record, maker)], [flow.output(found.scale[-1])], inside=block
        )
    retell_positions(told, path, found, block)
    if found.norm is not None:
        add_norm(told, f"{path}.norm", found.norm, block)
    last = stack.entry if found.last is None else found.last
    if found.dropout is not None and last is not None:
        made = flow.steps[found.dropout].outputs[0].source == flow.steps[found.dropout].id
        record, maker = next(flow.given(found.dropout))
        told.add(
            f"{path}.dropout",
            "dropout",
            [found.dropout],
            [("input", record, maker)],
            [flow.output(found.dropout)],
            inside=block,
            owns=made,
        )
        if not made:
            told.hand_on()
    told.close(block, entry)
    return entry


def retell_positions(told: Retold, path: str, found: Entrance, block: Block) -> None:
    """What is added to the words for their places, and the sum; token types first, where there are any."""
    flow = told.flow
    sides: list[tuple[int, int, Operand]] = []
    main = {*found.words, *found.scale, *found.patches}
    for add in found.sums:
        places = [place for place, maker in enumerate(flow.makers[add]) if not comes_from(flow, maker, main)]
        other = places[0] if places else len(flow.makers[add]) - 1
        sides.append((add, other, Operand(flow.steps[add].inputs[other], flow.makers[add][other])))
        main.add(add)
    ranked = sorted(sides, key=lambda one: looks_like_places(flow, one[2]), reverse=True)
    places_add = ranked[0][0] if ranked else None
    for add, other, operand in sides:
        name = "positions" if add == places_add else "types"
        nodes = [operand.maker] if operand.maker is not None else [add]
        carried = flow.carried_from(operand.maker, CARRYING)
        if carried is not None:
            nodes = [carried]
        ids: list[Named] = [
            (("ids" if record.role == "ids" else "x"), record, maker)
            for record, maker in (flow.given(nodes[0]) if operand.maker is not None else ())
            if record.role != "parameter"
        ][:1]
        told.add(f"{path}.{name}", name, nodes, ids, [operand.record], inside=block, owns=operand.maker is not None)
        source = told.steps[-1].id
        is_final = add == found.sums[-1]
        label = "add" if is_final else "add_types" if name == "types" else "add_positions"
        main_place = 1 - other if len(flow.makers[add]) == 2 else 0
        given: list[Named] = [
            ("x", flow.steps[add].inputs[main_place], flow.makers[add][main_place]),
            ("other", operand.record, operand.maker),
        ]
        counted = 0 if flow.moved_from(operand.record, operand.maker).role == "parameter" else None
        told.add(f"{path}.{label}", "add", [add], given, [flow.output(add)], inside=block, params=counted)
        step = told.steps[-1]
        told.steps[-1] = replace(
            step, inputs=tuple(replace(one, source=source) if one.name == "other" else one for one in step.inputs)
        )


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
