"""The layers of one side in groups: neighbours that are alike in every pass stand together, others apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.facts.folding import NO_DIFFERENCE, fold_layers
from xray.story.journey import Journey, Side
from xray.text import show_controls


@dataclass(frozen=True)
class LayerGroup:
    """Layers that one frame stands for; `unlike` tells how they differ from the group before, "" where they do not."""

    side: Side
    layers: tuple[int, ...]
    unlike: str = ""

    @property
    def first(self) -> int:
        """The number of the layer that is shown."""
        return self.layers[0]

    @property
    def title(self) -> str:
        """The layers as people count them, from 1: "LAYER 2", "LAYERS 2–4"."""
        first, last = self.layers[0] + 1, self.layers[-1] + 1
        return f"LAYER {first}" if first == last else f"LAYERS {first}–{last}"


def group_layers(journeys: Sequence[Journey], *, all_layers: bool = False) -> tuple[LayerGroup, ...]:
    """The groups of one side, from the bottom up, over all its journeys; with `all_layers` each layer is a group."""
    side, layers = journeys[0].side, journeys[0].layers
    apart = set(layers) if all_layers else find_borders(journeys)
    groups: list[tuple[int, ...]] = []
    for layer in layers:
        if layer in apart or not groups:
            groups.append((layer,))
        else:
            groups[-1] = (*groups[-1], layer)
    return tuple(
        LayerGroup(side, group, tell_unlike(journeys, group[0] - 1, group[0]) if place else "")
        for place, group in enumerate(groups)
    )


def find_borders(journeys: Sequence[Journey]) -> set[int]:
    """The layers that are not like the one below them in some pass."""
    return {
        fold.first
        for journey in journeys
        for one_pass in journey.passes
        for fold in fold_layers(one_pass)
        if fold.stack == f"{journey.side}.layers"
    }


def tell_unlike(journeys: Sequence[Journey], lower: int, upper: int) -> str:
    """The first thing in which a layer is not like the one below it, in one line; "" where they are alike."""
    for journey in journeys:
        for one_pass in journey.passes:
            pair = [steps_by_part(one_pass, f"{journey.side}.layers.{layer}") for layer in (lower, upper)]
            found = next(compare_layers(*pair), "")
            if found:
                return show_controls(found)
    return ""


def steps_by_part(one_pass: Pass, root: str) -> dict[str, Step]:
    """The steps of a layer by their ids below the layer's own path."""
    inside = (step for step in one_pass.steps if step.path == root or step.path.startswith(f"{root}."))
    return {step.id.removeprefix(root).lstrip("."): step for step in inside}


def compare_layers(lower: dict[str, Step], upper: dict[str, Step]) -> Iterator[str]:
    """What is different in two layers; what a block makes is compared after what is inside it."""
    ordered = sorted(lower, key=lambda part: (part.startswith("#"), 0))
    for part in ordered:
        name = part.partition("#")[0] or "layer"
        if part not in upper:
            yield f"no {name}"
            continue
        one, other = lower[part], upper[part]
        if one.op != other.op:
            yield f"{name}: {other.op}, not {one.op}"
        for setting in one.settings:
            if setting in NO_DIFFERENCE:
                continue
            if one.settings[setting] != other.settings.get(setting):
                yield f"{name}: {setting} {other.settings.get(setting)}, not {one.settings[setting]}"
        for before, after in zip((*one.inputs, *one.outputs), (*other.inputs, *other.outputs), strict=False):
            if before.shape != after.shape:
                yield f"{name}: {write_sizes(after)}, not {write_sizes(before)}"
            elif before.mask != after.mask:
                yield f"{name}: another mask"
            elif (before.axes, before.dtype, before.role) != (after.axes, after.dtype, after.role):
                told = f" {' × '.join(after.axes)}" if any(after.axes) else ""
                yield f"{name}: {after.dtype}{told}"
        if one.error != other.error:
            yield f"{name}: failed"
        if one.params != other.params and name != "layer":
            yield f"{name}: {other.params:,} parameters, not {one.params:,}"
    for part in upper:
        if part not in lower:
            yield f"with {part.partition('#')[0]}"


def write_sizes(record: TensorRecord) -> str:
    return "×".join(map(str, record.shape)) or "one number"
