"""Models of diffusers from a local folder or file with their settings, with inputs made for their kind."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from torch import nn

from xray.capture.targets.inputs import Target
from xray.errors import TraceError
from xray.sources.family_inputs import guess, is_asked, read_parameters
from xray.sources.hub import find_config
from xray.sources.request import Request
from xray.sources.rules import Rule
from xray.sources.sizes import Setting, Sizes
from xray.sources.vision import import_package
from xray.sources.ways import Made, run_ways
from xray.text import show_controls

SETTINGS: Mapping[str, Setting] = {
    "in_channels": Setting(("in_channels",), (), 4),
    "side": Setting(("sample_size",), (), 32),
    "text_width": Setting(("caption_channels", "cross_attention_dim", "joint_attention_dim", "text_embed_dim"), (), 64),
    "pooled_width": Setting(("pooled_projection_dim",), (), 64),
    "axes": Setting(("axes_dims_rope",), (), 3),
}
RULES: Mapping[str, Rule] = {
    "sample": Rule(("batch in_channels side side", "batch in_channels 4 side side")),
    "hidden_states": Rule(
        ("batch in_channels side side", "batch 4*words in_channels", "batch in_channels 4 side side")
    ),
    "timestep": Rule(("batch",), "zeros"),
    "timesteps": Rule(("batch",), "zeros"),
    "encoder_hidden_states": Rule(("batch words text_width",)),
    "encoder_attention_mask": Rule(("batch words",), "ones", wanted=False),
    "pooled_projections": Rule(("batch pooled_width",)),
    "img_ids": Rule(("4*words 3",), "zeros"),
    "txt_ids": Rule(("words 3",), "zeros"),
    "class_labels": Rule(("batch",), "zeros"),
}
"""The latents that a model takes, the time of the diffusion, and the text that guides it."""


def load_diffusers(name: str, request: Request) -> Target:
    """The model with the settings in a folder, or in a file.

    Raises:
        TraceError: diffusers is missing, there are no such settings, or they name no model of it.
    """
    diffusers = import_package("diffusers", f"diffusers:{name}")
    found = find_config(name)
    named, shown = found.settings.get("_class_name"), show_controls(name)
    model_class = getattr(diffusers, named, None) if isinstance(named, str) and named.isidentifier() else None
    if not isinstance(model_class, type) or not issubclass(model_class, nn.Module):
        raise TraceError(
            f"the settings of {shown} name no model of diffusers {diffusers.__version__}. Give the folder of a part, "
            "such as unet or transformer, whose config.json has a _class_name."
        )
    settings = {key: value for key, value in found.settings.items() if not key.startswith("_")}

    def make() -> nn.Module:
        model: nn.Module = model_class.from_config(settings)  # type: ignore[attr-defined]  # a model of diffusers
        return model.eval()

    def feed(model: nn.Module, *, has_storage: bool) -> Iterator[Made]:
        parameters = read_parameters(model)
        asked = [name for name, rule in RULES.items() if is_asked(parameters, name, wanted=rule.wanted)]
        config: Any = model.config  # with the defaults of what the file leaves out
        sizes = Sizes(SimpleNamespace(**config), request.wishes, SETTINGS)
        return guess(asked, RULES, sizes, has_storage=has_storage)

    return run_ways(make, feed, request, f"diffusers:{name}")
