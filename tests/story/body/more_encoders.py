"""More encoders, of words, sound and series of numbers, some with decoders. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.pairs import of_bart
from story.body.truth import (
    Silent,
    after,
    attention,
    both,
    columned,
    corners,
    encoder_only,
    entrance,
    family,
    gated,
    group,
    left_out,
    looks_both_ways,
    memory,
    network,
    plain,
    post,
    pre,
    tower,
    words,
)

from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Head, Norm, Stage

TWO = {"num_hidden_layers": 2}
LAST = ["sliding_attention", "sliding_attention", "full_attention"]
LAYERS = {"encoder_layers": 2, "decoder_layers": 2}


def of_bert(c, *, head=True, attend=None, tied=True, parts=None):
    parts = parts or (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm")
    found = encoder_only(
        c, post("layer", attend or looks_both_ways(c)), post("layer", plain(c)), final=None, parts=parts, tied=tied
    )
    return found if head else replace(found, head=Head("none"))


@family("EsmcForMaskedLM", "esmc:180, 248", named=True, **TWO)
def esmc(c):
    # each branch is divided by the root of layers / 36 before it is added (line 279)
    attend = looks_both_ways(c, positions="rotary", qk_norm=True, qk_norm_over="width", qk_norm_kind="layer")
    stages = (replace(pre("layer", one), scale="number") for one in (attend, gated(c)))
    return encoder_only(c, *stages, final="layer", tied=False)


@family("EuroBertForMaskedLM", "eurobert:135, 218", named=True, **TWO)
def eurobert(c):
    attend = looks_both_ways(c, positions="rotary")
    return encoder_only(c, pre("rms", attend), pre("rms", gated(c)), final="rms", tied=False)


@family("EmbeddingGemma2TextModel", "embedding_gemma2:203, 357, 409", named=True, num_hidden_layers=3, layer_types=LAST)
def embedding_gemma2_text(c):
    # the last layer has heads twice as wide, of which one has keys; rows made of the words are let through by a gate
    near = looks_both_ways(
        c,
        d_k=256,
        d_v=256,
        kv_heads=2,
        positions="rotary",
        qk_norm=True,
        v_norm=True,  # modeling_embedding_gemma2.py:348, 366
        unscaled=True,
        sliding_window=c.sliding_window,
    )
    far = replace(near, d_k=512, d_v=512, kv_heads=1, sliding_window=None)
    rows = plain(c, d_ff=c.hidden_size_per_layer_input, gated=None, gates_beside=True)
    beside = replace(after("rms", rows), stream_scale="after")
    groups = tuple(
        group(places, c.hidden_size, both("rms", attend), both("rms", gated(c)), beside)
        for places, attend in (((0, 1), near), ((2,), far))
    )
    found = encoder_only(c, groups=groups, final="rms", parts=("scale",))
    return replace(found, towers=(replace(found.towers[0], conditioned=("gates",)),), head=Head("none"))


@family("UltrabertForMaskedLM", "ultrabert:223, 293", named=True, num_hidden_layers=3)
def ultrabert(c):
    # two of three layers have a window, wider than ten places, of which kernels are told as of one more (line 223)
    whole = looks_both_ways(c, positions="rotary")
    local = replace(whole, sliding_window=c.sliding_window)
    layers = (
        group(places, c.hidden_size, pre("rms", attend), pre("rms", gated(c)))
        for places, attend in (((0, 1), local), ((2,), whole))
    )
    return encoder_only(c, groups=tuple(layers), final="rms", tied=False)


@family("GteForMaskedLM", "gte:195, 267", named=True, **TWO)
def gte(c):
    parts = (f"table {c.type_vocab_size}", "norm")
    attend = looks_both_ways(c, positions="rotary")
    return encoder_only(c, post("layer", attend), post("layer", gated(c)), final=None, parts=parts)


@family("BertGenerationDecoder", "bert_generation:89, 295", named=True, **TWO)
def bert_generation(c):
    # it hides nothing unless it is told to be a decoder
    return of_bert(c, parts=(f"positions {c.max_position_embeddings}", "norm"))


@family("BrosModel", "bros:183, 331", named=True, **TWO)
def bros(c):
    # how far boxes are apart meets the queries in a product, and is added to the scores (line 247); bbox tells it (121)
    near = {"positions": "relative", "places_by_rows": True, "places_of": "bbox"}
    return of_bert(c, head=False, attend=looks_both_ways(c, **near, kernel="plain"))


@family("BlenderbotSmallForConditionalGeneration", "blenderbot_small:116, 234, 286", named=True, **LAYERS)
def blenderbot_small(c):
    return of_bart(c, post, parts=(f"positions {c.max_position_embeddings}", "norm"), final=None)


@family("DiaForConditionalGeneration", "dia:258, 320, 394, 484, 828", named=True)
def dia(c):
    # a table holds the words of all channels of sound, one behind the other; their scores are cut up (line 828)
    read, speak = c.encoder_config, c.decoder_config
    think = gated(read, fused=True)
    look = looks_both_ways(read, positions="rotary", unscaled=True)
    layers = group(read.num_hidden_layers, read.hidden_size, pre("rms", look), pre("rms", think))
    encode = tower(read, "encoder", "ids", False, words(read), (layers,), "rms")
    ask = looks_both_ways(
        speak,
        source="encoder",
        heads=speak.cross_num_attention_heads,
        kv_heads=speak.cross_num_key_value_heads,
        d_k=speak.cross_head_dim,
        unscaled=True,
    )
    stages = (pre("rms", attention(speak, unscaled=True)), pre("rms", ask), pre("rms", gated(speak, fused=True)))
    layers = group(speak.num_hidden_layers, speak.hidden_size, *stages)
    rows = speak.vocab_size * speak.num_channels
    decode = tower(speak, "decoder", "ids", True, entrance(f"words {rows}"), (layers,), "rms", vocab=rows)
    return network(encode, decode, links=(memory("encoder", "decoder"),))


def of_conformer(c):
    """Feed-forwards of half weight around attention and convolution; a norm ends each layer (Parakeet)."""
    think = Stage((plain(c),), False, Norm("layer", "before", None, False), "number")
    last = Stage((plain(c),), False, Norm("layer", "both", "stream", False), "number")
    look = pre("layer", looks_both_ways(c, positions="relative", places_by_rows=True))
    mix = pre("layer", Convolution((c.conv_kernel_size,), c.hidden_size))
    return group(c.num_hidden_layers, c.hidden_size, think, look, mix, last)


@family("CohereAsrForConditionalGeneration", "cohere_asr:99, 244; parakeet:255, 419", named=True, **TWO)
def cohere_asr(c):
    # what the encoder gives is made as wide as the decoder between them
    hear = c.encoder_config
    parts = entrance(f"convolution {hear.subsampling_conv_channels}", f"projection {hear.hidden_size}")
    encode = tower(hear, "encoder", "audio", False, parts, (of_conformer(hear),), None)
    ask = looks_both_ways(c, source="encoder")
    stages = (pre("layer", attention(c, positions="none")), pre("layer", ask), pre("layer", plain(c)))
    parts = words(c, f"positions {c.max_position_embeddings}", "norm")
    decode = tower(c, "decoder", "ids", True, parts, (group(2, c.hidden_size, *stages),), "layer")
    found = network(encode, decode, links=(memory("encoder", "decoder"),), head=Head("vocabulary", c.vocab_size, False))
    return replace(found, untold=left_out("model.decoder.proj"))


@family("DecisionTransformerModel", "decision_transformer:69, 242", named=True, n_layer=2)
def decision_transformer(c):
    # states, actions and returns go through linear layers; the place in time is looked up, and no word is
    attend = attention(c, heads=c.n_head, d_k=c.hidden_size // c.n_head, positions="none", fused="qkv")
    think = plain(c, d_ff=4 * c.hidden_size)
    projections = [f"projection {c.hidden_size}"] * 3
    parts = entrance(*projections, f"table {c.max_ep_len}", "norm", f"table {c.n_positions}")
    layers = group(2, c.hidden_size, pre("layer", attend), pre("layer", think))
    rows = tower(c, "stack", "vectors", True, parts, (layers,), "layer", vocab=None)
    return replace(network(rows), head=Silent("states, actions and returns"))


@family("JinaEmbeddingsV3ForMaskedLM", "jina_embeddings_v3:198, 265", named=True, **TWO)
def jina_embeddings_v3(c):
    attend = looks_both_ways(c, positions="rotary")
    return of_bert(c, attend=attend, parts=(f"table {c.type_vocab_size}", "norm"))


@family("MegatronBertForMaskedLM", "megatron_bert:50, 102, 266", named=True, **TWO)
def megatron_bert(c):
    # norms stand before the branches, and no norm behind the tables (line 60)
    parts = (f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}")
    attend = looks_both_ways(c, kernel="plain")
    return encoder_only(c, pre("layer", attend), pre("layer", plain(c)), final="layer", parts=parts)


@family("LayoutLMForMaskedLM", "layoutlm:48, 146, 270", named=True, **TWO)
def layoutlm(c):
    # four tables hold where a box begins and ends, across and down, and how high and wide it is: no words
    parts = (f"positions {c.max_position_embeddings}", *corners(c), f"table {c.type_vocab_size}", "norm")
    return of_bert(c, parts=parts)


def by_hand(c, **sizes):
    """Attention as its steps, and in no kernel."""
    return looks_both_ways(c, kernel="plain", **sizes)


@family("IBertForMaskedLM", "ibert:206, 356", named=True, **TWO)
def ibert(c):
    # norms are written out (quant_modules:461); no module says which linear layer has which weights
    layers = group(c.num_hidden_layers, c.hidden_size, post("layer", by_hand(c)), post("layer", plain(c)))
    parts = f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings}", "norm"
    return encoder_only(c, groups=(replace(layers, shared=False),), final=None, parts=parts)


@family("NystromformerForMaskedLM", "nystromformer:160, 244", named=True, **TWO)
def nystromformer(c):
    # with as many landmarks as places in a segment it is plain attention; places begin at row 2 of their table
    parts = f"table {c.type_vocab_size}", f"positions {c.max_position_embeddings + 2}", "norm"
    return of_bert(c, attend=by_hand(c, convolved=c.conv_kernel_size), parts=parts)


@family("ConvBertForMaskedLM", "convbert:142, 275", named=True, **TWO)
def convbert(c):
    # half of the heads are a convolution's, whose weights are softmax of a linear layer (line 203)
    heads = c.num_attention_heads // c.head_ratio
    width = c.hidden_size // c.num_attention_heads
    attend = by_hand(c, heads=heads, kv_heads=heads, d_k=width, d_v=width, mixed_anew=c.conv_kernel_size)
    parts = f"positions {c.max_position_embeddings}", f"table {c.type_vocab_size}", "norm"
    return of_bert(c, attend=attend, parts=parts)


@family("TapasForMaskedLM", "tapas:147, 246", named=True, **TWO)
def tapas(c):
    kinds = (columned("token_type_ids", size, (column,)) for column, size in enumerate(c.type_vocab_sizes))
    return of_bert(c, attend=by_hand(c), parts=(f"positions {c.max_position_embeddings}", *kinds, "norm"))
