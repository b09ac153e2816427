"""Encoders that read words both ways. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.truth import (
    Silent,
    bare,
    encoder_only,
    entrance,
    family,
    gated,
    group,
    looks_both_ways,
    looks_by_distance,
    network,
    plain,
    post,
    pre,
    tower,
)

from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import FourierMixing, Projection
from xray.story.anatomy.tree import Head, Norm, Stage


def learned_places(c, *more):
    return (*more, f"positions {c.max_position_embeddings}")


@family("BertForMaskedLM", "bert:139, 354", num_hidden_layers=2, fast=True)
def bert(c):
    parts = (f"table {c.type_vocab_size}", f"learned positions {c.max_position_embeddings}", "norm")
    return encoder_only(c, post("layer", looks_both_ways(c)), post("layer", plain(c)), final=None, parts=parts)


@family("RobertaForMaskedLM", "roberta:186, 401", num_hidden_layers=2)
def roberta(c):
    parts = (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm")
    return encoder_only(c, post("layer", looks_both_ways(c)), post("layer", plain(c)), final=None, parts=parts)


@family("XLMRobertaForMaskedLM", "xlm_roberta:186, 401", num_hidden_layers=2)
def xlm_roberta(c):
    return roberta(c)


@family("CamembertForMaskedLM", "camembert:186, 401", num_hidden_layers=2)
def camembert(c):
    return roberta(c)


@family("DistilBertForMaskedLM", "distilbert:149, 226", n_layers=2)
def distilbert(c):
    think = plain(c, d_ff=c.hidden_dim)
    parts = (f"learned positions {c.max_position_embeddings}", "norm")
    return encoder_only(c, post("layer", looks_both_ways(c)), post("layer", think), final=None, parts=parts)


@family("AlbertForMaskedLM", "albert:138, 203", num_hidden_layers=3)
def albert(c):
    parts = (
        f"table {c.type_vocab_size}",
        f"positions {c.max_position_embeddings}",
        "norm",
        f"projection {c.hidden_size}",
    )
    stages = (post("layer", looks_both_ways(c)), post("layer", plain(c)))
    one = group(c.num_hidden_layers, c.hidden_size, *stages, shared=True)
    return encoder_only(c, groups=(one,), final=None, parts=parts)


@family("ElectraForMaskedLM", "electra:146, 367", num_hidden_layers=2)
def electra(c):
    parts = (
        f"table {c.type_vocab_size}",
        f"positions {c.max_position_embeddings}",
        "norm",
        f"projection {c.hidden_size}",
    )
    return encoder_only(c, post("layer", looks_both_ways(c)), post("layer", plain(c)), final=None, parts=parts)


@family("FNetForMaskedLM", "fnet:138, 228", num_hidden_layers=2)
def fnet(c):
    parts = (
        f"table {c.type_vocab_size}",
        f"positions {c.max_position_embeddings}",
        "norm",
        f"projection {c.hidden_size}",
    )
    mix = FourierMixing(places=10, features=True)
    return encoder_only(c, post("layer", mix), post("layer", plain(c)), final=None, parts=parts, causal=None)


@family("ModernBertForMaskedLM", "modernbert:212, 293", num_hidden_layers=6, local_attention=4)
def modernbert(c):
    # the first norm is left out, as what goes into it is normalised already
    whole, local = (looks_both_ways(c, positions="rotary", fused="qkv", window=window) for window in (None, 5))
    think = pre("layer", gated(c, fused=True))
    groups = (
        group(1, c.hidden_size, bare(whole), think),
        group((1, 2), c.hidden_size, pre("layer", local), think),
        group((3,), c.hidden_size, pre("layer", whole), think),
        group((4, 5), c.hidden_size, pre("layer", local), think),  # taken up again once: in their order
    )
    return encoder_only(c, groups=groups, final="layer", parts=("norm",))


@family("NomicBertForMaskedLM", "nomic_bert:197, 264", num_hidden_layers=2)
def nomic_bert(c):
    parts = (f"table {c.type_vocab_size}", "norm")
    attend = looks_both_ways(c, positions="rotary")
    return encoder_only(c, post("layer", attend), post("layer", gated(c)), final=None, parts=parts)


@family("MPNetForMaskedLM", "mpnet:115, 234", num_hidden_layers=2, named=True)
def mpnet(c):
    parts = (f"positions {c.max_position_embeddings}", "norm")
    attend = looks_both_ways(c, positions="relative", kernel="plain")
    return encoder_only(c, post("layer", attend), post("layer", plain(c)), final=None, parts=parts)


@family(
    "RoFormerForMaskedLM",
    "roformer:115, 323",
    num_hidden_layers=2,
    hidden_size=48,
    embedding_size=48,
    num_attention_heads=3,
    intermediate_size=77,
    tiny=True,
)
def roformer(c):
    parts = (f"table {c.type_vocab_size}", "norm")
    attend = looks_both_ways(c, positions="rotary", kernel="plain")
    return encoder_only(c, post("layer", attend), post("layer", plain(c)), final=None, parts=parts)


@family(
    "EsmForMaskedLM",
    "esm:313, 458",
    vocab_size=33,
    num_hidden_layers=2,
    position_embedding_type="rotary",
    pad_token_id=1,
    mask_token_id=32,
)
def esm(c):
    return encoder_only(
        c,
        pre("layer", looks_both_ways(c, positions="rotary")),
        pre("layer", plain(c, activation="gelu")),
        final="layer",
    )


@family(
    "XLNetLMHeadModel",
    "xlnet:38, 308",
    n_layer=2,
    d_model=48,
    n_head=3,
    d_inner=77,
    vocab_size=131,
    tiny=True,
)
def xlnet(c):
    # without a target mapping every place sees every other; places come first, sequences second
    # what goes into each layer is handed out, to be remembered: behind the first one too (line 1043)
    attend = looks_both_ways(c, heads=c.n_head, d_k=c.d_head, positions="relative", places_by_rows=True, kernel="plain")
    think = plain(c, d_ff=c.d_inner, activation="gelu")
    found = encoder_only(c, post("layer", attend), post("layer", think), final=None)
    (text,) = found.towers
    return replace(found, towers=(replace(text, tapped=(0,)),))


@family(
    "DebertaV2ForMaskedLM",
    "deberta_v2:131, 410",
    num_hidden_layers=2,
    hidden_size=48,
    num_attention_heads=3,
    intermediate_size=77,
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    position_biased_input=False,
    tiny=True,
)
def deberta_v2(c):
    attend = looks_both_ways(c, positions="relative", places_by_rows=True, kernel="plain")
    return encoder_only(c, post("layer", attend), post("layer", plain(c)), final=None, parts=("norm",))


@family("FunnelForMaskedLM", "funnel:61, 506", block_sizes=[2, 2], num_decoder_layers=1)
def funnel(c):
    # the second block sees half as many places, which are pooled before it (line 277), by a mask that is pooled as
    # well; its first layer looks at all that there were before (line 570); the decoder sees all again
    sizes = {"heads": c.n_head, "d_k": c.d_head, "positions": "relative", "places_by_rows": True, "kernel": "plain"}
    think = post("layer", plain(c, d_ff=c.d_inner))
    seen, pooled = (post("layer", looks_both_ways(c, **sizes, causal=causal)) for causal in (False, Silent(False)))
    before, behind = (group(layers, c.d_model, seen, think) for layers in ((0, 1), (4,)))
    halving = group((2,), c.d_model, post("layer", looks_both_ways(c, **sizes, longer_keys=True)), think)
    groups = (before, halving, group((3,), c.d_model, pooled, think), behind)
    found = encoder_only(c, groups=groups, final=None, parts=("norm",), causal=Silent(False))
    bridges = (Bridge(2, 2, c.d_model, c.d_model), Bridge(4, None, c.d_model, c.d_model))  # rows spread out: line 627
    return replace(found, towers=(replace(found.towers[0], bridges=bridges),))


@family("MobileBertForMaskedLM", "mobilebert:171, 321, 407", num_hidden_layers=2)
def mobilebert(c):
    # its norms are scales with shifts, which normalise nothing; between a linear layer down to a quarter and one up
    # again stand an attention and feed-forwards, each with a sum of its own
    width = c.intra_bottleneck_size
    attend = looks_both_ways(c, d_k=width // c.num_attention_heads)
    think = (plain(c),) * c.num_feedforward_networks
    whole = Stage(
        (Projection(width, 2), attend, *think, Projection(c.hidden_size)),
        False,
        Norm(None, "none", None, None),
        stream_scale="learned after",
    )
    parts = (
        f"projection {c.hidden_size}",
        f"positions {c.max_position_embeddings}",
        f"table {c.type_vocab_size}",
        "scale",
    )
    # its head is the table of the words and another one beside it
    return encoder_only(c, groups=(group(2, c.hidden_size, whole),), final=None, parts=parts, tied=Silent(True))


@family("BigBirdForMaskedLM", "big_bird:153, 1209", named=True, num_hidden_layers=2)
def big_bird(c):
    # ten places are too few for its blocks, so that every place looks at every other (line 1342)
    parts = (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm")
    attend = looks_both_ways(c, kernel="plain")
    return encoder_only(c, post("layer", attend), post("layer", plain(c)), final=None, parts=parts)


@family("LongformerForMaskedLM", "longformer:482, 1123", named=True, num_hidden_layers=2)
def longformer(c):
    # scores lie in columns of distances: each place sees half a window on each side (longformer:482)
    attend = looks_by_distance(c, c.num_attention_heads, c.hidden_size, c.attention_window)
    parts = (f"positions {c.max_position_embeddings}", f"table {c.type_vocab_size}", "norm")
    return encoder_only(
        c,
        post("layer", attend),
        post("layer", plain(c)),
        final=None,
        parts=parts,
    )


def of_xlm(c):
    # padding is multiplied by 0 behind each layer (xlm:854, flaubert:922)
    attend = looks_both_ways(c, heads=c.n_heads, d_k=c.emb_dim // c.n_heads, kernel="plain")
    think = plain(c, d_ff=4 * c.emb_dim, activation="gelu")
    stages = post("layer", attend), replace(post("layer", think), cleared=True)
    groups = (group(c.n_layers, c.emb_dim, *stages),)
    text = tower(
        c,
        "text",
        "ids",
        False,
        entrance(f"words {c.n_words}", f"positions {c.max_position_embeddings}", "norm"),
        groups,
        None,
        vocab=c.n_words,
    )
    return network(text, head=Head("vocabulary", c.n_words, True))


@family("XLMWithLMHeadModel", "xlm:508, 736", named=True, n_layers=2)
def xlm(c):
    return of_xlm(c)


@family("FlaubertWithLMHeadModel", "flaubert:98, 764", named=True, n_layers=2)
def flaubert(c):
    return of_xlm(c)


@family("Data2VecTextForMaskedLM", "data2vec_text:181, 399", named=True, num_hidden_layers=2)
def data2vec_text(c):
    return roberta(c)


@family("DebertaForMaskedLM", "deberta:192, 487", named=True, num_hidden_layers=2)
def deberta(c):
    # without relative attention, which is off by default
    attend = looks_both_ways(c, kernel="plain", fused="qkv", positions=Silent("none"))
    parts = (f"positions {c.max_position_embeddings}", "norm")
    return encoder_only(c, post("layer", attend), post("layer", plain(c)), final=None, parts=parts)
