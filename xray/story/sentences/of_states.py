"""What the card says of what stands in the place of attention: states that are handed on, with the queries, keys and
values that read and change them, convolutions, and mixing of which nothing is learned.
"""

from collections.abc import Callable, Iterator, Set
from functools import partial

from xray.story.anatomy.branch_words import spell_pool
from xray.story.anatomy.branches import (
    Branch,
    Convolution,
    Experts,
    FeedForward,
    FourierMixing,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    StateHeads,
)
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.sentences.sentence import Sentence, fixed
from xray.story.sentences.where import branches, of_some_layers
from xray.story.states.operands import SOLVES

WRITES = {"sigmoid": "a sigmoid", "exp": "an exponential"}
"""What is said of the bend of the number by which what a row writes is multiplied."""
KNOWN_NOT_TO_LOOK = FeedForward | Experts | Convolution | Projection | PlaceMixing | FourierMixing | PoolMixing
"""Branches in which no place looks at others by how well they match."""


def describe_state(anatomy: Anatomy, *, by_pieces: bool) -> str:
    """What is said of the states that go from place to place, or from one piece of the rows to the next."""

    def holds(branch: Branch) -> bool:
        return isinstance(branch, Recurrence) and bool(branch.by_pieces) is by_pieces and not branch.at_once

    where = of_some_layers(anatomy, holds).strip().capitalize()
    start = f"{where} a state" if where else "A state"
    way = "from one piece of the rows to the next" if by_pieces else "from place to place"
    own = [branch for branch in branches(anatomy) if holds(branch)]
    here = " Here all rows are one piece." if by_pieces and all(map(is_one_piece, own)) else ""
    return f"{start} is changed and handed on {way}: it does not grow with the length.{here}" if own else ""


def is_one_piece(branch: Branch) -> bool:
    """Whether it is proven that the rows of a state all lie in one piece."""
    return isinstance(branch, Recurrence) and bool(branch.one_piece)


def describe_states_at_once(anatomy: Anatomy) -> str:
    """That there is a state for each place, of which many are worked out together."""

    def holds(branch: Branch) -> bool:
        return isinstance(branch, Recurrence) and branch.at_once

    where = of_some_layers(anatomy, holds).strip().capitalize()
    start = f"{where} each place" if where else "Each place"
    told = "has a state of its own: multiples of some are added to others, many at a time"
    return f"{start} {told}." if any(map(holds, branches(anatomy))) else ""


def describe_state_heads(anatomy: Anatomy) -> str:
    known = {branch.heads for branch in states(anatomy) if branch.heads is not None}
    sizes = {(one.key_heads, one.value_heads, one.d_k, one.d_v) for one in known}
    if len(sizes) != 1:
        return ""
    keys, values, d_k, d_v = sizes.pop()
    heads = f"{keys} heads of queries and keys, {values} of values"
    if values == keys:
        heads = f"{keys} heads of queries, keys and values"
    elif values % keys == 0:
        heads = f"{keys} heads of queries and keys, each for {values // keys} of the {values} of values"
    wide = f"{d_k} numbers in each" if d_k == d_v else f"{d_k} numbers of queries and keys in each, {d_v} of values"
    of_values = "" if values == keys else " of values"
    return f"Linear attention: {heads}; {wide}. The state is {d_k} × {d_v} numbers for each head{of_values}."


def describe_reading(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: True)
    return "" if some is None else f"Linear attention{some}: keys and values change the state, and queries read it."


def describe_unit_rows(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.by_length)
    return "" if some is None else f"Queries and keys of linear attention{some} are each divided by their length."


def describe_delta_rule(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.corrects)
    told = "what a state gives for a key is taken off its value, and what is left is written into it."
    return "" if some is None else f"Delta rule{some}: {told}"


def describe_fading(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.fades)
    told = "What a state held fades before more is written into it: how much is worked out of the rows"
    return "" if some is None else f"{told}{some}."


def describe_fading_alike(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.fades_alike)
    told = "What a state held is multiplied by one number for each head before more is written into it"
    return "" if some is None else f"{told}{some}: no row changes these numbers."


def describe_writing(anatomy: Anatomy) -> str:
    known = [branch.heads for branch in states(anatomy) if branch.heads is not None]
    bends = {heads.writes for heads in known if heads.writes is not None}
    some = tell_some(anatomy, lambda heads: heads.writes is not None)
    if some is None or len(bends) != 1:
        return ""
    of_values = "" if all(heads.key_heads == heads.value_heads for heads in known) else " of values"
    told = f"is worked out of the rows: {WRITES[bends.pop()]} for each head{of_values}"
    return f"How much each row writes into a state{some} {told}."


def describe_second_state(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.by_keys)
    told = "is divided by the size of what they read of a second one, of keys alone, or by a number that is larger"
    return "" if some is None else f"What queries read of a state{some} {told}."


def describe_filled(anatomy: Anatomy) -> str:
    found = {(branch.filled, branch.kind) for branch in states(anatomy)}
    filled, kind = next(iter(found)) if len(found) == 1 else (None, None)
    if filled is None:
        return ""
    pieces, long = filled
    one = f"one piece of {long:,}, which reads the state as it began"
    told = one if pieces == 1 else f"{pieces:,} pieces of {long:,}"
    return f"Rows of {kind or 'states'} are filled up with rows of 0 to {told}."


def describe_order(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.in_order)
    told = "Within a piece what each row writes is worked out of what those before it write"
    return "" if some is None else f"{told}{some}."


def describe_convolutions(anatomy: Anatomy) -> str:
    found = [one for one in branches(anatomy) if isinstance(one, Convolution)]
    if found and all(one.causal for one in found):
        just = "just " * (not all(one.is_wide for one in found))
        return f"Convolutions of layers mix each place with those {just}before it."
    mean = f"; the mean of all places is added{'' if all(one.adds_mean for one in found) else ' in some layers'}"
    near = " near each other" * (not all(one.is_wide for one in found))
    return f"Convolutions mix places{near}{mean * any(one.adds_mean for one in found)}." if found else ""


def describe_fourier(anatomy: Anatomy) -> str:
    found = {one.features for one in branches(anatomy) if isinstance(one, FourierMixing)}
    features = ", and the numbers of each" if found == {True} else ""
    told = f"it mixes every place with every other{features}; its real part goes on"
    return describe_unlearned(anatomy, FourierMixing, "Fourier transform", told) if found else ""


def describe_pool(anatomy: Anatomy) -> str:
    told = sorted({spell_pool(one) for one in branches(anatomy) if isinstance(one, PoolMixing)})
    many = f"each place becomes the {' or the '.join(told)}"
    return describe_unlearned(anatomy, PoolMixing, "Mixing by pooling", many) if told else ""


def describe_unlearned(anatomy: Anatomy, kind: type[Branch], name: str, told: str) -> str:
    """What is said of mixing of a kind of which nothing is learned, and that its towers have no attention, if so."""
    some = of_some_layers(anatomy, lambda one: isinstance(one, kind))
    towers = [tower for tower in anatomy.towers if any(isinstance(one, kind) for one in tower.branches)]
    has_none = all(isinstance(one, KNOWN_NOT_TO_LOOK) for tower in towers for one in list_branches(tower))
    own = f" of the {' or '.join(tower.name for tower in towers)} tower" if len(anatomy.towers) > 1 else ""
    none = f", and no layer{own} has attention" if has_none else ""
    return f"{name}{some}: {told}. Nothing of it is learned{none}."


def list_branches(tower: Tower) -> Iterator[Branch]:
    """Every kind of branch of a tower, those of rows that other sublayers leave out included."""
    stages = (stage for group in tower.groups for stage in group.stages)
    return (branch for stage in stages for branch in (*stage.branches, *(stage.others or ())))


def states(anatomy: Anatomy) -> list[Recurrence]:
    """Every kind of state in it."""
    return [branch for branch in branches(anatomy) if isinstance(branch, Recurrence)]


def tell_some(anatomy: Anatomy, holds: Callable[[StateHeads], bool]) -> str | None:
    """Empty where it holds of all states, " in some layers" where of some, None where of none."""
    found = {branch.heads is not None and holds(branch.heads) for branch in states(anatomy)}
    return None if True not in found else " in some layers" if False in found else ""


SOLVED: Sentence[Set[str]] = fixed("solved inside", "a triangular system is solved inside", lambda ops: ops & SOLVES)
"""What is said in the box of a state, by the operations that it stands for."""

OF_STATES: tuple[Sentence[Anatomy], ...] = (
    Sentence("recurrence", partial(describe_state, by_pieces=False)),
    Sentence("recurrence by pieces", partial(describe_state, by_pieces=True)),
    Sentence("states of all places", describe_states_at_once),
    Sentence("heads of a state", describe_state_heads),
    Sentence("what reads a state", describe_reading),
    Sentence("queries and keys of length 1", describe_unit_rows),
    Sentence("delta rule", describe_delta_rule),
    Sentence("how much is written", describe_writing),
    Sentence("a second state", describe_second_state),
    Sentence("state that fades", describe_fading),
    Sentence("state that fades alike", describe_fading_alike),
    Sentence("rows of a piece in order", describe_order),
    Sentence("rows filled up to pieces", describe_filled),
)
"""What the card says of the states of a model."""
