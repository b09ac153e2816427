"""Ranks that are not there: torch's fake process group, in which every exchange ends at once and moves nothing.

It stands in torch's own test tools, so all that X-Ray takes from there is in this file. Tried with torch
2.13.0 and 2.14.1, and with 2.6.0 as far as a plan of one's own for tensor parallel goes.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from xray.errors import TraceError


@contextmanager
def fake_ranks(count: int, rank: int = 0) -> Iterator[None]:
    """A block in which this process is one of so many ranks; afterwards it is alone again.

    Raises:
        TraceError: this torch has no fake process group, or the process is one of several ranks already.
    """
    if not torch.distributed.is_available():
        raise TraceError(
            f"torch {torch.__version__} was built without torch.distributed, which a mesh needs. "
            "Install a torch that has it."
        )
    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        raise TraceError(
            f"torch {torch.__version__} has no fake process group, which stands for the other ranks. "
            "Install torch 2.6 or newer."
        ) from error
    if torch.distributed.is_initialized():
        raise TraceError(
            "this process is one of several ranks already, and a mesh needs ranks of its own. "
            "Record the model with xray.record instead."
        )
    torch.distributed.init_process_group("fake", rank=rank, world_size=count, store=FakeStore())
    try:
        with weights_without_storage(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # which nobody changes here
            yield
    finally:
        torch.distributed.destroy_process_group()
        forget_meshes()


def forget_meshes() -> None:
    """Make torch forget what it worked out for meshes, whose ranks are gone: another mesh may look like one of them."""
    from torch.distributed.tensor import _redistribute, debug

    for name in ("_clear_sharding_prop_cache", "_clear_fast_path_sharding_prop_cache"):
        getattr(debug, name, lambda: None)()
    kept: Any = getattr(_redistribute, "_gen_transform_infos", None)
    if kept is not None and hasattr(kept, "cache_clear"):
        kept.cache_clear()


def allocate_nothing(size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """In place of room for what ranks exchange: its shape alone."""
    return torch.empty(*size, dtype=dtype, device="meta")


@contextmanager
def weights_without_storage() -> Iterator[None]:
    """A block in which FSDP takes weights that have no numbers, as nobody is going to read them.

    What it gathers and gives away has none then either.
    """
    try:
        from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
    except ImportError:  # an older torch keeps it elsewhere, and refuses such weights in its own words
        yield
        return

    def go_without(group: Any) -> None:
        if all(one.sharded_param.is_meta for one in group.fsdp_params):
            for way in (getattr(group, f"_{name}_comm", None) for name in ("all_gather", "reduce_scatter")):
                if way is not None:
                    way.allocate = allocate_nothing

    kept = FSDPParamGroup._validate_no_meta_params
    FSDPParamGroup._validate_no_meta_params = go_without  # type: ignore[method-assign]
    try:
        yield
    finally:
        FSDPParamGroup._validate_no_meta_params = kept  # type: ignore[method-assign]
