"""Things that sentences may be told of, each with little proven of it, and which sentences each of them proves."""

from collections import Counter
from dataclasses import replace

from small_traces import TGT_WORDS, record, small_trace, small_training_pass, step

from xray.ir.records import MaskBlocks, MaskFacts
from xray.ir.trace import IN_PLACE_OF, Pass
from xray.story.anatomy.attentions import Attention, DeformableAttention, Latent
from xray.story.anatomy.branches import (
    ChannelAttention,
    Context,
    Convolution,
    CurvedAttention,
    Experts,
    FeedForward,
    FourierMixing,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    Routing,
    StateHeads,
    StreamMixing,
    Unknown,
)
from xray.story.anatomy.tree import (
    Anatomy,
    Boxes,
    Bridge,
    EntrancePart,
    Group,
    Head,
    Link,
    Norm,
    Span,
    Stage,
    Tower,
    Untold,
)
from xray.story.recognition.added_rows import AddedRows
from xray.story.sentences.of_ends import Again, Leaving
from xray.story.sentences.of_masks import Shown
from xray.story.sentences.of_rows import OtherRows
from xray.story.sheet.words import Words

SILENT = Attention(source="self", heads=None, kv_heads=None, d_k=None, d_v=None)
"""An attention of which nothing is known."""
FALSE = replace(
    SILENT,
    heads=5,
    kv_heads=5,
    d_k=7,
    d_v=7,
    positions="none",
    qk_norm=False,
    sinks=False,
    gate=False,
    kernel="plain",
    rolled=False,
)
"""An attention of which all that is special is known not to be there."""
SAMPLED = DeformableAttention(source="self", heads=5, d_v=7, levels=3, points=4)
PLAIN, GATED = FeedForward(140, "relu", gated=False), FeedForward(140, "silu", gated=True, fused=False)
EXPERTS = Experts(8, 2, 0, 140, "relu", gated=False)
ROUTING = Routing("sigmoid", None, divided_by_sum=True, factor=None, groups=None, biased=False)
STATE_HEADS = StateHeads(3, 6, 5, 7)
NO_NORM = Norm(None, "none")


def share_in_part(whole):
    """The same network, its layers with some weights of their own and some in common."""
    (tower,) = whole.towers
    groups = tuple(replace(group, shared_in_part=True) for group in tower.groups)
    return replace(whole, towers=(replace(tower, groups=groups),))


def run_in_turns(whole):
    """The same network, its layers run again behind another stack."""
    (tower,) = whole.towers
    own, again = tower.groups[0], len(tower.groups[0].layers)
    turns = [replace(own, layers=tuple(layer + turn * again for layer in own.layers)) for turn in range(3)]
    groups = (*turns[:2], replace(turns[2], weights_of=own.layers))
    return replace(whole, towers=(replace(tower, groups=groups),))


def make_tower(*branches, norm=NO_NORM, shared=False, parallel=False, scale=None):
    stages = (
        (Stage(branches, True, norm),) if parallel else tuple(Stage((one,), False, norm, scale) for one in branches)
    )
    return Tower("text", "ids", None, 35, 61, (), (Group((0, 1), stages, 35, shared),), None)


def make_anatomy(*branches, head=None, links=(), **tower):
    return Anatomy((make_tower(*branches, **tower),), links, head, None, None)


COLUMNS = EntrancePart("table", 19, columns=((0,), (2,)), argument="bbox")


def enter_layers(anatomy, *parts):
    """The same with what stands before its layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], entrance=parts),))


def norm_layers(anatomy, *norms):
    """The same with a group of two layers for each norm, in a row, that stands before what they do."""
    (tower,) = anatomy.towers
    (stage,), count = tower.groups[0].stages, len(tower.groups[0].layers)
    groups = (
        replace(tower.groups[0], layers=(count * place, count * place + 1), stages=(replace(stage, norm=norm),))
        for place, norm in enumerate(norms)
    )
    return replace(anatomy, towers=(replace(tower, groups=tuple(groups)),))


def bridge_layers(anatomy, *bridges):
    """The same with what stands between its layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], bridges=bridges),))


def stream_layers(anatomy, count):
    """The same with so many streams side by side."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], streams=count),))


def add_rows(anatomy, count):
    """The same with rows of another tower behind so many layers."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], rows_added=tuple(range(count))),))


def number_blocks(anatomy, **facts):
    """The same with other facts of its numbered blocks."""
    return replace(anatomy, towers=(replace(anatomy.towers[0], **facts),))


def change_stages(anatomy, **facts):
    """The same with other facts of its stages."""
    (group,) = anatomy.towers[0].groups
    group = replace(group, stages=tuple(replace(stage, **facts) for stage in group.stages))
    return replace(anatomy, towers=(replace(anatomy.towers[0], groups=(group,)),))


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
    "no places": make_anatomy(replace(FALSE, causal=True)),
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
    "turned between towers": make_anatomy(FALSE, links=(Link("joined", "vision", "text", turned=(8, 12)),)),
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
OF_MODELS["links"] |= {"turned between towers"}

ATTENTIONS = {
    "not known": SILENT,
    "known not to be": FALSE,
    "one head": replace(FALSE, heads=1, kv_heads=1),
    "memory": replace(FALSE, source="encoder"),
    "no source": replace(FALSE, source=None),
    "beside": replace(FALSE, beside="vision"),
    "turned by heads": replace(FALSE, turned_by_head=True),
    "turned by learned angles": replace(FALSE, positions="rotary", turned_by_learned=(1, 7)),
    "causal": replace(FALSE, causal=True),
    "sees both ways": replace(FALSE, causal=False),
    "longer keys": replace(FALSE, causal=False, longer_keys=True),
    "rolled places": replace(FALSE, causal=False, partial=True, rolled=True, kept_apart=100.0),
    "number of a value": replace(FALSE, added_of_values=("linear", "exp")),
    "sees some": replace(FALSE, causal=False, partial=True),
    "some look back": replace(FALSE, causal=True, partial=True),
    "gathered": replace(FALSE, gathered=64, ungathered=2),
    "mixed": replace(FALSE, mixed_keys=64, causal=False),
    "fewer keys": replace(FALSE, causal=False, fewer_keys=64),
    "first row": replace(FALSE, causal=None, first_row=197),
    "pieces": replace(FALSE, pieces=3, causal=False),
    "coarse": replace(FALSE, coarse=16, causal=False),
    "several sequences": replace(FALSE, causal=False, partial=True, together=11),
    "foreign queries": replace(FALSE, foreign_queries=True, causal=None),
    "window": replace(FALSE, window=4),
    "window set": replace(FALSE, sliding_window=4096, causal=True),
    "last keys kept": replace(FALSE, kept_last=4095, causal=True),
    "chosen": replace(FALSE, chosen_keys=True, causal=True),
    "chosen earlier": replace(FALSE, chosen_keys=True, chosen_earlier=True, causal=True),
    "none chosen": replace(FALSE, chosen_keys=True, none_chosen=True, causal=True),
    "window set, sees both ways": replace(FALSE, sliding_window=4096, causal=False),
    "fused": replace(FALSE, fused="qkv"),
    "latent": replace(FALSE, latent=Latent(None, 11), qk_norm=True, qk_norm_over="head"),
    "kept": replace(FALSE, latent=Latent(None, 11, 11)),
    "kept with others": replace(FALSE, latent=Latent(None, 11, 13)),
    "grouped": replace(FALSE, heads=10, kv_heads=5),
    "waves": replace(FALSE, positions="waves"),
    "rotary": replace(FALSE, positions="rotary"),
    "alibi": replace(FALSE, positions="alibi"),
    "alibi of some heads": replace(FALSE, positions="alibi", sloped=2),
    "relative": replace(FALSE, positions="relative"),
    "relative of a kind": replace(FALSE, positions="relative", within_a_kind=True),
    "norms": replace(FALSE, qk_norm=True),
    "norms of heads": replace(FALSE, qk_norm=True, qk_norm_over="head"),
    "norms of rows": replace(FALSE, qk_norm=True, qk_norm_over="width"),
    "sinks": replace(FALSE, sinks=True),
    "cap": replace(FALSE, cap=30.0),
    "gate": replace(FALSE, gate=True),
    "inner norm": replace(FALSE, inner_norm="rms"),
}
FORWARDS = {
    "forward": PLAIN,
    "forward, not known": FeedForward(None, None, gated=None),
    "gated": GATED,
    "gated in one": replace(GATED, fused=True),
    "gated, not known how": replace(GATED, fused=None),
    "forward with an inner norm": replace(PLAIN, inner_norm="layer"),
    "forward with a kernel": replace(PLAIN, kernel=(3, 3)),
}
MANY = {
    "experts": EXPERTS,
    "experts, one shared": replace(EXPERTS, shared=1),
    "experts, some hand on": replace(EXPERTS, handing_on=3),
    "experts, named by a table": replace(EXPERTS, chosen_by="table"),
    "experts, one alone, its weight 1": replace(EXPERTS, chosen=1, routing=ROUTING),
    "experts, not known": Experts(None, None, None, None, None, gated=None),
}
SAMPLING = {
    "sampled": SAMPLED,
    "sampled memory": replace(SAMPLED, source="encoder"),
    "sampled, not known": DeformableAttention(None, None, None, None, None),
}
OTHERS = {
    "state": Recurrence(None, None),
    "states of all places": Recurrence(None, None, at_once=True),
    "state by pieces": Recurrence(None, None, by_pieces=True),
    "convolution": Convolution((3,), 1),
    "convolution that looks back": Convolution((4,), 35, causal=True),
    "convolution and a mean": Convolution((3, 3), 35, adds_mean=True),
    "linear": Projection(11),
    "two linear": Projection(11, 2),
    "mixed streams": StreamMixing(4),
    "streams mixed by one": StreamMixing(4, of_one=True),
    "one context": Context(64),
    "one context of equal weights": Context(64, weighed=False),
    "contexts of sets": Context(64, sums=4),
    "contexts of sets of equal weights": Context(64, weighed=False, sums=4),
    "channels": ChannelAttention(16, 32),
    "a curve": CurvedAttention("self", 4, 8, (("acos", None), ("div", 3.141592653589793), ("rsub", 1.0), ("pow", 9.0))),
    "channels of one group": ChannelAttention(1, 64),
    "mixed places": PlaceMixing(7, 11, "gelu"),
    "a Fourier transform": FourierMixing(7, features=True),
    "a Fourier transform of places alone": FourierMixing(7, features=False),
    "a pool": PoolMixing((3, 3), "mean", less_itself=True),
    "the highest of a pool": PoolMixing((5,), "maximum"),
    "no name": Unknown(("mixer",)),
}
BRANCHES = {**ATTENTIONS, **SAMPLING, **FORWARDS, **MANY, **OTHERS}
NORMS = {
    "rms": Norm("rms", None),
    "layer": Norm("layer", None, adaptive=False),
    "adaptive": Norm("group", None, adaptive=True),
    "norm, not known": Norm(None, None),
}
PARTS = {**BRANCHES, **NORMS, "the stream": None}
HEADS = set(ATTENTIONS) - {"not known", "one head"}
APART = set(ATTENTIONS) - {"fused", "latent", "kept", "kept with others"}
WIDE = set(FORWARDS) - {"forward, not known"}
OF_PARTS = {
    "stream": {"the stream"},
    "residual sum": {"the stream"},
    "sums before": {"the stream"},
    "adapted norm": {"adaptive"},
    "RMS norm": {"rms"},
    "layer norm": {"layer"},
    "norm of heads": {"norms of heads"},
    "norm of rows": {"norms of rows"},
    "gate from beside": {*ATTENTIONS, *FORWARDS, *MANY},
    "mixed places": {"mixed"},
    "three views": APART - {"memory", "no source"},
    "two sources": {"memory"},
    "one for several": {"fused", "latent", "kept", "kept with others"},
    "kept waist": {"kept"},
    "kept with others": {"kept with others"},
    "cut into heads": HEADS,
    "heads before places": HEADS,
    "turned by places": {"rotary"},
    "turned by places or learned angles": {"turned by learned angles"},
    "times waves": {"waves"},
    "turned by an angle": {"turned by heads"},
    "cache": set(ATTENTIONS),
    "written cache": set(ATTENTIONS),
    "joined keys": {"beside"},
    "repeated keys": {"grouped"},
    "turned keys": set(ATTENTIONS),
    "scores": set(ATTENTIONS),
    "mask": set(ATTENTIONS),
    "bias of kinds": {"relative of a kind"},
    "bias of values": {"number of a value"},
    "bias": {"alibi", "alibi of some heads", "relative", "relative of a kind"},
    "bias of some heads": {"alibi of some heads"},
    "rows sum to 1": set(ATTENTIONS) - {"not known", "sinks"},
    "a sink's share": {"sinks"},
    "with a sink": {"sinks"},
    "one whole before a sink": {"sinks"},
    "sum of a row": set(ATTENTIONS) - {"not known", "sinks"},
    "sum of a chosen row": set(ATTENTIONS) - {"not known", "sinks"},
    "capped by tanh": {"cap"},
    "weighted sum": set(ATTENTIONS),
    **{name: set(SAMPLING) for name in ("counted samples", "offsets", "points", "samples", "weighted samples")},
    "joined heads": HEADS,
    "mixed heads": HEADS,
    "inner norm of attention": {"inner norm"},
    "inner norm of a feed-forward": {"forward with an inner norm"},
    "gated heads": {"gate"},
    "two ways": {"gated"},
    "gate times up": {"gated"},
    "two halves": {"gated in one"},
    "each place alone, for two ways": {"gated in one"},
    "each place alone": WIDE - {"gated", "gated in one", "forward with a kernel"},
    "back again": WIDE,
    "router": set(MANY) - {"experts, not known"},
    "choice": set(MANY) - {"experts, not known"},
    "choice by a table": {"experts, named by a table"},
    "others hand on": {"experts, some hand on"},
    "each expert": set(MANY) - {"experts, not known", "experts, some hand on"},
    "mixed experts": set(MANY) - {"experts, not known", "experts, one alone, its weight 1"},
    "shared expert": {"experts, one shared"},
    "state": {"state", "state by pieces"},
}
"""For each sentence beside a box the parts that prove it; it may be said of no other."""

OF_BRANCHES = {
    "station of joint attention": {"beside"},
    "station of a window": {"window"},
    "station of keys chosen earlier": {"chosen earlier"},
    "station of chosen keys": {"chosen"},
    "station of a window that is set": {"window set", "window set, sees both ways"},
    "station of keys that a cache leaves off": {"last keys kept"},
    "station of sampled points": set(SAMPLING),
    "station of foreign queries": {"foreign queries"},
    "station of pieces": {"pieces"},
    "station of coarse rows": {"coarse"},
    "station of gathered keys": {"gathered"},
    "station of mixed keys": {"mixed"},
    "station of fewer keys": {"fewer keys"},
    "station of the first row": {"first row"},
    "some look back": {"some look back"},
    "looks back": {
        "causal",
        "window set",
        "last keys kept",
        "chosen",
        "chosen earlier",
        "none chosen",
        "some look back",
    },
    "looks at more": {"longer keys"},
    "looks past a roll": {"rolled places"},
    "looks at all": {
        "sees both ways",
        "longer keys",
        "mixed",
        "fewer keys",
        "pieces",
        "coarse",
        "window set, sees both ways",
    },
    "station of several sequences": {"several sequences"},
    "looks": set(ATTENTIONS),
    "station of neighbours": {"forward with a kernel"},
    "station of experts": set(MANY),
    "station of a state": {"state"},
    "station of states of all places": {"states of all places"},
    "station of a state by pieces": {"state by pieces"},
    "station of a convolution": {"convolution"},
    "station of a convolution that looks back": {"convolution that looks back"},
    "station of a convolution and a mean": {"convolution and a mean"},
    "station of a projection": {"linear", "two linear"},
    "station of mixed streams": {"mixed streams", "streams mixed by one"},
    "station of a context": {"one context"},
    "station of contexts": {"contexts of sets", "contexts of sets of equal weights"},
    "station of mixed places": {"mixed places"},
    "station of a Fourier transform": {"a Fourier transform", "a Fourier transform of places alone"},
    "station of a pool": {"a pool", "the highest of a pool"},
    "station of a context of equal weights": {"one context of equal weights"},
    "station of channels": {"channels", "channels of one group"},
    "station of a curve in place of softmax": {"a curve"},
    "no name": {"no name"},
}
THINKING = {
    "wider": (replace(PLAIN, d_ff=36), 35),
    "narrower": (replace(PLAIN, d_ff=34), 35),
    "as wide": (replace(PLAIN, d_ff=35), 35),
    "rows to one": (replace(PLAIN, d_ff=35, joined=4), 35),
    "gated rows": (replace(PLAIN, d_ff=34, gates_beside=True), 35),
    "width not known": (replace(PLAIN, d_ff=36), None),
    "d_ff not known": (replace(PLAIN, d_ff=None), 35),
}
OF_FORWARDS = {
    "gated rows": {"gated rows"},
    "rows to one": {"rows to one"},
    "wider": {"wider"},
    "narrower": {"narrower", "gated rows"},
    "alone": set(THINKING),
}
ASKING = {name: (make_tower(FALSE), one) for name, one in ATTENTIONS.items()}
TOWER = make_tower(FALSE)
TOWERS = {
    "ids": TOWER,
    "image": replace(TOWER, reads="image"),
    "image and ids": replace(TOWER, reads="image", also="ids"),
    "video": replace(TOWER, reads="video", entrance=(EntrancePart("patches", 35, kernel=(2, 7, 7)),)),
    "audio": replace(TOWER, reads="audio"),
    "vectors": replace(TOWER, reads="vectors"),
    "noise": replace(TOWER, reads="noise"),
    "not known": replace(TOWER, reads=None),
    "learned rows": replace(TOWER, reads=None, entrance=(EntrancePart("learned rows", 5, learned=True),)),
    "places": replace(TOWER, entrance=(EntrancePart("positions"),)),
    "mixed": replace(TOWER, entrance=(EntrancePart("convolution", added=True),)),
    "columns of ids": replace(TOWER, reads=None, entrance=(COLUMNS,)),
    "put among": replace(TOWER, among="image"),
    "attention first": replace(TOWER, before="attention"),
    "rows looked at": replace(TOWER, looked_at=True),
    "memory": make_tower(replace(FALSE, source="encoder")),
    "sampled memory": make_tower(FALSE, replace(SAMPLED, source="encoder")),
    "some memory": replace(TOWER, groups=(*TOWER.groups, *make_tower(replace(FALSE, source="encoder")).groups)),
}
READ_IDS = {"ids", "places", "mixed", "attention first", "rows looked at", "memory", "sampled memory", "some memory"}
READ_IDS |= {"put among"}
OF_ENTRANCES = {
    "ids": READ_IDS,
    "image": {"image", "image and ids", "video"},
    "audio": {"audio"},
    "vectors": {"vectors"},
    "noise": {"noise"},
    "columns of ids": {"columns of ids"},
    "put among": {"put among"},
    "ids beside": {"image and ids"},
    "learned rows": {"learned rows"},
    "entrance": {"not known"},
    "places": {"places"},
    "mixed": {"mixed"},
    "attention first": {"attention first"},
    "rows looked at": {"rows looked at"},
}
OF_MEMORIES = {
    "memory of every layer": {"memory"},
    "memory": {"memory", "some memory"},
    "memory that is sampled": {"sampled memory"},
}
VOCABULARY = Head("vocabulary", 61)
LEAVING = {
    "nothing": Leaving((), None),
    "signal": Leaving((), None, is_signal=True),
    "no head": Leaving((), Head("none")),
    "chance": Leaving((), Head("none"), by_chance=True),
    "scores": Leaving((), VOCABULARY),
    "scores of some": Leaving((), VOCABULARY, vocab=100_000),
    "classes": Leaving((), Head("classes", 7)),
    "numbers": Leaving((), Head("numbers", 7)),
    "loss": Leaving((), VOCABULARY, has_loss=True),
    "one number": Leaving((), VOCABULARY, to_one=True),
    "one number of numbers": Leaving((), Head("numbers", 7), to_one=True),
    "word": Leaving(("linear", "last_row", "softmax", "argmax"), VOCABULARY),
    "drawn": Leaving(("linear", "softmax", "multinomial"), VOCABULARY),
    "choices": Leaving(("linear", "argmax"), VOCABULARY, at_each=True),
    "compared": Leaving((), None, meets=1),
    "with what is beside": Leaving((), None, is_joined=True),
    "joined, with a head": Leaving((), VOCABULARY, is_joined=True, times=6),
    "to meet maps": Leaving((), None, met=("vision",)),
    "as more places": Leaving((), None, times=6),
    "compared with two": Leaving((), Head("none"), meets=2),
    "softmax alone": Leaving(("linear", "softmax"), None),
    "read by nothing": Leaving(("linear",), None, is_lost=True),
    "changed once more": Leaving(("linear",), None, goes_on=True),
}
OF_EXITS = {
    "next word": {"word", "drawn", "choices"},
    "scores of words": {
        *("scores", "scores of some", "classes", "numbers", "loss", "word", "drawn", "choices"),
        *("joined, with a head", "one number", "one number of numbers"),
    },
    "signal": {"signal"},
    "leaves to be compared": {"compared", "compared with two"},
    "leaves with what is beside": {"with what is beside"},
    "leaves to meet maps": {"to meet maps"},
    "leaves as more places": {"as more places"},
    "leaves nowhere": {"read by nothing"},
    "leaves when changed": {"changed once more"},
    "leaves by chance": {"chance"},
    "leaves": {
        *(
            "nothing",
            "no head",
            "chance",
            "softmax alone",
            "signal",
            "compared",
            "compared with two",
            "read by nothing",
        ),
        *("with what is beside", "as more places", "to meet maps", "changed once more"),
    },
}
LOOPS = {
    "nothing": Again(goes_back=False, is_looped=False),
    "gradients": Again(goes_back=True, is_looped=False),
    "turns": Again(goes_back=False, is_looped=True),
    "both": Again(goes_back=True, is_looped=True, last_word="<eos>"),
}
OF_LOOPS = {"batch and turn": {"both"}, "batch": {"gradients", "both"}, "turn": {"turns", "both"}}
OF_APPENDING = {name: {"turns", "both"} for name in ("append", "append, shorter", "append, shortest")}
STEPS = {
    "failed": (step("loss", "cross_entropy", error="ValueError"), TGT_WORDS),
    "smoothed": (step("loss", "cross_entropy", outputs=("one",), settings={"label_smoothing": 0.1}), ()),
    "with words": (step("loss", "cross_entropy", outputs=("one",), settings={"label_smoothing": 0.0}), TGT_WORDS),
    "without words": (step("loss", "cross_entropy", outputs=("one",)), ()),
}
OF_LOSSES = {"failed loss": {"failed"}, "mean of a loss": {"with words"}, "label smoothing": {"smoothed"}}
CELLS = ((".ff", "..f", "..."),)
FACTS = {
    "padding": MaskFacts("padding", 0.1, cells=(("..p",), ("...",))),
    "causal": MaskFacts("causal", 0.3, cells=CELLS),
    "padding+causal": MaskFacts("padding+causal", 0.5),
    "window": MaskFacts("custom", 0.5, cells=((".ff", "..f", "x.."),)),
    "window on both sides": MaskFacts("custom", 0.5, spans=(((1, 0, 0, 2, 0), (98, 0, 1, 3, 1), (1, 98, 0, 100, 0)),)),
    "itself alone": MaskFacts("custom", 0.6, cells=((".ff", "x.f", "xx."),)),
    "window that moves along": MaskFacts("custom", 0.6, cells=(("p..xxxx", "px..xxx", "pxx..xx"),)),
    "block by block": MaskFacts("custom", 0.4, cells=(("..fff", "..fff", "....f", "....f", "....."),)),
    "custom": MaskFacts("custom", 0.5),
    "none": MaskFacts("none", 0.0, cells=(("...", "...", "..."),)),
}
OF_MASKS = {f"mask: {name}": {name} for name in FACTS} | {"mask: window": {"window", "window on both sides"}}
SEVERAL = (("...",) * 3, *2 * CELLS)
"""Matrices of several sequences, of which the first hides nothing."""
BLOCKS = MaskBlocks(2, 2, (("./", "x."),))
PICTURES = {
    "whole": Shown(FACTS["causal"], 3, 3),
    "a corner": Shown(FACTS["causal"], 2, 2),
    "another": Shown(replace(FACTS["causal"], cells=SEVERAL), 3, 3, number=1),
    "a corner of another": Shown(replace(FACTS["causal"], cells=SEVERAL), 2, 2, number=2),
    "rows": Shown(FACTS["padding"], 2, 3),
    "rows of sequences": Shown(FACTS["padding"], 2, 3, leading=("batch", "1")),
    "rows of heads": Shown(FACTS["padding"], 2, 3, leading=("batch", "heads")),
    "a corner of rows": Shown(FACTS["padding"], 1, 3),
    "later keys of rows": Shown(FACTS["padding"], 2, 1, start=2),
    "too large": Shown(FACTS["custom"], 0, 0),
    "by its kind": Shown(MaskFacts("causal", 0.5), 14, 14, is_known=True),
    "by blocks": Shown(replace(FACTS["custom"], blocks=BLOCKS), 4, 4),
}
OF_PICTURES = {
    "blocks of a mask": {"by blocks"},
    "corner by its kind": {"by its kind"},
    "too large": {"too large", "by its kind", "by blocks"},
    "one of several": {"another", "a corner of another"},
    "corner": {"a corner", "a corner of rows", "a corner of another"},
    "some keys of each row": {"later keys of rows"},
    "row for each sequence": {"rows of sequences"},
    "row for each": {"rows", "rows of heads", "a corner of rows", "later keys of rows"},
}

LOADS = {"few": (3, 0, 5), "many": (1, 2) * 64, "not kept": ()}
OF_LOADS = {"load of experts": {"few", "many"}}
PASTS = {"as it is": (), "pooled": ("layer norm", "linear", "amax")}
OF_PASTS = {"past a sublayer": {"pooled"}}
ADDED = {"one": AddedRows(9, 2, 1, frozenset({9})), "many": AddedRows(9, 2, 12, frozenset({9}), left_off=True)}
OF_ADDED = {"rows beside": {"one", "many"}}
OTHER_ROWS = {
    "one thinks": OtherRows(1, False, ("feed-forward",)),
    "some think": OtherRows(3, True, ("feed-forward",)),
    "some stay": OtherRows(3, True, ()),
    "not known": OtherRows(3, False, None),
}
OF_OTHER_ROWS = {
    "rows through a branch of their own": {"one thinks", "some think"},
    "rows as they were": {"some stay"},
    "rows apart": {"not known"},
}
SOURCES = {"unknown": None, "first": 0, "another": 7}
OF_SOURCES = {"rows of a layer": {"first", "another"}}
ELSEWHERE = {"nowhere": (), "once": (0,), "twice": (0, 3)}
OF_ELSEWHERE = {"rows behind others": {"once", "twice"}}
SUMS = {"a sum": Stage((FALSE,), False, NO_NORM), "no sum": Stage((FALSE,), False, NO_NORM, replaces=True)}
OF_STAGES = {"taken place": {"no sum"}}
GROUPS = {
    "shared": Group((0, 1), (), 35, shared=True),
    "their own": Group((0, 1), (), 35, shared=False),
    "run twice": Group((0, 1, 2, 3), (), 35, shared=False, weight_sets=2),
    "run again": Group((2, 3), (), 35, weights_of=(0, 1)),
    "dropped more and more": Group((0, 1), (), 35, dropouts=(0.0, 0.1)),
    "dropped elsewhere": Group((0, 1), (), 35, dropouts=(0.1, 0.1)),
    "branches dropped more and more": Group((0, 1), (), 35, drop_paths=(0.0, 0.1)),
    "branches dropped elsewhere": Group((0, 1), (), 35, drop_paths=(0.1, 0.1)),
    "not known": Group((0, 1), (), 35),
}
OF_GROUPS = {
    "shared group": {"shared"},
    "sets of weights": {"run twice"},
    "weights of layers before": {"run again"},
    "dropouts that differ": {"dropped more and more", "dropped elsewhere"},
    "drop paths that differ": {"branches dropped more and more", "branches dropped elsewhere"},
}
LEFT = {
    "nothing": (),
    "some": (("experts", Counter(clamp=2, add=1)),),
    "much": tuple((name, Counter("abcd")) for name in "wxyz"),
}
OF_LEFT = {"in no box": {"some", "much"}}
LEFT_OUT = {"nothing": (), "some": ((make_tower(), (1,)),)}
OF_LEFT_OUT = {"layers in no frame": {"some"}}
MADE = {"stored": step("x", "softmax"), "derived": step("x", "softmax", settings={"derived": True})}
KNOWN = {"trained": True, "batch": 2}
"""Settings of a run of which nothing has to be said."""
UNSAID = (small_training_pass(),)
RUNS = {
    "nothing": small_trace(*UNSAID, **KNOWN),
    "not known": replace(small_trace(*UNSAID), config={}),
    "untrained": small_trace(*UNSAID, batch=2),
    "unknown words": small_trace(replace(UNSAID[0], tokens={"src": (("<unk>",),)}), **KNOWN),
    "batches of tokens": small_trace(*UNSAID, trained=True, batch_tokens=4096),
    "batches": small_trace(*UNSAID, trained=True, batch=64),
    "norm before": small_trace(*UNSAID, **KNOWN, norm="before"),
    "no cross mask": small_trace(*UNSAID, **KNOWN, cross_mask="none"),
    "decoder shares": small_trace(*UNSAID, **KNOWN, sharing="decoder"),
    "all share": small_trace(*UNSAID, **KNOWN, sharing="all"),
    "no scale": small_trace(*UNSAID, **KNOWN, scale_embeddings=False),
    "infinity": small_trace(*UNSAID, **KNOWN, mask_value="-inf"),
    "kept keys": small_trace(*UNSAID, **KNOWN, kv_cache=True),
    "savings": small_trace(*UNSAID, **KNOWN, multiplications=3, multiplications_without_cache=4),
}
OF_RUNS = {name: {name} for name in RUNS if name not in ("nothing", "not known", "batches of tokens")}
OF_RUNS["batches"] |= {"batches of tokens"}
COPIES = {
    "whole": RUNS["nothing"],
    "small copy": small_trace(*UNSAID, **KNOWN, small_copy=True),
    "counted copy": small_trace(*UNSAID, **KNOWN, small_copy=True, cuts="num_layers 2 of 7", params_of_whole=89),
}
OF_COPIES = {"small copy": {"small copy", "counted copy"}}
NEW = replace(step("x", "full"), module="Full", settings={IN_PLACE_OF: "Sparse"})
EXCHANGES = {"whole": RUNS["nothing"], "exchanged": small_trace(Pass("forward", 0, {}, (NEW,)))}
OF_EXCHANGES = {"exchanged modules": {"exchanged"}}
RECORDINGS = {
    "phases": (small_trace(), ("training", "inference")),
    "passes": (small_trace(), ("forward",)),
}
OF_RECORDINGS = {"phases": {"phases"}, "passes": set(RECORDINGS)}


def make_words(rows=TGT_WORDS, turns=(), shift=None, says=(), kind="training"):
    """Words that a tower reads, in one pass or in turns."""
    tokens = [{"read": turn} for turn in turns] or [{"tgt": rows, "read": [row[:-1] for row in rows], "targets": says}]
    passes = tuple(Pass(kind, number, one, ()) for number, one in enumerate(tokens))
    return Words(passes, "read", "tgt", record("ids", "batch tgt_len", "ids"), step("embed", "embedding"), None, shift)


SHIFT = step("shift", "shift")
NEWEST = step("embed", "embedding", [record("ids", "1 1", "ids")])
TURNS = ((("<sos>",),), (("<sos>", "a"),), (("<sos>", "a", "series"),))
WORDS = {
    "padded": make_words(),
    "full": make_words((("<sos>", "a", "series"),)),
    "not even": make_words((("a",), ("a", "series"))),
    "shifted": make_words(shift=SHIFT, says=[row[1:] for row in TGT_WORDS]),
    "not shifted by one": make_words(shift=SHIFT, says=[row[2:] for row in TGT_WORDS]),
    "turns": make_words(turns=TURNS, kind="decode"),
    "turns that jump": make_words(turns=TURNS[::2], kind="decode"),
    "question": replace(make_words((("who", "is"),)), passes=(Pass("encode", 0, {"tgt": (("who", "is"),)}, ()),)),
}
WORDS["newest alone"] = replace(
    WORDS["turns that jump"], passes=tuple(replace(one, steps=(NEWEST,)) for one in WORDS["turns that jump"].passes)
)
BATCHES = {"padded", "full", "shifted", "not shifted by one", "question"}
OF_LENGTHS = {"newest word": {"newest alone"}, "one word more": {"turns"}, "length of rows": BATCHES}
SHIFTED = {"all but the last": {"shifted"}, "all but the first": {"shifted"}}
OF_FILLERS = {
    "ids of words": BATCHES | {"not even"},
    "filler": {"padded", "shifted", "not shifted by one"},
}
READING = {name: (TOWER, one) for name, one in WORDS.items()}
OF_WORDS = {
    "shift": {"shifted"},
    "start": {"turns", "turns that jump", "newest alone"},
    "question": {"question"},
    "words": set(WORDS),
}
