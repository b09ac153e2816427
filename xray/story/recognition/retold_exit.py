"""What stands behind the layers: the head, the loss, the choice of the next word."""

from dataclasses import dataclass

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import find_norm
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS, JOINS, LOSSES, SCALINGS, SOFTMAXES, SUMS
from xray.story.recognition.projections import data_input, is_product, is_projection
from xray.story.recognition.retold_moves import add_linear
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.stacks import Stack
from xray.story.recognition.sublayers import is_bend

CHOICES = frozenset({"argmax", "multinomial"})
MOST_STEPS = 64


@dataclass(frozen=True)
class Exit:
    """The way from the end of a stack to its result."""

    head: int | None
    after_head: tuple[int, ...]
    loss: int | None


def read_exit(flow: Flow, stack: Stack) -> Exit:
    """The last projection behind a stack, and the loss if one was worked out from it."""
    todo, seen = [stack.result], {stack.result}
    if stack.result != stack.end:
        seen.add(stack.end)
    projections: list[int] = []
    loss: int | None = None
    while todo and len(seen) < MOST_STEPS:
        here = todo.pop(0)
        for reader in flow.readers.get(here, ()):
            if reader in seen or reader < here or not flow.steps[reader].outputs:
                continue
            op = flow.op(reader)
            if op in LOSSES or flow.output(reader).role == "loss":
                loss = reader if loss is None else loss
                continue
            if is_projection(flow, reader):
                number = data_input(flow, reader)
                if number is None or flow.makers[reader][number] != here:
                    continue
                projections.append(reader)
            elif is_product(flow, reader) or not (
                op in CARRYING | DROPOUTS | SCALINGS | SUMS
                or op in ("tanh", "mean", "log_softmax", "index_select", "gather", "softmax")
                or find_norm(flow, reader) is not None
                or is_bend(flow, reader)
            ):
                continue
            seen.add(reader)
            todo.append(reader)
    head = projections[-1] if projections else None
    if head is not None and (ends_in_bend(flow, head) or goes_on(flow, head)):
        head = None
    after = tuple(following(flow, head)) if head is not None else ()
    return Exit(head, after, loss)


def goes_on(flow: Flow, head: int) -> bool:
    """Whether more is projected from what a projection made: it chose an expert, say, and was no head."""
    todo, seen = [head], {head}
    while todo and len(seen) < MOST_STEPS:
        for reader in flow.readers.get(todo.pop(0), ()):
            if reader not in seen and is_projection(flow, reader):
                return True
            seen.add(reader)
            todo.append(reader)
    return False


def ends_in_bend(flow: Flow, head: int) -> bool:
    """Whether a projection's result is bent, and nothing else is read of it: a pooler, no head."""
    here = head
    for _ in range(6):
        onward = flow.readers.get(here, ())
        if not onward:
            return False
        if all(
            is_bend(flow, node)
            and flow.op(node) not in SOFTMAXES | {"log_softmax"}
            and len(flow.readers.get(node, ())) == 0
            for node in onward
        ):
            return True
        if len(onward) != 1 or flow.op(onward[0]) not in CARRYING | SUMS:
            return False
        here = onward[0]
    return False


def following(flow: Flow, head: int) -> list[int]:
    """The moves and the bias right behind a head."""
    taken: list[int] = []
    here = head
    wide = flow.output(head).shape[-1]
    while True:
        onward = flow.readers.get(here, ())
        if len(onward) != 1 or not flow.steps[onward[0]].outputs:
            return taken
        step = flow.steps[onward[0]]
        rank = len(step.outputs[0].shape)
        is_bias = step.op in SUMS and any(one.role == "parameter" for one in step.inputs)
        restores = (
            step.op in ("view", "unsafe_view", "reshape")
            and rank > len(flow.output(here).shape)
            and step.outputs[0].shape[-1] == wide
        )
        if not (is_bias or restores or step.op in ("contiguous",)):
            return taken
        taken.append(onward[0])
        here = onward[0]


def retell_exit(told: Retold, found: Exit) -> None:
    """The head, the loss, and back-propagation, where the pass shows it."""
    flow = told.flow
    if found.head is not None:
        add_linear(told, "head", found.head, found.after_head)
    if found.loss is not None:
        retell_loss(told, found.loss)
        back = next((place for place in range(found.loss + 1, len(flow.steps)) if flow.op(place) == "backward"), None)
        if back is not None:
            told.add("backward", [back])


def retell_loss(told: Retold, loss: int) -> None:
    """The loss as a block: what it is given laid flat, and the comparison itself."""
    flow = told.flow
    given = [maker for record, maker in flow.given(loss) if record.role != "parameter"]
    flat = {
        name: maker
        for name, maker in zip(("logits", "targets"), given, strict=False)
        if maker is not None and flow.op(maker) in ("flatten", "view", "reshape")
    }
    told.open("loss", sorted({loss, *flat.values()}), exact=True)
    for name, maker in flat.items():
        told.add(f"loss.flatten_{name}", [maker])
    told.add("loss.cross_entropy", [loss])


def retell_choice(told: Retold, head: int) -> None:
    """How the next word is chosen after the head, and put behind the others, where the pass shows it."""
    flow = told.flow
    way = find_choice(flow, head)
    if way is None:
        return
    rank = len(flow.output(head).shape)
    row = next((node for node in way if len(flow.output(node).shape) < rank), None)
    softmax = next((node for node in way if flow.op(node) in SOFTMAXES), None)
    told.open("next_word", way)
    for name, node in (("last_row", row), ("softmax", softmax), ("argmax", way[-1])):
        if node is not None:
            told.add(f"next_word.{name}", [node])
    joined = find_append(flow, way[-1])
    if joined is not None:
        told.add("append", [joined])


def find_choice(flow: Flow, head: int) -> list[int] | None:
    """The steps from the head to the choice of a word, that last; None where no word is chosen."""
    todo: list[list[int]] = [[head]]
    seen = {head}
    while todo and len(seen) < MOST_STEPS:
        way = todo.pop(0)
        for reader in flow.readers.get(way[-1], ()):
            if reader in seen or not flow.steps[reader].outputs:
                continue
            if flow.op(reader) in CHOICES:
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
