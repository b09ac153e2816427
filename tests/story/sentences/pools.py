"""Whole networks that sentences may be told of, with little proven of each, and which sentences each proves."""

from dataclasses import replace

from story.sentences.makers import (
    COLUMNS,
    EXPERTS,
    FALSE,
    GATED,
    NO_NORM,
    PLAIN,
    ROUTING,
    SAMPLED,
    SILENT,
    STATE_HEADS,
    add_rows,
    bridge_layers,
    change_stages,
    enter_layers,
    make_anatomy,
    norm_layers,
    number_blocks,
    run_in_turns,
    share_in_part,
    stream_layers,
)

from xray.story.anatomy.attentions import Latent
from xray.story.anatomy.beside_layers import Boxes, Bridge, Span
from xray.story.anatomy.branches import (
    Convolution,
    FeedForward,
    FourierMixing,
    PoolMixing,
    Recurrence,
    Unknown,
)
from xray.story.anatomy.tree import Head, Link, Norm, Untold

MODELS = {
    "norm": make_anatomy(FALSE, norm=Norm("rms", "before")),
    "sublayers without a norm": norm_layers(make_anatomy(FALSE), NO_NORM, Norm("layer", "before")),
    "adaptive norm": make_anatomy(FALSE, norm=Norm("layer", "before", None, adaptive=True)),
    "scaled first": make_anatomy(FALSE, norm=Norm("rms", "both", "branch", adaptive=False, weighs_first=True)),
    "bare norms": make_anatomy(FALSE, norm=Norm("layer", "before", None, adaptive=False, learned=False)),
    "weights from 1": number_blocks(make_anatomy(FALSE), from_one=("sublayer",), not_from_one=("attention", "last")),
    "parallel": make_anatomy(FALSE, PLAIN, parallel=True),
    "a convolution beside attention": make_anatomy(FALSE, Convolution((3,), 1), parallel=True),
    "joint attention": make_anatomy(replace(FALSE, beside="vision")),
    "keys by layer": make_anatomy(FALSE, links=(Link("keys", "vision", "text"),)),
    "added later": change_stages(make_anatomy(FALSE), since=3),
    "weights of streams": number_blocks(
        make_anatomy(FALSE), streams=3, weighed_by=((("linear", 5), ("silu", None)), (("linear", 3), ("div", 7.0)))
    ),
    "balanced streams": number_blocks(make_anatomy(FALSE), streams=3, balanced=7),
    "streams": stream_layers(make_anatomy(FALSE), 4),
    "other rows": make_anatomy(replace(FALSE, other_rows=True)),
    "earlier keys": make_anatomy(replace(FALSE, earlier_keys=True)),
    "chosen keys": make_anatomy(replace(FALSE, chosen_keys=True)),
    "listed keys": make_anatomy(replace(FALSE, listed=2063)),
    "no key chosen": make_anatomy(replace(FALSE, chosen_keys=True, chosen_together=16, none_chosen=True)),
    "chosen heads": make_anatomy(replace(FALSE, query_experts=8)),
    "rotary places": make_anatomy(replace(FALSE, positions="rotary")),
    "waves of places": make_anatomy(replace(FALSE, positions="waves")),
    "slopes of places": make_anatomy(replace(FALSE, positions="alibi")),
    "relative places": make_anatomy(replace(FALSE, positions="relative")),
    "relative places of a kind": make_anatomy(replace(FALSE, positions="relative", within_a_kind=True)),
    "added places": make_anatomy(replace(FALSE, positions="added")),
    "numbers that are turned": make_anatomy(replace(FALSE, positions="rotary", turned=3)),
    "numbers of a place": make_anatomy(replace(FALSE, positions="rotary", place_numbers=3)),
    "queries by their place": make_anatomy(replace(FALSE, queries_by_place="head")),
    "turned by heads": make_anatomy(replace(FALSE, turned_by_head=True)),
    "grouped queries": make_anatomy(replace(FALSE, heads=10, kv_heads=5)),
    "latent": make_anatomy(replace(FALSE, latent=Latent(None, 11))),
    "norm of queries and keys": make_anatomy(replace(FALSE, qk_norm=True, qk_norm_over="head")),
    "scores that are not scaled": make_anatomy(replace(FALSE, unscaled=True)),
    "earlier scores": make_anatomy(replace(FALSE, earlier_scores="before")),
    "scores mixed across heads": make_anatomy(replace(FALSE, mixed_heads="before")),
    "weights mixed across heads": make_anatomy(replace(FALSE, mixed_heads="behind", mixed_norm="layer")),
    "highest scores": make_anatomy(replace(FALSE, kept_scores=8)),
    "score cap": make_anatomy(replace(FALSE, cap=50.0)),
    "inner norms": make_anatomy(replace(FALSE, inner_norm="rms")),
    "layer scale": make_anatomy(FALSE, scale="learned"),
    "gates by tanh": make_anatomy(FALSE, scale="tanh"),
    "weighed sums": make_anatomy(FALSE, scale="gates"),
    "rows set to 0": change_stages(make_anatomy(FALSE), cleared=True),
    "stream scale": change_stages(make_anatomy(FALSE), stream_scale="after"),
    "no sum": change_stages(make_anatomy(FALSE), replaces=True),
    "above a threshold": make_anatomy(FALSE, replace(GATED, threshold=True)),
    "rows to one within": make_anatomy(FALSE, replace(PLAIN, joined=4)),
    "rows from beside": make_anatomy(FALSE, replace(PLAIN, gates_beside=True)),
    "tables of columns": enter_layers(make_anatomy(FALSE), COLUMNS),
    "no places": number_blocks(make_anatomy(replace(FALSE, causal=True)), words_alone=True),
    "sinks": make_anatomy(replace(FALSE, sinks=True)),
    "gate of the output": make_anatomy(replace(FALSE, gate=True)),
    "halves of heads": make_anatomy(replace(FALSE, taken_off="learned")),
    "fused projection": make_anatomy(replace(FALSE, fused="qkv")),
    "sampled points": make_anatomy(SAMPLED),
    "windows": make_anatomy(replace(FALSE, window=4)),
    "rolled windows": make_anatomy(replace(FALSE, window=4, rolled=True)),
    "spread windows": make_anatomy(replace(FALSE, window=4, spread=True)),
    "windows that are set": make_anatomy(replace(FALSE, sliding_window=4096)),
    "keys that a cache leaves off": make_anatomy(replace(FALSE, kept_last=4095)),
    "pooled queries": make_anatomy(replace(FALSE, pooled=4)),
    "gathered keys": make_anatomy(replace(FALSE, gathered=64, ungathered=1)),
    "packed rows": make_anatomy(replace(FALSE, pieces=3)),
    "coarse rows": make_anatomy(replace(FALSE, coarse=16)),
    "stages": bridge_layers(make_anatomy(FALSE), Bridge(1, 4, 35, 70)),
    "added between layers": bridge_layers(make_anatomy(FALSE), Bridge(1, None, 35, 35, added=True)),
    "groups of layers": number_blocks(make_anatomy(FALSE), spans=(Span(0, 2, made=True),)),
    "laid beside the stream again": bridge_layers(make_anatomy(FALSE), Bridge(1, None, 35, 70, earlier=(0, "read"))),
    "numbers that others replace": number_blocks(make_anatomy(FALSE), renewed=(1,)),
    "rows repeated between layers": bridge_layers(make_anatomy(FALSE), Bridge(1, None, 35, 35, counted=0)),
    "blocks that are no layers": number_blocks(
        make_anatomy(FALSE), blocks=9, idle_blocks=2, idle_at=("before", "behind")
    ),
    "rows added": add_rows(make_anatomy(FALSE), 2),
    "rows handed out": number_blocks(make_anatomy(FALSE), tapped=(0,)),
    "boxes": number_blocks(make_anatomy(FALSE), boxes=Boxes((0, 1), shared=None)),
    "gate": make_anatomy(FALSE, GATED),
    "experts": make_anatomy(FALSE, EXPERTS),
    "router that reads the one before": make_anatomy(replace(EXPERTS, chosen=None, earlier_router=True)),
    "routing": make_anatomy(FALSE, replace(EXPERTS, routing=ROUTING)),
    "routing within groups": make_anatomy(FALSE, replace(EXPERTS, routing=replace(ROUTING, bend=None, groups=(2, 4)))),
    "recurrence": make_anatomy(Recurrence(None, None)),
    "recurrence by pieces": make_anatomy(Recurrence(None, None, by_pieces=True)),
    "states of all places": make_anatomy(Recurrence(None, None, at_once=True)),
    "heads of a state": make_anatomy(Recurrence(None, None, heads=STATE_HEADS)),
    "what reads a state": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, value_heads=7))),
    "queries and keys of length 1": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, by_length=True))),
    "delta rule": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, corrects=True))),
    "state that fades alike": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, fades_alike=True))),
    "how much is written": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, writes="sigmoid"))),
    "rows filled up to pieces": make_anatomy(Recurrence(None, None, filled=(2, 11))),
    "a second state": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, by_keys=True))),
    "state that fades": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, fades=True))),
    "rows of a piece in order": make_anatomy(Recurrence(None, None, heads=replace(STATE_HEADS, in_order=True))),
    "convolution": make_anatomy(Convolution((3, 3), 1)),
    "shared layers": make_anatomy(FALSE, shared=True),
    "lent weights": number_blocks(make_anatomy(FALSE), weights_of="vision"),
    "weights in common": number_blocks(make_anatomy(FALSE), some_weights_of="vision"),
    "divided weights": replace(make_anatomy(FALSE), divided=(2.0, 4.0)),
    "layers shared in part": share_in_part(make_anatomy(FALSE)),
    "stacks in turns": run_in_turns(make_anatomy(FALSE)),
    "tied": make_anatomy(FALSE, head=Head("vocabulary", 61, tied=True)),
    "compared": make_anatomy(FALSE, links=(Link("compared", "vision", "text"),)),
    "scores that are bent": make_anatomy(FALSE, head=Head("vocabulary", 61, scale=0.5, cap=30.0)),
    "links": make_anatomy(FALSE, links=(Link("joined", "vision", "text"),)),
    "ids of another tower": make_anatomy(FALSE, links=(Link("chosen", "vision", "text"),)),
    "links behind layers": make_anatomy(FALSE, links=(Link("memory", "text", "vision", (0,)),)),
    "met behind layers": make_anatomy(FALSE, links=(Link("met", "vision", "text"),)),
    "multiplied": make_anatomy(FALSE, links=(Link("multiplied", "vision", "text"),)),
    "scores of another tower": make_anatomy(
        FALSE, links=(Link("scored", "vision", "text"), Link("scored", "text", "vision"))
    ),
    "kernel": make_anatomy(replace(FALSE, kernel="scaled_dot_product_attention")),
    "queries and keys of places before": make_anatomy(replace(FALSE, mixed_before=2)),
    "rows mixed with those before": make_anatomy(replace(FALSE, mixed_back=("keys", "values"))),
    "rows of the place before": make_anatomy(replace(FALSE, shifted=(3, 7))),
    "values of the place before": make_anatomy(replace(FALSE, values_before=(3, 7))),
    "convolved values": make_anatomy(replace(FALSE, convolved=5)),
    "numbers of values in scores": make_anatomy(replace(FALSE, added_of_values=("linear", "exp"))),
    "places mixed beside heads": make_anatomy(replace(FALSE, mixed_anew=9)),
    "mixing by a Fourier transform": make_anatomy(FourierMixing(7, features=True)),
    "mixing by pooling": make_anatomy(PoolMixing((3, 3), "mean", less_itself=True)),
    "unknown": make_anatomy(Unknown(("mixer",))),
    "not drawn": replace(make_anatomy(FALSE), untold=(Untold("mixer", 11), Untold("nothing", 0))),
    "rows not counted": bridge_layers(make_anatomy(FALSE), Bridge(1, None, 35, 70)),
    "known not to be": make_anatomy(FALSE, PLAIN, head=Head("vocabulary", 61, tied=False)),
    "not known": make_anatomy(
        SILENT, FeedForward(None, None, gated=None), shared=None, head=Head("vocabulary", 61, tied=None)
    ),
}
"""For each sentence of a model an anatomy in which its fact is proven, and little else."""
UNSAID_OF_MODELS = (
    "known not to be",
    "not known",
    "rows not counted",
    "routing within groups",
    "a convolution beside attention",
)
INSIDE = {"solved": {"add", "linalg_solve_triangular"}, "added": {"add"}}
"""Operations that the box of a state may stand for."""
OF_MODELS = {name: {name} for name in MODELS if name not in UNSAID_OF_MODELS}
OF_MODELS["convolution"].add("a convolution beside attention")
OF_MODELS["chosen keys"] |= {"no key chosen"}
OF_MODELS["experts"] |= {"routing", "routing within groups"}
OF_MODELS["routing"] |= {"routing within groups"}
OF_MODELS["gate"] |= {"above a threshold"}
OF_MODELS["norm"] |= {"adaptive norm", "bare norms", "scaled first", "sublayers without a norm"}
OF_MODELS["heads of a state"] |= {
    "what reads a state",
    "queries and keys of length 1",
    "delta rule",
    "how much is written",
    "a second state",
    "state that fades",
    "state that fades alike",
    "rows of a piece in order",
}
OF_MODELS["streams"] |= {"balanced streams", "weights of streams"}
OF_MODELS["recurrence"] |= {*OF_MODELS["heads of a state"], "rows filled up to pieces"}
OF_MODELS["what reads a state"] |= OF_MODELS["heads of a state"]
OF_MODELS["rotary places"] |= {"numbers that are turned", "numbers of a place"}
OF_MODELS["relative places"] |= {"relative places of a kind"}
OF_MODELS["windows"] |= {"rolled windows", "spread windows"}
