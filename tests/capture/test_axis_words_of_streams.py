"""Axis words of streams: which width is the model's, what is a batch, and which rows have words."""

import pytest
import torch
from capture.recorded_axes import axes_of
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.attentions import Attention


class Streams(nn.Module):
    """Four streams side by side in one row: a layer reads their mean, and gives its result to each."""

    def __init__(self, width, count):
        super().__init__()
        self.words, self.query, self.wide = nn.Embedding(23, width), nn.Linear(width, width), nn.Linear(width, 31)
        self.back, self.spread, self.count = nn.Linear(31, width), nn.Linear(width * count, count), count

    def forward(self, ids):
        x = self.words(ids).repeat(1, 1, self.count)
        for layer in (self.attend, lambda one: self.back(self.wide(one).relu())):
            made = layer(x.unflatten(-1, (self.count, -1)).mean(dim=-2))
            x = x + (made.unsqueeze(-2) * self.spread(x).unsqueeze(-1)).flatten(-2)
        return x

    def attend(self, one):
        rows = self.query(one).unflatten(-1, (3, -1)).transpose(1, 2)
        return functional.scaled_dot_product_attention(rows, rows, rows).transpose(1, 2).flatten(-2)


def test_a_row_of_several_streams_is_no_width_of_the_model():
    found = axes_of(Streams(15, 4), torch.zeros(3, 7, dtype=torch.long))

    assert {axes[-1] for axes in found["Streams.add"]} == {"streams*d_model"}
    assert [found[path][0][-1] for path in ("wide", "back")] == ["d_ff", "d_model"]


class Classes(nn.Module):
    """Four rows that look at each other, then side by side in one, which looks at others of its kind (TabPFN)."""

    def __init__(self, width, count):
        super().__init__()
        self.words = nn.Embedding(23, width)
        self.layers = nn.ModuleList(Look(one) for one in (width, width * count, width * count))

    def forward(self, ids):
        first, *others = self.layers
        x = first(self.words(ids)).flatten(-2)
        for layer in others:
            x = layer(x)
        return x


class Look(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.into, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        rows = self.into(x).unflatten(-1, (3, -1)).transpose(-2, -3)
        return x + self.out(functional.scaled_dot_product_attention(rows, rows, rows).transpose(-2, -3).flatten(-2))


def test_rows_that_looked_at_each_other_are_no_streams():
    found = axes_of(Classes(15, 4), torch.zeros(2, 5, 4, dtype=torch.long))

    words = {word for axes in found.values() for one in axes for word in one}
    assert "d_model" in words
    assert not [word for word in words if "streams" in word]


def cut_by_view(x):
    return x.view(len(x), -1, 3, 22).reshape(-1, 3, 22)


def cut_end_to_end(x):
    return torch.cat(x.split(3, 1))


class InWindows(nn.Module):
    """Attention within windows of three places, all windows of all sequences one behind the other."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.query, self.key, self.value = (nn.Linear(22, 22) for _ in range(3))

    def forward(self, x):
        rows = self.cut(x)
        query, key, value = (one(rows).view(-1, 3, 2, 11).transpose(1, 2) for one in (self.query, self.key, self.value))
        found = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return x + found.transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize("cut", [cut_by_view, cut_end_to_end])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_windows_of_several_sequences_are_no_batch(device, cut):
    model = nn.Sequential(InWindows(cut), InWindows(cut)).to(device)

    trace = xray.trace(model, torch.zeros(5, 21, 22, device=device))

    records = [record for step in trace.steps for record in (*step.inputs, *step.outputs)]
    sizes = {
        size for record in records for word, size in zip(record.axes, record.shape, strict=True) if word == "batch"
    }
    assert sizes <= {5}
    assert any(record.shape == (35, 2, 3, 11) and record.axes[1:] == ("heads", "", "d_k") for record in records)


class Framed(nn.Module):
    """A row of frames that attend each by itself: more of them than sequences came in."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(14, 42), nn.Linear(14, 14)

    def forward(self, x):
        rows = x.expand(5, -1, -1)
        query, key, value = (one.unflatten(-1, (2, 7)).transpose(1, 2) for one in self.qkv(rows).chunk(3, dim=-1))
        return rows + self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("count", "word"), [(1, ""), (5, "batch")])
def test_no_axis_is_the_batch_that_is_longer_than_what_came_in(count, word):
    trace = xray.trace(Framed(), torch.rand(count, 11, 14))

    (scores,) = [step.outputs[0] for step in trace.passes[0].steps if step.path.endswith(".scores")]
    assert (scores.shape, scores.axes[:2]) == ((5, 2, 11, 11), (word, "heads"))


class Refines(nn.Module):
    """Layers, and behind them fewer numbers for each place, to which a last part adds what is to be made better."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(22, 2, batch_first=True) for _ in range(3))
        self.heard, self.wide, self.back = nn.Linear(22, 9), nn.Linear(9, 30), nn.Linear(30, 9)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x, x, x, need_weights=False)[0]
        heard = self.heard(x)
        return heard + self.back(self.wide(heard).tanh())


def test_what_is_made_better_once_behind_the_layers_is_no_stream_of_the_model():
    trace = xray.trace(Refines(), torch.rand(3, 5, 22))

    records = [record for step in trace.steps for record in step.outputs]
    widths = {size for one in records for word, size in zip(one.axes, one.shape, strict=True) if word == "d_model"}
    assert widths == {22}


class Narrowed(nn.Module):
    """A layer that works on fewer numbers of each place, adds to these twice, and then to the stream (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.narrow, self.look = nn.Linear(22, 6), nn.MultiheadAttention(6, 2, batch_first=True)
        self.wide, self.back, self.whole = nn.Linear(6, 30), nn.Linear(30, 6), nn.Linear(6, 22)

    def forward(self, x):
        narrow = self.narrow(x)
        narrow = narrow + self.look(narrow, narrow, narrow, need_weights=False)[0]
        narrow = narrow + self.back(self.wide(narrow).tanh())
        return x + self.whole(narrow)


def test_a_stream_within_the_branches_of_another_one_is_no_width_of_the_model():
    model = nn.Sequential(nn.Linear(22, 22), *(Narrowed() for _ in range(3)))
    trace = xray.trace(model, torch.rand(3, 5, 22))

    records = [record for step in trace.steps for record in step.outputs]
    widths = {size for one in records for word, size in zip(one.axes, one.shape, strict=True) if word == "d_model"}
    assert widths == {22}


class Refined(nn.Module):
    """Noise, to which all that a layer of another width made of it is added (E2 TTS)."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(13, 22), nn.Linear(22, 13)
        self.layer = nn.MultiheadAttention(22, 2, batch_first=True)

    def forward(self, x):
        noise = torch.randn_like(x)
        rows = self.into(noise)
        return noise + self.out(rows + self.layer(rows, rows, rows, need_weights=False)[0])


def test_what_a_whole_network_is_added_to_is_no_stream_of_the_model():
    trace = xray.trace(Refined(), torch.rand(3, 5, 13))

    records = [record for step in trace.steps for record in step.outputs]
    widths = {size for one in records for word, size in zip(one.axes, one.shape, strict=True) if word == "d_model"}
    assert widths == {22}


class Counted(nn.Module):
    """Layers that give nine numbers of each place on, each a little better, and read a mean of these (D-FINE)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(22, 2, batch_first=True) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(22, 9) for _ in range(3))

    def forward(self, x):
        given = self.heads[0](x)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = x + layer(x, x, x, need_weights=False)[0] * given.mean(-1, keepdim=True)
            given = given + head(x)
        return given


def test_numbers_that_no_layer_reads_are_no_stream_of_the_model():
    trace = xray.trace(Counted(), torch.rand(3, 5, 22))

    records = [record for step in trace.steps for record in step.outputs]
    widths = {size for one in records for word, size in zip(one.axes, one.shape, strict=True) if word == "d_model"}
    assert widths == {22}


class Gated(Streams):
    """A layer whose gate lets through rows that were looked up once, or what another layer makes of the same rows."""

    def __init__(self, *, is_beside):
        super().__init__(15, 1)
        self.beside, self.up, self.is_beside = nn.Embedding(23, 31), nn.Linear(15, 31), is_beside

    def forward(self, ids):
        x = self.words(ids)
        rows = self.beside(ids) if self.is_beside else None
        x = x + self.attend(x)
        return x + self.back(functional.gelu(self.wide(x)) * (self.up(x) if rows is None else rows))


@pytest.mark.parametrize(("is_beside", "word"), [(True, ""), (False, "d_ff")])
def test_rows_that_a_gate_lets_through_from_beside_are_not_as_wide_as_a_feed_forward(is_beside, word):
    found = axes_of(Gated(is_beside=is_beside), torch.zeros(3, 7, dtype=torch.long))

    assert found["wide"] == [("batch", "seq_len", word)]


@pytest.mark.parametrize("many", [7, 5])
def test_rows_that_come_in_beside_words_have_not_their_word_be_they_as_many(many):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lead = nn.Embedding(11, 8), nn.Linear(6, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, ids, rows):
            rows, words = self.lead(rows), self.words(ids)
            return self.attend(rows, rows, rows)[0].mean(1) + self.attend(words, words, words)[0].mean(1)

    trace = xray.trace(Pair().eval(), torch.zeros(2, 5, dtype=torch.long), torch.rand(2, many, 6))
    made = {step.path: step.outputs[0].axes for step in trace.steps if step.outputs and step.path in ("words", "lead")}

    assert made["words"][1] == "seq_len"
    assert made["lead"][1] == ""


@pytest.mark.parametrize("is_added", [True, False])
def test_rows_that_are_looked_at_have_not_the_word_of_those_that_look_unless_they_are_one_each(is_added):
    """So it is with what a model of queries is given of an image (BLIP-2's alone)."""

    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.ask, self.lead = nn.Linear(8, 8), nn.Linear(6, 8)

        def forward(self, rows, others):
            query, key = (
                one.view(2, 5, 2, 4).transpose(1, 2)
                for one in (self.ask(rows + self.lead(others) if is_added else rows), self.lead(others))
            )
            return functional.scaled_dot_product_attention(query, key, key)

    made = axes_of(Asks(), torch.rand(2, 5, 8), torch.rand(2, 5, 6))

    assert made["ask"][0][1] == "seq_len"
    assert made["lead"][0][1] == ("seq_len" if is_added else "")


class Posed(nn.Module):
    """Joints of each frame look at each other, then frames of a film do (PoseFormer)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(2, 8)
        self.near, self.far = (nn.MultiheadAttention(size, 2, batch_first=True) for size in (8, 56))

    def forward(self, poses):
        x = self.lead(poses.flatten(0, 1))
        x = (x + self.near(x, x, x)[0]).view(2, 5, 56)
        return x + self.far(x, x, x)[0]


def test_a_word_stands_for_one_size_where_rows_look_at_each_other_along_two_axes_of_what_comes_in():
    trace = xray.trace(Posed().eval(), torch.rand(2, 5, 7, 2))
    sizes = {
        size
        for step in trace.steps
        for record in (*step.inputs, *step.outputs)
        for word, size in zip(record.axes, record.shape, strict=True)
        if word == "seq_len"
    }

    assert sizes == {7}


class Translates(nn.Module):
    """Words that look at others; both came in under names that say nothing of them."""

    def __init__(self):
        super().__init__()
        self.words, self.attend = nn.Embedding(11, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids, others):
        asked = self.words(others)
        return self.attend(self.words(ids), asked, asked, need_weights=True)[0]


@pytest.mark.parametrize(("many", "word"), [(7, ""), (5, "seq_len")])
def test_a_word_does_not_stand_for_two_sizes_in_one_tensor(many, word):
    ids = torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, many, dtype=torch.long)
    steps = xray.trace(Translates().eval(), *ids).steps
    scores = [record.axes for step in steps for record in step.outputs if record.shape[-2:] == (5, many)]

    assert {axes[-2:] for axes in scores} == {(word, word)}


class Remembers(nn.Module):
    """Attention of words to a memory and to themselves, by axes that lie first; a mask is given (Transformer-XL)."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.out = nn.Embedding(13, 22), nn.LayerNorm(22), nn.Linear(22, 22)
        self.three, self.head = nn.ModuleList(nn.Linear(22, 22) for _ in range(3)), nn.Linear(22, 13)

    def forward(self, ids, memory, mask):
        x = self.words(ids)
        for _ in range(2):
            y = self.norm(x)
            rows = torch.cat([self.norm(memory), y])
            q, k, v = (make(one).unflatten(-1, (2, 11)) for make, one in zip(self.three, (y, rows, rows), strict=True))
            scores = torch.einsum("ibhd,jbhd->ijbh", q, k).masked_fill((mask == 0)[..., None], -torch.inf)
            x = x + self.out(torch.einsum("ijbh,jbhd->ibhd", scores.softmax(1), v).flatten(2))
        return self.head(x)


def test_a_memory_and_the_words_behind_it_have_not_the_word_for_the_words_and_it_is_not_said_that_all_are_seen():
    mask = torch.cat([torch.ones(5, 7), torch.ones(5, 5).tril()], dim=1)[..., None]
    trace = xray.trace(Remembers().eval(), torch.arange(15).view(5, 3) % 13, torch.rand(7, 3, 22), mask)
    shapes = {record.shape: record.axes for step in trace.steps for record in step.outputs}

    assert shapes[5, 12, 3, 2][:2] == ("seq_len", "")
    (tower,) = xray.anatomy(trace).towers
    assert [one.causal for one in tower.branches if isinstance(one, Attention)] == [None]


class Landmarks(nn.Module):
    """Attention by way of a few rows, means of others, and the inverse of their own square (Nyström)."""

    def __init__(self, width, heads, few):
        super().__init__()
        self.all, self.output, self.heads, self.few = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, few

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.all(x).chunk(3, dim=-1))
        q_few, k_few = (one.unflatten(2, (self.few, -1)).mean(3) for one in (q, k))
        pairs = [(q, k_few), (q_few, k_few), (q_few, k)]
        some, square, back = (torch.einsum("...id,...jd->...ij", *pair).softmax(-1) for pair in pairs)
        inverse = square.mT / square.sum(-1).max()
        inverse = inverse @ (2 * torch.eye(self.few) - square @ inverse)
        return x + self.output(((some @ inverse) @ (back @ v)).transpose(1, 2).flatten(2))


def test_rows_of_an_inverse_are_no_width_of_values_nor_heads_that_are_not_known_those_of_keys():
    trace = xray.trace(nn.Sequential(Landmarks(33, 3, 7), Landmarks(33, 3, 7)), torch.randn(2, 35, 33))
    found = {record.shape: record.axes for step in trace.steps for record in step.outputs}

    assert found[2, 3, 7, 7] == ("", "", "", "")
    assert found[2, 3, 35, 7] == ("", "", "", "")
    assert found[2, 3, 7, 11] == ("", "", "", "d_v")
