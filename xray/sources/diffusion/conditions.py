"""What else guides a model of diffusers besides a text: sizes, images and labels, as its settings ask for them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from xray.sources.diffusion import packing
from xray.sources.diffusion.needs import Needs

SIZES_TOLD = 6
"""So many numbers tell how large an image was, where it was cut, and how large it is to be."""


def added(needs: Needs, name: str, shape: packing.Shape) -> Mapping[str, Tensor]:
    """What is added to the time, or stands in for a text, by the kinds of both that the settings name."""
    kinds = {str(needs.setting("addition_embed_type")), str(needs.setting("encoder_hid_dim_type"))}
    batch, images = shape[0], needs.number("encoder_hid_dim")
    texts, made = needs.number("cross_attention_dim"), {}
    if kinds & {"text_time", "time"}:
        texts = needs.number("projection_class_embeddings_input_dim")
        texts -= SIZES_TOLD * needs.number("addition_time_embed_dim")
        made["time_ids"] = torch.zeros(batch, SIZES_TOLD)
    if kinds & {"text_image", "text_image_proj"}:
        images = texts
    if kinds & {"text_time", "text_image"}:
        made["text_embeds"] = packing.noise(needs, name, (batch, texts))
    if kinds & {"text_image", "text_image_proj", "image", "image_proj", "image_hint"}:
        made["image_embeds"] = packing.noise(needs, name, (batch, images))
    if "image_hint" in kinds:
        made["hint"] = packing.noise(needs, name, (batch, 3, 8 * needs["height"], 8 * needs["width"]))
    return made


def spell_label(needs: Needs) -> tuple[str, ...]:
    """The words for the shape of a label: a number, or what another network made of it."""
    kind = needs.setting("class_embed_type")
    if kind in {"projection", "simple_projection"}:
        return ("batch projection_class_embeddings_input_dim",)
    return (f"batch {4 * needs.number('block_out_channels')}",) if kind == "identity" else ("batch",)


def label(needs: Needs, name: str, shape: packing.Shape) -> Tensor:
    """A label of either kind."""
    return packing.noise(needs, name, shape) if len(shape) > 1 else torch.zeros(shape, dtype=torch.long)


def residues_alone(needs: Needs, name: str, shape: packing.Shape) -> Mapping[str, Tensor]:
    """Of each residue, that nothing is known of it, and that it is to be made."""
    known, made = torch.zeros(shape, dtype=torch.bool), torch.ones(shape, dtype=torch.bool)
    return {"is_in_context_conditioning": known, "supports_local_latent": made}


def listed(fill: packing.Fill) -> packing.Fill:
    """The same as the one thing in a list, where the forward says that it takes a list."""

    def put(needs: Needs, name: str, shape: packing.Shape) -> Any:
        made = fill(needs, name, shape)
        return [made] if needs.annotated(name).startswith("list[") else made

    return put


def sequence_of(fill: packing.Fill) -> packing.Fill:
    """The same as the one thing in a list."""
    return lambda needs, name, shape: [fill(needs, name, shape)]


def first_of(setting: str) -> packing.Fill:
    """The first number of a setting that lists those that there are."""
    return lambda needs, name, shape: needs.number(setting)


def counting(needs: Needs, name: str, shape: packing.Shape) -> Tensor:
    """The whole numbers from nought."""
    return torch.arange(shape[-1]).expand(shape).contiguous()


def words(needs: Needs, name: str, shape: packing.Shape) -> Tensor:
    """Ids of words, none of them the first ones, which often are signs."""
    layer = needs.reading(name).layer
    most = layer.num_embeddings if isinstance(layer, nn.Embedding) else 1_000
    return torch.randint(min(5, most - 1), most, shape, generator=torch.Generator().manual_seed(0))
