"""How many parameters belong to some steps: counted at the outermost blocks that hold nothing else, each once."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, PRODUCTS, SCALINGS, SUMS
from xray.ir.flow.remembering import once, once_each
from xray.ir.trace import SAME_WEIGHTS, SAME_WEIGHTS_AS
from xray.story.facts.totals import paths_above
from xray.story.facts.unsaid import count_parameters


@dataclass(frozen=True)
class Count:
    """Counts the parameters of a pass."""

    flow: Flow

    @cached_property
    def inside(self) -> dict[int, list[int]]:
        """The steps directly inside each block."""
        found: dict[int, list[int]] = {}
        for place, step in enumerate(self.flow.steps):
            parent = self.flow.places.get(step.parent or "")
            if parent is not None:
                found.setdefault(parent, []).append(place)
        return found

    def blocks(self, nodes: Collection[int]) -> tuple[int, ...]:
        """The outermost steps with parameters of which every learned step is among the given ones."""
        return self.find_blocks(frozenset(nodes))

    @once_each
    def find_blocks(self, nodes: frozenset[int]) -> tuple[int, ...]:
        """The same, asked by what can be known again."""
        paths = {self.flow.steps[node].path for node in nodes}
        whole: dict[int, bool] = {}

        def is_whole(place: int) -> bool:
            if place not in whole:
                held = self.inside.get(place)
                if held is None:
                    whole[place] = place in nodes
                else:
                    learned = [one for one in held if self.is_learned(one)]
                    ran = [one for one in learned if not self.is_empty(one)]
                    is_all = self.run_outside.get(self.flow.steps[place].path, set()) <= paths
                    whole[place] = bool(learned) and is_all and all(is_whole(one) for one in ran or learned)
            return whole[place]

        found: dict[int, None] = {}
        for node in sorted(nodes):
            here, best = node, None
            while here is not None:
                if self.params(here) and is_whole(here) and self.may_count(here, best):
                    best = here
                elif here != node and not is_whole(here):
                    break
                here = self.parent(here)  # type: ignore[assignment]
            if best is not None:
                found[best] = None
        return tuple(found)

    def parent(self, place: int) -> int | None:
        """The block that a step stands in."""
        return self.flow.places.get(self.flow.steps[place].parent or "")

    def is_foreign(self, place: int) -> bool:
        """Whether a block that runs a module does not hold its weights: a network of biases, say (x-transformers)."""
        around, step = self.parent(place), self.flow.steps[place]
        if around is None or not step.params:
            return False
        return self.flow.steps[around].path not in paths_above(step.path) and self.own_params(around) < 0

    def may_count(self, block: int, inner: int | None) -> bool:
        """Whether the parameters of a block are also those of one inside it: not of one that another block holds."""
        if inner is None or not self.is_foreign(inner):
            return True
        return self.flow.steps[block].path in paths_above(self.flow.steps[inner].path)

    def is_handed_in(self, place: int, block: int) -> bool:
        """Whether a step works with learned rows that a block around it was given: it holds none (Transformer-XL)."""
        given, own = (
            {one.shape for one in self.flow.steps[here].inputs if one.role == "parameter"} for here in (block, place)
        )
        return place != block and not self.flow.steps[place].params and bool(own) and own <= given

    @cached_property
    def run_outside(self) -> dict[str, set[str]]:
        """The paths of learned modules that run outside of a block that holds them, by that block's path (X-MOD)."""
        found: dict[str, set[str]] = {}
        for place, step in enumerate(self.flow.steps):
            if step.params and place not in self.inside:
                around = {self.flow.steps[one].path for one in self.flow.parents(place)}
                for path in set(paths_above(step.path)) - around:
                    found.setdefault(path, set()).add(step.path)
        return found

    @once_each
    def is_learned(self, place: int) -> bool:
        """Whether a step works with parameters, itself or something inside it; not where it hands one on as it is.

        A block may hold parameters that other steps work with, and work with none itself (DBRX's experts).
        """
        step = self.flow.steps[place]
        held = self.inside.get(place)
        if step.params:
            return held is None or place in self.learned_blocks
        return any(record.role == "parameter" for record, _ in self.flow.taken(place)) and not self.hands_on(place)

    def is_empty(self, place: int) -> bool:
        """Whether a step gives no numbers, since it was given no rows: those of sounds, say (Higgs Audio V2)."""
        outputs = self.flow.steps[place].outputs
        return bool(outputs) and all(0 in record.shape for record in outputs)

    @cached_property
    def learned_blocks(self) -> frozenset[int]:
        """The blocks in which a step reads a parameter, or is a leaf that has some."""
        leaves = (place for place in range(len(self.flow.steps)) if place not in self.inside)
        found = (
            place
            for place in leaves
            if self.flow.steps[place].params or any(one.role == "parameter" for one in self.flow.steps[place].inputs)
        )
        return frozenset(parent for place in found for parent in self.flow.parents(place))

    def hands_on(self, place: int) -> bool:
        """Whether a step gives a parameter as it got it, as a cast to the type that it has already."""
        step = self.flow.steps[place]
        return bool(step.outputs) and all(
            record.role == "parameter" and record.source is None for record in step.outputs
        )

    @cached_property
    def handing_on(self) -> frozenset[str]:
        """The paths of steps that hand a parameter on, as it is or changed: what they share is counted where it works.

        RWKV divides some of its weights before its layers. So is what is moved for nothing: nobody reads it (CLIP's
        table of places in Unlimited OCR).
        """
        return frozenset(
            step.path
            for place, step in enumerate(self.flow.steps)
            if self.hands_on(place)
            or ([one.role for one in step.inputs] == ["parameter"] and (step.op.endswith("_") or self.is_unread(place)))
        )

    def is_unread(self, place: int) -> bool:
        """Whether a step only moves numbers, and no other one reads what it gives."""
        return self.flow.op(place) in CARRYING and not self.flow.leaf_readers(place)

    @once_each
    def params(self, place: int) -> int:
        """The parameters of a step: its module's and those lent to it, or those given to it where it is none."""
        step = self.flow.steps[place]
        if step.params or not self.flow.is_leaf(place):
            return step.params + sum(prod(shape) for shape, reader in self.lent.items() if reader == place)
        if self.reads_each_once(self.parent(place)):
            return count_parameters(step)
        shapes = [record.shape for record in step.inputs if record.role == "parameter"]
        counted, once = (sum(map(prod, some)) for some in (shapes, set(shapes)))
        if counted == once:
            return counted
        held = self.own_params(self.flow.places.get(step.parent or "", -1))
        return once if once <= held < counted else counted  # one that is laid beside itself is one (MLCD)

    @cached_property
    def lent(self) -> dict[tuple[int, ...], int]:
        """Learned rows that a block holds beside its modules, by their shape, and the module that reads them first.

        So the queries are held beside the Q-Former that begins with a norm of them (Granite Speech).
        """
        found: dict[tuple[int, ...], int] = {}
        for place, step in enumerate(self.flow.steps):
            if not step.params or place in self.inside:
                continue
            for record in step.inputs:
                rows = prod(record.shape) if record.role == "parameter" and len(record.shape) > 1 else 0
                if rows and any(self.own_params(block) >= rows for block in self.flow.parents(place)):
                    found.setdefault(record.shape, place)
        return found

    def fresh(self, groups: Iterable[Collection[int]]) -> dict[str, int]:
        """The same as `paths`, less what other steps used before.

        A block that runs again may run a part that was idle before, and was counted with it then (Zamba 2's adapters).
        A module that several blocks hold is the first one's (the convolutions of a stage of CoaT).
        """
        found: dict[str, int] = {}
        idle: dict[str, int] = {}
        counted = set[str]()
        for nodes in groups:
            for place in self.blocks(nodes):
                path, held = self.key(place), self.held(place)
                inside = self.flow.steps[place : self.flow.ends[place]]
                own = {step.path for step in inside} | self.handing_on
                shared = {
                    self.key(one): step.settings
                    for one, step in enumerate(inside, place)
                    if SAME_WEIGHTS in step.settings
                    and not (self.hands_on(one) or self.is_handed_in(one, place))
                    and (step.settings[SAME_WEIGHTS_AS] not in own or self.was_worked_with(one, place))
                }
                counts = (settings[SAME_WEIGHTS] for settings in shared.values())
                known = sum(count for count in counts if isinstance(count, int))
                if path in found:
                    continue
                again = sum(held[one] for one in held.keys() & counted - {*shared, path})
                counted |= held.keys()
                whole, ran = self.params(place) - again, self.ran(place) - again
                lender = self.find_lender(place, whole, idle)
                if lender is not None:
                    found[path] = 0
                    del idle[lender]
                    continue
                holders = {str(settings[SAME_WEIGHTS_AS]) for settings in shared.values()}
                first = next((one for one in idle if all(holder.startswith(f"{one}.") for holder in holders)), None)
                if not known:
                    idle |= {path: whole - ran} if whole > ran else {}
                    found[path] = whole
                elif first is None or whole <= ran:
                    found[path] = whole - known if known <= whole else whole  # what is held elsewhere is not counted
                else:
                    woken = min(idle[first], max(0, ran - known))
                    idle[first] -= woken
                    found[path] = max(0, ran - known) - woken
        return found

    def count_new(self, groups: Iterable[Collection[int]], fresh: Mapping[str, int]) -> int:
        """How many of several groups hold what is `fresh`, if the others work with weights that were there before.

        All of them where one of several holds both: weights that an earlier one has, and a table (RegionViT).
        """
        known: set[str] = set()
        new, again, total, both = 0, 0, 0, False
        for nodes in groups:
            own = {self.key(place) for place in self.blocks(nodes)}
            is_new = any(fresh.get(path) for path in own - known)
            both |= is_new and not own.isdisjoint(known)
            new, again, total = new + is_new, again + (bool(own) and not is_new), total + 1
            known |= own
        return new if new + again == total and not both else total

    def find_lender(self, place: int, count: int, idle: Mapping[str, int]) -> str | None:
        """The block that was counted with a parameter that a step beside it works with (GPT-NeoX Japanese's last bias).

        It did not work with so many itself, and the block that holds both has none of its own.
        """
        step, parent = self.flow.steps[place], self.flow.places.get(self.flow.steps[place].parent or "", -1)
        if step.params or parent < 0 or self.own_params(parent) >= count:
            return None
        within = f"{self.flow.steps[parent].path}."
        return next((one for one, left in idle.items() if left == count and one.startswith(within)), None)

    def was_worked_with(self, place: int, start: int) -> bool:
        """Whether a step before `start` worked with the weights of a step, where another one handed these on first.

        Not told where that one handed on several, since none of them is known by its path then.
        """
        settings = self.flow.steps[place].settings
        known = (str(settings[SAME_WEIGHTS_AS]), settings[SAME_WEIGHTS])
        return known in self.handed_alone and self.working_first.get(known, start) < start

    @cached_property
    def handed_alone(self) -> frozenset[tuple[str, object]]:
        """The paths of steps that hand on one parameter as they got it, with its size, where nothing else is read."""
        found: dict[str, list[int]] = {}
        for place, step in enumerate(self.flow.steps):
            if SAME_WEIGHTS not in step.settings and self.flow.is_leaf(place):
                sizes = [prod(one.shape) for one in step.inputs if one.role == "parameter"]
                found.setdefault(step.path, []).extend(sizes if self.hands_on(place) or not sizes else [*sizes, 0])
        return frozenset((path, sizes[0]) for path, sizes in found.items() if len(sizes) == 1)

    @cached_property
    def working_first(self) -> dict[tuple[str, object], int]:
        """The first step that works with weights that another step had before, by that one's path and their size."""
        found: dict[tuple[str, object], int] = {}
        for place, step in enumerate(self.flow.steps):
            if SAME_WEIGHTS in step.settings and not self.hands_on(place):
                found.setdefault((str(step.settings[SAME_WEIGHTS_AS]), step.settings[SAME_WEIGHTS]), place)
        return found

    def ran(self, place: int) -> int:
        """The parameters of the steps inside a block, those of each module once."""
        leaves = [one for one in range(place, self.flow.ends[place]) if self.flow.is_leaf(one)]
        return sum({self.flow.steps[one].path: self.params(one) for one in leaves}.values())

    def running(self, nodes: Collection[int]) -> int:
        """The parameters that some steps work with: of a block that others run too, no part that only these do.

        So a shared block holds what each layer has of its own (Zamba 2's adapters).
        """
        return sum(self.run_within({self.key(place): place for place in self.blocks(nodes)}.values()))

    def run_within(self, places: Iterable[int]) -> Iterator[int]:
        """For each step the parameters that it works with: its modules', and of its own no more than are read."""
        for place in places:
            held = self.inside.get(place)
            if held is None:
                yield self.params(place)
                continue
            modules = {self.flow.steps[one].path: one for one in held if self.flow.steps[one].params}
            loose = [one for one in held if not self.flow.steps[one].params]
            leaves = [leaf for one in loose for leaf in range(one, self.flow.ends[one]) if self.flow.is_leaf(leaf)]
            read = sum(self.params(leaf) for leaf in leaves if self.is_learned(leaf))
            yield sum(self.run_within(modules.values())) + min(max(0, self.own_params(place)), read)

    def paths(self, groups: Iterable[Collection[int]]) -> dict[str, int]:
        """The parameters of several groups of steps by the path of the block that counts them; shared ones once.

        What a block holds that is counted is counted with it, be it read of another run of it, for rows that are kept.
        """
        found: dict[str, int] = {}
        for nodes in groups:
            for place in self.blocks(nodes):
                found.setdefault(self.key(place), self.params(place))
        return {path: n for path, n in found.items() if found.keys().isdisjoint(paths_above(path))}

    def key(self, place: int) -> str:
        """By what the parameters of a step are known: its path, and which one it is where a run of a block has several.

        Two products of one run, each with a learned scale, have one path and no module of their own (InternVL), and so
        have two moves that lay such scales out (PoolFormer), two bends of gates (Evolla), and products with weights
        that a block holds (XLNet).
        """
        step, parent = self.flow.steps[place], self.flow.places.get(self.flow.steps[place].parent or "", -1)
        siblings = self.inside.get(parent, [])
        alike = [one for one in siblings if one < place and self.flow.steps[one].path == step.path and self.params(one)]
        if not step.params and self.reads_each_once(parent):
            return f"{step.path}#{len(alike)}" if alike else step.path
        takes_a_row = type(step.settings.get("index")) is int  # one of a table (Grounding DINO's levels)
        if step.params or takes_a_row or step.op not in SCALINGS | SUMS | CARRYING | CURVES | PRODUCTS:
            return step.path
        held = (one for one in siblings if self.flow.is_leaf(one) and not self.flow.steps[one].params)
        if step.op in PRODUCTS and sum(map(self.params, held)) > self.own_params(parent):
            return step.path  # some weights are used again
        own, worked_with = self.own_params(parent), sum(map(self.params, (*alike, place)))
        if worked_with > own and (step.op in CARRYING | CURVES or self.params(place) <= own):
            return step.path  # one and the same is moved, bent, added or multiplied with again
        alike = [one for one in alike if not self.takes_of_one(one, place, parent)]
        return f"{step.path}#{len(alike)}" if alike else step.path

    @once_each
    def reads_each_once(self, block: int | None) -> bool:
        """Whether the steps of a block are given just as many learned numbers as it holds beside its modules.

        So each of them has its own: layers that are written out in one loop, and a row of a stack for each.
        """
        held = [one for one in self.inside.get(-1 if block is None else block, []) if self.flow.is_leaf(one)]
        read = sum(count_parameters(self.flow.steps[one]) for one in held if not self.flow.steps[one].params)
        return block is not None and 0 < read == self.own_params(block)

    def takes_of_one(self, one: int, place: int, block: int) -> bool:
        """Whether two steps of a block take other parts of one parameter: it has none for each (PVT's places)."""
        first, second = self.flow.steps[one], self.flow.steps[place]
        given, again = ([each.shape for each in step.inputs if each.role == "parameter"] for step in (first, second))
        if first.op != "index" or given != again or first.settings == second.settings:
            return False
        loose = (each for each in self.inside.get(block, []) if self.flow.is_leaf(each))
        read = sum(self.params(each) for each in loose if not self.flow.steps[each].params)
        taken = sum(prod(self.flow.output(each).shape) for each in (one, place))
        return taken <= self.params(place) <= read - self.own_params(block)

    @once_each
    def own_params(self, block: int) -> int:
        """The parameters of a block that are in no module inside it; one that several modules there hold is one."""
        if block < 0:
            return 0
        within = {path: n for one in self.inside.get(block, []) for path, n in self.held(one).items()}
        return self.flow.steps[block].params - sum(within.values())

    @once_each
    def held(self, block: int) -> dict[str, int]:
        """The parameters of a block by the modules inside it that have them, and its own.

        All are its own where more run inside it than it has: some of these it does not hold.
        """
        step, own = self.flow.steps[block], self.own_params(block)
        within = {path: n for one in self.inside.get(block, []) if own >= 0 for path, n in self.held(one).items()}
        return {**within, step.path: own if within else step.params} if step.params else {}


@once
def count_in(flow: Flow) -> Count:
    """What counts the parameters of a pass."""
    return Count(flow)
