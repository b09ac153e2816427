"""States that are handed on, and mixtures of them with attention. The code is that of transformers 5.23."""

from dataclasses import replace

from story.body.decoders import two_kinds
from story.body.truth import Silent, attention, decoder_only, experts, family, gated, group, plain, post, pre

from xray.story.anatomy.branches import Convolution, Recurrence, StateHeads
from xray.story.anatomy.tree import Norm, Stage


@family("MambaForCausalLM", "mamba:284, 505", num_hidden_layers=2)
def mamba(c):
    state = Recurrence("state space", (2, c.intermediate_size, c.state_size), kernel=(c.conv_kernel,))
    return decoder_only(c, pre("rms", state), final="rms", causal=None)


@family("FalconMambaForCausalLM", "falcon_mamba:299, 544", num_hidden_layers=2)
def falcon_mamba(c):
    state = Recurrence("state space", (2, c.intermediate_size, c.state_size), kernel=(c.conv_kernel,))
    return decoder_only(c, pre("rms", state), final="rms", causal=None)


@family("Mamba2ForCausalLM", "mamba2:373, 624", num_hidden_layers=2)
def mamba2(c):
    shape = Silent((2, c.num_heads, c.head_dim, c.state_size))
    known = {"by_pieces": True, "kernel": (c.conv_kernel,), "filled": (1, c.chunk_size)}
    state = Recurrence("state space", shape, **known)  # type: ignore[arg-type]
    return decoder_only(c, pre("rms", state), final="rms", causal=None)


@family("JambaForCausalLM", "jamba:154, 698", num_hidden_layers=8, half=True)
def jamba(c):
    shape, kernel = (2, c.hidden_size * c.mamba_expand, c.mamba_d_state), (c.mamba_d_conv,)
    state = pre("rms", Recurrence("state space", shape, kernel=kernel))
    attend = pre("rms", attention(c, positions="none"))
    dense, sparse = pre("rms", gated(c)), pre("rms", experts(c, c.num_experts))
    groups = (
        group((0, 2, 6), c.hidden_size, state, dense),
        group((1, 3, 5, 7), c.hidden_size, state, sparse),
        group((4,), c.hidden_size, attend, dense),
    )
    return decoder_only(c, groups=groups, final="rms")


@family("Qwen3NextForCausalLM", "qwen3_next:229, 849", num_hidden_layers=4, half=True)
def qwen3_next(c):
    heads, d_k, d_v = c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
    # lengths (line 418), what a state gives taken off (line 495), triangular systems (line 469), filled up (line 428)
    told = StateHeads(c.linear_num_key_heads, heads, d_k, d_v, by_length=True, corrects=True, in_order=True, fades=True)
    told = replace(told, writes="sigmoid")
    state = Recurrence("linear attention", (2, heads, d_k, d_v), by_pieces=True, heads=told, filled=(1, 64))
    state = pre("rms", replace(state, kernel=(c.linear_conv_kernel_dim,)))
    attend = pre("rms", attention(c, qk_norm=True, gate=True, gate_curve="sigmoid"))
    few = {"shared": 1, "shared_d_ff": c.shared_expert_intermediate_size}
    think = pre("rms", experts(c, c.num_experts, d_ff=c.moe_intermediate_size, **few))
    return decoder_only(c, groups=two_kinds(c, (state, think), (attend, think), every=4), final="rms")


@family("RecurrentGemmaForCausalLM", "recurrent_gemma:197, 391", num_hidden_layers=3)
def recurrent_gemma(c):
    state = pre("rms", Recurrence("gated", (2, c.lru_width), kernel=(c.conv1d_width,)))
    window = c.attention_window_size  # set (line 212), and wider than ten places
    attend = pre("rms", attention(c, window=Silent(window), sliding_window=window))
    think = pre("rms", gated(c, d_ff=c.intermediate_size // 2, activation="gelu tanh"))
    groups = (group((0, 1), c.hidden_size, state, think), group((2,), c.hidden_size, attend, think))
    return decoder_only(c, groups=groups, final="rms", parts=("scale",))


@family(
    "Lfm2ForCausalLM",
    "lfm2:202, 384",
    num_hidden_layers=4,
    layer_types=["conv", "conv", "full_attention", "conv"],
)
def lfm2(c):
    short = pre("rms", Convolution((c.conv_L_cache,), c.hidden_size, causal=True))
    attend = pre("rms", attention(c, qk_norm=True))
    d_ff = c.block_multiple_of * -(-int(2 * c.intermediate_size / 3) // c.block_multiple_of)
    think = pre("rms", gated(c, d_ff=d_ff, activation="silu"))
    groups = (group((0, 1, 3), c.hidden_size, short, think), group((2,), c.hidden_size, attend, think))
    return decoder_only(c, groups=groups, final="rms")


@family("MiniMaxForCausalLM", "minimax:125, 509", num_hidden_layers=4, half=True)
def minimax(c):
    # its norms stand before the branches, and the stream goes on behind them: that is after each sum, and before all
    d_k = c.hidden_size // c.num_attention_heads
    heads = c.num_attention_heads
    told = StateHeads(heads, heads, d_k, d_k, fades_alike=True)  # lines 191, 234, 242
    linear = post("rms", Recurrence("linear attention", (2, heads, d_k, d_k), by_pieces=True, heads=told))
    attend = post("rms", attention(c))
    think = post("rms", experts(c, c.num_local_experts))
    groups = two_kinds(c, (attend, think), (linear, think), every=2)
    return decoder_only(c, groups=groups, final=None, parts=("norm",))


@family("RwkvForCausalLM", "rwkv:217, 325", num_hidden_layers=2)
def rwkv(c):
    state = pre("layer", Recurrence(None, (2, c.attention_hidden_size)))
    think = pre(
        "layer", plain(c, d_ff=c.intermediate_size, activation="relu squared", gated=Silent("by sigmoid"), kernel=(2,))
    )
    return decoder_only(c, state, think, final="layer", parts=("norm",), causal=None)


@family(
    "ZambaForCausalLM",
    "zamba:114, 634",
    num_hidden_layers=12,
)
def zamba(c):
    # a shared attention and feed-forward read the stream beside the words, and their sum with the stream goes on
    # into the state alone
    shape, kernel = (2, c.hidden_size * c.mamba_expand // c.n_mamba_heads, c.mamba_d_state), (c.mamba_d_conv,)
    state = Recurrence("state space", shape, kernel=kernel)
    wide = attention(c, d_k=c.attention_head_dim, positions="none")
    mixed = Stage((wide, gated(c), state), False, Norm("rms", "before", None, False))
    hybrid = [number for number, kind in enumerate(c.layers_block_type) if kind == "hybrid"]
    rest = [number for number in range(c.num_hidden_layers) if number not in hybrid]
    both = replace(group(hybrid, c.hidden_size, mixed), shared_in_part=True, shared_sets=1)
    return decoder_only(c, groups=(group(rest, c.hidden_size, pre("rms", state)), both), final="rms")


LATE = ["linear_attention", "linear_attention", "hybrid"] * 2 + ["linear_attention"]


@family("Zamba2ForCausalLM", "zamba2:903, 1001, 1056", num_hidden_layers=7, layers_block_type=LATE)
def zamba2(c):
    # as in Zamba, but for adapters that each layer adds to what the shared feed-forward makes: one layer is not proven
    shape = Silent((2, c.n_mamba_heads, c.mamba_headdim, c.mamba_d_state))
    known = {"by_pieces": True, "kernel": (c.mamba_d_conv,), "filled": (1, c.chunk_size)}
    state = Recurrence("state space", shape, **known)  # type: ignore[arg-type]
    wide = attention(c, d_k=c.attention_head_dim, positions="none")
    think = gated(c, fused=Silent(True))
    mixed = Stage((wide, think, state), False, Norm("rms", "before", None, False))
    rest = [number for number in range(c.num_hidden_layers) if number not in c.hybrid_layer_ids]
    both = replace(group(c.hybrid_layer_ids, c.hidden_size, mixed), shared_in_part=True, shared_sets=1)
    return decoder_only(c, groups=(group(rest, c.hidden_size, pre("rms", state)), both), final="rms")
