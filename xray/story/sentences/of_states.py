"""What the card says of states that are handed on, and of the queries, keys and values that read and change them."""

from collections.abc import Callable, Set

from xray.story.anatomy.branches import Branch, Recurrence, StateHeads
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.of_attentions import branches, of_some_layers
from xray.story.sentences.sentence import Sentence, fixed
from xray.story.states.operands import SOLVES


def describe_state(anatomy: Anatomy, *, by_pieces: bool) -> str:
    """What is said of the states that go from place to place, or from one piece of the rows to the next."""

    def holds(branch: Branch) -> bool:
        return isinstance(branch, Recurrence) and bool(branch.by_pieces) is by_pieces

    where = of_some_layers(anatomy, holds).strip().capitalize()
    start = f"{where} a state" if where else "A state"
    way = "from one piece of the rows to the next" if by_pieces else "from place to place"
    told = f"{start} is changed and handed on {way}: it does not grow with the length."
    return told if any(map(holds, branches(anatomy))) else ""


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
    return f"Linear attention: {heads}; {wide}."


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


def describe_order(anatomy: Anatomy) -> str:
    some = tell_some(anatomy, lambda heads: heads.in_order)
    told = "Within a piece what each row writes is worked out of what those before it write"
    return "" if some is None else f"{told}{some}."


def states(anatomy: Anatomy) -> list[Recurrence]:
    """Every kind of state in it."""
    return [branch for branch in branches(anatomy) if isinstance(branch, Recurrence)]


def tell_some(anatomy: Anatomy, holds: Callable[[StateHeads], bool]) -> str | None:
    """Empty where it holds of all states, " in some layers" where of some, None where of none."""
    found = {branch.heads is not None and holds(branch.heads) for branch in states(anatomy)}
    return None if True not in found else " in some layers" if False in found else ""


SOLVED: Sentence[Set[str]] = fixed("solved inside", "a triangular system is solved inside", lambda ops: ops & SOLVES)
"""What is said in the box of a state, by the operations that it stands for."""
