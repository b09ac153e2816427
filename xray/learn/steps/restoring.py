"""A checkpoint's tensors held to those that belong in their places, and a model given its weights."""

import torch
from torch import Tensor

from xray.errors import RunError
from xray.learn.runs.checkpoint import Checkpoint
from xray.model.transformer import Transformer


def restore_model(model: Transformer, checkpoint: Checkpoint) -> None:
    """Give a model the weights of a checkpoint, every one of them and no others.

    Raises:
        RunError: the checkpoint holds other weights than the model.
    """
    wanted = dict(model.named_parameters())
    found = {name.removeprefix("model."): t for name, t in checkpoint.tensors.items() if name.startswith("model.")}
    odd = sorted(wanted.keys() ^ found.keys())
    if odd:
        raise RunError(f"the checkpoint and the model do not both have {odd[0]}. They belong to different runs.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            if parameter.shape != found[name].shape:
                raise RunError(
                    f"the checkpoint's {name} is {tuple(found[name].shape)}, the model's {tuple(parameter.shape)}. "
                    "They belong to different runs."
                )
            parameter.copy_(found[name])


def check_like(name: str, found: Tensor, wanted: Tensor) -> None:
    """Hold a tensor of a checkpoint to the kind that belongs in its place.

    Raises:
        RunError: it has another shape or type.
    """
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        raise RunError(
            f"the checkpoint's {name} is {tuple(found.shape)} {found.dtype}, and should be {tuple(wanted.shape)} "
            f"{wanted.dtype}. It was changed, or made by another X-Ray; train again."
        )
