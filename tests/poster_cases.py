"""The configurations that every poster test runs over: what is traced, and with which options it is drawn."""

from changed_traces import break_off, resize
from recorded import FAMILIES, PHASES, POSTERS, recorded

from xray.story.compare.difference import diff
from xray.story.compare.marks import mark_changes, mark_failures

HUGE = {"batch": 64, "heads": 16, "src_len": 512, "tgt_len": 512, "d_model": 1024, "d_k": 64, "d_ff": 4096}
WRONG_WIDTH = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (112x32 and 64x950)"


def differ(before, after, **options):
    return after, {"marks": mark_changes(diff(before, after), after), **options}


def fail(trace, step, error, **changes):
    broken = break_off(trace, step, error, **changes)
    return broken, {"marks": mark_failures(broken)}


def unlike(trace):
    return resize(resize(trace, "encoder.layers.1", d_ff=64), "decoder.layers.2", d_ff=256)


SPECIAL = {
    "huge": lambda: (resize(recorded("one layer"), **HUGE), {}),
    "all layers": lambda: (recorded("both"), {"all_layers": True}),
    "all of six layers": lambda: (recorded("six layers, two turns"), {"all_layers": True}),
    "all of fourteen layers": lambda: (recorded("fourteen layers"), {"all_layers": True}),
    "all of one and six layers": lambda: (recorded("one and six layers"), {"all_layers": True}),
    "all of six and one layers": lambda: (recorded("six and one layers"), {"all_layers": True}),
    "all layers, norm before": lambda: (recorded("three layers, norm before"), {"all_layers": True}),
    "all layers, huge": lambda: (resize(recorded("both"), **HUGE), {"all_layers": True}),
    "layers not alike": lambda: (unlike(recorded("both")), {}),
    "layers not alike, inference": lambda: (unlike(recorded("inference")), {}),
    "other heads": lambda: differ(recorded("both"), recorded("three layers, eight heads")),
    "other vocabulary": lambda: differ(recorded("both"), recorded("three layers, one word more")),
    "no cross mask any more": lambda: differ(recorded("both"), recorded("three layers, no cross mask")),
    "other order of norms": lambda: differ(recorded("both"), recorded("three layers, norm before")),
    "other batch, training": lambda: differ(recorded("training"), recorded("training, batch 5")),
    "a turn more": lambda: differ(recorded("inference, four turns"), recorded("inference")),
    "a layer that differs now": lambda: differ(recorded("both"), unlike(recorded("both")), all_layers=True),
    "huge difference": lambda: differ(recorded("both"), resize(recorded("both"), **HUGE)),
    "no difference": lambda: differ(recorded("both"), recorded("both")),
    "head fails": lambda: fail(
        recorded("training"), "head#0", WRONG_WIDTH, settings={"in_features": 64, "out_features": 950}
    ),
    "loss fails": lambda: fail(recorded("training"), "loss.cross_entropy#0", "ValueError: batch_size (112) (104)"),
    "a turn fails": lambda: fail(recorded("inference"), "head#0", WRONG_WIDTH),
}
"""What needs more than a recording: a trace with the options to draw it with."""

CASES = (*POSTERS, *SPECIAL)
OTHER_SHAPES = (
    "other heads",
    "other vocabulary",
    "other batch, training",
    "a layer that differs now",
    "huge difference",
    "head fails",
)
"""The cases in which a shape changed, or was wrong."""


OTHERS = {
    **{
        f"{name}, {phase}": lambda name=name, phase=phase: (recorded(f"{name}, {phase}"), {})
        for name in FAMILIES
        for phase in PHASES
    },
    **{
        f"{name} writes": lambda name=name: (recorded(f"{name} writes"), {})
        for name in ("GPT-2", "Llama", "BART", "T5", "Whisper")
    },
    "hundreds of billions": lambda: (recorded("large Llama"), {}),
    "next to nothing": lambda: (recorded("smallest Llama"), {}),
    "Llama, wider": lambda: differ(recorded("smallest Llama"), recorded("smallest Llama, wider")),
    "BERT, other phase": lambda: differ(recorded("BERT, training"), recorded("BERT, inference")),
}
"""Transformers that are not X-Ray's own."""


def make_case(case):
    """The trace of a case, and what to draw it with."""
    special = {**SPECIAL, **OTHERS}
    return special[case]() if case in special else (recorded(case), {})
