"""Stations 1 to 3: the question comes in, its words look at each other, each is thought over alone."""

from math import sqrt

from xray.story.chapters import Answer, Chapter, Text
from xray.story.debates import BEGINNERS, debate_mask_value, debate_norm, debate_padding_rows, debate_question_tokens
from xray.story.scene import PADDING, Scene, count, quote
from xray.story.telling import attention_paths, feed_forward_paths, layers_in_words, make_chapter, tell_range
from xray.story.telling import tell_strongest as strongest


def tell_question_in(scene: Scene) -> Chapter:
    """Station 1: words, ids, vectors, places, and a note of what is only filler."""
    width, vocabulary = scene.size("d_model"), scene.trace.sizes.get("src_vocab", 0)
    ids = scene.shape("tokenize.src")
    arrival: Text
    if scene.is_training:
        rows = scene.question.tokens.get("src", ())
        arrival = (
            f"{count(len(rows), 'question')} come in together. They differ in length, so the shorter ones are filled "
            "up "
            f"with {PADDING}: ",
            ids,
            f". The first is {quote(scene.real_words('src'))}{tell_filler(scene)}.",
        )
    else:
        arrival = (f"One question comes in, {quote(scene.words('src'))}: ", ids, ". Alone it needs no filler.")
    text: list[Text] = [
        arrival,
        (
            f"Every word is a number, and the number picks a row from a table of {vocabulary:,} rows. What was ",
            ids,
            " is now ",
            scene.shape("encoder.embedding.words"),
            f": {width} numbers for each word, learnt like all other weights.",
        ),
        (
            "Nothing so far says which word came first, and attention would not notice if they were shuffled. So a "
            "fixed "
            "pattern is added for every place: ",
            scene.shape("encoder.embedding.positions"),
            ", the same for every question (hence the 1). The shape stays ",
            scene.shape("encoder.embedding.add"),
            ".",
        ),
    ]
    answers = (answer_mask_here(scene), answer_embedding_scale(scene), answer_sharing(scene))
    paths = (
        "tokenize.src",
        "src_mask",
        "encoder.embedding.words",
        "encoder.embedding.scale",
        "encoder.embedding.positions",
        "encoder.embedding.add",
    )
    return make_chapter(scene, 1, text, answers, (debate_question_tokens(scene),), paths)


def tell_filler(scene: Scene) -> str:
    """How much filler follows the first question."""
    pads = len(scene.words("src")) - len(scene.real_words("src"))
    return f" and {pads} times {PADDING}" if pads else ""


def answer_mask_here(scene: Scene) -> Answer:
    mask = scene.shape("src_mask")
    hidden = mask.mask.hidden_share if not isinstance(mask, str) and mask.mask is not None else 0.0
    found = f"here it hides {hidden:.0%} of the tokens" if hidden else "here it hides nothing"
    return Answer(
        "Why is a mask made before anything has happened?",
        (
            f"Because only now can we still see which tokens are {PADDING}; later all are vectors. The mask ",
            mask,
            f" says of each token whether it may be looked at; {found}. Its ones stretch it over every head and every "
            "query without copying it.",
        ),
    )


def answer_embedding_scale(scene: Scene) -> Answer:
    width = scene.size("d_model")
    if scene.setting("scale_embeddings", "True") != "True":
        return Answer("Why is nothing multiplied by sqrt(d_model)?", ("This model was built without that factor.",))
    return Answer(
        "Why are the embeddings multiplied by sqrt(d_model)?",
        (
            f"By √{width} = {sqrt(width):.2f} here. The paper asks for it in half a sentence and gives no reason, and "
            f"{BEGINNERS} found none either. One that fits: the table starts with small numbers (variance "
            f"1/{width}), the place pattern swings between −1 and 1, and without the factor it would drown the words.",
        ),
    )


def answer_sharing(scene: Scene) -> Answer:
    sharing = scene.setting("sharing", "none")
    width, source, target = (
        scene.size("d_model"),
        *(scene.trace.sizes.get(f"{side}_vocab", 0) for side in ("src", "tgt")),
    )
    now = {
        "none": f"This model shares nothing: {source:,}×{width} weights to read questions, {target:,}×{width} to read "
        f"answers, and as many again to choose the next word.",
        "decoder": f"This model shares {target:,}×{width} weights between reading answers and choosing the next word.",
        "all": f"This model uses the same {target:,}×{width} weights in all three places.",
    }
    return Answer(
        "What does it mean to share the embedding?",
        (
            "A table from words to vectors and a layer from vectors to words have the same shape, one the other way "
            "round. The paper lets one matrix do both, and read the question too, which asks for one vocabulary on "
            "both sides. " + now.get(sharing, ""),
        ),
    )


def tell_encoder_attention(scene: Scene) -> Chapter:
    """Station 2: every word of the question looks at every other."""
    path = "encoder.layers.0.self_attention"
    heads, d_k, width = scene.size("heads"), scene.size("d_k"), scene.size("d_model")
    text: list[Text] = [
        (
            "Three linear layers look at the same vectors and make three views of each word: a query (what it looks "
            "for), "
            "a key (what it offers) and a value (what it passes on), each ",
            scene.shape(f"{path}.query"),
            ".",
        ),
        (
            f"They are cut into {count(heads, 'head')} of {width} / {heads} = {d_k} numbers. A view makes ",
            scene.shape(f"{path}.split_query.view"),
            ", a transpose ",
            scene.shape(f"{path}.split_query.transpose"),
            ". No number changes. Each head sees the whole question, but only its own slice of every word.",
        ),
        (
            "The keys are laid on their side, ",
            scene.shape(f"{path}.transpose_key"),
            ", so that every query meets every key: ",
            scene.shape(f"{path}.scores"),
            ". A row is a word that asks, a column a word that is asked.",
        ),
        (
            "After the mask, softmax turns every row into shares of one whole. ",
            strongest(scene, "encoder", 0),
            " The shares mix the values, ",
            scene.shape(f"{path}.weighted_sum"),
            ", the heads are laid side by side again, ",
            scene.shape(f"{path}.concat"),
            ", and one more linear layer lets them talk. What came in is added back.",
        ),
    ]
    answers = (
        Answer(
            "Where do Q, K and V come from?",
            (
                "Here all three from the same vectors, which is why it is called self-attention. In the decoder's "
                "self-attention too, from the answer. Only in cross-attention (station 6) do they part: queries from "
                "the answer, keys and values from the question.",
            ),
        ),
        answer_root(scene, path),
        answer_last_axis(scene, path),
        answer_three_masks(scene),
    )
    debates = (debate_mask_value(scene), debate_padding_rows(scene))
    return make_chapter(scene, 2, text, answers, debates, attention_paths("encoder", "self_attention"))


def answer_root(scene: Scene, path: str) -> Answer:
    d_k = scene.size("d_k")
    before, after = tell_range(scene, f"{path}.scores"), tell_range(scene, f"{path}.scale")
    seen = f" In this run the scores of layer 1 lay {before}; divided they lie {after}." if before and after else ""
    return Answer(
        "Why are the scores divided by sqrt(d_k)?",
        (
            f"A score adds up {d_k} products. If each has variance 1, their sum has variance {d_k}, and softmax of "
            f"large numbers puts everything on one key, where learning stalls. Divided by √{d_k} = {sqrt(d_k):.2f} "
            f"the variance is 1 again, however wide the head.{seen}",
        ),
    )


def answer_last_axis(scene: Scene, path: str) -> Answer:
    return Answer(
        "Why is softmax taken on the last axis?",
        (
            "In ",
            scene.shape(f"{path}.scores"),
            " the last axis counts the keys. Softmax along it makes each query's "
            "shares sum to 1: one row, one whole of attention. Along the axis before it, each key would hand out a "
            "whole, and a query could end up with nothing.",
        ),
    )


def answer_three_masks(scene: Scene) -> Answer:
    crossed = scene.setting("cross_mask", "padding") == "padding"
    third = "hides the question's padding again" if crossed else "hides nothing in this model"
    return Answer(
        "Which mask goes where?",
        (
            "Encoder self-attention hides the question's padding. Decoder self-attention hides the answer's padding "
            f"and everything that comes later. Cross-attention {third}; there is no “later” in it, for the question is "
            "always there as a whole.",
        ),
    )


def tell_feed_forward(scene: Scene) -> Chapter:
    """Station 3: each word alone through two linear layers, and out as memory."""
    path = "encoder.layers.0.feed_forward"
    text: list[Text] = [
        (
            "Now each word is worked on alone, by the same two layers: out to ",
            scene.shape(f"{path}.expand"),
            ", negative numbers cut off by ReLU, and back to ",
            scene.shape(f"{path}.contract"),
            ".",
        ),
        (
            f"{tell_norm(scene)} The shape is that of the layer's input, so layers can be stacked: "
            f"here {tell_stack(scene)}.",
        ),
        (
            "What leaves the last of them, ",
            scene.shape("encoder"),
            ", is the memory: the question as the decoder will see it"
            + ("." if scene.is_training else ", computed once for the whole answer."),
        ),
    ]
    answers = (
        Answer(
            "Which decoder layer gets the encoder's output?",
            (
                f"Every one: {layers_in_words(scene, 'decoder')} read the same memory, each through its own key and "
                "value layers. The usual diagram shows a single arrow and leaves one to guess.",
            ),
        ),
        Answer(
            "Why is the input added back?",
            (
                "The layer then only has to learn what to change. And in back-propagation the sum hands the gradient "
                "on undiminished, so deep stacks can be trained.",
            ),
        ),
        answer_variance(scene),
    )
    paths = (*feed_forward_paths("encoder"), "encoder")
    return make_chapter(scene, 3, text, answers, (debate_norm(scene),), paths)


def tell_norm(scene: Scene) -> str:
    """Where the sum and layer norm stand in this run."""
    if scene.setting("norm", "after") == "before":
        return (
            "Before the two layers every vector was brought to mean 0 and variance 1; after them what went in is added "
            "back, untouched."
        )
    return "What went in is added back, and every vector is brought to mean 0 and variance 1."


def tell_stack(scene: Scene) -> str:
    """How many encoder layers stand on each other."""
    layers = scene.trace.sizes.get("encoder_layers", 0)
    return "there is only one" if layers == 1 else f"{layers} of them, one on the other"


def answer_variance(scene: Scene) -> Answer:
    width = scene.size("d_model")
    return Answer(
        "Why does layer norm use the biased variance?",
        (
            f"It divides the squared distances from the mean by {width}, not by {width - 1}. Dividing by one less "
            f"corrects a guess about a larger population from a sample; but the {width} numbers of a vector are all "
            "there is, nothing is guessed. Whoever writes it anew with a routine that defaults to the other one gets "
            f"slightly different numbers: here by a factor of √({width}/{width - 1}) = "
            f"{sqrt(width / max(1, width - 1)):.4f}.",
        ),
    )
