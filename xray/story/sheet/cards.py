"""What is said around the frames: title, sizes, sentences, stations, legend, formulas, masks, parameters."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xray.ir.trace import Trace
from xray.story.body.tree import Anatomy, Attention, Convolution, Experts, FeedForward, Recurrence, Tower
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Node
from xray.story.charts.stage_chart import name_branch
from xray.story.facts.totals import count_params, is_backward
from xray.story.heading import CREDIT, TITLE
from xray.story.journey import describe
from xray.story.layout import Line, Run, line_width
from xray.story.mask_cards import MaskCard, draw_masks
from xray.story.plan import LABEL, NOTE
from xray.story.shapes import hue, read_shape
from xray.story.sheet.frames import Frame, spell_layers
from xray.story.sheet.placing import Look
from xray.story.sheet.sentences import list_sentences
from xray.story.sides import draw_station
from xray.story.wording import fit_text, wrap

AIR, MOST_AIR, NAME = 16.0, 80.0, 20
MOST_KINDS = 6
SWATCHES = ("encoder", "decoder", "inference", "training", "station", "op_convolution", "op_activation", "op_pooling")
"""Surfaces by which kinds of layers are told apart on the card."""
Draw = Callable[[Canvas, float], float]
"""Draws a part below a height; gives the height that is left below it."""


@dataclass(frozen=True)
class Told:
    """All that the cards tell of."""

    trace: Trace
    anatomy: Anatomy
    frames: tuple[tuple[Tower, tuple[Frame, ...], Look], ...]
    stations: tuple[tuple[int, str], ...]
    shares: tuple[tuple[str, str, int], ...]
    left: float
    width: float

    def parts(self) -> list[Draw]:
        """The cards from the top down."""
        first = [self.title, self.sentences, self.reading, self.legend]
        return [*first, self.pattern, self.formulas, self.masks, self.parameters]

    def title(self, canvas: Canvas, top: float) -> float:
        """Title, the model's name, what was recorded, and its sizes."""
        size = int(min(TITLE, self.width / (canvas.text_width("TRANSFORMER", 100, "black") / 100)))
        canvas.note(self.left - 2, top, (words("X-RAY", size, "text", "black"),))
        canvas.note(self.left - 2, top - size, (words("TRANSFORMER", size, "accent:title", "black"),))
        y = top - size * 2.12 - 4
        name = fit_text(self.trace.title, NAME, self.width, canvas.measure, "bold")
        y = canvas.note(self.left, y, (words(name, NAME, "accent:title", "bold"),)).bottom - 2
        lines: list[Line] = [words(line, LABEL) for line in wrap(self.subtitle(), LABEL, self.width, canvas.measure)]
        lines += [words(line, NOTE, "quiet") for line in wrap(CREDIT, NOTE, self.width, canvas.measure)]
        y = canvas.note(self.left, y, tuple(lines)).bottom - 8
        for line in self.size_lines(canvas):
            y = canvas.note(self.left, y, (line,)).bottom - 2
        return y

    def subtitle(self) -> str:
        """What was recorded."""
        passes = self.trace.passes
        trained = sum(any(is_backward(step) for step in one.steps) for one in passes)
        has_loss = any(record.role == "loss" for step in self.trace.steps for record in step.outputs)
        if trained:
            recorded = "one training step" if len(passes) == 1 else f"{len(passes)} passes, {trained} of them sent back"
        elif len(passes) == 1:
            recorded = "one forward pass and its loss" if has_loss else "one forward pass"
        else:
            recorded = f"{len(passes)} forward passes"
        return f"Every tensor of {recorded}, recorded."

    def size_lines(self, canvas: Canvas) -> list[Line]:
        """The sizes of every tower, and the parameters of it all."""
        rows: list[list[tuple[str, str, str]]] = []
        for tower, _, _ in self.frames:
            pairs = [("", "other", tower.name)] if len(self.frames) > 1 else []
            pairs += list_sizes(tower)
            rows.append(pairs)
        ends = []
        params = count_params(self.trace)
        if params:
            ends.append(("parameters", "other", f"{params:,}"))
        if self.anatomy.active_params and self.anatomy.active_params != params:
            ends.append(("used for each place", "other", f"{self.anatomy.active_params:,}"))
        rows.append(ends)
        lines: list[Line] = []
        for row in rows:
            current: Line = ()
            for name, axis, value in row:
                label = f"{name} " if name else ""
                number = Run(f"{value}  ", LABEL + 1, hue(axis), "bold")
                piece = (Run(label, LABEL), number) if label else (number,)
                if current and line_width((*current, *piece), canvas.measure) > self.width:
                    lines.append(current)
                    current = ()
                current = (*current, *piece)
            if current:
                lines.append(current)
        return lines

    def sentences(self, canvas: Canvas, top: float) -> float:
        """What this model does its own way."""
        said = list_sentences(self.anatomy)
        untold = [one for one in self.anatomy.untold if one.params]
        if untold:
            names = ", ".join(f"{one.path} ({one.params:,})" for one in untold[:2])
            more = f", and {len(untold) - 2} more" if len(untold) > 2 else ""
            said.append(f"Not drawn, with parameters: {names}{more}.")
        if not said:
            return top
        return self.card(canvas, top, "WHAT THIS MODEL DOES ITS OWN WAY", lambda y: self.bullets(canvas, y, said))

    def bullets(self, canvas: Canvas, y: float, said: Sequence[str]) -> float:
        for sentence in said:
            lines = tuple(words(line, NOTE) for line in wrap(sentence, NOTE, self.width - 40, canvas.measure))
            canvas.note(self.left + 14, y, (words("•", NOTE, "quiet"),), "card")
            y = canvas.note(self.left + 26, y, lines, "card").bottom - 3
        return y

    def card(self, canvas: Canvas, top: float, title: str, draw: Callable[[float], float]) -> float:
        """A card with a title around what is drawn in it."""
        start = len(canvas.panels)
        canvas.note(self.left + 14, top - 9, (words(title, LABEL - 1, "accent:title", "bold"),), "card")
        bottom = draw(top - 29) - 6
        canvas.panel(self.left, bottom, self.left + self.width, top, "card", 12, "card", 1.0)
        canvas.panels.insert(start, canvas.panels.pop())
        return bottom

    def reading(self, canvas: Canvas, top: float) -> float:
        """The stations, in the order in which data passes them."""
        canvas.note(self.left, top, (words("READ IT FROM THE BOTTOM UP", LABEL, "accent:station", "bold"),))
        y = top - 28
        for number, text in self.stations:
            lines = tuple(words(line, NOTE) for line in wrap(text, NOTE, self.width - 34, canvas.measure, 2))
            draw_station(canvas, self.left + 9, y, number, 9, "reading")
            canvas.note(self.left + 26, y + len(lines) * NOTE * 0.56, lines)
            y -= 19 if len(lines) == 1 else 31
        return y + 8

    def legend(self, canvas: Canvas, top: float) -> float:
        """What colours and outlines mean, those that occur."""
        nodes = list(self.nodes())
        entries: list[tuple[str, str, str]] = []
        for tower, _, look in self.frames:
            if all(role != look.own for _, role, _ in entries):
                alone = len({one.own for _, _, one in self.frames}) == len(self.frames)
                entries.append(("fill", look.own, f"made by the {tower.name} tower" if alone else "made by a tower"))
        if any(node.surface == "mask" for node in nodes):
            entries.append(("fill", "mask", "a mask is applied"))
        if any(node.surface == "memory" for node in nodes):
            entries.append(("line", "ribbon", "keys and values of another tower"))
        entries.append(("outline", "boundary", "enters a layer, or leaves a sublayer"))

        def draw(y: float) -> float:
            for kind, role, text in entries:
                middle = y - 6.5
                if kind == "line":
                    canvas.line((self.left + 14, middle), (self.left + 40, middle), role=role, width=3, kind="legend")
                elif kind == "outline":
                    canvas.panel(self.left + 15, middle - 5, self.left + 39, middle + 5, "card", 4, role, 2.2)
                else:
                    canvas.panel(self.left + 14, middle - 6, self.left + 40, middle + 6, role, 4)
                canvas.note(self.left + 48, y, (words(text, NOTE),), "card")
                y -= 17.5
            seen = dict.fromkeys(
                axis for node in nodes if node.record for axis in node.record.axes if axis not in ("", "1")
            )
            line: Line = ()
            for axis in seen:
                piece = Run(axis + "   ", NOTE, hue(axis), "semibold")
                if line and line_width((*line, piece), canvas.measure) > self.width - 28:
                    y = canvas.note(self.left + 14, y - 2, (line,), "card").bottom
                    line = ()
                line = (*line, piece)
            return canvas.note(self.left + 14, y - 2, (line,), "card").bottom if line else y

        return self.card(canvas, top, "COLOURS", draw)

    def nodes(self) -> Iterator[Node]:
        """Every node of every frame."""
        return (
            node
            for _, frames, _ in self.frames
            for frame in frames
            for panel in frame.panels
            for node in panel.chart.nodes
        )

    def pattern(self, canvas: Canvas, top: float) -> float:
        """Which layer is of which frame, where a tower has several."""
        several = [tower for tower, _, _ in self.frames if len(tower.groups) > 1]
        if not several:
            return top

        def draw(y: float) -> float:
            for tower in several:
                kinds = {number: kind for kind, group in enumerate(tower.groups) for number in group.layers}
                step = min(13.0, (self.width - 28) / len(kinds))
                for place, number in enumerate(sorted(kinds)):
                    x = self.left + 14 + place * step
                    canvas.panel(x, y - 13, x + step - 1.5, y, SWATCHES[kinds[number] % len(SWATCHES)], 2)
                y -= 19
                for kind, group in enumerate(tower.groups[:MOST_KINDS]):
                    canvas.panel(self.left + 14, y - 11, self.left + 26, y - 1, SWATCHES[kind % len(SWATCHES)], 2)
                    branches = [name_branch(branch).lower() for stage in group.stages for branch in stage.branches]
                    text = f"{spell_layers(group.layers)}: {', '.join(branches)}"
                    text = fit_text(text, NOTE, self.width - 50, canvas.measure)
                    y = canvas.note(self.left + 32, y, (words(text, NOTE),), "card").bottom - 3
                if len(tower.groups) > MOST_KINDS:
                    text = f"and {len(tower.groups) - MOST_KINDS} more kinds"
                    y = canvas.note(self.left + 32, y, (words(text, NOTE, "quiet"),), "card").bottom - 3
                y -= 4
            return y

        return self.card(canvas, top, "WHICH LAYER IS WHICH", draw)

    def formulas(self, canvas: Canvas, top: float) -> float:
        """Attention as this model computes it, and how wide a head is; only what its steps prove."""
        lines: list[tuple[str, Line]] = []
        for tower, frames, _ in self.frames:
            for frame in frames:
                for panel in frame.panels:
                    found = [one for one in panel.staging.branches if isinstance(one.branch, Attention)]
                    if panel.is_open and found and not lines:
                        lines += attention_formulas(tower, found[0].branch, panel.chart.nodes)  # type: ignore[arg-type]
        if not lines:
            return top

        def draw(y: float) -> float:
            for name, line in lines:
                y = canvas.note(self.left + 14, y, (words(name, NOTE, "quiet"),), "card").bottom - 1
                y = canvas.note(self.left + 14, y, (line,), "card").bottom - 5
            return y

        return self.card(canvas, top, "IN FORMULAS", draw)

    def masks(self, canvas: Canvas, top: float) -> float:
        """The masks that attentions read, cell by cell where they were kept."""
        cards: list[MaskCard] = []
        for tower, frames, look in self.frames:
            for frame in frames:
                for panel in frame.panels:
                    cards += list_masks(tower, panel.chart.nodes, name_branch(panel.staging.stage.branches[0]), look)
        kept: list[MaskCard] = []
        for card in cards:
            if all(card.facts != other.facts for other in kept):
                kept.append(card)
        return draw_masks(canvas, kept[:4], self.left, top, self.width) if kept else top

    def parameters(self, canvas: Canvas, top: float) -> float:
        """Where the parameters are, as bars."""
        if not self.shares:
            return top
        widest = max(count for _, _, count in self.shares)
        room = max(canvas.text_width(name, NOTE) for name, _, _ in self.shares)
        numbers = max(canvas.text_width(f"{count:,}", NOTE) for _, _, count in self.shares)

        def draw(y: float) -> float:
            left = self.left + 14 + min(room, self.width * 0.42) + 12
            right = self.left + self.width - 14 - numbers - 10
            for name, role, count in self.shares:
                text = fit_text(name, NOTE, self.width * 0.42, canvas.measure)
                canvas.note(self.left + 14, y, (words(text, NOTE),), "card")
                end = left + max((right - left) * count / widest, 3)
                canvas.panel(left, y - 11, end, y - 2, role, 3)
                canvas.note(self.left + self.width - 14, y, (words(f"{count:,}", NOTE),), "card", "right")
                y -= 17
            return y

        return self.card(canvas, top, "WHERE THE PARAMETERS ARE", draw)


def list_sizes(tower: Tower) -> list[tuple[str, str, str]]:
    """A tower's sizes with the axis that each is of; those that differ from layer to layer as a range."""
    found: list[tuple[str, str, str]] = []

    def add(name: str, axis: str, values: Sequence[int | None]) -> None:
        known = sorted({value for value in values if value})
        if known and None not in values:
            text = f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}–{known[-1]:,}"
            found.append((name, axis, text))

    attentions = [branch for branch in tower.branches if isinstance(branch, Attention) and branch.source == "self"]
    add("heads", "heads", [branch.heads for branch in attentions])
    add("layers", "other", [tower.layers])
    add("d_model", "d_model", [group.d_model for group in tower.groups])
    add("d_k", "d_k", [branch.d_k for branch in attentions])
    add("d_ff", "d_ff", [b.d_ff for b in tower.branches if isinstance(b, FeedForward | Experts)])
    add("vocab", "tgt_vocab", [tower.vocab] if tower.vocab else [])
    return found


def attention_formulas(tower: Tower, branch: Attention, nodes: Sequence[Node]) -> list[tuple[str, Line]]:
    """The formula of the attention that is drawn: its terms are those of its nodes."""
    keys = {node.key.rstrip("0123456789") for node in nodes} | {
        node.key.partition(":")[2].rstrip("0123456789") for node in nodes
    }
    scores = next((node.label for node in nodes if node.key.endswith("scores")), "")
    runs = [Run("softmax( Q·K", LABEL), Run("T", LABEL, "text", "regular", "sup")]
    if "√d_k" in scores:
        runs += [Run(" / √d", LABEL), Run("k", LABEL, "text", "regular", "sub")]
    elif "·" in scores.removeprefix("SCORES Q·K^T"):
        runs.append(Run(f" {scores.removeprefix('SCORES Q·K^T').strip()}", LABEL))
    runs += [Run(" + bias", LABEL)] if "bias" in keys else []
    runs += [Run(" + mask", LABEL)] if "mask" in keys else []
    runs.append(Run(" ) · V", LABEL))
    lines = [("attention: each row sums to 1", tuple(runs))]
    if branch.heads and branch.d_k and tower.d_model:
        whole = branch.heads * branch.d_k == tower.d_model
        text: Line = (
            (
                Run("d_model / heads = ", LABEL),
                Run(f"{tower.d_model:,}", LABEL, hue("d_model"), "bold"),
                Run(" / ", LABEL),
                Run(str(branch.heads), LABEL, hue("heads"), "bold"),
                Run(" = ", LABEL),
                Run(str(branch.d_k), LABEL, hue("d_k"), "bold"),
            )
            if whole
            else (
                Run("heads × d_k = ", LABEL),
                Run(f"{branch.heads} × {branch.d_k} = {branch.heads * branch.d_k:,}", LABEL, hue("d_k"), "bold"),
                Run(f", d_model {tower.d_model:,}", LABEL),
            )
        )
        lines.append(("width of one head, d_k", text))
    return lines


def list_masks(tower: Tower, nodes: Sequence[Node], title: str, look: Look) -> Iterator[MaskCard]:
    """The masks of a panel."""
    for node in nodes:
        if node.surface != "mask" or not node.steps:
            continue
        for step in node.steps:
            record = next((one for one in step.inputs if one.mask is not None), None)
            if record is None or record.mask is None:
                continue
            maker = look.passes[0].by_id.get(record.source or "", step)
            yield MaskCard(
                id=f"mask_{tower.name}_{title}".replace(" ", "_"),
                title=f"MASK OF {title}",
                shape=read_shape([(0, record)]),
                facts=record.mask,
                tooltip=describe([(look.passes[0].number, maker)]),
                steps=(look.identity(maker),),
            )
            break


def tell_station(tower: Tower, branch: object) -> str:
    """What happens at the station of a branch; no more than is proven."""
    if isinstance(branch, Attention):
        if branch.source != "self":
            source = f"the {branch.source}" if branch.source else "another tensor"
            return f"The {tower.name} asks; keys and values come from {source}."
        if branch.window:
            return f"Every place looks at no more than {branch.window} places."
        causal = branch.causal
        return {
            True: "Every place looks back, never ahead.",
            False: "Every place looks at every other.",
            None: "Places look at each other.",
        }[causal]
    if isinstance(branch, FeedForward):
        return "Each place alone, wider and back."
    if isinstance(branch, Experts):
        few = f"{branch.chosen} of {branch.experts} experts" if branch.chosen and branch.experts else "experts"
        return f"Each place alone, through {few}."
    if isinstance(branch, Recurrence):
        return "A state goes from place to place and is changed by each."
    if isinstance(branch, Convolution):
        return "Each place is mixed with its neighbours."
    return "Operations without a common name."


def tell_entrance(tower: Tower) -> str:
    """What goes in."""
    parts = {part.part for part in tower.entrance}
    patches = ", one for each patch" if "patches" in parts else ""
    first = {
        "ids": "Ids become vectors.",
        "image": f"An image becomes vectors{patches}.",
        "audio": "A signal becomes vectors.",
        "vectors": "Vectors come in.",
    }.get(tower.reads or "", "What goes in.")
    return first + (" Learned places are added." if "positions" in parts else "")
