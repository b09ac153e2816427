"""Anatomies held against the settings that models were built from: is each number of it one that the settings have?

    python benchmarks/families_held.py FOLDER [FAMILY ...] [--library diffusers]

FOLDER is where `families.py --keep` left its traces. A tower's layers, widths, heads, words and experts are looked for
among the settings of their kind, those of parts included. What is not found is printed: it is a sum of several
settings, or it is false, and somebody has to look.
"""

import argparse
import lzma
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from libraries import LIBRARIES

from xray.ir.json_form import trace_from_json
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Experts, FeedForward
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.body.whole import anatomy

KINDS: Mapping[str, tuple[str, ...]] = {
    "layers": ("layer", "depth", "block", "num_stages"),
    "width": ("hidden", "d_model", "dim", "n_embd", "width", "size", "channel", "filters"),
    "heads": ("head",),
    "d_ff": ("intermediate", "ffn", "ff", "inner", "mlp", "expand", "hidden", "feed"),
    "vocab": ("vocab",),
    "experts": ("expert", "top_k", "topk", "moe"),
}
"""The words of which one stands in the name of a setting of this kind."""
PADDING = 64
"""A table of words may have so many rows more than there are words: signs, and a round number."""


def main() -> None:
    """Hold what was asked for against its settings, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the traces are")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--library", choices=("transformers", "diffusers"), default="transformers")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*.json.xz"))
    names = options.families or [file.name.removesuffix(".json.xz") for file in files]
    right = wrong = 0
    for name in names:
        trace = trace_from_json(lzma.decompress((options.folder / f"{name}.json.xz").read_bytes()))
        held = list(hold(anatomy(trace), read_settings(LIBRARIES[options.library].settings(name))))
        missed = [told for told, is_there in held if not is_there]
        right, wrong = right + len(held) - len(missed), wrong + len(missed)
        if missed:
            print(f"{name:32} {'; '.join(dict.fromkeys(missed))}", flush=True)
    sys.stdout.write(f"{len(names)} families: {right:,} numbers are in their settings, {wrong} are not.\n")


def read_settings(settings: Mapping[str, Any]) -> Mapping[str, frozenset[float]]:
    """The numbers of some settings by kind."""
    named = list(list_numbers(settings))
    return {
        kind: frozenset(number for name, number in named if any(word in name for word in words))
        for kind, words in KINDS.items()
    } | {"ratio": frozenset(number for name, number in named if "ratio" in name)}


def list_numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Each number of the settings and of those of its parts, by its name; of a list each one, and the sum."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from list_numbers({str(key): one for key, one in value.items()})
        elif isinstance(value, (list, tuple)):
            numbers = [one for one in value if isinstance(one, (int, float)) and not isinstance(one, bool)]
            yield from ((name, one) for one in (*numbers, sum(numbers), len(value)))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value


def hold(found: Anatomy, settings: Mapping[str, frozenset[float]]) -> Iterator[tuple[str, bool]]:
    """Each number of an anatomy in words, and whether the settings have it."""
    for tower in found.towers:
        layers = settings["layers"] | {2 * count for count in settings["layers"]}
        yield f"{tower.name}: {tower.layers} layers", tower.layers in layers
        if tower.d_model is not None:
            yield f"{tower.name}: d_model {tower.d_model}", tower.d_model in settings["width"]
        if tower.vocab is not None:
            near = any(words <= tower.vocab <= words + PADDING for words in settings["vocab"])
            yield f"{tower.name}: vocab {tower.vocab}", near
        yield from hold_branches(tower, settings)


def hold_branches(tower: Tower, settings: Mapping[str, frozenset[float]]) -> Iterator[tuple[str, bool]]:
    """The numbers of a tower's branches."""
    for group in tower.groups:
        width = group.d_model or tower.d_model
        for branch in (branch for stage in group.stages for branch in stage.branches):
            if isinstance(branch, Attention):
                for name, count in (("heads", branch.heads), ("kv_heads", branch.kv_heads)):
                    if count is not None:
                        yield f"{tower.name}: {name} {count}", count in settings["heads"] | {1.0}
            elif isinstance(branch, FeedForward) and branch.d_ff is not None:
                ratios = settings["ratio"] | {1.0, 2.0, 3.0, 4.0}
                is_there = branch.d_ff in settings["d_ff"] or (width is not None and branch.d_ff / width in ratios)
                yield f"{tower.name}: d_ff {branch.d_ff}", is_there
            elif isinstance(branch, Experts):
                for name, count in (("experts", branch.experts), ("chosen", branch.chosen)):
                    if count is not None:
                        yield f"{tower.name}: {name} {count}", count in settings["experts"]


if __name__ == "__main__":
    main()
