"""What it costs to run a model, as facts: parameters, bytes, memory, FLOPs, what is kept from word to word."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from xray.ir.laws import Law, Size

MemoryKind = Literal["parameters", "gradients", "optimiser", "cache", "inputs", "activations", "workspace"]
"""What memory is taken up by: activations are handed on or kept for the way back, workspace is made and freed again
inside one module, or on the way back."""
CacheKind = Literal["full", "latent", "sliding", "static", "state"]
"""What a layer keeps: of every word its keys and values, or what they can be made of again; of the last words alone;
what another tower said, which no further word changes; or a state that does not grow."""
Quantity = Literal["inference_flops", "training_flops", "cache_bytes", "inference_bytes", "training_bytes"]


@dataclass(frozen=True)
class Memory:
    """The most bytes that lived at one moment, by what they were, and where in the model that moment was."""

    bytes: int
    kinds: Mapping[MemoryKind, int]
    place: str


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps: the shapes of its tensors, their bytes, and how they grow from word to word."""

    layer: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    bytes_per_word: int
    kind: CacheKind


@dataclass(frozen=True)
class RunCost:
    """One run at one size: inference, and a training step where the model can take one."""

    batch: int
    length: int
    inference: Memory
    inference_flops: int
    training: Memory | None
    training_flops: int | None
    cache_bytes: int

    @property
    def size(self) -> Size:
        """The batch and the length."""
        return self.batch, self.length

    def read(self, quantity: Quantity) -> int | None:
        """One of the run's counts, by its name; None where it has none."""
        if quantity == "inference_bytes":
            return self.inference.bytes
        if quantity == "training_bytes":
            return None if self.training is None else self.training.bytes
        counts = {"inference_flops": self.inference_flops, "training_flops": self.training_flops}
        return counts.get(quantity, self.cache_bytes)


@dataclass(frozen=True)
class Cost:
    """What a model costs; `active_params` are those that one word meets, None where nothing tells.

    They hold whole tables of words and places; `passed_rows` are the parameters in those rows of them that one word
    does not look up, which some makers leave out of the count. `runs` are the sizes at which it was run, `laws` what
    these follow; `most_words` is how many places its settings name. `untold` says why a size that was asked for was not
    run.
    """

    title: str
    params: int
    active_params: int | None
    param_bytes: Mapping[str, int]
    runs: tuple[RunCost, ...]
    cache: tuple[LayerCache, ...]
    laws: Mapping[Quantity, Law] = field(default_factory=dict)
    most_words: int | None = None
    passed_rows: int = 0
    untold: str = ""

    def find_run(self, size: Size) -> RunCost | None:
        """The run at a size, where there was one."""
        return next((run for run in self.runs if run.size == size), None)

    def tell(self, quantity: Quantity, size: Size) -> int | None:
        """A count at a size: as it was measured there, else by its law; None where no law that holds there is known."""
        run = self.find_run(size)
        if run is not None:
            return run.read(quantity)
        law = self.laws.get(quantity)
        return law.at(size) if law is not None and law.covers(size) else None

    @property
    def bytes_per_word(self) -> int:
        """What one more word of one input adds to the cache."""
        return sum(one.bytes_per_word for one in self.cache)

    def to_dict(self) -> dict[str, object]:
        """The same as plain lists and words, for JSON; coefficients stand as fractions, "3/2"."""
        plain = asdict(replace(self, laws={}))
        plain["bytes_per_word"] = self.bytes_per_word
        plain["laws"] = {
            quantity: {
                "formula": law.write(),
                "terms": [
                    {"batch_power": by, "length_power": power, "coefficient": str(one)}
                    for (by, power), one in law.terms.items()
                ],
                "made_from": [list(size) for size in law.made_from],
                "tested_at": [list(size) for size in law.tested_at],
            }
            for quantity, law in self.laws.items()
        }
        return plain
