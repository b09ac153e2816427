"""From a trace to its anatomy: the passes read one by one, and what they say put together."""

from xray.ir.flow.remembering import once
from xray.ir.trace import Trace
from xray.story.anatomy.tree import Anatomy
from xray.story.body.ends import count_active, read_head, read_untold
from xray.story.body.links import list_meetings, read_links
from xray.story.body.reading import attends_elsewhere, read_passes
from xray.story.body.together import join_towers, list_others, pick_reading
from xray.story.facts.held_weights import list_divisors
from xray.story.facts.totals import count_params
from xray.story.facts.unused import find_idle, find_rows_left, find_unused, join_alike


@once
def anatomy(trace: Trace) -> Anatomy:
    """What kind of network a trace is of: its towers, layer by layer, how they are linked, its head.

    It is read off what the recorded steps compute, never off names; but what a model itself hands out as a hidden state
    is called no score. A field is proven by steps of the trace, or None.
    `to_dict()` gives it as plain lists and words, for JSON.
    """
    params = count_params(trace) or None
    readings = read_passes(trace)
    chosen = pick_reading(readings)
    if chosen is None:
        return Anatomy((), (), None, params, None, unused=join_alike(trace.unused or {}))
    others = list(list_others(readings, chosen))
    towers, links = join_towers(chosen, others)
    unused, left = find_unused(trace), find_rows_left(trace)
    active = [
        count_active(one.towers, one.flow, params, unused, left) for one in readings if one is chosen or not others
    ]
    meetings = list_meetings(chosen)
    return Anatomy(
        towers=towers,
        links=(*links, *read_links(chosen.flow, chosen.towers, meetings)),
        head=read_head(chosen.flow, chosen.towers, meetings),
        params=params,
        active_params=active[0] if len(active) == 1 or len(set(active)) == 1 else None,
        untold=read_untold(chosen.flow, chosen.towers, meetings),
        unused=join_alike(find_idle(trace)),
        divided=list_divisors(trace),
        attends_elsewhere=any(map(attends_elsewhere, readings)),
    )
