"""Decoders that attend through a narrow waist. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.more_decoders import TWO
from story.body.truth import (
    attention,
    both,
    decoder_only,
    experts,
    family,
    gated,
    group,
    head_of,
    pre,
)

from xray.story.anatomy.attentions import Latent


def attends_latent(c, **facts):
    """Attention whose queries, keys and values are made through narrow waists (DeepSeek-V2 and its kin)."""
    latent = Latent(c.q_lora_rank, c.kv_lora_rank, c.kv_lora_rank + c.qk_rope_head_dim)  # what the cache is given
    sizes = {"d_k": c.qk_nope_head_dim + c.qk_rope_head_dim, "d_v": c.v_head_dim, "fused": "kv"}
    return attention(c, latent=latent, kv_heads=c.num_attention_heads, **sizes | facts)


def of_deepseek(c, last, **facts):
    """A dense layer, and one with experts."""
    attend = pre("rms", attends_latent(c, **facts))
    few = {"shared": c.n_shared_experts, "shared_d_ff": c.moe_intermediate_size * c.n_shared_experts}
    think = experts(c, c.n_routed_experts, d_ff=c.moe_intermediate_size, **few)
    groups = (
        group(1, c.hidden_size, attend, pre("rms", gated(c))),
        group((1,), c.hidden_size, attend, last("rms", think)),
    )
    return decoder_only(c, groups=groups, final="rms")


MIXED = {"mlp_layer_types": ["dense", "sparse"]}


@family("AXK1ForCausalLM", "axk1:239, 366, 486", named=True, **TWO)
def axk1(c):
    # what the experts give is normalised before it is added (line 239)
    return of_deepseek(c, both)


@family("AXK2ForCausalLM", "axk2:99, 502, 660", named=True, **MIXED, **TWO)
def axk2(c):
    # each norm is gated by what it made itself: nothing beside it scales it (line 99)
    # an indexer chooses keys (line 277), of ten places all
    return of_deepseek(c, pre, gate=True, gate_curve="sigmoid", **indexed(c))


@family("DeepseekV32ForCausalLM", "deepseek_v32:335, 601", named=True, first_k_dense_replace=1, **MIXED, **TWO)
def deepseek_v32(c):
    # ten places are fewer than the indexer chooses (line 241), and its choice is in the mask all the same
    return of_deepseek(c, pre, **indexed(c))


def indexed(c):
    """An indexer that may choose more keys than there are places."""
    return {
        "chosen_keys": True,
        "chosen_kept": c.index_head_dim,
        "chosen_most": c.index_topk,
        "all_chosen": True,
    }


@family("MiniCPM3ForCausalLM", "minicpm3:276, 378, 569", named=True, **TWO)
def minicpm3(c):
    # what a branch gives is multiplied, and the stream is divided before the head
    sizes = {"d_k": c.qk_nope_head_dim + c.qk_rope_head_dim, "d_v": c.v_head_dim, "fused": "kv"}
    kept = c.kv_lora_rank + c.qk_rope_head_dim
    attend = attention(c, **sizes, latent=Latent(c.q_lora_rank, c.kv_lora_rank, kept))
    stages = (replace(pre("rms", one), scale="number") for one in (attend, gated(c)))
    found = decoder_only(c, *stages, final="rms", parts=("scale",))
    return replace(found, head=head_of(c, c.tie_word_embeddings, c.dim_model_base / c.hidden_size))


@family(
    "LongcatFlashForCausalLM",
    "longcat_flash:480, 497, 520",
    tiny=True,
    fast=True,
    vocab_size=101,
    hidden_size=60,
    num_layers=2,
    num_attention_heads=5,
    ffn_hidden_size=70,
    q_lora_rank=22,
    kv_lora_rank=26,
    qk_nope_head_dim=14,
    qk_rope_head_dim=6,
    head_dim=6,
    v_head_dim=10,
    n_routed_experts=5,
    zero_expert_num=3,
    moe_topk=3,
    expert_ffn_hidden_size=34,
)
def longcat_flash(c):
    latent = Latent(c.q_lora_rank, c.kv_lora_rank, c.kv_lora_rank + c.qk_rope_head_dim)
    facts = {"d_k": c.qk_head_dim, "d_v": c.v_head_dim, "latent": latent, "fused": "kv"}
    half = (pre("rms", attention(c, **facts)), pre("rms", gated(c)))
    whole = c.n_routed_experts + c.zero_expert_num  # 195: those behind the others are none
    routed = experts(c, whole, d_ff=c.expert_ffn_hidden_size, handing_on=c.zero_expert_num)
    later = replace(pre("rms", routed), since=3)
    return decoder_only(c, groups=(group(c.num_layers, c.hidden_size, *half, *half, later),), final="rms")
