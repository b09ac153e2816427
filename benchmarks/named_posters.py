"""From a model's name to its poster: seconds and MiB for language models of 7 billion to a trillion parameters.

    python benchmarks/named_posters.py [NAME ...]

Each model is given by the sizes that its makers published, as a folder with a `config.json`, and drawn by
`xray trace FOLDER -o poster.svg` in a process of its own; what is measured is that whole process, imports included.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LLAMA: Mapping[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
LATENT: Mapping[str, Any] = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 7168,
    "intermediate_size": 18_432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "num_experts_per_tok": 8,
}


def llama(hidden: int, wide: int, layers: int, heads: int, shared: int, vocab: int) -> dict[str, Any]:
    """A Llama by its sizes."""
    return {
        **LLAMA,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "vocab_size": vocab,
    }


MODELS: Mapping[str, Mapping[str, Any]] = {
    "Llama 2 7B": llama(4096, 11_008, 32, 32, 32, 32_000),
    "Llama 3.1 70B": llama(8192, 28_672, 80, 64, 8, 128_256),
    "Llama 3.1 405B": llama(16_384, 53_248, 126, 128, 8, 128_256),
    "DeepSeek-V3 671B": {**LATENT, "num_attention_heads": 128, "n_routed_experts": 256, "vocab_size": 129_280},
    "Kimi K2 1T": {
        **LATENT,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "n_routed_experts": 384,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "vocab_size": 163_840,
    },
}


def main() -> None:
    """Draw what was asked for, one after the other, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    names = parser.parse_args().names or list(MODELS)
    print("| model | seconds | processor seconds | MiB at most | poster |\n|---|--:|--:|--:|--:|")
    for name in names:
        seconds, worked, most, size = draw(MODELS[name])
        print(f"| {name} | {seconds:.1f} | {worked:.1f} | {most:,.0f} | {size / 1024:,.0f} KiB |", flush=True)


def draw(settings: Mapping[str, Any]) -> tuple[float, float, float, int]:
    """Seconds on the wall and of the processor, the most MiB of one poster's process, and the poster's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        poster = Path(folder) / "poster.svg"
        began = time.monotonic()
        command = [sys.executable, "-m", "xray", "trace", folder, "-q", "-o", str(poster)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # our own command
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, poster.stat().st_size


if __name__ == "__main__":
    main()
