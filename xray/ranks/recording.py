"""`xray trace SOURCE --mesh dp=2,tp=8`: the whole is recorded, then one rank of many, and what differs is told."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from xray.capture.targets.inputs import Target
from xray.capture.targets.target import Outcome, run_once
from xray.capture.targets.training import give_labels
from xray.capture.tensors import positional_names
from xray.capture.values import PreviewRule
from xray.errors import UsageError
from xray.ir.trace import Setting
from xray.ranks.dividing import divide, read_plan
from xray.ranks.fake_group import fake_ranks
from xray.ranks.merging import merge_whole
from xray.ranks.mesh import Mesh, parse_mesh
from xray.ranks.splits import check_splits

BATCH = "batch"


@dataclass(frozen=True)
class Share:
    """A mesh, the rank on it that is recorded, and a plan where the model's own is not the one.

    Where it `trains`, the way back from the loss is recorded too.
    """

    mesh: Mesh
    rank: int = 0
    plan: Mapping[str, str] | None = None
    trains: bool = False


def ask(mesh: str, rank: int, plan: Path | None, *, trains: bool = False) -> Share:
    """What the command line asks for.

    Raises:
        UsageError: the mesh is not of the right form, or the plan cannot be read.
    """
    return Share(parse_mesh(mesh), rank, None if plan is None else read_plan(plan), trains)


def record_rank(target: Target, asked: Share, preview: PreviewRule | None = None) -> Outcome:
    """The trace of one rank of a mesh, told against the whole; no other rank is there.

    Raises:
        UsageError: the ranks cannot share the model, or there is no plan by which to divide it.
        TraceError: torch has nothing that stands for other ranks, or the model cannot be divided so.
    """
    mesh = asked.mesh
    if not 0 <= asked.rank < mesh.count:
        raise UsageError(f"there is no rank {asked.rank} among {mesh.count}. Choose one from 0 to {mesh.count - 1}.")
    check_splits(target.model, mesh, asked.plan)
    if asked.trains:
        check_way_back(mesh)
        target = give_labels(target)
    target, spare, outcome = run_whole(target, asked, preview)
    if outcome.error is not None:
        return outcome
    config: dict[str, Setting] = {"mesh": str(mesh), "axes_of_mesh": ", ".join(mesh.axes), "rank": asked.rank}
    if not mesh.axes:  # every rank runs all of it, or all of some layers
        return replace(outcome, trace=replace(outcome.trace, config={**outcome.trace.config, **config}))
    part = run_part(target, copy.deepcopy(spare), mesh, asked, asked.rank)
    if part.error is not None:
        return replace(part, told=outcome.told)
    alone = {}
    for axis in mesh.axes:
        one = mesh.alone(axis)
        run = part if len(mesh.axes) == 1 else run_part(target, copy.deepcopy(spare), one, asked, 0)
        if run.error is not None:
            return replace(run, told=outcome.told)
        alone[axis] = run.trace
    told = merge_whole(part.trace, outcome.trace, alone, mesh, asked.rank)
    return Outcome(replace(told, config={**told.config, **config}), None, outcome.told)


def check_way_back(mesh: Mesh) -> None:
    """Make sure that ranks can share gradients so.

    Raises:
        UsageError: they cannot.
    """
    if mesh.size("dp") > 1 and mesh.experts_alone:
        raise UsageError(
            f"dp={mesh.size('dp')} beside ep alone shares no gradients: DistributedDataParallel does not take experts "
            "that are divided. Choose fsdp in place of dp, or leave --phase training out."
        )


def run_whole(target: Target, asked: Share, preview: PreviewRule | None) -> tuple[Target, nn.Module, Outcome]:
    """The undivided run, in the first way that works, and a model like the one that ran, which has not run yet."""
    while True:
        spare = copy.deepcopy(target.model)
        outcome = run_once(replace(target, rebuild=None), preview, trains=asked.trains)
        other = None if outcome.error is None or target.otherwise is None else target.otherwise(outcome.error)
        if other is None:
            return target, spare, outcome
        target = other


def run_part(target: Target, model: nn.Module, mesh: Mesh, asked: Share, rank: int) -> Outcome:
    """The run of one rank, with its part of the inputs."""
    with fake_ranks(mesh.count, rank):
        divided = divide(model, mesh, asked.plan, trains=asked.trains)
        shares = take_share(target, mesh, rank)
        one = replace(target, model=divided, args=(), kwargs=shares, rebuild=None, otherwise=None, axes={})
        return run_once(one, None, trains=asked.trains)


def take_share(target: Target, mesh: Mesh, rank: int) -> dict[str, object]:
    """The inputs of one rank, by their names: where ranks have other inputs, its part of the batch."""
    shared = mesh.size("dp", "fsdp")
    place = rank // (mesh.count // shared)
    names = positional_names(type(target.model))
    given = {**{names[number]: value for number, value in enumerate(target.args)}, **target.kwargs}
    axes = {names[name] if isinstance(name, int) else name: words for name, words in target.axes.items()}
    return {name: cut(name, value, axes, shared, place) for name, value in given.items()}


def cut(name: str, value: object, axes: Mapping[str, Sequence[str]], ranks: int, place: int) -> object:
    """The part of an input that one of so many ranks has, by its axis that is the batch.

    Raises:
        UsageError: the ranks cannot share the batch, or nothing says which axis that is.
    """
    if not isinstance(value, Tensor) or ranks == 1:
        return value
    words = list(axes.get(name, ()))
    if BATCH not in words:
        if name not in axes:
            raise UsageError(
                f"which axis of the input {name} is the batch is not known, and {ranks} ranks are to share it. "
                "Leave dp and fsdp out, or name a model of a library."
            )
        return value
    axis = words.index(BATCH)
    size = value.shape[axis]
    if size % ranks:
        raise UsageError(f"{ranks} ranks cannot share a batch of {size}. Choose --batch as a multiple of {ranks}.")
    return value.narrow(axis, place * (size // ranks), size // ranks)
