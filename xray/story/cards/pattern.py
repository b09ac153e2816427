"""Which layer is of which frame, where a tower has several."""

from collections.abc import Collection, Mapping, Sequence

from xray.ir.records import MaskFacts
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branch_words import spell_base, spell_gathered
from xray.story.anatomy.branches import Branch, Convolution, FeedForward, PoolMixing
from xray.story.anatomy.tree import Group, Stage, Tower
from xray.story.body.layers import Mask
from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.charts.stage_names import name_branch
from xray.story.charts.sum_chart import describe_sizes, spell_kernel
from xray.story.sentences.of_masks import describe_hidden
from xray.story.sentences.of_parts import OF_EARLIER
from xray.story.type_sizes import NOTE
from xray.story.wording import plural, spell_layers, wrap

SWATCHES = ("encoder", "decoder", "inference", "training", "station", "op_convolution", "op_activation", "op_pooling")
"""Surfaces by which kinds of layers are told apart on the card."""
MOST_KINDS = len(SWATCHES)
OTHERS = "op_chance"
"""The surface of all kinds that are not listed."""


def draw_pattern(told: Told, canvas: Canvas, top: float) -> float:
    """Which layer is of which frame, where a tower has several."""
    several = [(tower, frames) for tower, frames, _ in told.frames if len(tower.groups) > 1]
    if not several:
        return top

    def draw(y: float) -> float:
        for tower, frames in several:
            masks = {frame.group.layers[0]: frame.masks for frame in frames}
            keys = {frame.group.layers[0]: frame.keys for frame in frames}
            parts = [list_parts(tower, group) for group in tower.groups]
            counts = {frame.group.layers[0]: frame.params for frame in frames if not any(frame.more)}
            is_width_told = tells_widths(tower.groups, parts)
            step = min(13.0, (told.width - 28) / sum(group.count for group in tower.groups))
            if len({one.name for one, _, _ in told.frames}) > 1:
                name = (words(tower.name, NOTE, "text", "semibold"),)
                y = canvas.note(told.left + 14, y + 2, name, "card").bottom - 2
            texts: list[str] = []
            for kind, group in enumerate(tower.groups):
                text = ", ".join(parts[kind])
                text += f" (before it: {tower.before})" if tower.before and group.layers == (0,) else ""
                text += f"; stack {tower.turns[kind]}" if tower.turns else ""
                text += describe_rows_added(group, tower)
                like = [one for one, own in zip(tower.groups, parts, strict=True) if own == parts[kind]]
                if is_width_told and group.d_model is not None:
                    text += f"; {'channels' if tower.is_convolved else 'd_model'} {group.d_model:,}"
                    like = [one for one in like if one.d_model == group.d_model]
                if len({masks[one.layers[0]] for one in like if one.layers[0] in masks}) > 1:
                    text += describe_masks(masks.get(group.layers[0], ()))
                text += describe_keys(keys.get(group.layers[0], ()), [keys.get(one.layers[0], ()) for one in like])
                texts.append(text)
            firsts = [group.layers[0] for group in tower.groups]
            alike = [[first for first, one in zip(firsts, texts, strict=True) if one == text] for text in texts]
            told_counts = [
                describe_count(counts, masks, first, same) for first, same in zip(firsts, alike, strict=True)
            ]
            texts = [text + more for text, more in zip(texts, told_counts, strict=True)]
            listed = list_kinds(tower.groups, texts)
            kinds = {layer: kind for kind, (_, layers) in enumerate(listed) for layer in layers}
            for place, layer in enumerate(sorted(kinds)):
                x = told.left + 14 + place * step
                canvas.panel(x, y - 13, x + step - 1.5, y, swatch(kinds[layer]), 2)
            y -= 19
            for kind, (text, layers) in enumerate(listed[:MOST_KINDS]):
                canvas.panel(told.left + 14, y - 11, told.left + 26, y - 1, swatch(kind), 2)
                spelled = f"{spell_layers(layers)}: {text}"
                lines = tuple(words(line, NOTE) for line in wrap(spelled, NOTE, told.width - 50, canvas.measure, 3))
                y = canvas.note(told.left + 32, y, lines, "card").bottom - 3
            if len(listed) > MOST_KINDS:
                canvas.panel(told.left + 14, y - 11, told.left + 26, y - 1, OTHERS, 2)
                others = (words(count_others(listed), NOTE, "quiet"),)
                y = canvas.note(told.left + 32, y, others, "card").bottom - 3
            y -= 4
        return y

    return draw_card(told, canvas, top, "WHICH LAYER IS WHICH", draw)


def swatch(kind: int) -> str:
    """The surface of the how manieth kind; those that are not listed have one in common."""
    return SWATCHES[kind] if kind < MOST_KINDS else OTHERS


def list_kinds(groups: Sequence[Group], texts: Sequence[str]) -> list[tuple[str, list[int]]]:
    """What is told of layers, each with those of which it is; of groups that are all told alike each by itself.

    So layers that are alike stand in one line, be others between them (Sapiens 2: the first eight, and the last).
    """
    if len(set(texts)) == 1:
        return [(text, list(group.layers)) for group, text in zip(groups, texts, strict=True)]
    found: dict[str, list[int]] = {}
    for group, text in zip(groups, texts, strict=True):
        found.setdefault(text, []).extend(group.layers)
    return [(text, sorted(layers)) for text, layers in found.items()]


def count_others(listed: Sequence[tuple[str, Sequence[int]]]) -> str:
    """How many layers are of none of the first kinds; of several kinds some may be told alike (latent diffusion)."""
    return f"and {plural(sum(len(layers) for _, layers in listed[MOST_KINDS:]), 'more layer')}"


def tells_widths(groups: Sequence[Group], parts: Sequence[list[str]]) -> bool:
    """Whether some layers are alike but for the width of their stream, so that the width of each is told."""
    widths: dict[tuple[str, ...], set[int | None]] = {}
    for group, own in zip(groups, parts, strict=True):
        widths.setdefault(tuple(own), set()).add(group.d_model)
    return any(len(one) > 1 for one in widths.values())


def describe_rows_added(group: Group, tower: Tower) -> str:
    """Whether rows of another tower are added behind the layers of a group, or behind which of them."""
    own = [one for one in group.layers if one in tower.rows_added]
    few = f" behind {spell_layers(own)}" if len(own) < len(group.layers) else ""
    return f"; rows added{few}" if own else ""


def list_parts(tower: Tower, group: Group) -> list[str]:
    """What a layer of a group consists of."""
    return [
        name_branch(branch).lower()
        + name_kernel(branch, tower)
        + name_places(branch, tower)
        + name_heads(branch, tower)
        + name_choice(branch, tower)
        + name_window(branch)
        + name_threshold(branch, tower)
        + told
        for stage in group.stages
        for branch, told in zip(stage.branches, name_ways(tower, stage), strict=True)
    ]


def name_ways(tower: Tower, stage: Stage) -> list[str]:
    """For each branch of a stage what the stream goes through past it or behind it, where others differ."""
    alike = list_like(tower, stage)
    told = f" (past it: {', '.join(stage.past)})" if stage.past and len({one.past for one in alike}) > 1 else ""
    is_scaled = stage.stream_scale == "after" and len({one.stream_scale for one in alike}) > 1
    told += " (without a norm)" * leaves_norm_out(stage, alike)
    ways = [told, *[""] * (len(stage.branches) - 1)]
    return [*ways[:-1], ways[-1] + " (the sum × a number)" * is_scaled]


def list_like(tower: Tower, stage: Stage) -> list[Stage]:
    """The stages of a tower that have the same parts, be these of other sizes."""
    parts = [one.part for one in stage.branches]
    return [one for group in tower.groups for one in group.stages if [it.part for it in one.branches] == parts]


def leaves_norm_out(stage: Stage, alike: Collection[Stage]) -> bool:
    """Whether no norm stands before a stage, while one stands before those of other layers that are `alike`."""
    return stage.norm.place == "none" and {one.norm.place for one in alike} == {"none", "before"}


def name_kernel(branch: Branch, tower: Tower) -> str:
    """The size of the widest convolution of a part, where those of other layers have another, or what its pool is."""
    if isinstance(branch, PoolMixing):
        pools = {one for one in tower.branches if isinstance(one, PoolMixing)}
        return f" ({describe_sizes(branch)})" if len(pools) > 1 else ""
    kernels = {one.kernel for one in tower.branches if isinstance(one, Convolution)}
    return f" {spell_kernel(branch)}" if isinstance(branch, Convolution) and branch.kernel and len(kernels) > 1 else ""


def name_places(branch: Branch, tower: Tower) -> str:
    """That an attention turns no queries and keys, or by which base, where others of its tower do otherwise."""
    attentions = [one for one in tower.branches if isinstance(one, Attention)]
    is_other = isinstance(branch, Attention) and (branch.source, branch.positions) == ("self", "none")
    if is_other and "rotary" in {one.positions for one in attentions}:
        return " (without rotary)"
    bases = {one.rotary_base for one in attentions if one.positions == "rotary"}
    base = branch.rotary_base if isinstance(branch, Attention) else None
    return f" (rotary base {spell_base(base)})" if base is not None and len(bases) > 1 else ""


def name_heads(branch: Branch, tower: Tower) -> str:
    """How many heads keys have, or how wide heads are, and what else is true of them, where others differ.

    That is of how many places each key is, how many numbers of a head are turned, and that sinks take a share.
    """
    if not isinstance(branch, Attention):
        return ""
    others = [one for one in tower.branches if isinstance(one, Attention) and one.source == branch.source]
    told = []
    if branch.kv_heads and len({one.kv_heads for one in others}) > 1:
        are_all = all(one.heads == one.kv_heads for one in others)  # queries have as many
        told = [plural(branch.kv_heads, "head" if are_all else "key head")]
    elif branch.d_k and len({one.d_k for one in others}) > 1:
        told = [f"heads of {branch.d_k:,}"]
    told += [spell_gathered(branch.gathered)] if branch.gathered and len({one.gathered for one in others}) > 1 else []
    turned = {(one.turned, one.d_k) for one in others if one.positions == "rotary"}
    if branch.turned and branch.d_k and len(turned) > 1:
        told.append(f"{branch.turned:,} of {branch.turned_of or branch.d_k:,} turned")
    told += ["sinks"] * (branch.sinks is True and not all(one.sinks for one in others))
    return f" ({', '.join(told)})" if told else ""


def name_choice(branch: Branch, tower: Tower) -> str:
    """That an attention looks at keys which an earlier layer chose, or made where others make their own (Gemma 3n)."""
    if not isinstance(branch, Attention):
        return ""
    others = {one.earlier_keys for one in tower.branches if isinstance(one, Attention)}
    made = f" ({OF_EARLIER})" * bool(branch.earlier_keys and len(others) > 1)
    return " (keys of an earlier choice)" * bool(branch.chosen_earlier) + made


def name_window(branch: Branch) -> str:
    """The window that is set for an attention, or how many keys a cache keeps for it: this pass shows neither."""
    if not isinstance(branch, Attention):
        return ""
    kept = f" (last {branch.kept_last:,} keys kept)" if branch.kept_last else ""
    kept = f" (attention_chunk_size {branch.chunk_size:,} set)" if branch.chunk_size else kept
    return f" (sliding_window {branch.sliding_window:,} set)" if branch.sliding_window else kept


def name_threshold(branch: Branch, tower: Tower) -> str:
    """That a gate lets through what is above a threshold alone, where gates of other layers do not."""
    gated = {bool(one.threshold) for one in tower.branches if isinstance(one, FeedForward) and one.gated}
    is_told = isinstance(branch, FeedForward) and branch.threshold and len(gated) > 1
    return " (gate above a threshold)" if is_told else ""


def describe_masks(masks: Sequence[Mask]) -> str:
    """What the masks of a layer hide, where layers are alike but for that."""
    told = [describe_hidden(mask) for mask in masks if isinstance(mask, MaskFacts)]
    if told:
        return f"; {' and '.join(dict.fromkeys(told))}"
    return "; no mask" if masks and set(masks) == {"none"} else ""


def describe_count(counts: Mapping[int, int], drawn: Collection[int], own: int, alike: Collection[int]) -> str:
    """How many parameters a layer has, where others are told alike and have more or fewer (Fun-ASR's norms).

    One that is not drawn has not been counted, and is said to be so: without a number it would seem of another kind.
    """
    if len({counts[one] for one in alike if one in counts}) < 2:
        return ""
    return f"; {counts[own]:,} parameters" if own in counts else "" if own in drawn else "; not drawn"


def describe_keys(own: Sequence[int], alike: Sequence[Sequence[int]]) -> str:
    """How many keys an attention of a layer has, where layers are alike but for that (Mask2Former)."""
    if any(len(one) != len(own) for one in alike):
        return ""
    differing = [count for place, count in enumerate(own) if len({one[place] for one in alike}) > 1]
    return f"; {differing[0]:,} keys" if len(set(differing)) == 1 else ""
