"""How routers weigh experts, as configurations and code say it; the lines are of models/NAME/modeling_NAME.py."""

from collections.abc import Callable
from typing import Any, Literal

from xray.story.anatomy.branches import Experts, Routing
from xray.story.anatomy.tree import Anatomy


def softmaxed(over: Literal["all", "chosen"], divided: bool | None = None) -> Callable[[Any], Routing]:
    """A softmax over the scores of all experts or of the chosen ones, and whether it is divided by its sum."""

    def note(c):
        summed = getattr(c, "norm_topk_prob", False) if divided is None else divided
        return Routing("softmax", over, summed, factor_of(c), None, False)

    return note


def bent(bend: str, *, divided: bool = True, biased: bool = True) -> Callable[[Any], Routing]:
    """Scores that are bent each by itself, within groups as the configuration says."""

    def note(c):
        c = getattr(c, "text_config", c)
        whole = getattr(c, "n_group", None) or 1
        groups = (c.topk_group, whole) if whole > 1 else None
        return Routing(bend, None, getattr(c, "norm_topk_prob", divided), factor_of(c), groups, biased)

    return note


def factor_of(c: Any) -> float | None:
    """By what a configuration multiplies the weights."""
    names = ("routed_scaling_factor", "router_scaling_factor", "route_scale")
    factor = next((found for name in names if (found := getattr(c, name, None))), 1.0)
    return None if factor == 1 else factor


def unscaled(c: Any) -> Routing:
    """MiniMax M3 multiplies what experts give by its factor (line 258), not their weights."""
    return Routing("sigmoid", None, True, None, None, True)


def listed(c: Any) -> set[Routing]:
    """DeepSeek-V4's experts are chosen by a bias, or by a table without one (1079, 1103)."""
    return {bent("sqrt of softplus", biased=biased)(c) for biased in (True, False)}


ROUTERS: dict[str, Callable[[Any], Routing | set[Routing]]] = {
    "jamba": softmaxed("all"),  # 693
    "qwen3_next": softmaxed("all"),
    "minimax": softmaxed("all", divided=True),  # 462, 464
    "lfm2_moe": bent("sigmoid"),  # 184, 186, 193
    "nemotron_h": bent("sigmoid"),  # 773, 774, 793
    "cohere2_moe": softmaxed("chosen", divided=False),  # 151, 153: norm_topk_prob is read for a sigmoid alone
    "flex_olmo": softmaxed("all"),
    "afmoe": bent("sigmoid"),  # 147, 149, 151
    "ernie4_5_moe": lambda c: Routing("softmax", "all", True, None, None, True),  # 349, 292, 353
    "hy_v3": bent("sigmoid"),  # 286, 288, 292
    "granitemoe": softmaxed("chosen"),  # 130, 131
    "granitemoehybrid": softmaxed("chosen"),  # 835
    "deepseek_v4": listed,
    "mellum": softmaxed("all"),  # 324, 327
    "minimax_m2": bent("sigmoid"),  # 57, 58, 61
    "zaya": lambda c: Routing("softmax", "all", False, None, None, True),  # 548, 550, 552
    "minimax_m3_vl": unscaled,  # 234, 238
    "aria_text": softmaxed("chosen"),  # 267
    "aria": softmaxed("chosen"),
    "step3p7": bent("sigmoid"),  # 595, 596, 599
    "mixtral": softmaxed("all", divided=True),  # 106, 108
    "olmoe": softmaxed("all"),  # 329, 332
    "qwen2_moe": softmaxed("all"),  # 322, 325
    "qwen3_moe": softmaxed("all"),
    "gpt_oss": softmaxed("chosen"),  # 128
    "deepseek_v3": bent("sigmoid"),  # 136, 137, 156
    "deepseek_v32": bent("sigmoid"),
    "axk1": bent("sigmoid"),
    "axk2": bent("sigmoid"),
    "deepseek_v2": softmaxed("all"),  # 100
    "phimoe": lambda c: Routing("softmax", None, False, None, None, False, within=2 * c.router_jitter_noise),  # 339-459
    "llama4": lambda c: Routing("sigmoid", None, False, None, None, False, enters=True),  # 149, 150, 169
    "longcat_flash": lambda c: Routing("softmax", "all", False, factor_of(c), None, True),  # 145, 148, 153
}
"""What is told of a router; of all others nothing is known."""


def list_routings(anatomy: Anatomy) -> set[Routing]:
    """All that an anatomy says of routers."""
    found = {one.routing for tower in anatomy.towers for one in tower.branches if isinstance(one, Experts)}
    return {one for one in found if one is not None and (one.bend or one.groups)}
