"""Transformers written by hand, retold; and planted changes, each of which must change what is retold."""

import pytest
import torch
from handwritten import Attention, Layer, Writer, make_writer
from torch import nn

import xray
from xray.story.retelling import retell

IDS = torch.arange(14).view(2, 7)


def trace_of(model, *given):
    torch.manual_seed(0)
    return xray.trace(model, *given)


def retold(model, *given):
    told = retell(trace_of(model, *given))
    assert told is not None
    return told


def paths_of(told):
    return [step.path for step in told.trace.passes[0].steps]


def origin(told, path):
    return told.origins["forward"][f"{path}#0"].path


def step_of(told, path):
    return told.trace.passes[0].by_id[f"{path}#0"]


def test_a_writer_is_decoder_only():
    assert retold(make_writer(), IDS).family == "decoder-only"


def test_without_a_mask_it_is_encoder_only():
    model = nn.Sequential(nn.Embedding(53, 15), Reader())

    assert retold(model, IDS).family == "encoder-only"


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.row = Layer(15, Attention(15, 3), norm="after")

    def forward(self, x):
        return self.row(x)


@pytest.mark.parametrize("letters", [False, True])
def test_projections_are_told_by_what_their_result_does(letters):
    told = retold(make_writer(letters=letters), IDS)

    found = {part: origin(told, f"decoder.layers.1.self_attention.{part}") for part in ("query", "key", "value")}

    assert found == {"query": "rows.1.one.first", "key": "rows.1.one.second", "value": "rows.1.one.third"}


@pytest.mark.parametrize("letters", [False, True])
def test_keys_and_values_that_change_places_are_told_so(letters):
    told = retold(make_writer(letters=letters, swap=True), IDS)

    found = {part: origin(told, f"decoder.layers.1.self_attention.{part}") for part in ("query", "key", "value")}

    assert found == {"query": "rows.1.one.first", "key": "rows.1.one.third", "value": "rows.1.one.second"}


def test_without_softmax_there_is_no_attention():
    assert retell(trace_of(make_writer(sharp=True), IDS)) is None


@pytest.mark.parametrize("spelt", [False, True])
@pytest.mark.parametrize("norm", ["before", "after"])
def test_norms_stand_where_they_ran(norm, spelt):
    told = retold(make_writer(norm=norm, spelt=spelt), IDS)

    names = [path.removeprefix("decoder.layers.0.") for path in paths_of(told) if path.count(".") == 3]

    before = ["self_attention_norm", "self_attention", "self_attention_add", "feed_forward_norm", "feed_forward"]
    after = ["self_attention", "self_attention_add", "self_attention_norm", "feed_forward", "feed_forward_add"]
    own = [name for name in names if not name.startswith("decoder.")]
    assert own == ([*before, "feed_forward_add"] if norm == "before" else [*after, "feed_forward_norm"])


@pytest.mark.parametrize(("norm", "expected"), [("before", True), ("after", False)])
def test_a_layer_says_whether_its_norms_come_first(norm, expected):
    assert step_of(retold(make_writer(norm=norm), IDS), "decoder.layers.0").settings["norm_first"] is expected


def test_a_norm_in_plain_arithmetic_is_one_step():
    told = retold(make_writer(spelt=True), IDS)

    assert origin(told, "decoder.layers.0.self_attention_norm") == "rows.0.three"


class Answerer(nn.Module):
    """A layer that asks another tensor: `from_memory` decides whether keys and values come from there."""

    def __init__(self, *, from_memory):
        super().__init__()
        self.from_memory = from_memory
        self.words = nn.Embedding(53, 15)
        self.asked = Layer(15, Attention(15, 3), norm="after")
        self.own = Layer(15, Attention(15, 3), norm="after")
        self.other = Layer(15, Attention(15, 3), norm="after")

    def forward(self, ids, question):
        memory = self.asked(self.words(question))
        x = self.own(self.words(ids))
        return self.other(x, memory if self.from_memory else None) + (0 if self.from_memory else memory.mean())


QUESTION = torch.arange(10).view(2, 5)


def test_keys_from_another_stack_make_it_cross_attention():
    told = retold(Answerer(from_memory=True), IDS, QUESTION)

    assert told.family == "encoder-decoder"
    assert [path for path in paths_of(told) if path.endswith("attention.scores")] == [
        "encoder.layers.0.self_attention.scores",
        "decoder.layers.0.self_attention.scores",
        "decoder.layers.1.cross_attention.scores",
    ]


def test_keys_from_the_same_stream_make_it_self_attention():
    told = retold(Answerer(from_memory=False), IDS, QUESTION)

    assert not any("cross_attention" in path for path in paths_of(told))


def test_equal_sizes_keep_their_own_words():
    square = torch.arange(9).view(3, 3)

    told = retold(make_writer(width=9, heads=3), square)

    attention = "decoder.layers.1.self_attention"
    assert step_of(told, f"{attention}.split_query.view").outputs[0].axes == ("batch", "tgt_len", "heads", "d_k")
    assert step_of(told, f"{attention}.split_key").outputs[0].axes == ("batch", "heads", "tgt_len", "d_k")
    assert step_of(told, f"{attention}.transpose_key").outputs[0].axes == ("batch", "heads", "d_k", "tgt_len")
    assert step_of(told, f"{attention}.scores").outputs[0].axes == ("batch", "heads", "tgt_len", "tgt_len")


def test_the_mask_is_the_one_that_was_recorded():
    told = retold(make_writer(), IDS)

    mask = step_of(told, "decoder.layers.1.self_attention.mask").inputs[1]

    assert mask.source == "tgt_mask.combine#0"
    assert mask.mask is not None
    assert (mask.mask.kind, mask.mask.polarity) == ("causal", "true_is_hidden")


def test_every_tensor_of_a_layer_comes_from_a_retold_step():
    told = retold(make_writer(), IDS)
    steps = [step for step in told.trace.passes[0].steps if ".layers." in step.path]

    assert [(step.path, one.name) for step in steps for one in step.inputs if one.source is None] == []


class Grouped(nn.Module):
    """Six heads of queries, two of keys and values, turned by their places; through torch's fused kernel."""

    def __init__(self):
        super().__init__()
        self.packed = nn.Linear(24, 24 + 2 * 8)
        self.last = nn.Linear(24, 24)

    def forward(self, x, memory, mask):
        q, k, v = self.packed(x).split([24, 8, 8], dim=-1)
        q, k, v = (one.unflatten(-1, (-1, 4)).transpose(1, 2) for one in (q, k, v))
        angle = torch.arange(x.shape[1])[:, None] * torch.ones(4)
        q, k = (one * angle.cos() + torch.cat([-one[..., 2:], one[..., :2]], -1) * angle.sin() for one in (q, k))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.last(mixed.transpose(1, 2).flatten(2))


@pytest.fixture(scope="module")
def grouped():
    return retold(Writer(53, [Layer(24, Grouped(), norm="before")], 24), IDS)


def test_grouped_heads_are_repeated_after_their_turn(grouped):
    inner = [path.rsplit(".", 1)[1] for path in paths_of(grouped) if path.count(".") == 4 and "attention." in path]

    assert inner == [
        *["query", "key", "value", "split_query", "split_key", "split_value", "rotate_query", "rotate_key"],
        *["repeat_key", "transpose_key", "repeat_value", "scores", "scale", "mask", "softmax", "weighted_sum"],
        *["concat", "output"],
    ]


def test_a_shared_projection_gives_each_its_own_share_of_the_parameters(grouped):
    attention = "decoder.layers.0.self_attention"

    shares = [step_of(grouped, f"{attention}.{part}").params for part in ("query", "key", "value")]

    assert shares == [25 * 24, 25 * 8, 25 * 8]


def test_heads_of_keys_are_not_called_heads_before_they_are_repeated(grouped):
    attention = "decoder.layers.0.self_attention"

    assert step_of(grouped, f"{attention}.rotate_key").outputs[0].axes == ("batch", "kv_heads", "tgt_len", "d_k")
    assert step_of(grouped, f"{attention}.repeat_key").outputs[0].axes == ("batch", "heads", "tgt_len", "d_k")


def test_implied_causality_is_a_mask_with_a_step_of_its_own(grouped):
    mask = step_of(grouped, "decoder.layers.0.self_attention.mask").inputs[1]

    assert mask.source == "tgt_mask.combine#0"
    assert mask.mask is not None
    assert mask.mask.kind == "causal"


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_in_one_native_kernel_is_told_like_any_other(norm_first):
    layer = nn.TransformerEncoderLayer(12, 4, 29, batch_first=True, norm_first=norm_first).eval()

    with torch.no_grad():
        told = retold(layer, torch.rand(2, 5, 12))

    scores = step_of(told, "encoder.layers.0.self_attention.scores").outputs[0]
    assert (scores.shape, scores.axes) == ((2, 4, 5, 5), ("batch", "heads", "src_len", "src_len"))
    assert step_of(told, "encoder.layers.0").settings["norm_first"] is norm_first
    assert step_of(told, "encoder.layers.0").params == sum(one.numel() for one in layer.parameters())


def test_length_first_is_told_so():
    layer = nn.TransformerEncoderLayer(12, 3, 29)

    told = retold(layer, torch.rand(5, 2, 12))

    assert step_of(told, "encoder.layers.0.self_attention_add").outputs[0].axes == ("src_len", "batch", "d_model")
    assert step_of(told, "encoder.layers.0.self_attention.scores").outputs[0].axes[:2] == ("batch", "heads")


def test_a_forward_with_a_loss_is_no_more_than_that():
    class Taught(nn.Module):
        def __init__(self):
            super().__init__()
            self.writer = make_writer()

        def forward(self, ids):
            return nn.functional.cross_entropy(self.writer(ids).flatten(0, 1), ids.flatten())

    told = retold(Taught(), IDS)

    assert list(told.original_passes.items()) == [("forward", ("forward", 0))]
    assert step_of(told, "loss.cross_entropy").outputs[0].role == "loss"


def test_a_model_without_weights_is_told_by_how_its_mask_is_made():
    with torch.device("meta"):
        told = retold(make_writer(), torch.zeros(2, 7, dtype=torch.long))

    assert told.family == "decoder-only"


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (nn.MultiheadAttention(12, 3, batch_first=True), (torch.rand(2, 5, 12),) * 3),
        (nn.GRU(5, 7), (torch.rand(3, 2, 5),)),
        (nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Softmax(-1)), (torch.rand(2, 5),)),
        (nn.Identity(), (torch.rand(2, 5),)),
    ],
)
def test_what_has_no_layers_is_not_retold(model, given):
    assert retell(trace_of(model, *given)) is None


def test_a_trace_that_broke_off_is_retold_as_far_as_it_ran():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.writer = make_writer()

        def forward(self, ids):
            return self.writer(ids) @ torch.rand(2, 2)

    with pytest.raises(RuntimeError) as caught:
        xray.trace(Broken(), IDS)

    assert retell(caught.value.xray_trace) is not None  # type: ignore[attr-defined]
