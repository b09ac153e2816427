"""Every family of the transformers library by its settings alone: is it recorded, how, how fast, and why not.

    python benchmarks/families.py [FAMILY ...] [--limit 60] [--jobs 2] [-o families.jsonl] [--keep FOLDER]
    python benchmarks/families.py --redraw --keep FOLDER -o families.jsonl
    python benchmarks/families.py --table families.jsonl > docs/reference/families.md

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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from families_page import read_rows, write_page

from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.ir.trace import Trace
from xray.renderers.fonts import text_width
from xray.renderers.sheet.poster import draw_poster
from xray.story.body.reading import read_passes
from xray.story.body.whole import anatomy
from xray.story.poster import compose_poster

PREFERRED = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "TEXT_TO_WAVEFORM",
    "CAUSAL_LM",
    "CTC",
    "MASKED_LM",
    "IMAGE_CLASSIFICATION",
    "OBJECT_DETECTION",
)
"""Of the kinds as which a family comes, the first of these is built; what comes as none of them, as its base."""
HEAD_DIM = {"head_dim": 128}
IN_ONE_ROW = {"image_token_id": 248_056, "vision_config": {"image_size": 256, "patch_size": 16}}
MROPE = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    }
}
WIDE_MROPE = {**HEAD_DIM, **MROPE}
XD_ROPE = {**HEAD_DIM, "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [16] * 4}}
ROPE_BY_LAYER = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}}}
SPARSE = {
    "indexer_n_heads": 8,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
}
FORECAST = {"prediction_length": 24, "num_static_categorical_features": 1, "cardinality": [5]}
LAYER_TYPES = {"layer_types": ["full_attention", "conv"] * 16}
RF_DETR = {
    "model_type": "rf_detr_dinov2",
    "hidden_size": 384,
    "num_attention_heads": 6,
    "image_size": 560,
    "out_features": ["stage2", "stage5", "stage8", "stage11"],
}
SEEN_AS = {
    "qwen2_5_vl": 8192,
    "exaone4_5": 4096,
    "qwen3_5": 4096,
    "qwen3_5_moe": 2048,
    "qwen3_vl": 4096,
    "qwen3_vl_moe": 2048,
    "glm_ocr": 1024,
    "cosmos3_omni": 4096,
}
"""How wide rows of images have to be for the words of a family, where its defaults for the two do not fit."""
SPOKEN = {"projector_config": {"model_type": "blip_2_qformer", "encoder_hidden_size": 1024}}
SIDE_256, SIDE_512 = {"vision_config": {"image_size": 256}}, {"vision_config": {"image_size": 512}}
SIDE_512_PLAIN = {"vision_config": {"image_size": 512, "vision_use_head": False}}
VISUAL_TOKENS = {f"<|visual token {place:06d}|>": 151_854 + place for place in range(32_768)}
LACKING: Mapping[str, Mapping[str, Any]] = {
    "autoformer": FORECAST,
    "informer": FORECAST,
    "time_series_transformer": FORECAST,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
    "hunyuan_v1_dense": HEAD_DIM,
    "hunyuan_v1_moe": HEAD_DIM,
    "hunyuan_vl_text": XD_ROPE,
    "hunyuan_vl": {"text_config": XD_ROPE},
    "ministral": HEAD_DIM,
    "glm4v_text": MROPE,
    "glm_image_text": MROPE,
    "glm4v": {"text_config": MROPE},
    "glm46v": {"text_config": {"model_type": "glm4v_text", **MROPE}},
    "glm4v_moe_text": WIDE_MROPE,
    "glm4v_moe": {"text_config": WIDE_MROPE},
    "glmga": {"text_config": {"model_type": "glm4v_text", **MROPE}},
    "glm_image": {"text_config": MROPE},
    "cohere_compass_text": ROPE_BY_LAYER,
    "cohere_compass": {"text_config": ROPE_BY_LAYER, "vision_config": {"out_hidden_size": 8192}},
    **{family: {"vision_config": {"out_hidden_size": width}} for family, width in SEEN_AS.items()},
    "qwen3_asr": {"audio_config": {"output_dim": 2048}},
    "ovis2": {"hidden_size": 4096},
    "janus": {"text_config": {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 5632}},
    "aria": {"vision_config": {"model_type": "idefics3_vision", "image_size": 490, "patch_size": 14}},
    "idefics3": SIDE_256,
    "smolvlm": SIDE_256,
    "modernvbert": SIDE_512,
    "ultravbert": SIDE_512_PLAIN,
    "qwen2_vl": {"vision_config": {"hidden_size": 8192}},
    "voxtral": {"audio_token_id": 24},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500_000.0}},
    "qwen4_exp_text": SPARSE,
    "qwen4_exp": {"text_config": SPARSE, "vision_config": {"out_hidden_size": 2048}},
    "qwen3_omni_moe_thinker": {
        "text_config": HEAD_DIM,
        "vision_config": {"out_hidden_size": 2048},
        "audio_config": {"output_dim": 2048},
    },
    "moonshine_streaming": {"num_key_value_heads": 8},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "nemotron": {"num_key_value_heads": 8},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_group": 8, "topk_group": 3},
    "lfm2_moe": LAYER_TYPES,
    "reformer": {"is_decoder": True},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    **dict.fromkeys(("granite_speech", "granite_speech_plus"), SPOKEN),
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}, "vision_config": {"image_size": 896, "patch_size": 14}},
    "granitemoehybrid": {"layer_types": (["mamba"] * 7 + ["attention"]) * 4},
    "glm5_next": {"vision_config": {"out_hidden_size": 4096}},
    "step3p7": {"text_config": {"sliding_window": 512, "vocab_size": 151_936}},
    "minicpm_ocr": {"image_token_id": 248_056},
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7"), IN_ONE_ROW),
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "emu3": {"vocabulary_map": {"<image>": 151646, "<|extra_200|>": 151846, **VISUAL_TOKENS}},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}},
    "rf_detr": {"backbone_config": RF_DETR},
    "xmod": {"default_language": "en_XX"},
    "blip-2": {"image_token_index": 50265},
    "instructblipvideo": {"video_token_index": 32000},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense"] + ["sparse"] * 31}},
    "instructblip": {"image_token_index": 32000},
    "diffusion_gemma": {"text_config": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 704}},
}
"""Settings that a family has no default for, or whose defaults do not fit together; published models bring them."""
CHOSEN_DEPTH = "what a layer reads is chosen by attention over what earlier blocks gave, so no one stream goes through"
BACKBONE = "convolutions, each behind the other; its attention is in the class with a head"
REASONS: Mapping[str, str] = {
    "inkling2": CHOSEN_DEPTH,
    "inkling2_text": CHOSEN_DEPTH,
    "encodec": "convolutions and recurrent cells, in stages of different width",
    "mobilenet_v1": "convolutions, each behind the other, without a sum",
    "mra": "attention in blocks that are chosen by their scores, weighed without a softmax over all of them",
    "pp_ocrv6_small_rec": BACKBONE,
    "pp_ocrv6_tiny_rec": BACKBONE,
    "reformer": "reversible layers: two streams, inside an autograd function of their own",
}
"""Why families are drawn by blocks, as they compute."""


def main() -> None:
    """Run what was asked for, tell of each as it ends, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--limit", type=int, default=60, help="seconds of the processor for one family")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, help="a file to append a JSON line for each family to")
    parser.add_argument("--keep", type=Path, help="a folder for the traces")
    parser.add_argument("--redraw", action="store_true", help="draw what is kept anew, for -o, and record nothing")
    parser.add_argument("--table", type=Path, help="write the page from this output, and measure nothing")
    options = parser.parse_args()
    if options.table is not None:
        sys.stdout.write(write_page(read_rows(options.table), version("transformers"), REASONS))
        return
    if options.redraw:
        redraw(options.output, options.keep)
        return
    load_before_forking()
    classes = choose_classes()
    known = {row["family"] for row in read_rows(options.output)} if options.output and options.output.exists() else ()
    families = [family for family in options.families or classes if family not in known]
    told, drawn = Counter[str](), Counter[str]()
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda family: run_apart(family, classes[family], options), families)
        for family, found in zip(families, runs, strict=True):
            told[found["told"].split(":")[0] if found["steps"] else "failed"] += 1
            drawn[found.get("drawn", "nothing")] += 1
            told_of = f"{found['steps']:7} steps  {found.get('drawn', ''):7} {found['told']}"
            print(f"{family:40} {found['seconds']:6.1f} s {told_of}", flush=True)
            if options.output is not None:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"family": family, **found}) + "\n")
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


def choose_classes() -> dict[str, str]:
    """The class of each family that is recorded."""
    from transformers.models.auto import modeling_auto

    classes = {}
    for family, base in modeling_auto.MODEL_MAPPING_NAMES.items():
        kinds = (getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES") for kind in PREFERRED)
        found = next((kind[family] for kind in kinds if family in kind), base)
        classes[family] = found if isinstance(found, str) else found[0]
    return classes


def run_apart(family: str, model_class: str, options: argparse.Namespace) -> dict[str, Any]:
    """One family in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(family, model_class, options.limit, options.keep, sender))
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        found = {"steps": 0, "told": f"failed: ended without an answer, after {options.limit} s or for want of memory"}
        found["seconds"] = options.limit
    process.join()
    return {"class": model_class, **found}


def run(family: str, model_class: str, limit: int, keep: Path | None, sender: Connection) -> None:
    """Record one family, draw it, and send what came of it."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    warnings.simplefilter("ignore")
    from transformers import CONFIG_MAPPING

    from xray.capture.targets.target import run_target
    from xray.sources.loading import load_source

    began = time.process_time()

    def send(found: dict[str, Any]) -> None:
        sender.send({**found, "seconds": round(time.process_time() - began, 1)})

    try:
        with tempfile.TemporaryDirectory() as folder:
            config = CONFIG_MAPPING[family](**LACKING.get(family, {}))
            config.architectures = [model_class]
            config.save_pretrained(folder)
            outcome = run_target(load_source(folder))
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
