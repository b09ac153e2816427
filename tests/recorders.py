"""How each of the kept traces is made: by recording models of every size and family, here and now."""

from functools import cache

import torch
from families.specimens import BY_NAME, build_t5
from poster_traces import make_trace
from recorded import CHATBOTS, PHASES

import xray
from xray.capture.recorder import record
from xray.capture.targets.run import make_untrained

TURNS = 4
WRITERS = ("GPT-2", "Llama")
TRANSLATORS = ("T5", "BART", "Marian", "Whisper")
LARGE_LLAMA = {
    "vocab_size": 128_256,
    "hidden_size": 16_384,
    "intermediate_size": 53_248,
    "num_hidden_layers": 4,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "length": 8192,
}
SMALLEST_LLAMA = {
    "vocab_size": 3,
    "hidden_size": 2,
    "intermediate_size": 1,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "length": 1,
}


@cache
def untrained_run():
    """The chatbot of the README with chance weights."""
    return make_untrained(device="cpu")


def record_phase(name, phase):
    """One forward pass of a specimen."""
    specimen = BY_NAME[name]
    model = specimen.build()
    if phase == "training":
        return xray.trace(model, **specimen.make_inputs())
    with torch.no_grad():
        return xray.trace(model.eval(), **specimen.make_inputs())


def prompt_of(name):
    """What a specimen goes on writing from."""
    inputs = BY_NAME[name].make_inputs()
    inputs.pop("decoder_input_ids", None)
    inputs.pop("attention_mask", None)
    return inputs


def write(model, inputs, **settings):
    """Some words by the model's own `generate()`."""
    return model.generate(**inputs, max_new_tokens=TURNS, min_new_tokens=TURNS, do_sample=False, **settings)


def record_writing(name, **settings):
    """A specimen writing."""
    # the library makes a cache for as many layers as the encoder of a T5 has
    model = (build_t5(BY_NAME[name].layers[1]) if name == "T5" else BY_NAME[name].build()).eval()
    with record(model) as recorder:
        write(model, prompt_of(name), **settings)
    return recorder.trace


def record_llama(**sizes):
    """A model of the family without weights, of any size, and one forward pass of it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    length = sizes.pop("length")
    with torch.device("meta"), torch.no_grad():
        model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
        return xray.trace(model, torch.zeros(1, length, dtype=torch.long))


RECORDERS = {
    "untrained, both": lambda: untrained_run().trace("both", max_turns=5),
    "untrained, training": lambda: untrained_run().trace("training"),
    "untrained, inference": lambda: untrained_run().trace("inference", max_turns=5),
    "untrained, cached": lambda: untrained_run().trace("inference", max_turns=3, kv_cache=True),
    **{name: lambda settings=settings: make_trace(**settings) for name, settings in CHATBOTS.items()},
    **{
        f"{name}, {phase}": lambda name=name, phase=phase: record_phase(name, phase)
        for name in BY_NAME
        for phase in PHASES
    },
    **{f"{name} writes": lambda name=name: record_writing(name) for name in (*WRITERS, *TRANSLATORS)},
    **{f"{name} writes without a cache": lambda name=name: record_writing(name, use_cache=False) for name in WRITERS},
    **{f"{name} writes with beams": lambda name=name: record_writing(name, num_beams=3) for name in ("GPT-2", "BART")},
    "large Llama": lambda: record_llama(**LARGE_LLAMA),
    "smallest Llama": lambda: record_llama(**SMALLEST_LLAMA),
    "smallest Llama, wider": lambda: record_llama(**SMALLEST_LLAMA | {"intermediate_size": 5}),
}
"""What makes each kept trace, by its name."""
