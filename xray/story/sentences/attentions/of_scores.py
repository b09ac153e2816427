"""What the card says of scores of attentions, and of the weights that softmax makes of them."""

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branch_words import (
    EARLIER_SCORES,
    NORMS,
)
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.where import (
    attentions,
    list_unknown,
    of_some,
    tell_counts,
    tell_where,
)


def describe_sinks(anatomy: Anatomy) -> str:
    words = "a learned score stands beside the keys and takes a share of the weights."
    return of_some(anatomy, lambda branch: branch.sinks, words, "Sinks: ")


def describe_kernel(anatomy: Anatomy) -> str:
    found = [branch.kernel not in (None, "plain") for branch in attentions(anatomy)]
    start = "Attention runs" if all(found) and not list_unknown(anatomy) else "Some attentions run"
    inside = "what is marked “derived” happens inside; its shape follows from Q, K, V"
    return f"{start} in one kernel: {inside}. Only what comes out is stored." if any(found) else ""


def describe_unscaled(anatomy: Anatomy) -> str:
    return of_some(anatomy, lambda branch: branch.unscaled, "scores are not divided by √d_k.")


def describe_earlier_scores(anatomy: Anatomy) -> str:
    found = sorted({branch.earlier_scores for branch in attentions(anatomy) if branch.earlier_scores})
    told = " or ".join(EARLIER_SCORES[one] for one in found)
    return of_some(anatomy, lambda branch: branch.earlier_scores, f"{told} are added to the own ones.")


def describe_mixed_scores(anatomy: Anatomy) -> str:
    words = "a learned table mixes the scores of all heads at each pair of places, before softmax."
    return of_some(anatomy, lambda branch: branch.mixed_heads in ("before", "both"), words, "Talking heads: ")


def describe_mixed_weights(anatomy: Anatomy) -> str:
    mixed = [branch for branch in attentions(anatomy) if mixes_weights(branch)]
    norms = {branch.mixed_norm for branch in mixed}
    norm = norms.pop() if len(norms) == 1 else None
    over = "each head by itself" if norm == "batch" else "all heads"
    behind = f"; a {NORMS[norm]} over {over} follows" if norm else ""
    words = (
        f"a learned table mixes the weights of all heads at each pair of places, behind softmax{behind}. Then a row of"
        " them need not sum to 1."
    )
    is_named = any(branch.mixed_heads in ("before", "both") for branch in attentions(anatomy))
    return of_some(anatomy, mixes_weights, words, "" if is_named else "Talking heads: ")


def mixes_weights(branch: Attention) -> bool:
    """Whether what softmax gives is mixed across heads."""
    return branch.mixed_heads in ("behind", "both")


def describe_kept_scores(anatomy: Anatomy) -> str:
    many, _ = tell_counts(anatomy, lambda branch: branch.kept_scores)
    words = f"each place keeps the {many} highest of its scores in each head; the others are hidden before softmax."
    return of_some(anatomy, lambda branch: branch.kept_scores, words)


def describe_cap(anatomy: Anatomy) -> str:
    caps = sorted({branch.cap for branch in attentions(anatomy) if branch.cap})
    if not caps:
        return ""
    where = (tell_where(anatomy, lambda branch: branch.cap) or "").replace(" in ", " of ")
    numbers = " or ".join(f"{cap:g}" for cap in caps)
    return f"Scores{where} are capped before softmax: none passes {numbers}, by tanh."
