"""What the card says of norms, and of what sublayers, queries and the stream are multiplied by."""

from collections.abc import Iterator, Sequence
from itertools import chain

from xray.story.anatomy.branch_words import ACTIVATIONS
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Anatomy, Norm, Stage, Tower
from xray.story.sentences.of_feed_forwards import forwards
from xray.story.sentences.of_links import spell_numbers
from xray.story.sentences.where import attentions, of_some
from xray.story.wording import join_words

WHERE = {"sublayer": "around sublayers", "entrance": "before the first layer", "last": "behind the last layer"}
"""Where norms stand that are in no sublayer."""

MOVED = {"scales": "scaled", "shifts": "shifted"}
"""What a condition does to what norms give, and how that is said of them."""


def stages(anatomy: Anatomy) -> Iterator[Stage]:
    """Every kind of stage in it."""
    return (stage for tower in anatomy.towers for group in tower.groups for stage in group.stages)


def norms(anatomy: Anatomy) -> Iterator[Norm]:
    """The norms of its stages."""
    return (stage.norm for stage in stages(anatomy))


def describe_query_factor(anatomy: Anatomy) -> str:
    known = {branch.queries_by_place for branch in attentions(anatomy)} - {None}
    each = "place in each head" if known == {"head"} else "place"
    words = f"queries are multiplied by a number for each {each}, f(place), which no row changes."
    return of_some(anatomy, lambda branch: branch.queries_by_place, words)


def describe_norm(anatomy: Anatomy) -> str:
    told = tell_norm(anatomy.towers)
    found: dict[str, list[str]] = {}
    for tower in anatomy.towers:
        if one := tell_norm((tower,)):
            found.setdefault(one, []).append(tower.name)
    if not told and [len(names) for names in found.values()] == [len(anatomy.towers)]:
        (told,) = found
    why = ": divided by the root mean square; no mean is taken away" if told.startswith("RMS norm") else ""
    if told:
        return f"{told}{why}."
    if len(found) < 2:
        return ""
    first, *others = (f"{one} ({', '.join(names)})" for one, names in found.items())
    return f"{'; '.join((first, *(one if one.startswith('RMS') else one[0].lower() + one[1:] for one in others)))}."


def tell_norm(towers: Sequence[Tower]) -> str:
    """Of what kind the norms of some towers are, and where they stand; empty where they do not all stand alike."""
    stages = [stage for tower in towers for group in tower.groups for stage in group.stages]
    norms = [stage.norm for stage in stages if stage.norm.place not in ("none", None)]
    kinds, places = {norm.kind for norm in norms}, {(norm.place, norm.on) for norm in norms}
    again = tell_norm_again(towers[0]) if len(towers) == 1 else ""
    if (len(places) != 1 and not again) or (len(kinds) > 1 and len(towers) > 1):
        return ""
    name = {"rms": "RMS norm", "layer": "Layer norm", "batch": "Batch norm", "group": "Group norm"}
    kind = name.get(kinds.pop() or "", "A norm") if len(kinds) == 1 else "A norm"
    share = describe_many_normed(towers)
    they, give, their = ("it", "gives", "its") if share == "each" else ("they", "give", "their")
    many = f"{share} sublayer{'s' * (share != 'each')}".strip()
    if again:
        return f"{kind} before {many}, and again {again}"
    place, on = places.pop()
    second = f"behind {their} sum" if on == "stream" else f"on what {they} {give}"
    where = {
        "before": f"before {many}",
        "both": f"before {many}, and again {second}",
        "after": f"after the sum of {many}" if on == "stream" else f"on what {many} {give}, before it is added",
    }
    where["both"] += ", and on the sum" * (on == "both")
    where["after"] += ", and on the sum" * (on == "both")
    return f"{kind} {where[place]}" if place in where else ""


def tell_norm_again(tower: Tower) -> str:
    """Where a second norm stands in a tower, all of whose norms stand before sublayers but for some that stand twice.

    Behind the last sum of each layer (Conformer), or on what all branches of one part give (A.X K1); else it is "".
    """
    stages = [stage for group in tower.groups for stage in group.stages if stage.norm.place not in ("none", None)]
    twice = [stage for stage in stages if stage.norm.place == "both"]
    on = {stage.norm.on for stage in twice}
    if len(on) != 1 or {stage.norm.place for stage in stages} != {"before", "both"}:
        return ""
    if on == {"stream"}:
        lasts = [group.stages[-1] for group in tower.groups]
        is_last = len(lasts) == len(twice) and all(one is other for one, other in zip(lasts, twice, strict=True))
        return "behind the last sum of each layer" if is_last else ""
    parts = {branch.part for stage in twice for branch in stage.branches}
    others = {branch.part for stage in stages if stage.norm.place != "both" for branch in stage.branches}
    if on != {"branch"} or len(parts) != 1 or parts & others or any(len(stage.branches) > 1 for stage in twice):
        return ""
    (part,) = parts
    return f"on what the {part.replace('_', '-')} {'give' if part == 'experts' else 'gives'}"


def describe_adaptive(anatomy: Anatomy) -> str:
    found = {norm.adaptive for norm in norms(anatomy) if norm.place not in ("none", None)}
    if True not in found:
        return ""
    where = " of some sublayers" if False in found else "" if None in found else " of sublayers"
    they = "each" if found == {True} else "each of these"
    own = [tower.conditions for tower in anatomy.towers if tower.conditioned]
    is_known = all(tower.conditioned or not has_adaptive(tower) for tower in anatomy.towers)  # else another tower's
    told = f", made of {join_words([*dict.fromkeys(chain(*own))])}," if own and all(own) and is_known else ""
    done = dict.fromkeys(way for tower in anatomy.towers for way in tower.conditioned if way in MOVED and is_known)
    moved = " or ".join(MOVED[way] for way in done) or "scaled or shifted"
    return f"Adaptive norms{where}: what stands beside the stream{told} says how much {they} is {moved}."


def has_adaptive(tower: Tower) -> bool:
    """Whether a norm of a tower's sublayers is scaled or shifted by what stands beside the stream."""
    return any(stage.norm.adaptive for group in tower.groups for stage in group.stages)


def describe_bare_norms(anatomy: Anatomy) -> str:
    found = [norm for norm in norms(anatomy) if norm.place not in ("none", None)]
    bare = bool(found) and all(norm.learned is False and norm.adaptive is False for norm in found)
    return "Norms of sublayers learn nothing: no numbers of their own multiply or shift what they give." if bare else ""


def describe_weighing(anatomy: Anatomy) -> str:
    found = {bool(norm.weighs_first) for norm in norms(anatomy)}
    what = "norms multiply" if found == {True} else "some norms multiply"
    return f"Scaled first: {what} by learned numbers before they divide, and not behind that." if True in found else ""


def describe_from_one(anatomy: Anatomy) -> str:
    told: dict[str, list[str]] = {}
    for tower in (one for one in anatomy.towers if one.from_one):
        others = [WHERE.get(site, f"inside {site.replace('_', '-')}") for site in tower.not_from_one]
        those, their = ("the one", "its") if tower.not_from_one == ("last",) else ("those", "their")
        but = f"; {those} {join_words(others)} by {their} weights alone" if others else ", not by the weights alone"
        some = "Norms" if {*tower.from_one}.isdisjoint(tower.not_from_one) else "Some norms"
        told.setdefault(f"{some}|multiply by 1 + the weights that they have{but}.", []).append(tower.name)
    return " ".join(text.replace("|", spell_towers(anatomy, names)) for text, names in told.items())


def spell_towers(anatomy: Anatomy, names: Sequence[str]) -> str:
    """Of which towers something is true, between two words; of no one where it is of all."""
    if len(names) == len(anatomy.towers):
        return " "
    return f" of the {join_words(names)} tower{'s' if len(names) > 1 else ''} "


def describe_many_normed(towers: Sequence[Tower]) -> str:
    """Whether each sublayer is known to have a norm, or most of them, or some; "" where that is not known.

    Of several that follow one another before one sum, the first alone is known to have one (U-Nets of diffusers), and
    the others may have theirs (DRCT).
    """
    stages = [stage for tower in towers for group in tower.groups for stage in group.stages]
    if any(len(stage.branches) > 1 and not stage.parallel and not stage.beside for stage in stages):
        return ""
    found = [
        (group.count, stage.norm.place not in ("none", None))
        for tower in towers
        for group in tower.groups
        for stage in group.stages
    ]
    share = sum(count for count, is_normed in found if is_normed) / sum(count for count, _ in found)
    return "each" if share == 1 else "most" if share > 1 / 2 else "some"


def describe_left_norms(anatomy: Anatomy) -> str:
    """Before which sublayers no norm stands, while one stands before those of other layers that do the same."""
    told: list[str] = []
    for tower in anatomy.towers:
        kinds = [
            (stage.branches[0].part, stage.norm.place, group.layers)
            for group in tower.groups
            for stage in group.stages
            if len(stage.branches) == 1 and stage.norm.place is not None
        ]
        for part in dict.fromkeys(part for part, _, _ in kinds):
            places = {place for one, place, _ in kinds if one == part}
            if places == {"none", "before"}:
                of = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
                own = [layers for one, place, layers in kinds if one == part and place == "none"]
                which = name_left(part, sorted(chain(*own)), of, is_one=is_only_one(tower, part, own))
                told.append(f"{which} has no norm of its own before it.")
    return " ".join(told)


def name_left(part: str, layers: Sequence[int], of: str, *, is_one: bool) -> str:
    """The part before which no norm stands in some layers, be it the one of its kind in each or not."""
    name = part.replace("_", "-")
    if is_one:
        return f"The {name} of {spell_numbers(layers)}{of}"
    article = "an" if name[0] in "aeiou" else "a"
    return f"In {spell_numbers(list(dict.fromkeys(layers)))}{of}, {article} {name}"


def is_only_one(tower: Tower, part: str, own: Sequence[tuple[int, ...]]) -> bool:
    """Whether groups of layers have no more than one branch of a part in a layer."""
    groups = (group for group in tower.groups if group.layers in own)
    return all(
        [branch.part for stage in group.stages for branch in stage.branches].count(part) == 1 for group in groups
    )


def describe_inner_norm(anatomy: Anatomy) -> str:
    inner = {
        "attention": [bool(branch.inner_norm) for branch in attentions(anatomy)],
        "feed-forward": [isinstance(one, FeedForward) and bool(one.inner_norm) for one in forwards(anatomy)],
    }
    where = [name if all(found) else f"some {name}s" for name, found in inner.items() if any(found)]
    return f"Inner norms: in {' and '.join(where)}, rows are normalised before the last linear layer." if where else ""


def describe_scale(anatomy: Anatomy) -> str:
    scales = {stage.scale for stage in stages(anatomy)}
    if "learned" in scales:
        what = "a sublayer gives" if scales == {"learned"} else "some sublayers give"
        return f"Layer scale: what {what} is multiplied by learned numbers, then added."
    what = "What" if None not in scales else "Some of what"
    return f"{what} is added to the stream is multiplied by a number first." if "number" in scales else ""


def describe_tanh(anatomy: Anatomy) -> str:
    what = tell_sublayers(anatomy, "tanh")
    return f"Gates by tanh: what {what} is multiplied by tanh of a learned number, then added." if what else ""


def describe_weighed_sums(anatomy: Anatomy) -> str:
    what = tell_sublayers(anatomy, "gates")
    how = "are each multiplied by a gate made of both, then added"
    return f"Gated sums: what {what} and the stream {how}." if what else ""


def tell_sublayers(anatomy: Anatomy, scale: str) -> str:
    """Which sublayers give what is multiplied so before it is added, each or some; empty where none does."""
    found = {stage.scale == scale for stage in stages(anatomy)}
    return ("a sublayer gives" if found == {True} else "some sublayers give") if True in found else ""


def describe_replaced(anatomy: Anatomy) -> str:
    found = {any(stage.replaces for stage in group.stages) for tower in anatomy.towers for group in tower.groups}
    where = "In every layer" if found == {True} else "In some layers"
    return f"{where} what a sublayer gives takes the stream's place: nothing is added there." if True in found else ""


def describe_since(anatomy: Anatomy) -> str:
    found = {(branch.part, stage.since) for stage in stages(anatomy) if stage.since for branch in stage.branches}
    part, since = found.pop() if len(found) == 1 else ("", None)
    sums = f"behind {since} other sums" if since else "behind other sums"
    if part == "experts":
        return f"A shortcut: experts read the stream, and what they give is added to it {sums}."
    known = any(stage.since for stage in stages(anatomy))
    return f"A shortcut: sublayers read the stream, and what they give is added to it {sums}." if known else ""


def describe_cleared(anatomy: Anatomy) -> str:
    found = {bool(stage.cleared) for stage in stages(anatomy)}
    where = "behind each sum" if found == {True} else "behind some of its sums"
    return f"Rows of the stream that a mask names are set to 0 {where}." if True in found else ""


def describe_stream_scale(anatomy: Anatomy) -> str:
    found = {stage.stream_scale for stage in stages(anatomy)}
    ways = found - {None}
    way = ways.pop() if len(ways) == 1 else None
    what = "learned numbers" if way in ("learned", "learned after") else "a number"
    is_behind = way in ("after", "learned after")
    some = "some sublayers" if None in found else "sublayers"
    where = "behind some of its sums" if is_behind else f"before what {some} give is added to it"
    return "" if way is None else f"The stream itself is multiplied by {what} {where}."


def describe_stream_weights(anatomy: Anatomy) -> str:
    ways = {tower.weighed_by for tower in anatomy.towers if tower.streams}
    weights, shares = ways.pop() if len(ways) == 1 else ((), ())
    if not weights or not shares:
        return ""
    made, given = spell_way(weights), spell_way(shares)
    return f"What weighs the streams is made of them: {made}. The share of each: {given}."


def spell_way(way: Sequence[tuple[str, float | None]]) -> str:
    """What is done to rows step by step, in words: "to 320 numbers, ÷ 4, SiLU"."""
    names = {"mul": "× {:g}", "div": "÷ {:g}", "linear": "led to {:,.0f} numbers"}
    told = [ACTIVATIONS.get(op, op) if one is None else names[op].format(one) for op, one in way]
    return ", ".join(told)
