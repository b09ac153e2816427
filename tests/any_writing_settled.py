"""Which ways to write parts of a transformer go together."""

from typing import Any

from any_writing import PLAIN, Writing

Told = dict[str, Any]


def settle(choices: dict[str, object]) -> Writing:
    """A writing of some choices, where those that cannot stand together with others are the plainest."""
    told = {**vars(PLAIN), **choices}
    for rule in (
        settle_kind,
        settle_product,
        settle_projection,
        settle_sharing,
        settle_scores,
        settle_caches,
        settle_masks,
        settle_layers,
    ):
        rule(told)
    return Writing(**told)


def make_plain(told: Told, *names: str) -> None:
    """Settles some on what is plainest."""
    told.update({name: getattr(PLAIN, name) for name in names})


def settle_kind(told: Told) -> None:
    """What there is to look at."""
    if told["kind"] == "encoder" and told["mask"] in ("causal", "causal padding", "window", "packed"):
        told["mask"] = {"causal": "none", "window": "sides"}.get(told["mask"], "padding")
    if told["kind"] == "both" and told["mask"] == "cut":
        make_plain(told, "mask")
    if told["kind"] != "beside":
        make_plain(told, "context", "context_norm")
    if told["kind"] not in ("both", "beside"):
        make_plain(told, "crossing_norm")


def settle_product(told: Told) -> None:
    """What goes with each way to multiply queries by keys."""
    product = told["product"]
    if product == "module":
        make_plain(told, "sharing", "projection", "scale", "extra", "softmax", "head_norm", "cache", "context")
        told["head_width"] = told["width"] // told["heads"]
        if told["positions"].startswith("rotary"):
            make_plain(told, "positions")
    if told["mask"] == "cut":
        if product in ("heads last", "sdpa", "module", "baddbmm", "letters"):
            make_plain(told, "product")
        if told["extra"] != "cap":
            make_plain(told, "extra")
        make_plain(told, "cache", "layout")  # else it is not known which axis of a stream its places are
    if told["product"] not in ("matmul", "einsum"):
        make_plain(told, "merged")
    if told["merged"] and told["extra"] != "cap":
        make_plain(told, "extra")


def settle_projection(told: Told) -> None:
    """What goes with each way to make queries, keys and values."""
    projection = told["projection"]
    if projection in ("each head", "head modules"):
        make_plain(told, "sharing", "extra", "head_norm", "cache", "merged")
        if told["product"] in ("baddbmm", "letters", "heads last", "module"):
            make_plain(told, "product")
        if told["mask"] == "cut":
            make_plain(told, "mask")
    apart = ("three", "split", "einsum", "functional")
    if projection not in apart or told["product"] in ("module", "baddbmm"):
        make_plain(told, "value_width")


def settle_sharing(told: Told) -> None:
    """What goes with keys and values that several heads share."""
    if told["heads"] % told["sharing"] or told["product"] not in ("matmul", "sdpa"):
        make_plain(told, "sharing")
    if told["sharing"] > 1 and told["projection"] in ("chunk", "unbind", "by head", "packed", "addmm"):
        make_plain(told, "projection")
    if told["grouping"] == "one head" and told["heads"] > 1 and told["product"] in ("matmul", "sdpa"):
        told["sharing"] = told["heads"]
        make_plain(told, "merged")
        if told["projection"] not in ("three", "split", "einsum", "functional"):
            make_plain(told, "projection")
    if told["sharing"] == 1 or told["product"] != "matmul":
        make_plain(told, "grouping")
    if told["grouping"] == "einsum":
        make_plain(told, "merged")
        if told["mask"] == "cut":
            make_plain(told, "grouping")


def settle_scores(told: Told) -> None:
    """What goes with each way to work on scores."""
    whole = ("sdpa", "module", "baddbmm")
    if told["grouping"] == "einsum" or told["product"] in ("sdpa", "module"):
        make_plain(told, "softmax")
    if told["product"] in whole and told["extra"] in ("cap", "rows", "skewed"):
        make_plain(told, "extra")
    if told["grouping"] == "einsum" and told["extra"] in ("rows", "skewed"):
        make_plain(told, "extra")
    if told["product"] in whole and told["hiding"] in ("where", "in place", "index put", "zeros of tril"):
        make_plain(told, "hiding")
    if told["positions"] == "rotary complex" and told["layout"] == "places first":
        make_plain(told, "layout")
    if not told["positions"].startswith("rotary") or told["head_width"] % 4:
        make_plain(told, "turned")


def settle_caches(told: Told) -> None:
    """What goes with keys of earlier places."""
    if told["kind"] == "both" or told["mask"] not in ("causal", "none"):
        make_plain(told, "cache")
    if told["extra"] == "skewed" and (told["cache"] != "none" or told["kind"] == "both"):
        make_plain(told, "extra")
    if told["shared"]:
        make_plain(told, "cache")


def settle_masks(told: Told) -> None:
    """What goes with each way to hide places."""
    is_one = told["mask"] == "causal" and told["extra"] == "none" and told["cache"] == "none"
    if told["hiding"] == "is_causal" and not (is_one and told["product"] == "sdpa"):
        make_plain(told, "hiding")
    if told["hiding"] == "buffer" and (told["mask"] not in ("causal", "window") or told["cache"] != "none"):
        make_plain(told, "hiding")
    if told["hiding"] in ("zeros of tril", "triu") and (told["mask"] != "causal" or told["cache"] == "whole"):
        make_plain(told, "hiding")
    if told["hiding"] == "index put" and (
        told["mask"] not in ("causal", "window", "sides", "prefix", "blocks") or told["grouping"] == "einsum"
    ):
        make_plain(told, "hiding")
    if told["mask"] in ("none", "cut") or told["hiding"] in ("buffer", "is_causal", "zeros of tril", "triu"):
        make_plain(told, "mask_given")


def settle_layers(told: Told) -> None:
    """What goes with each way to put sublayers together."""
    is_alone = told["norm_place"] in ("before", "none") and told["kind"] not in ("both", "beside")
    if told["parallel"] != "no" and not is_alone:
        make_plain(told, "parallel")
    if told["feed_forward"] == "none":
        make_plain(told, "parallel", "gated", "curve", "swell")
        told["layers"] = max(2, told["layers"])  # a norm behind the only sum of all is taken for the last one
        if told["token_shift"] in ("feed-forward", "both"):
            make_plain(told, "token_shift")
    if told["norm_place"] != "before":
        make_plain(told, "crossing_norm")
    if told["parallel"] == "one norm":
        make_plain(told, "token_shift")
    if told["layers"] < 2 or told["shared"] or told["kind"] == "both":
        make_plain(told, "skips")
    if told["batch"] == told["length"] == 1 and told["curve"] == "gelu tanh by hand":
        make_plain(told, "curve")  # whose sum of one row is taken for a sum of the stream
    if told["head"] != "vocabulary":
        make_plain(told, "tied")
