"""The blocks of a model that hold its sums: the elements of its lists, and how they split a stack."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import Staging
from xray.story.cutting.patterns import Layer, name_coarse
from xray.story.recognition.between import weights_of

ANY_NUMBER = re.compile(r"\d+")
NUMBERED = re.compile(r"(.*)\.\d+")

FEWEST_BESIDE = 20
"""Where sums stand beside blocks, one of so many may do so."""


@dataclass(frozen=True)
class Block:
    """A module around a sum, or an element of a list that is itself a list and does not run: it has no `module`.

    `node` is its step, or that of what runs it.
    """

    node: int
    path: str
    module: str = ""

    @property
    def is_numbered(self) -> bool:
        """Whether it is an element of a list, or of what is itself one."""
        return self.path.rpartition(".")[2].isdecimal()

    @property
    def list(self) -> str:
        """The path of the list that it is an element of, without numbers; empty where it is in none."""
        found = NUMBERED.fullmatch(self.path)
        return "" if found is None else ANY_NUMBER.sub("*", found[1])


Holders = Mapping[int, Sequence[Block]]
"""The blocks around stages, by the ids of these, from the outermost in."""


def read_holders(flow: Flow, stagings: Sequence[Staging]) -> Holders:
    """The blocks around the first sum of each of some stages."""
    return {id(one): read_around(flow, one.joints[0].add) for one in stagings}


def read_around(flow: Flow, node: int) -> list[Block]:
    """The blocks around a step, from the outermost in."""
    found: list[Block] = []
    for parent in [*flow.parents(node)][::-1]:
        step, around = flow.steps[parent], found[-1] if found else None
        begun = f"{around.path}." if len(found) > 1 and around is not None else ""
        ends = [place for place, letter in enumerate(step.path) if letter == "." and place > len(begun)]
        lists = [step.path[:end] for end in ends if step.path.startswith(begun)]
        found += [Block(around.node, path) for path in lists if around is not None and NUMBERED.fullmatch(path)]
        found.append(Block(parent, step.path, step.module or ""))
    return found


def split_at_blocks(stagings: Sequence[Staging], holders: Holders) -> list[Layer]:
    """Stages by the outermost blocks that do not hold all of them; all in one where sums stand beside these.

    One of many that stands between two blocks goes with the one before, be it that it is of no layer (Granite Speech).
    So do all that look at what comes from beside between whole layers of one list (Wan-Animate's faces), and not where
    one looks behind all of these (SAM).
    """
    own = [holders[id(one)] for one in stagings]
    depth = count_shared(own)
    alone = [len(one) <= depth for one in own]
    kinds = [name_coarse(one.stage) for one in stagings]
    parts = [(held[depth], kind) for held, kind, is_alone in zip(own, kinds, alone, strict=True) if not is_alone]
    looking = sum(is_alone and kind == "cross" for is_alone, kind in zip(alone, kinds, strict=True))
    counted = sum(alone) - (looking if are_whole(parts) and not alone[-1] else 0)
    if alone[0] or counted * FEWEST_BESIDE > len(own):
        return [tuple(stagings)]
    blocks: list[Block] = []
    for held, is_alone in zip(own, alone, strict=True):
        blocks.append(blocks[-1] if is_alone else held[depth])
    return [
        tuple(one for one, held in zip(stagings, blocks, strict=True) if held == block)
        for block in dict.fromkeys(blocks)
    ]


def are_whole(parts: Sequence[tuple[Block, str]]) -> bool:
    """Whether blocks, each with the kind of a stage in it, are of one list, and all of them mix places and think."""
    kinds = dict[Block, set[str]]()
    for block, kind in parts:
        kinds.setdefault(block, set()).add(kind)
    is_one_list = len({block.list for block in kinds}) == 1 and all(block.list for block in kinds)
    return is_one_list and all({"mix", "think"} <= own for own in kinds.values())


def count_shared(holders: Sequence[Sequence[Block]]) -> int:
    """In how many blocks, from the outermost on, all stand."""
    return next(
        (depth for depth, held in enumerate(zip(*holders, strict=False)) if len(set(held)) > 1), min(map(len, holders))
    )


def list_first_blocks(pieces: Sequence[Layer], holders: Holders) -> list[Block]:
    """The outermost block of each piece that does not hold all of them."""
    depth = count_shared([holders[id(one)] for piece in pieces for one in piece])
    return [holders[id(piece[0])][depth] for piece in pieces]


def are_of_one_class(pieces: Sequence[Layer], holders: Holders) -> bool:
    """Whether the blocks of pieces are of one class."""
    return len({block.module for block in list_first_blocks(pieces, holders)}) == 1


def name_lists(pieces: Sequence[Layer], holders: Holders) -> list[str]:
    """The lists that several pieces are blocks of; empty where one is of none."""
    return [block.list for block in list_first_blocks(pieces, holders)] if len(pieces) > 1 else [""]


def find_work(flow: Flow, layer: Layer) -> int:
    """Where a layer stands: at the last weights of its first branch; the next block may work its sum out (Mamba)."""
    joint = layer[0].joints[0]
    inner = sorted(joint.region.inner, reverse=True)
    return next((node for node in inner if flow.is_leaf(node) and weights_of(flow, [node])), joint.add)


def find_block(flow: Flow, add: int) -> int | None:
    """The outermost numbered block that holds a step."""
    return min(list_blocks(flow, add), default=None)


def find_own_block(flow: Flow, add: int, adds: Collection[int]) -> int | None:
    """The outermost numbered block that holds one of some sums, and none of the others."""
    return min(list_own_blocks(flow, add, adds), default=None)


def list_own_blocks(flow: Flow, add: int, adds: Collection[int]) -> Iterator[int]:
    """The numbered blocks that hold one of some sums, and none of the others, from within."""
    return (one for one in list_blocks(flow, add) if sum(one < other < flow.ends[one] for other in adds) == 1)


def list_blocks(flow: Flow, add: int) -> Iterator[int]:
    """The numbered blocks that hold a step, from within."""
    return (node for node in flow.parents(add) if name_list(flow, node))


def name_list(flow: Flow, node: int) -> str:
    """The path of the list that a block is an element of; empty where it is in none."""
    found = NUMBERED.fullmatch(flow.steps[node].path)
    return found[1] if found is not None and flow.steps[node].module else ""
