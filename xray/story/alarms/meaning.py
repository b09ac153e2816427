"""What a key mask does to scores, tried with other values: turned round, too weak, along a wrong axis."""

from collections.abc import Iterator, Sequence

import numpy as np

from xray.ir.flow.attention_sites import Site, count_pairs, has_keys_first
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import MASKINGS, SUMS, TIMES
from xray.ir.trace import Step
from xray.story.alarms.arguments import Mask, all_of, asks_for_padding, given_values
from xray.story.alarms.bench import Bench, mark_hidden
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.alarms.reach import fits, follow_mask, is_masked_by, list_side_makers, shape_of_path
from xray.story.recognition.values.value_rules import LOWEST
from xray.story.recognition.values.value_shapes import Values

WEAKEST = -20.0
"""Scores are rarely farther apart; what is added must be lower to hide."""
JOINING = MASKINGS | SUMS | {"baddbmm"}
"""The steps at which a mask joins the scores."""


def check_meaning(flow: Flow, sites: Sequence[Site], mask: Mask) -> Iterator[Alarm]:
    """The alarms of a key mask, tried at one attention of each kind that it reaches."""
    tainted = follow_mask(flow, mask)
    yield from check_late(flow, sites, mask, tainted)
    if not mask.is_for_keys:
        yield from check_numbers(flow, sites, mask, tainted)
        return
    if mask.values is not None and (mask.values <= LOWEST).any():
        return  # it was made to be added: 0 and 1 are none of its values
    tried: set[tuple[str, str]] = set()
    for site in sites:
        key = (shape_of_path(flow, site), site.kind)
        if key not in tried and fits(flow, site, mask) and is_masked_by(flow, site, tainted, mask):
            tried.add(key)
            found = try_mask(flow, site, mask, tainted)
            if found is not None:
                yield found


def check_numbers(flow: Flow, sites: Sequence[Site], mask: Mask, tainted: set[int]) -> Iterator[Alarm]:
    """The alarm of a mask of queries and keys that is given as 0 and 1, and added to scores as it is."""
    if mask.values is None or not np.array_equal(np.unique(mask.values), (0.0, 1.0)):
        return
    for site in sites:
        if is_masked_by(flow, site, tainted, mask):
            place = joint_of(flow, site, tainted, mask)
            step = flow.steps[place]
            added = Bench(flow, given_values(flow)).add_to_scores(site)
            if adds_numbers(step) and added is not None and np.array_equal(np.unique(added), (0.0, 1.0)):
                yield alarm_at(flow.one_pass, step, "mixed", describe_numbers(flow, site, mask), mask.name)
                return


def adds_numbers(step: Step) -> bool:
    """Whether a mask is added where it joins the scores, not filled in."""
    is_float = step.op == "mask_scores" and all(record.dtype != "bool" for record in step.inputs)
    return is_float or step.op in SUMS | {"baddbmm"}


def describe_numbers(flow: Flow, site: Site, mask: Mask) -> str:
    scores = flow.output(site.scores).shape
    return (
        f"{mask.label} is added to the scores {scores} as 0 and 1: a key that should be hidden weighs a little less "
        "than others."
    )


def check_late(flow: Flow, sites: Sequence[Site], mask: Mask, tainted: set[int]) -> Iterator[Alarm]:
    """The alarm of a mask that takes away weights, when softmax has given hidden keys their share already."""
    for site in sites:
        late = [place for place in site.weighed if flow.op(place) in TIMES | MASKINGS and fits(flow, site, mask)]
        joins = [
            place
            for place in late
            if any(
                record.shape[-1:] != (1,)  # which lies along the queries, and hides no key
                and (maker in tainted or (record.given == mask.name and place not in mask.places))
                and maker not in (site.softmax, *site.weighed)
                for record, maker in flow.given(place)
            )
        ]
        adds_up = any(flow.op(one) == "sum" for place in site.weighed for one in flow.leaf_readers(place))
        if joins and not adds_up and not is_masked_by(flow, site, tainted, mask):
            text = (
                f"{mask.label} joins the weights {flow.output(site.softmax).shape} behind the softmax: hidden keys "
                "have taken their share of each row by then, and what is left adds up to less than 1."
            )
            yield alarm_at(flow.one_pass, flow.steps[joins[0]], "weak", text, mask.name)
            return


def try_mask(flow: Flow, site: Site, mask: Mask, tainted: set[int]) -> Alarm | None:
    """What is wrong with what a mask does at one attention; None if nothing is, or if it cannot be told."""
    added = [added_by(flow, site, mask, all_of(mask, value), tainted) for value in (0.0, 1.0)]
    zeros, ones = added
    if zeros is None or ones is None or zeros.shape != ones.shape:
        return None
    hidden = [mark_hidden(one) for one in (zeros, ones)]
    if np.isnan(hidden[0]).any() or np.isnan(hidden[1]).any():
        return None
    more = [int((hidden[one] > hidden[1 - one]).sum()) for one in (0, 1)]
    if more[0] and more[1]:
        return None
    if not more[0] and not more[1]:
        return find_weak(flow, site, mask, zeros, ones, tainted)
    keep = 1 if more[0] else 0
    inverted = find_inverted(flow, site, mask, keep, tainted)
    return inverted or try_one_key(flow, site, mask, keep, tainted)


def added_by(flow: Flow, site: Site, mask: Mask, values: Values, tainted: set[int]) -> Values | None:
    """What is added to the scores if a mask has the given values."""
    return bench_with(flow, mask, values, tainted).add_to_scores(site)


def bench_with(flow: Flow, mask: Mask, values: Values, tainted: set[int]) -> Bench:
    """The numbers of a pass with other values in the place of a mask; other masks as they were given."""
    others = {name: one for name, one in given_values(flow).items() if name != mask.name}
    if mask.places:
        return Bench(flow, others, dict.fromkeys(mask.places, values), tainted)
    return Bench(flow, {**others, mask.name: values}, {}, tainted)


def joint_of(flow: Flow, site: Site, tainted: set[int], mask: Mask) -> int:
    """The step at which a mask joins the scores."""
    spine = set(site.scored)
    for place in site.scored:
        if place in mask.readers and place not in mask.places:
            return place
        if any(maker in tainted and maker not in spine for maker in list_side_makers(flow, site, place)):
            return place
    return site.softmax


@np.errstate(invalid="ignore")  # two that hide by −inf differ by no number
def find_weak(flow: Flow, site: Site, mask: Mask, zeros: Values, ones: Values, tainted: set[int]) -> Alarm | None:
    """A mask that joins the scores and hides nothing, whatever its values."""
    place = joint_of(flow, site, tainted, mask)
    step, name = flow.steps[place], mask.label
    scores = flow.output(site.scores).shape
    if step.op in TIMES:
        text = (
            f"{name} is multiplied with the scores {scores} before the softmax: a score of 0 is one like any other and "
            "hides nothing."
        )
        return alarm_at(flow.one_pass, step, "weak", text, mask.name)
    if not (ones - zeros).any():
        found = [bench_with(flow, mask, all_of(mask, value), tainted).add_to_scores(site, 1.0) for value in (0.0, 1.0)]
        if found[0] is None or found[1] is None or found[0].shape != found[1].shape:
            return None
        zeros, ones = found[0], found[1]  # where 0 is filled in, scores of 0 would not tell
    apart = ones - zeros
    if np.isnan(apart).any():
        return None
    if not apart.any():
        return find_lost(flow, site, mask, tainted)
    lowest = float(np.minimum(ones, zeros).min())
    if lowest <= WEAKEST or step.op not in JOINING:
        return None
    if adds_numbers(step) and lowest >= 0 and (np.abs(apart[apart != 0]) == 1).all():
        return alarm_at(flow.one_pass, step, "mixed", describe_numbers(flow, site, mask), mask.name)
    text = (
        f"{name} puts {lowest:g} where it should hide, and softmax of the scores {scores} still gives such keys "
        "a share: "
        f"{np.exp(min(lowest, 0.0)):.2g} of that of a score of 0."
    )
    return alarm_at(flow.one_pass, step, "weak", text, mask.name)


def find_lost(flow: Flow, site: Site, mask: Mask, tainted: set[int]) -> Alarm | None:
    """A mask that something overwrites on its way: the step from which on its values make no difference.

    Masks of 0 and of 1 do not prove it: one that is compared with itself differs where values are mixed (ESM C).
    """
    evens = np.broadcast_to(np.arange(mask.shape[-1]) % 2.0, mask.shape)
    halves = np.broadcast_to(np.arange(mask.shape[-1]) * 2 // mask.shape[-1] * 1.0, mask.shape)
    tried = (all_of(mask, 0.0), all_of(mask, 1.0), evens, 1.0 - evens, halves, 1.0 - halves)
    benches = [bench_with(flow, mask, values, tainted) for values in tried]
    for bench in benches:
        bench.add_to_scores(site)
    for place in sorted(tainted & set(benches[0].known)):
        found = [bench.known.get(place) for bench in benches]
        same = [one for one in found if one is not None and not np.isnan(one).any()]
        if len(same) == len(tried) and all(np.array_equal(same[0], one) for one in same):
            step = flow.steps[place]
            text = (
                f"{mask.label} ends at {step.path}, which makes the same of every mask: the scores "
                f"{flow.output(site.scores).shape} are hidden nowhere for it."
            )
            return alarm_at(flow.one_pass, step, "unreached", text, mask.name)
    return None


def find_inverted(flow: Flow, site: Site, mask: Mask, keep: int, tainted: set[int]) -> Alarm | None:
    """A mask that hides what it should show, proven by its question or by its values."""
    place = joint_of(flow, site, tainted, mask)
    text = f"{mask.label} "
    if mask.keep is not None:
        if mask.keep == keep or not asks_for_padding(flow, mask):
            return None
        means = "padding" if mask.keep == 0 else "a word"
        text += f"is True for {means}, and where it is {'True' if keep else 'False'} keys may be read"
    elif mask.values is None or not is_turned(mask.values, keep):
        return None
    else:
        whole = int((mask.values != keep).all(axis=1).sum())
        text += (
            f"is {1 - keep} all along {whole} of its {mask.shape[0]} rows, and keys are hidden where it is {1 - keep}, "
            "so these rows see nothing, and others only what should be hidden"
        )
    scores = flow.output(site.scores).shape
    return alarm_at(flow.one_pass, flow.steps[place], "inverted", f"{text}: scores {scores}.", mask.name)


def is_turned(values: Values, keep: int) -> bool:
    """Whether a row is hidden as a whole, and each row read the other way shows its beginning, or its end."""
    shown = values != keep
    if not shown.all(axis=1).any() or shown.all():
        return False
    return all(row.any() and (is_sorted(row) or is_sorted(row[::-1])) for row in shown)


def is_sorted(row: Values) -> bool:
    """Whether what is shown comes first."""
    return bool((row[:-1] >= row[1:]).all())


def try_one_key(flow: Flow, site: Site, mask: Mask, keep: int, tainted: set[int]) -> Alarm | None:
    """Hide one key of the last sequence: its column must be hidden there, and nothing else."""
    sequences, places = mask.shape
    row, key = sequences - 1, places // 2
    values = all_of(mask, float(keep))
    before = added_by(flow, site, mask, values, tainted)
    values = values.copy()
    values[row, key] = 1.0 - keep
    after = added_by(flow, site, mask, values, tainted)
    if before is None or after is None or before.shape != after.shape or before.ndim < 3:
        return None
    new = (mark_hidden(after) == 1) & (mark_hidden(before) == 0)
    scores = flow.output(site.scores).shape
    if not new.any() or places < 3 or new.shape[-1] != places or new.shape[-2] < 2:
        return None
    step = flow.steps[joint_of(flow, site, tainted, mask)]
    if new.shape[0] == 1 or scores[0] != sequences:
        mixed_up = find_mixed_up(flow, site, mask, new)
        if mixed_up:
            return alarm_at(flow.one_pass, step, "axis", mixed_up, mask.name)
        new = new.reshape(1, -1, *new.shape[-2:])
        where = [0]
    else:
        new = new.reshape(new.shape[0], -1, *new.shape[-2:])
        where = sorted({int(one) for one in np.nonzero(new)[0]})
        if where != [row]:
            others = ", ".join(map(str, where))
            text = f"{mask.label}: hiding a key of sequence {row} hides it in sequence {others} of the scores {scores}."
            return alarm_at(flow.one_pass, step, "axis", text, mask.name)
    square = new[where[-1]].any(axis=0)
    queries, keys = np.nonzero(square)
    if set(keys.tolist()) != {key} and set(queries.tolist()) == {key}:
        text = (
            f"{mask.label} lies along the queries of the scores {scores}: hiding place {key} in it would hide row "
            f"{key}, and change nothing for other queries."
        )
        return alarm_at(flow.one_pass, step, "axis", text, mask.name)
    if (
        len(set(queries.tolist())) == 1
        and set(queries.tolist()) == {row}
        and set(keys.tolist()) == {key}
        and len(scores) == 3
    ):
        asking = count_pairs(flow, site)[0]
        text = f"{mask.label}: its {sequences} sequences lie along the {asking} queries of the scores {scores}."
        return alarm_at(flow.one_pass, step, "axis", text, mask.name)
    return None


def find_mixed_up(flow: Flow, site: Site, mask: Mask, new: Values) -> str:
    """What is wrong where sequences and heads share an axis, and a mask takes them in another order than queries do."""
    sequences = mask.shape[0]
    order = find_order(flow, site, sequences)
    if order is None or new.ndim != 3 or len(order) != len(new):
        return ""
    hidden = {int(place) for place in np.nonzero(new.any(axis=(1, 2)))[0]}
    meant = {int(place) for place in np.flatnonzero(order == sequences - 1)}
    if hidden == meant:
        return ""
    return (
        f"{mask.label}: in the scores {flow.output(site.scores).shape} sequence {sequences - 1} stands at "
        f"{sorted(meant)}, and hiding a key of it hides one at {sorted(hidden)}: repeat_interleave repeats each "
        "sequence for all heads, repeat takes the sequences in turn."
    )


def find_order(flow: Flow, site: Site, sequences: int) -> Values | None:
    """For each place along the first axis of the scores the number of its sequence; None where that is not known.

    Queries are followed from where their axis of sequences last stands alone.
    """
    for place in reversed(site.query.nodes):
        output = flow.output(place)
        if "batch" in output.axes and output.shape[output.axes.index("batch")] == sequences:
            axis = output.axes.index("batch")
            lone = [sequences if one == axis else 1 for one in range(len(output.shape))]
            numbers = np.arange(sequences, dtype=float).reshape(lone)
            bench = Bench(flow, {}, {place: np.broadcast_to(numbers, output.shape)})
            found = bench.read(*list(flow.given(site.scores))[-1 if has_keys_first(flow, site) else -2])
            if found is None or np.isnan(found).any() or found.ndim != 3 or found.max() <= 0:
                return None
            flat = found.reshape(len(found), -1) / found.max() * (sequences - 1)  # queries may have been scaled
            return np.round(flat[:, 0]) if (flat == flat[:, :1]).all() else None
    return None
