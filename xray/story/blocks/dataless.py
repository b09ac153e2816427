"""What is worked out without weights and without data: masks, angles, which are picked, constants."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DROPOUTS, FINDINGS, LOOKUPS, MASKINGS
from xray.ir.flow.projections import is_product, is_projection
from xray.ir.flow.remembering import once
from xray.ir.records import TensorRecord
from xray.story.blocks.rotations import list_rotations

Use = Literal["mask", "angles", "picks", "numbers"]
"""What for: to hide scores, to turn queries and keys, to say what is looked up, or anything else."""

NOTHING, IDS, DATA = range(3)
"""What a step depends on at most: nothing that changes, ids or masks that the model is given, or weights and data."""

CHANCES = ("rand", "bernoulli", "multinomial", "normal", "uniform", "exponential")
PICKS = LOOKUPS | frozenset({"gather", "take_along_dim", "index", "index_select"})
KERNELS = frozenset({"scaled_dot_product_attention", "flex_attention", "mask_scores"})


@once
def list_uses(flow: Flow) -> Mapping[int, Use]:
    """The steps that depend on neither weights nor data, each with what all who read it need it for.

    What is worked out of ids or masks that come in counts only where it hides scores or turns queries: edges of a graph
    are data, and so is what else is told by which nodes there are (DiGress).
    """
    depends = find_dependence(flow)
    turns = {node for rotation in find_turns(flow) for node in rotation}
    found: dict[int, Use] = {}
    for place in range(len(flow.steps) - 1, -1, -1):
        if depends[place] == DATA or not flow.is_leaf(place) or place in turns:
            continue
        readers = flow.readers.get(place, ())
        uses = {found[reader] if reader in found else use_of(flow, place, reader, turns) for reader in readers}
        use: Use = uses.pop() if len(uses) == 1 else "numbers"
        if readers and (depends[place] == NOTHING or use in ("mask", "angles")):
            found[place] = use
    return found


def use_of(flow: Flow, place: int, reader: int, turns: set[int]) -> Use:
    """What a step that depends on data, or on ids, needs another one for."""
    if reader in turns:
        return "angles"
    op = flow.op(reader)
    if op in MASKINGS | KERNELS or any(
        maker == place and record.role == "mask" for record, maker in flow.given(reader)
    ):
        return "mask"
    return "picks" if op in PICKS and names_picked(flow, place, reader) else "numbers"


def names_picked(flow: Flow, place: int, reader: int) -> bool:
    """Whether a step says which numbers another one picks, and is not what these are picked from."""
    makers = flow.makers[reader]
    return place in (makers[:1] if flow.op(reader) in LOOKUPS else makers[1:])


@once
def find_turns(flow: Flow) -> Sequence[tuple[int, ...]]:
    """The steps of every turn of queries or keys by place."""
    data = {place for place, what in enumerate(find_dependence(flow)) if what == DATA}
    return [turn for turn in list_rotations(flow, data) if meets_rows(flow, turn)]


def meets_rows(flow: Flow, turn: Collection[int]) -> bool:
    """Whether what is turned goes into a product with other rows before any weights: a cosine transform does not."""
    ahead = flow.ahead(*turn, within=lambda place: not is_projection(flow, place) and flow.op(place) not in FINDINGS)
    return any(is_product(flow, place) or flow.op(place) in KERNELS for place in ahead)


@once
def find_dependence(flow: Flow) -> tuple[int, ...]:
    """For each step what it depends on at most."""
    outer = {
        (record.shape, record.dtype)
        for step in flow.steps
        if step.parent is None and step.id in flow.one_pass.blocks
        for record in step.inputs
        if record.role not in ("ids", "mask")
    }
    chances = {op for op in {step.op for step in flow.steps} if op.startswith(CHANCES) or op in DROPOUTS}
    written = list_written(flow)
    found: list[int] = []
    for place, step in enumerate(flow.steps):
        most = DATA if step.error or step.op in chances or (step.params and flow.is_leaf(place)) else NOTHING
        most = max(most, IDS * (place in written))
        for record, maker in flow.given(place):
            if most == DATA:
                break
            most = max(most, read_outside(record, outer) if maker is None else found[maker])
        found.append(most)
    return tuple(found)


def list_written(flow: Flow) -> set[int | None]:
    """The steps that make a tensor of Python's numbers, by which rows are looked up: those of words, say."""
    first = (flow.makers[place][:1] for place in range(len(flow.steps)) if flow.op(place) in LOOKUPS)
    looked = {flow.carried_from(maker) for made in first for maker in made}
    return {place for place in looked if place is not None and flow.op(place) in ("tensor", "as_tensor")}


def read_outside(record: TensorRecord, outer: set[tuple[tuple[int, ...], str]]) -> int:
    """What a tensor stands for that no step of the pass made; one like an input of the model counts as data."""
    if record.source is not None:
        return DATA
    if record.role in ("ids", "mask"):
        return IDS
    return DATA if record.role != "activation" or (record.shape, record.dtype) in outer else NOTHING
