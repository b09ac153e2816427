"""What kinds of operations there are, as far as data flow can be read off them."""

SHAPING = frozenset(
    [
        "view",
        "reshape",
        "reshape_alias",
        "unsafe_view",
        "view_as",
        "reshape_as",
        "transpose",
        "t",
        "T",
        "mT",
        "permute",
        "movedim",
        "moveaxis",
        "swapaxes",
        "swapdims",
        "adjoint",
        "contiguous",
        "clone",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "select",
        "split",
        "split_with_sizes",
        "chunk",
        "tensor_split",
        "unbind",
        "index",
        "slice",
        "narrow",
        "expand",
        "expand_as",
        "broadcast_to",
        "alias",
        "detach",
        "as_strided",
        "nested_tensor_from_mask",
        "to_padded_tensor",
        "rearrange",
    ]
)
"""They move, cut or rename numbers and change none."""

CASTING = frozenset(
    [
        "to",
        "to_copy",
        "float",
        "half",
        "bfloat16",
        "double",
        "type",
        "type_as",
        "cpu",
        "cuda",
        "identity",
        "positive",
        "requires_grad_",
    ]
)
"""They change the type or the place of numbers, not what they mean."""

CARRYING = SHAPING | CASTING
DROP_PATHS = frozenset({"stochastic_depth", "drop_path"})
"""They drop all that a branch gives, of some samples or of all of a batch."""
DROPOUTS = DROP_PATHS | frozenset(
    [
        "dropout",
        "dropout_",
        "native_dropout",
        "alpha_dropout",
        "feature_dropout",
        "dropout1d",
        "stable_dropout",
    ]
)
SUMS = frozenset({"add", "add_"})
DIFFERENCES = frozenset({"sub", "sub_"})
TIMES = frozenset({"mul", "mul_", "multiply"})
DIVISIONS = frozenset({"div", "div_", "divide", "true_divide"})
SCALINGS = TIMES | DIVISIONS | {"scale"}
SOFTMAXES = frozenset({"softmax", "safe_softmax"})
PRODUCTS = frozenset({"matmul", "bmm", "mm", "einsum", "baddbmm", "linalg_matmul"})
RMS_NORMS = frozenset({"rms_norm", "rmsnorm", "fused_rms_norm"})
NORMS = frozenset({"layer_norm", "native_layer_norm"}) | RMS_NORMS
LENGTHS = frozenset({"norm", "linalg_norm", "linalg_vector_norm", "vector_norm"})
"""They measure how long a row is; what is divided by that has the length 1."""
STATISTICS = LENGTHS | {"mean", "var", "std", "var_mean", "std_mean"}
LOOKUPS = frozenset({"embedding", "embedding_bag"})
TRANSPOSED = frozenset({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
"""Convolutions that make maps larger."""
FINDINGS = frozenset({"convolution", "conv1d", "conv2d", "conv3d"}) | TRANSPOSED
SIDE_BY_SIDE = frozenset({"cat", "concat", "concatenate"})
SPLITS = frozenset({"split", "split_with_sizes", "chunk", "tensor_split"})
"""They cut a tensor into several."""
WAVES = frozenset({"sin", "cos"})
ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
ONES = frozenset({"ones", "ones_like", "new_ones"})
COUNTING = frozenset({"arange", "cumsum"})
"""They make numbers of places."""
JOINS = SIDE_BY_SIDE | {"cache", "extend"}
WRITES = frozenset({"index_copy_", "index_put_", "copy_", "scatter_", "index_copy", "slice_scatter"})
PLACING = frozenset({"masked_scatter", "masked_scatter_", "index_put", "index_put_", "index_copy"})
"""What puts some rows among others, where a mask or ids say."""
GRIDS = frozenset({"grid_sample", "grid_sampler"})
"""What picks numbers between the places of a map, where its second operand says."""
CLAMPS = frozenset({"clamp", "clamp_", "clip", "clamp_min", "clamp_max"})
CHANCE = frozenset(
    {
        "randn",
        "randn_like",
        "rand",
        "rand_like",
        "normal",
        "normal_",
        "uniform_",
        "randperm",
        "randint",
        "_sample_dirichlet",
    }
)
"""What draws numbers by chance."""
REPEATS = frozenset({"expand", "repeat", "repeat_interleave", "broadcast_to", "tile"})
TURNS = frozenset({"transpose", "permute", "t", "T", "mT", "movedim", "swapaxes", "swapdims", "adjoint", "moveaxis"})
COPIES = frozenset({"contiguous", "clone"})
"""They change nothing but where numbers lie."""
CURVES = frozenset(
    [
        "relu",
        "relu_",
        "relu6",
        "gelu",
        "silu",
        "silu_",
        "elu",
        "selu",
        "celu",
        "leaky_relu",
        "tanh",
        "sigmoid",
        "mish",
        "hardswish",
        "hardsigmoid",
        "hardsigmoid_",
        "softplus",
        "erf",
        "square",
        "prelu",
        "threshold",
        "sigmoid_",
        "tanh_",
    ]
)
"""What bends a line: an activation has at least one of them."""

LOSSES = frozenset(
    [
        "cross_entropy",
        "cross_entropy_loss",
        "nll_loss",
        "mse_loss",
        "binary_cross_entropy_with_logits",
        "ctc_loss",
        "l1_loss",
        "kl_div",
    ]
)
MASKINGS = frozenset({"masked_fill", "masked_fill_", "mask_scores", "where"})
SCORING = (
    CARRYING
    | SUMS
    | SCALINGS
    | DROPOUTS
    | MASKINGS
    | frozenset(
        ["sub", "sub_", "clamp", "clamp_", "max", "min", "maximum", "minimum", "tanh", "nan_to_num", "baddbmm", "cat"]
    )
)
"""What may stand between scores and softmax."""

BARRIERS = SOFTMAXES | PRODUCTS | LOOKUPS | FINDINGS | frozenset({"cross_entropy", "argmax", "linear", "addmm"})
"""A way back from keys, queries or values never crosses these."""
