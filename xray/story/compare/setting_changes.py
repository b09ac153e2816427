"""Which settings differ between two networks: first those that their steps prove, then what their files name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xray.ir.trace import Setting, Trace
from xray.story.anatomy.attentions import Attention, Latent
from xray.story.anatomy.branches import Experts, FeedForward, Recurrence
from xray.story.anatomy.tree import Anatomy, Tower
from xray.story.body.whole import anatomy

Facts = Mapping[str, Setting]
WORDS = {
    "hidden_size": "d_model",
    "n_embd": "d_model",
    "d_model": "d_model",
    "num_hidden_layers": "layers",
    "n_layer": "layers",
    "num_layers": "layers",
    "num_attention_heads": "heads",
    "n_head": "heads",
    "num_heads": "heads",
    "num_key_value_heads": "key and value heads",
    "head_dim": "d_k",
    "d_kv": "d_k",
    "intermediate_size": "d_ff",
    "n_inner": "d_ff",
    "d_ff": "d_ff",
    "vocab_size": "vocabulary",
    "num_local_experts": "experts",
    "num_experts": "experts",
    "n_routed_experts": "experts",
    "num_experts_per_tok": "experts chosen",
    "n_shared_experts": "experts shared",
    "moe_intermediate_size": "d_ff of an expert",
    "sliding_window": "window",
    "rope_theta": "rotary base",
    "rope_parameters.rope_theta": "rotary base",
    "rope_parameters.rope_type": "rotary scaling",
    "rope_parameters.factor": "factor of the rotary scaling",
    "max_position_embeddings": "places",
    "n_positions": "places",
    "rms_norm_eps": "epsilon of the norms",
    "layer_norm_eps": "epsilon of the norms",
    "layer_norm_epsilon": "epsilon of the norms",
    "hidden_act": "activation",
    "activation_function": "activation",
    "tie_word_embeddings": "output shares the table of the words",
    "attention_bias": "bias in attention",
    "attention_dropout": "dropout of attention",
    "dtype": "type of the weights",
}
"""Plain words for settings that many models have, under the names that they give them."""
FIRST = ("heads", "key and value heads", "d_k", "layers", "d_model", "d_ff", "vocabulary", "rotary base", "places")
"""What is told before all else."""
UNTOLD = (
    "_name_or_path",
    "name_or_path",
    "transformers_version",
    "architectures",
    "model_type",
    "id2label",
    "label2id",
    "auto_map",
    "token_id",
    "token_index",
    "initializer",
    "use_cache",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "problem_type",
    "pretraining_tp",
    "chunk_size_feed_forward",
    "is_encoder_decoder",
)
"""Settings, by a part of their names, that change nothing of what is computed."""


@dataclass(frozen=True)
class SettingChange:
    """A setting that is another one afterwards; None where one side has no such thing."""

    name: str
    before: Setting
    after: Setting


def compare_settings(
    before: Trace, after: Trace, before_file: Facts | None = None, after_file: Facts | None = None
) -> tuple[SettingChange, ...]:
    """What differs: of what the steps of both prove, and of what the settings name, those of a file where given."""
    old, new = list_facts(anatomy(before)), list_facts(anatomy(after))
    proven = {name: (old[name], new[name]) for name in old if name in new}
    named = pair(say_plainly(before_file or before.config), say_plainly(after_file or after.config))
    told = {**{name: values for name, values in named.items() if name not in proven}, **proven}
    order = {name: place for place, name in enumerate(dict.fromkeys((*FIRST, *proven)))}
    changed = [name for name, (one, other) in told.items() if one != other and (one or other)]
    names = sorted(changed, key=lambda name: order.get(name, len(order)))
    return tuple(SettingChange(name, *told[name]) for name in names)


def pair(old: Facts, new: Facts) -> dict[str, tuple[Setting, Setting]]:
    """The settings of both sides by name, None where one has none."""
    return {name: (old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))}


def say_plainly(settings: Facts) -> dict[str, Setting]:
    """Settings under plain words where there are any, without those that change nothing."""
    return {
        WORDS.get(name, name): value
        for name, value in settings.items()
        if not any(part in name for part in UNTOLD) and (value is not None or name in WORDS)
    }


def list_facts(found: Anatomy) -> dict[str, Setting]:
    """What is proven of a network, by plain names; what is not known has none."""
    several = len(found.towers) > 1
    facts: dict[str, Setting] = {"parameters": found.params, "parameters that one place meets": found.active_params}
    for tower in found.towers:
        of = f" of the {tower.name}" if several else ""
        facts.update({f"{name}{of}": value for name, value in list_tower_facts(tower)})
    if found.head is not None and found.head.tied is not None:
        facts["output shares the table of the words"] = found.head.tied
    return {name: value for name, value in facts.items() if value is not None}


def list_tower_facts(tower: Tower) -> Iterator[tuple[str, Setting]]:
    attentions = [one for one in tower.branches if isinstance(one, Attention) and one.source == "self"]
    yield "heads", join([one.heads for one in attentions])
    yield "key and value heads", join([one.kv_heads for one in attentions])
    yield "d_k", join([one.d_k for one in attentions])
    yield "layers", tower.layers
    yield "d_model", tower.d_model
    forwards = [one for one in tower.branches if isinstance(one, FeedForward)]
    experts = [one for one in tower.branches if isinstance(one, Experts)]
    yield "d_ff", join([one.d_ff for one in forwards])
    yield "vocabulary", tower.vocab
    yield "positions", join([one.positions for one in attentions])
    yield "norm of queries and keys", join([one.qk_norm for one in attentions])
    yield "what that norm acts on", join([one.qk_norm_over for one in attentions])
    yield "window", join([one.window for one in attentions])
    yield "latent of queries", join([(one.latent or Latent(None, None)).q for one in attentions])
    yield "latent of keys and values", join([(one.latent or Latent(None, None)).kv for one in attentions])
    alone: list[FeedForward | Experts] = [*forwards, *experts]
    yield "activation", join([one.activation for one in alone])
    yield "gated feed-forward", join([one.gated for one in alone])
    yield "experts", join([one.experts for one in experts])
    yield "experts chosen", join([one.chosen for one in experts])
    yield "experts shared", join([one.shared for one in experts])
    yield "d_ff of an expert", join([one.d_ff for one in experts])
    yield "recurrence", join([one.kind for one in tower.branches if isinstance(one, Recurrence)])
    norms = [stage.norm for group in tower.groups for stage in group.stages]
    yield "norm", join([one.kind for one in norms])
    yield "place of the norm", join([one.place for one in norms])
    yield "last norm", tower.final_norm
    yield "branches side by side", join([stage.parallel for group in tower.groups for stage in group.stages])


def join(values: Sequence[Setting]) -> Setting:
    """The value of all, or the different ones with commas; None where one of them is not known."""
    kinds = list(dict.fromkeys(values))
    if not kinds or None in kinds:
        return None
    return kinds[0] if len(kinds) == 1 else ", ".join(map(write_setting, kinds))


def write_setting(value: Setting) -> str:
    """A setting as one reads it: "500,000", "yes", "none"."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def list_settings(changes: Sequence[SettingChange]) -> tuple[str, ...]:
    """A line for each setting that differs, under a head; nothing where none does."""
    if not changes:
        return ()
    width = max(len(one.name) for one in changes)
    head = f"{len(changes)} settings differ:" if len(changes) > 1 else "1 setting differs:"
    lines = (f"  {one.name:{width}}  {write_setting(one.before)} → {write_setting(one.after)}" for one in changes)
    return (head, *lines, "")
