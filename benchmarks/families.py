"""Every model of a library by its name or settings alone: is it recorded, how, how fast, and why not.

    python benchmarks/families.py [FAMILY ...] [--limit 60] [--jobs 2] [-o families.jsonl] [--keep FOLDER]
    python benchmarks/families.py --redraw --keep FOLDER -o families.jsonl
    python benchmarks/families.py --table families.jsonl > docs/reference/families.md

The library is transformers; `--library diffusers` and `--library timm` are those of others, in pages of their own.

Each family is built with the settings that are its default, in a process of its own with a time limit, in seconds of
the processor. `--keep` leaves every trace in a folder, to be read and drawn again; families that the output has
already are not measured anew. `--redraw` draws the kept ones anew, and strikes off the output what is not kept, so
that the next run measures it. `--table` writes the published page from such an output.
"""

import argparse
import json
import lzma
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from families_page import read_rows, write_page
from libraries import LIBRARIES, Library

from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.trace import Trace
from xray.renderers.fonts import text_width
from xray.renderers.sheet.poster import draw_poster
from xray.story.body.reading import read_passes
from xray.story.body.whole import anatomy
from xray.story.poster import compose_poster


def main() -> None:
    """Run what was asked for, tell of each as it ends, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--library", choices=list(LIBRARIES), default="transformers")
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor for one family")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, help="a file to append a JSON line for each family to")
    parser.add_argument("--keep", type=Path, help="a folder for the traces")
    parser.add_argument("--redraw", action="store_true", help="draw what is kept anew, for -o, and record nothing")
    parser.add_argument("--table", type=Path, help="write the page from this output, and measure nothing")
    options = parser.parse_args()
    library = LIBRARIES[options.library]
    if options.table is not None:
        sys.stdout.write(write_page(read_rows(options.table), library, version(library.name)))
        return
    if options.redraw:
        redraw(options.output, options.keep)
        return
    load_before_forking()
    known = {row["family"] for row in read_rows(options.output)} if options.output and options.output.exists() else ()
    families = [family for family in options.families or library.families() if family not in known]
    told, drawn = Counter[str](), Counter[str]()
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda family: run_apart(family, library, options), families)
        for family, found in zip(families, runs, strict=True):
            told[found["told"].split(":")[0] if found["steps"] else "failed"] += 1
            drawn[found.get("drawn", "nothing")] += 1
            told_of = f"{found['steps']:7} steps  {found.get('drawn', ''):7} {found['told']}"
            print(f"{family:40} {found['seconds']:6.1f} s {told_of}", flush=True)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"family": family, "group": library.group(family), **found}) + "\n")
    for counted in (told, drawn):
        print(f"{len(families)} families: " + ", ".join(f"{count} {what}" for what, count in counted.most_common()))


def redraw(output: Path, keep: Path) -> None:
    """Draw every family of an output anew from its kept trace; what has none that can be read is struck off."""
    drawn = []
    for row in read_rows(output):
        try:
            trace = trace_from_json(lzma.decompress((keep / f"{row['family']}.json.xz").read_bytes()))
        except (OSError, TraceError):
            continue
        drawn.append(json.dumps({**row, **draw(trace)}))
        print(row["family"], flush=True)
    aside = output.with_suffix(".aside")
    aside.write_text("".join(f"{row}\n" for row in drawn), encoding="utf-8")
    aside.replace(output)


def load_before_forking() -> None:
    """Import what every family needs, once."""
    import torch
    import torch._dynamo
    import transformers.generation.utils
    import transformers.modeling_utils

    import xray.sources.loading

    torch.set_num_threads(1)
    assert transformers
    assert xray


def run_apart(family: str, library: Library, options: argparse.Namespace) -> dict[str, Any]:
    """One family in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(family, library, options.limit, options.keep, sender))
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        found = {"steps": 0, "told": f"failed: ended without an answer, after {options.limit} s or for want of memory"}
        found["seconds"] = options.limit
    process.join()
    return found


def run(family: str, library: Library, limit: int, keep: Path | None, sender: Connection) -> None:
    """Record one family, draw it, and send what came of it."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    warnings.simplefilter("ignore")
    from xray.capture.targets.target import run_target
    from xray.sources.loading import load_source

    began = time.process_time()

    def send(found: dict[str, Any]) -> None:
        sender.send({**found, "seconds": round(time.process_time() - began, 1)})

    try:
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_target(load_source(library.source(family, Path(folder))))
        if outcome.error is not None:
            error = " ".join(str(outcome.error).split())[:200]
            send({"steps": 0, "told": f"failed: {type(outcome.error).__name__}: {error}"})
            return
        trace = outcome.trace
        found = {
            "steps": len(list(trace.steps)),
            "told": outcome.told,
            "record_s": round(time.process_time() - began, 2),
        }
        if keep is not None:
            keep.mkdir(exist_ok=True)
            text = trace_to_json(trace).encode("utf-8", "surrogatepass")
            (keep / f"{family}.json.xz").write_bytes(lzma.compress(text, preset=1))
        send(found | draw(trace))
    except Exception as error:  # a family's failure is what is to be told
        send({"steps": 0, "told": f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"})


def draw(trace: Trace) -> dict[str, Any]:
    """How a trace is drawn, how long that takes, and how many parameters and towers its anatomy has."""
    began = time.process_time()
    draw_poster(trace, "svg")
    spent = time.process_time() - began
    found = anatomy(trace)
    return {
        "drawn": "blocks" if compose_poster(trace, text_width) is None else "poster",
        "draw_s": round(spent, 2),
        "params": found.params,
        "attentions": sum(len(one.sites) for one in read_passes(trace)),
        "towers": [f"{tower.name} {tower.layers}" for tower in found.towers],
        "unknown": sum(branch.part == "unknown" for tower in found.towers for branch in tower.branches),
        "untold": sum(one.params for one in found.untold),
    }


if __name__ == "__main__":
    main()
