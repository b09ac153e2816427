"""Small models that ranks share: a GPT written by hand, a Llama and a Mixtral of the transformers library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from sharded import GPT
from torch import nn

from xray.capture.targets.inputs import Target

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 80,
}
PLAN = {
    "layers.*.attention.query": "colwise",
    "layers.*.attention.key": "colwise",
    "layers.*.attention.value": "colwise",
    "layers.*.attention.out": "rowwise",
    "layers.*.up": "colwise",
    "layers.*.down": "rowwise",
}


@dataclass(frozen=True)
class Specimen:
    """How a model is made, called and divided."""

    make: Callable[[], nn.Module]
    name: str
    inputs: Mapping[str, torch.Tensor]
    plan: Mapping[str, str] | None = None
    others: Mapping[str, object] = field(default_factory=dict)

    def target(self, model=None):
        """The model with its inputs."""
        axes: dict[str | int, Sequence[str]] = {self.name: ("batch", "seq_len")}
        return Target(model or self.make(), (), {**self.inputs, **self.others}, axes=axes)


def make_gpt():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT(heads=4).eval()


def make_library(kind, **sizes):
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**{**SIZES, **sizes})
        return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


WORDS = torch.arange(4 * 6).view(4, 6)
NO_CACHE = {"use_cache": False}
SPECIMENS = {
    "GPT": Specimen(make_gpt, "ids", {"ids": WORDS}, PLAN),
    "Llama": Specimen(lambda: make_library("Llama"), "input_ids", {"input_ids": WORDS}, None, NO_CACHE),
    "Mixtral": Specimen(
        lambda: make_library("Mixtral", num_local_experts=4), "input_ids", {"input_ids": WORDS}, None, NO_CACHE
    ),
}
