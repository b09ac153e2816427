"""Lines that would lead from a box to one that reads nothing of it, and boxes that would tell a thing twice."""

import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from story.entrances import make_layers
from torch import nn
from torch.nn.functional import layer_norm, one_hot, scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.panels import chart_input

PLACES, WORDS = 6, 41


def columns_of(model, *given):
    return read_columns(xray.trace(model.eval(), *given))


def labels_of(chart):
    return [node.label for node in chart.nodes]


class Layer(nn.Module):
    """Attention and feed-forward."""

    def __init__(self):
        super().__init__()
        self.attend, self.think = AttentionPart(), FeedForwardPart()

    def forward(self, x):
        return self.think(self.attend(x))


class Looking(nn.Module):
    """A layer that is given what it looks at first, and then its stream."""

    def __init__(self):
        super().__init__()
        self.attend, self.think = AttentionPart(), FeedForwardPart()
        self.ask, self.look = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, memory, x):
        x = self.attend(x)
        q, (k, v) = self.ask(layer_norm(x, (WIDTH,))), self.look(memory).chunk(2, dim=-1)
        q, k, v = (one.unflatten(-1, (3, -1)).transpose(1, 2) for one in (q, k, v))
        return self.think(x + scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class Translates(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.others = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.reads, self.writes = (nn.ModuleList(kind() for _ in range(2)) for kind in (Layer, Looking))

    def forward(self, source, target):
        memory, x = self.words(source), self.others(target)
        for layer in self.reads:
            memory = layer(memory)
        for layer in self.writes:
            x = layer(memory, x)
        return x


def test_what_a_layer_is_given_to_look_at_is_not_its_input():
    columns = columns_of(Translates(), *torch.randint(WORDS, (2, 2, PLACES)))
    panel = columns[-1].frames[0].panels[0]

    (node,) = chart_input(panel, columns[-1].look).nodes
    assert panel.block is not None
    assert node.record.source == panel.entering.id != panel.block.inputs[0].source


class Fewer(nn.Module):
    """One row of two neighbours (Swin)."""

    def __init__(self):
        super().__init__()
        self.norm, self.join = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return self.join(self.norm(torch.cat([x[:, 0::2], x[:, 1::2]], dim=-1)))


class More(nn.Module):
    """Two rows of one, beside those that were as many before."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm = nn.Linear(WIDTH, 2 * WIDTH), nn.LayerNorm(WIDTH)
        self.back = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, before):
        return self.back(torch.cat([self.norm(self.wide(x).unflatten(-1, (2, -1)).flatten(1, 2)), before], dim=-1))


class Forks(nn.Module):
    """An image whose rows become fewer twice, and as many again as they were: beside these, and beside its patches."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, WIDTH, 4, 4), nn.LayerNorm(WIDTH)
        self.fewer, self.fewest, self.more, self.most = Fewer(), Fewer(), More(), More()
        self.fine, self.middle, self.coarse, self.back, self.last = (nn.Sequential(Layer(), Layer()) for _ in range(5))
        self.end = nn.LayerNorm(WIDTH)

    def forward(self, image):
        first = self.norm(self.patches(image).flatten(2).transpose(1, 2))
        half = self.fewer(self.fine(first))
        x = self.end(self.coarse(self.fewest(self.middle(half))))
        return self.last(self.most(self.back(self.more(x, half)), first))


def test_what_another_tower_begins_with_is_drawn_there_alone():
    columns = columns_of(Forks(), torch.randn(2, 3, 16, 16))

    assert list_unproven(columns) == []
    drawn = [step.id for one in columns for node in one.entrance.nodes if node.key != "given" for step in node.steps]
    assert len(drawn) == len({*drawn})
    assert [label for label in labels_of(columns[-1].entrance) if "INPUT" in label] == []


class Labelled(nn.Module):
    """Two rows lie side by side behind some layers, twice, and labels that come in are added to the first (TabICL)."""

    def __init__(self):
        super().__init__()
        self.project, self.widths = nn.Linear(5, WIDTH), (WIDTH, 2 * WIDTH, 4 * WIDTH)
        self.stages = nn.ModuleList(nn.Sequential(*make_layers(width, 2)) for width in self.widths)
        self.norms, self.labels = nn.ModuleList(map(nn.LayerNorm, self.widths)), nn.Linear(3, 4 * WIDTH)

    def forward(self, x, labels):
        x = self.project(x)
        for stage, norm in zip(self.stages[:2], self.norms, strict=False):
            x = norm(stage(x)).unflatten(1, (-1, 2)).flatten(2)
        x[:, :2] = x[:, :2] + self.labels(one_hot(labels, 3).float())
        return self.stages[2](x)


def test_no_line_of_the_stream_leads_to_what_is_made_of_other_inputs_between_layers():
    (column,) = columns_of(Labelled(), torch.randn(2, 12, 5), torch.randint(3, (2, 2)))

    bridge = column.frames[-1].bridge
    assert "LINEAR" in labels_of(bridge)
    assert [bridge.node(foot).label for foot in bridge.feet] == ["LAYER NORM"]


class Scores(nn.Module):
    """A loss that is written out, and the word that scores most at each place (WeNet)."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        scores = self.head(self.norm(self.layers(self.words(ids))))
        loss = -(scores.log_softmax(dim=-1) * torch.full((WORDS,), 1 / WORDS)).sum()
        return loss, scores.argmax(dim=-1)


def test_the_best_word_is_led_to_from_the_scores_and_not_from_a_loss_above_them():
    (column,) = columns_of(Scores(), torch.randint(WORDS, (2, PLACES)))

    labels = {node.key: node.label for node in column.exit.nodes}
    (source,) = [edge.source for edge in column.exit.edges if labels[edge.target] == "ARGMAX"]
    assert labels[source] == "LINEAR TO VOCABULARY"
    assert list_unproven([column]) == []


class TwoHeads(nn.Module):
    """Two heads read one mean of all rows, and what both give is added up (LeViT)."""

    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(5, WIDTH), nn.Sequential(Layer(), Layer())
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(2))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 19) for _ in range(2))

    def forward(self, x):
        mean = self.layers(self.project(x)).mean(1)
        one, other = (head(norm(mean)) for head, norm in zip(self.heads, self.norms, strict=True))
        return one + other


def test_a_mean_of_which_all_boxes_are_that_read_it_has_none_of_its_own():
    (column,) = columns_of(TwoHeads(), torch.randn(2, PLACES, 5))

    assert labels_of(column.exit) == [*["LAST NORM OF A MEAN OF ROWS"] * 2, *["LINEAR"] * 2, "ADDED UP"]
    assert len(column.exit.feet) == 2


class Placed(nn.Module):
    """What is worked out of where rows stand is added to these as they come in (SuperGlue)."""

    def __init__(self):
        super().__init__()
        self.where = nn.Sequential(nn.Linear(2, 17), nn.ReLU(), nn.Linear(17, WIDTH))
        self.layers = nn.Sequential(Layer(), Layer())

    def forward(self, rows, places):
        return self.layers(rows + self.where(places))


def test_rows_as_they_come_in_are_led_to_the_sum_with_what_is_worked_out_for_them():
    (column,) = columns_of(Placed(), torch.randn(2, PLACES, WIDTH), torch.randn(2, PLACES, 2))

    labels = {node.key: node.label for node in column.entrance.nodes}
    assert labels[column.entrance.head] == "ADDED UP"
    assert {edge.source for edge in column.entrance.edges if edge.target == column.entrance.head} > {"given"}
    assert list_unproven([column]) == []


class Counted(nn.Module):
    """The learned row of each place is looked up and added to rows as they come in (the world model of Δ-IRIS)."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(PLACES, WIDTH)
        self.layers = nn.Sequential(Layer(), Layer())

    def forward(self, rows):
        return self.layers(rows + self.places(0 + torch.arange(rows.shape[1])))


def test_rows_as_they_come_in_are_led_to_the_sum_with_the_looked_up_rows_of_their_places():
    (column,) = columns_of(Counted(), torch.randn(2, PLACES, WIDTH))

    labels = {node.key: node.label for node in column.entrance.nodes}
    arrows = {(labels[edge.source], labels[edge.target]) for edge in column.entrance.edges}
    assert arrows == {("VECTORS", "ADDED UP"), ("PLACE LOOKUP", "ADDED UP")}
    assert list_unproven([column]) == []


class Beside(nn.Module):
    """A feed-forward that reads other rows to which those of the stream are added."""

    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x, other):
        return x + self.back(self.wide(other + x).relu())


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(5, WIDTH), nn.ModuleList(Beside() for _ in range(2))

    def forward(self, rows, other):
        x = self.project(rows)
        for layer in self.layers:
            x = layer(x, other.sin())
        return x


def test_what_enters_a_layer_is_its_stream_and_not_what_that_is_added_to():
    (column,) = columns_of(Reads(), torch.randn(2, PLACES, 5), torch.randn(2, PLACES, WIDTH))

    assert column.frames[0].panels[0].entering.op == "linear"
