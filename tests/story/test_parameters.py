"""A parameter is counted once, where it is multiplied with: the bars of a sheet agree with the model."""

import warnings
from functools import cache

import pytest
import torch
from families.specimens import BY_NAME, Translator, seeded
from handwritten import make_writer
from printed import lines_of, text_of
from recorded import FOLDER, recorded
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Untold
from xray.story.body.whole import anatomy
from xray.story.facts.totals import count_params
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import gather
from xray.story.sheet.counting import Count
from xray.story.sheet.shares import count_undrawn

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
IDS = torch.arange(14).view(2, 7)
NORM = 2 * 28
ATTENTION = 4 * (28 * 28 + 28) + NORM
"""What an attention of the translator holds, with the norm behind it."""


def poster_of(model, *args, **kwargs):
    return compose_poster(xray.trace(model, *args, **kwargs), text_width)


def bars_of(layout):
    """The bars of the card by their names, every one with its count."""
    labels, counts = (
        {round(box.y): text_of(box.lines[0]) for box in layout.boxes if (box.on, box.align) == ("card", align)}
        for align in ("left", "right")
    )
    return {labels[y]: int(count.replace(",", "")) for y, count in counts.items()}


def count(*models):
    return sum(one.numel() for model in models for one in model.parameters())


@cache
def translator(training):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = seeded(Translator).train(training)
        return poster_of(model, **BY_NAME["nn.Transformer"].make_inputs())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "layers"), [("encoder self", 2), ("decoder self", 3), ("decoder cross", 3)])
def test_the_projections_of_each_attention_are_counted_at_it(training, name, layers):
    assert bars_of(translator(training))[f"{name}-attention × {layers}"] == layers * ATTENTION


def test_an_encoder_layer_in_one_kernel_has_its_parameters_in_its_parts():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(28, 4, 41, batch_first=True), 2).eval()

    with torch.no_grad():
        bars = bars_of(poster_of(encoder, torch.rand(2, 5, 28)))

    assert bars["self-attention × 2"] == 2 * ATTENTION
    assert bars["feed-forward × 2"] == 2 * (28 * 41 + 41 + 41 * 28 + 28 + NORM)


class Tied(nn.Module):
    """A writer whose head has the weights of its words, in one way or another."""

    def __init__(self, way):
        super().__init__()
        self.way, self.writer = way, make_writer()
        if way == "module":
            self.writer.scores.weight = self.writer.words.weight
        else:
            self.writer.scores = nn.Identity()
        if way == "parameter":
            self.table, self.writer.words = nn.Parameter(torch.rand(53, 15)), nn.Identity()

    def forward(self, ids):
        if self.way == "module":
            return self.writer(ids)
        if self.way == "function":
            return functional.linear(self.writer(ids), self.writer.words.weight)
        x, future = functional.embedding(ids, self.table), torch.ones(7, 7, dtype=torch.bool).triu(1)
        for row in self.writer.rows:
            x = row(x, None, future)
        return x @ self.table.T


class Pooled(nn.Module):
    """A writer of which the first row alone goes on, through a linear layer, and scores nothing (BERT)."""

    def __init__(self):
        super().__init__()
        self.writer, self.pool = make_writer(), nn.Linear(15, 15)
        self.writer.scores = nn.Identity()

    def forward(self, ids):
        return torch.tanh(self.pool(self.writer(ids)[:, 0]))


@pytest.mark.parametrize(("way", "own"), [("module", 53), ("function", 0), ("parameter", 0)])
def test_a_head_that_is_tied_counts_only_what_it_has_of_its_own(way, own):
    bars = bars_of(poster_of(Tied(way), IDS))

    assert bars["entrance"] == 53 * 15
    assert bars.get("head", 0) == own


def test_what_stands_behind_the_layers_is_an_exit_where_no_head_is_known():
    bars = bars_of(poster_of(Pooled(), IDS))

    assert (bars["exit"], "head" in bars) == (15 * 15 + 15, False)


def test_a_head_of_its_own_counts_in_full():
    assert bars_of(poster_of(make_writer(), IDS))["head"] == 53 * 15 + 53


@pytest.mark.parametrize("way", ["module", "function", "parameter"])
def test_the_bars_of_a_tied_model_come_to_the_whole(way):
    model = Tied(way)

    assert sum(bars_of(poster_of(model, IDS)).values()) == count(model)


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_one_matrix_for_both_embeddings_and_the_head_counts_once(name):
    pytest.importorskip("transformers")
    specimen = BY_NAME[name]
    model = specimen.build().eval()

    bars = bars_of(poster_of(model, **specimen.make_inputs()))

    assert sum(bars.values()) == count(model)


class Placed(nn.Module):
    """A writer with learned places, of which it may have more than it reads."""

    def __init__(self, longest):
        super().__init__()
        self.writer, self.places = make_writer(), nn.Parameter(torch.rand(1, longest, 15))

    def forward(self, ids):
        x = self.writer.words(ids) + self.places[:, : ids.shape[1]]
        future = torch.ones(7, 7, dtype=torch.bool).triu(1)
        for row in self.writer.rows:
            x = row(x, None, future)
        return self.writer.scores(x)


@pytest.mark.parametrize("longest", [7, 11])
def test_learned_places_are_counted_once_and_whole(longest):
    assert bars_of(poster_of(Placed(longest), IDS))["entrance"] == 53 * 15 + longest * 15


def test_layers_that_use_the_same_weights_are_alike():
    model = make_writer()
    for name, part in model.rows[1].named_modules():
        for own in part._parameters:
            setattr(part, own, getattr(model.rows[0].get_submodule(name), own))

    assert "LAYER × 2  one set of weights" in lines_of(poster_of(model, IDS))


class Turned(nn.Module):
    """A linear layer written as a product with its weights turned, as Falcon's."""

    def __init__(self, wide, out):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(out, wide))

    def forward(self, x):
        return x @ self.weight.T


class Held(nn.Module):
    """An attention whose weights are its own parameters, multiplied by in products without a module."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Parameter(torch.rand(21, 3, 7)) for _ in range(4))
        self.norm = nn.LayerNorm(21)

    def forward(self, x):
        query, key, value = (torch.einsum("bsd,dhk->bhsk", x, one) for one in (self.query, self.key, self.value))
        weights = (torch.einsum("bhsk,bhtk->bhst", query, key) / 7**0.5).softmax(-1)
        seen = torch.einsum("bhst,bhtk->bshk", weights, value)
        return self.norm(x + torch.einsum("bshk,dhk->bsd", seen, self.out))


def test_weights_that_a_block_holds_itself_count_once_for_each_product_with_them():
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(11, 21), Held(), Held(), Held()), IDS % 11))

    assert bars["self-attention × 3"] == 3 * (4 * 21 * 21 + 2 * 21)


class Beside(nn.Module):
    """Attention and feed-forward that read one norm, added together."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(21), Turned(21, 63), Turned(21, 21)
        self.wide, self.back = Turned(21, 85), Turned(85, 21)

    def forward(self, x):
        read = self.norm(x)
        query, key, value = (
            one.view(*one.shape[:2], 3, 7).transpose(1, 2) for one in self.qkv(read).split([21, 21, 21], -1)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        attended = self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + (self.back(functional.gelu(self.wide(read))) + attended)


def test_branches_side_by_side_have_the_parameters_of_their_own_and_the_common_norm_is_of_neither():
    layout = poster_of(nn.Sequential(nn.Embedding(11, 21), Beside(), Beside()), IDS % 11)

    bars = bars_of(layout)

    assert bars["self-attention × 2"] == 2 * (21 * 63 + 21 * 21)
    assert bars["feed-forward × 2"] == 2 * 2 * 21 * 85
    assert bars["common norms × 2"] == 2 * 2 * 21
    assert {"1,323 parameters", "441 parameters"} <= {
        run.text.strip() for box in layout.boxes for run in sum(box.lines, ())
    }


class ScaledNorm(nn.Module):
    """An RMS norm, step by step in full precision, whose factors are learned as how far they are from 1."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + self.weight.float())).type_as(x)


class Thinker(nn.Module):
    """Three layers that think, each behind such a norm."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(61, 19)
        self.norms = nn.ModuleList(ScaledNorm(19) for _ in range(3))
        self.thinking = nn.ModuleList(
            nn.Sequential(nn.Linear(19, 35), nn.GELU(), nn.Linear(35, 19)) for _ in self.norms
        )

    def forward(self, ids):
        x = self.words(ids)
        for norm, think in zip(self.norms, self.thinking, strict=True):
            x = x + think(norm(x))
        return x


def test_a_norm_whose_weights_are_worked_on_before_they_serve_says_how_many_it_has():
    layout = poster_of(Thinker(), IDS)

    norm = next(box for box in layout.boxes if "RMS NORM" in text_of(box.lines[0]))
    assert "19 parameters" in " ".join(map(text_of, norm.lines))


class Closed(Thinker):
    """The same, with one more of these norms at the end, which reads it twice."""

    def __init__(self):
        super().__init__()
        self.last = ScaledNorm(19)

    def forward(self, ids):
        x = super().forward(ids)
        return self.last(x), self.last(x[:, 0])


def test_a_last_norm_that_is_worked_on_or_used_again_is_called_no_head():
    bars = bars_of(poster_of(Closed(), IDS))

    assert bars["last norm"] == 19
    assert "head" not in bars


class Kept(nn.Module):
    """A feed-forward whose two weights a block keeps that is handed them, and multiplies by what it is handed."""

    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Parameter(torch.rand(37, 15)), nn.Parameter(torch.rand(37, 15))

    def forward(self, x, wide, back):
        return functional.relu(x @ wide.T) @ back


class Handing(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.kept = nn.LayerNorm(15), Kept()

    def forward(self, x):
        wide, back = self.kept.wide.view(1, 37, 15)[0], self.kept.back.view(1, 37, 15)[0]
        return x + self.kept(self.norm(x), wide, back)


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.writer, self.handing = make_writer(), nn.ModuleList(Handing() for _ in range(2))

    def forward(self, ids):
        x, future = self.writer.words(ids), torch.ones(7, 7, dtype=torch.bool).triu(1)
        for row, handing in zip(self.writer.rows, self.handing, strict=True):
            x = handing(row(x, None, future))
        return self.writer.scores(x)


def test_weights_that_a_block_keeps_and_is_handed_are_counted_all():
    model = Writing()

    bars = bars_of(poster_of(model, IDS))

    assert sum(bars.values()) == count(model)
    assert "all else" not in bars


class Standardised(nn.Conv2d):
    """A convolution whose weights are brought to mean 0, variance 1; it reads them once more for their shape."""

    def forward(self, x):
        weight = functional.batch_norm(self.weight.reshape(1, len(self.weight), -1), None, None, training=True)
        return functional.conv2d(x, weight.reshape_as(self.weight), self.bias, self.stride, self.padding)


class Preactivated(nn.Module):
    """Two convolutions; what they read, normed and bent, goes through a third one on its way past them (BiT)."""

    def __init__(self, width, wide):
        super().__init__()
        self.norm, self.middle = nn.GroupNorm(2, width), nn.GroupNorm(2, wide)
        self.one, self.two = Standardised(width, wide, 3, padding=1), Standardised(wide, wide, 3, padding=1)
        self.past = Standardised(width, wide, 1)

    def forward(self, x):
        x = torch.relu(self.norm(x))
        return self.past(x) + self.two(torch.relu(self.middle(self.one(x))))


def test_standardised_weights_are_counted_in_their_layer_with_the_norm_before_it():
    layers = nn.Sequential(Preactivated(6, 10), Preactivated(10, 14))
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.MaxPool2d(2), *layers)

    bars = bars_of(poster_of(model, torch.rand(2, 3, 18, 18)))

    assert bars["convolution × 2"] == count(layers)


class Scaled(nn.Module):
    """Attention and feed-forward, each times learned numbers of the layer's own before it is added (InternVL)."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(21, 3, batch_first=True)
        self.think = nn.Sequential(nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))
        self.norms = nn.ModuleList(nn.LayerNorm(21) for _ in range(2))
        self.one, self.other = nn.Parameter(torch.rand(21)), nn.Parameter(torch.rand(21))

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one * self.attend(read, read, read)[0]
        return x + self.other * self.think(self.norms[1](x))


class ScaledByViews(Scaled):
    """The same with numbers that are laid out before (PoolFormer)."""

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one.unsqueeze(0).unsqueeze(0) * self.attend(read, read, read)[0]
        return x + self.other.unsqueeze(0).unsqueeze(0) * self.think(self.norms[1](x))


class ScaledByBends(Scaled):
    """The same with numbers that are bent before (Evolla)."""

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one.tanh() * self.attend(read, read, read)[0]
        return x + self.other.tanh() * self.think(self.norms[1](x))


@pytest.mark.parametrize("layer", [Scaled, ScaledByViews, ScaledByBends])
def test_two_learned_scales_of_one_layer_count_each_where_it_stands(layer):
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(11, 21), layer(), layer()), IDS % 11))

    assert bars["feed-forward × 2"] == 2 * count(Scaled().think, nn.LayerNorm(21)) + 2 * 21
    assert "all else" not in bars


class Looking(nn.Module):
    """A layer whose keys and values stand behind those of another stream, if it is given some; it gives its own too."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(21), nn.Linear(21, 21)
        self.q, self.k, self.v = (nn.Linear(21, 21) for _ in range(3))
        self.think = nn.Sequential(nn.LayerNorm(21), nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))

    def forward(self, x, before=()):
        q, k, v = (one(self.norm(x)).unflatten(-1, (3, 7)).transpose(1, 2) for one in (self.q, self.k, self.v))
        both = [torch.cat(pair, dim=2) for pair in zip(before, (k, v), strict=True)] if before else (k, v)
        x = x + self.out(functional.scaled_dot_product_attention(q, *both).transpose(1, 2).flatten(2))
        return x + self.think(x), (k, v)


class Acting(nn.Module):
    """Words in layers of their own, and rows of numbers in others that look at the words' keys beside theirs (Pi0)."""

    def __init__(self):
        super().__init__()
        self.words, self.acts = nn.Embedding(61, 21), nn.Linear(5, 21)
        self.first, self.then = (nn.ModuleList(Looking() for _ in range(2)) for _ in range(2))
        self.out = nn.Linear(21, 5)

    def forward(self, ids, acts):
        y, x, kept = self.acts(acts), self.words(ids), []
        for layer in self.first:
            x, own = layer(x)
            kept.append(own)
        for layer, own in zip(self.then, kept, strict=True):
            y, _ = layer(y, own)
        return self.out(y)


def test_a_stream_beside_which_another_ones_keys_stand_is_not_told_that_ones_entrance():
    layout = poster_of(Acting(), IDS, torch.rand(2, 3, 5))

    told = {run.text.strip() for box in layout.boxes for run in sum(box.lines, ())}
    assert not any(text.startswith("up to") for text in told)
    assert {f"{count(Looking()):,} parameters each"} <= told


class Unlike(nn.Module):
    """Layers of one build, some of which have no bias at last, and so fewer learned numbers than the others."""

    def __init__(self, *biased):
        super().__init__()
        self.words, self.out = nn.Embedding(61, 21), nn.Linear(21, 61)
        self.layers = nn.ModuleList(Looking() for _ in range(3))
        for layer, has_bias in zip(self.layers, biased, strict=True):
            layer.out = nn.Linear(21, 21, bias=has_bias)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x, _ = layer(x)
        return self.out(x)


@pytest.mark.parametrize(
    ("biased", "told"),
    [
        ((True, True, True), "{whole} parameters each"),
        ((True, False, False), "layer 1 drawn: {whole} parameters; layers 2–3 have 21 fewer"),
        ((False, False, True), "layer 1 drawn: {less} parameters; layer 3 has 21 more"),
    ],
)
def test_a_frame_of_unlike_layers_says_which_of_them_is_drawn_and_how_many_numbers_others_have(biased, told):
    boxes = poster_of(Unlike(*biased), IDS).boxes
    texts = {" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes}

    whole = count(Looking())
    assert told.format(whole=f"{whole:,}", less=f"{whole - 21:,}") in texts


class Aside(Looking):
    """The same, with a part that no box shows."""

    def __init__(self):
        super().__init__()
        self.beside = nn.Linear(21, 5)

    def forward(self, x, before=None):
        self.beside(x)
        return super().forward(x, before)[0]


def test_a_frame_counts_what_the_blocks_of_its_layers_hold_and_no_box_shows():
    model = nn.Sequential(nn.Embedding(61, 21), Aside(), Aside(), nn.Linear(21, 61))
    (column,) = read_columns(xray.trace(model, IDS))
    (frame,) = column.frames
    beside = [Untold(f"{number}.beside", 110) for number in (1, 2)]

    def count_with(*undrawn):
        return count_undrawn(column, undrawn, {}).frames[0].params - frame.params

    assert count_with(*beside) == count(Aside()) - frame.params == 110
    assert count_with(beside[0]) == count_with(Untold("beside", 5)) == count_with() == 0


class Idle(Looking):
    """A layer that is drawn whole, and holds a part that nothing calls."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(5, 13)

    def forward(self, x, before=None):
        return super().forward(x, before)[0]


class IdleAside(Aside):
    """A layer that holds a part that no box shows, and one that nothing calls."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(5, 13)


@pytest.mark.parametrize("layer", [Idle, IdleAside])
def test_a_frame_counts_what_takes_no_part_be_its_layers_drawn_in_part(layer):
    model = nn.Sequential(nn.Embedding(61, 21), layer(), layer(), nn.Linear(21, 61))
    told = {run.text.strip() for box in poster_of(model, IDS).boxes for run in sum(box.lines, ())}

    assert f"{count(layer()):,} parameters each" in told


class Pieces(nn.Module):
    """One row for so many places, none where a sequence has fewer; the rows that it is made of are kept."""

    def __init__(self, places):
        super().__init__()
        self.places, self.row = places, nn.Linear(21, 21)

    def forward(self, x, kept):
        rows = self.row(x)
        kept.append(rows)
        whole = rows.shape[1] // self.places
        pieces = rows[:, : whole * self.places].reshape(rows.shape[0], whole, self.places, 21)
        return pieces.mean(2) if whole else x.new_zeros(x.shape[0], 0, 21)


class Piecing(nn.Module):
    """Attention beside whose keys and values stand those of whole pieces (DeepSeek-V4)."""

    def __init__(self, places):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(21, 21) for _ in range(4))
        self.pieces = Pieces(places)

    def forward(self, x, kept):
        beside = self.pieces(x, kept)
        rows = self.q(x), *(torch.cat([one(x), beside], dim=1) for one in (self.k, self.v))
        q, k, v = (one.unflatten(-1, (3, 7)).transpose(1, 2) for one in rows)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Pieced(nn.Module):
    """A layer with such an attention."""

    def __init__(self, places):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(21), Piecing(places)
        self.think = nn.Sequential(nn.LayerNorm(21), nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))

    def forward(self, x, kept):
        x = x + self.look(self.norm(x), kept)
        return x + self.think(x)


class Keeping(nn.Module):
    """Layers that keep rows for a pass to come; the first has whole pieces."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(61, 21), nn.Linear(21, 61)
        self.layers = nn.ModuleList(map(Pieced, (5, 11, 11)))

    def forward(self, ids):
        x, kept = self.words(ids), []
        for layer in self.layers:
            x = layer(x, kept)
        return {"logits": self.out(x), "past_key_values": kept}


def test_a_frame_counts_once_what_an_attention_holds_and_gives_no_rows_here():
    told = " ".join(text_of(line) for box in poster_of(Keeping(), IDS).boxes for line in box.lines)

    assert f"{count(Pieced(11)):,} parameters each" in told
    assert "Not drawn, with parameters: layers.1.look.pieces.row (462)" in told


def test_other_rows_are_told_of_no_attention_that_gets_none_here():
    told = " ".join(text_of(line) for box in poster_of(Keeping(), IDS).boxes for line in box.lines)

    assert "In some attentions, beside the keys and values of the places stand others that the stream makes" in told


class AsksWhere(Looking):
    """Queries and keys are made of the stream with places added, values of the stream alone (DETR)."""

    def forward(self, x, before=()):
        asked = self.norm(x)
        rows = self.q(asked + before), self.k(asked + before), self.v(asked)
        q, k, v = (one.unflatten(-1, (3, 7)).transpose(1, 2) for one in rows)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.think(x)


class Detecting(nn.Module):
    """Learned places, repeated for every sequence before the words come in, and added in every layer."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(61, 21), nn.Embedding(7, 21)
        self.layers, self.out = nn.ModuleList(AsksWhere() for _ in range(2)), nn.Linear(21, 61)

    def forward(self, ids):
        places, x = self.places.weight.unsqueeze(0).repeat(len(ids), 1, 1), self.words(ids)
        for layer in self.layers:
            x = layer(x, places)
        return self.out(x)


def test_places_that_every_layer_adds_are_counted_once_and_named():
    bars = bars_of(poster_of(Detecting(), torch.arange(14).view(2, 7)))

    assert bars["places"] == 7 * 21
    assert sum(bars.values()) == count(Detecting())


class Doubled(nn.Module):
    """Rows times learned numbers that are laid beside themselves, or beside others as many (MLCD)."""

    def __init__(self, *, is_same):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.rand(1, 5)), None if is_same else nn.Parameter(torch.rand(1, 5))

    def forward(self, x):
        return x * torch.cat((self.one, self.one if self.other is None else self.other), dim=-1)


@pytest.mark.parametrize(("is_same", "params"), [(True, 5), (False, 10)])
def test_numbers_that_are_laid_beside_themselves_are_counted_once(is_same, params):
    flow = read_flow(xray.trace(Doubled(is_same=is_same), torch.rand(3, 10)).passes[0])
    (place,) = [place for place, step in enumerate(flow.steps) if step.op == "cat"]

    assert Count(flow).params(place) == params


class Widened(nn.Module):
    """Convolutions, each added to what came in, then others that make maps wider, and a head (HGNet)."""

    def __init__(self):
        super().__init__()
        self.stem, self.wider = nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(5, 11, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(5, 5, 3, padding=1) for _ in range(3))
        self.norm, self.head = nn.BatchNorm2d(11), nn.Linear(11, 7)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(self.norm(self.wider(x)).relu().mean((2, 3)))


def test_convolutions_behind_the_layers_do_not_count_in_the_head():
    model = Widened().eval()

    bars = bars_of(poster_of(model, torch.rand(2, 3, 13, 13)))

    assert (bars["exit"], bars["head"]) == (count(model.wider, model.norm), count(model.head))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir()))
def test_the_bars_of_a_recorded_run_come_to_the_whole(name):
    trace = recorded(name)

    shares = gather(trace, anatomy(trace), read_columns(trace)).shares
    assert sum(params for name, _, params in shares if not name.startswith("of these")) == count_params(trace)
