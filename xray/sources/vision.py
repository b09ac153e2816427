"""Models of timm and torchvision by their names, built without weights, and an image of the size that they are for."""

import importlib
import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn

from xray.capture.targets.inputs import Target
from xray.errors import TraceError
from xray.sources.family_inputs import make_noise
from xray.sources.hub import describe_missing
from xray.sources.request import Request
from xray.sources.sizes import BATCH
from xray.sources.ways import Made, run_ways
from xray.text import show_controls

IMAGE_SIDE = 224
FRAMES = 16
AXES = ("batch", "channels", "height", "width")


def load_timm(name: str, request: Request) -> Target:
    """A model of timm, as of "vit_base_patch16_224".

    Raises:
        TraceError: timm is missing, or has no such model.
    """
    timm = import_package("timm", f"timm:{name}")
    known = timm.list_models() if not timm.is_model(name.split(".")[0]) else []
    if known:
        raise TraceError(describe_unknown(name, "timm", known))
    side = request.wishes.image_size

    def make() -> nn.Module:
        if side is not None:
            try:
                model: nn.Module = timm.create_model(name, pretrained=False, img_size=side)
            except TypeError:  # a model for images of any size
                pass
            else:
                return model.eval()
        plain: nn.Module = timm.create_model(name, pretrained=False)
        return plain.eval()

    def feed(model: nn.Module, *, has_storage: bool) -> Iterator[Made]:
        channels, height, width = getattr(model, "pretrained_cfg", {}).get("input_size", (3, IMAGE_SIDE, IMAGE_SIDE))
        shape = (request.wishes.batch or BATCH, channels, side or height, side or width)
        yield Made({"x": make_noise(shape, has_storage=has_storage)}, {"x": AXES})

    return run_ways(make, feed, request, f"timm:{name}")


def load_torchvision(name: str, request: Request) -> Target:
    """A model of torchvision, as of "resnet50".

    Raises:
        TraceError: torchvision is missing, or has no such model.
    """
    models = import_package("torchvision", f"torchvision:{name}").models
    if name not in models.list_models():
        raise TraceError(describe_unknown(name, "torchvision", models.list_models()))
    builder = models.get_model_builder(name)
    bare = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}

    def feed(model: nn.Module, *, has_storage: bool) -> Iterator[Made]:
        side = request.wishes.image_size or read_side(models, name)
        argument = next(iter(inspect.signature(model.forward).parameters))
        where = type(model).__module__.rpartition(".")[0] + f".{builder.__module__}"
        if ".detection" in where:
            images = [
                make_noise((3, side, side), has_storage=has_storage) for _ in range(request.wishes.batch or BATCH)
            ]
            yield Made({argument: images}, {})
            return
        is_video = ".video" in where
        shape = (request.wishes.batch or BATCH, 3, *((FRAMES,) if is_video else ()), side, side)
        axes = ("batch", "channels", "frames", "height", "width") if is_video else AXES
        yield Made({argument: make_noise(shape, has_storage=has_storage)}, {argument: axes})

    return run_ways(lambda: builder(**bare).eval(), feed, request, f"torchvision:{name}")


def read_side(models: Any, name: str) -> int:
    """The side of the images for which a model's published weights were made."""
    try:
        size = models.get_model_weights(name).DEFAULT.transforms().crop_size
    except (AttributeError, ValueError):
        return IMAGE_SIDE
    return int(size[0] if isinstance(size, (list, tuple)) else size)


def import_package(package: str, source: str) -> Any:
    """A package that models come from.

    Raises:
        TraceError: it is missing, or does not go with the torch that is here.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise TraceError(describe_missing(package, source)) from error
    except Exception as error:  # compiled parts that were made for another torch
        reason = show_controls(" ".join(str(error).split())[:200]).rstrip(".")
        raise TraceError(
            f"the package {package} does not go with torch {torch.__version__}: {reason}. Install one that does."
        ) from error


def describe_unknown(name: str, package: str, known: list[str]) -> str:
    near = ", ".join(get_close_matches(name, known, 3)) or ", ".join(known[:3])
    return f"{package} has no model {show_controls(name)}. It has {len(known)}, among them {near}."
