"""What the page tells of one rank of many: what it holds, what it exchanges, layer by layer and in order."""

from typing import Any

from xray.ir.trace import Trace
from xray.story.facts.exchanges import add_exchanges, bytes_by_layer, list_slices, read_mesh
from xray.story.facts.held_weights import list_held
from xray.story.facts.pipeline import list_cuts
from xray.story.facts.rounds import Round, fold_exchanges

MOST_ROUNDS, MOST_WEIGHTS = 200, 120


def pack_ranks(trace: Trace) -> dict[str, Any] | None:
    """All of it as plain values; None for a trace that is of no rank."""
    sums, held, cuts = add_exchanges(trace), list_held(trace), list_cuts(trace)
    mesh = read_mesh(trace)
    if not (sums or held or mesh):
        return None
    rounds = fold_exchanges(trace)
    return {
        "mesh": mesh,
        "rank": trace.config.get("rank") if mesh else None,
        "slices": [
            [one.name, one.whole, one.here, one.group, one.ranks, one.place, list(one.parts)]
            for one in list_slices(trace)
        ],
        "weights": [
            [one.name, one.count, one.shape, one.local, one.begin, one.placement, one.parts]
            for one in held[:MOST_WEIGHTS]
        ],
        "more_weights": max(0, len(held) - MOST_WEIGHTS),
        "sums": [[one.op, one.of, one.group, one.ranks, one.times, one.bytes, one.is_back] for one in sums],
        "layers": [[layer, size] for layer, size in bytes_by_layer(trace).items()],
        "rounds": [pack_round(one) for one in rounds[:MOST_ROUNDS]],
        "more_rounds": max(0, len(rounds) - MOST_ROUNDS),
        "cuts": [[cut.after, cut.bytes] for cut in cuts],
    }


def pack_round(one: Round) -> dict[str, Any]:
    """Exchanges that follow each other, and how often they come."""
    return {
        "times": one.times,
        "layers": one.layers,
        "exchanges": [
            [step.id, step.path, each.op, each.of, each.group, each.bytes, each.is_back] for step, each in one.exchanges
        ],
    }
