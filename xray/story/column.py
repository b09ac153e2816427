"""One side of the poster with the journeys drawn on it: a detailed one, and the second phase brief beside it."""

from dataclasses import dataclass

from xray.ir.trace import SAME_WEIGHTS
from xray.story.journey import Journey, Side, Tale
from xray.story.layer_groups import LayerGroup, group_layers
from xray.story.plan import Frame


@dataclass(frozen=True)
class Column:
    """What is drawn in one frame; `brief` is the inference beside the training, None where one phase stands alone."""

    side: Side
    frame: Frame
    main: Journey
    brief: Journey | None
    heads: int
    groups: tuple[LayerGroup, ...]

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
    brief = journeys[1] if len(journeys) > 1 else None
    groups = group_layers(journeys, all_layers=all_layers)
    split = journeys[0].step(f"{journeys[0].layer}.self_attention.split_query")
    heads = split.outputs[0].shape[1] if split is not None else 1
    return Column(side, frame, journeys[0], brief, heads, groups)
