"""A parameter is counted once, where it is multiplied with: the bars of a sheet agree with the model."""

import warnings
from functools import cache

import pytest
import torch
from families.specimens import BY_NAME, Translator, seeded
from handwritten import make_writer
from printed import lines_of
from recorded import FOLDER, recorded
from story.parameter_bars import IDS, bars_of, count, poster_of
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.weights import read_weights
from xray.story.body.whole import anatomy
from xray.story.cards.boxless import find_unsaid
from xray.story.facts.totals import count_params
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import gather

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
NORM = 2 * 28
ATTENTION = 4 * (28 * 28 + 28) + NORM
"""What an attention of the translator holds, with the norm behind it."""


@cache
def translator(training):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = seeded(Translator).train(training)
        return poster_of(model, **BY_NAME["nn.Transformer"].make_inputs())


@pytest.mark.sampled(3)
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


class PlacedInParts(Placed):
    """The first place is put in front of the others, which come from one table or another; more are added to all."""

    def __init__(self, *, apart):
        super().__init__(7)
        self.more = nn.Parameter(torch.rand(1, 7, 15))
        self.others = nn.Parameter(torch.rand(1, 7, 15)) if apart else self.places

    def forward(self, ids):
        first, others = self.places[:, :1], self.others[:, 1:]
        x = self.writer.words(ids) + self.more + torch.cat([first, others + 1], dim=1)
        return self.writer.scores(self.writer.rows[1](self.writer.rows[0](x)))


@pytest.mark.parametrize(("apart", "tables"), [(False, 2), (True, 3)])
def test_learned_places_of_which_two_parts_are_read_are_counted_once(apart, tables):
    assert bars_of(poster_of(PlacedInParts(apart=apart), IDS))["entrance"] == 53 * 15 + tables * 7 * 15


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

    assert sum(read_weights(flow, place).values()) == params


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


class Reading(nn.Module):
    """What makes a tensor of what is no tensor itself, and a norm of the first row behind layers that end in norms."""

    def __init__(self):
        super().__init__()
        self.writer, self.norm, self.head = make_writer(norm="after"), nn.LayerNorm(15), nn.Linear(15, 1)
        self.writer.scores = nn.Identity()

    def forward(self, rows):
        return self.head(self.norm(self.writer(torch.tensor(rows))[:, 0]))


def test_what_a_model_makes_tensors_of_where_none_came_in_is_data():
    poster = poster_of(Reading().eval(), [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])

    lines = lines_of(poster)
    assert f"{count(*Reading().writer.rows[:1]):,} parameters each" in lines
    assert "LAST NORM OF THE FIRST ROW  30 parameters" in lines


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir()))
def test_the_bars_of_a_recorded_run_come_to_the_whole(name):
    trace = recorded(name)

    shares = gather(trace, anatomy(trace), columns := read_columns(trace), find_unsaid(columns)).shares
    assert sum(params for name, _, params in shares if not name.startswith("of these")) == count_params(trace)
