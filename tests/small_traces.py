"""Small traces made by hand, every size a prime of its own, so that an axis in the wrong place shows."""

from xray.ir.records import MaskFacts, Preview, TensorRecord
from xray.ir.trace import Pass, Step, Trace

SIZES = {
    "batch": 2,
    "heads": 3,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "d_model": 33,
    "d_k": 11,
    "d_ff": 13,
    "src_vocab": 17,
    "tgt_vocab": 19,
    "src_len": 5,
    "tgt_len": 7,
}
SRC_WORDS = (("who", "is", "ripley", "?", "<pad>"), ("what", "is", "the", "expanse", "?"))
TGT_WORDS = (
    ("<sos>", "she", "flies", "the", "nostromo", ".", "<pad>"),
    ("<sos>", "a", "series", "<pad>", "<pad>", "<pad>", "<pad>"),
)
SRC_CELLS = (("....p",), (".....",))
LENGTHS = (6, 3)


def mask_cells(length, words):
    """A causal mask of some length over so many words, the rest padding."""
    rows = []
    for query in range(length):
        pair = [("f" if key > query else ".", key >= words) for key in range(length)]
        rows.append("".join({".": "p", "f": "b"}[letter] if padding else letter for letter, padding in pair))
    return tuple(rows)


def record(name, axes, role="activation", *, source=None, mask=None, preview=None, **sizes):
    known = {**SIZES, "1": 1, "": 1, "batch*tgt_len": 14, **sizes}
    words = tuple(axes.split())
    shape = tuple(known[word] for word in words)
    return TensorRecord(name, shape, words, "float32", "cpu", role, source, mask, preview)


def step(path, op, inputs=(), outputs=(), *, parent=None, params=0, call=0, error=None, settings=None):
    return Step(
        id=f"{path}#{call}",
        path=path,
        call=call,
        op=op,
        module=op.title(),
        parent=None if parent is None else f"{parent}#0",
        depth=path.count("."),
        layer=None,
        params=params,
        location=None,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        settings=settings or {},
        error=error,
    )


def src_mask(batch=SRC_CELLS):
    hidden = sum(row.count("p") for rows in batch for row in rows) / sum(len(row) for rows in batch for row in rows)
    facts = MaskFacts("padding", hidden, cells=batch)
    return record("out", "batch 1 1 src_len", "mask", source="src_mask#0", mask=facts, batch=len(batch))


def tgt_mask(lengths=LENGTHS, tgt_len=7):
    cells = tuple(mask_cells(tgt_len, words) for words in lengths)
    hidden = sum(letter != "." for rows in cells for row in rows for letter in row) / (len(lengths) * tgt_len**2)
    facts = MaskFacts("padding+causal", hidden, cells=cells)
    axes = "batch 1 tgt_len tgt_len"
    return record("out", axes, "mask", source="tgt_mask.combine#0", mask=facts, batch=len(lengths), tgt_len=tgt_len)


def layer_steps(side, number, self_mask, cross_mask=None, **sizes):
    """One layer: attention's blocks with their scores and masks, a sum, and the feed-forward block."""
    root = f"{side}.layers.{number}"
    length = "src_len" if side == "encoder" else "tgt_len"
    x = record("x", f"batch {length} d_model", **sizes)
    steps = [step(root, f"{side}_layer", [x, self_mask], [x], parent=side, params=101)]
    kinds = [("self_attention", length, self_mask)]
    if cross_mask is not None:
        kinds.append(("cross_attention", "src_len", cross_mask))
    for kind, keys, mask in kinds:
        block = f"{root}.{kind}"
        memory = record("key", f"batch {keys} d_model", **sizes)
        heads = record("left", f"batch heads {length} d_k", **sizes)
        key = record("right", f"batch heads d_k {keys}", **sizes)
        scores = record("out", f"batch heads {length} {keys}", **sizes)
        steps += [
            step(block, "multi_head_attention", [x, memory, memory, mask], [x], parent=root, params=97),
            step(f"{block}.query", "linear", [x], [x], parent=block, params=89),
            step(f"{block}.scores", "matmul", [heads, key], [scores], parent=block),
            step(f"{block}.mask", "mask_scores", [scores, mask], [scores], parent=block),
            step(f"{root}.{kind}_add", "add", [x, x], [x], parent=root),
        ]
    hidden = record("out", f"batch {length} d_ff", **sizes)
    steps += [
        step(f"{root}.feed_forward", "feed_forward", [x], [x], parent=root, params=83),
        step(f"{root}.feed_forward.expand", "linear", [x], [hidden], parent=f"{root}.feed_forward", params=79),
    ]
    return steps


def mask_steps(**sizes):
    """The decoder's mask, made of the two that go into it."""
    made = tgt_mask(**sizes)
    batch, tgt_len = made.shape[0], made.shape[-1]
    padding = record(
        "out",
        "batch 1 1 tgt_len",
        "mask",
        source="tgt_mask.padding#0",
        mask=MaskFacts("padding", 0.0),
        batch=batch,
        tgt_len=tgt_len,
    )
    causal = record(
        "out", "1 1 tgt_len tgt_len", "mask", source="tgt_mask.causal#0", mask=MaskFacts("causal", 0.4), tgt_len=tgt_len
    )
    return [
        step("tgt_mask", "target_mask", [], [made]),
        step("tgt_mask.padding", "padding_mask", [], [padding], parent="tgt_mask"),
        step("tgt_mask.causal", "causal_mask", [], [causal], parent="tgt_mask"),
        step("tgt_mask.combine", "both_masks", [padding, causal], [made], parent="tgt_mask"),
    ]


def small_training_pass():
    question = record("src", "batch src_len", "ids")
    logits = record("logits", "batch tgt_len tgt_vocab", "logits")
    loss = record("out", "", "loss", preview=Preview((), (), (2.5,)))
    gradients = [record(f"p{number}.grad", "d_model d_model", "parameter") for number in range(7)]
    memory = record("out", "batch src_len d_model")
    answer = record("out", "batch tgt_len d_model")
    steps = [
        step("tokenize.src", "tokenize", [], [question]),
        step("tokenize.tgt", "tokenize", [], [record("tgt", "batch tgt_len", "ids")]),
        step("src_mask", "padding_mask", [question], [src_mask()]),
        step("encoder", "encoder", [question, src_mask()], [memory], params=211),
        step("encoder.embedding", "words_and_places", [question], [memory], parent="encoder", params=9),
        *(each for number in range(2) for each in layer_steps("encoder", number, src_mask())),
        *mask_steps(),
        step("decoder", "decoder", [answer, memory], [answer], params=223),
        *(each for number in range(2) for each in layer_steps("decoder", number, tgt_mask(), src_mask())),
        step("head", "linear", [answer], [logits], params=646),
        step("loss", "answer_loss", [logits], [loss]),
        step("backward", "backward", [loss], gradients),
    ]
    return Pass("training", 0, {"src": SRC_WORDS, "decoder_input": TGT_WORDS}, tuple(steps))


def small_turn(number, said, chosen):
    sizes = {"batch": 1, "tgt_len": number}
    mask = tgt_mask((number,), number)
    answer = record("out", "batch tgt_len d_model", **sizes)
    steps = [
        *mask_steps(lengths=(number,), tgt_len=number),
        step("decoder", "decoder", [answer], [answer], params=223),
        *layer_steps("decoder", 0, mask, src_mask((SRC_CELLS[1],)), **sizes),
        step("head", "linear", [answer], [record("out", "batch tgt_len tgt_vocab", "logits", **sizes)], params=646),
    ]
    return Pass("decode", number, {"decoder_input": (said,), "new": ((chosen,),)}, tuple(steps))


def small_inference_passes():
    question = record("src", "batch src_len", "ids", batch=1)
    memory = record("out", "batch src_len d_model", batch=1)
    mask = src_mask((SRC_CELLS[1],))
    steps = (
        step("tokenize.src", "tokenize", [], [question]),
        step("src_mask", "padding_mask", [question], [mask]),
        step("encoder", "encoder", [question, mask], [memory], params=211),
        *layer_steps("encoder", 0, mask, batch=1),
    )
    answer = ("<sos>", "a", "series")
    turns = [small_turn(t, answer[:t], ("a", "series", "<eos>")[t - 1]) for t in (1, 2, 3)]
    return (Pass("encode", 0, {"src": (SRC_WORDS[1],)}, steps), *turns)


def small_trace(*passes, **config):
    passes = passes or (small_training_pass(), *small_inference_passes())
    return Trace("Small transformer", SIZES, {"trained": False, "device": "cpu", **config}, passes)
