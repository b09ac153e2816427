"""What is worked out beside the scores: products that are added to them or laid beside them, and what chooses keys."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    COUNTING,
    LOOKUPS,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SUMS,
    TURNS,
    WAVES,
)
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.attention.factors import name_factors
from xray.story.attention.ways.lanes import list_opening
from xray.story.body.stages import Branching
from xray.story.branches.feed_forward import SPLITTERS
from xray.story.charts.chart import Edge, Node, steps_at
from xray.story.charts.counted_weights import describe_params, weights_of_box
from xray.story.charts.steps.same_weights import SAME_WEIGHTS
from xray.story.entrance.inputs import name_argument
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import Region, is_linear, list_reading_data
from xray.story.recognition.score_operands import Scored
from xray.story.sentences.of_parts import COUNTED_PLACES

MOST_BEHIND, MOST_ON_WAY = 60, 400
OF_PLACES = len(("batch", "row"))
"""An argument of more axes holds several numbers for each place."""


@dataclass(frozen=True)
class Beside:
    """Where other scores of a branch come from: its steps, its boxes by these, and the step that it begins with."""

    owners: Mapping[int, str]
    entry: int | None
    inside: frozenset[int]

    def lead_in(self, flow: Flow, made: Collection[int], key: str) -> tuple[list[Edge], bool]:
        """The lines from boxes to one that stands for steps, and whether these read what the branch begins with too."""
        taken = [one for node in made for one in flow.taken(node) if one[1] not in made]
        read = {one for record, maker in taken if (one := pass_by(flow, record, maker, self)) is not None}
        sources = dict.fromkeys(self.owners[one] for one in sorted(read) if one in self.owners)
        return [Edge(source, key) for source in sources if source != key], self.entry in read

    def stand_for(self, flow: Flow, node: Node, works: Sequence[int], edges: list[Edge], feet: list[str]) -> Node:
        """A box that stands for steps that work out what it reads, too: to it leads what leads to them."""
        led, is_begun = self.lead_in(flow, works, node.key)
        edges += [edge for edge in led if edge not in edges]
        feet += [node.key] if is_begun else []
        return replace(node, steps=(*node.steps, *(flow.steps[one] for one in reversed(works))))


@dataclass(frozen=True)
class Origin:
    """What is added to scores is made of: the arguments (BROS, LayoutLMv3), and the learned steps on the way.

    Of tables whose rows are added up, on the way too, `asked` has the argument that each is asked by; "" by none.
    """

    asked: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    ways: tuple[int, ...] = ()


def pass_by(flow: Flow, read: TensorRecord, maker: int | None, ways: Beside) -> int | None:
    """The step that made what is read, or the one behind steps that only move numbers and for which no box stands.

    Of rows that are cut into several parts, a box stands for one of these, and another one may be read: it is led there
    from the box that stands for moves of that part alone (SAM), or where none is known, of what is cut (ProphetNet).
    """
    if maker is None:
        return None
    part = find_moved_part(flow, maker, read.output, ways)
    if part is not None:
        return part
    uncut, first = next(flow.given(maker), (read, None))
    if maker in ways.owners:
        is_cut = flow.op(maker) in SPLITTERS and len(flow.steps[maker].outputs) > 1
        whole = pass_by(flow, uncut, first, ways) if is_cut else None
        return whole if whole in ways.owners else maker
    return pass_by(flow, uncut, first, ways) if maker != ways.entry and flow.op(maker) in CARRYING else maker


def find_moved_part(flow: Flow, cut: int, output: int | None, ways: Beside) -> int | None:
    """A step that reads one of the parts that rows are cut into, and whose box does nothing but move it."""
    moves = CARRYING | SPLITTERS
    for reader in flow.readers.get(cut, ()) if output is not None else ():
        reads = [record.output for record, maker in flow.given(reader) if maker == cut]
        key = ways.owners.get(reader)
        if key and reads == [output] and all(flow.op(one) in moves for one, its in ways.owners.items() if its == key):
            return reader
    return None


def read_entry(flow: Flow, found: Branching) -> int | None:
    """The step that a branch begins with: the end of its norm, or what made the stream."""
    opening = list_opening(flow, found)
    return max(opening) if opening else found.region.start


def list_own(flow: Flow, region: Region, site: Site) -> frozenset[int]:
    """The steps of a branch itself; what was worked out before it begins may be there for other layers too.

    So is what is made of the stream before the branch's block, and read outside of the branch too (Genie's pairs).

    Not so in a block that begins behind the stream, and holds no other attention: what the first layer alone looks up
    belongs to that, be it for all (WavLM).
    """
    others = [one.softmax for one in list_sites(flow) if one.weighted_sum != site.weighted_sum]
    blocks = [
        block
        for block in flow.parents(site.softmax)
        if region.start is not None and block > region.start
        if not any(block < one < flow.ends[block] for one in others)
    ]
    first = min([min(region.inner), *blocks])
    before = {node for node in region.inner if node < min(blocks, default=0)}
    lent = (node for node in before if not (region.inner | region.beside).issuperset(flow.leaf_readers(node)))
    given = {*flow.behind(*lent, within=before.__contains__)}
    return (region.inner - given) | {node for node in region.beside if node > first}


def list_made(flow: Flow, part: Scored, site: Site, inside: Collection[int]) -> list[int]:
    """The steps of a branch that work out what is added to its scores, or hides them, where any is learned; else none.

    Be it a product, or rows of a table that are looked up (T5) or indexed (Swin). What queries and keys go through on
    their way to the scores is not among them, nor is the way of the values, of which some are made (Doge).
    """
    added = None if part.operand is None else part.operand.record  # one step may multiply and add (WavLM)
    asked = [maker for record, maker in flow.given(site.scores) if record is not added]
    own = {*site.scored, *flow.behind(*asked), *site.value.nodes}
    starts = (maker for node in part.nodes for maker in flow.makers[node] if maker is not None and maker not in own)
    made = set(flow.behind(*starts, within=lambda node: node in inside and node not in own))
    works = [node for node in sorted(made) if flow.is_leaf(node) and works_out(flow, node)]
    return works if any(is_product(flow, node) or flow.steps[node].is_learned for node in works) else []


def list_products_beside(flow: Flow, part: Scored, site: Site) -> list[int]:
    """The products that queries or keys take part in beside the scores, which are added to these.

    With the sums that they are of, and what they are multiplied by (Conformers).
    """
    own = {*site.scored, *flow.behind(site.scores)}
    starts = (maker for node in part.nodes for maker in flow.makers[node] if maker is not None and maker not in own)
    made = set(flow.behind(*starts, ends=lambda node: node in own or is_linear(flow, node))) - own
    products = {node for node in made if is_product(flow, node)}
    sums = (maker for node in products for maker in flow.makers[node] if maker is not None and flow.op(maker) in SUMS)
    scalings = (node for node in made if flow.op(node) in SCALINGS)
    scales = (node for node in scalings if not products.isdisjoint(flow.behind(node, within=made.__contains__)))
    return sorted({*products, *sums, *scales})


def meets_query(flow: Flow, site: Site, nodes: Collection[int]) -> bool:
    """Whether one of some steps is a product of the queries."""
    asked = {*site.query.nodes}
    return any(is_product(flow, node) and not asked.isdisjoint(flow.makers[node]) for node in nodes)


def list_hiding(flow: Flow, part: Scored, parts: Collection[Scored], inside: Collection[int]) -> frozenset[int]:
    """Of what one step adds to scores, be it as a mask and as a bias, the steps that make the mask and bring it in."""
    kinds = {one.kind: one.operand for one in parts if one.nodes == part.nodes}
    mask = kinds.get("mask")
    if mask is None or "bias" not in kinds:
        return frozenset()
    added = (maker for node in part.nodes for record, maker in flow.given(node) if maker in inside)
    way = {*flow.behind(*added, within=inside.__contains__)}
    bringing = {node for node in way if any(one == (mask.record, mask.maker) for one in flow.given(node))}
    others = (maker for node in bringing for maker in flow.makers[node] if maker != mask.maker)
    made = {*flow.behind(mask.maker, within=way.__contains__)} - {*flow.behind(*others)} if bringing else set[int]()
    return frozenset(node for node in bringing | made if flow.is_leaf(node) and flow.op(node) not in CARRYING)


def works_out(flow: Flow, node: int) -> bool:
    """Whether a step does more than move numbers, or takes rows of a parameter."""
    return flow.op(node) not in CARRYING or (flow.op(node) == "index" and flow.steps[node].is_learned)


def count_readers(flow: Flow, made: Collection[int]) -> int:
    """How many attentions add to their scores what some steps take of a table, that one included which they are of."""
    data = list_reading_data(flow)
    tables = {node for node in made if node not in data and flow.steps[node].is_learned}

    def ends(one: int) -> bool:
        return one in tables or is_linear(flow, one) or is_product(flow, one) or flow.op(one) in SOFTMAXES

    def is_added(site: Site) -> bool:
        makers = (maker for node in site.scored for maker in flow.makers[node])
        return not tables.isdisjoint(flow.behind(*makers, most=MOST_BEHIND, ends=ends))

    return sum(map(is_added, list_sites(flow))) if tables else 0


def list_shared(flow: Flow, site: Site, part: Scored, made: Collection[int]) -> tuple[tuple[int, ...], int]:
    """The steps with learned numbers that serve what several attentions add to their scores, and how many these are.

    They read no data, and are none of those `made` in the branch itself: a table before all layers (MPNet), or the norm
    of one (SEW-D).
    """
    data = list_reading_data(flow)
    own = {*site.scored, *site.value.nodes, *made}
    starts = (maker for node in (*part.nodes, *made) for maker in flow.makers[node] if maker not in own)
    found = [node for node in flow.behind(*starts, within=lambda one: one not in data) if flow.is_leaf(node)]
    shared = tuple(sorted(node for node in found if node not in made and flow.steps[node].is_learned))
    if not shared or len({flow.steps[node].path for node in shared}) > 1:
        return (), 0
    reached = {*flow.ahead(*shared, within=lambda one: one not in data)}
    meeting = {reader for node in reached for reader in flow.readers.get(node, ()) if reader in data}

    def meets(one: Site) -> bool:
        def ends(node: int) -> bool:
            return node != one.softmax and node in data and (is_linear(flow, node) or flow.op(node) in SOFTMAXES)

        return not meeting.isdisjoint(flow.behind(one.softmax, most=MOST_BEHIND, ends=ends))

    many = sum(map(meets, list_sites(flow)))
    return (shared, many) if many > 1 else ((), 0)


def find_origin(flow: Flow, site: Site, part: Scored) -> Origin:
    """What is added to scores is made of; no arguments where queries are made of that too, or an attention found it."""
    asking = list_asking(flow, site)
    own = {*site.scored, *asking, *site.key.nodes}
    read = {maker for node in asking for maker in flow.makers[node] if maker is not None} - own
    stream = read | {flow.carried_from(maker, CARRYING | TURNS) for maker in read}
    starts = [maker for node in part.nodes for maker in flow.makers[node] if maker is not None and maker not in own]
    tables = [found for one in starts if None not in (found := tuple(name_tables(flow, one))) and len(found) > 1]
    asked = tuple(name for name in next(iter(tables), ()) if name is not None)
    way = set(flow.behind(*starts, most=MOST_ON_WAY, ends=own.__contains__)) - own
    if not stream.isdisjoint(way) or any(flow.op(node) in SOFTMAXES for node in way):
        return Origin(asked)
    given = [record for node in sorted(way) for record, maker in flow.taken(node) if maker is None]
    given = [record for record in given if "mask" not in (record.given or "")]  # it hides scores, and adds nothing
    arguments = (name_argument(flow, record) for record in given if len(record.shape) > 1)
    names = [*dict.fromkeys(filter(None, arguments))]
    counts = any(flow.op(node) in COUNTING for node in way) or any(
        not record.is_float and record.role != "parameter" and not name_argument(flow, record) for record in given
    )
    added = {node for node in way if asked and flow.op(node) in SUMS and None not in name_tables(flow, node)}
    ways = (node for node in sorted(way) if flow.is_leaf(node) and (flow.steps[node].is_learned or node in added))
    return Origin(asked, (*[COUNTED_PLACES] * counts, *names), tuple(ways)) if names else Origin(asked)


def list_asking(flow: Flow, site: Site) -> list[int]:
    """The steps that make queries: of those of a convolution, all behind it (VITS)."""
    way = flow.behind(site.query.origin, ends=lambda one: flow.steps[one].is_learned)
    return [*site.query.nodes] or [node for node in way if flow.is_leaf(node)]


def is_of_sines(flow: Flow, site: Site, part: Scored) -> bool:
    """Whether what is added to scores is made of sines and cosines of what was counted out (Transformer-XL)."""
    own = {*site.scored, *site.query.nodes, *site.key.nodes, *site.value.nodes}
    starts = (maker for node in part.nodes for maker in flow.makers[node] if maker is not None and maker not in own)
    way = set(flow.behind(*starts, ends=own.__contains__))
    waves = [node for node in way if flow.op(node) in WAVES]
    behind, data = set(flow.behind(*waves)), list_reading_data(flow)
    if {flow.op(node) for node in waves} != WAVES or not behind.isdisjoint(data):
        return False
    is_counted = any(flow.op(node) in COUNTING for node in behind) and not any(is_linear(flow, one) for one in behind)
    made = set(flow.ahead(*waves, within=way.__contains__))
    met = made & data
    first = [node for node in met if not made.isdisjoint({*flow.makers[node]} - data)]
    return is_counted and all(is_product(flow, one) for one in first) and not any(is_linear(flow, one) for one in met)


def is_gated(flow: Flow, made: Sequence[int]) -> bool:
    """Whether what is added to scores is the same for all rows but for how much a sigmoid of each lets through."""
    last = made[-1] if made else None
    if last is None or flow.op(last) not in SCALINGS:
        return False
    data = list_reading_data(flow)
    shares = [(record, maker) for record, maker in flow.given(last) if maker in data]
    is_one = [record.shape[-1:] for record, _ in shares] == [(1,)] and len(flow.makers[last]) > 1
    return is_one and any(flow.op(one) == "sigmoid" for one in (shares[0][1], *flow.behind(shares[0][1])) if one)


def tell_other_rows(
    flow: Flow, beside: Beside, nodes: Sequence[Node], edges: list[Edge], feet: list[str]
) -> list[Node]:
    """The boxes, of which one that joins rows stands for what works out those that are none of the places, too."""
    inside = {one for one in beside.inside if one not in beside.owners and (beside.entry is None or one > beside.entry)}
    seen = {name for node in nodes for name in weights_of_box(flow, node.steps)}
    found = []
    for node in nodes:
        works = list_put_beside(flow, node, inside) if node.key.startswith("join") else []
        if any(is_linear(flow, one) for one in works):
            held = weights_of_box(flow, steps_at(flow, *works)).keys()
            params = SAME_WEIGHTS if held and held <= seen else describe_params(flow, *works)
            told = ", ".join(filter(None, ("the others made beside", params)))
            seen |= held
            node = beside.stand_for(flow, replace(node, told=(*node.told, told)), works, edges, feet)
        found.append(node)
    return found


def tell_other_way(
    flow: Flow, site: Site, beside: Beside, nodes: Sequence[Node], edges: list[Edge], feet: list[str]
) -> list[Node]:
    """The boxes, of which one that puts rows of another way beside the heads stands for that way, too (ConvBERT)."""
    inside = beside.inside - {*flow.behind(site.weighted_sum), *flow.ahead(site.weighted_sum)} - {*beside.owners}
    found = []
    for node in nodes:
        works = list_put_beside(flow, node, inside) if node.key.startswith("tail") else []
        if any(is_linear(flow, one) or flow.steps[one].is_learned for one in works):
            extra = node.extra or describe_new(flow, works, nodes)
            node = beside.stand_for(flow, replace(node, extra=extra), works, edges, feet)
        found.append(node)
    return found


def describe_new(flow: Flow, works: Sequence[int], nodes: Sequence[Node]) -> str:
    """The parameters of what works out rows beside; not again those of boxes that work with them, too (ProphetNet)."""
    told = {step.path for node in nodes for step in node.steps if step.params}
    new = [one for one in works if flow.steps[one].path not in told]
    return describe_params(flow, *new) or SAME_WEIGHTS * (len(new) < len(works))


def list_put_beside(flow: Flow, node: Node, inside: Collection[int]) -> list[int]:
    """The steps among some that work out what a box puts beside other rows."""
    joins = [flow.places[step.id] for step in node.steps if step.op in SIDE_BY_SIDE]
    others = [maker for one in joins for maker in flow.makers[one] if maker is not None]
    made = flow.behind(*others, within=inside.__contains__)
    return [one for one in sorted(set(made)) if flow.is_leaf(one) and works_out(flow, one)]


def find_joined_scores(flow: Flow, site: Site, inside: Collection[int]) -> tuple[int, list[int]] | None:
    """The step that lays other scores of the same queries beside the scores, and what works these out (PEGASUS-X)."""
    for node in site.scored[1:-1]:
        made = list_made(flow, Scored("bias", (node,)), site, inside) if flow.op(node) in SIDE_BY_SIDE else []
        if any(is_product(flow, one) and not is_linear(flow, one) for one in made):
            return node, made
    return None


def list_weighing(flow: Flow, site: Site, works: Collection[int]) -> list[int]:
    """The products among some steps that work with what an attention's softmax made."""
    return [one for one in works if is_product(flow, one) and site.softmax in set(flow.behind(one))]


def find_joined_values(flow: Flow, site: Site, inside: Collection[int]) -> tuple[int, list[int]] | None:
    """The sum of what two shares of one softmax weigh, and what works the second one out."""
    own = {site.softmax, *flow.behind(site.softmax), *flow.behind(site.weighted_sum)}
    here: int | None = site.weighted_sum
    while here is not None:
        onward = [one for one in flow.leaf_readers(here) if one in inside]
        here = onward[0] if len(onward) == 1 and flow.op(onward[0]) in CARRYING else None
        for node in onward:
            others = [one for one in flow.makers[node] if one is not None and one not in own | {here}]
            others = [one for one in others if site.weighted_sum not in set(flow.behind(one))]
            made = set(flow.behind(*others, within=lambda one: one in inside and one not in own))
            works = [one for one in sorted(made) if flow.is_leaf(one) and flow.op(one) not in CARRYING]
            if flow.op(node) in SUMS and len(list_weighing(flow, site, works)) == 1:
                return node, works
    return None


def name_tables(flow: Flow, place: int | None) -> Iterator[str | None]:
    """Of the tables whose rows a sum is made of, the argument that each is asked by; None for what is no table."""
    while place is not None and flow.op(place) in CARRYING | SCALINGS and len(flow.makers[place]) == 1:
        place = flow.makers[place][0]
    if place is not None and flow.op(place) in SUMS:
        for maker in flow.makers[place]:
            yield from name_tables(flow, maker)
    else:
        yield name_asked(flow, place) if place is not None and takes_rows(flow, place) else None


def name_table_factor(flow: Flow, site: Site, part: Scored) -> str:
    """By what rows of tables are multiplied on their way to the scores that they are added to (LayoutLMv3)."""
    own = {*site.scored, *site.query.nodes, *site.key.nodes}
    starts = [maker for node in part.nodes for maker in flow.makers[node] if maker is not None and maker not in own]
    here = starts[0] if len(starts) == 1 and None not in name_tables(flow, starts[0]) else None
    found: list[int] = []
    while here is not None and flow.op(here) in CARRYING | SCALINGS and len(flow.makers[here]) == 1:
        found += [here] if flow.op(here) in SCALINGS else []
        here = flow.makers[here][0]
    return name_factors(flow, site, [Scored("scale", tuple(found))])


def takes_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes rows of a learned table, as ids say."""
    has_ids = any(not record.is_float for record, _ in flow.given(node))
    is_learned = any(learned_source(flow, *one) is not None for one in flow.given(node))
    return flow.op(node) in LOOKUPS or (flow.op(node) == "index" and has_ids and is_learned)


def name_asked(flow: Flow, node: int) -> str:
    """The argument with several numbers for each place by which a table is asked; "" where there is none."""
    makers = (maker for record, maker in flow.given(node) if not record.is_float)
    given = (one for here in flow.behind(*makers) for one, made in flow.taken(here) if made is None)
    names = {name_argument(flow, one) for one in given if one.role != "parameter" and len(one.shape) > OF_PLACES}
    return names.pop() if len(names) == 1 else ""
