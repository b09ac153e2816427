"""The terminal tables of a trace: every step with its shapes, axis names, mask and parameters, station by station."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from xray.ir.trace import Pass, Trace
from xray.renderers.table.alarms import draw_alarms
from xray.renderers.table.heads import (
    draw_head,
    draw_like_passes,
    draw_masks_band,
    draw_pass_head,
    draw_pick,
    draw_section_band,
    draw_turns_band,
)
from xray.renderers.table.masks import draw_legend, draw_mask
from xray.renderers.table.steps import choose_columns, draw_headings, draw_rows
from xray.renderers.table.totals import draw_totals
from xray.renderers.table.turns import draw_turns
from xray.renderers.table.words import ASCII, UNICODE, Depth, Words, flow
from xray.renderers.themes import Theme, load_theme
from xray.story.facts.masks import list_masks
from xray.story.facts.outline import group_passes, outline_pass
from xray.story.facts.selection import Pick, pick_steps
from xray.story.roles.listing import list_roles
from xray.story.walk.turns import list_turns, masks_grow, unlike_turns

NARROWEST = 20
"""Narrower screens get what fits this one."""


def draw_tables(
    trace: Trace,
    *,
    width: int = 100,
    colour: bool | Depth = False,
    all_layers: bool = False,
    theme: Theme | None = None,
    ascii_only: bool = False,
    pick: Pick | None = None,
) -> str:
    """The tables as text, `width` cells wide: with colours as escape codes, or plain and without trailing blanks.

    `colour` is on in as many colours as a terminal has: "standard" is 16 of them, and True is "truecolor".
    `all_layers` shows every layer, also those that are alike, and every sequence's mask. `ascii_only` is for terminals
    that know no other characters. With a `pick` only the steps that it chooses stand in the tables; the totals are
    still those of the whole trace.
    """
    depth: Depth = colour if isinstance(colour, str) else "truecolor"
    screen = StringIO()
    console = Console(
        file=screen,
        width=max(NARROWEST, width),
        color_system="truecolor" if colour else None,
        no_color=not colour,
        force_terminal=False,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(
        TraceTables(trace, all_layers=all_layers, theme=theme, ascii_only=ascii_only, depth=depth, pick=pick or Pick())
    )
    text = screen.getvalue()
    return text if colour else "".join(line.rstrip() + "\n" for line in text.removesuffix("\n").split("\n"))


@dataclass(frozen=True)
class TraceTables:
    """The tables as something that a rich console prints, in the width, colours and characters that it has."""

    trace: Trace
    all_layers: bool = False
    theme: Theme | None = None
    ascii_only: bool = False
    depth: Depth = "truecolor"
    pick: Pick = field(default_factory=Pick)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = Words(
            self.theme or load_theme(), ASCII if self.ascii_only or options.ascii_only else UNICODE, self.depth
        )
        width = max(NARROWEST, options.max_width) - 2
        page = words.surface("page")
        for part in self.draw_parts(words, width):
            for line in lay_lines(part, page, console, options.update(width=width)):
                yield from (Segment(" ", page), *line, Segment(" ", page), Segment.line())

    def draw_parts(self, words: Words, width: int) -> Iterator[RenderableType]:
        """Everything from the title to the totals, in order.

        Of decoding, the first turn is shown in full, and after it only turns that did other operations.
        """
        yield from draw_head(self.trace, words, width)
        if self.pick:
            yield from draw_pick(self.trace, self.pick, words, width)
        yield from draw_alarms(self.trace, self.pick, words, width)
        turns, roles = list_turns(self.trace), list_roles(self.trace)
        decode = self.trace.passes_of("decode")
        in_full = (*decode[:1], *unlike_turns(self.trace))
        for group in group_passes(self.trace.passes):
            one_pass = group[0]
            if one_pass.kind == "decode" and one_pass not in in_full:
                continue
            if self.pick and not pick_steps(one_pass, self.pick):
                continue
            yield Text()
            told = roles.get(one_pass.key, {})
            yield from self.draw_steps(one_pass, told, len(turns), words, width)
            if (one_pass.kind != "decode" or len(turns) == 1) and not self.pick:
                yield from self.draw_masks(one_pass, words, width, "masks")
            if len(group) > 1:
                yield Text()
                yield from draw_like_passes(group[1:], one_pass, words, width)
        if len(turns) > 1 and not self.pick:
            yield Text()
            yield draw_turns_band(len(turns), words, width)
            yield from draw_turns(turns, words, width)
            yield from self.draw_masks(decode[-1], words, width, "masks of the last turn")
            if masks_grow(turns):
                yield from flow(words.sentence("Turn t has the first t rows and columns of this mask."), width)
        yield Text()
        yield from draw_totals(self.trace, words, width)

    def draw_steps(
        self, one_pass: Pass, roles: Mapping[str, str], turns: int, words: Words, width: int
    ) -> Iterator[RenderableType]:
        """The step tables of one pass, a band above each station's."""
        sections = outline_pass(one_pass, all_layers=self.all_layers, pick=self.pick, roles=roles)
        folded = any(section.fold is not None and section.fold.count > 1 for section in sections)
        shown = len(pick_steps(one_pass, self.pick)) if self.pick else None
        yield from draw_pass_head(one_pass, turns, folded, words, width, shown=shown)
        yield Text()
        columns = choose_columns(sections, words, width)
        yield from draw_headings(columns, words)
        for section in sections:
            yield draw_section_band(section, words, width)
            yield from draw_rows(section, columns, words)

    def draw_masks(self, one_pass: Pass, words: Words, width: int, title: str) -> Iterator[RenderableType]:
        """The masks that attention read in one pass, under their legend."""
        stories = list_masks(one_pass)
        if stories:
            yield Text()
            yield draw_masks_band(title, words, width)
            yield from draw_legend(stories, words, width)
        for story in stories:
            yield Text()
            yield from draw_mask(story, words, width, everything=self.all_layers)


def lay_lines(part: RenderableType, page: Style, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    """A part as lines of the full width on the ground of the page.

    A line of text that has it already, as those of many thousand steps have, is spared rich's wrapping and cutting.
    """
    if isinstance(part, Text) and part.no_wrap and part.cell_len == options.max_width:
        return [[*Segment.apply_style(part.render(console), page)]]
    return console.render_lines(part, options, style=page)
