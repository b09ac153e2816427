"""Axis words without help, in one run: from attention, reshapes and widths, right at equal sizes too."""

import pytest
import torch
from capture.recorded_axes import axes_of
from torch import nn
from torch.nn import functional

import xray


class Grouped(nn.Module):
    """Attention with fewer key heads than heads, keys repeated by hand or by the kernel."""

    def __init__(self, width, heads, key_heads, d_k, *, by_hand):
        super().__init__()
        self.words = nn.Embedding(23, width)
        self.query, self.output = nn.Linear(width, heads * d_k), nn.Linear(heads * d_k, width)
        self.key, self.value = nn.Linear(width, key_heads * d_k), nn.Linear(width, key_heads * d_k)
        self.head = nn.Linear(width, 23)
        self.heads, self.key_heads, self.d_k, self.by_hand = heads, key_heads, d_k, by_hand

    def split(self, x, heads):
        return x.view(*x.shape[:2], heads, self.d_k).transpose(1, 2)

    def repeat(self, x):
        batch, _, length, _ = x.shape
        x = x[:, :, None, :, :].expand(batch, self.key_heads, self.heads // self.key_heads, length, self.d_k)
        return x.reshape(batch, self.heads, length, self.d_k)

    def forward(self, ids):
        x = self.words(ids)
        query = self.split(self.query(x), self.heads)
        key, value = (self.split(one(x), self.key_heads) for one in (self.key, self.value))
        if self.by_hand:
            scores = query @ self.repeat(key).transpose(-1, -2)
            heads = (scores / self.d_k**0.5).softmax(-1) @ self.repeat(value)
        else:
            heads = functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        joined = heads.transpose(1, 2).reshape(*ids.shape, self.heads * self.d_k)
        return self.head(functional.layer_norm(x + self.output(joined), x.shape[-1:]))


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize(("width", "heads", "key_heads", "d_k", "length"), [(15, 6, 2, 7, 5), (16, 4, 2, 4, 4)])
def test_grouped_heads_are_told_apart(by_hand, width, heads, key_heads, d_k, length):
    model = Grouped(width, heads, key_heads, d_k, by_hand=by_hand)

    found = axes_of(model, torch.zeros(heads, length, dtype=torch.long))

    wide = "d_model" if width == heads * d_k else "heads*d_k"
    assert found["words"] == [("batch", "seq_len", "d_model")]
    assert found["query"] == [("batch", "seq_len", wide)]
    assert found["key"] == found["value"] == [("batch", "seq_len", "kv_heads*d_k")]
    assert found["output"] == [("batch", "seq_len", "d_model")]
    assert found["head"] == [("batch", "seq_len", "vocab")]


def test_keys_as_wide_as_a_table_has_rows_are_no_scores_of_words():
    model = Grouped(15, 6, 2, 7, by_hand=True)
    model.words, model.head = nn.Embedding(2 * 7, 15), nn.Linear(15, 2 * 7)

    found = axes_of(model, torch.zeros(6, 5, dtype=torch.long))

    assert found["key"] == found["value"] == [("batch", "seq_len", "kv_heads*d_k")]
    assert found["head"] == [("batch", "seq_len", "vocab")]


class HeadsFirst(nn.Module):
    """Attention that lays the heads before the batch, and both along one axis (FastSpeech 2)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.words, self.output = nn.Embedding(23, width), nn.Linear(width, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        batch, length, width = x.shape
        cut = (one(x).view(batch, length, self.heads, -1) for one in (self.query, self.key, self.value))
        q, k, v = (one.permute(2, 0, 1, 3).reshape(-1, length, width // self.heads) for one in cut)
        found = torch.bmm((torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5).softmax(-1), v)
        return x + self.output(found.view(self.heads, batch, length, -1).permute(1, 2, 0, 3).reshape(x.shape))


@pytest.mark.parametrize("batch", [2, 3])
def test_heads_laid_before_the_batch_are_heads(batch):
    found = axes_of(HeadsFirst(12, 2), torch.zeros(batch, 5, dtype=torch.long))

    assert found["query"] == [("batch", "seq_len", "d_model")]
    every = [axes for axes_list in found.values() for axes in axes_list]
    assert ("heads*batch", "seq_len", "d_k") in every


@pytest.mark.parametrize("training", [True, False])
def test_stock_attention_names_its_merged_axes(training):
    model = nn.MultiheadAttention(12, 3, batch_first=True).train(training)
    x = torch.randn(2, 5, 12)

    found = [axes for axes_list in axes_of(model, x, x, x).values() for axes in axes_list]

    assert ("batch*heads", "seq_len", "d_k") in found or ("batch", "heads", "seq_len", "d_k") in found


def test_source_and_target_lengths_are_told_apart_at_equal_sizes():
    model = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    found = axes_of(model, torch.randn(4, 4, 16), torch.randn(4, 4, 16))

    assert found["encoder.layers.0.linear1"] == [("batch", "src_len", "d_ff")]
    assert found["decoder.layers.0.linear2"] == [("batch", "tgt_len", "d_model")]


def test_a_model_without_attention_keeps_its_numbers():
    found = axes_of(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), torch.ones(2, 3))

    assert found == {"Sequential": [("", "")], "0": [("", "")], "1": [("", "")]}


class Turned(Grouped):
    """One table multiplies the queries of all heads and the keys of one head alike (Falcon)."""

    def forward(self, ids):
        self.table = torch.arange(ids.shape[1] * self.d_k).view(1, 1, ids.shape[1], self.d_k).cos()
        return super().forward(ids)

    def split(self, x, heads):
        return super().split(x, heads) * self.table


def test_one_table_for_all_heads_has_no_axis_of_key_heads_where_there_is_one():
    trace = xray.trace(Turned(15, 6, 1, 7, by_hand=False), torch.zeros(2, 5, dtype=torch.long))

    read = [one.axes for step in trace.steps if step.op == "mul" for one in step.inputs]
    assert ("batch", "kv_heads", "seq_len", "d_k") in read
    assert ("", "", "seq_len", "d_k") in read
    assert all("kv_heads" not in one.axes for step in trace.steps if step.op == "cos" for one in step.outputs)


class CutTwice(Grouped):
    """Queries in so many parts of as many heads as there are keys, which are laid out once for each part (JetMoe)."""

    def split(self, x, heads):
        parts = x.view(*x.shape[:2], heads // self.key_heads, self.key_heads * self.d_k)
        return parts.view(*x.shape[:2], heads, self.d_k).transpose(1, 2)

    def repeat(self, x):
        return x.repeat(1, self.heads // self.key_heads, 1, 1)


def test_parts_that_queries_alone_were_cut_in_are_no_key_heads():
    trace = xray.trace(CutTwice(35, 6, 3, 5, by_hand=True), torch.arange(14).view(2, 7))

    cut = [one.axes for step in trace.steps for one in step.outputs if one.shape == (2, 7, 2, 15)]
    assert cut
    assert all("kv_heads" not in axes for axes in cut)


class Stream(nn.Module):
    """Rows of a table, or given ones, on a residual stream that no attention reads, as one of states (Mamba)."""

    def __init__(self, *, reads_words):
        super().__init__()
        self.words = nn.Embedding(23, 12) if reads_words else nn.Identity()
        self.up, self.down, self.head = nn.Linear(12, 30), nn.Linear(30, 12), nn.Linear(12, 23)

    def forward(self, x):
        x = self.words(x)
        return self.head(x + self.down(functional.silu(self.up(x))))


def test_a_stream_of_words_has_its_widths_without_attention():
    found = axes_of(Stream(reads_words=True), torch.arange(10).view(2, 5))

    assert [found[name][0][-1] for name in ("words", "up", "down", "head")] == ["d_model", "d_ff", "d_model", "vocab"]


def test_a_stream_of_no_words_and_without_attention_keeps_its_numbers():
    found = axes_of(Stream(reads_words=False), torch.randn(2, 5, 12))

    assert {word for axes in found.values() for words in axes for word in words} == {""}


def test_einsum_letters_carry_words():
    class Product(nn.Module):
        def forward(self, left, right):
            return torch.einsum("bij,bjk->bik", left, right)

    found = xray.trace(
        Product(),
        torch.ones(3, 3, 3),
        torch.ones(3, 3, 3),
        axes={"left": ("batch", "rows", ""), "right": ("", "", "columns")},
    )

    assert found.steps[0].outputs[0].axes == ("batch", "rows", "columns")


@pytest.mark.parametrize(
    ("change", "axes"),
    [
        (lambda x: x[:, -1], ("batch", "features")),
        (lambda x: x[..., None], ("batch", "time", "features", "")),
        (lambda x: x[None, 1:3], ("", "", "time", "features")),
        (lambda x: x.unsqueeze(1), ("batch", "", "time", "features")),
        (lambda x: x.unsqueeze(1).squeeze(1), ("batch", "time", "features")),
        (lambda x: x.sum(1), ("batch", "features")),
        (lambda x: x.mean(-1, keepdim=True), ("batch", "time", "")),
        (lambda x: x.permute(2, 0, 1), ("features", "batch", "time")),
        (lambda x: x.flatten(0, 1), ("batch*time", "features")),
        (lambda x: x.reshape(15, 7).view(3, 5, 7), ("batch", "time", "features")),
        (lambda x: x.mT, ("batch", "features", "time")),
        (lambda x: torch.cat([x, x], dim=1), ("batch", "", "features")),
        (lambda x: x.chunk(5, dim=1)[2], ("batch", "", "features")),
        (lambda x: x.unbind(1)[0], ("batch", "features")),
        (lambda x: torch.cat([torch.tensor([]), x], dim=1), ("batch", "time", "features")),
    ],
)
def test_words_go_through_every_change_of_form(change, axes):
    class Change(nn.Module):
        def forward(self, x):
            return change(x)

    found = xray.trace(Change(), torch.ones(3, 5, 7), axes={"x": ("batch", "time", "features")})

    assert found.steps[0].outputs[0].axes == axes


class Waist(nn.Module):
    """A stream with a way through a normed waist, and a way out and back with a bend."""

    def __init__(self, width=15, waist=6, wide=22):
        super().__init__()
        self.words = nn.Embedding(23, width)
        self.down, self.norm, self.up = nn.Linear(width, waist), nn.LayerNorm(waist), nn.Linear(waist, width)
        self.out, self.back, self.pool = nn.Linear(width, wide), nn.Linear(wide, width), nn.Linear(width, 9)

    def forward(self, ids):
        x = self.words(ids)
        x = x + self.up(self.norm(self.down(x)).softmax(-1))
        x = x + self.back(self.out(x).relu())
        return self.pool(x).tanh()


def test_a_normed_waist_is_no_stream_and_a_bent_end_no_way_out_and_back():
    found = axes_of(Waist(), torch.zeros(4, 5, dtype=torch.long))
    assert [found[name][0][-1] for name in ("words", "norm", "out", "back", "pool")] == [
        "d_model",
        "",
        "d_ff",
        "d_model",
        "",
    ]


class Biased(Grouped):
    """Attention with a table of biases, which has as many rows as all heads are wide."""

    def __init__(self):
        super().__init__(16, 4, 4, 4, by_hand=True)
        self.far = nn.Embedding(16, 4)

    def forward(self, ids):
        x = self.words(ids)
        query, key, value = (self.split(one(x), 4) for one in (self.query, self.key, self.value))
        places = torch.arange(ids.shape[1])
        bias = self.far((places[:, None] - places).abs()).permute(2, 0, 1)
        heads = (query @ key.transpose(-1, -2) + bias).softmax(-1) @ value
        joined = heads.transpose(1, 2).reshape(*ids.shape, 16)
        return self.head(x + self.output(joined))


def test_a_table_of_biases_is_no_vocabulary():
    found = axes_of(Biased(), torch.zeros(2, 5, dtype=torch.long))

    assert found["query"] == [("batch", "seq_len", "d_model")]
    assert found["head"] == [("batch", "seq_len", "vocab")]


class Placed(Grouped):
    """Words and places, and a projection at the end to as many numbers as there are places."""

    def __init__(self, held):
        super().__init__(16, 4, 4, 4, by_hand=True)
        self.places, self.project, self.held = nn.Embedding(13, 16), nn.Linear(16, 13), held
        self.register_buffer("row", torch.arange(13)[None])

    def forward(self, ids):
        places = self.row[:, : ids.shape[1]] if self.held else torch.arange(ids.shape[1])
        x = self.words(ids) + self.places(places)
        query, key, value = (self.split(one(x), 4) for one in (self.query, self.key, self.value))
        heads = functional.scaled_dot_product_attention(query, key, value)
        return self.project(x + self.output(heads.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("held", [False, True])
def test_as_many_numbers_as_there_are_places_are_no_vocabulary(held):
    found = axes_of(Placed(held), torch.zeros(2, 5, dtype=torch.long))

    assert found["project"] == [("batch", "seq_len", "")]


class Scaled(nn.Embedding):
    """A table that a function looks up in, as where its rows are multiplied by a number (Gemma)."""

    def forward(self, ids):
        return super().forward(ids) * 4.0


@pytest.mark.parametrize(("count", "word"), [(23, "vocab"), (19, "")])
def test_scores_of_words_are_as_many_as_rows_of_a_table_that_a_function_looks_up_in(count, word):
    model = Kinds(is_bent=False, count=count)
    model.words = Scaled(23, 16)

    found = axes_of(model, torch.zeros(2, 5, dtype=torch.long))

    assert found["classify"] == [("batch", "seq_len", word)]


class Kinds(Grouped):
    """Words with a row for their kind added, and as many classes at the end as there are kinds, be each one bent."""

    def __init__(self, *, is_bent, count):
        super().__init__(16, 4, 4, 4, by_hand=True)
        self.kinds, self.classify, self.is_bent = nn.Embedding(3, 16), nn.Linear(16, count), is_bent

    def forward(self, ids):
        x = self.words(ids) + self.kinds(torch.zeros_like(ids))
        query, key, value = (self.split(one(x), 4) for one in (self.query, self.key, self.value))
        heads = functional.scaled_dot_product_attention(query, key, value)
        made = self.classify(x + self.output(heads.transpose(1, 2).flatten(2)))
        return made.sigmoid() if self.is_bent else made


@pytest.mark.parametrize(
    ("is_bent", "count", "word"), [(False, 3, ""), (False, 23, "vocab"), (True, 23, "")], ids=["kinds", "words", "bent"]
)
def test_scores_of_words_are_as_many_as_words_and_not_each_bent(is_bent, count, word):
    found = axes_of(Kinds(is_bent=is_bent, count=count), torch.zeros(2, 5, dtype=torch.long))

    assert found["classify"] == [("batch", "seq_len", word)]


class Coded(Kinds):
    """Words beside which codes come in, looked up in a smaller table, and a score for every code at the end."""

    def __init__(self, count):
        super().__init__(is_bent=False, count=count)
        self.codes = nn.Embedding(7, 16)

    def forward(self, ids):
        return super().forward(ids[:, :3]) + self.classify(self.codes(ids[:, :3]))


@pytest.mark.parametrize(("count", "word"), [(7, ""), (23, "vocab")])
def test_scores_of_the_codes_of_a_smaller_table_are_none_of_words(count, word):
    found = axes_of(Coded(count), torch.zeros(2, 5, dtype=torch.long))

    assert {axes[-1] for axes in found["classify"]} == {word}


class Roomy(Grouped):
    """Keys and values of 7 places stand in a room for as many as a head is wide; shares get the type of queries."""

    def __init__(self):
        super().__init__(24, 3, 3, 8, by_hand=True)

    def forward(self, ids):
        x = self.words(ids)
        query, key, value = (self.split(one(x), 3) for one in (self.query, self.key, self.value))
        room = torch.zeros(*key.shape[:2], 8, 8).index_copy(2, torch.arange(7), key)
        values = torch.zeros(*key.shape[:2], 8, 8).index_copy(2, torch.arange(7), value)
        hidden = torch.full((7, 8), -1e9).triu(1)
        heads = (query @ room.transpose(2, 3) + hidden).float().softmax(-1).type_as(query) @ values
        return self.head(x + self.output(heads.transpose(1, 2).reshape(*ids.shape, 24)))


def test_what_gives_its_type_alone_gives_no_axes():
    (shares,) = (
        step for step in xray.trace(Roomy(), torch.zeros(2, 7, dtype=torch.long)).steps if step.op == "softmax"
    )

    assert shares.outputs[0].axes[:3] == ("batch", "heads", "seq_len")
    assert shares.outputs[0].axes[3] != "d_k"
