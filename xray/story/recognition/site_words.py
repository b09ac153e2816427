"""The axis words that one attention settles: scores are queries by keys, and the way back tells heads from batch."""

from collections.abc import Mapping
from dataclasses import dataclass

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.axis_tracking import Axes, whole
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.site_ways import follow_result, follow_scores, follow_way, size_of_axis
from xray.story.recognition.softmax_axis import read_equation

Words = tuple[str, ...]


@dataclass(frozen=True)
class SiteWords:
    """What one attention settles: the words of what each of its steps made, and those of the stream that it reads."""

    made: Mapping[int, Words]
    operands: Mapping[str, Words]
    stream: Words
    sizes: tuple[int, ...]


def read_words(flow: Flow, site: Site, side: str) -> SiteWords | None:
    """The words of an attention; None where its axes cannot be followed to where the heads were cut."""
    own = "src_len" if side == "encoder" else "tgt_len"
    other = own if site.kind == "self" else "src_len"
    axes = operand_axes(flow, site)
    if axes is None:
        return None
    queries = next(atom[1] for axis in axes["query"] for atom in axis if atom[0] == "queries")
    keys = next(atom[1] for axis in axes["key"] for atom in axis if atom[0] == "keys")
    cached = site.kind == "self" and queries != keys
    asking = ("1" if queries == 1 else "") if cached else own
    labels = {
        "new": "1" if queries == 1 else "",
        "queries": asking,
        "keys": other,
        "d_k": "d_k",
        "one": "1",
        "d_model": "d_model",
        "kv_heads": "kv_heads",
    }
    made: dict[int, Axes] = {}
    streams: dict[str, Axes] = {}
    for name, way in (("query", site.query), ("key", site.key), ("value", site.value)):
        found = follow_way(flow, way, axes[name], made, is_key=name == "key")
        if found is not None:
            streams[name] = found
    heads = [atom for axis in streams.get("projected query", ()) for atom in axis] or [
        atom for node in site.query.nodes if node in made for axis in made[node] for atom in axis
    ]
    for place, (label, _) in enumerate(heads[1:], 1):
        if label == "d_k" and heads[place - 1][0].startswith("lead"):
            labels[heads[place - 1][0]] = "heads"
    leads = {
        atom[0]
        for axes_ in (*made.values(), *axes.values())
        for axis in axes_
        for atom in axis
        if atom[0].startswith("lead")
    }
    if "heads" not in labels.values():
        return None
    for label in leads - set(labels):
        labels[label] = "batch"
    for label in [one for one in leads if f"{one}.0" in leads]:
        labels[label] = "*".join(labels.get(f"{label}.{part}", "") for part in (0, 1))
    stream = streams.get("query")
    if stream is None:
        return None
    follow_scores(flow, site, axes["scores"], made)
    follow_result(flow, site, axes["value"], made)
    return SiteWords(
        made={node: spell(one, labels) for node, one in made.items()},
        operands={name: spell(one, labels) for name, one in axes.items()},
        stream=spell(stream[:-1], labels),
        sizes=tuple(size_of_axis(axis) for axis in stream[:-1]),
    )


def spell(axes: Axes, labels: Mapping[str, str]) -> Words:
    """The words of axes; "" for an axis of which any piece has none."""
    found = []
    for axis in axes:
        words = [labels.get(label, "") for label, _ in axis]
        found.append("*".join(words) if words and all(words) else "")
    return tuple(found)


def operand_axes(flow: Flow, site: Site) -> dict[str, Axes] | None:
    """The axes of queries, keys, values and scores, by what the product does with them."""
    query, key, value = site.query.end.shape, site.key.end.shape, site.value.end.shape
    product, total = flow.steps[site.scores], flow.steps[site.weighted_sum]
    if read_equation(product) is not None or read_equation(total) is not None or product.op == "einsum":
        return einsum_axes(flow, site)
    if not len(query) == len(key) == len(value) or len(query) < 2:
        return None
    lead = tuple(whole(f"lead{place}", size) for place, size in enumerate(query[:-2]))
    if query[:-2] != key[:-2] or query[:-2] != value[:-2]:
        return None
    queries, keys, depth = whole("queries", query[-2]), whole("keys", key[-1]), whole("d_k", query[-1])
    swapped = flow.makers[site.scores][-2:] and flow.steps[site.scores].inputs[-1] is site.query.end
    if swapped:
        return None
    return {
        "query": (*lead, queries, depth),
        "key": (*lead, depth, keys),
        "value": (*lead, keys, whole("d_k", value[-1])),
        "scores": (*lead, queries, keys),
    }


def einsum_axes(flow: Flow, site: Site) -> dict[str, Axes] | None:
    """The same of products written as einsum."""
    scores, total = read_equation(flow.steps[site.scores]), read_equation(flow.steps[site.weighted_sum])
    if scores is None or total is None:
        return None
    left, right, out = scores
    is_first = flow.steps[site.scores].inputs[-2] is site.query.end
    query, key = (left, right) if is_first else (right, left)
    value_first = flow.steps[site.weighted_sum].inputs[-2] is site.value.end
    value = total[0] if value_first else total[1]
    weights = total[1] if value_first else total[0]
    if (
        len(query) != len(site.query.end.shape)
        or len(key) != len(site.key.end.shape)
        or len(value) != len(site.value.end.shape)
    ):
        return None

    def label(letter: str) -> str:
        if letter in out:
            return f"lead{letter}" if letter in query and letter in key else "queries" if letter in query else "keys"
        return "d_k"

    in_total = {weights[place]: label(out[place]) for place in range(min(len(weights), len(out)))}
    return {
        "query": tuple(whole(label(one), size) for one, size in zip(query, site.query.end.shape, strict=True)),
        "key": tuple(whole(label(one), size) for one, size in zip(key, site.key.end.shape, strict=True)),
        "value": tuple(
            whole(in_total.get(one, "d_k"), size) for one, size in zip(value, site.value.end.shape, strict=True)
        ),
        "scores": tuple(
            whole(label(one), size) for one, size in zip(out, flow.output(site.scores).shape, strict=False)
        ),
    }
