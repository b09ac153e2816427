"""What a node of the layered drawing says: its name, what it is and does, its shapes, its line of code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.alarms.kinds import Alarm
from xray.story.blocks.block_lines import Flow, Gate
from xray.story.blocks.bundles import name_inside, name_kernel, name_operations
from xray.story.blocks.items import NOBODY, Item, Plan
from xray.story.blocks.kinds import Kind, kind_of
from xray.story.blocks.pass_groups import PassGroup, read_sizes
from xray.story.blocks.pieces import Piece, PieceKind
from xray.story.blocks.tree import name_place, name_range
from xray.story.facts.mask_names import name_mask
from xray.story.layout import Line, Run
from xray.story.shapes import ShapeText, digits, symbols
from xray.story.wording import plural, spell_share
from xray.text import show_controls

MOST_LETTERS = 44
EXACT, SPACE = 6, "\N{NO-BREAK SPACE}"
"""Graphviz takes so many small letters for narrower than they are, by about one space."""
PAINTED: dict[PieceKind, Kind] = {
    "norm": "normalisation",
    "rotation": "joining",
    "mask": "mask",
    "angles": "other",
    "picks": "other",
    "numbers": "other",
}
"""As what kind of work a piece is painted."""
TELLING: dict[PieceKind, tuple[str, ...]] = {"norm": ("norm",), "rotation": ("turn",), "mask": ("mask",)}
"""Words of a role that tells more of a piece than what its last operation does."""
LIBRARIES = ("torch/", "<")
"""Where lines of code begin that are not the user's."""


@dataclass(frozen=True)
class Drawn:
    """One group of passes with the plan of the one that is drawn, and what is known of its steps: roles, alarms.

    `flows` are the ways from node to node; `unseen` has for a node those that it reads as well.
    """

    group: PassGroup
    place: int
    plan: Plan
    roles: Mapping[str, str]
    alarms: Mapping[int, Alarm]
    flows: tuple[Flow, ...] = ()
    unseen: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def name(self, number: int) -> str:
        """The node of an item in the drawing."""
        return f"p{self.place}_n{number}"

    def holder(self, step_id: str | None) -> str | None:
        """The node that stands for a step, or for what is around it."""
        number = self.plan.holder(step_id)
        return None if number == NOBODY else self.name(number)

    def read(self, step: Step, place: int, *, from_inputs: bool = False) -> ShapeText | None:
        """The shape of one tensor of a step, over all passes and layers that the step stands for."""
        steps = self.group.same_step(step.id) if len(self.group.passes) > 1 else self.list_variants(step)
        sides = [one.inputs if from_inputs else one.outputs for one in steps]
        own = step.inputs if from_inputs else step.outputs
        rank = len(own[place].shape) if len(own) > place else None
        records = [side[place] for side in sides if len(side) > place and len(side[place].shape) == rank]
        return read_sizes(records) if records else None

    def list_variants(self, step: Step) -> tuple[Step, ...]:
        """The steps of other sizes that a step stands for, and itself."""
        return self.plan.variants.get(self.plan.tree.places.get(step.id, NOBODY), (step,))

    def name_kernel(self, step: Step) -> str:
        """An operation, with its kernel where all that it stands for have that one."""
        named = {name_kernel(one) for one in self.list_variants(step)}
        return named.pop() if len(named) == 1 else step.op

    def read_gate(self, gate: Gate) -> ShapeText:
        """The shape of what enters or leaves, over all passes."""
        step = self.plan.tree.steps[self.plan.tree.places[gate.step]]
        return self.read(step, gate.order, from_inputs=gate.kind != "output") or read_sizes([gate.record])


def describe_item(drawn: Drawn, item: Item) -> list[Line]:
    """The lines on an item's node."""
    tell = {"bundle": describe_bundle, "closed": describe_closed}.get(item.kind, describe_operation)
    lines = tell(drawn, item) if item.piece is None else describe_piece(drawn, item, item.piece)
    others = drawn.unseen.get(item.number, ())
    if others:
        names = [name_item(drawn.plan.nodes[number]) for number in others]
        said = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        lines.append((Run(shortened(f"and from {len(others)} others: {said}"), 11, "text", "semibold"),))
    return lines


def describe_operation(drawn: Drawn, item: Item) -> list[Line]:
    """One operation: its name and line of code, what it is for, what it makes."""
    step = item.heads[0]
    name = name_item(item)
    told = drawn.name_kernel(step)
    said = "" if told == name.rstrip("_0123456789") else shortened(told)
    lines: list[Line] = [head_line(Run(shortened(name), 13, "text", "bold"), item, said, describe_location(step))]
    lines += describe_role(drawn, item)
    for place in range(min(2, len(step.outputs))):
        lines += describe_shape(drawn.read(step, place), 15)
    if len(step.outputs) > 2:
        lines.append((Run(f"and {len(step.outputs) - 2:,} more", 10, "quiet"),))
    if is_unread(drawn.plan, step):
        lines.append((Run("read by no other step", 10, "quiet"),))
    for record in step.outputs[:1] if any(one.role == "mask" for one in step.outputs) else step.inputs:
        lines += describe_mask(record)
    return lines


def is_unread(plan: Plan, step: Step) -> bool:
    """Whether nothing goes on with what a step makes; what writes into another tensor may be read there."""
    tree, place = plan.tree, plan.tree.places[step.id]
    if tree.inside[place] or tree.readers[place] or step.error or step.op.endswith("_"):
        return False
    own = {record.source for record in step.outputs}
    while (place := tree.parents[place]) >= 0:
        if own.intersection(record.source for record in tree.steps[place].outputs):
            return False
    return own == {step.id}


def head_line(name: Run, item: Item, *more: str) -> Line:
    """A name with what is said of it in small letters, and how often it stands here."""
    told = [text for text in more if text]
    gaps = ["", *(SPACE * (len(text) // EXACT) for text in told)]
    quiet = tuple(Run(f"{gap}  {text}", 10, "quiet") for gap, text in zip(gaps, told, strict=False))
    return (name, *describe_times(item), *quiet)


def describe_closed(drawn: Drawn, item: Item) -> list[Line]:
    """A closed block: its class, shapes in and out, and how much is inside."""
    step = item.heads[0]
    sole = sole_step(drawn.plan, item)
    alone = "" if sole is None else drawn.name_kernel(sole)
    module = shortened(alone or step.module or step.op)
    lines = [head_line(Run(shortened(name_item(item)), 14, "text", "bold"), item, module, describe_location(step))]
    lines += describe_role(drawn, item)
    into = next((place for place, one in enumerate(step.inputs) if one.role in ("activation", "ids")), None)
    carried = list_carried_on(drawn, item)
    out = carried[0] if carried else 0
    ends = [
        drawn.read(step, into, from_inputs=True) if into is not None and sole is None else None,
        drawn.read(step, out),
    ]
    shapes = [digits(shape, 14) for shape in ends if shape is not None]
    if shapes:
        arrow: Line = (Run("  →  ", 12, "quiet"),)
        lines.append(shapes[0] if len(shapes) == 1 else (*shapes[0], *arrow, *shapes[1]))
    inside = item.length - 1
    leaves = list_leaves(drawn.plan, item) if sole is None else []
    told = name_inside(leaves) if all(drawn.name_kernel(one) == name_kernel(one) for one in leaves) else ()
    words = [f"{word}," for word in told[:-1]] + [*told[-1:]]
    lines += [(Run(line, 10, "quiet"),) for line in lay_in_lines(words) if line]
    params = sorted({one.params for one in drawn.list_variants(step)})
    said = [f"{'–'.join(f'{one:,}' for one in params[:1] + params[1:][-1:])} parameters"] if any(params) else []
    said += [f"{inside:,} steps inside"] if sole is None else []
    said += [f"output {out + 1} of {len(step.outputs)} goes on"] if out and len(carried) == 1 else []
    return [*lines, (Run(", ".join(said), 10, "quiet"),)] if said else lines


def list_leaves(plan: Plan, item: Item) -> list[Step]:
    """The steps of a closed block that hold no others, in order."""
    within = range(item.first + 1, plan.tree.ends[item.first])
    return [plan.tree.steps[place] for place in within if not plan.tree.inside[place]]


def list_carried_on(drawn: Drawn, item: Item) -> list[int]:
    """Which outputs of a block a step behind it reads, as the last of many maps, or the model hands out."""
    last, tree = item.last or item.heads[0], drawn.plan.tree
    read = {record.source for step in tree.steps[tree.ends[tree.places[last.id]] :] for record in step.inputs}
    read |= {record.source for root in tree.roots for record in tree.steps[root].outputs}
    return [number for number, record in enumerate(last.outputs) if record.source in read - {None}]


def sole_step(plan: Plan, item: Item) -> Step | None:
    """The one operation that a closed block does; None if it does several."""
    place = item.first
    while plan.tree.inside[place]:
        if len(plan.tree.inside[place]) > 1:
            return None
        place = plan.tree.inside[place][0]
    return plan.tree.steps[place]


def describe_piece(drawn: Drawn, item: Item, piece: Piece) -> list[Line]:
    """What a reader knows by one word: that word, what the code calls it, what comes out of it."""
    first, last = item.heads[0], item.heads[-1]
    steps = item.length - sum(bool(drawn.plan.tree.inside[drawn.plan.tree.places[one.id]]) for one in item.heads)
    lines: list[Line] = [head_line(Run(shortened(piece.words), 14, "text", "bold"), item, describe_location(last))]
    if first.module and len(item.heads) == 1:
        said = (Run(f"  {shortened(first.module)}", 10, "quiet"),)
        lines.append((Run(shortened(name_item(item)), 11, "text", "semibold"), *said))
    role = drawn.roles.get(last.id, "").removeprefix("part of: ")
    if any(word in role for word in TELLING.get(piece.kind, ())):
        lines.append((Run(shortened(role), 11, "text", "semibold"),))
    lines += describe_shape(drawn.read(last, 0), 14)
    params = sum(step.params for step in item.heads)
    weights = f"{params:,} parameters, " if params else ""
    lines.append((Run(f"{weights}{steps:,} steps inside", 10, "quiet"),))
    return lines


def describe_bundle(drawn: Drawn, item: Item) -> list[Line]:
    """Neighbours that were gathered: how many, what they do, and what comes out of the last."""
    tree, count = drawn.plan.tree, len(item.heads)
    blocks = sum(bool(tree.inside[tree.places[one.id]]) for one in item.heads)
    names = name_range((item.heads[0], item.heads[-1])) if blocks else name_operations(item.heads)
    beside = item.heads[0].parent is None and len(drawn.plan.items) > 1
    counted = [(blocks, "block"), (count - blocks, "step")]
    told = " and ".join(plural(many, what) for many, what in counted if many)
    said = f"{told}{' beside the model' if beside else ''}"
    lines: list[Line] = [(Run(said, 14, "text", "bold"), *describe_times(item))]
    lines += [(Run(line, 11, "text", "semibold"),) for line in broken_in_two(names)]
    first, last = describe_location(item.heads[0]), describe_location(item.heads[-1])
    where = first if first == last else f"{first} to {last.rpartition(':')[2] if same_file(first, last) else last}"
    if where:
        lines.append((Run(where, 10, "quiet"),))
    inside = item.length - count
    if inside:
        params = sum(step.params for step in item.heads)
        lines.append((Run(f"{params:,} parameters, {plural(inside, 'step')} inside", 10, "quiet"),))
    return lines + (describe_shape(drawn.read(item.heads[-1], 0), 14) if item.heads[-1].outputs else [])


def name_item(item: Item) -> str:
    """The item's name, from the first to the last where it stands for several."""
    step = item.heads[0]
    if item.count == 1 or item.last is None:
        return f"{name_place(step)}, call {step.call + 1}" if step.call and step.module else name_place(step)
    return name_range((step, item.last)) if item.kind != "step" else name_place(step)


def describe_times(item: Item) -> Line:
    """How many neighbours an item stands for."""
    if item.count < 2:
        return ()
    return (Run(f"  × {item.count:,} {item.differ}".rstrip(), 15, "text", "black"),)


def describe_role(drawn: Drawn, item: Item) -> list[Line]:
    """What an item is for; the number of a layer is left out where it stands for several."""
    role = drawn.roles.get(item.heads[0].id, "")
    role = role if item.count == 1 else role.rstrip("0123456789").rstrip()
    return [(Run(shortened(role), 11, "text", "semibold"),)] if role not in ("", item.heads[0].op) else []


def describe_shape(shape: ShapeText | None, size: int) -> list[Line]:
    """A shape, and the words of its axes where any is known."""
    if shape is None:
        return []
    known = any(axis not in ("", "1") for axis in shape.axes)
    axes = ShapeText(shape.sizes, tuple(axis or "·" for axis in shape.axes))
    return [(*digits(shape, size), *((Run("   ", 10), *symbols(axes, 10)) if known else ()))]


def describe_mask(record: TensorRecord) -> list[Line]:
    """A mask in words: what it hides and how much, and what True means in it."""
    if record.role != "mask" or record.mask is None:
        return []
    kind = {"padding+causal": "padding and causal", "custom": "hides by its own rule", "none": "hides nothing"}
    name = name_mask(record.mask)
    said = kind.get(name, name)
    if record.mask.kind == "none" and record.mask.polarity == "additive":
        return [(Run(said, 10, "text", "semibold"),)]
    means = {
        "true_is_visible": "True is visible",
        "true_is_hidden": "True is hidden",
        "additive": "added to scores",
    }
    share = f", {spell_share(record.mask.hidden_share)} hidden" if record.mask.hidden_share else ""
    return [(Run(f"{said}{share}, {means[record.mask.polarity]}", 10, "text", "semibold"),)]


def describe_location(step: Step) -> str:
    """The user's line, without the folders before it; nothing for a line inside torch."""
    if not step.location or step.location.startswith(LIBRARIES):
        return ""
    return shortened(step.location.rpartition("/")[2])


def same_file(one: str, other: str) -> bool:
    return bool(one) and one.rpartition(":")[0] == other.rpartition(":")[0]


def surface_of(plan: Plan, item: Item) -> str:
    """The surface that an item stands on, by the kind of its work."""
    if any(one.error for one in item.heads):
        return "failure"
    if item.piece is not None:
        return f"op_{PAINTED[item.piece.kind]}"
    sole = sole_step(plan, item) if item.kind == "closed" else item.heads[0]
    return "op_block" if sole is None or item.kind == "bundle" else f"op_{kind_of(sole)}"


def broken_in_two(text: str, width: int = 46) -> Sequence[str]:
    """A list of words on as many lines as it needs."""
    return lay_in_lines(show_controls(text).split(), width)


def lay_in_lines(words: Sequence[str], width: int = 46) -> Sequence[str]:
    """Words on as many lines as they need, none of them parted."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def shortened(text: str) -> str:
    """A name from outside, fit to be shown and no longer than a label."""
    text = show_controls(text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
