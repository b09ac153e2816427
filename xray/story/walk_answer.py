"""Stations 4, 5 and 7: the answer comes in shifted, looks back at itself, is thought over word by word."""

from xray.ir.records import VISIBLE
from xray.story.chapters import Answer, Chapter, Text
from xray.story.debates import debate_shift
from xray.story.scene import PADDING, Scene, count, quote
from xray.story.telling import attention_paths, feed_forward_paths, layers_in_words, make_chapter, tell_strongest


def tell_answer_in(scene: Scene) -> Chapter:
    """Station 4: what the decoder reads, what it shall say, and what it must not see."""
    text = answers_of_the_batch(scene) if scene.is_training else answer_so_far(scene)
    answers = (answer_shift(scene), answer_special_tokens(scene), answer_two_masks(scene))
    paths = (
        "tokenize.tgt",
        "shift",
        "tgt_mask.padding",
        "tgt_mask.causal",
        "tgt_mask.combine",
        "decoder.embedding.words",
        "decoder.embedding.positions",
        "decoder.embedding.add",
    )
    return make_chapter(scene, 4, text, answers, (debate_shift(scene),), paths)


def answers_of_the_batch(scene: Scene) -> tuple[Text, ...]:
    whole, read, wanted = scene.real_words("tgt"), scene.real_words("decoder_input"), scene.real_words("targets")
    return (
        (
            f"The answers are known, {len(scene.words('tgt'))} tokens each with their frame and filler: ",
            scene.shape("tokenize.tgt"),
            f". The first is {quote(whole)}.",
        ),
        (
            "One answer gives two rows. The decoder reads all but the last token, ",
            scene.shape("shift", 0),
            "; the target is all but the first, ",
            scene.shape("shift", 1),
            f". So under {quote(read[:3])} … stands {quote(wanted[:3])} …, at every place the word that comes next.",
        ),
        (
            "All places are learnt from at once. That is only honest with a mask that hides what comes later: ",
            scene.shape("tgt_mask.combine"),
            ". Ids become vectors as on the other side, ",
            scene.shape("decoder.embedding.add"),
            ".",
        ),
    )


def answer_so_far(scene: Scene) -> tuple[Text, ...]:
    words = scene.words("decoder_input")
    turns = len(scene.trace.passes_of("decode"))
    begin = f"Turn {scene.turn} of {turns}: the answer so far is {quote(words)}, {count(len(words), 'token')}" + (
        ", nothing but the start mark." if len(words) == 1 else ", the last of them said by the model itself."
    )
    cached = scene.setting("kv_cache", "False") == "True"
    how = (
        "With the key-value cache only the newest token goes in; what the earlier ones left behind is kept: "
        if cached
        else "All of them go in again, from the first on: "
    )
    return (
        (begin,),
        (
            how,
            scene.shape("decoder.embedding.words"),
            " with places added, ",
            scene.shape("decoder.embedding.add"),
            ".",
        ),
        ("The mask has grown with them: ", scene.shape("tgt_mask.combine"), ". Next turn it is one larger each way."),
    )


def answer_shift(scene: Scene) -> Answer:
    if scene.is_training:
        read, wanted = scene.real_words("decoder_input"), scene.real_words("targets")
        example = "; ".join(
            f"has read {quote(read[: place + 1])}, must say “{wanted[place]}”" for place in range(min(2, len(wanted)))
        )
        said = f"Otherwise each place would be asked for the word that it has just been given. Here: {example}."
    else:
        said = (
            "It is a matter of training: there input and target come from the same answer. Here nothing has to be "
            f"shifted, for the next word does not exist yet; after {quote(scene.words('decoder_input')[-3:])} it will "
            f"be {quote(scene.words('new'))}."
        )
    return Answer("Why the shift?", (said,))


def answer_special_tokens(scene: Scene) -> Answer:
    first = scene.words("decoder_input")[1:2] or scene.words("new")
    return Answer(
        "What do <sos> and <eos> do?",
        (
            "The decoder needs something to read before there is a word: <sos>, so that the first real word "
            f"({quote(first)} here) has something before it. And the loop "
            "needs an end: <eos> is a word like any other, learnt like any other, and when it is said the loop "
            f"stops. {PADDING} comes after it and is never learnt.",
        ),
    )


def answer_two_masks(scene: Scene) -> Answer:
    record = scene.shape("tgt_mask.combine")
    facts = record.mask if not isinstance(record, str) else None
    share = f" It hides {facts.hidden_share:.0%} of the cells here." if facts is not None else ""
    return Answer(
        "Why two masks in one?",
        (
            "The padding mask hides columns of filler, a different number for each answer: ",
            scene.shape("tgt_mask.padding"),
            ". The causal mask hides everything right of the diagonal, the same for all: ",
            scene.shape("tgt_mask.causal"),
            f". A key may be looked at if both allow it.{share}",
        ),
    )


def tell_looking_back(scene: Scene) -> Chapter:
    """Station 5: every word of the answer looks at itself and at what came before."""
    path = "decoder.layers.0.self_attention"
    text: list[Text] = [
        (
            "The same attention as in the encoder, over the answer: ",
            scene.shape(f"{path}.split_query"),
            " times ",
            scene.shape(f"{path}.transpose_key"),
            " gives ",
            scene.shape(f"{path}.scores"),
            ".",
        ),
        (tell_sight(scene),),
        (
            tell_strongest(scene, "decoder"),
            " The heads come together as ",
            scene.shape(f"{path}.concat"),
            ", and what came in is added back."
            if scene.setting("norm") == "before"
            else ", what came in is added back, and the sum normalised.",
        ),
    ]
    answers = (
        Answer(
            "Why must the future be hidden?",
            (
                "When the model answers for real, the later words do not exist. In training they stand right there in "
                "the same row; a model that may look simply copies the next word and learns nothing. The mask makes "
                "training look like use.",
            ),
        ),
        Answer(
            "Is the mask needed at inference?",
            (
                "For the newest word no: nothing comes after it. For the earlier ones yes, or their vectors would "
                "change with every new word and no longer be those that the model was trained on."
                + ("" if scene.is_training else f" At this turn it is {scene.size('tgt_len')} keys wide."),
            ),
        ),
        Answer(
            "Where do Q, K and V come from here?",
            ("All three from the answer: the same vectors three times, ", scene.entry(path, "query"), "."),
        ),
    )
    return make_chapter(scene, 5, text, answers, (), attention_paths("decoder", "self_attention"))


def tell_sight(scene: Scene) -> str:
    """Which words one word of the answer may see."""
    words = scene.real_words("decoder_input")
    record = scene.shape("tgt_mask.combine")
    facts = record.mask if not isinstance(record, str) else None
    if not words or facts is None or not facts.cells or len(facts.cells[0]) < len(words):
        return "A word sees itself and those before it."
    if scene.setting("kv_cache", "False") == "True":
        return (
            f"Only “{words[-1]}” asks; it sees {quote(words)}, the keys and values of the earlier words from the cache."
        )
    asking = min(len(words) - 1, max(0, len(words) // 2))
    seen = [word for word, cell in zip(words, facts.cells[0][asking], strict=False) if cell == VISIBLE]
    later = words[asking + 1 :]
    hidden = f" {quote(later)} {'is' if len(later) == 1 else 'are'} hidden from it." if later else ""
    return f"“{words[asking]}” sees {quote(seen) if len(seen) > 1 else 'only itself'}.{hidden}"


def tell_decoder_feed_forward(scene: Scene) -> Chapter:
    """Station 7: each word of the answer alone, and up to the next layer."""
    path = "decoder.layers.0.feed_forward"
    text: list[Text] = [
        (
            "As in station 3, every word by itself: ",
            scene.shape(f"{path}.expand"),
            " and back to ",
            scene.shape(f"{path}.contract"),
            ", added to what came in" + ("." if scene.setting("norm") == "before" else ", normalised."),
        ),
        (
            f"Then the next layer begins with self-attention again. After {layers_in_words(scene, 'decoder')} stands ",
            scene.shape("decoder"),
            ": for each place all that is known about the word to come.",
        ),
    ]
    answers = (
        Answer(
            "Does attention not do the thinking?",
            (
                "Attention only moves and mixes: its output is a weighted mean of values. What is done with the "
                f"mixture happens here. {share_of_weights(scene)}",
            ),
        ),
        Answer(
            "Do places mix here?",
            (
                "No. The two layers work along the last axis only, so a word's result would be the same with other "
                "words around it. That is also why padding cannot leak through this step.",
            ),
        ),
    )
    return make_chapter(scene, 7, text, answers, (), (*feed_forward_paths("decoder"), "decoder"))


def share_of_weights(scene: Scene) -> str:
    """How many of a decoder layer's weights sit in its feed-forward sublayer."""
    layer, inner = scene.step("decoder.layers.0"), scene.step("decoder.layers.0.feed_forward")
    if layer is None or inner is None or not layer.params:
        return ""
    share = inner.params / layer.params
    return f"{inner.params:,} of a layer's {layer.params:,} weights ({share:.0%}) are spent on it."
