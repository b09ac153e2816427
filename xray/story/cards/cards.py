"""What is said around the frames: title, sizes, sentences, stations, legend, formulas, masks, parameters."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xray.ir.trace import Trace
from xray.story.anatomy.tree import Anatomy, Attention, Convolution, Experts, FeedForward, Recurrence, Tower
from xray.story.canvas import Canvas, words
from xray.story.cards.costs import list_costs
from xray.story.cards.rank_card import RankCard
from xray.story.cards.sentences import list_sentences
from xray.story.charts.chart import Chart, Node
from xray.story.charts.stage_chart import name_branch
from xray.story.facts.exchanges import add_exchanges
from xray.story.facts.totals import count_params, is_backward
from xray.story.layout import Cells, Line, Measure, Run, line_width
from xray.story.mask_cards import MaskCard, draw_masks
from xray.story.recognition.operation_kinds import LOSSES
from xray.story.shapes import digits, hue, read_shape
from xray.story.sheet.frames import Frame, spell_layers
from xray.story.sheet.placing import Look, draw_station
from xray.story.sheet.tooltip import describe
from xray.story.sheet.words import Words
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import fit_text, wrap

FIRST, SECOND, TITLE = "X-RAY", "TRANSFORMER", 78
CREDIT = "after the X-Ray Transformer infographic by Javier Ideami, losslandscape.com"
AIR, MOST_AIR, NAME, SMALLEST_TITLE = 16.0, 80.0, 20, 52
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
    roles: tuple[str, ...] = ("forward",)
    has_masks_beside: bool = False
    goes_back: bool = False
    marked: str = ""

    def parts(self) -> list[Draw]:
        """The cards from the top down."""
        first = [self.title, self.sentences, self.reading, self.legend]
        return [*first, self.pattern, self.formulas, self.masks, self.ranks, self.parameters, self.costs]

    def title(self, canvas: Canvas, top: float) -> float:
        """Title, the model's name, what was recorded, and its sizes."""
        y = self.draw_name(canvas, top)
        if self.trace.title.upper() != f"{FIRST} {SECOND}":
            name = fit_text(self.trace.title, NAME, self.width, canvas.measure, "bold")
            y = canvas.note(self.left, y, (words(name, NAME, "accent:title", "bold"),)).bottom - 2
        y = canvas.note(self.left, y, self.credits(canvas.measure, self.width)).bottom - 8
        for line in self.size_lines(canvas):
            y = canvas.note(self.left, y, (line,)).bottom - 2
        return y

    def credits(self, measure: Measure, width: float) -> tuple[Line, ...]:
        """What was recorded, and after whose picture it is drawn."""
        lines = [words(line, LABEL) for line in wrap(self.subtitle(), LABEL, width, measure)]
        return (*lines, *(words(line, NOTE, "quiet") for line in wrap(CREDIT, NOTE, width, measure)))

    def draw_name(self, canvas: Canvas, top: float) -> float:
        """The title itself, on one line where it is wide; gives the height below it."""
        whole = canvas.text_width(f"{FIRST} {SECOND}", 100, "black") / 100
        if self.width / whole > SMALLEST_TITLE:
            size = int(min(TITLE, self.width / whole))
            canvas.note(self.left - 2, top, (words(FIRST, size, "text", "black"),))
            start = self.left - 2 + canvas.text_width(FIRST + " ", size, "black")
            canvas.note(start, top, (words(SECOND, size, "accent:title", "black"),))
            return top - size * 1.12 - 4
        size = int(min(TITLE, self.width / (canvas.text_width(SECOND, 100, "black") / 100)))
        canvas.note(self.left - 2, top, (words(FIRST, size, "text", "black"),))
        canvas.note(self.left - 2, top - size, (words(SECOND, size, "accent:title", "black"),))
        return top - size * 2.12 - 4

    def subtitle(self) -> str:
        """What was recorded."""
        passes = self.trace.passes
        if set(self.roles) <= {"training", "inference"}:
            step = (
                "one training step" if self.goes_back else f"one forward pass{' and its loss' if self.has_loss else ''}"
            )
            told = {"training": step, "inference": "one greedy answer"}
            return f"Every tensor of {' and '.join(told[role] for role in self.roles)}, recorded by hooks."
        trained = sum(any(is_backward(step) for step in one.steps) for one in passes)
        if trained:
            recorded = "one training step" if len(passes) == 1 else f"{len(passes)} passes, {trained} of them sent back"
        elif len(passes) == 1:
            recorded = "one forward pass and its loss" if self.has_loss else "one forward pass"
        else:
            recorded = f"{len(passes)} forward passes"
        return f"Every tensor of {recorded}, recorded."

    @property
    def has_loss(self) -> bool:
        """Whether a loss was worked out, or tried."""
        losses = (step for step in self.trace.steps if step.op in LOSSES)
        return any(losses) or any(record.role == "loss" for step in self.trace.steps for record in step.outputs)

    def size_lines(self, canvas: Canvas) -> list[Line]:
        """The sizes of every tower, and the parameters of it all."""
        rows: list[list[tuple[str, str, str]]] = []
        for tower, _, _ in self.frames:
            pairs = [("", "other", tower.name)] if len(self.frames) > 1 else []
            pairs += list_sizes(tower)
            rows.append(pairs)
        ends = rows.pop() if self.roles != ("forward",) else []
        batch = self.trace.sizes.get("batch")
        if batch and self.roles != ("forward",):
            ends.append(("batch", "batch", f"{batch:,}"))
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
        failed = {step.path for step in self.trace.steps if step.error is not None}
        untold = [one for one in self.anatomy.untold if one.params and one.path not in failed]
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
        """What colours, lines and outlines mean, those that occur; beside them the cells, where masks are drawn."""
        entries = self.legend_entries()
        letters = self.mask_letters() if self.has_masks_beside else []

        def draw(y: float) -> float:
            start = y
            for kind, role, text in entries:
                draw_swatch(canvas, kind, role, self.left + 14, y)
                canvas.note(self.left + 48, y, (words(text, NOTE),), "card")
                y -= 17.5
            if letters:
                x = self.left + 48 + max(canvas.text_width(text, NOTE) for _, _, text in entries) + 18
                y = min(y, self.draw_letters(canvas, x, start, letters))
            return self.draw_axes(canvas, y)

        return self.card(canvas, top, "COLOURS", draw)

    def legend_entries(self) -> list[tuple[str, str, str]]:
        """What is told of colours: how it is shown, the role, and what it means."""
        nodes = list(self.nodes())
        entries: list[tuple[str, str, str]] = []
        for tower, _, look in self.frames:
            if all(role != look.own for _, role, _ in entries):
                alone = len({one.own for _, _, one in self.frames}) == len(self.frames)
                entries.append(("fill", look.own, f"made by the {tower.name}" if alone else "made by a tower"))
        if any(node.surface == "mask" for node in nodes):
            entries.append(("fill", "mask", "a mask is applied"))
        if any(node.surface == "memory" for node in nodes):
            entries.append(("line", "ribbon", "memory: keys and values"))
        entries += [("line", role, f"{role} path") for role in self.roles if role != "forward"]
        entries.append(("outline", "boundary", "enters or leaves a layer"))
        if self.marked:
            told = {"change": "changed", "failure": "failed", "alarm": "an alarm"}[self.marked]
            entries.append(("outline", "change" if self.marked == "change" else "failure", told))
        return entries

    def mask_letters(self) -> list[tuple[str, str]]:
        """The cells of masks that occur, and what they mean."""
        told = {".": "may be read", "p": "padding, hidden", "f": "the future, hidden", "b": "padding and future"}
        masks = {record.mask for step in self.trace.steps for record in step.inputs if record.mask is not None}
        seen = {letter for mask in masks for matrix in mask.cells or () for row in matrix for letter in row}
        return [(letter, text) for letter, text in told.items() if letter in seen]

    def draw_letters(self, canvas: Canvas, x: float, y: float, letters: Sequence[tuple[str, str]]) -> float:
        """What the cells of a mask mean, beside the colours."""
        heading = fit_text("ROW = QUERY, COLUMN = KEY", NOTE, self.left + self.width - 6 - x, canvas.measure, "bold")
        canvas.note(x, y + 19, (words(heading, NOTE, "accent:title", "bold"),), "card")
        for letter, text in letters:
            canvas.cells.append(Cells(f"legend_{letter}", x, y, 12, ((letter,),), "legend"))
            canvas.note(x + 20, y, (words(text, NOTE),), "card")
            y -= 17.5
        notes: list[Line] = [(Run("1", LABEL, "axis:other", "bold"), Run("  in a mask: broadcast", NOTE))]
        if "inference" in self.roles:
            notes.append((Run("t", LABEL, "axis:tgt_len", "bold"), Run("  the turn: 1, 2, 3 …", NOTE)))
        return canvas.note(x, y, tuple(notes), "card").bottom

    def draw_axes(self, canvas: Canvas, y: float) -> float:
        """The axis words that occur, each in the hue that its digits have everywhere."""
        seen = dict.fromkeys(
            axis for node in self.nodes() if node.record for axis in node.record.axes if axis not in ("", "1")
        )
        line: Line = ()
        for axis in seen:
            piece = Run(axis + "   ", NOTE, hue(axis), "semibold")
            if line and line_width((*line, piece), canvas.measure) > self.width - 28:
                y = canvas.note(self.left + 14, y - 2, (line,), "card").bottom
                line = ()
            line = (*line, piece)
        return canvas.note(self.left + 14, y - 2, (line,), "card").bottom if line else y

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
                        if self.has_masks_beside:
                            lines += [
                                ("split into heads: no number changes", line) for line in split_formulas(panel.chart)
                            ]
        if not lines:
            return top

        def draw(y: float) -> float:
            x, low = self.left + 14, y
            for name, line in lines:
                block = (words(name, NOTE, "quiet"), line)
                wide = max(canvas.text_width(name, NOTE), line_width(line, canvas.measure))
                if x > self.left + 14 and (not self.has_masks_beside or x + wide > self.left + self.width - 10):
                    x, y = self.left + 14, low
                box = canvas.note(x, y, block, "card")
                x, low = x + wide + 18, box.bottom - 5
            return low

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

    def ranks(self, canvas: Canvas, top: float) -> float:
        """What one rank of many holds and exchanges, where the model was divided."""
        if not add_exchanges(self.trace) and "mesh" not in self.trace.config:
            return top
        card = RankCard(self.trace, self.left, self.width)
        return self.card(canvas, top, card.title, lambda y: card.draw(canvas, y))

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

    def costs(self, canvas: Canvas, top: float) -> float:
        """What the run costs, as far as its steps prove it."""
        rows = list(list_costs(self.trace, self.anatomy.active_params))
        left = self.left + 28 + max((canvas.text_width(name, NOTE) for name, _ in rows), default=0.0)

        def draw(y: float) -> float:
            for name, told in rows:
                text = fit_text(told, NOTE, self.left + self.width - 14 - left, canvas.measure)
                canvas.note(self.left + 14, y, (words(name, NOTE, "quiet"),), "card")
                canvas.note(left, y, (words(text, NOTE, "text", "semibold"),), "card")
                y -= 17
            return y

        return self.card(canvas, top, "WHAT IT COSTS", draw) if rows else top


def draw_swatch(canvas: Canvas, kind: str, role: str, left: float, top: float) -> None:
    """A sample of a colour, a line or an outline."""
    middle = top - 6.5
    if kind == "line":
        ends, dashed = ((left, middle), (left + 26, middle)), role == "inference"
        canvas.line(*ends, role=role, width=3, dashed=dashed, kind="legend", head_size=0.5 if dashed else 0.6)
    elif kind == "outline":
        canvas.panel(left + 1, middle - 5, left + 25, middle + 5, "card", 4, role, 2.2)
    else:
        canvas.panel(left, middle - 6, left + 26, middle + 6, role, 4)


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


def split_formulas(chart: Chart) -> Iterator[Line]:
    """The way of the queries from the width of the stream to heads, as the recorded steps take it."""
    node = next((one for one in chart.nodes if one.key == "heads0_q" and len(one.steps) > 1), None)
    if node is not None:
        blocks = {step.parent for step in node.steps}
        moves = tuple(step for step in reversed(node.steps) if step.inputs and step.outputs and step.id not in blocks)
        line: Line = digits(read_shape([(0, moves[0].inputs[0])]), LABEL)
        for step in moves:
            line = (*line, Run(f" {step.op} → ", NOTE, "quiet"), *digits(read_shape([(0, step.outputs[0])]), LABEL))
        yield line


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


def describe_station(tower: Tower, branch: object) -> str:
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


def describe_entrance(tower: Tower, reads: Sequence[Words] = ()) -> str:
    """What goes in; `reads` are the words of every phase."""
    parts = {part.part: part for part in tower.entrance}
    if reads:
        return describe_words(reads, "positions" in parts)
    patches = ", one for each patch" if "patches" in parts else ""
    first = {
        "ids": "Ids become vectors.",
        "image": f"An image becomes vectors{patches}.",
        "audio": "A signal becomes vectors.",
        "vectors": "Vectors come in.",
    }.get(tower.reads or "", "What goes in.")
    if "positions" not in parts:
        return first
    return first + (" Learned places are added." if parts["positions"].learned else " Places are added.")


def describe_words(reads: Sequence[Words], has_places: bool) -> str:
    """What goes in where words were recorded."""
    first = reads[0]
    if first.shift is not None:
        return "Answers shifted by one: read a word, say the next."
    if first.is_answer:
        start = first.read_in(first.first)
        return f"The answer starts with {' '.join(start)}, grows by one each turn."
    places = "; places are added" if has_places else ""
    if first.first.kind == "encode":
        return f"The question: ids, vectors{', places' if has_places else ''}; read once."
    return f"Words become ids, ids vectors{places}."
