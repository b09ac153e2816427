"""Which steps of any model are drawn, and which node stands for a step that is not."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xray.ir.trace import Pass, Step
from xray.story.folding import Fold, fold_layers, layer_of, steps_shown

MOST_NODES = 300
"""More steps than this are drawn as the blocks that hold them."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of one pass.

    `names` has the node of each drawn step, `inside` what each block holds, `stand_ins` the step of the shown layer for
    each step of a layer that it stands for, `counts` for how many layers a shown one stands, by its path.
    """

    one_pass: Pass
    place: int
    names: Mapping[str, str]
    inside: Mapping[str | None, Sequence[Step]]
    stand_ins: Mapping[str, str]
    counts: Mapping[str, int]

    def holder(self, source: str | None) -> str | None:
        """The node that stands for a step: its own, that of its layer's stand-in, or that of the block around it."""
        while source is not None:
            source = self.stand_ins.get(source, source)
            if source in self.names:
                return self.names[source]
            step = self.one_pass.by_id.get(source)
            source = step.parent if step is not None else None
        return None


def choose_nodes(one_pass: Pass, place: int, *, all_layers: bool = False) -> Nodes:
    """The nodes of the pass at that place in its trace, alike layers drawn once unless all are asked for."""
    folds = () if all_layers else fold_layers(one_pass)
    kept = steps_shown(one_pass, folds)
    inside: dict[str | None, list[Step]] = defaultdict(list)
    for step in kept:
        inside[step.parent].append(step)
    return Nodes(
        one_pass,
        place,
        names={step.id: f"p{place}_s{number}" for number, step in enumerate(shown_steps(one_pass, kept))},
        inside=inside,
        stand_ins=dict(pair for fold in folds for pair in pair_layers(one_pass, fold)),
        counts={root_of(fold, fold.first): fold.count for fold in folds if fold.count > 1},
    )


def shown_steps(one_pass: Pass, steps: Sequence[Step] | None = None) -> list[Step]:
    """The leaves; where they are too many, the deepest blocks that are few enough stand for what they hold."""
    steps = one_pass.steps if steps is None else steps
    leaves = [step for step in steps if step.id not in one_pass.blocks]
    if len(leaves) <= MOST_NODES:
        return leaves
    depth = max(step.depth for step in steps)
    while depth > 0:
        depth -= 1
        found = [
            step for step in steps if step.depth == depth or (step.depth < depth and step.id not in one_pass.blocks)
        ]
        if len(found) <= MOST_NODES:
            return found
    return found


def pair_layers(one_pass: Pass, fold: Fold) -> list[tuple[str, str]]:
    """Each step of the layers that are not shown, with the step of the shown layer that stands for it."""
    pairs = []
    for step in one_pass.steps:
        place = layer_of(step)
        if place is not None and fold.holds(step) and place[1] != fold.first:
            pairs.append((step.id, root_of(fold, fold.first) + step.id.removeprefix(root_of(fold, place[1]))))
    return pairs


def root_of(fold: Fold, number: int) -> str:
    """The path of one layer of a fold."""
    return f"{fold.stack}.{number}".lstrip(".")
