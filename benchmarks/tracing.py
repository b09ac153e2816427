"""What recording costs: X-Ray against plain hooks, torchlens, torchview, torchinfo and torchvista on the same models.

Run: python benchmarks/tracing.py [--peers peers] [--rounds 7] [--models chatbot "GPT-2 small"] [--no-meta]
     python benchmarks/tracing.py --device cuda --no-meta

Each pair of a tracer and a model has a process of its own, in which the bare forward and the tracer take turns: what a
tracer leaves behind slows nobody else, and a busy moment of the machine meets both. Peers that are missing are left
out; to have them: pip install --no-deps --target peers torchlens torchview torchinfo torchvista
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from timing import machine, print_table, ratios, take_turns
from torch import nn
from traced_models import MODELS, TOWERS, build
from tracers import BARE, DRAWERS, INSTALL, PEERS, TRACERS, Inputs, is_there, quietly

MIB = 2**20
META = ["trace", "examples/llama_405b.py:build", "--meta", "-q"]


def main() -> None:
    """Print the tables, or measure one thing in a process of its own."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options.add_argument("--peers", help="a folder that pip installed peers into")
    options.add_argument("--patience", type=float, default=180, help="seconds until a contestant is given up")
    options.add_argument("--device", default="cpu", help="on another than the CPU no peers are measured")
    options.add_argument("--no-meta", action="store_true", help="leave out the model that fits no machine")
    options.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    wanted = options.parse_args()
    if wanted.peers:
        sys.path.append(wanted.peers)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if wanted.one:
        measure_one(wanted.one[0], wanted.one[1:], wanted)
        return
    print(f"{machine()}; one thread; device {wanted.device}\n")
    missing = [name for name in PEERS if not is_there(name)]
    if missing and wanted.device == "cpu":
        print(f"Not installed, hence left out: {', '.join(missing)}. To have them: {INSTALL}\n")
    for name in wanted.models:
        tell_recording(name, wanted)
    list_growth(wanted)
    if not wanted.no_meta:
        tell_meta()


def tell_recording(name: str, wanted: argparse.Namespace) -> None:
    """A row for each tracer: how long recording takes, until there is a picture, and how much memory."""
    rows = []
    for tracer in list_tracers(wanted):
        found = measure_apart(tracer, [name], wanted)
        memory, turns, picture = (found.get(f"{what} {name}", {}) for what in ("memory", "turns", "picture"))
        failure = found["failure"]["text"]
        ratio = "" if tracer == BARE else turns.get("ratio", failure)
        drawn = picture.get("text", failure) if tracer in DRAWERS else ""
        rows.append([tracer, turns.get("text", failure), ratio, memory.get("text", failure), drawn])
    columns = ["", "ms, median (least to most)", "over bare forward", "memory above bare", "from call to picture"]
    print_table(f"{name} ({wanted.rounds} rounds)", columns, rows)


def list_growth(wanted: argparse.Namespace) -> None:
    """A row for each tracer, a column for each number of layers."""
    rows = []
    names = [f"tower {layers}" for layers in TOWERS]
    for tracer in list_tracers(wanted):
        found = measure_apart(tracer, names, wanted)
        turns = [found.get(f"turns {name}") for name in names]
        rows.append([tracer, *(f"{1000 * one['middle']:.1f}" if one else found["failure"]["text"] for one in turns)])
    columns = ["ms, median", *(f"{layers} + {layers} layers" for layers in TOWERS)]
    print_table(f"Growth with layers ({wanted.rounds} rounds)", columns, rows)


def tell_meta() -> None:
    """The whole command, from nothing to the poster of a model that fits no machine."""
    rows = []
    for form in ("json", "svg"):
        target = Path(f"llama_405b.{form}")
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "xray", *META, "-o", str(target)], check=True, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        rows.append([f"xray {' '.join(META[:3])} -o {target}", f"{seconds:.1f} s", f"at most {peak:,.0f} MiB"])
        target.unlink()
    print_table("126 layers, 16,384 wide, 8,192 words, without storage", ["command", "seconds", "peak memory"], rows)


def list_tracers(wanted: argparse.Namespace) -> list[str]:
    """Who is measured: everybody that is installed, on another device than the CPU without the peers."""
    return [name for name in TRACERS if is_there(name) and (wanted.device == "cpu" or name not in PEERS)]


def measure_apart(tracer: str, models: list[str], wanted: argparse.Namespace) -> dict[str, Any]:
    """All that a process of its own found out before it ended; "failure" says how, if it ended too early."""
    command = [sys.executable, __file__, "--one", tracer, *models, "--rounds", str(wanted.rounds)]
    command += ["--device", wanted.device]
    command += ["--peers", wanted.peers] if wanted.peers else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=wanted.patience, check=False)
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""
        return read_facts(told.decode()) | {"failure": {"text": f"over {wanted.patience:.0f} s"}}
    last = (done.stderr.strip().splitlines() or ["killed"])[-1]
    return read_facts(done.stdout) | {"failure": {"text": f"fails: {last.split(':')[0]}" if done.returncode else ""}}


def read_facts(told: str) -> dict[str, Any]:
    """What a process of its own printed, a line for each thing that it measured."""
    facts: dict[str, Any] = {}
    for line in told.splitlines():
        facts |= json.loads(line)
    return facts


def measure_one(tracer: str, models: list[str], wanted: argparse.Namespace) -> None:
    """Print each fact as soon as it is there: memory first, while the peak of the process is still low."""
    tiny, few = build("tower 2", wanted.device)
    quietly(TRACERS[tracer])(tiny, few)  # so that what is imported does not count
    for name in models:
        model, inputs = build(name, wanted.device)
        tell(f"memory {name}", measure_memory(tracer, model, inputs))
        tell(f"turns {name}", measure_turns(tracer, model, inputs, wanted.rounds))
        if tracer in DRAWERS and not name.startswith("tower"):
            quietly(DRAWERS[tracer])(tiny, few)
            tell(f"picture {name}", measure_picture(tracer, model, inputs))


def tell(what: str, fact: dict[str, Any]) -> None:
    print(json.dumps({what: fact}), flush=True)


def measure_memory(tracer: str, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """By how much the peak of the process, or of the GPU, grows when the tracer runs after the bare forward."""
    for _ in range(3):
        quietly(TRACERS[BARE])(model, inputs)
    before = peak_bytes(model)
    kept = quietly(TRACERS[tracer])(model, inputs)
    after = peak_bytes(model)
    drop(kept)
    return {"text": f"{(after - before) / MIB:,.1f} MiB"}


def peak_bytes(model: nn.Module) -> int:
    """The most memory that there ever was at once where a model is: of the process, or on its GPU."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_turns(tracer: str, model: nn.Module, inputs: Inputs, rounds: int) -> dict[str, Any]:
    """Milliseconds of a recorded forward, and how many times a bare one that is."""
    bare, run = quietly(TRACERS[BARE]), quietly(TRACERS[tracer])
    contestants = {BARE: lambda: drop(bare(model, inputs)), tracer: lambda: drop(run(model, inputs))}
    timings = take_turns(contestants, rounds)
    slow, fast = timings[-1], timings[0]
    return {
        "text": f"{1000 * slow.middle:.1f} ({slow.spread})",
        "ratio": ratios(slow, fast),
        "middle": slow.middle,
    }


def measure_picture(tracer: str, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """Seconds from the call to the picture, when everything is imported."""
    started = time.perf_counter()
    quietly(DRAWERS[tracer])(model, inputs)
    return {"text": f"{time.perf_counter() - started:.2f} s"}


def drop(_: object) -> None:
    """Nothing: what was made is not needed."""


if __name__ == "__main__":
    main()
