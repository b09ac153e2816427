"""Where the parameters are: what of them each part holds, and what took no part."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, SIDE_BY_SIDE
from xray.ir.trace import SAME_WEIGHTS, SAME_WEIGHTS_AS, name_weights
from xray.story.anatomy.tree import Untold
from xray.story.body.layers import Layer
from xray.story.body.reading import Reading
from xray.story.body.towers import Towering
from xray.story.charts.counted_weights import count_read
from xray.story.exits.several_heads import list_added_head
from xray.story.facts.totals import paths_above
from xray.story.facts.unused import join_alike, name_kind
from xray.story.passages.added_places import list_layouts
from xray.story.passages.homes import find_homes, list_holders, read_leading
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.sentences.of_parts import IN_COMMON, OF_THEIR_OWN, SOME_IN_COMMON
from xray.story.sheet.columns import Column
from xray.story.sheet.counting import Count, count_in
from xray.story.sheet.layer_blocks import list_around_layers
from xray.story.sheet.parts import AROUND, COMMON, list_learned_for_many, list_parts, reads_weights

MOST_UNUSED = 3
EXIT = "exit"
"""What stands behind a tower, where that is no head."""
REST = "all else"
"""What is left when every part has what it works with."""


def with_weights(flow: Flow, nodes: set[int], staged: Collection[int]) -> set[int]:
    """Some steps, and those behind them that work on weights alone: two matrices put end to end, say (MobileBERT).

    What is `staged` belongs to a sublayer of its own, be it that no data has come so far (DETR's first attention).
    """
    apart = list_reading_data(flow) | {*staged}
    made = {maker for node in nodes for maker in flow.makers[node] if maker is not None and maker not in apart}
    return nodes | set(flow.behind(*made, within=lambda place: place not in apart))


def list_put_beside(flow: Flow, nodes: Collection[int], led: Collection[int]) -> set[int]:
    """The linear layers among some steps that read no data and no weights, and whose rows are put beside what is led.

    So zeros stand for a sound that was not given, beside a text's rows (MusicGen Melody).
    """
    data, found = list_reading_data(flow), set[int]()
    for node in (one for one in nodes if one not in data and flow.steps[one].params and is_linear(flow, one)):
        made = set(flow.behind(*flow.makers[node]))
        held = reads_weights(flow, node) or any(flow.steps[one].params or reads_weights(flow, one) for one in made)
        way = set(flow.ahead(node, within=lambda one: one not in led))
        met = {reader for one in way for reader in flow.readers.get(one, ()) if reader in led}
        found |= {node} if not held and met and all(flow.op(one) in SIDE_BY_SIDE for one in met) else set()
    return found


def list_shares(
    columns: Sequence[Column],
    params: int,
    unused: Mapping[str, int],
    undrawn: Collection[str] = (),
    *,
    ran: Collection[str] = (),
    has_head: bool = True,
) -> tuple[tuple[str, str, int], ...]:
    """The parameters by part, over all layers, each counted once; what is left is named as what it is: the rest.

    The head is the last tower's; what stands before it, behind others, or where there is no head, is an exit. Of what
    took no part the largest are named. What stands at one of the paths that are `undrawn` is no part's, be it
    that it works on learned rows alone, which some sublayers read (Conditional DETR's points). Of a block that holds
    what is counted already, as its parts stand behind several towers, no more than the rest is counted. What `ran` by
    its path is used.
    """
    found: list[tuple[str, str, int]] = []
    counted: list[tuple[Count, list[set[int]]]] = []
    seen: dict[str, int] = {}
    elsewhere = {*undrawn}
    several = sum(column.is_first for column in columns) > 1
    staged: dict[int, set[int]] = {}
    for column in columns:
        inside = set().union(*(staging.nodes for staging in column.towering.stagings))
        many = list_learned_for_many(column.reading.flow, column.towering)
        staged.setdefault(id(column.reading.flow), set()).update(inside, many)

    def add(
        count: Count, name: str, role: str, groups: list[set[int]], times: int = 0, beside: Collection[int] = ()
    ) -> None:
        held_now = [with_weights(count.flow, group, {*staged[id(count.flow)], *beside}) for group in groups]
        found_now = count.fresh(held_now)
        found_now = {path: n for path, n in found_now.items() if elsewhere.isdisjoint((path, *paths_above(path)))}
        known = {*seen, *found_now}
        new = {path: n for path, n in found_now.items() if path not in seen and known.isdisjoint(paths_above(path))}
        below = Counter[str]()
        for path, n in seen.items():
            below.update(dict.fromkeys(new.keys() & set(paths_above(path)), n))
        fresh = {path: n - below[path] for path, n in new.items()}
        common = count_common(count, held_now, {*seen, *elsewhere}) if times else None
        above = sum(set() < count.paths([group]).keys() <= seen.keys() for group in held_now)
        seen.update(fresh)
        name += f" × {times:,}" if times else ""
        total = sum(fresh.values())
        if common is None:
            holding = count.count_new(held_now, fresh if total else count.paths(held_now))
            name += tell_again(holding, above, times)
            found.append((name, role, total))
        elif sum(common) == total:
            parts = zip((IN_COMMON, OF_THEIR_OWN), common, strict=True)
            found.extend((f"{name}, {part}", role, held) for part, held in parts)
            counted.append((count, []))
        else:
            found.append((f"{name}, {SOME_IN_COMMON}" if total > common[1] else name, role, total))
        counted.append((count, groups))

    firsts = [column for column in columns if column.is_first]
    leadings = [read_leading(one.reading.flow, one.towering, one.reading.towers) for one in firsts]
    lent = list_lent(columns)
    for column, leading in zip(firsts, leadings, strict=True):
        own, name = column.look.own, f"{column.name} " if several else ""
        flow, count = column.reading.flow, count_in(column.reading.flow)
        pairs = [(one, two) for one, two in zip(firsts, leadings, strict=True) if one.reading is column.reading]
        onward = [other.onward.get(column.towering.end, {}) for _, other in pairs]
        for sources in dict.fromkeys(ends for some in (leading.between, *onward) for ends in some) if several else ():
            names = [one.tower.name for one in column.reading.towers if one.end in sources]
            led = [set(some[sources]) for some in (leading.between, *onward) if sources in some]
            put_beside = list_put_beside(flow, column.towering.entrance, set().union(*led))
            add(count, f"{' and '.join(names)} to {column.name}", "card", led, beside=put_beside)
        theirs = set[int]().union(*(leading.inside.get(one.towering.end, ()) for one, _ in pairs))
        theirs = theirs.union(*(led for some in leading.onward.values() for led in some.values()))
        add(count, f"{name}entrance", own, [set(column.towering.entrance) - theirs])
        inside = set().union(*(staging.nodes for staging in column.towering.stagings))
        add(count, f"{name}places", own, [{*list_layouts(flow, inside)}])
        condition = column.towering.condition
        beside_it = "looked at" if column.towering.tower.looked_at else "conditions"
        add(count, f"{name}{beside_it}", own, [set() if condition is None else set(condition.nodes)])
        around = list_around_layers(flow, column.towering) | list_learned_for_many(flow, column.towering)
        corrections, boxes = column.towering.corrections, column.towering.tower.boxes
        begun = [with_weights(flow, {*(one.first or one.beside)}, ()) for one in corrections[:1]]
        add(count, f"{name}first boxes", own, begun)
        times = len(boxes.behind) if boxes is not None and boxes.shared and boxes.begun is None else len(corrections)
        corrected = [set(one.steps) for one in corrections]
        add(count, f"{name}boxes corrected", own, corrected, times)
        add(count, f"{name}places of boxes", own, [set(one.places) for one in corrections])
        add(count, f"{name}around layers", own, [{*around}])
        beside = nodes_beside(columns, column.reading) | around
        for kind, groups in list_kinds(count, column.towering, beside):
            add(count, f"{name}{kind.lower()}", own, groups, len(groups))
        between = [set(bridge.nodes) for bridge in column.towering.bridges]
        add(count, f"{name}between layers", own, between, len(between))
        ways = [{*rows.nodes, rows.end} - theirs for rows in column.towering.added]
        ways = [nodes for nodes in ways if any(map(count.is_learned, nodes))]
        add(count, f"{name}rows added", own, ways, len(ways))
        end, places = find_end(column, columns, count, staged[id(flow)], beside)
        end = "head" if end == EXIT and has_head and column is firsts[-1] else end
        given = set[int]().union(*(other.inside.get(column.towering.end, ()) for _, other in pairs))
        given |= {node for (taker, giver), held in lent.items() if giver == column.towering.end for node in held}
        places -= {node for (taker, giver), held in lent.items() if taker == column.towering.end for node in held}
        before = list_before_head(count, places) if end == "head" else set[int]()
        for one in (other for other, _ in pairs if end == "head"):
            places -= (added := list_added_head(flow, places, column.towering.end, one.towering.end))
            add(count, f"{one.name} head", own, [added])
        ends = {EXIT: places | given} if end == EXIT else {EXIT: before | given, end: places - before}
        tapped = set().union(*(tap.nodes for tap in column.towering.taps))
        again = name_holders(flow, places - tapped)
        handed = [set(tap.nodes) for tap in column.towering.taps if not name_holders(flow, tap.nodes) <= again]
        for what, held in ends.items():
            add(count, f"{name}{what}", own, [held - tapped])
        add(count, f"{name}handed out", own, handed, len(handed))
    late = count_late(counted, {*seen, *elsewhere})
    found = [(name, role, n + more) for (name, role, n), more in zip(found, late, strict=True)]
    rest = params - sum(n for _, _, n in found)
    within = {path: n for path, n in unused.items() if not seen.keys().isdisjoint((path, *paths_above(path)))}
    apart = {path: n for path, n in unused.items() if path not in within}
    found += [*list_idle("of these unused", within, ran), *list_idle("unused", apart, ran)]
    rest -= sum(apart.values())
    if rest > 0:
        raw = [count_lent(one) for one in firsts]
        if raw.count(rest) == 1:  # a learned row of no module, with which rows may begin (Pocket TTS)
            column = firsts[raw.index(rest)]
            row = f"{column.name} entrance" if several else "entrance"
            found = [(name, role, n + rest * (name == row)) for name, role, n in found]
        else:
            found.append((REST, "card", rest))
    return tuple(one for one in (found if rest >= 0 else take_off(found, counted, -rest)) if one[2])


def count_lent(column: Column) -> int:
    """The learned numbers that modules at a tower's entrance are given: what operations are given counts with them."""
    flow = column.reading.flow
    return sum(count_read(flow, node) for node in column.towering.entrance if flow.steps[node].params)


def list_before_head(count: Count, places: Collection[int]) -> set[int]:
    """The steps behind a tower's layers that its head stands behind: all up to the last convolution, with its norm."""
    flow = count.flow
    learned = [place for place in sorted(places) if flow.is_leaf(place) and count.is_learned(place)]
    last = max((place for place in learned if flow.op(place) in FINDINGS), default=-1)
    head = next((place for place in learned if place > last and is_linear(flow, place)), -1)
    return {place for place in places if place < head} if 0 <= last < head else set()


def tell_again(new: int, above: int, times: int) -> str:
    """Of how many of several parts the weights are, where the others work with these again (ALBERT).

    Or how many are counted with what stands `above`, where those are all the others (CoaT's first convolution).
    """
    if not 0 < new < times:
        return ""
    return f", {above:,} counted above" if new + above == times else f", weights of {new:,}"


def count_common(count: Count, groups: Sequence[Collection[int]], known: Set[str]) -> tuple[int, int] | None:
    """The weights that several parts work with, and those of one alone; None where not every part has both.

    So one feed-forward of all layers has an adapter of each beside it (Zamba 2). Boxes that the first one alone begins
    with are none of each (SAM 3 Lite). What is `known` is counted already.
    """
    held: list[dict[str, int]] = []
    for nodes in groups:
        learned = [one for one in nodes if count.flow.is_leaf(one) and count.is_learned(one)]
        names = {one: (name_first(count, one), count.key(one)) for one in learned}
        fresh = [one for one in learned if not any({key, *paths_above(key)} & known for key in names[one])]
        held.append({names[one][0]: count.params(one) for one in fresh})
    times = Counter(key for own in held for key in own)
    if not held or not all({times[key] > 1 for key in own} == {True, False} for own in held):
        return None
    sizes = {key: n for own in held for key, n in own.items()}
    common = sum(n for key, n in sizes.items() if times[key] > 1)
    return common, sum(sizes.values()) - common


def name_first(count: Count, node: int) -> str:
    """By what the weights of a step are known: the step that worked with them first, not one that handed them on."""
    holder, own = str(count.flow.steps[node].settings.get(SAME_WEIGHTS_AS, "")), count.key(node)
    return own if not holder or holder in count.handing_on else holder


def list_kinds(count: Count, towering: Towering, beside: Collection[int]) -> list[tuple[str, list[set[int]]]]:
    """The sublayers of a tower by what they are, each with its norms; what several have in common last.

    What stands `beside` belongs to none: a norm behind which other layers begin (OneFormer).
    """
    kinds: dict[str, list[set[int]]] = {}
    for staging in towering.stagings:
        for kind, nodes in list_parts(count, staging):
            left = nodes.difference(beside)
            if left == nodes or any(map(count.is_learned, left)):
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


def count_late(counted: Sequence[tuple[Count, list[set[int]]]], known: Collection[str]) -> list[int]:
    """For each part the weights that another step worked with first which is of no part: the head of an earlier layer.

    `known` are the paths of what is counted. Each is counted once (Deformable DETR).
    """
    told, found = {*known}, list[int]()
    for count, groups in counted:
        flow, late = count.flow, 0
        for node in sorted(set[int]().union(*groups)):
            settings = flow.steps[node].settings
            holder, size = str(settings.get(SAME_WEIGHTS_AS, "")), settings.get(SAME_WEIGHTS)
            first = flow.places.get(f"{holder}#0")
            is_whole = first is not None and flow.is_leaf(first) and flow.steps[first].params == size
            above = (flow.steps[one].path for one in (() if first is None else flow.parents(first)))
            if is_whole and isinstance(size, int) and told.isdisjoint((holder, *above)):
                told.add(holder)
                late += size
        found.append(late)
    return found


def count_undrawn(column: Column, undrawn: Sequence[Untold], unused: Mapping[str, int]) -> Column:
    """The column whose frames count what is drawn nowhere too, where blocks of layers hold it, each part once.

    So words go their own way beside the rows that look at a picture (InstructBLIP). A block that was given no rows is
    counted with its layer already (DeepSeek-V4). What took no part is counted as where a block is a layer: with it.
    Not told where layers hold other parts of such.
    """
    told = {one.path for one in undrawn}
    idle = (Untold(path, n) for path, n in unused.items() if told.isdisjoint((path, *paths_above(path))))
    undrawn = [*undrawn, *idle]
    if not undrawn:
        return column
    flow, layers = column.reading.flow, column.towering.layers
    count, homes = count_in(flow), [find_home(flow, layer) for layer in layers]
    frames = []
    for frame in column.frames:
        apart, holding = set[int](), set[int]()
        for home, layer in ((homes[layer], layers[layer]) for layer in frame.group.layers):
            known = count.paths([set().union(*(staging.nodes for staging in layer))]).keys()
            own = (one for one in undrawn if one.path.startswith(f"{home}."))
            apart.add(sum(one.params for one in own if known.isdisjoint((one.path, *paths_above(one.path)))))
            holding.add(sum(f"{home}.".startswith(f"{one}.") for one in homes))
        more = apart.pop() if len(apart) == 1 and holding == {1} else 0
        frames.append(replace(frame, params=frame.params + more))
    return replace(column, frames=tuple(frames))


def find_home(flow: Flow, layer: Layer) -> str:
    """The path of the innermost module that holds all learned steps of a layer."""
    learned = (flow.steps[node] for staging in layer for node in staging.nodes if flow.steps[node].params)
    held = [set(paths_above(step.path)) for step in learned]
    return max(set.intersection(*held), key=len, default="") if held else ""


def take_off(
    found: Sequence[tuple[str, str, int]], counted: Sequence[tuple[Count, list[set[int]]]], over: int
) -> list[tuple[str, str, int]]:
    """The rows of the parts, the one of them without what is counted twice whose blocks hold as much and do not use it.

    A table of biases is held by the first layer, and read before all layers (UDOP).
    """
    held = [
        sum(count.params(place) - count.ran(place) for nodes in groups for place in count.blocks(nodes))
        for count, groups in counted
    ]
    only = held.index(over) if held.count(over) == 1 else None
    return [(name, role, n - over if place == only else n) for place, (name, role, n) in enumerate(found)]


def find_end(
    column: Column, columns: Sequence[Column], count: Count, staged: Collection[int], beside: Collection[int]
) -> tuple[str, set[int]]:
    """What stands behind a tower: no more than its last norm, or an exit, and its steps."""
    flow, final = count.flow, column.towering.final
    leaving = next((one.exit for one in columns if one.towering is column.towering and one.exit), None)
    if leaving is None:
        return EXIT, set()
    drawn = {flow.places[step.id] for node in leaving.nodes for step in node.steps}
    places = with_weights(flow, drawn.difference(beside), staged)
    closing = set() if final is None else with_weights(flow, {*final.nodes}, staged)
    learned, norm = ({count.key(one) for one in some if count.is_learned(one)} for some in (places, closing))
    return "last norm" if final is not None and learned <= norm else EXIT, places


def name_holders(flow: Flow, nodes: Collection[int]) -> set[str]:
    """The paths at which the weights were worked with first that some steps work with."""
    steps = (flow.steps[node] for node in nodes if flow.steps[node].params)
    return {name_weights(step) for step in steps}


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
    """The steps that work out what scales, shifts and gates any tower of a pass."""
    conditions = [column.towering.condition for column in columns if column.reading is reading]
    return frozenset[int]().union(*(one.nodes for one in conditions if one is not None))
