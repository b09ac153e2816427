"""The squares of queries and keys that attention sees, and what is wrong with their form."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.projections import is_product
from xray.story.alarms.arguments import given_values, list_given, list_masks
from xray.story.alarms.bench import Bench, mark_hidden
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.alarms.reach import block_of, name_alike
from xray.story.recognition.values.value_shapes import Values

LONGEST_STEP = 2
"""A triangle that is off by more than this is meant."""
MOST_BEHIND = 200


@dataclass(frozen=True)
class Square:
    """What one attention sees: 1 where a key is hidden from a query, NaN where that is not known.

    `cells` are as the values given make them, `free` as if no key were padding.
    """

    site: Site
    cells: Values | None
    free: Values | None

    @property
    def is_square(self) -> bool:
        """Whether there are as many queries as keys, at least three."""
        shape = () if self.free is None else self.free.shape
        return len(shape) > 1 and shape[-1] == shape[-2] > 2


def read_squares(flow: Flow, sites: Sequence[Site]) -> tuple[Square, ...]:
    """The squares of all attentions of a pass in which any place looks at any."""
    real = Bench(flow, given_values(flow))
    keeps: dict[str, tuple[int, ...]] = {}
    puts: dict[int, Values] = {}
    changed: set[int] = set()
    for mask in list_masks(flow):
        if mask.is_for_keys and mask.keep is not None:
            puts |= dict.fromkeys(mask.places, np.full(mask.shape, mask.keep))
            changed |= set(flow.ahead(*mask.readers))
    for name, record in list_given(flow.one_pass).items():
        if len(record.shape) == 2 and name.endswith("mask") and "float" not in record.dtype:
            keeps[name] = record.shape
            readers = [p for p in range(len(flow.steps)) if any(r.given == name for r in flow.steps[p].inputs)]
            changed |= set(flow.ahead(*(p for p in readers if flow.is_leaf(p))))
    others = {name: one for name, one in given_values(flow).items() if name not in keeps}
    benches = [
        Bench(flow, {**others, **{name: np.full(shape, value) for name, shape in keeps.items()}}, puts, changed)
        for value in (1.0, 0.0)
    ]
    found = []
    for site in (one for one in sites if prod(flow.output(one.scores).shape)):
        cells = real.add_to_scores(site)
        frees = [bench.add_to_scores(site) for bench in (benches if keeps else benches[:1])]
        hidden = [mark_hidden(one) for one in frees if one is not None]
        free = min(hidden, key=lambda one: float(np.nan_to_num(one, nan=0.5).sum())) if hidden else None
        found.append(Square(site, None if cells is None else mark_hidden(cells), free))
    return tuple(found)


def check_form(flow: Flow, squares: Sequence[Square]) -> Iterator[Alarm]:
    """The alarms that follow from the form of squares: triangles turned round or off by one, layers that see ahead."""
    groups: dict[tuple[str, str, int], list[Square]] = defaultdict(list)
    for square in squares:
        if square.site.kind != "self" or not square.is_square or square.free is None:
            continue
        groups[name_alike(flow, square.site)].append(square)
    shifted = finds_next_word(flow)
    seen = [(one.site, see_ahead(one.free)) for alike in groups.values() for one in alike if one.free is not None]
    looks_back, opened = any(ahead is False for _, ahead in seen), [site for site, ahead in seen if ahead is True]
    for alike in groups.values():
        verdicts = [see_ahead(square.free) for square in alike if square.free is not None]
        for number, (square, ahead) in enumerate(zip(alike, verdicts, strict=True)):
            alarm = find_triangle(flow, square, looks_back=looks_back) or (
                find_open(flow, square.site, verdicts, number, opened, shifted) if ahead is True else None
            )
            if alarm is None and square.free is not None and shifted is not None and sees_next(square.free):
                alarm = find_leak(flow, square.site, shifted)
            if alarm is not None:
                yield alarm
                break


def see_ahead(square: Values) -> bool | None:
    """Whether all queries see all keys behind them, or none does; None for all else: none sees those before it."""
    length = square.shape[-1]
    future = square[..., np.triu(np.ones((length, length), dtype=bool), 1)]
    past = square[..., np.tril(np.ones((length, length), dtype=bool), -1)]
    if np.isnan(future).any() or past.all():
        return None
    return True if not future.any() else False if future.all() else None


def sees_next(square: Values) -> bool:
    """Whether every query sees the key behind it."""
    return bool((np.diagonal(square, 1, -2, -1) == 0).all())


def find_leak(flow: Flow, site: Site, shifted: str) -> Alarm | None:
    """An attention that sees the next word, before a loss that asks for it."""
    if not is_before(flow, site, shifted):
        return None
    text = (
        f"The loss asks each place for the next word, and each query of the scores {flow.output(site.scores).shape} in "
        f"{block_of(flow, site).path} sees that word's place already."
    )
    return alarm_at(flow.one_pass, flow.steps[joint(flow, site)], "future", text)


def find_triangle(flow: Flow, square: Square, *, looks_back: bool) -> Alarm | None:
    """A triangle that lets each query see the next key too, or is turned round where no other attention looks back.

    Beside one that looks back it is meant: both directions are read (DiSAN).
    """
    free, site = square.free, square.site
    if free is None or np.isnan(free).any():
        return None
    length = free.shape[-1]
    flat = free.reshape(-1, length, length)
    lower = np.tril(np.ones((length, length), dtype=bool))
    scores = flow.output(site.scores).shape
    step = flow.steps[joint(flow, site)]
    if not looks_back and flat[:, np.tril(lower, -1)].all() and not flat[:, ~lower].any():
        text = (
            f"Each query of the scores {scores} sees the keys behind it and none before it: the triangle is turned "
            "round."
        )
        return alarm_at(flow.one_pass, step, "inverted", text)
    if flat[:, ~lower].any() and not flat[:, lower].any():
        for ahead in range(1, min(LONGEST_STEP, length - 2) + 1):
            future = np.triu(np.ones((length, length), dtype=bool), 1 + ahead)
            if flat[:, future].all() and not flat[:, ~future].any():
                keys = "the next key" if ahead == 1 else f"the next {ahead} keys"
                text = f"Each query of the scores {scores} also sees {keys}: the triangle begins {ahead} too late."
                return alarm_at(flow.one_pass, step, "future", text)
    return None


def find_open(
    flow: Flow, site: Site, verdicts: Sequence[bool | None], number: int, opened: Sequence[Site], shifted: str | None
) -> Alarm | None:
    """An attention that sees all that comes, in a model that must not; all that do so are `opened`."""
    step = flow.steps[joint(flow, site)]
    block = block_of(flow, site)
    scores = flow.output(site.scores).shape
    others = [one for place, one in enumerate(verdicts) if place != number]
    if any(one is False for one in others):
        hiding = sum(one is False for one in others)
        which = f"{hiding} of the {len(others)} attentions" if len(others) > 1 else "the one other attention"
        are = "are like it hide" if len(others) > 1 else "is like it hides"
        text = f"{block.path} sees the future in its scores {scores}; {which} that {are} it."
    elif says_causal(flow, site) and not any(reads_seen_ahead(flow, one, opened) for one in opened):
        text = f"{block.path} says of itself that it is causal, and each query of its scores {scores} sees all keys."
    else:
        return None if shifted is None else find_leak(flow, site, shifted)
    return alarm_at(flow.one_pass, step, "future", text)


def says_causal(flow: Flow, site: Site) -> bool:
    """Whether the block of an attention is set to hide the future."""
    settings = block_of(flow, site).settings
    return settings.get("is_causal") is True or settings.get("causal") is True


def reads_seen_ahead(flow: Flow, site: Site, opened: Sequence[Site]) -> bool:
    """Whether an attention is set so, though one that is not let each of its rows see all behind (BridgeTower's text).

    Then there is no future left to hide: such settings are not meant. What reached it as the keys and values of another
    tower tells nothing.
    """
    if not says_causal(flow, site):
        return False
    across = [one for one in list_sites(flow) if one.kind != "self"]
    memory = {node for one in across for way in (one.key, one.value) for node in way.nodes}
    behind = set(flow.behind(site.scores, within=lambda node: node not in memory))
    keys = flow.output(site.scores).shape[-1]
    others = (one for one in opened if flow.output(one.scores).shape[-1] == keys and not says_causal(flow, one))
    return any(one.weighted_sum in behind for one in others)


def finds_next_word(flow: Flow) -> str | None:
    """The step that cuts the last place off the logits before a loss that asks for what stands behind the first."""
    for place, step in enumerate(flow.steps):
        if step.op in ("cross_entropy", "nll_loss") and flow.is_leaf(place) and len(flow.makers[place]) > 1:
            logits, asked = flow.makers[place][:2]
            cut = find_cut(flow, logits, (":,:-1", "...,:-1,:"))
            if cut is not None and find_cut(flow, asked, (":,1:", "...,1:")) is not None:
                return flow.steps[cut].id
    return None


def find_cut(flow: Flow, here: int | None, begins: tuple[str, ...]) -> int | None:
    """The step that cuts what a loss reads by such an index."""
    while here is not None and flow.op(here) in CARRYING | {"log_softmax"} and flow.makers[here]:
        index = str(flow.steps[here].settings.get("index", "")).replace(" ", "")
        if flow.op(here) == "index" and index.startswith(begins):
            return here
        here = flow.makers[here][0]
    return None


def is_before(flow: Flow, site: Site, step: str) -> bool:
    """Whether a step reads what an attention led to, and not as the keys and values of another tower alone."""
    across = [one for one in list_sites(flow) if one.kind != "self"]
    memory = {node for one in across for way in (one.key, one.value) for node in way.nodes}
    return flow.places[step] in flow.ahead(site.weighted_sum, within=lambda node: node not in memory)


def joint(flow: Flow, site: Site) -> int:
    """The step at which a mask joins the scores; the softmax where none does."""
    spine = set(site.scored)
    if flow.op(site.scores) == "baddbmm":
        return site.scores
    for place in site.scored[1:-1]:
        given = [] if place in site.mixed else flow.given(place)
        if any(maker not in spine and len(record.shape) > 1 for record, maker in given):
            return place
    return site.softmax


def check_blind(flow: Flow, squares: Sequence[Square]) -> Iterator[Alarm]:
    """Rows in which every key is hidden; those of padding are left out where nothing comes of them."""
    told: set[tuple[object, ...]] = set()
    for square in squares:
        cells = square.cells
        if cells is None or cells.shape[-1] == 0:
            continue
        blind = (cells == 1).all(axis=-1)
        site = square.site
        if len(flow.output(site.scores).shape) > 4 and is_safe(flow, site):
            continue  # queries cut into blocks, the last of which is filled up
        if cells.shape[-1] == cells.shape[-2] and asks_itself(flow, site) and is_safe(flow, site):
            padded = (cells == 1).all(axis=-2) & (cells == 0).any(axis=(-1, -2))[..., None]
            blind &= ~padded if padded.shape == blind.shape else True
        rows = int(blind.sum())
        step = flow.steps[joint(flow, site)]
        key = (rows, blind.shape, *(m for m in flow.makers[flow.places[step.id]] if m not in site.scored))
        if rows and key not in told:
            told.add(key)
            what = "shares out what is hidden" if is_safe(flow, site) else "gives NaN"
            scores = flow.output(site.scores).shape
            counts = count_rows(blind, scores)
            text = f"{counts} of the scores {scores} see nothing: every key is hidden, and softmax {what}."
            yield alarm_at(flow.one_pass, step, "blind", text)


def count_rows(blind: NDArray[np.bool_], scores: Sequence[int]) -> str:
    """How many rows of scores see nothing, of how many: a mask is the same for all heads that it is spread over."""
    times = max(prod(scores[:-1]) // blind.size, 1)
    return f"{int(blind.sum()) * times:,} of the {blind.size * times:,} rows"


def asks_itself(flow: Flow, site: Site) -> bool:
    """Whether queries and keys are worked out of the same rows, be it by convolutions of their own (ZAYA)."""
    if site.kind == "self":
        return True
    asked, offered = (
        set(flow.behind(way.origin, most=MOST_BEHIND, ends=lambda one: is_product(flow, one)))
        for way in (site.query, site.key)
    )
    rows = (flow.output(one) for one in asked & offered if not is_product(flow, one))
    return any(len(record.shape) == len(("batch", "row", "width")) and record.is_float for record in rows)


def is_safe(flow: Flow, site: Site) -> bool:
    """Whether a row that sees nothing gives no NaN: fused attention gives 0 there."""
    return (
        bool(flow.steps[site.softmax].settings.get("derived"))
        or flow.op(site.softmax) == "safe_softmax"
        or not blinds_by_infinity(flow, site)
    )


def blinds_by_infinity(flow: Flow, site: Site) -> bool:
    """Whether -inf is what hides all keys of some row."""
    added = Bench(flow, given_values(flow)).add_to_scores(site)
    return added is not None and bool(np.isneginf(added).all(axis=-1).any())
