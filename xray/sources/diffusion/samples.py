"""What an autoencoder or a U-Net of diffusers is given: images, films or sounds, and what controls them."""

import re
from math import prod

from torch import nn

from xray.sources.diffusion.needs import COLUMNS, FRAMES, OF_LAYERS, ROWS, SOUND_FRAMES, Needs

PIXEL_ROWS, PIXEL_COLUMNS, PIXEL_FRAMES = 64, 96, 9
"""So large is an image that is made smaller by up to 32 times, and so long a film that is by up to 8 times."""
CHANNELS = ("in_channels", "input_channels", "audio_channels", "num_channels")
"""Settings that tell of how many colours an image is, or of how many voices a sound."""
COLOURS, VOICES = (3,), (2, 1)
"""What an image or a sound has where the settings tell of another number, which they do where it is cut up first."""
RATES = ("downsampling_ratios", "encoder_rates", "encoder_strides", "enc_strides")
FILM, PICTURE = OF_LAYERS[nn.Conv3d], OF_LAYERS[nn.Conv2d]
HINTS = ("controlnet_cond_embedding", "input_hint_block")
"""The parts that make an image as small as the latents that it controls."""


def list_samples(needs: Needs) -> tuple[str, ...]:
    """The words for the shape of what is called a sample, the likeliest first."""
    if hasattr(needs.model, "encode") and hasattr(needs.model, "decode"):
        return tuple(dict.fromkeys(list_coded(needs)))
    found, reading = needs.latents("sample"), needs.reading("sample")
    if isinstance(reading.layer, nn.Conv2d) and not reading.is_bare and len(found[0].split()) == 4:
        channels = f"{needs['in_channels']}@channels"
        return f"batch {channels} frames height width", f"batch frames {channels} height width", *found
    channels = f"{needs['in_channels']}@channels"  # an image may be cut up before the first layer reads it
    return tuple(dict.fromkeys((*found, *(re.sub(r"\d+@channels", channels, one) for one in found))))


def list_coded(needs: Needs) -> list[str]:
    """The same for what an autoencoder makes small and large again: the kind of its first convolution tells."""
    first = needs.reading("sample").layer
    if not isinstance(first, tuple(OF_LAYERS)):
        first = next((one for one in needs.model.modules() if isinstance(one, tuple(OF_LAYERS))), None)
    told = next((number for name in CHANNELS if (number := needs.number(name))), 0)
    told = told or int(getattr(first, "in_channels", COLOURS[0]))
    if isinstance(first, nn.Conv1d):
        counted = [f"batch {one}@channels {count_samples(needs)}@samples" for one in (told, *VOICES)]
        alone = f"batch {count_samples(needs)}@samples"
        return [alone, *counted] if needs.number("mel_bins") else [*counted, alone]
    if tile := needs.setting("kernel"):
        return [f"1@batch {told}@channels {tile[0]}@frames {tile[1]}@height {tile[2]}@width"]
    pictures = [f"batch{count_images(needs)} {one}@channels {spell_sides(needs)}" for one in (told, *COLOURS)]
    films = [
        f"batch {one}@channels {frames}@frames {spell_sides(needs)}"
        for frames in (needs.number("clip_length") * 2 or PIXEL_FRAMES, 1)
        for one in (told, *COLOURS)
    ]
    is_film = isinstance(first, nn.Conv3d) or len(needs.reading("sample").sizes) == 5
    return films + pictures if is_film else pictures + films


def count_samples(needs: Needs) -> int:
    """The samples of a sound: a whole number of those that become one place."""
    rates = needs.setting(*RATES)
    each = prod(rates) if isinstance(rates, (list, tuple)) else needs.number("hop_length", "downsampling_ratio") or 1
    return PIXEL_FRAMES * each * (needs.number("patch_size", "enc_hop_length") or 1)


def count_images(needs: Needs) -> str:
    """By what the images of a batch are more where an autoencoder takes films image by image."""
    return f"*{FRAMES}" if "num_frames" in needs.parameters else ""


def spell_sides(needs: Needs) -> str:
    """Height and width of an image, or frames and mels of a sound that is looked at as one."""
    if mels := needs.number("mel_bins"):
        return f"{SOUND_FRAMES}@frames {mels}@mels"
    side = needs.wishes.image_size or needs.number("encoder_input_size")
    return f"{side or PIXEL_ROWS}@height {side or PIXEL_COLUMNS}@width"


def list_controls(needs: Needs, name: str = "controlnet_cond") -> tuple[str, ...]:
    """The words for the shape of what controls the latents: an image that a part makes as small, or such latents."""
    hint = next((part for name in HINTS if (part := getattr(needs.model, name, None)) is not None), None)
    if hint is None:
        return needs.latents(name)
    layers = [one for one in hint.modules() if isinstance(one, nn.Conv2d)]
    smaller = prod(one.stride[0] for one in layers)
    channels = layers[0].in_channels - bool(needs.setting("concat_conditioning_mask")) if layers else 3
    if "sample" not in needs.parameters:
        side = smaller * needs["patch"]
        return (f"batch {channels}@channels {ROWS * side}@height {COLUMNS * side}@width",)
    frames = "frames " if "frames" in list_samples(needs)[0].split() else ""
    height, width = smaller * needs["height"], smaller * needs["width"]
    return (f"batch {channels}@channels {frames}{height}@height {width}@width",)


def list_large(needs: Needs) -> tuple[str, ...]:
    """The words for the shape of an image from which such latents as are usual would be made."""
    return (f"batch {needs['in_channels']}@channels {8 * needs['height']}@height {8 * needs['width']}@width",)
