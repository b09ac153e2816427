"""Runs, exits, masks and words that sentences may be told of, and which sentences each of them proves."""

from collections import Counter
from dataclasses import replace

from small_traces import TGT_WORDS, record, small_trace, small_training_pass, step
from story.sentences.makers import FALSE, NO_NORM, make_tower
from story.sentences.pools_of_parts import TOWER

from xray.ir.records import MaskBlocks, MaskFacts
from xray.ir.trace import IN_PLACE_OF, Pass
from xray.story.anatomy.tree import (
    Group,
    Head,
    Stage,
)
from xray.story.recognition.added_rows import AddedRows
from xray.story.sentences.of_ends import Again, Leaving
from xray.story.sentences.of_masks import Shown
from xray.story.sentences.of_rows import OtherRows
from xray.story.sheet.words import Words

VOCABULARY = Head("vocabulary", 61)
LEAVING = {
    "nothing": Leaving((), None),
    "signal": Leaving((), None, is_signal=True),
    "no head": Leaving((), Head("none")),
    "chance": Leaving((), Head("none"), by_chance=True),
    "scores": Leaving((), VOCABULARY),
    "scores of some": Leaving((), VOCABULARY, vocab=100_000),
    "classes": Leaving((), Head("classes", 7)),
    "numbers": Leaving((), Head("numbers", 7)),
    "loss": Leaving((), VOCABULARY, has_loss=True),
    "one number": Leaving((), VOCABULARY, to_one=True),
    "one number of numbers": Leaving((), Head("numbers", 7), to_one=True),
    "word": Leaving(("linear", "last_row", "softmax", "argmax"), VOCABULARY),
    "drawn": Leaving(("linear", "softmax", "multinomial"), VOCABULARY),
    "choices": Leaving(("linear", "argmax"), VOCABULARY, at_each=True),
    "compared": Leaving((), None, meets=1),
    "with what is beside": Leaving((), None, is_joined=True),
    "joined, with a head": Leaving((), VOCABULARY, is_joined=True, times=6),
    "to meet maps": Leaving((), None, met=("vision",)),
    "as more places": Leaving((), None, times=6),
    "compared with two": Leaving((), Head("none"), meets=2),
    "softmax alone": Leaving(("linear", "softmax"), None),
    "read by nothing": Leaving(("linear",), None, is_lost=True),
    "changed once more": Leaving(("linear",), None, goes_on=True),
}
OF_EXITS = {
    "next word": {"word", "drawn", "choices"},
    "scores of words": {
        *("scores", "scores of some", "classes", "numbers", "loss", "word", "drawn", "choices"),
        *("joined, with a head", "one number", "one number of numbers"),
    },
    "signal": {"signal"},
    "leaves to be compared": {"compared", "compared with two"},
    "leaves with what is beside": {"with what is beside"},
    "leaves to meet maps": {"to meet maps"},
    "leaves as more places": {"as more places"},
    "leaves nowhere": {"read by nothing"},
    "leaves when changed": {"changed once more"},
    "leaves by chance": {"chance"},
    "leaves": {
        *(
            "nothing",
            "no head",
            "chance",
            "softmax alone",
            "signal",
            "compared",
            "compared with two",
            "read by nothing",
        ),
        *("with what is beside", "as more places", "to meet maps", "changed once more"),
    },
}
LOOPS = {
    "nothing": Again(goes_back=False, is_looped=False),
    "gradients": Again(goes_back=True, is_looped=False),
    "turns": Again(goes_back=False, is_looped=True),
    "both": Again(goes_back=True, is_looped=True, last_word="<eos>"),
}
OF_LOOPS = {"batch and turn": {"both"}, "batch": {"gradients", "both"}, "turn": {"turns", "both"}}
OF_APPENDING = {name: {"turns", "both"} for name in ("append", "append, shorter", "append, shortest")}
STEPS = {
    "failed": (step("loss", "cross_entropy", error="ValueError"), TGT_WORDS),
    "smoothed": (step("loss", "cross_entropy", outputs=("one",), settings={"label_smoothing": 0.1}), ()),
    "with words": (step("loss", "cross_entropy", outputs=("one",), settings={"label_smoothing": 0.0}), TGT_WORDS),
    "without words": (step("loss", "cross_entropy", outputs=("one",)), ()),
}
OF_LOSSES = {"failed loss": {"failed"}, "mean of a loss": {"with words"}, "label smoothing": {"smoothed"}}
CELLS = ((".ff", "..f", "..."),)
FACTS = {
    "padding": MaskFacts("padding", 0.1, cells=(("..p",), ("...",))),
    "causal": MaskFacts("causal", 0.3, cells=CELLS),
    "padding+causal": MaskFacts("padding+causal", 0.5),
    "window": MaskFacts("custom", 0.5, cells=((".ff", "..f", "x.."),)),
    "window on both sides": MaskFacts("custom", 0.5, spans=(((1, 0, 0, 2, 0), (98, 0, 1, 3, 1), (1, 98, 0, 100, 0)),)),
    "itself alone": MaskFacts("custom", 0.6, cells=((".ff", "x.f", "xx."),)),
    "window that moves along": MaskFacts("custom", 0.6, cells=(("p..xxxx", "px..xxx", "pxx..xx"),)),
    "block by block": MaskFacts("custom", 0.4, cells=(("..fff", "..fff", "....f", "....f", "....."),)),
    "custom": MaskFacts("custom", 0.5),
    "none": MaskFacts("none", 0.0, cells=(("...", "...", "..."),)),
    "numbers of its own": MaskFacts("none", 0.0, cells=(("...", "...", "..."),), weighs=True),
}
OF_MASKS = {f"mask: {name}": {name} for name in FACTS} | {"mask: window": {"window", "window on both sides"}}
SEVERAL = (("...",) * 3, *2 * CELLS)
"""Matrices of several sequences, of which the first hides nothing."""
BLOCKS = MaskBlocks(2, 2, (("./", "x."),))
PICTURES = {
    "whole": Shown(FACTS["causal"], 3, 3),
    "a corner": Shown(FACTS["causal"], 2, 2),
    "another": Shown(replace(FACTS["causal"], cells=SEVERAL), 3, 3, number=1),
    "a corner of another": Shown(replace(FACTS["causal"], cells=SEVERAL), 2, 2, number=2),
    "rows": Shown(FACTS["padding"], 2, 3),
    "rows of sequences": Shown(FACTS["padding"], 2, 3, leading=("batch", "1")),
    "rows of heads": Shown(FACTS["padding"], 2, 3, leading=("batch", "heads")),
    "a corner of rows": Shown(FACTS["padding"], 1, 3),
    "later keys of rows": Shown(FACTS["padding"], 2, 1, start=2),
    "too large": Shown(FACTS["custom"], 0, 0),
    "by its kind": Shown(MaskFacts("causal", 0.5), 14, 14, is_known=True),
    "by blocks": Shown(replace(FACTS["custom"], blocks=BLOCKS), 4, 4),
}
OF_PICTURES = {
    "blocks of a mask": {"by blocks"},
    "corner by its kind": {"by its kind"},
    "too large": {"too large", "by its kind", "by blocks"},
    "one of several": {"another", "a corner of another"},
    "corner": {"a corner", "a corner of rows", "a corner of another"},
    "some keys of each row": {"later keys of rows"},
    "row for each sequence": {"rows of sequences"},
    "row for each": {"rows", "rows of heads", "a corner of rows", "later keys of rows"},
}

LOADS = {"few": (3, 0, 5), "many": (1, 2) * 64, "not kept": ()}
OF_LOADS = {"load of experts": {"few", "many"}}
PASTS = {"as it is": (), "pooled": ("layer norm", "linear", "amax")}
OF_PASTS = {"past a sublayer": {"pooled"}}
ADDED = {"one": AddedRows(9, 2, 1, frozenset({9})), "many": AddedRows(9, 2, 12, frozenset({9}), left_off=True)}
OF_ADDED = {"rows beside": {"one", "many"}}
OTHER_ROWS = {
    "one thinks": OtherRows(1, False, ("feed-forward",)),
    "some think": OtherRows(3, True, ("feed-forward",)),
    "some stay": OtherRows(3, True, ()),
    "not known": OtherRows(3, False, None),
}
OF_OTHER_ROWS = {
    "rows through a branch of their own": {"one thinks", "some think"},
    "rows as they were": {"some stay"},
    "rows apart": {"not known"},
}
SOURCES = {"unknown": None, "first": 0, "another": 7}
OF_SOURCES = {"rows of a layer": {"first", "another"}}
ELSEWHERE = {"nowhere": (), "once": (0,), "twice": (0, 3)}
OF_ELSEWHERE = {"rows behind others": {"once", "twice"}}
ARROWS = {"all in boxes": Counter(), "some in none": Counter(["add", "mul", "mul", "exp"])}
OF_ARROWS = {"before a box": {"some in none"}}
SUMS = {"a sum": Stage((FALSE,), False, NO_NORM), "no sum": Stage((FALSE,), False, NO_NORM, replaces=True)}
OF_STAGES = {"taken place": {"no sum"}}
GROUPS = {
    "shared": Group((0, 1), (), 35, shared=True),
    "their own": Group((0, 1), (), 35, shared=False),
    "run twice": Group((0, 1, 2, 3), (), 35, shared=False, sets=((0, 2), (1, 3))),
    "run again": Group((2, 3), (), 35, weights_of=(0, 1)),
    "dropped more and more": Group((0, 1), (), 35, dropouts=(0.0, 0.1)),
    "dropped elsewhere": Group((0, 1), (), 35, dropouts=(0.1, 0.1)),
    "branches dropped more and more": Group((0, 1), (), 35, drop_paths=(0.0, 0.1)),
    "branches dropped elsewhere": Group((0, 1), (), 35, drop_paths=(0.1, 0.1)),
    "not known": Group((0, 1), (), 35),
}
OF_GROUPS = {
    "shared group": {"shared"},
    "sets of weights": {"run twice"},
    "weights of layers before": {"run again"},
    "dropouts that differ": {"dropped more and more", "dropped elsewhere"},
    "drop paths that differ": {"branches dropped more and more", "branches dropped elsewhere"},
}
LEFT = {
    "nothing": (),
    "some": (("experts", Counter(clamp=2, add=1)),),
    "much": tuple((name, Counter("abcd")) for name in "wxyz"),
}
OF_LEFT = {"in no box": {"some", "much"}}
LEFT_OUT = {"nothing": (), "some": ((make_tower(), (1,)),)}
OF_LEFT_OUT = {"layers in no frame": {"some"}}
MADE = {"stored": step("x", "softmax"), "derived": step("x", "softmax", settings={"derived": True})}
KNOWN = {"trained": True, "batch": 2}
"""Settings of a run of which nothing has to be said."""
UNSAID = (small_training_pass(),)
RUNS = {
    "nothing": small_trace(*UNSAID, **KNOWN),
    "not known": replace(small_trace(*UNSAID), config={}),
    "untrained": small_trace(*UNSAID, batch=2),
    "unknown words": small_trace(replace(UNSAID[0], tokens={"src": (("<unk>",),)}), **KNOWN),
    "batches of tokens": small_trace(*UNSAID, trained=True, batch_tokens=4096),
    "batches": small_trace(*UNSAID, trained=True, batch=64),
    "norm before": small_trace(*UNSAID, **KNOWN, norm="before"),
    "no cross mask": small_trace(*UNSAID, **KNOWN, cross_mask="none"),
    "decoder shares": small_trace(*UNSAID, **KNOWN, sharing="decoder"),
    "all share": small_trace(*UNSAID, **KNOWN, sharing="all"),
    "no scale": small_trace(*UNSAID, **KNOWN, scale_embeddings=False),
    "infinity": small_trace(*UNSAID, **KNOWN, mask_value="-inf"),
    "kept keys": small_trace(*UNSAID, **KNOWN, kv_cache=True),
    "savings": small_trace(*UNSAID, **KNOWN, multiplications=3, multiplications_without_cache=4),
}
OF_RUNS = {name: {name} for name in RUNS if name not in ("nothing", "not known", "batches of tokens")}
OF_RUNS["batches"] |= {"batches of tokens"}
COPIES = {
    "whole": RUNS["nothing"],
    "small copy": small_trace(*UNSAID, **KNOWN, small_copy=True),
    "counted copy": small_trace(*UNSAID, **KNOWN, small_copy=True, cuts="num_layers 2 of 7", params_of_whole=89),
}
OF_COPIES = {"small copy": {"small copy", "counted copy"}}
NEW = replace(step("x", "full"), module="Full", settings={IN_PLACE_OF: "Sparse"})
EXCHANGES = {"whole": RUNS["nothing"], "exchanged": small_trace(Pass("forward", 0, {}, (NEW,)))}
OF_EXCHANGES = {"exchanged modules": {"exchanged"}}
RECORDINGS = {
    "phases": (small_trace(), ("training", "inference")),
    "passes": (small_trace(), ("forward",)),
}
OF_RECORDINGS = {"phases": {"phases"}, "passes": set(RECORDINGS)}


def make_words(rows=TGT_WORDS, turns=(), shift=None, says=(), kind="training"):
    """Words that a tower reads, in one pass or in turns."""
    tokens = [{"read": turn} for turn in turns] or [{"tgt": rows, "read": [row[:-1] for row in rows], "targets": says}]
    passes = tuple(Pass(kind, number, one, ()) for number, one in enumerate(tokens))
    return Words(passes, "read", "tgt", record("ids", "batch tgt_len", "ids"), step("embed", "embedding"), None, shift)


SHIFT = step("shift", "shift")
NEWEST = step("embed", "embedding", [record("ids", "1 1", "ids")])
TURNS = ((("<sos>",),), (("<sos>", "a"),), (("<sos>", "a", "series"),))
WORDS = {
    "padded": make_words(),
    "full": make_words((("<sos>", "a", "series"),)),
    "not even": make_words((("a",), ("a", "series"))),
    "shifted": make_words(shift=SHIFT, says=[row[1:] for row in TGT_WORDS]),
    "not shifted by one": make_words(shift=SHIFT, says=[row[2:] for row in TGT_WORDS]),
    "turns": make_words(turns=TURNS, kind="decode"),
    "turns that jump": make_words(turns=TURNS[::2], kind="decode"),
    "question": replace(make_words((("who", "is"),)), passes=(Pass("encode", 0, {"tgt": (("who", "is"),)}, ()),)),
}
WORDS["newest alone"] = replace(
    WORDS["turns that jump"], passes=tuple(replace(one, steps=(NEWEST,)) for one in WORDS["turns that jump"].passes)
)
BATCHES = {"padded", "full", "shifted", "not shifted by one", "question"}
OF_LENGTHS = {"newest word": {"newest alone"}, "one word more": {"turns"}, "length of rows": BATCHES}
SHIFTED = {"all but the last": {"shifted"}, "all but the first": {"shifted"}}
OF_FILLERS = {
    "ids of words": BATCHES | {"not even"},
    "filler": {"padded", "shifted", "not shifted by one"},
}
READING = {name: (TOWER, one) for name, one in WORDS.items()}
OF_WORDS = {
    "shift": {"shifted"},
    "start": {"turns", "turns that jump", "newest alone"},
    "question": {"question"},
    "words": set(WORDS),
}
