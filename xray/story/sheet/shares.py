"""Where the parameters are: what of them each part holds, and what took no part."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.operation_kinds import FINDINGS, SIDE_BY_SIDE
from xray.ir.flow.weights import gather_weights, list_above, list_worked, read_weights
from xray.ir.trace import Trace
from xray.story.body.reading import Reading
from xray.story.body.towers import Towering
from xray.story.exits.several_heads import list_added_head
from xray.story.facts.totals import count_params
from xray.story.facts.unused import find_unworked, join_alike, name_kind
from xray.story.passages.added_places import list_layouts
from xray.story.passages.homes import find_homes, list_holders, read_leading
from xray.story.recognition.between import is_linear, list_reading_data, weights_of, with_weights
from xray.story.sentences.of_parts import IN_COMMON, OF_THEIR_OWN
from xray.story.sheet.columns import Column
from xray.story.sheet.counting import Lodgers
from xray.story.sheet.layer_blocks import list_around_layers
from xray.story.sheet.parts import AROUND, COMMON, list_learned_for_many, list_parts, list_serving

MOST_UNUSED = 3
EXIT = "exit"
"""What stands behind a tower, where that is no head."""
REST = "all else"
"""What is left when every part has what it works with."""


def list_put_beside(flow: Flow, nodes: Collection[int], led: Collection[int]) -> set[int]:
    """The linear layers among some steps that read no data and no weights, and whose rows are put beside what is led.

    So zeros stand for a sound that was not given, beside a text's rows (MusicGen Melody).
    """
    data, found = list_reading_data(flow), set[int]()
    for node in (one for one in nodes if one not in data and flow.steps[one].params and is_linear(flow, one)):
        made = set(flow.behind(*flow.makers[node]))
        held = flow.steps[node].is_given_weights or any(flow.steps[one].is_learned for one in made)
        way = set(flow.ahead(node, within=lambda one: one not in led))
        met = {reader for one in way for reader in flow.readers.get(one, ()) if reader in led}
        found |= {node} if not held and met and all(flow.op(one) in SIDE_BY_SIDE for one in met) else set()
    return found


def list_shares(
    columns: Sequence[Column],
    trace: Trace,
    undrawn: Set[str] = frozenset(),
    unboxed: Set[str] = frozenset(),
    *,
    has_head: bool = True,
) -> tuple[tuple[str, str, int], ...]:
    """The parameters by part, over all layers, each counted once; what is left is named as what it is: the rest.

    Each belongs to the first part whose steps work with it. The head is the last tower's; what stands before it, behind
    others, or where there is no head, is an exit. What is `idle` is counted with the part that works with the others of
    its module; the largest of the rest are named. What is `undrawn`, or stands inside of that, is no part's; nor is
    what is `unboxed` a sublayer's, as the number beside its boxes is theirs.
    """
    found: list[tuple[str, str, dict[str, int]]] = []
    seen, idle = set[str](), find_unworked(trace)
    worked = {name for one in trace.passes for name in list_worked(read_flow(one))}
    lodgers = Lodgers.among(idle, worked)
    several = sum(column.is_first for column in columns) > 1
    staged: dict[int, set[int]] = {}
    entered: dict[int, set[int]] = {}
    for column in columns:
        inside = set().union(*(staging.nodes for staging in column.towering.stagings))
        many = list_learned_for_many(column.reading.flow, column.towering)
        staged.setdefault(id(column.reading.flow), set()).update(inside, many)
        entered.setdefault(id(column.reading.flow), set()).update(column.towering.entrance)

    def add(
        flow: Flow,
        name: str,
        role: str,
        groups: list[set[int]],
        times: int = 0,
        beside: Collection[int] = (),
        left: Set[str] = undrawn,
    ) -> None:
        elsewhere = {*staged[id(flow)], *beside, *(entered[id(flow)] if times else ())}
        held = [weights_of(flow, group, elsewhere) for group in groups]
        held = [leave_untold(own, left, is_whole=not times) for own in held]
        rows = tell_parts(held, times, seen) if times else {"": {one: n for own in held for one, n in own.items()}}
        for told, weights in rows.items():
            found.append((f"{name}{told}", role, {one: n for one, n in weights.items() if one not in seen}))
        seen.update(*held)

    firsts = [column for column in columns if column.is_first]
    leadings = [read_leading(one.reading.flow, one.towering, one.reading.towers) for one in firsts]
    lent = list_lent(columns)
    for column, leading in zip(firsts, leadings, strict=True):
        own, name = column.look.own, f"{column.name} " if several else ""
        flow = column.reading.flow
        pairs = [(one, two) for one, two in zip(firsts, leadings, strict=True) if one.reading is column.reading]
        onward = [other.onward.get(column.towering.end, {}) for _, other in pairs]
        for sources in dict.fromkeys(ends for some in (leading.between, *onward) for ends in some) if several else ():
            names = [one.tower.name for one in column.reading.towers if one.end in sources]
            led = [set(some[sources]) for some in (leading.between, *onward) if sources in some]
            put_beside = list_put_beside(flow, column.towering.entrance, set().union(*led))
            add(flow, f"{' and '.join(names)} to {column.name}", "card", led, beside=put_beside)
        theirs = set[int]().union(*(leading.inside.get(one.towering.end, ()) for one, _ in pairs))
        theirs = theirs.union(*(led for some in leading.onward.values() for led in some.values()))
        add(flow, f"{name}entrance", own, [set(column.towering.entrance) - theirs])
        inside = set().union(*(staging.nodes for staging in column.towering.stagings))
        add(flow, f"{name}places", own, [{*list_layouts(flow, inside)}])
        condition = column.towering.condition
        beside_it = "looked at" if column.towering.tower.looked_at else "conditions"
        worked_out = set[int]() if condition is None else set(condition.nodes) - list_drawn_elsewhere(column, firsts)
        add(flow, f"{name}{beside_it}", own, [worked_out])
        around = list_around_layers(flow, column.towering) | list_learned_for_many(flow, column.towering)
        corrections, boxes = column.towering.corrections, column.towering.tower.boxes
        begun = [with_weights(flow, one.first or one.beside) for one in corrections[:1]]
        add(flow, f"{name}first boxes", own, begun)
        times = len(boxes.behind) if boxes is not None and boxes.shared and boxes.begun is None else len(corrections)
        corrected = [set(one.steps) for one in corrections]
        add(flow, f"{name}boxes corrected", own, corrected, times)
        add(flow, f"{name}places of boxes", own, [set(one.places) for one in corrections])
        beside = nodes_beside(columns, column.reading)
        add(flow, f"{name}around layers", own, [{*around} - beside], beside=beside)
        beside |= around
        for kind, groups in list_kinds(flow, column.towering, beside):
            left = undrawn if kind in (COMMON, AROUND) else undrawn | unboxed
            add(flow, f"{name}{kind.lower()}", own, groups, len(groups), beside, left)
        between = [set(bridge.nodes) for bridge in column.towering.bridges]
        add(flow, f"{name}between layers", own, between, len(between))
        ways = [{*rows.nodes, rows.end} - theirs for rows in column.towering.added]
        ways = [nodes for nodes in ways if gather_weights(flow, nodes)]
        add(flow, f"{name}rows added", own, ways, len(ways))
        end, places = find_end(column, columns, staged[id(flow)], beside)
        end = "head" if end == EXIT and has_head and column is firsts[-1] else end
        given = set[int]().union(*(other.inside.get(column.towering.end, ()) for _, other in pairs))
        given |= {node for (taker, giver), held in lent.items() if giver == column.towering.end for node in held}
        places -= {node for (taker, giver), held in lent.items() if taker == column.towering.end for node in held}
        before = list_before_head(flow, places) if end == "head" else set[int]()
        for one in (other for other, _ in pairs if end == "head"):
            places -= (added := list_added_head(flow, places, column.towering.end, one.towering.end))
            add(flow, f"{one.name} head", own, [added])
        ends = {EXIT: places | given} if end == EXIT else {EXIT: before | given, end: places - before}
        tapped = set().union(*(tap.nodes for tap in column.towering.taps))
        again = gather_weights(flow, places - tapped).keys()
        handed = [set(tap.nodes) for tap in column.towering.taps if not gather_weights(flow, tap.nodes).keys() <= again]
        for what, held in ends.items():
            add(flow, f"{name}{what}", own, [held - tapped])
        add(flow, f"{name}handed out", own, handed, len(handed))
    rows = [(name, role, sum(weights.values()), lodgers.held_by(weights)) for name, role, weights in found]
    within = {name: n for *_, lodged in rows for name, n in lodged.items()}
    apart = {name: n for name, n in idle.items() if name not in within}
    told = [(name, role, n + sum(lodged.values())) for name, role, n, lodged in rows]
    ran = worked.union(*map(list_above, worked))
    rest = count_params(trace) - sum(n for *_, n in told) - sum(apart.values())
    told += [*list_idle("of these unused", within, ran), *list_idle("unused", apart, ran)]
    told.append((REST, "card", rest))
    return tuple(one for one in told if one[2] > 0)


def leave_untold(weights: Mapping[str, int], left: Set[str], *, is_whole: bool) -> dict[str, int]:
    """The parameters of a part without what is `left`, or inside of that; of a sublayer all, where nothing else is."""
    told = {one: n for one, n in weights.items() if left.isdisjoint((one, *list_above(one)))}
    return told if told or is_whole else {**weights}


def list_drawn_elsewhere(column: Column, columns: Sequence[Column]) -> set[int]:
    """The steps of conditions that stand in boxes beside other towers alone, whose parameters are told of these."""
    drawn = {
        one.towering.end: {one.reading.flow.places.get(step.id, -1) for node in chart.nodes for step in node.steps}
        for one in columns
        if one.reading is column.reading and (chart := one.condition) is not None
    }
    own = drawn.pop(column.towering.end, set[int]())
    return set[int]().union(*drawn.values()) - own


def tell_parts(held: Sequence[Mapping[str, int]], times: int, seen: Collection[str]) -> dict[str, dict[str, int]]:
    """The parameters of several groups of steps, of which as many are said as `times`, by what their rows say of that.

    Two rows where the groups have some in common that are not `seen` above, and each has others of its own: one
    feed-forward of all layers has an adapter of each beside it (Zamba 2). Else of how many the parameters are is told,
    where the others work with these again (ALBERT), or how many work with what is seen, where those are all (CoaT);
    neither where one has some that are new beside others that are not (RegionViT's tables).
    """
    uses = Counter(one for own in held for one in own)
    new = {one: n for own in held for one, n in own.items() if one not in seen}
    common = {one: n for one, n in new.items() if uses[one] > 1}
    alone = {one: n for one, n in new.items() if one not in common}
    if common and all(not own.keys().isdisjoint(common) and not own.keys().isdisjoint(alone) for own in held if own):
        return {f" × {times:,}, {IN_COMMON}": common, f" × {times:,}, {OF_THEIR_OWN}": alone}
    above = sum(own.keys() <= {*seen} for own in held if own)
    met, fresh, is_mixed = {*seen}, 0, False
    for own in held:
        fresh += not own.keys() <= met
        is_mixed |= not own.keys() <= met and not own.keys().isdisjoint(met)
        met |= own.keys()
    told = f", weights of {fresh:,}" if 0 < fresh < times and not is_mixed else ""
    told = f", {above:,} counted above" if above and fresh + above == times and not is_mixed else told
    return {f" × {times:,}{told}": new}


def list_before_head(flow: Flow, places: Collection[int]) -> set[int]:
    """The steps behind a tower's layers that its head stands behind: all up to the last convolution, with its norm."""
    learned = [place for place in sorted(places) if read_weights(flow, place)]
    last = max((place for place in learned if flow.op(place) in FINDINGS), default=-1)
    head = next((place for place in learned if place > last and is_linear(flow, place)), -1)
    return {place for place in places if place < head} if 0 <= last < head else set()


def list_kinds(flow: Flow, towering: Towering, beside: Collection[int]) -> list[tuple[str, list[set[int]]]]:
    """The sublayers of a tower by what they are, each with its norms; what several have in common last.

    What stands `beside` belongs to none: a norm behind which other layers begin (OneFormer).
    """
    kinds: dict[str, list[set[int]]] = {}
    served = [list_serving(flow, layer) for layer in towering.layers]
    serving = set[int]().union(*served)
    parts = [(kind, nodes - serving) for one in towering.stagings for kind, nodes in list_parts(flow, one)]
    for kind, nodes in [*parts, *((AROUND, nodes) for nodes in served if nodes)]:
        left = nodes.difference(beside)
        if left == nodes or gather_weights(flow, left):
            kinds.setdefault(kind, []).append(left)
    return sorted(kinds.items(), key=lambda one: one[0] in (COMMON, AROUND))


def list_lent(columns: Sequence[Column]) -> dict[tuple[int, int], set[int]]:
    """The steps behind a tower's layers that stand in the block of one before it alone, by the ends of these two.

    They are what that one gives: so its maps are normed there before finer ones are worked out (Mask2Former).
    """
    found: dict[tuple[int, int], set[int]] = {}
    for column in (one for one in columns if one.exit is not None):
        flow, end = column.reading.flow, column.towering.end
        homes = find_homes(flow, column.reading.towers)
        steps = [step for node in (column.exit.nodes if column.exit else ()) for step in node.steps]
        for node in (flow.places[step.id] for step in steps):
            holders = list_holders(flow, homes, node)
            if len(holders) == 1 and (giver := min(holders)) < end:
                found.setdefault((end, giver), set()).add(node)
    return found


def find_end(
    column: Column, columns: Sequence[Column], staged: Collection[int], beside: Collection[int]
) -> tuple[str, set[int]]:
    """What stands behind a tower: no more than its last norm, or an exit, and its steps."""
    flow, final = column.reading.flow, column.towering.final
    leaving = next((one.exit for one in columns if one.towering is column.towering and one.exit), None)
    if leaving is None:
        return EXIT, set()
    drawn = {flow.places[step.id] for node in leaving.nodes for step in node.steps}
    places = drawn.difference(beside)
    closing = set() if final is None else {*final.nodes}
    learned, norm = (weights_of(flow, some, staged).keys() for some in (places, closing))
    return "last norm" if final is not None and learned <= norm else EXIT, places


def list_idle(what: str, unused: Mapping[str, int], ran: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The rows of what took no part: the largest by their names, of several alike how many, if others of them ran."""
    parts = join_alike(unused)
    idle, used = Counter(map(name_kind, unused)), Counter(map(name_kind, {*ran}.difference(unused)))
    for one in parts[:MOST_UNUSED]:
        some = f"{idle[one.path]} of {idle[one.path] + used[one.path]} " if idle[one.path] and used[one.path] else ""
        yield f"{what}: {some}{name_idle(one.path)}", "card", one.params
    rest = parts[MOST_UNUSED:]
    if rest:
        yield f"{what}: {len(rest)} more", "card", sum(one.params for one in rest)


def name_idle(path: str) -> str:
    """The end of a path, from the second last part on that tells anything: no number, and not "model" (CSM, VITS)."""
    parts = path.split(".")
    telling = [place for place, part in enumerate(parts) if part != "model" and not part.isdecimal()]
    return ".".join(parts[telling[-2] if len(telling) > 1 else 0 :])


def nodes_beside(columns: Sequence[Column], reading: Reading) -> frozenset[int]:
    """The steps that work out what scales, shifts and gates any tower of a pass, and all that have weights of these."""
    conditions = [column.towering.condition for column in columns if column.reading is reading]
    found, flow = frozenset[int]().union(*(one.nodes for one in conditions if one is not None)), reading.flow
    held = gather_weights(flow, found).keys()
    again = (
        one
        for one in range(len(flow.steps))
        if not held.isdisjoint(own := read_weights(flow, one)) and held >= own.keys()
    )
    return found.union(again)
