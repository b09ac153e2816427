"""What kinds of operations there are, as far as counting goes: those that calculate, those that only move numbers."""

import re


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


POINTWISE = names(
    """
    abs absolute acos acosh add addcdiv addcmul addr all amax amin aminmax and angle any argmax argmin asin asinh
    atan atan2 atanh bernoulli binary_cross_entropy binary_cross_entropy_with_logits bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip col2im
    conj_physical copysign cos cosh cosine_similarity count_nonzero cross cummax cummin cumprod cumsum deg2rad
    dequantize diff digamma div elu eq erf erfc erfinv exp exp2 expm1 fake_quantize float_power floor floor_divide
    fmax fmin fmod fold frac frexp gcd ge gelu ger glu greater greater_equal grid_sample grid_sampler
    grid_sampler_2d grid_sampler_3d gt hardshrink hardsigmoid hardswish hardtanh heaviside huber_loss hypot invert
    _is_all_true _is_any_true isclose isfinite isin isinf isnan isneginf isposinf isreal kl_div lcm ldexp le
    leaky_relu lerp less less_equal lgamma linalg_norm linalg_vector_norm log log10 log1p log2 log_sigmoid
    logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logsigmoid logsumexp
    loss lt mask_scores masked_fill max maximum mean median min minimum mish mul multiply nan_to_num nanmean nansum
    ne neg negative norm norm_except_dim normalize not not_equal or outer padding_mask pairwise_distance polygamma
    positive pow prelu prod quantize quantize_per_channel quantize_per_tensor rad2deg reciprocal relu relu6
    remainder round rrelu rsqrt rsub scale selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink
    softsign sqrt square std std_mean sub subtract sum swish tan tanh tanhshrink threshold true_divide trunc var
    var_mean vector_norm weight_norm _weight_norm where xlogy xor
    """
)
"""Operations that take some arithmetic for each element, by whose number they are counted."""
POINTWISE_FAMILIES = re.compile(
    r"(native_)?(layer|batch|group|instance|rms|local_response)_?norm(\dd)?"
    r"|(log_)?soft(max|min)(2d)?"
    r"|(adaptive_|fractional_|lp_)*(max|avg|lp)_(un)?pool(\dd)?(_with_indices)?"
    r"|(feature_)?(alpha_)?dropout(\dd)?"
    r"|\w+_loss|cross_entropy|interpolate|upsample(_\w+)?|special_\w+"
)
"""Families of such operations: normalisation, softmax, pooling, dropout, losses, resampling."""
VIEWS = names(
    """
    adjoint alias as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk conj detach
    diagonal dsplit expand expand_as flatten hsplit identity imag last_row lift_fresh moveaxis movedim mt narrow
    newest_row newest_word numpy_t permute positions ravel real reshape reshape_alias reshape_as resolve_conj select
    slice split split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unfold
    unsafe_chunk unsafe_split unsafe_view unsqueeze view view_as view_as_complex view_as_real vsplit
    """
)
"""Operations that look at the same numbers in another way, and store nothing where that can be done."""
MOVES = names(
    """
    append arange argsort argwhere as_tensor assert assert_async bfloat16 bincount block_diag bool bucketize byte
    cat cauchy causal_mask cdouble cfloat channel_shuffle char clone column_stack combinations complex concat
    concatenate contiguous copy cpu cuda diag diag_embed diagflat double dstack embedding
    embedding_bag empty empty_like empty_strided exponential extend eye fill flip fliplr flipud float from_numpy
    full full_like gather geometric half histc hstack index index_add index_copy index_fill index_put index_select
    int int_repr jagged_from_list kaiming_normal kaiming_uniform kthvalue linspace log_normal logspace long
    masked_scatter masked_select meshgrid mode multinomial nested_from_padded nested_tensor nested_tensor_from_mask
    nested_tensor_size nested_tensor_strides new new_empty new_full new_ones new_tensor new_zeros nonzero normal
    one_hot ones ones_like pack_padded_sequence pad_packed_sequence pad_sequence pin_memory pixel_shuffle
    pixel_unshuffle polar put put_along_axis rand rand_like randint randint_like randn randn_like random randperm repeat
    repeat_interleave roll rot90 row_stack _sample_dirichlet scalar_tensor scatter scatter_add scatter_reduce
    searchsorted shift short sort stack take take_along_dim tensor tile to to_copy to_dense to_padded_tensor
    tokenize topk tril tril_indices triu triu_indices trunc_normal type type_as uniform unique unique_consecutive
    vstack xavier_normal xavier_uniform zero zeros zeros_like
    """
)
"""Operations that make, place or pick numbers and calculate nothing."""
EXCHANGES = names("all_gather all_reduce all_to_all broadcast recv reduce reduce_scatter scatter send")
"""What ranks tell each other; what is added up on the way is no work of one of them."""
PADDINGS = frozenset({"pad", "constant_pad_nd"}) | {
    f"{way}{name}{axes}d"
    for way in ("zero", "constant", "reflection", "replication", "circular")
    for name in ("_pad", "pad")
    for axes in (1, 2, 3)
}
"""What puts numbers around those that are given."""


def plain_name(op: str) -> str:
    """An operation's name without the mark of one that changes its input: "add" for "add_"."""
    return op.removesuffix("_") if not op.endswith("__") else op


def is_pointwise(op: str) -> bool:
    """Whether an operation takes some arithmetic for each element: a sum, an activation, softmax, a norm."""
    name = plain_name(op).lower()
    return name in POINTWISE or POINTWISE_FAMILIES.fullmatch(name) is not None


def is_in_place(op: str) -> bool:
    """Whether an operation changes its input and makes nothing of its own: "add_", "copy_"."""
    return op.endswith("_") and not op.endswith("__")


def only_moves(op: str) -> bool:
    """Whether an operation calculates nothing: views, indexing, joining, new tensors, a look into a table."""
    name = plain_name(op).lower()
    return name in VIEWS or name in MOVES or name in EXCHANGES or name in PADDINGS
