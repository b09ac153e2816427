"""How fast a recorded trace is read and becomes a poster, how that grows with its layers, and what a PNG takes.

Run: python benchmarks/drawing.py [--rounds 7] [--layers 1 3 6 12 48]
With transformers installed also a model of 64 layers that alternate, as it is by default (CWM, 32 billion parameters).
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from timing import machine, print_table, take_turns

import xray
from xray.capture.targets.run import Run
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.learn.runs.load import untrained_chatbot
from xray.renderers.sheet.poster import draw_poster

LIMIT_S = 0.5
"""The most that the default poster may take, as SVG."""

ALTERNATING = "64 that alternate (CWM)"
ALTERNATING_LIMIT_S = 2.0
"""The most that a network may take whose 64 layers look at all places, or at a window, by turns."""

DEFAULT_LAYERS = 3
PICTURES = (("png", "a2", 150), ("png", "a2", 300), ("png", "a2", 600), ("pdf", "a2", 0), ("svg", "a2", 0))
PAINT = """
import sys, time
from pathlib import Path
from xray.ir.files import read_trace_file
from xray.renderers.sheet.poster import draw_poster
trace = read_trace_file(Path(sys.argv[1]))
started = time.perf_counter()
drawn = draw_poster(trace, sys.argv[2], paper=sys.argv[3], dpi=int(sys.argv[4]))
taken = time.perf_counter() - started
status = Path("/proc/self/status").read_text()  # Linux; rusage would count the parent's memory, too
print(taken, len(drawn), status.partition("VmHWM:")[2].split()[0])
"""


def main() -> None:
    """Print both tables; exit code 1 if the default poster takes too long."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--layers", type=int, nargs="+", default=[1, 3, 6, 12, 48])
    wanted = options.parse_args()
    print(f"{machine()}\n")
    traces = {layers: record(layers) for layers in {*wanted.layers, DEFAULT_LAYERS}}
    chosen = {str(layers): traces[layers] for layers in wanted.layers}
    if find_spec("transformers") is not None:
        chosen[ALTERNATING] = record_alternating()
    fastest = time_layers(chosen, wanted.rounds)
    time_pictures(traces[DEFAULT_LAYERS])
    for name, limit in ((str(DEFAULT_LAYERS), LIMIT_S), (ALTERNATING, ALTERNATING_LIMIT_S)):
        if fastest.get(name, 0.0) > limit:
            sys.exit(f"the poster with layers {name} takes {fastest[name]:.2f} s, more than {limit} s")


def record(layers: int) -> Trace:
    """A training step and an answer of five words of an untrained chatbot with so many layers on each side."""
    settings = {"encoder_layers": layers, "decoder_layers": layers}
    return Run(untrained_chatbot(settings=settings, device="cpu")).trace("both", max_turns=5)


def record_alternating() -> Trace:
    """A network with its default sizes on meta, so long that a window hides something."""
    from transformers import CwmConfig, CwmForCausalLM

    config = CwmConfig()
    with torch.device("meta"):
        model = CwmForCausalLM(config).eval()
        return xray.trace(model, torch.zeros(1, config.sliding_window + 1, dtype=torch.long))


def time_layers(traces: dict[str, Trace], rounds: int) -> dict[str, float]:
    """The seconds of the fastest round from trace to SVG, by what is said of the layers."""
    contestants: dict[str, Callable[[], None]] = {}
    for name, trace in traces.items():
        contestants[f"read {name}"] = partial(read_alone, trace)
        contestants[f"draw {name}"] = partial(draw_svg, trace)
    timings = {timing.name: timing for timing in take_turns(contestants, rounds)}
    rows = []
    for name, trace in traces.items():
        read, drawn = timings[f"read {name}"], timings[f"draw {name}"]
        steps = sum(1 for _ in trace.steps)
        rows.append([name, f"{steps:,}", f"{1000 * read.middle:.0f}", f"{1000 * drawn.middle:.0f}", drawn.spread])
    columns = ["layers on each side", "steps recorded", "ms to the anatomy", "ms to SVG, median", "fastest to slowest"]
    print_table(f"From trace to anatomy, and to SVG, equal layers folded ({rounds} rounds)", columns, rows)
    return {name: min(timings[f"draw {name}"].seconds) for name in traces}


def read_alone(trace: Trace) -> None:
    xray.anatomy(unread(trace))


def draw_svg(trace: Trace) -> None:
    draw_poster(unread(trace), "svg")


def unread(trace: Trace) -> Trace:
    """The same trace with nothing kept of what was read off it before."""
    return replace(trace, passes=tuple(replace(one_pass) for one_pass in trace.passes))


def time_pictures(trace: Trace) -> None:
    """Seconds and memory of the default poster in each format, each in a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(trace_to_json(trace), encoding="utf-8")
        for form, paper, dpi in PICTURES:
            seconds, size, peak_mb = paint([str(path), form, paper, str(dpi)])
            named = f"{paper.upper()} {form.upper()}" + (f", {dpi} dpi" if dpi else "")
            rows.append([named, f"{seconds:.2f}", f"{peak_mb:.0f}", f"{size / 1e6:.2f}"])
    columns = ["file", "s", "MB of memory, the whole process at its peak (Linux)", "MB of file"]
    print_table("The default poster, drawn for the first time in a fresh process", columns, rows)


def paint(arguments: list[str]) -> tuple[float, int, float]:
    """Seconds, bytes and megabytes of memory of one drawing, in a process that has loaded nothing else."""
    done = subprocess.run([sys.executable, "-c", PAINT, *arguments], capture_output=True, text=True, check=True)
    seconds, size, peak_kb = done.stdout.split()
    return float(seconds), int(size), int(peak_kb) / 1024


if __name__ == "__main__":
    main()
