"""Station 6: the answer asks the question."""

from xray.story.chapters import Answer, Chapter, Text
from xray.story.debates import debate_cross_mask
from xray.story.scene import Scene
from xray.story.telling import attention_paths, layers_in_words, make_chapter, tell_strongest


def tell_cross_attention(scene: Scene) -> Chapter:
    """Station 6: the answer asks the question."""
    path = "decoder.layers.0.cross_attention"
    text: list[Text] = [
        (
            "Now the answer looks at the question. Queries come from the decoder, ",
            scene.shape(f"{path}.split_query"),
            "; keys and values from the encoder's memory, ",
            scene.entry(path, "key"),
            ", as ",
            scene.shape(f"{path}.split_key"),
            ".",
        ),
        (
            "The table of scores is no square: ",
            scene.shape(f"{path}.scores"),
            ", a row for each word of the answer, a column for each word of the question. ",
            tell_strongest(scene, "cross"),
        ),
        (
            "Out comes one vector for each word of the answer, ",
            scene.shape(f"{path}.output"),
            ", mixed from what the question's words pass on.",
        ),
    ]
    answers = (
        Answer(
            "Where do K and V come from?",
            (
                "Both from what left the last encoder layer, ",
                scene.entry(path, "key"),
                f", and it goes to {layers_in_words(scene, 'decoder')}. Queries come from the sublayer below, so the "
                "answer asks and the question replies. The other way round the result would have the question's "
                "length.",
            ),
        ),
        Answer(
            "May question and answer differ in length?",
            (
                f"Yes: {scene.size('src_len')} and {scene.size('tgt_len')} here. Only the width of a head has to "
                "agree, for queries are multiplied with keys along it. The result has as many rows as there are "
                "queries.",
            ),
        ),
        answer_third_mask(scene, path),
        Answer(
            "Are K and V computed anew every turn?",
            (
                "They need not be: the memory does not change while the answer grows. "
                + (
                    "In training there is only one pass anyway."
                    if scene.is_training
                    else "This model keeps them in its cache."
                    if scene.setting("kv_cache", "False") == "True"
                    else "This plain decoder does it all the same; with --kv-cache it does not."
                ),
            ),
        ),
    )
    return make_chapter(
        scene, 6, text, answers, (debate_cross_mask(scene),), attention_paths("decoder", "cross_attention")
    )


def answer_third_mask(scene: Scene, path: str) -> Answer:
    mask = scene.entry(f"{path}.mask", "mask")
    if isinstance(mask, str):
        return Answer("Which mask is used here?", ("None: this model lets the answer look at padding as well.",))
    return Answer(
        "Which mask is used here?",
        (
            "The question's padding mask, ",
            mask,
            ": its 1 in the place of the queries says that all of them are treated alike. There is no causal mask, "
            "since no word of the question lies in the future.",
        ),
    )
