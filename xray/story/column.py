"""One side of the poster with the journeys drawn on it: a detailed one, and the second phase brief beside it."""

from dataclasses import dataclass

from xray.story.journey import Journey, Side, Tale, describe
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
        return f"{step.params:,} parameters" if step is not None and step.params else ""

    def dropout(self, path: str) -> str:
        """Where dropout sits and how much is dropped; at inference it does nothing."""
        step = self.main.step(path)
        if step is None:
            return ""
        share = step.settings.get("p")
        return f"dropout {share:g}" if isinstance(share, float) else "dropout"

    def tip(self, journey: Journey, path: str) -> str:
        """The tooltip of a step."""
        return describe(journey.steps(path))


def make_column(tale: Tale, side: Side, frame: Frame, *, all_layers: bool = False) -> Column:
    """The journeys of one side, the first phase in detail, and its layers in groups of alike ones."""
    journeys = tale.encoder if side == "encoder" else tale.decoder
    shape = journeys[0].output(f"{side}.layers.0.self_attention.split_query")
    place = shape.axes.index("heads") if shape is not None and "heads" in shape.axes else None
    heads = int(shape.sizes[place]) if shape is not None and place is not None and shape.sizes[place].isdigit() else 1
    brief = journeys[1] if len(journeys) > 1 else None
    return Column(side, frame, journeys[0], brief, heads, group_layers(journeys, all_layers=all_layers))
