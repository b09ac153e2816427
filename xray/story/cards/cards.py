"""The cards of a sheet, from the top down."""

from collections.abc import Callable
from dataclasses import replace

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.wording import counts_whole_table, name_active
from xray.story.canvas import Canvas, words
from xray.story.cards.costs import list_costs
from xray.story.cards.formulas import draw_formulas
from xray.story.cards.legend import draw_legend
from xray.story.cards.masks import draw_mask_cards
from xray.story.cards.parameters import draw_parameters
from xray.story.cards.pattern import draw_pattern
from xray.story.cards.rank_card import RankCard
from xray.story.cards.reading import draw_reading
from xray.story.cards.title import draw_title
from xray.story.cards.told import Told, draw_bullets, draw_card
from xray.story.facts.exchanges import add_exchanges
from xray.story.sentences.of_models import LEFT_OUT, UNSAID, list_sentences
from xray.story.sentences.of_runs import EXCHANGED
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text

AIR, MOST_AIR = 16.0, 80.0
Draw = Callable[[Told, Canvas, float], float]
"""Draws a card below a height; gives the height that is left below it."""


def draw_sentences(told: Told, canvas: Canvas, top: float) -> float:
    """What this model does its own way."""
    failed = {step.path for step in told.trace.steps if step.error is not None}
    untold = tuple(one for one in told.anatomy.untold if one.path not in failed)
    left = [EXCHANGED.tell(told.trace), LEFT_OUT.tell(told.list_left_out()), UNSAID.tell(told.unsaid)]
    said = (*list_sentences(replace(told.anatomy, untold=untold)), *filter(None, left))
    if not said:
        return top
    return draw_card(
        told, canvas, top, "WHAT THIS MODEL DOES ITS OWN WAY", lambda y: draw_bullets(told, canvas, y, said)
    )


def draw_ranks(told: Told, canvas: Canvas, top: float) -> float:
    """What one rank of many holds and exchanges, where the model was divided."""
    if not add_exchanges(told.trace) and "mesh" not in told.trace.config:
        return top
    card = RankCard(told.trace, told.left, told.width)
    return draw_card(told, canvas, top, card.title, lambda y: card.draw(canvas, y))


def draw_costs(told: Told, canvas: Canvas, top: float) -> float:
    """What the run costs, as far as its steps prove it."""
    looks = [one for tower in told.anatomy.towers for one in tower.branches if isinstance(one, Attention)]
    has_windows = any(one.causal and (one.window or one.sliding_window or one.kept_last) for one in looks)
    rows = list(
        list_costs(
            told.trace,
            told.anatomy.active_params,
            name_active(told.anatomy),
            has_windows=has_windows,
            has_whole_table=counts_whole_table(told.anatomy),
        )
    )
    left = told.left + 28 + max((canvas.text_width(name, NOTE) for name, _ in rows), default=0.0)

    def draw(y: float) -> float:
        for name, text in rows:
            text = fit_text(text, NOTE, told.left + told.width - 14 - left, canvas.measure)
            canvas.note(told.left + 14, y, (words(name, NOTE, "quiet"),), "card")
            canvas.note(left, y, (words(text, NOTE, "text", "semibold"),), "card")
            y -= 17
        return y

    return draw_card(told, canvas, top, "WHAT IT COSTS", draw) if rows else top


CARDS: tuple[Draw, ...] = (
    draw_title,
    draw_sentences,
    draw_reading,
    draw_legend,
    draw_pattern,
    draw_formulas,
    draw_mask_cards,
    draw_ranks,
    draw_parameters,
    draw_costs,
)
