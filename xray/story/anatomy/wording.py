"""An anatomy in words: a head line, the lines of each tower, and what ends the network. None is silence."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from xray.story.anatomy.beside_layers import Bridge, EntrancePart
from xray.story.anatomy.branch_words import NORMS, describe_part, describe_sizes, describe_traits, join
from xray.story.anatomy.branches import Experts
from xray.story.anatomy.tree import Anatomy, Group, Norm, Tower
from xray.story.wording import plural, spell_factor

LINKS = {
    "memory": "is the memory of",
    "joined": "is joined into",
    "compared": "is compared with",
    "multiplied": "is multiplied with",
    "chosen": "gives ids to",
    "scored": "adds its scores to those of",
    "met": "is put together with what leaves",
    "keys": "gives keys and values, layer by layer, to",
}
SCALES = {
    "learned": "scaled by learned numbers",
    "number": "scaled by a number",
    "tanh": "scaled by tanh of a learned number",
    "gates": "weighed against the stream by gates",
}
STREAM_SCALES = {
    "before": "the stream times a number before the sum",
    "learned": "the stream times learned numbers before the sum",
    "after": "the stream times a number after the sum",
    "learned after": "the stream times learned numbers after the sum",
}
PER_PLACE = "used for each place"
MOST_UNTOLD = 8


@dataclass(frozen=True)
class Line:
    """One line of a tower: which layers, what part, its sizes, what is special to it, its norm."""

    layers: str
    part: str
    sizes: str
    traits: str
    norm: str


def describe_network(anatomy: Anatomy) -> str:
    """How many parameters there are, and how many of them work on each place."""
    words = [] if anatomy.params is None else [plural(anatomy.params, "parameter")]
    if anatomy.active_params is not None and anatomy.active_params != anatomy.params:
        words.append(f"{anatomy.active_params:,} of them {name_active(anatomy)}")
    return join(*words)


def name_active(anatomy: Anatomy) -> str:
    """What the parameters are called that are used: a place of one tower does not go through another one.

    Where no experts are chosen, some places may use what others do not: a row of a class is learned at one (DINOv2).
    """
    branches = (branch for tower in anatomy.towers for branch in tower.branches)
    if not any(isinstance(branch, Experts) for branch in branches):
        return "used"
    if len(anatomy.towers) > 1:
        return "used with chosen experts"
    is_most = any(isinstance(one, Experts) and one.capacity for tower in anatomy.towers for one in tower.branches)
    return f"{PER_PLACE}, at most" if is_most else PER_PLACE


def counts_whole_table(anatomy: Anatomy) -> bool:
    """Whether a table of words, of which a place looks up one row, is among what is used for each place."""
    head, has_words = anatomy.head, any(tower.vocab for tower in anatomy.towers)
    return (
        has_words
        and name_active(anatomy).startswith(PER_PLACE)
        and (head is None or head.kind == "none" or head.tied is False)
    )


def describe_tower(tower: Tower) -> str:
    """A tower in one line: what it reads, how wide and deep it is, and which way it looks."""
    causal = {True: "causal", False: "sees both ways", None: ""}[tower.causal]
    return join(
        tower.reads and f"reads {' and '.join(filter(None, (tower.reads, tower.also, tower.among)))}",
        tower.vocab and plural(tower.vocab, "word"),
        tower.d_model and f"d_model {tower.d_model:,}",
        tower.streams and f"{tower.streams} streams side by side",
        plural(tower.layers, "layer"),
        causal,
        tower.final_norm and f"{NORMS[tower.final_norm]} at the end",
    )


def list_lines(tower: Tower) -> Iterator[Line]:
    """The entrance of a tower, and the branches of each kind of its layers."""
    if tower.entrance:
        yield Line("", "entrance", join(*(describe_entrance(part) for part in tower.entrance)), "", "")
    if tower.conditions:
        yield Line("", "condition", f"of {', '.join(tower.conditions)}", ", ".join(tower.conditioned), "")
    bridges = {bridge.before: bridge for bridge in tower.bridges}
    for group in tower.groups:
        bridge = bridges.get(group.layers[0])
        if bridge is not None:
            where = "within the layer" if bridge.within else "between layers"
            yield Line(f"→ {bridge.before}", where, describe_bridge(bridge), "", "")
        layers = describe_layers(group)
        for stage in group.stages:
            for number, branch in enumerate(stage.branches):
                part = describe_part(branch)
                beside = number > 0 and ("∥ " if stage.is_beside(number) else "then ")
                since = stage.since and f"begun {stage.since} sums before"
                scaled = (SCALES.get(stage.scale or ""), STREAM_SCALES.get(stage.stream_scale or ""), since)
                norm = join(describe_norm(stage.norm), *scaled) if number == 0 else ""
                yield Line(layers, f"{beside or ''}{part}", describe_sizes(branch), describe_traits(branch), norm)
                layers = ""
            for branch in stage.others or ():
                yield Line(
                    "", f"∥ {describe_part(branch)} of other rows", describe_sizes(branch), describe_traits(branch), ""
                )


def list_ends(anatomy: Anatomy) -> Iterator[tuple[str, str]]:
    """What ends the network: links between towers, the head, what nobody could place."""
    for link in anatomy.links:
        layers = f", behind layer{'s' * (len(link.behind) > 1)} {str([*link.behind])[1:-1]}" if link.behind else ""
        yield "link", f"{link.source} {LINKS[link.kind]} {link.target}{layers}"
    head = anatomy.head
    if head is not None and head.kind != "none":
        tied = {True: "uses the table of the words", False: "weights of its own", None: ""}[head.tied]
        what = f"{head.kind}{f' {head.size:,}' if head.size else ''}"
        rows = head.rows_scale and f"rows times {spell_factor(head.rows_scale)}"
        scaled = head.scale and f"times {spell_factor(head.scale)}"
        capped = head.cap and f"capped at {head.cap:g}"
        yield "head", join(f"{what} for each place" if head.kind == "numbers" else what, tied, rows, scaled, capped)
    for what, parts in (("not placed", anatomy.untold), ("unused", anatomy.unused)):
        for part in parts[:MOST_UNTOLD]:
            yield what, join(part.path, plural(part.params, "parameter"), part.lost and "nothing reads what it gives")
        rest = parts[MOST_UNTOLD:]
        if rest:
            yield what, f"{len(rest)} more, {plural(sum(one.params for one in rest), 'parameter')}"


def describe_bridge(bridge: Bridge) -> str:
    """What becomes of the stream between two layers."""
    wider = f"{bridge.d_in:,} → {bridge.d_out:,}" if bridge.d_in != bridge.d_out else ""
    heads = bridge.heads and f"attention of {bridge.heads} head{'s' * (bridge.heads > 1)}"
    added = bridge.added and "added to the stream"
    beside = bridge.beside and f"{bridge.beside} row{'s' * (bridge.beside > 1)} put beside"
    counted = bridge.counted is not None and "each row repeated as often as is worked out"
    return join(bridge.joined and f"{bridge.joined} places to 1", wider, heads, added, beside, counted)


def describe_layers(group: Group) -> str:
    """Which layers a group holds, counted from 0, and whether they share their weights."""
    numbers = group.layers
    first, last = numbers[0], numbers[-1]
    if first == last:
        return str(first)
    steps = {after - before for before, after in pairwise(numbers)}
    every = f" every {steps.copy().pop()}" if len(steps) == 1 and steps != {1} else ""
    dots = "–" if steps == {1} or every else "…"
    sets = group.weight_sets or int(bool(group.shared))
    sets_told = f", {sets} sets of weights" if sets > 1 else ", shared" * sets
    shares = (("dropout", group.dropouts), ("drop path", group.drop_paths))
    dropped = "".join(f", {what} {share[0]:.3g}–{share[1]:.3g}" for what, share in shares if share)
    return f"{first}{dots}{last}{every} ×{group.count}{sets_told}{dropped}"


def describe_norm(norm: Norm) -> str:
    """Which norm a stage has, and where."""
    if norm.place in ("none", None):
        return norm.place or ""
    kind = NORMS[norm.kind] if norm.kind is not None else "norm"
    on = " the sum" if norm.on == "stream" and norm.place == "after" else ""
    adaptive = "adaptive " if norm.adaptive else ""
    place = "before and after" if norm.place == "both" else norm.place
    times = f", {norm.times} times" if norm.times else ""
    return f"{adaptive}{kind} {place}{on}{times}"


def describe_entrance(part: EntrancePart) -> str:
    """A thing that stands before the first layer."""
    size = "" if part.size is None or part.part == "class token" else f" {part.size:,}"
    return f"{'added ' * part.added}{part.part}{size}"
