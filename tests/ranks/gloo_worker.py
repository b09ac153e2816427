"""Several real processes: each divides a model, runs it, and writes down what its hooks saw on its rank.

Called as `gloo_worker.py RANKS FOLDER SPECIMEN:MESH ...`, with `:back` behind a case whose way back is measured too.
What they tell is measured without X-Ray's recorder, which runs afterwards and must change nothing.
"""

import json
import multiprocessing
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import torch
from rank_specimens import SPECIMENS
from torch.distributed import FileStore, destroy_process_group, init_process_group
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import xray
from xray.capture.targets.training import find_loss
from xray.ranks.dividing import divide
from xray.ranks.fake_group import forget_meshes
from xray.ranks.mesh import parse_mesh
from xray.ranks.recording import take_share

KINDS = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "_allgather_base_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}


class Ledger(TorchDispatchMode):
    """Adds up what goes between the ranks: of each kind how often, and the bytes of its largest side."""

    def __init__(self):
        super().__init__()
        self.times, self.bytes = Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        space, _, name = func._schema.name.partition("::")
        if space in ("c10d", "_c10d_functional") and name in KINDS:
            tensors = [one for one in tree_leaves((args, result)) if isinstance(one, torch.Tensor)]
            self.times[KINDS[name]] += 1
            self.bytes[KINDS[name]] += max(one.numel() * one.element_size() for one in tensors)
        return result


def local_shape(value):
    tensors = [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
    if not tensors:
        return None
    return list((tensors[0].to_local() if isinstance(tensors[0], DTensor) else tensors[0]).shape)


def measure(name, mesh_text, rank, store):
    mesh = parse_mesh(mesh_text)
    group = FileStore(str(store), mesh.count)
    init_process_group("gloo", store=group, rank=rank, world_size=mesh.count, timeout=timedelta(seconds=90))
    specimen = SPECIMENS[name]
    whole = specimen.make()
    model = divide(specimen.make(), mesh, specimen.plan)
    args = take_share(specimen.target(whole), mesh, rank)
    weights = {path: local_shape(one) for path, one in model.named_parameters()}
    shapes = {}

    def watch(path):
        def note(_, given, made):
            shapes.setdefault(path, local_shape(made))

        return note

    for path, module in model.named_modules():
        module.register_forward_hook(watch(path))
    with torch.no_grad(), Ledger() as ledger:
        first = tree_leaves(model(**args))[0]
    # once more, as FSDP keeps what it has fetched last
    with torch.no_grad(), Ledger() as again, xray.record(model) as recorder:
        second = tree_leaves(model(**args))[0]
    with torch.no_grad():
        alone = tree_leaves(whole(**args))[0]
        distance, is_same = float((first - alone).abs().max()), bool(torch.equal(first, second))
    destroy_process_group()
    forget_meshes()
    return {
        "shapes": shapes,
        "times": ledger.times,
        "bytes": ledger.bytes,
        "weights": weights,
        "same": is_same,
        "recorded": Counter(step.op for step in recorder.trace.steps if "group" in step.settings) == again.times,
        "distance": distance,
    }


def measure_back(name, mesh_text, rank, store):
    mesh = parse_mesh(mesh_text)
    group = FileStore(str(store), mesh.count)
    init_process_group("gloo", store=group, rank=rank, world_size=mesh.count, timeout=timedelta(seconds=90))
    specimen = SPECIMENS[name]
    whole = specimen.make()
    args = take_share(specimen.target(whole), mesh, rank)
    find_loss(whole(**specimen.target(whole).kwargs)).backward()
    if mesh.axes == ("dp",):  # torch's own, as everybody calls it
        model = run = specimen.make()
        run = DistributedDataParallel(model)
    else:
        model = run = divide(specimen.make(), mesh, specimen.plan, trains=True)
    with Ledger() as ledger:
        find_loss(run(**args)).backward()
    gradients = {path: one.grad for path, one in model.named_parameters()}
    known = dict(whole.named_parameters())
    factor = mesh.size("dp", "fsdp")
    distances = [
        float((full(one) * factor - known[path].grad).abs().max() / known[path].grad.abs().max().clamp(min=1e-3))
        for path, one in gradients.items()
        if full(one).shape == known[path].shape
    ]
    model.zero_grad()
    with Ledger() as again, xray.record(model) as recorder:
        find_loss(run(**args)).backward()
    destroy_process_group()
    forget_meshes()
    # before its second step DDP cuts its gradients into buckets, which the ledger leaves out
    found = [one for one in recorder.trace.steps if "group" in one.settings and one.op in KINDS.values()]
    return {
        "times": ledger.times,
        "bytes": ledger.bytes,
        "gradients": {path: local_shape(one) for path, one in gradients.items()},
        "recorded": Counter(step.op for step in found) == again.times,
        "compared": len(distances),
        "distance": max(distances),
    }


def full(gradient):
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def work(rank, folder, cases):
    torch.set_num_threads(1)
    told = {}
    for number, case in enumerate(cases):
        name, mesh, *back = case.split(":")
        told[case] = (measure_back if back else measure)(name, mesh, rank, folder / f"store{number}")
    (folder / f"{rank}.json").write_text(json.dumps(told), encoding="utf-8")


def main(count, folder, cases):
    """The exit codes of the processes, which part before anything has run: the libraries are loaded once for all."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(rank, folder, cases)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


if __name__ == "__main__":
    count = int(sys.argv[1])
    codes = main(count, Path(sys.argv[2]), sys.argv[3:])
    sys.exit(0 if codes == [0] * count else f"the processes ended with {codes}")
