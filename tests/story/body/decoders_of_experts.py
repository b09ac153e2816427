"""Decoders whose feed-forward is experts. The code is that of transformers 5.23."""

from dataclasses import replace
from math import log

from story.body.decoders import two_kinds
from story.body.truth import (
    attention,
    decoder_only,
    experts,
    family,
    gated,
    group,
    held,
    pre,
)

from xray.story.anatomy.attentions import Latent


@family("MixtralForCausalLM", "mixtral:271, 113", half=True, num_hidden_layers=2, fast=True)
def mixtral(c):
    return decoder_only(c, pre("rms", attention(c)), pre("rms", experts(c, c.num_local_experts)), final="rms")


@family("OlmoeForCausalLM", "olmoe:197, 338", half=True, num_hidden_layers=2)
def olmoe(c):
    attend = attention(c, qk_norm=True, qk_norm_over="width")
    return decoder_only(c, pre("rms", attend), pre("rms", experts(c, c.num_experts)), final="rms")


@family("Qwen2MoeForCausalLM", "qwen2_moe:209, 331", half=True, num_hidden_layers=2)
def qwen2_moe(c):
    think = experts(
        c, c.num_experts, d_ff=c.moe_intermediate_size, shared=1, shared_d_ff=c.shared_expert_intermediate_size
    )
    return decoder_only(c, pre("rms", attention(c)), pre("rms", think), final="rms")


@family("Qwen3MoeForCausalLM", "qwen3_moe:121, 269", half=True, num_hidden_layers=2)
def qwen3_moe(c):
    think = experts(c, c.num_experts, d_ff=c.moe_intermediate_size)
    return decoder_only(c, pre("rms", attention(c, qk_norm=True)), pre("rms", think), final="rms")


@family("GraniteMoeForCausalLM", "granitemoe:263, 330", half=True, num_hidden_layers=2)
def granitemoe(c):
    think = experts(c, c.num_local_experts)
    return decoder_only(c, pre("rms", attention(c, unscaled=True)), pre("rms", think), final="rms")


@family("PhimoeForCausalLM", "phimoe:170, 482", half=True, num_hidden_layers=2)
def phimoe(c):
    think = experts(c, c.num_local_experts)
    return decoder_only(c, pre("layer", attention(c)), pre("layer", think), final="layer")


@family(
    "GptOssForCausalLM",
    "gpt_oss:259, 330",
    half=True,
    num_hidden_layers=4,
    sliding_window=4,
    fast=True,
)
def gpt_oss(c):
    long = 0.1 * log(c.rope_parameters["factor"]) + 1  # lines 189, 190: cosines and sines are multiplied by it
    look = attention(c, sinks=True, kernel="plain", turn_length=long)
    local, whole = (pre("rms", replace(look, window=window)) for window in (4, None))
    # gate * sigmoid(1.702 * gate), and the other half plus one
    own = experts(c, c.num_local_experts, activation="quick gelu", **held(c.swiglu_limit, ("plus", 1)))
    think = pre("rms", own)
    return decoder_only(c, groups=two_kinds(c, (local, think), (whole, think), every=2), final="rms")


@family("DeepseekV3ForCausalLM", "deepseek_v3:349, 459, 485", half=True, num_hidden_layers=5, fast=True)
def deepseek_v3(c):
    latent = Latent(c.q_lora_rank, c.kv_lora_rank, c.kv_lora_rank + c.qk_rope_head_dim)  # what the cache is given
    d_k = c.qk_nope_head_dim + c.qk_rope_head_dim
    attend = pre("rms", attention(c, d_k=d_k, d_v=c.v_head_dim, latent=latent, fused="kv"))
    dense = pre("rms", gated(c))
    few = {"shared": c.n_shared_experts, "shared_d_ff": c.moe_intermediate_size * c.n_shared_experts}
    sparse = pre("rms", experts(c, c.n_routed_experts, d_ff=c.moe_intermediate_size, **few))
    first = c.first_k_dense_replace
    groups = (group(first, c.hidden_size, attend, dense), group(range(first, 5), c.hidden_size, attend, sparse))
    return decoder_only(c, groups=groups, final="rms")


@family(
    "DeepseekV2ForCausalLM",
    "deepseek_v2:290, 395, 421",
    half=True,
    num_hidden_layers=3,
    first_k_dense_replace=1,
    num_experts_per_tok=6,
    moe_intermediate_size=1408,
)
def deepseek_v2(c):
    latent = Latent(c.q_lora_rank, c.kv_lora_rank, c.kv_lora_rank + c.qk_rope_head_dim)  # what the cache is given
    d_k = c.qk_nope_head_dim + c.qk_rope_head_dim
    attend = pre("rms", attention(c, d_k=d_k, d_v=c.v_head_dim, latent=latent, fused="kv"))
    dense = pre("rms", gated(c))
    few = {"shared": 1, "shared_d_ff": c.moe_intermediate_size * c.n_shared_experts}  # both in one (line 126)
    sparse = pre("rms", experts(c, c.n_routed_experts, d_ff=c.moe_intermediate_size, **few))
    groups = (group(1, c.hidden_size, attend, dense), group(range(1, 3), c.hidden_size, attend, sparse))
    return decoder_only(c, groups=groups, final="rms")


@family("Llama4ForCausalLM", "llama4:301, 393", half=True, num_hidden_layers=4, attention_chunk_size=4)
def llama4(c):
    turned = attention(c, qk_norm=True, window=4)
    whole = attention(c, positions="none", queries_by_place="place")
    sent = experts(c, c.num_local_experts, shared=1, shared_d_ff=c.intermediate_size, on_all=True)  # 168: repeated
    think = pre("rms", sent)
    groups = two_kinds(c, (pre("rms", turned), think), (pre("rms", whole), think), every=4)
    return decoder_only(c, groups=groups, final="rms")
