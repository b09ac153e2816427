"""What stands above the step tables: the title with its sizes, the bands of passes and stations."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from xray.ir.trace import Pass, Setting, Trace
from xray.ir.work import StepWork
from xray.renderers.table.words import Words, flow
from xray.story.facts.outline import Section
from xray.story.facts.selection import Pick, add_up_picked, pick_steps
from xray.story.facts.settings import changed_settings
from xray.story.sentences.of_runs import describe_savings
from xray.story.wording import spell_layers
from xray.text import say_short

BOLD = Style(bold=True)
PASS_TITLES = {
    "training": "training step",
    "encode": "inference: the question",
    "decode": "inference: turn",
    "forward": "forward pass",
}
PASS_SENTENCES = {
    "training": "All pairs of the batch at once.",
    "encode": "The question goes through the encoder once; every turn looks back at what came out.",
    "decode": "The decoder reads the answer so far and says the next word.",
    "forward": "",
}
PASS_SURFACES = {"training": "training", "encode": "inference", "decode": "inference", "forward": "station"}


def draw_head(trace: Trace, words: Words, width: int) -> Iterator[RenderableType]:
    """The title, what the trace is of, its sizes in the hues of their axes, and the settings not at default."""
    yield from flow([words.accent(part, "title", bold=True) for part in trace.title.split()], width)
    yield from flow([words.plain(word) for part in describe_trace(trace) for word in part.split()], width)
    yield from flow([size_words(name, size, words) for name, size in trace.sizes.items()], width)
    yield from settings_lines(trace, words, width)
    saved = describe_savings(trace)
    if saved:
        yield from flow(words.sentence(f"With the key-value cache. {saved}"), width)
    yield from dialogue_lines(trace, words, width)


def describe_trace(trace: Trace) -> Iterator[str]:
    """The phase, whether the weights are trained, and where it ran, as short sentences."""
    kinds = {one_pass.kind for one_pass in trace.passes}
    phases = {"training": "training", "encode": "inference", "decode": "inference", "forward": "one forward pass"}
    named = dict.fromkeys(phases[kind] for kind in phases if kind in kinds)
    yield " and ".join(named).capitalize() + "." if named else "No pass."
    trained, run = trace.config.get("trained"), trace.config.get("run")
    if trained is not None:
        yield f"Trained{f', run {run}' if run else ''}." if trained else "Untrained: random weights, exact shapes."
    where = [str(trace.config[name]) for name in ("device", "torch") if trace.config.get(name)]
    if where:
        yield "On " + " with torch ".join(where) + "."


def size_words(name: str, size: int, words: Words) -> Text:
    """A size as `d_model 32` in its axis's hue, to be kept on one line."""
    return Text.assemble((words.clean(name), words.axis(name)), " ", (f"{size:,}", words.axis(name) + BOLD), "  ")


def settings_lines(trace: Trace, words: Words, width: int) -> tuple[Text, ...]:
    """The settings that are not the default, each with the default beside it."""
    if "trained" not in trace.config:
        return ()
    changed = changed_settings(trace)
    if not changed:
        return flow([words.quiet("All settings are at their defaults.")], width)
    pieces = [words.accent("Not the default:", "warning")]
    for setting in changed:
        end = "" if setting is changed[-1] else ";"
        pieces += [words.strong(setting.name), words.strong(say_setting(setting.value))]
        pieces += words.sentence(f"(default {say_setting(setting.default)}){end}")
    return flow(pieces, width)


def dialogue_lines(trace: Trace, words: Words, width: int) -> Iterator[Text]:
    """The question that was asked and the answer that came, where there was one."""
    for name in ("question", "answer"):
        said = trace.config.get(name)
        if said and trace.passes_of("encode", "decode"):
            yield words.quiet(f"{name:9}") + Text(words.word(str(said), max(4, width - 9)), no_wrap=True)


def say_setting(value: Setting) -> str:
    """A setting's value in words."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def draw_pick(trace: Trace, pick: Pick, words: Words, width: int) -> Iterator[RenderableType]:
    """What was chosen to be shown, how many steps that are, and what they come to."""
    chosen = sum(len(pick_steps(one_pass, pick)) for one_pass in trace.passes)
    work = sum((add_up_picked(one_pass, pick) for one_pass in trace.passes), StepWork())
    counts = f"{chosen:,} of {sum(1 for _ in trace.steps):,} steps, {say_short(work.flops)} FLOPs,"
    made = f"{say_short(work.bytes, 'B')} made."
    pieces = [words.accent("Only", "warning"), *[words.strong(part) for part in pick.words.split()]]
    yield from flow([*pieces, *words.sentence(f"are shown: {counts} {made}")], width)


def draw_pass_head(
    one_pass: Pass, turns: int, folded: bool, words: Words, width: int, *, shown: int | None = None
) -> Iterator[RenderableType]:
    """The band that a pass begins with, and a line on what happens in it and how it is shown.

    `shown` is how many of its steps were chosen, where some were left out.
    """
    title = PASS_TITLES[one_pass.kind]
    if one_pass.kind == "decode":
        title = f"{title} {one_pass.number} of {turns}"
    elif one_pass.number:
        title = f"{title} {one_pass.number}"
    left = Text(f" {title.upper()}", no_wrap=True)
    some = "" if shown is None else f"{shown:,} of "
    right = Text(f"{some}{len(one_pass.steps):,} steps ", no_wrap=True)
    yield draw_band(left, right, PASS_SURFACES[one_pass.kind], words, width, strong=True)
    sentences = [
        PASS_SENTENCES[one_pass.kind],
        "Steps are numbered as they ran" + ("; layers that are alike are shown once." if folded else "."),
    ]
    yield from flow(words.sentence(" ".join(sentences)), width)


def draw_like_passes(like: Sequence[Pass], model: Pass, words: Words, width: int) -> Iterator[RenderableType]:
    """One band for passes that did what another one did, operation for operation."""
    numbers = [one.number for one in like]
    named = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 2 and is_run(numbers) else ", ".join(map(str, numbers))
    left = Text(f" {PASS_TITLES[model.kind]} {named}".upper(), no_wrap=True)
    right = Text(f"the operations of pass {model.number} ", no_wrap=True)
    yield draw_band(left, right, PASS_SURFACES[model.kind], words, width, strong=True)
    grown = any(shapes_of(one) != shapes_of(model) for one in like)
    sentence = "only sizes differ" if grown else "the sizes are the same too"
    yield from flow(words.sentence(f"The same operations in the same order; {sentence}."), width)


def shapes_of(one_pass: Pass) -> tuple[tuple[int, ...], ...]:
    """The shapes that the steps inside a pass's modules made."""
    return tuple(record.shape for step in one_pass.steps if step.parent is not None for record in step.outputs)


def draw_turns_band(turns: int, words: Words, width: int) -> RenderableType:
    """The band over the table of all turns."""
    return draw_band(
        Text(f" INFERENCE: ALL {turns} TURNS"), Text("one word more in each "), "inference", words, width, strong=True
    )


def draw_masks_band(title: str, words: Words, width: int) -> RenderableType:
    """The band over the masks of a pass."""
    return draw_band(Text(f" {title}", BOLD), Text(), "mask", words, width)


def draw_section_band(section: Section, words: Words, width: int) -> RenderableType:
    """The band of one station: its number, its title, and how many layers it stands for."""
    station = section.station
    if station is None:
        stack = section.fold.stack if section.fold is not None else "steps"
        left, surface = Text(f" {words.clean(stack or 'layers')}"), "card"
    else:
        pill = (f" {station.number} ", words.surface("station") + BOLD)
        left, surface = Text.assemble(pill, (f" {station.title}", BOLD)), station.side
    return draw_band(left, layers_words(section, words), surface, words, width)


def layers_words(section: Section, words: Words) -> Text:
    """Which layers the section stands for: `× 3 layers 0 to 2 alike`, or `layer 1`."""
    told = say_layers(section, words.signs.times)
    count, gap, rest = told.partition("  ")
    return Text.assemble((count, BOLD), gap, f"{rest} ") if gap else Text(f"{told} " if told else "")


def say_layers(section: Section, times: str) -> str:
    """Which layers the section stands for, as a text; nothing where it is of no layer."""
    fold = section.fold
    if fold is None:
        return ""
    if fold.count == 1:
        return f"layer {fold.first}"
    many = fold.count > 2 and is_run(fold.layers)
    told = " and ".join(map(str, fold.layers)) if fold.count == 2 else spell_layers([one - 1 for one in fold.layers])
    numbers = f"{fold.first} to {fold.layers[-1]}" if many else told
    return f"{times} {fold.count}  layers {numbers} are alike"


def is_run(numbers: Sequence[int]) -> bool:
    """Whether each number is one more than the one before."""
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))


def draw_band(
    left: Text, right: Text, surface: str, words: Words, width: int, *, strong: bool = False
) -> RenderableType:
    """A line across the whole width in a surface's colours, a rule between its two ends.

    The rule has the colour of the surface, so it is seen only where there are no colours.
    """
    if left.cell_len + right.cell_len + 2 > width:
        right = Text()
    if left.cell_len > width - 2:
        left = left.copy()
        left.truncate(width - 2 - len(words.signs.more), overflow="crop")
        left.append(words.signs.more)
    fill = words.theme.surfaces[surface].fill
    rule = words.signs.heavy if strong else words.signs.rule
    between = width - left.cell_len - right.cell_len - 2
    line = Text.assemble(left, " ", (rule * between, words.style(fill)), " ", right, no_wrap=True)
    line.style = words.surface(surface) + (BOLD if strong else Style())
    return line
