"""Models of diffusers by their class, a folder, or a pipeline. Nothing here needs diffusers, or a network."""

import json
from types import SimpleNamespace

import pytest

from xray.errors import TraceError
from xray.sources import hub
from xray.sources.diffusion import finding
from xray.sources.diffusion.finding import INDEX, find_part

CLASSES = SimpleNamespace(__version__="0.42", FluxTransformer2DModel=object)
PIPELINE = {
    "_class_name": "FluxPipeline",
    "scheduler": ["diffusers", "EulerScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "transformer": ["diffusers", "FluxTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def write(path, settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))
    return path


def test_a_class_is_taken_with_its_defaults():
    found = find_part("FluxTransformer2DModel", CLASSES)

    assert (found.file, found.settings) == (None, {"_class_name": "FluxTransformer2DModel"})


def test_what_is_neither_a_class_nor_a_folder_is_told():
    with pytest.raises(TraceError, match=r"diffusers 0\.42 has no class FluxTransformer, and there is no such folder"):
        find_part("FluxTransformer", CLASSES)


def test_of_a_pipeline_the_part_is_taken_that_it_is_about(tmp_path):
    write(tmp_path / INDEX, PIPELINE)
    write(tmp_path / "transformer" / "config.json", {"_class_name": "FluxTransformer2DModel"})

    assert find_part(str(tmp_path), CLASSES).settings["_class_name"] == "FluxTransformer2DModel"


def test_a_folder_with_settings_is_taken_as_it_is(tmp_path):
    write(tmp_path / INDEX, PIPELINE)
    write(tmp_path / "config.json", {"_class_name": "AutoencoderKL"})

    assert find_part(str(tmp_path), CLASSES).settings["_class_name"] == "AutoencoderKL"


def test_a_pipeline_of_unknown_parts_lists_them(tmp_path):
    write(tmp_path / INDEX, {"vocoder": ["diffusers", "Vocoder"], "tokenizer": ["transformers", "T5Tokenizer"]})

    with pytest.raises(TraceError, match=r"has none of the parts transformer, unet, .* behind a slash: vocoder"):
        find_part(str(tmp_path), CLASSES)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("owner/pipeline", [("owner/pipeline", INDEX), ("owner/pipeline", "transformer/config.json")]),
        ("owner/pipeline/vae", [("owner/pipeline", "vae/config.json")]),
        ("owner/model", [("owner/model", INDEX), ("owner/model", "config.json")]),
    ],
)
def test_a_pipeline_of_the_hub_is_asked_for_the_settings_of_its_part(name, asked, tmp_path, monkeypatch):
    index = write(tmp_path / INDEX, PIPELINE)
    config = write(tmp_path / "config.json", {"_class_name": "FluxTransformer2DModel"})
    calls = []

    def fetch(model, file="config.json"):
        calls.append((model, file))
        if file == INDEX and model == "owner/model":
            raise TraceError("no index")
        return index if file == INDEX else config

    monkeypatch.setattr(hub, "fetch_config", fetch)
    monkeypatch.setattr(finding, "fetch_config", fetch)

    assert find_part(name, CLASSES).settings == {"_class_name": "FluxTransformer2DModel"}
    assert calls == asked
