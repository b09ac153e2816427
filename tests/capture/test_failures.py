"""Forwards that fail as people's forwards do: what does not fit is named first, with one line of what to do."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.cli.recording import hint_at
from xray.renderers.table.table import draw_tables
from xray.story.compare.marks import find_failed
from xray.story.failure.rules import find_misfit


class Calling(nn.Module):
    """A module around a function, and the layers that the function uses."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args):
        return self.function(self, *args)


def fail(function, *args, **layers):
    """The trace of a forward that fails."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever torch raises
        xray.trace(Calling(function, **layers), *args)
    return getattr(caught.value, "xray_trace")  # noqa: B009  # put there by xray.trace


def misfit_of(trace):
    (step,) = find_failed(trace.passes[0])
    return find_misfit(step)


def told(misfit):
    """The operands that do not fit, each as `name 2×[3]` or `name [type]`."""
    found = []
    for one in misfit.operands:
        sizes = "×".join(f"[{size}]" if at in one.wrong else str(size) for at, size in enumerate(one.sizes))
        if one.is_wrong:
            found.append(f"{one.name} {f'[{one.type}]' if one.type else sizes}")
    return found


def ids(*shape):
    return torch.zeros(*shape, dtype=torch.long)


def attention(**options):
    return nn.MultiheadAttention(16, 2, batch_first=True, **options)


LOSSES = {
    "classes last": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(2, 7, 11), ids(2, 7)),
        ["input 2×[7]×[11]", "target 2×[7]"],
        "the classes have to stand on axis 1, and they stand last: give scores.transpose(1, 2)",
    ),
    "classes of pixels last": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(2, 5, 7, 11), ids(2, 5, 7)),
        ["input 2×[5]×7×[11]", "target 2×[5]×[7]"],
        "the classes have to stand on axis 1, and they stand last: give scores.movedim(-1, 1)",
    ),
    "only the scores flattened": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(14, 11), ids(2, 7)),
        ["target [2]×[7]"],
        "one target for each row of scores: give targets.flatten(), 14 of them",
    ),
    "only the targets flattened": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(2, 7, 11), ids(14)),
        ["input [2]×[7]×11"],
        "one row of scores for each target: give scores.flatten(0, -2), 14 rows",
    ),
    "targets that are floats": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(5, 11), torch.zeros(5)),
        ["target [float32]"],
        "targets have to be class numbers, of type int64: float32 here. Make them so with .long()",
    ),
    "a target beyond the classes": (
        lambda m, x, y: functional.cross_entropy(x, y),
        (torch.randn(5, 11), torch.full((5,), 11)),
        ["input 5×[11]"],
        "every target has to be a class, from 0 to 10, or the ignore_index: 11 here",
    ),
    "a column too many": (
        lambda m, x, y: functional.binary_cross_entropy_with_logits(x, y),
        (torch.randn(5, 1), torch.zeros(5)),
        ["input [5]×[1]", "target [5]"],
        "both have to be of one shape: 5×1 and 5. Give input.squeeze(-1)",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_says_where_classes_stand_and_what_targets_are(name):
    function, args, wrong, rule = LOSSES[name]
    misfit = misfit_of(fail(function, *args))

    assert (told(misfit), misfit.rule) == (wrong, rule)


def test_a_loss_module_says_the_same():
    trace = fail(lambda m, x, y: m.loss(x, y), torch.randn(2, 7, 11), ids(2, 7), loss=nn.CrossEntropyLoss())

    assert misfit_of(trace).rule.startswith("the classes have to stand on axis 1")


ONE_TYPE = "Convert one of them, as in x.to(other.dtype), or run the model under torch.autocast"
TYPES: dict[str, tuple] = {
    "ids that are floats": (
        lambda m, x: m.words(x),
        (torch.zeros(2, 7),),
        {"words": nn.Embedding(5, 3)},
        ["input [float32]"],
        "ids have to be whole numbers, of type int64: float32 here. Make them so with .long()",
    ),
    "half weights": (
        lambda m, x: m.layer(x),
        (torch.randn(2, 3),),
        {"layer": nn.Linear(3, 4).half()},
        ["input [float32]", "weights [float16]"],
        f"all have to be of one type: float32 and float16. {ONE_TYPE}",
    ),
    "bfloat16 against float": (
        lambda m, x: x @ x.bfloat16().T,
        (torch.randn(2, 3),),
        {},
        ["input [float32]", "other [bfloat16]"],
        f"all have to be of one type: float32 and bfloat16. {ONE_TYPE}",
    ),
    "half keys": (
        lambda m, q: functional.scaled_dot_product_attention(q, q.half(), q),
        (torch.randn(2, 2, 5, 4),),
        {},
        ["query [float32]", "key [float16]", "value [float32]"],
        f"all have to be of one type: float32 and float16. {ONE_TYPE}",
    ),
    "ids into a linear layer": (
        lambda m, x: m.layer(x),
        (ids(2, 3),),
        {"layer": nn.Linear(3, 4)},
        ["input [int64]", "weights [float32]"],
        "all have to be of one type: int64 and float32. Ids go through an embedding; other whole numbers need .float()",
    ),
    "a mask to fill by that is no mask": (
        lambda m, x: x.masked_fill(x, 0.0),
        (torch.zeros(5, 5),),
        {},
        ["mask [float32]"],
        "a mask of what to fill has to be of type bool: float32 here. Write mask == 0",
    ),
    "a mask of whole numbers": (
        lambda m, x: m.attention(x, x, x, attn_mask=ids(5, 5)),
        (torch.randn(2, 5, 16),),
        {"attention": attention()},
        ["attn_mask [int64]"],
        "a mask has to be of type bool, or of floats that are added: int64 here. Make it so with .bool()",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_that_do_not_go_together_are_named(name):
    function, args, layers, wrong, rule = TYPES[name]
    misfit = misfit_of(fail(function, *args, **layers))

    assert (told(misfit), misfit.rule) == (wrong, rule)


def mask(*shape):
    return torch.zeros(*shape, dtype=torch.bool)


X = torch.randn(2, 5, 16)
ENCODER = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
MASKS = {
    "too small": (
        lambda m, x: m.attention(x, x, x, attn_mask=mask(4, 4)),
        {"attention": attention()},
        ["attn_mask [4]×[4]"],
        "attn_mask has to have a row for each query and a column for each key: 5×5, not 4×4",
    ),
    "one for each sequence": (
        lambda m, x: m.attention(x, x, x, attn_mask=mask(2, 5, 5)),
        {"attention": attention()},
        ["attn_mask [2]×5×5"],
        "attn_mask has to be one matrix for each head of each sequence: 4×5×5, not 2×5×5",
    ),
    "of cross-attention, turned": (
        lambda m, x: m.attention(x[:, :3], x, x, attn_mask=mask(5, 3)),
        {"attention": attention()},
        ["attn_mask [5]×[3]"],
        "attn_mask has to have a row for each query and a column for each key: 3×5, not 5×3",
    ),
    "padding, turned": (
        lambda m, x: m.attention(x, x, x, key_padding_mask=mask(5, 2)),
        {"attention": attention()},
        ["key_padding_mask [5]×[2]"],
        "key_padding_mask has to have a row for each sequence and a column for each key: 2×5, not 5×2",
    ),
    "of an encoder": (
        lambda m, x: m.encoder(x, mask=mask(4, 4)),
        {"encoder": ENCODER},
        ["attn_mask [4]×[4]"],
        "attn_mask has to have a row for each query and a column for each key: 5×5, not 4×4",
    ),
    "over the scores": (
        lambda m, x: functional.scaled_dot_product_attention(x, x, x, attn_mask=mask(4, 4)),
        {},
        ["attn_mask [4]×[4]"],
        "the mask is laid over scores of 2×5×5, a row for each query and a column for each key: 4×4 does not fit",
    ),
    "right, but the keys too narrow": (
        lambda m, x: functional.scaled_dot_product_attention(x, x[..., :8], x, attn_mask=mask(5, 5)),
        {},
        ["query 2×5×[16]", "key 2×5×[8]"],
        "queries and keys have to be equally wide: 16 and 8",
    ),
    "right, but the input too wide": (
        lambda m, x: m.attention(torch.cat((x, x), -1), x, x, attn_mask=mask(5, 5)),
        {"attention": attention()},
        ["query 5×2×[32]"],
        "the last axis has to be as wide as the layer reads: 32, but the weights are for 16",
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_that_fails_names_the_mask_where_it_is_the_masks_fault(name):
    function, layers, wrong, rule = MASKS[name]
    misfit = misfit_of(fail(function, X, **layers))

    assert (told(misfit), misfit.rule) == (wrong, rule)


def test_the_mask_stands_in_the_tables_and_before_all_others():
    function, layers, *_ = MASKS["one for each sequence"]
    text = " ".join(draw_tables(fail(function, X, **layers), width=160).split())

    assert "attn_mask [2]×5×5 has to be 4×5×5 query 5×2×16 key 5×2×16" in text
    assert "more" not in text.partition("attn_mask [2]")[2].partition("attn_mask has to be one matrix")[0]


def test_the_frame_of_a_block_that_failed_says_so_in_the_drawing():
    function, layers, *_ = MASKS["too small"]
    svg = xray.render(fail(function, X, **layers), "svg")

    assert "FAILED HERE" in svg.replace("THE FORWARD FAILED HERE", "")
    assert svg.count(">attn_mask &#160;<") == 2


def test_recurrent_layers_and_norms_name_their_width():
    lstm = misfit_of(fail(lambda m, x: m.layer(x), X, layer=nn.LSTM(8, 4)))
    norm = misfit_of(fail(lambda m, x: m.layer(x), X[..., None], layer=nn.BatchNorm2d(8)))

    assert (told(lstm), told(norm)) == (["input 2×5×[16]"], ["input 2×[5]×16×1"])
    assert lstm.rule == "the last axis has to be as wide as the layer reads: 16, but the weights are for 8"


def test_the_hint_stands_in_the_one_line_of_the_error():
    trace = fail(lambda m, x: m.words(x), torch.zeros(2, 7), words=nn.Embedding(5, 3))
    (step,) = find_failed(trace.passes[0])

    assert hint_at(step).startswith(" Hint: ids have to be whole numbers, of type int64: float32 here.")
    assert hint_at(None) == ""


def test_a_failing_call_keeps_the_keywords_that_it_was_given():
    trace = fail(lambda m, x: m.attention(x, x, x, attn_mask=ids(5, 5)), X, attention=attention())

    assert [record.name for record in trace.passes[0].by_id["attention#0"].inputs][-1] == "attn_mask"


def test_what_cannot_have_a_gradient_is_told_to_be_recorded_without():
    """So a model that writes into rows that it holds, as its author runs it (OmegaFold)."""
    net = Calling(lambda self, x: torch.matmul(x, self.linear.weight, out=torch.empty(2, 3)), linear=nn.Linear(3, 3))
    with pytest.raises(RuntimeError, match="automatic differentiation") as caught:
        xray.trace(net, torch.zeros(2, 3))
    assert caught.value.__notes__ == [
        "If the model is meant to run without gradients, record it within: with torch.no_grad():"
    ]
    with torch.no_grad():
        assert xray.trace(net, torch.zeros(2, 3)).passes


def test_an_error_of_another_kind_has_no_note_of_gradients():
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        xray.trace(Calling(lambda self, x: self.linear(x), linear=nn.Linear(3, 3)), torch.zeros(2, 5))
    assert not hasattr(caught.value, "__notes__")
