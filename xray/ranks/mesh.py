"""How many ranks there are, and along which axes they stand: "dp=2,tp=8"."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xray.errors import UsageError
from xray.text import show_controls

MEANINGS: Mapping[str, str] = {
    "dp": "data parallel: each rank has other inputs, and all weights",
    "fsdp": "FSDP2: each rank has other inputs and a part of every weight, and fetches the rest layer by layer",
    "tp": "tensor parallel: each rank has a part of the heads, the hidden features and the vocabulary",
    "ep": "expert parallel: each rank has some of the experts",
    "pp": "pipeline: each stage has some of the layers",
}
"""The axes that a mesh may have."""
EXAMPLE = "dp=2,tp=8"
MOST_RANKS = 1 << 16


@dataclass(frozen=True)
class Mesh:
    """The axes of a mesh, in the order in which they were given, each with its number of ranks.

    The ranks of `ep` are those of `fsdp` and `tp` again, unless it stands without them.
    """

    sizes: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())

    def size(self, *names: str) -> int:
        """How many ranks stand along these axes, 1 where the mesh does not have them."""
        return prod(self.sizes.get(name, 1) for name in names)

    @property
    def experts_alone(self) -> bool:
        """Whether the experts are divided among ranks that share all else."""
        return self.size("ep") > 1 and self.size("fsdp", "tp") == 1

    @property
    def count(self) -> int:
        """How many ranks there are at each stage of the pipeline."""
        return self.size("dp", "fsdp", "tp") * (self.size("ep") if self.experts_alone else 1)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that divide what flows through the model, in the order of the placements' words."""
        alone = ("ep",) if self.experts_alone else ()
        return tuple(name for name, size in self.sizes.items() if size > 1 and name in ("dp", "fsdp", "tp", *alone))

    def ranks_along(self, name: str, rank: int) -> tuple[int, ...]:
        """The ranks that stand with this one along an axis: those of `tp`, or of `ep` alone, are next to each other."""
        step = 1
        for other in ("ep", "tp", "fsdp", "dp"):
            size = self.size(other) if other in self.axes else 1
            if other == name:
                first = rank - rank // step % size * step
                return tuple(first + number * step for number in range(size))
            step *= size
        return (rank,)

    def alone(self, name: str) -> "Mesh":
        """The mesh with this axis only."""
        return Mesh({name: self.sizes[name]})


def parse_mesh(text: str) -> Mesh:
    """A mesh as it is written on the command line.

    Raises:
        UsageError: it is not of that form, an axis is unknown or stands twice, or has no rank.
    """
    sizes: dict[str, int] = {}
    for part in text.replace(" ", "").split(","):
        name, equals, size = part.partition("=")
        shown = show_controls(part)
        if name == "cp" and equals:
            raise UsageError(
                f"{shown}: torch divides attention among ranks by words on a GPU alone, and here none is used. Leave "
                "cp out; a plan can divide the stream between layers by words (sequence_parallel)."
            )
        if name not in MEANINGS or not equals:
            raise UsageError(
                f"{shown!r} is no axis of a mesh with its ranks. Write them as in {EXAMPLE}; there are "
                f"{', '.join(MEANINGS)}."
            )
        if name in sizes:
            raise UsageError(f"{name} stands twice in the mesh {show_controls(text)!r}. Give each axis once.")
        if not size.isascii() or not size.isdecimal() or not 1 <= int(size[:9]) <= MOST_RANKS:
            raise UsageError(
                f"the mesh cannot have {shown!r}: an axis has 1 to {MOST_RANKS:,} ranks. Write it as in {EXAMPLE}."
            )
        sizes[name] = int(size[:9])
    mesh = Mesh(sizes)
    if mesh.count * mesh.size("pp") > MOST_RANKS:
        raise UsageError(f"the mesh {mesh} has more than {MOST_RANKS:,} ranks. Give fewer.")
    return mesh
