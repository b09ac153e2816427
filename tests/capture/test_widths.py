"""What is no feed-forward has no d_ff, and what queries and keys are not summed over is no d_k."""

import pytest
import torch
from story.charts.test_parts_of_a_cut import WIDTH as NEAR_WIDTH
from story.charts.test_parts_of_a_cut import NearAndFar
from torch import nn

import xray

WIDTH, HEADS, NARROW = 14, 2, 5


class Attending(nn.Module):
    """Attention over rows, or over channels, as DaViT has it; a feed-forward, and a gate of what that reads."""

    def __init__(self, *, over_channels=False, gate=None, bend=torch.relu, layer=nn.Linear):
        super().__init__()
        self.bend = bend
        self.words, self.qkv, self.out = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = layer(WIDTH, 11), layer(11, WIDTH)
        self.narrow, self.widen, self.own = nn.Linear(WIDTH, NARROW), nn.Linear(NARROW, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.over_channels, self.gate = over_channels, gate

    def forward(self, ids):
        x = self.words(ids)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.over_channels:
            scores = (query.mT @ key).softmax(-1)
            found = (scores @ value.mT).mT
        else:
            found = (query @ key.mT).softmax(-1) @ value
        x = x + self.out(found.transpose(1, 2).flatten(2))
        read = x if self.gate is None else self.gate(self, x)
        return x + self.back(self.bend(self.wide(read)))


def gate_rows(model, x):
    return x * model.widen(nn.functional.silu(model.narrow(x))).sigmoid()


def gate_layer(model, x):
    return x + model.own(x).sigmoid() * model.widen(nn.functional.silu(model.narrow(x)))


def scale_rows(model, x):
    return x * (1 + model.widen(nn.functional.silu(model.narrow(x[:, :1]))))


def words_of(path, **said):
    trace = xray.trace(Attending(**said), torch.arange(10).view(2, 5))
    return next(step for step in trace.steps if step.path == path).outputs[0].axes


@pytest.mark.parametrize(("gate", "word"), [(gate_rows, ""), (scale_rows, ""), (gate_layer, "d_ff")])
def test_a_waist_of_what_gates_rows_is_no_feed_forward(gate, word):
    assert words_of("narrow", gate=gate)[-1] == word
    assert words_of("wide", gate=gate)[-1] == "d_ff"


def by_error(x):
    return x * 0.5 * (1.0 + torch.erf(x / 2**0.5))


def by_tanh(x):
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def not_bent(x):
    return x * 0.5 * (1.0 + x / 2**0.5)


def times_a_number(x):
    return nn.functional.silu(x * 0.7)


def between_bounds(x):
    return nn.functional.silu(x.clamp(max=7.0))


BENDS = [(by_error, "d_ff"), (by_tanh, "d_ff"), (times_a_number, "d_ff"), (between_bounds, "d_ff"), (not_bent, "")]


@pytest.mark.parametrize(("bend", "word"), BENDS)
def test_rows_that_are_bent_in_writing_are_those_of_a_feed_forward(bend, word):
    assert words_of("wide", bend=bend)[-1] == word


class AsWideAsWords(nn.Module):
    """A feed-forward as wide as there are words, and their scores behind it."""

    def __init__(self):
        super().__init__()
        self.words, self.wide, self.back = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)
        self.scores = nn.Linear(WIDTH, 31)

    def forward(self, ids):
        x = self.words(ids)
        x = x + (x @ x.mT).softmax(-1) @ x
        return self.scores(x + self.back(self.wide(x).relu().square()))


def test_a_feed_forward_as_wide_as_there_are_words_makes_no_scores_of_words():
    steps = {step.path: step for step in xray.trace(AsWideAsWords(), torch.arange(10).view(2, 5)).steps}

    assert [steps[path].outputs[0].axes[-1] for path in ("wide", "scores")] == ["d_ff", "vocab"]


class Written(nn.Linear):
    """A linear layer that is written as a product (Falcon)."""

    def forward(self, x):
        return x @ self.weight.T + self.bias


def test_layers_that_are_written_as_products_lead_out_to_d_ff_and_back():
    assert words_of("wide", layer=Written)[-1] == "d_ff"
    assert words_of("back", layer=Written)[-1] == "d_model"


def test_rows_that_channels_are_compared_over_are_no_width_of_heads():
    assert {"d_k", "d_v"}.isdisjoint(words_of("qkv", over_channels=True))
    assert words_of("wide", over_channels=True)[-1] == "d_ff"


class OfLengthOne(Attending):
    """Attention over channels, each brought to length 1 over all rows first (XCiT)."""

    def forward(self, ids):
        x = self.words(ids)
        ways = (one.unflatten(-1, (HEADS, -1)).permute(0, 2, 3, 1) for one in self.qkv(x).chunk(3, -1))
        query, key, value = ways
        query, key = (nn.functional.normalize(one, dim=-1) for one in (query, key))
        x = x + self.out(((query @ key.mT).softmax(-1) @ value).permute(0, 3, 1, 2).flatten(2))
        return x + self.back(self.bend(self.wide(x)))


def test_rows_that_are_brought_to_length_one_before_channels_are_compared_are_no_width_of_heads():
    steps = xray.trace(OfLengthOne(), torch.arange(10).view(2, 5)).steps
    (normed, _) = (step for step in steps if step.op == "normalize")

    assert {"d_k", "d_v"}.isdisjoint(normed.outputs[0].axes)
    assert "heads" in normed.outputs[0].axes


class OfMaps(nn.Module):
    """Attention over the channels of a map, which convolutions make (Restormer)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        query, key, value = (one.unflatten(1, (HEADS, -1)).flatten(3) for one in self.qkv(x).chunk(3, 1))
        found = (query @ key.mT).softmax(-1) @ value
        return x + self.out(found.flatten(1, 2).view_as(x))


def test_places_of_a_map_that_channels_are_compared_over_are_no_width_of_heads():
    steps = xray.trace(OfMaps(), torch.rand(2, WIDTH, 3, 5)).steps

    assert [step.outputs[0].axes[1] for step in steps if step.op == "matmul"] == ["heads", "heads"]
    assert not any({"d_k", "d_v"}.intersection(record.axes) for step in steps for record in step.outputs)


class ChannelsFirst(nn.Module):
    """Attention with one head over channels that stand before places: values times weights on their side (SHViT)."""

    def __init__(self):
        super().__init__()
        self.words, self.made, self.back = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 7 + 7 + 13), nn.Linear(13, WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        queries, keys, values = self.made(x).transpose(1, 2).split([7, 7, 13], dim=1)
        weights = (queries.transpose(1, 2) @ keys).softmax(-1)
        return x + self.back((values @ weights.transpose(1, 2)).transpose(1, 2))


def test_values_that_stand_before_their_weights_are_as_wide_as_their_channels():
    steps = xray.trace(ChannelsFirst(), torch.arange(10).view(2, 5)).steps

    wide = {
        size
        for step in steps
        for record in (*step.inputs, *step.outputs)
        for size, word in zip(record.shape, record.axes, strict=True)
        if word == "d_v"
    }
    assert wide == {13}


class Recurring(nn.Module):
    """Attention, and rows that a sum over those before them makes, let through by a gate (RecurrentGemma)."""

    def __init__(self):
        super().__init__()
        self.words, self.attention = nn.Embedding(31, WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.gate, self.wide, self.back = nn.Linear(WIDTH, 11), nn.Linear(WIDTH, 11), nn.Linear(11, WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.back(nn.functional.gelu(self.gate(x)) * self.wide(x).cumsum(1))


def test_rows_of_a_recurrence_that_are_let_through_are_no_feed_forward():
    steps = xray.trace(Recurring(), torch.arange(10).view(2, 5)).steps

    assert "d_ff" not in {word for step in steps for record in step.outputs for word in record.axes}


class ConvolvedNorm(nn.Module):
    """A layer over what the heads found, what came in added, and a norm: no norm alone, whatever it is called."""

    def __init__(self):
        super().__init__()
        self.mix, self.norm = nn.Conv1d(12, 12, 1), nn.LayerNorm(12)

    def forward(self, found, x):
        return self.norm((self.mix(found) + x).mT).mT


class Convolved(nn.Module):
    """Attention whose linear layers are convolutions over one place (SqueezeBERT)."""

    def __init__(self):
        super().__init__()
        self.ways, self.end = nn.ModuleList(nn.Conv1d(12, 12, 1) for _ in range(3)), ConvolvedNorm()

    def forward(self, x):
        q, k, v = (way(x).unflatten(1, (3, 4)).mT for way in self.ways)
        weights = (q @ k.mT / 2).softmax(-1)
        return self.end((weights @ v).mT.flatten(1, 2), x)


def test_what_heads_found_is_not_named_through_a_module_that_is_called_a_norm():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layers = nn.Embedding(11, 12), nn.Sequential(Convolved(), Convolved())

        def forward(self, ids):
            return self.layers(self.words(ids).mT).mT

    trace = xray.trace(Words(), torch.arange(10).view(2, 5))
    found = {step.path: step.outputs[0].axes for step in trace.steps if step.outputs and step.path}

    assert found["words"][-1] != "heads*d_k"
    assert found["layers.0.ways.0"][-1] == found["layers.0.ways.1"][-1] == found["words"][1] != ""
    assert "heads*d_k" in {axis for path, axes in found.items() if path.startswith("layers.0.ways") for axis in axes}


class Brought(nn.Module):
    """Two streams, one as wide as words and one wider, and layers that lead from the first to the second."""

    def __init__(self):
        super().__init__()
        self.first, self.then = nn.ModuleList(Layer(12) for _ in range(2)), nn.ModuleList(Layer(18) for _ in range(2))
        self.words, self.wide, self.brought = nn.Embedding(11, 12), nn.Linear(12, 30), nn.Linear(30, 18)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.first:
            x = layer(x)
        x = self.brought(self.wide(x).relu())
        for layer in self.then:
            x = layer(x)
        return x


class Layer(nn.Module):
    """Attention with one head, and a feed-forward."""

    def __init__(self, width):
        super().__init__()
        self.qkv, self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(width, 22), nn.Linear(22, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + (q @ k.mT).softmax(-1) @ v
        return x + self.down(self.up(x).relu())


def test_what_leads_from_one_stream_to_another_is_no_feed_forward():
    trace = xray.trace(Brought(), torch.arange(10).view(2, 5))
    words = {step.path: step.outputs[0].axes[-1] for step in trace.steps if step.outputs and step.path}

    assert [words[path] for path in ("first.1.up", "wide", "then.0.up")] == ["d_ff", "", "d_ff"]


class OneHead(Attending):
    """One head as wide as the rows, with no layer behind it that leads back (T2T-ViT)."""

    def forward(self, ids):
        x = self.words(ids)
        query, key, value = (one.unflatten(-1, (1, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        x = x + ((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2)
        return x + self.back(self.bend(self.wide(x)))


def test_the_width_of_a_stream_is_no_width_of_heads_where_one_head_is_added_to_it_as_it_is():
    steps = {step.id: step for step in xray.trace(OneHead(), torch.arange(10).view(2, 5)).steps}

    assert [steps[f"OneHead.add#{number}"].outputs[0].axes[-1] for number in (0, 1)] == ["d_model", "d_model"]
    assert steps["wide#0"].outputs[0].axes[-1] == "d_ff"


class ConvNorm(nn.Sequential):
    """A convolution over one place, and a norm."""


class OneHeadOfMaps(nn.Module):
    """One head whose values are as many as a map has channels, between convolutions that norms follow (iFormer)."""

    def __init__(self):
        super().__init__()
        self.look = nn.Conv2d(WIDTH, 7 + 7 + WIDTH, 1)
        self.out = ConvNorm(nn.Conv2d(WIDTH, WIDTH, 1), nn.BatchNorm2d(WIDTH))

    def forward(self, x):
        queries, keys, values = (one[:, None].mT for one in self.look(x).flatten(2).split([7, 7, WIDTH], 1))
        seen = nn.functional.scaled_dot_product_attention(queries, keys, values)
        return x + self.out(seen.mT.reshape(x.shape))


def test_channels_behind_a_convolution_with_its_norm_are_no_width_of_values():
    trace = xray.trace(OneHeadOfMaps().eval(), torch.rand(2, WIDTH, 3, 5))

    words = {step.id: step.outputs[0].axes[1] for step in trace.steps}
    assert (words["out.0#0"], words["OneHeadOfMaps.add#0"]) == ("", "")
    assert [one for step in trace.steps for one in step.outputs if "d_v" in one.axes]


class Classifying(nn.Module):
    """Rows of pieces of an image, of which the first one's classes are scored by a layer that is called after words."""

    def __init__(self):
        super().__init__()
        self.into, self.attend, self.lm_head = nn.Linear(5, WIDTH), Attending(), nn.Linear(WIDTH, 4)
        self.attend.words = nn.Linear(WIDTH, WIDTH)  # type: ignore[assignment]  # rows come in

    def forward(self, x):
        return self.lm_head(self.attend(self.into(x))[:, 0])


def test_a_head_called_after_words_has_no_vocabulary_where_no_table_is_looked_up_in():
    trace = xray.trace(Classifying().eval(), torch.rand(2, 7, 5))

    assert not [step for step in trace.steps for record in step.outputs if "vocab" in record.axes]


def test_numbers_that_queries_and_keys_are_summed_over_are_no_width_of_values_alone():
    trace = xray.trace(nn.Sequential(NearAndFar(), NearAndFar()), torch.rand(2, 12, NEAR_WIDTH))

    words = {step.op: step.outputs[0].axes[-1] for step in trace.steps if step.path.startswith("0")}
    assert words["normalize"] == "d_k"
    assert "d_v" not in {word for step in trace.steps for one in step.outputs for word in one.axes}
