"""One softmax over two sets of scores of the same queries, whose shares weigh two sets of values (PEGASUS-X)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.sentences.makers import FALSE
from torch import nn

import xray
from xray.story.cards.formulas import write_attention
from xray.story.sheet.columns import read_columns

HEADS, FAR, LEN = 3, 5, 7


class Joined(nn.Module):
    """Places look at rows from beside and at each other; what both say is added, or the rows from beside alone."""

    def __init__(self, *, both, same=False):
        super().__init__()
        self.norm, self.both = nn.LayerNorm(WIDTH), both
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.far_key, self.far_value = (self.key, self.value) if same else (nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x, far):
        normed = self.norm(x)
        query, key, value = (self.cut(way(normed)) for way in (self.query, self.key, self.value))
        far_key, far_value = self.cut(self.far_key(far)), self.cut(self.far_value(far))
        scores = query @ far_key.transpose(2, 3)
        if not self.both:
            return x + self.out((scores.softmax(-1) @ far_value).transpose(1, 2).flatten(2))
        weights = torch.cat([scores, query @ key.transpose(2, 3)], -1).softmax(-1)
        found = weights[..., :FAR] @ far_value + weights[..., FAR:] @ value
        return x + self.out(found.transpose(1, 2).flatten(2))

    def cut(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Model(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.looks = nn.ModuleList(Joined(**how) for _ in range(2))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, x, far):
        for look, think in zip(self.looks, self.thinks, strict=True):
            x = think(look(x, far))
        return x


def read_chart(**how):
    torch.manual_seed(0)
    given = torch.randn(2, LEN, WIDTH), torch.randn(2, FAR, WIDTH)
    (column,) = read_columns(xray.trace(Model(**how).eval(), *given))
    return column.frames[0].panels[0].chart


@pytest.fixture(scope="module")
def chart():
    return read_chart(both=True)


def test_other_scores_and_other_values_have_boxes_with_their_layers(chart):
    boxes = {node.label: node for node in chart.nodes}
    counted = f"{WIDTH * WIDTH + WIDTH} parameters"
    assert boxes["BESIDE OTHER SCORES"].extra == boxes["+ OTHER WEIGHTS · V"].extra == counted
    assert boxes["BESIDE OTHER SCORES"].record.shape == (2, HEADS, LEN, FAR + LEN)
    assert [step.path.split(".")[-1] for step in boxes["BESIDE OTHER SCORES"].steps if step.params] == ["key"]
    assert [step.path.split(".")[-1] for step in boxes["+ OTHER WEIGHTS · V"].steps if step.params] == ["value"]


def test_they_are_led_from_all_that_they_read(chart):
    labels = {node.key: node.label for node in chart.nodes}
    led = [(labels[edge.source], labels[edge.target]) for edge in chart.edges]
    assert {one for one, other in led if other == "BESIDE OTHER SCORES"} == {
        "LAYER NORM",
        "HEADS Q",
        "SCORES Q·K^T",
    }
    assert {one for one, other in led if other == "+ OTHER WEIGHTS · V"} == {
        "LAYER NORM",
        "WEIGHTS · V",
        "SOFTMAX dim −1",
    }


def test_an_attention_with_one_set_of_scores_has_no_such_boxes():
    assert not [node.label for node in read_chart(both=False).nodes if "OTHER" in node.label]


class WithRowsOfPlaces(Joined):
    """The weights weigh values, and learned rows besides, one for how far apart two places are (VITS)."""

    def __init__(self, *, both):
        super().__init__(both=both)
        self.apart = nn.Parameter(torch.randn(LEN - 1, WIDTH // HEADS))

    def forward(self, x, far):
        normed = self.norm(x)
        query, key, value = (self.cut(way(normed)) for way in (self.query, self.key, self.value))
        weights = (query @ key.transpose(2, 3)).softmax(-1)
        found = weights @ value
        found = found + weights.roll(1, -1) @ nn.functional.pad(self.apart, (0, 0, 0, 1))
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_learned_rows_that_are_weighed_are_no_values():
    torch.manual_seed(0)
    model = Model(both=True)
    model.looks = nn.ModuleList(WithRowsOfPlaces(both=True) for _ in range(2))
    (column,) = read_columns(xray.trace(model.eval(), torch.randn(2, LEN, WIDTH), torch.randn(2, FAR, WIDTH)))
    chart = column.frames[0].panels[0].chart

    (box,) = [node for node in chart.nodes if "LEARNED ROWS" in node.label]
    assert (box.label, box.extra) == ("+ WEIGHTS · LEARNED ROWS", f"{(LEN - 1) * WIDTH // HEADS} parameters")
    assert not [node.label for node in chart.nodes if "OTHER" in node.label]


class OfAllSequences(WithRowsOfPlaces):
    """The same, where heads of all sequences are one axis."""

    def cut(self, rows):
        return super().cut(rows).flatten(0, 1)

    def forward(self, x, far):
        normed = self.norm(x)
        query, key, value = (self.cut(way(normed)) for way in (self.query, self.key, self.value))
        weights = (query @ key.transpose(1, 2)).softmax(-1)
        found = weights @ value
        found = found + weights.roll(1, -1) @ nn.functional.pad(self.apart, (0, 0, 0, 1))
        return x + self.out(found.unflatten(0, (len(x), HEADS)).transpose(1, 2).flatten(2))


def test_heads_of_all_sequences_are_counted_by_the_queries_where_more_is_weighed_than_values():
    model = Model(both=True)
    model.looks = nn.ModuleList(OfAllSequences(both=True) for _ in range(2))
    trace = xray.trace(model.eval(), torch.randn(2, LEN, WIDTH), torch.randn(2, FAR, WIDTH))

    (tower,) = xray.anatomy(trace).towers
    assert {branch.heads for branch in tower.branches if hasattr(branch, "heads")} == {HEADS}


def test_no_formula_is_written_where_more_is_weighed_than_values(chart):
    (other,) = [node for node in chart.nodes if node.key == "joined"]
    (more,) = [node for node in chart.nodes if node.label.startswith("+ OTHER WEIGHTS")]

    for left_out, is_told in ((), False), ((other,), False), ((more,), False), ((other, more), True):
        told = write_attention(FALSE, [node for node in chart.nodes if node not in left_out])
        assert bool(told) is is_told


def test_weights_by_which_rows_from_beside_go_too_are_counted_once():
    nodes = read_chart(both=True, same=True).nodes
    beside = {node.label: node.extra for node in nodes if node.label in ("BESIDE OTHER SCORES", "+ OTHER WEIGHTS · V")}

    assert beside == dict.fromkeys(("BESIDE OTHER SCORES", "+ OTHER WEIGHTS · V"), "same weights")


class Pads(nn.Module):
    """A layer, and rows of nothing around those that it gives; with a number below zero as many are taken away."""

    def __init__(self, layer, rows):
        super().__init__()
        self.layer, self.rows = layer, rows

    def forward(self, x):
        return nn.functional.pad(self.layer(x), (0, 0, self.rows, self.rows))


def test_rows_that_several_layers_read_are_padded_for_none_of_them_alone():
    """Rows of nothing are put around those of the stream before all three layers read them (PEGASUS-X)."""
    torch.manual_seed(0)
    model = Model(both=True)
    for look in model.looks:
        look.norm, look.out = Pads(look.norm, 1), Pads(look.out, -1)
    (column,) = read_columns(xray.trace(model.eval(), torch.randn(2, LEN, WIDTH), torch.randn(2, FAR, WIDTH)))

    labels = {node.label for node in column.frames[0].panels[0].chart.nodes}
    assert {"PAD", "LINEAR Q", "BESIDE OTHER SCORES"} <= labels
    assert "PAD Q" not in labels
