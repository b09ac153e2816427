"""What each step of a recording does in the transformer that it belongs to, in a few words."""

from collections.abc import Iterator, Mapping

from xray.ir.trace import Step, Trace
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CASTING, DROPOUTS, JOINS, LOOKUPS, TURNS
from xray.story.recognition.retold_attention import retell_attention
from xray.story.recognition.retold_steps import Retold
from xray.story.retelling import ReadPass, read_pass, retell_passes

ATTENTION = {
    "query": "projection to queries",
    "key": "projection to keys",
    "value": "projection to values",
    "split_query": "split heads: queries",
    "split_key": "split heads: keys",
    "split_value": "split heads: values",
    "split_query.view": "split heads: d_model into heads x d_k",
    "split_key.view": "split heads: d_model into heads x d_k",
    "split_value.view": "split heads: d_model into heads x d_k",
    "split_query.transpose": "split heads: heads before length",
    "split_key.transpose": "split heads: heads before length",
    "split_value.transpose": "split heads: heads before length",
    "rotate_query": "rotary positions: turn the queries",
    "rotate_key": "rotary positions: turn the keys",
    "norm_query": "normalise the queries",
    "norm_key": "normalise the keys",
    "norm_value": "normalise the values",
    "cache_key": "cache: earlier keys and the new ones",
    "cache_value": "cache: earlier values and the new ones",
    "repeat_key": "grouped queries: repeat the keys for each head",
    "repeat_value": "grouped queries: repeat the values for each head",
    "transpose_key": "turn the keys: rows become columns",
    "scores": "scores: query times key",
    "scale": "scale by 1/sqrt(d_k)",
    "scale_key": "scale the keys",
    "bias": "add relative positions to the scores",
    "mask": "hide what may not be seen",
    "softmax": "softmax: scores become weights",
    "dropout": "dropout of weights",
    "weighted_sum": "weighted sum of the values",
    "concat": "concat: heads side by side again",
    "concat.view": "concat: heads x d_k into d_model",
    "concat.transpose": "concat: length before heads",
    "output": "output projection",
}
FORWARD = {
    "expand": "feed-forward: widen",
    "gate": "feed-forward: gate",
    "activation": "feed-forward: activation",
    "multiply": "feed-forward: multiply by the gate",
    "dropout": "feed-forward: dropout",
    "contract": "feed-forward: narrow",
}
EMBEDDING = {
    "words": "embedding: ids to vectors",
    "patches": "embedding: patches to vectors",
    "scale": "embedding: times sqrt(d_model)",
    "positions": "embedding: positions",
    "types": "embedding: segment types",
    "add": "embedding: add positions",
    "add_types": "embedding: add segment types",
    "add_positions": "embedding: add positions",
    "norm": "embedding: norm",
    "dropout": "embedding: dropout",
}
WHOLE = {
    "Transformer": "the whole model",
    "encoder": "encoder",
    "decoder": "decoder",
    "encoder.embedding": "encoder embedding",
    "decoder.embedding": "decoder embedding",
    "encoder.norm": "last norm of the encoder",
    "decoder.norm": "last norm of the decoder",
    "head": "head: vectors to logits",
    "src_mask": "padding mask of the source",
    "cross_mask": "padding mask of the source, for cross-attention",
    "encoder.relative_positions": "relative positions: a bias for each distance",
    "decoder.relative_positions": "relative positions: a bias for each distance",
    "tgt_mask": "mask of the target",
    "tgt_mask.combine": "mask of the target",
    "tgt_mask.padding": "padding mask of the target",
    "tgt_mask.causal": "causal mask: no word sees the future",
    "loss": "loss",
    "loss.cross_entropy": "loss: cross-entropy",
    "loss.flatten_logits": "loss: logits laid flat",
    "loss.flatten_targets": "loss: targets laid flat",
    "next_word": "choose the next word",
    "next_word.last_row": "next word: logits of the last place",
    "next_word.softmax": "next word: probabilities",
    "next_word.argmax": "next word: the choice",
    "append": "the new word behind the others",
    "shift": "shift: decoder input and targets",
    "tokenize.src": "text to ids",
    "tokenize.tgt": "text to ids",
    "backward": "back-propagation",
}
SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
}
KERNELS = {
    "_transformer_encoder_layer_fwd": "a whole encoder layer in one kernel: self-attention and feed-forward",
    "_native_multi_head_attention": "a whole attention in one kernel",
}
SHARED = "projection to queries, keys and values"
SHARED_TWO = "projection to keys and values"
CROSSING_TWO = "cross-attention: keys and values from the encoder"
CROSSING = {
    "query": "cross-attention: queries from the decoder",
    "key": "cross-attention: keys from the encoder",
    "value": "cross-attention: values from the encoder",
}


def tell_roles(trace: Trace) -> Mapping[str, Mapping[str, str]]:
    """For each pass ("forward", "decode2") and each step id in it the step's role; empty where none is known."""
    read = [read_pass(one) for one in trace.passes]
    told = retell_passes(read)
    by_pass = {} if told is None else {id(one.flow.one_pass): one for one in told[1]}
    only = None if told is None else told[0]
    roles: dict[str, Mapping[str, str]] = {}
    for one in read:
        flow = one.flow
        retold = by_pass.get(id(flow.one_pass))
        found = dict(tell_generic(flow))
        if retold is None and one.sites:
            retold = retell_alone(one)
        if retold is not None:
            found |= tell_recognised(retold, is_single=only != "encoder-decoder")
        found |= {step.id: KERNELS[step.op] for step in flow.steps if step.op in KERNELS}
        kind, number = flow.one_pass.kind, flow.one_pass.number
        roles[f"{kind}{number or ''}"] = found
    return roles


def retell_alone(read: ReadPass) -> Retold:
    """Attentions that stand on no residual stream, each as a block of its own."""
    told = Retold(read.flow)
    for number, site in enumerate(read.sites):
        name = "self_attention" if site.kind == "self" else "cross_attention"
        retell_attention(told, f"alone.layers.{number}.{name}", site, (), ())
    return told


def tell_recognised(told: Retold, *, is_single: bool) -> dict[str, str]:
    """The roles of the steps that a retelling is made of; what only helps another step is told as a part of it."""
    paths: dict[str, set[str]] = {}
    for path, origin in told.origins.items():
        paths.setdefault(origin.id, set()).add(path)
    words = {origin: tell_paths(found, told.norm_first, is_single=is_single) for origin, found in paths.items()}
    for place, path in told.owners.items():
        step, main = told.flow.steps[place], told.origins[path]
        if step.id not in paths and words.get(main.id):
            words[step.id] = f"part of: {words[main.id]}"
    return {identity: text for identity, text in words.items() if text}


def tell_paths(paths: set[str], first: set[str], *, is_single: bool) -> str:
    """The words for a step that stands for one canonical path or several."""
    names = {path.rsplit(".", 1)[-1] for path in paths}
    if {"query", "key", "value"} <= names:
        return SHARED
    if {"key", "value"} <= names:
        return CROSSING_TWO if any("cross_attention" in path for path in paths) else SHARED_TWO
    return tell_path(max(paths, key=lambda path: (len(path), path)), first, is_single=is_single)


def tell_path(path: str, first: set[str], *, is_single: bool) -> str:
    """The words for one canonical path."""
    if path in WHOLE:
        return WHOLE[path]
    parts = path.split(".")
    if len(parts) > 2 and parts[1] == "embedding":
        return EMBEDDING.get(parts[2], "")
    if len(parts) < 3 or parts[1] != "layers":
        return ""
    side = "" if is_single or parts[0] == "alone" else f"{parts[0]} "
    if len(parts) == 3:
        return f"{side}layer {int(parts[2]) + 1}"
    name = parts[3]
    for sublayer, words in SUBLAYERS.items():
        if name == sublayer:
            inner = ".".join(parts[4:])
            return tell_sublayer(sublayer, inner, side)
        if name == f"{sublayer}_add":
            return f"residual sum after {words}"
        if name == f"{sublayer}_norm":
            when = "before" if ".".join(parts[:3]) in first else "after"
            return f"norm {when} {words}"
        if name == f"{sublayer}_dropout":
            return f"dropout after {words}"
    return ""


def tell_sublayer(sublayer: str, inner: str, side: str) -> str:
    """The words for a sublayer, or for a part of it."""
    if not inner:
        return f"{side}{SUBLAYERS[sublayer]}"
    if sublayer == "feed_forward":
        return FORWARD.get(inner, "")
    words = ATTENTION.get(inner) or ATTENTION.get(inner.rsplit("_", 1)[0], "")
    if sublayer == "cross_attention" and inner in ("key", "value", "query"):
        return CROSSING[inner]
    return words


def tell_generic(flow: Flow) -> Iterator[tuple[str, str]]:
    """What common operations do whatever they are part of, where their shapes leave no doubt."""
    for place, step in enumerate(flow.steps):
        if flow.is_leaf(place) and step.inputs and step.outputs and not step.error:
            words = tell_operation(step)
            if words:
                yield step.id, words


def tell_operation(step: Step) -> str:
    """The words for one operation; empty where it could be several things."""
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if step.op in ("split", "chunk", "tensor_split", "split_with_sizes", "unbind") and len(step.outputs) > 1:
        return f"split in {len(step.outputs)}"
    if step.op in JOINS and len(step.inputs) > 1:
        return f"join {len(step.inputs)} tensors"
    if step.op in ("expand", "expand_as", "broadcast_to") and before != after:
        return "broadcast"
    if step.op in TURNS and len(before) > 1:
        return "swap axes"
    if step.op == "flatten" and len(after) < len(before):
        return "flatten"
    if step.op in ("squeeze", "unsqueeze"):
        return (
            "drop an axis of size 1"
            if len(after) < len(before)
            else "add an axis of size 1"
            if len(after) > len(before)
            else ""
        )
    if step.op in CASTING and step.inputs[0].dtype != step.outputs[0].dtype:
        return f"cast to {step.outputs[0].dtype}"
    if step.op in DROPOUTS:
        return "dropout"
    if step.op in LOOKUPS:
        return "look up rows of a table"
    return ""
