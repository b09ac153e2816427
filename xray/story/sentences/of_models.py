"""What the card says of a model as a whole."""

from collections import Counter
from collections.abc import Sequence

from xray.story.anatomy.branches import Experts, FeedForward, StreamMixing, Unknown
from xray.story.anatomy.tree import Anatomy, Group, Tower
from xray.story.sentences.attentions.of_heads import (
    describe_added_of_values,
    describe_beside,
    describe_chosen_heads,
    describe_convolved,
    describe_fused,
    describe_head_norm,
    describe_heads,
    describe_latent,
    describe_mixed_anew,
    describe_other_rows,
    describe_output_gate,
    describe_taken_off,
)
from xray.story.sentences.attentions.of_places import (
    describe_added,
    describe_alibi,
    describe_no_places,
    describe_place_numbers,
    describe_relative,
    describe_rotary,
    describe_turned,
    describe_turned_by_head,
    describe_waves,
)
from xray.story.sentences.attentions.of_scores import (
    describe_cap,
    describe_earlier_scores,
    describe_kept_scores,
    describe_kernel,
    describe_mixed_scores,
    describe_mixed_weights,
    describe_sinks,
    describe_unscaled,
)
from xray.story.sentences.attentions.of_windows import (
    describe_chosen_keys,
    describe_coarse,
    describe_gathered,
    describe_kept_last,
    describe_none_chosen,
    describe_pooled,
    describe_rolled,
    describe_sampled,
    describe_set_window,
    describe_spread_windows,
    describe_window,
)
from xray.story.sentences.of_ends import describe_columns
from xray.story.sentences.of_feed_forwards import (
    describe_earlier_router,
    describe_experts,
    describe_gate,
    describe_joined,
    describe_routing,
    describe_threshold,
    gates_beside,
)
from xray.story.sentences.of_layers import (
    describe_again,
    describe_bridges,
    describe_parallel,
    describe_shared,
    describe_shared_in_part,
    describe_spread,
    describe_weight_sets,
)
from xray.story.sentences.of_links import (
    describe_added_between,
    describe_boxes,
    describe_chosen_ids,
    describe_comparison,
    describe_divided,
    describe_earlier,
    describe_keys,
    describe_lent_weights,
    describe_links,
    describe_met,
    describe_multiplied,
    describe_put_back,
    describe_renewed,
    describe_repeated,
    describe_rows_added,
    describe_scored,
    describe_spans,
    describe_tapped,
    describe_weights_in_common,
    spell_numbers,
)
from xray.story.sentences.of_norms import (
    describe_adaptive,
    describe_bare_norms,
    describe_cleared,
    describe_from_one,
    describe_inner_norm,
    describe_left_norms,
    describe_norm,
    describe_query_factor,
    describe_replaced,
    describe_scale,
    describe_since,
    describe_stream_scale,
    describe_stream_weights,
    describe_tanh,
    describe_weighed_sums,
    describe_weighing,
)
from xray.story.sentences.of_rows import OF_NEIGHBOURS, describe_listed, describe_pieces
from xray.story.sentences.of_states import (
    OF_STATES,
    describe_convolutions,
    describe_fourier,
    describe_pool,
)
from xray.story.sentences.sentence import Sentence, fixed
from xray.story.sentences.where import attentions, branches
from xray.story.wording import join_words, plural, spell_factor

MOST_UNSAID = 3
EARLIER, OF_NO_DATA = "behind layers", "handed out, of nothing that comes in"
"""What works on what a tower's earlier layers give, and is worked out when the tower is; what no data makes."""


def list_sentences(anatomy: Anatomy) -> list[str]:
    """All that can be said of a model, in the order in which it is printed."""
    told = (sentence.tell(anatomy) for sentence in OF_MODELS)
    return list(dict.fromkeys(text for text in told if text))


def describe_streams(anatomy: Anatomy) -> str:
    counts = sorted({tower.streams for tower in anatomy.towers if tower.streams})
    if not counts:
        return ""
    many = " or ".join(map(str, counts))
    mixings = [one for one in branches(anatomy) if isinstance(one, StreamMixing)]
    if mixings:
        made_of = "one of them" if all(one.of_one for one in mixings) else "them"
        return f"{many} streams side by side, mixed by a matrix that is worked out of {made_of}."
    return f"{many} streams side by side: a sublayer reads one row of them, made by weights, and gives each its share."


def describe_balance(anatomy: Anatomy) -> str:
    times = {tower.balanced for tower in anatomy.towers if tower.streams}
    balanced = times.pop() if len(times) == 1 else None
    sums = "the sums of its columns and of its rows"
    return f"The matrix that mixes streams is divided by {sums} in turn, {balanced} times in all." if balanced else ""


def describe_blocks(anatomy: Anatomy) -> str:
    told: list[str] = []
    for tower in anatomy.towers:
        own = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
        if tower.blocks:
            what = "adds nothing: it stands" if tower.idle_blocks == 1 else "add nothing: they stand"
            where = join_words(tower.idle_at)
            told.append(f"{tower.idle_blocks} of {tower.blocks} blocks{own} {what} {where} the layers.")
        told += [describe_unlisted(tower, own)] if tower.unlisted else []
    return " ".join(told)


def describe_unlisted(tower: Tower, own: str) -> str:
    """Which layers stand outside the list of the others, and that these alone have no feed-forward (SAM's last one)."""
    listed = f"{tower.layers - len(tower.unlisted)} of {tower.layers} layers{own} are blocks of one list"
    is_one = len(tower.unlisted) == 1
    whole = {one for group in tower.groups if has_feed_forward(group) for one in group.layers}
    what = f"{'is' if is_one else 'are'} none of these"
    what += (
        f", and {'has' if is_one else 'have'} no feed-forward"
        if whole == {*range(tower.layers)}.difference(tower.unlisted)
        else ""
    )
    return f"{listed}; {spell_numbers(tower.unlisted)} {what}."


def has_feed_forward(group: Group) -> bool:
    """Whether a layer of a group has a feed-forward, or experts."""
    return any(isinstance(branch, FeedForward | Experts) for stage in group.stages for branch in stage.branches)


def describe_bending(anatomy: Anatomy) -> str:
    head = anatomy.head
    if head is None:
        return ""
    rows = (
        f"The rows that the last layer reads are multiplied by {spell_factor(head.rows_scale)}."
        if head.rows_scale
        else ""
    )
    capped = f"cannot pass {head.cap:g}, by tanh" if head.cap else ""
    scaled = f"are multiplied by {spell_factor(head.scale)}" if head.scale else ""
    bent = " and ".join(filter(None, (scaled, capped)))
    return " ".join(filter(None, (rows, bent and f"The scores of the words {bent}.")))


def describe_tied(anatomy: Anatomy) -> str:
    """That the last layer is a table of words, and of which tower's, where another tower has one of its own."""
    head = anatomy.head
    if head is None or not head.tied:
        return ""
    of = f"the {anatomy.towers[-1].name}'s" if head.of_last else "the"
    return f"The table of {of} words is also the last layer: one set of numbers for both."


def describe_untold(anatomy: Anatomy) -> str:
    untold = sorted((one for one in anatomy.untold if one.params), key=lambda one: -one.params)
    names = ", ".join(f"{one.path} ({one.params:,}{'; nothing reads what it gives' * one.lost})" for one in untold[:2])
    left = sum(one.params for one in untold[2:])
    more = f", and {len(untold) - 2} more ({left:,})" if left else ""
    return f"Not drawn, with parameters: {names}{more}." if untold else ""


def describe_unsaid(unsaid: Sequence[tuple[str, Counter[str]]]) -> str:
    """What is worked out and stands in no box, by part: the operations that are most often."""
    if not unsaid:
        return ""
    parts = sorted(unsaid, key=lambda one: -one[1].total())
    told = [f"{describe_ops(ops)} ({name})" for name, ops in parts[:MOST_UNSAID]]
    left = len(parts) - MOST_UNSAID
    more = [f"and in {left} more part{'s' if left > 1 else ''}"] if left > 0 else []
    return f"Worked out, and in no box: {'; '.join([*told, *more])}."


def describe_left_out(left: Sequence[tuple[Tower, Sequence[int]]]) -> str:
    """Which layers of which towers stand in no frame, where there are more kinds of them than a sheet has room for."""
    told = (f"{spell_numbers(layers)} of the {tower.layers} of the {tower.name} tower" for tower, layers in left)
    return f"Left out of the drawing: {'; '.join(told)}." if left else ""


def describe_ops(ops: Counter[str]) -> str:
    """Operations, each with how often it is."""
    told = [f"{op} × {many}" if many > 1 else op for op, many in ops.most_common(MOST_UNSAID)]
    more = ops.total() - sum(many for _, many in ops.most_common(MOST_UNSAID))
    return ", ".join([*told, *([f"{more} more"] if more else [])])


def describe_turns(anatomy: Anatomy) -> str:
    told = []
    for tower in (tower for tower in anatomy.towers if tower.turns):
        counts = {group.count for group in tower.groups}
        of = f" of {counts.pop()} layers" if len(counts) == 1 else " of layers"
        own = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
        stacks, order = plural(max(tower.turns), "stack"), ", ".join(map(str, tower.turns))
        told.append(f"{stacks}{of}{own} run in the order {order}; before each turn rows that were kept are added.")
    return " ".join(told)


def describe_unknown(anatomy: Anatomy) -> str:
    found = {type(one) is Unknown for one in branches(anatomy)}
    which = "All" if found == {True} else "Some"
    return f"{which} sublayers are drawn by their operations: what they are is not known." if True in found else ""


OF_MODELS: tuple[Sentence[Anatomy], ...] = (
    Sentence("norm", describe_norm),
    Sentence("sublayers without a norm", describe_left_norms),
    Sentence("adaptive norm", describe_adaptive),
    Sentence("bare norms", describe_bare_norms),
    Sentence("weights from 1", describe_from_one),
    Sentence("scaled first", describe_weighing),
    Sentence("parallel", describe_parallel),
    Sentence("joint attention", describe_beside),
    Sentence("keys by layer", describe_keys),
    Sentence("added later", describe_since),
    Sentence("streams", describe_streams),
    Sentence("weights of streams", describe_stream_weights),
    Sentence("balanced streams", describe_balance),
    Sentence("other rows", describe_other_rows),
    fixed(
        "earlier keys",
        "Keys and values are, in some layers, those that an earlier layer made.",
        lambda whole: any(branch.earlier_keys for branch in attentions(whole)),
    ),
    Sentence("chosen heads", describe_chosen_heads),
    Sentence("chosen keys", describe_chosen_keys),
    Sentence("no key chosen", describe_none_chosen),
    Sentence("listed keys", describe_listed),
    Sentence("rotary places", describe_rotary),
    Sentence("waves of places", describe_waves),
    Sentence("slopes of places", describe_alibi),
    Sentence("relative places", describe_relative),
    Sentence("added places", describe_added),
    Sentence("tables of columns", describe_columns),
    Sentence("no places", describe_no_places),
    Sentence("numbers that are turned", describe_turned),
    Sentence("numbers of a place", describe_place_numbers),
    Sentence("turned by heads", describe_turned_by_head),
    Sentence("queries by their place", describe_query_factor),
    Sentence("grouped queries", describe_heads),
    Sentence("latent", describe_latent),
    Sentence("norm of queries and keys", describe_head_norm),
    Sentence("scores that are not scaled", describe_unscaled),
    Sentence("numbers of values in scores", describe_added_of_values),
    Sentence("earlier scores", describe_earlier_scores),
    Sentence("scores mixed across heads", describe_mixed_scores),
    Sentence("weights mixed across heads", describe_mixed_weights),
    Sentence("score cap", describe_cap),
    Sentence("highest scores", describe_kept_scores),
    Sentence("convolved values", describe_convolved),
    Sentence("places mixed beside heads", describe_mixed_anew),
    *OF_NEIGHBOURS,
    Sentence("inner norms", describe_inner_norm),
    Sentence("layer scale", describe_scale),
    Sentence("stream scale", describe_stream_scale),
    Sentence("rows set to 0", describe_cleared),
    Sentence("gates by tanh", describe_tanh),
    Sentence("weighed sums", describe_weighed_sums),
    Sentence("no sum", describe_replaced),
    Sentence("sinks", describe_sinks),
    Sentence("above a threshold", describe_threshold),
    Sentence("rows to one within", describe_joined),
    fixed(
        "rows from beside",
        "Rows from beside: made once for all layers, each has its part; what the stream's gate leaves of it is added.",
        lambda whole: any(map(gates_beside, branches(whole))),
    ),
    Sentence("gate of the output", describe_output_gate),
    Sentence("halves of heads", describe_taken_off),
    Sentence("fused projection", describe_fused),
    Sentence("sampled points", describe_sampled),
    Sentence("windows", describe_window),
    Sentence("spread windows", describe_spread_windows),
    Sentence("rolled windows", describe_rolled),
    Sentence("windows that are set", describe_set_window),
    Sentence("keys that a cache leaves off", describe_kept_last),
    Sentence("pooled queries", describe_pooled),
    Sentence("gathered keys", describe_gathered),
    Sentence("packed rows", describe_pieces),
    Sentence("coarse rows", describe_coarse),
    Sentence("stages", describe_bridges),
    Sentence("added between layers", describe_added_between),
    Sentence("groups of layers", describe_spans),
    Sentence("rows repeated between layers", describe_repeated),
    Sentence("laid beside the stream again", describe_put_back),
    Sentence("numbers that others replace", describe_renewed),
    Sentence("blocks that are no layers", describe_blocks),
    Sentence("rows added", describe_rows_added),
    Sentence("rows handed out", describe_tapped),
    Sentence("boxes", describe_boxes),
    Sentence("gate", describe_gate),
    Sentence("experts", describe_experts),
    Sentence("routing", describe_routing),
    Sentence("router that reads the one before", describe_earlier_router),
    *OF_STATES,
    Sentence("convolution", describe_convolutions),
    Sentence("mixing by a Fourier transform", describe_fourier),
    Sentence("mixing by pooling", describe_pool),
    Sentence("shared layers", describe_shared),
    Sentence("layers shared in part", describe_shared_in_part),
    Sentence("stacks in turns", describe_turns),
    Sentence("lent weights", describe_lent_weights),
    Sentence("weights in common", describe_weights_in_common),
    Sentence("divided weights", describe_divided),
    Sentence("tied", describe_tied),
    Sentence("scores that are bent", describe_bending),
    Sentence("links", describe_links),
    Sentence("met behind layers", describe_met),
    Sentence("ids of another tower", describe_chosen_ids),
    Sentence("links behind layers", describe_earlier),
    Sentence("multiplied", describe_multiplied),
    Sentence("scores of another tower", describe_scored),
    Sentence("compared", describe_comparison),
    Sentence("kernel", describe_kernel),
    Sentence("unknown", describe_unknown),
    Sentence("not drawn", describe_untold),
)
"""Every sentence of the card, in the order in which they are printed."""
UNSAID: Sentence[Sequence[tuple[str, Counter[str]]]] = Sentence("in no box", describe_unsaid)
"""What is said of steps that are not drawn."""
LEFT_OUT: Sentence[Sequence[tuple[Tower, Sequence[int]]]] = Sentence("layers in no frame", describe_left_out)
"""What is said of layers that are not drawn."""
OF_GROUPS: tuple[Sentence[Group], ...] = (
    fixed("shared group", "one set of weights", lambda group: group.shared),
    Sentence("sets of weights", describe_weight_sets),
    Sentence("weights of layers before", describe_again),
    Sentence("dropouts that differ", lambda group: describe_spread("dropout", group.dropouts)),
    Sentence("drop paths that differ", lambda group: describe_spread("drop path", group.drop_paths)),
)
"""What is said above the frame of a group of layers."""
