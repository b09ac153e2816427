"""One side of the poster with the journeys drawn on it: a detailed one, and the second phase brief beside it."""

from dataclasses import dataclass

from xray.ir.trace import SAME_WEIGHTS
from xray.story.journey import Journey, Side, Tale
from xray.story.layer_groups import LayerGroup, group_layers
from xray.story.plan import Frame
from xray.story.shapes import ShapeText


@dataclass(frozen=True)
class Column:
    """What is drawn in one frame; `brief` is the inference beside the training, None where one phase stands alone.

    `is_alone` says that the model has no other side, or none that was seen into.
    """

    side: Side
    frame: Frame
    main: Journey
    brief: Journey | None
    heads: int
    groups: tuple[LayerGroup, ...]
    is_retold: bool = False
    key_heads: int = 1
    is_alone: bool = False

    def params(self, path: str) -> str:
        """How many parameters a step has, in words; nothing where it has none."""
        step = self.main.step(path)
        if step is None or not step.params:
            return ""
        return f"{step.params:,} parameters{', shared' if step.settings.get(SAME_WEIGHTS) else ''}"

    def dropout(self, path: str) -> str:
        """Where dropout sits and how much is dropped; at inference it does nothing."""
        step = self.main.step(path)
        if step is None:
            return ""
        share = step.settings.get("p")
        return f"dropout {share:g}" if isinstance(share, float) else "dropout"

    def tip(self, journey: Journey, path: str) -> str:
        """The tooltip of a step."""
        return journey.tell(path)


def make_column(tale: Tale, side: Side, frame: Frame, *, all_layers: bool = False) -> Column:
    """The journeys of one side, the first phase in detail, and its layers in groups of alike ones."""
    journeys = tale.journeys(side)
    split = f"{journeys[0].layer}.self_attention.split"
    heads, key_heads = (count_heads(journeys[0].output(f"{split}_{part}")) or 1 for part in ("query", "key"))
    brief = journeys[1] if len(journeys) > 1 else None
    groups = group_layers(journeys, all_layers=all_layers)
    return Column(side, frame, journeys[0], brief, heads, groups, tale.is_retold, key_heads, len(tale.sides) == 1)


def count_heads(shape: ShapeText | None) -> int:
    """How many heads a tensor has; 0 where no axis is known to count them."""
    if shape is None:
        return 0
    place = next((at for at, axis in enumerate(shape.axes) if "heads" in axis), None)
    if place is None:
        place = len(shape.sizes) - 3 if len(shape.sizes) == 4 else None
    return int(shape.sizes[place]) if place is not None and shape.sizes[place].isdigit() else 0
