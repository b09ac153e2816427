"""How fast a recorded trace becomes a poster, how that grows with the layers folded into one, and what a PNG takes.

Run: python benchmarks/drawing.py [--rounds 7] [--layers 1 3 6 12 48]
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from timing import machine, print_table, take_turns

from xray.capture.run import Run
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.learn.runs.load import untrained_chatbot
from xray.renderers.poster import draw_poster

LIMIT_S = 0.5
"""The most that the default poster may take, as SVG."""

DEFAULT_LAYERS = 3
PICTURES = (("png", "a2", 150), ("png", "a2", 300), ("png", "a2", 600), ("pdf", "a2", 0), ("svg", "a2", 0))
PAINT = """
import sys, time
from pathlib import Path
from xray.ir.files import read_trace_file
from xray.renderers.poster import draw_poster
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
    fastest = time_layers({layers: traces[layers] for layers in wanted.layers}, wanted.rounds)
    time_pictures(traces[DEFAULT_LAYERS])
    if fastest.get(DEFAULT_LAYERS, 0.0) > LIMIT_S:
        sys.exit(f"the default poster takes {fastest[DEFAULT_LAYERS]:.2f} s, more than {LIMIT_S} s")


def record(layers: int) -> Trace:
    """A training step and an answer of five words of an untrained chatbot with so many layers on each side."""
    settings = {"encoder_layers": layers, "decoder_layers": layers}
    return Run(untrained_chatbot(settings=settings, device="cpu")).trace("both", max_turns=5)


def time_layers(traces: dict[int, Trace], rounds: int) -> dict[int, float]:
    """The seconds of the fastest round from trace to SVG, by the number of layers on each side."""
    contestants: dict[str, Callable[[], None]] = {
        str(layers): partial(draw_svg, trace) for layers, trace in traces.items()
    }
    timings = take_turns(contestants, rounds)
    rows = []
    for timing in timings:
        trace = traces[int(timing.name)]
        steps = sum(1 for _ in trace.steps)
        rows.append([timing.name, f"{steps:,}", f"{1000 * timing.middle:.0f}", timing.spread])
    columns = ["layers on each side", "steps recorded", "ms, median", "ms, fastest to slowest"]
    print_table(f"From trace to SVG, training and inference, equal layers folded ({rounds} rounds)", columns, rows)
    return {int(timing.name): min(timing.seconds) for timing in timings}


def draw_svg(trace: Trace) -> None:
    draw_poster(trace, "svg")


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
