"""The weights of a model laid side by side in one block of memory, so that a training step can be few large operations.

Every parameter of the model becomes a view of its place in the block: who reads the model sees what the step wrote.
Adam then updates one tensor and not a hundred, and matrices that multiply the same input are one matrix.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from xray.model.transformer import Transformer

Given = ParamSpec("Given")
Made = TypeVar("Made")


class PackedWeights:
    """The block, the leaves that a step computes with, and where each parameter lies.

    A leaf is a parameter, or several under one name, one below the other: "qkv" of a self-attention, and the keys and
    values of all cross-attentions, which all read the memory.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = model
        parameters = dict(model.named_parameters())
        groups = dict(group_names(model, parameters))
        ordered = [name for names in groups.values() for name in names]
        self.block = nn.Parameter(torch.cat([parameters[name].detach().reshape(-1) for name in ordered]))
        self.places: dict[str, slice] = {}
        end = 0
        for name in ordered:
            start, end = end, end + parameters[name].numel()
            self.places[name] = slice(start, end)
        self.device = self.block.device
        self.shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self.parts = [self.block]
        self.leaves: dict[str, Tensor] = {}
        for leaf, names in groups.items():
            where = slice(self.places[names[0]].start, self.places[names[-1]].stop)
            inner = parameters[names[0]].shape[1:]
            self.leaves[leaf] = self.block.data[where].view(-1, *inner).detach().requires_grad_()
        for name, parameter in parameters.items():
            parameter.data = self.block.data[self.places[name]].view(parameter.shape)

    def forget_gradients(self) -> None:
        """Make the leaves ready for another step."""
        for leaf in self.leaves.values():
            leaf.grad = None

    def go_backward(self, loss: Tensor) -> None:
        """Add the slopes of a loss to the gradients of the leaves."""
        torch.autograd.backward(loss)

    def gather_gradients(self) -> None:
        """Lay the gradients of the leaves side by side, as that of the block."""
        self.block.grad = torch.cat(
            [(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad).reshape(-1) for leaf in self.leaves.values()]
        )

    def shorten_gradients(self, longest: float) -> None:
        """Make all gradients together at most so long."""
        nn.utils.clip_grad_norm_(self.block, longest)

    def inside(self, path: str, compute: Callable[Given, Made], *args: Given.args, **named: Given.kwargs) -> Made:
        """What a function computes that needs the leaves of one layer, or, with no path, those of no layer."""
        return compute(*args, **named)

    def list_whole(self, tensors: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        """What belongs to each parameter, by its name, of tensors like the parts."""
        yield from self.cut(tensors[0])

    def fill(self, tensors: Sequence[Tensor], whole: Mapping[str, Tensor]) -> None:
        """Write into tensors like the parts what `list_whole` gave."""
        for name, place in self.cut(tensors[0]):
            place.copy_(whole[name])

    def show(self) -> None:
        """Let the readable model have the weights of this moment: it always has."""

    def cut(self, block: Tensor) -> Iterator[tuple[str, Tensor]]:
        """What belongs to each parameter, by its name, of a tensor as long as the block."""
        for name, parameter in self.model.named_parameters():
            yield name, block[self.places[name]].view(parameter.shape)


def group_names(model: Transformer, parameters: dict[str, nn.Parameter]) -> Iterator[tuple[str, Sequence[str]]]:
    """Every leaf with the names of its parameters."""
    taken: set[str] = set()
    stacks: dict[str, list[str]] = {}
    for path in self_attentions(model):
        stacks[f"{path}.qkv"] = [f"{path}.{which}" for which in ("query", "key", "value")]
    crossing = [f"decoder.layers.{number}.cross_attention" for number in range(len(model.decoder.layers))]
    stacks["memory"] = [f"{path}.{which}" for path in crossing for which in ("key", "value")]
    for leaf, modules in stacks.items():
        for kind in ("weight", "bias"):
            names = [f"{module}.{kind}" for module in modules]
            taken.update(names)
            yield f"{leaf}.{kind}", names
    for name in parameters:
        if name not in taken:
            yield name, [name]


def self_attentions(model: Transformer) -> list[str]:
    """The paths of all self-attentions."""
    return [
        f"{side}.layers.{number}.self_attention"
        for side, layers in (("encoder", model.encoder.layers), ("decoder", model.decoder.layers))
        for number in range(len(layers))
    ]
