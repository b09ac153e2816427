"""What joins scores is a mask only where it hides: no number of a head's, no bias, no choice between two numbers."""

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.entrances import HeldPlaces
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention as Told
from xray.story.cards.formulas import list_formulas
from xray.story.sheet.columns import read_columns

PLACES = 7


class Meeting(nn.Module):
    """Scores that meet what a subclass lets them meet."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = self.meet(self.ask(query) @ key.mT, query)
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))

    def ask(self, query):
        return query

    def meet(self, scores, query):
        return scores


class ScaledByHead(Meeting):
    """A learned number for each head (Swin v2)."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(HEADS, 1, 1))

    def meet(self, scores, query):
        return scores * self.by.clamp(max=4.6).exp()


class Bucketed(Meeting):
    """The weight of a linear layer on its side, looked up by distance as far as one reaches (LayoutLMv3)."""

    def __init__(self):
        super().__init__()
        self.near = nn.Linear(2 * PLACES, HEADS, bias=False)

    def meet(self, scores, query):
        apart = torch.arange(PLACES)[:, None] - torch.arange(PLACES)[None, :] + PLACES
        apart = torch.where(apart > 3, torch.min(apart, torch.full_like(apart, 9)), apart)
        return scores + self.near.weight.t()[apart].permute(2, 0, 1)[None] / 2


class OfKinds(Meeting):
    """Queries have a bias, scores get one of two numbers by what kind a pair is, and keys are taken away (Funnel)."""

    def __init__(self):
        super().__init__()
        self.asks, self.kinds = nn.Parameter(torch.rand(HEADS, 1, WIDTH // HEADS)), nn.Linear(WIDTH // HEADS, 2)
        self.places = nn.Linear(WIDTH // HEADS, PLACES)

    def ask(self, query):
        return query + self.asks * 0.5

    def meet(self, scores, query):
        other, same = self.kinds(query).split(1, dim=-1)
        is_same = (torch.arange(PLACES) < 3)[:, None] == (torch.arange(PLACES) < 3)[None, :]
        kinds = torch.where(is_same.expand_as(scores), same.expand_as(scores), other.expand_as(scores))
        far = query @ self.places.weight.mT
        seen = (torch.arange(PLACES) < 6).float()[None, None, None, :]
        return scores + far + kinds - 1e6 * (1 - seen)


SHOWN = torch.ones(PLACES, PLACES).tril()


class Timed(Meeting):
    """Scores are multiplied by ones and zeros, or divided by numbers of keys: none of it hides anything."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def meet(self, scores, query):
        return self.change(scores / 2)


def read_square(part):
    model = nn.Sequential(part(), FeedForwardPart(), part(), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    panel = column.frames[0].panels[0]
    branch = panel.staging.branches[0].branch
    assert isinstance(branch, Told)
    (*_, formula), *_ = list_formulas(column.towering.tower, branch, panel.chart.nodes)
    return {node.key: node.label for node in panel.chart.nodes}, "".join(run.text for run in formula)


def test_a_learned_number_for_each_head_scales_scores_and_hides_nothing():
    labels, formula = read_square(ScaledByHead)

    assert labels["scores"] == "SCORES Q·K^T · learned by head"
    assert "MASK" not in labels.values()
    assert formula == "softmax( Q·KT · learned by head ) · V"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda scores: scores * SHOWN, "MULTIPLIED"),
        (lambda scores: SHOWN.bool() * scores, "MULTIPLIED"),
        (lambda scores: scores.mul_(SHOWN[3]), "MULTIPLIED"),
        (lambda scores: scores * torch.ones(PLACES, PLACES).tril()[:, :1], "MULTIPLIED"),
        (lambda scores: scores * nn.Parameter(SHOWN), "MULTIPLIED"),
        (lambda scores: scores / (1 + SHOWN), "DIVIDED"),
    ],
    ids=["triangle", "bools", "of keys", "of queries", "learned", "divided"],
)
def test_scores_that_are_multiplied_pair_by_pair_are_not_told_as_scaled(change, told):
    model = nn.Sequential(Timed(change), FeedForwardPart(), Timed(change), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert "SCORES Q·K^T ÷ √d_k" in labels
    assert f"SCORES {told}" in labels


def test_a_weight_that_is_turned_and_looked_up_by_distance_is_a_bias_of_places():
    labels, _ = read_square(Bucketed)

    assert "+ BIAS OF RELATIVE PLACES" in labels.values()
    assert "MASK" not in labels.values()


class Waves(Meeting):
    """Queries times a linear layer of waves of how far apart two places are (Transformer-XL)."""

    def __init__(self, *waves):
        super().__init__()
        self.waves, self.far = waves, nn.Linear(2 * 3, WIDTH)

    def meet(self, scores, query):
        apart = torch.arange(PLACES - 1, -PLACES, -1)[:, None] * 0.1 ** torch.arange(3)
        far = self.far(torch.cat([wave(apart) for wave in self.waves], -1)).unflatten(-1, (HEADS, -1))
        picked = torch.arange(PLACES)[None, :] - torch.arange(PLACES)[:, None] + PLACES - 1
        return scores + (query @ far.permute(1, 2, 0)).gather(-1, picked.expand_as(scores))


@pytest.mark.parametrize(
    ("waves", "told"), [((torch.sin, torch.cos), ("of sines of places",)), ((torch.tanh,) * 2, ())]
)
def test_relative_places_tell_that_they_are_made_of_sines(waves, told):
    model = nn.Sequential(Waves(*waves), FeedForwardPart(), Waves(*waves), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    nodes = {node.label: node for node in column.frames[0].panels[0].chart.nodes}

    assert nodes["+ BIAS OF RELATIVE PLACES"].told == told


FAR = torch.arange(PLACES)[None, :] - torch.arange(PLACES)[:, None] + PLACES - 1


def move_on(asked):
    """Scores of rows for each distance, moved on by one from query to query (Huang et al. 2018)."""
    laid = nn.functional.pad(asked, (1, 0)).reshape(*asked.shape[:2], 2 * PLACES, PLACES)
    return laid[:, :, 1:].reshape(*asked.shape[:2], PLACES, 2 * PLACES - 1)[..., :PLACES]


class Asks(Meeting):
    """Queries meet rows of a table, which are picked, or lie there, in some way."""

    def __init__(self, ask_rows):
        super().__init__()
        self.ask_rows, self.rows = ask_rows, nn.Embedding(2 * PLACES - 1, WIDTH // HEADS)

    def meet(self, scores, query):
        return scores + self.ask_rows(query, self.rows)


@pytest.mark.parametrize(
    ("ask_rows", "is_relative"),
    [
        (lambda query, rows: torch.einsum("bhqd,qkd->bhqk", query, rows(FAR)), True),
        (
            lambda query, rows: (query @ rows(torch.arange(2 * PLACES - 1)).mT).gather(-1, FAR.expand(2, 3, -1, -1)),
            True,
        ),
        (lambda query, rows: move_on(query @ rows(torch.arange(2 * PLACES - 1)).mT), True),
        (lambda query, rows: query @ rows(torch.arange(PLACES)).mT, False),
        (lambda query, rows: torch.einsum("bhqd,qkd->bhqk", query, rows(FAR.flip(1) % 5)), False),
    ],
    ids=["by distance", "gathered", "moved on", "of each key", "in another order"],
)
def test_a_table_that_queries_ask_is_of_relative_places_where_distance_picks_its_rows(ask_rows, is_relative):
    model = nn.Sequential(Asks(ask_rows), FeedForwardPart(), Asks(ask_rows), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert ("+ BIAS OF RELATIVE PLACES" in labels) == is_relative
    assert ("+ A BIAS" in labels) != is_relative


class LookedUp(Meeting):
    """A number for each head, looked up by distance in a table of the layer's own (UMT5)."""

    def __init__(self):
        super().__init__()
        self.near = nn.Embedding(2 * PLACES, HEADS)

    def meet(self, scores, query):
        apart = torch.arange(PLACES)[:, None] - torch.arange(PLACES)[None, :] + PLACES
        return scores + self.near(apart).permute(2, 0, 1)[None]


def test_a_table_of_distances_is_counted_in_the_box_of_what_is_added():
    model = nn.Sequential(LookedUp(), FeedForwardPart(), LookedUp(), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    nodes = {node.label: node for node in column.frames[0].panels[0].chart.nodes}

    assert nodes["+ BIAS OF RELATIVE PLACES"].extra == f"{2 * PLACES * HEADS} parameters"
    assert "near" in {step.path.rpartition(".")[2] for step in nodes["+ BIAS OF RELATIVE PLACES"].steps}


class Indexed(Meeting):
    """A number for each head by distance, taken out of a parameter by its index; a mask may be added to it (Swin)."""

    def __init__(self, hides):
        super().__init__()
        self.table, self.hides = nn.Parameter(torch.rand(2 * PLACES, HEADS)), hides

    def meet(self, scores, query):
        apart = torch.arange(PLACES)[:, None] - torch.arange(PLACES)[None, :] + PLACES
        bias = self.table[apart.flatten()].view(PLACES, PLACES, HEADS).permute(2, 0, 1)[None]
        if self.hides:
            bias = bias + torch.zeros(PLACES, PLACES).masked_fill(torch.ones(PLACES, PLACES).triu(5).bool(), -100.0)
        return scores + bias


@pytest.mark.parametrize("hides", [False, True])
def test_a_table_of_distances_that_is_indexed_is_counted_in_the_box_of_what_is_added(hides):
    model = nn.Sequential(Indexed(hides), FeedForwardPart(), Indexed(hides), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    (bias,) = (node for node in column.frames[0].panels[0].chart.nodes if node.label.startswith("+ "))

    assert bias.extra == f"{2 * PLACES * HEADS} parameters"


def test_a_choice_between_two_numbers_is_a_bias_and_what_is_taken_away_from_hidden_keys_a_mask():
    labels, _ = read_square(OfKinds)

    added = [label for key, label in labels.items() if key.startswith(("bias", "kinds", "mask"))]
    assert added == ["+ A BIAS", "+ A BIAS", "MASK"]
    assert "+ A BIAS Q" in labels.values()


class OfValues(nn.Module):
    """What is added to scores is made of the values (Doge)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.weighs = nn.Linear(WIDTH, HEADS)

    def forward(self, x):
        normed = self.norm(x)
        query, key, value = (
            way(normed).unflatten(-1, (HEADS, -1)).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        by_key = nn.functional.softplus(self.weighs(value.transpose(1, 2).flatten(2))).transpose(1, 2)
        shares = (query @ key.mT / 2 + by_key[:, :, None, :]).softmax(-1)
        return x + self.out((shares @ value).transpose(1, 2).flatten(2))


def test_a_bias_that_is_made_of_the_values_is_led_to_from_these_and_not_from_what_they_are_made_of():
    model = nn.Sequential(OfValues(), FeedForwardPart(), OfValues(), FeedForwardPart()).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    chart = column.frames[0].panels[0].chart
    bias = chart.node("bias0")

    assert {edge.source for edge in chart.edges if edge.target == bias.key} == {"heads0_v", "scores"}
    assert bias.key not in chart.feet
    assert not [step for step in bias.steps if step.path.endswith("value")]


class FewerQueries(nn.Module):
    """Half of the places look at all of them, and go on alone (Funnel)."""

    def __init__(self):
        super().__init__()
        self.query, self.keys, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.halves = False

    def forward(self, x):
        own = x[:, ::2] if self.halves else x
        key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.keys(x).chunk(2, -1))
        query = self.query(own).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        shares = (query @ key.mT / 2).softmax(-1)
        return own + self.out((shares @ value).transpose(1, 2).flatten(2))


def test_layers_of_which_one_looks_at_more_keys_are_not_alike():
    parts = [FewerQueries() for _ in range(6)]
    parts[1].halves = parts[3].halves = True
    model = nn.Sequential(*(one for part in parts for one in (part, FeedForwardPart()))).eval()

    (tower,) = xray.anatomy(xray.trace(model, torch.ones(2, PLACES, WIDTH))).towers

    assert [group.layers for group in tower.groups] == [(0,), (1,), (2,), (3,), (4, 5)]


class Filled(nn.Module):
    """Words, and rows of one word behind them, as far as the layers need (LED)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="before") for _ in range(3))

    def forward(self, ids):
        x = torch.cat([self.words(ids), self.words(torch.ones(len(ids), 4, dtype=torch.long))], dim=-2)
        x = x + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_put_behind_others_lie_end_to_end():
    (column,) = read_columns(xray.trace(Filled().eval(), torch.arange(14).view(2, PLACES)))

    labels = {node.label for node in column.entrance.nodes}
    assert "END TO END" in labels
    assert "SIDE BY SIDE" not in labels


class WavePlaces(HeldPlaces):
    def forward(self, ids):
        return self.rows.index_select(0, ids.new_ones(ids.shape).cumsum(1).view(-1)).view(*ids.shape, -1).detach()


class TimesOne(nn.Module):
    """Words times a number that may be one, and waves added (SpeechT5)."""

    def __init__(self, factor, of_waves=None):
        super().__init__()
        self.words, self.factor, self.of_waves = nn.Embedding(31, WIDTH), factor, of_waves
        self.waves = WavePlaces(torch.rand(64, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="before") for _ in range(3))

    def forward(self, ids):
        rows = self.waves(ids)
        x = self.words(ids) * self.factor
        x = x + (rows if self.of_waves is None else rows * self.of_waves)
        for layer in self.layers:
            x = layer(x)
        return x


def test_words_are_told_times_what_they_are_multiplied_by_alone():
    labels = []
    for factors in ((1.0,), (3.0,), (1.0, 0.5), (nn.Parameter(torch.rand(WIDTH)),)):
        (column,) = read_columns(xray.trace(TimesOne(*factors).eval(), torch.arange(14).view(2, PLACES)))
        labels += [node.label for node in column.entrance.nodes if node.label.startswith(("EMBED", "×"))]

    assert labels == ["EMBED", "EMBED × 3", "× LEARNED NUMBERS"]


class Summed(nn.Module):
    """Rows that stand for two places each beside those of the places; values are the keys themselves (DeepSeek-V4)."""

    def __init__(self, *, shared):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.rows, aside, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.aside = self.rows if shared else aside

    def forward(self, x):
        seen = self.norm(x)
        others = self.aside(seen).unflatten(1, (-1, 2)).mean(2)
        rows = torch.cat([self.rows(seen), others], 1)
        return x + self.out((self.query(seen) @ rows.mT).softmax(-1) @ rows)


@pytest.mark.parametrize(("shared", "told"), [(False, f"{WIDTH * WIDTH} parameters"), (True, "same weights")])
def test_rows_that_are_none_of_the_places_are_told_where_they_join_those_of_the_places(shared, told):
    model = nn.Sequential(*(part for _ in range(2) for part in (Summed(shared=shared), FeedForwardPart()))).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, 6, WIDTH)))
    chart = column.frames[0].panels[0].chart
    (box,) = [node for node in chart.nodes if node.label.startswith("JOIN")]

    assert box.told == (f"the others made beside, {told}",)
    assert {"aside", "rows"} & {step.path.rpartition(".")[2] for step in box.steps} == {"rows" if shared else "aside"}
    assert ("opening", box.key) in {(edge.source, edge.target) for edge in chart.edges}
