"""Whether a record's data flow is complete: every tensor comes from a step before, or from outside for a reason."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace


def find_gaps(trace: Trace, model: nn.Module, given: Iterable[Tensor] = ()) -> list[str]:
    """What is wrong with where the tensors of a record come from, one line each; empty where all is well.

    A source must be a step of the same pass that began before its reader. A tensor without a source must look like
    an input of its pass, a tensor in `given`, a parameter or buffer of the model, or be the mask that a kernel implies.
    """
    kept = {look(one) for one in (*model.parameters(), *find_held(model), *given)}
    return [line for one_pass in trace.passes for line in find_gaps_of(one_pass, kept)]


def find_held(model: nn.Module) -> Iterable[Tensor]:
    """Buffers, and the tensors that modules hold as plain attributes."""
    for module in model.modules():
        yield from module.buffers(recurse=False)
        yield from (value for value in vars(module).values() if isinstance(value, Tensor))


def look(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def find_gaps_of(one_pass: Pass, kept: set[tuple[tuple[int, ...], str]]) -> list[str]:
    places = {step.id: place for place, step in enumerate(one_pass.steps)}
    parents = {step.id: step.parent for step in one_pass.steps}
    handed = {(one.shape, one.dtype) for step in one_pass.steps if step.parent is None for one in step.inputs}
    gaps = []
    for place, step in enumerate(one_pass.steps):
        for one in step.inputs:
            where = f"{step.id} reads {one.name} {one.shape}"
            if one.source is None:
                if (one.shape, one.dtype) not in kept | handed and not is_implied(step, one):
                    gaps.append(f"{where} from nowhere")
            elif one.source not in places:
                gaps.append(f"{where} from {one.source}, which is no step")
            elif places[one.source] >= place and not is_around(step.id, one.source, parents):
                gaps.append(f"{where} from {one.source}, which comes later")
        for one in step.outputs:
            if one.source is not None and one.source not in places:
                gaps.append(f"{step.id} gives {one.name} from {one.source}, which is no step")
    return gaps


def is_implied(step: Step, one: TensorRecord) -> bool:
    """Whether it is the mask that `is_causal` stands for, which no step makes."""
    return one.role == "mask" and bool(step.settings.get("derived"))


def is_around(inner: str, outer: str, parents: dict[str, str | None]) -> bool:
    """Whether one step runs inside the other."""
    above = parents.get(inner)
    while above is not None and above != outer:
        above = parents.get(above)
    return above == outer


def find_unreached(trace: Trace, model: nn.Module) -> list[str]:
    """The modules that got a gradient, hence took part in the result, but from which no way leads to it in the record.

    Call it after the gradients were sent back; autograd is the witness here, and knows nothing of the record. Only
    modules that hold parameters themselves and ran as steps count.
    """
    one_pass = trace.passes[0]
    reached = find_ancestors(one_pass)
    ran = {step.path for step in one_pass.steps}
    return [
        name
        for name, module in model.named_modules()
        if name in ran
        and any(one.grad is not None and bool(torch.any(one.grad != 0)) for one in module.parameters(recurse=False))
        and name not in reached
    ]


def find_ancestors(one_pass: Pass) -> set[str]:
    """The paths of all steps from which a way leads to what the pass gives, and of the blocks around them."""
    found = find_ancestors_of(one_pass, one_pass.steps[0])
    paths = {step.path for step in found}
    for step in found:
        above = step.parent
        while above is not None:
            paths.add(one_pass.by_id[above].path)
            above = one_pass.by_id[above].parent
    return paths


def find_ancestors_of(one_pass: Pass, step: Step) -> tuple[Step, ...]:
    """The step and all those from which a way leads to what it makes, the nearest first.

    What a block gives is made by something inside it, so the way goes on from there and not from what the block takes.
    """
    found: dict[str, Step] = {}
    todo = [step]
    while todo:
        one = todo.pop(0)
        if one.id in found:
            continue
        found[one.id] = one
        is_block = one.id in one_pass.blocks
        records = one.outputs if is_block and any(r.source not in (None, one.id) for r in one.outputs) else one.inputs
        todo += [one_pass.by_id[r.source] for r in records if r.source in one_pass.by_id]
    return tuple(found.values())
