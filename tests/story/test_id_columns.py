"""Several ids of each place, each looked up in a table: a box for all of an argument, and their tables on the card."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.body.whole import anatomy
from xray.story.sentences.of_ends import describe_entrance
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

ROWS, KINDS = 19, 13
SEVERAL = "holds several ids for each of its places, looked up by column"


class Paged(nn.Module):
    """Words, and where the box of each begins and ends across, and how wide it is (LayoutLM)."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(31, WIDTH), nn.Embedding(2, WIDTH)
        self.across, self.wide = nn.Embedding(ROWS, WIDTH), nn.Embedding(ROWS, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids, bbox):
        x = self.words(ids) + self.across(bbox[:, :, 0]) + self.across(bbox[:, :, 1])
        x = x + self.wide(bbox[:, :, 1] - bbox[:, :, 0])
        return self.layers(x + self.kinds(torch.zeros_like(ids)))


class Laid(Paged):
    """The same, where what is looked up is put side by side and is all that goes in (LiLT's layout)."""

    def forward(self, ids, bbox):
        found = (self.across(bbox[..., 0]), self.across(bbox[..., 1]), self.wide(bbox[..., 1] - bbox[..., 0]))
        return self.layers(torch.cat(found, dim=-1).unflatten(-1, (3, WIDTH)).mean(-2))


class OwnKinds(nn.Module):
    """Kinds of words that a module is handed, five a place, each with a table of its own (TAPAS)."""

    def __init__(self):
        super().__init__()
        self.words, self.tables = nn.Embedding(31, WIDTH), nn.ModuleList(nn.Embedding(KINDS, WIDTH) for _ in range(5))

    def forward(self, ids, kinds):
        x = self.words(ids)
        for column, table in enumerate(self.tables):
            x = x + table(kinds[:, :, column])
        return x


class Tabled(nn.Module):
    """It makes these kinds itself."""

    def __init__(self):
        super().__init__()
        self.enter, self.layers = OwnKinds(), nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        return self.layers(self.enter(ids, torch.zeros((*ids.shape, 5), dtype=torch.long)))


class OneTable(Paged):
    """Both columns are looked up in parts of one parameter, x in the first and y in the second (Gemma 4's patches)."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.rand(2, ROWS, WIDTH))

    def forward(self, ids, bbox):
        found = functional.embedding(bbox[..., 0], self.places[0]) + functional.embedding(bbox[..., 1], self.places[1])
        return self.layers(self.words(ids) + found)


class PutTwice(Paged):
    """What one column finds goes elsewhere too: these are several ways, not one."""

    def forward(self, ids, bbox):
        begins = self.across(bbox[:, :, 0])
        return self.layers(self.words(ids) + begins + self.across(bbox[:, :, 1])) + begins


class Pictured(nn.Module):
    """Words and boxes, beside which patches of a picture stand, of which nothing is looked up (LayoutLMv3)."""

    def __init__(self):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.across = nn.Embedding(ROWS, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, picture, ids, bbox):
        words = self.words(ids) + self.across(bbox[:, :, 0]) + self.across(bbox[:, :, 1])
        return self.layers(torch.cat([self.patches(picture).flatten(2).mT, words], dim=1))


IDS, BOXES = torch.arange(10).view(2, 5), torch.tensor([3, 11]).expand(2, 5, 2).contiguous()


def record(model, *given):
    return xray.trace(model.eval(), *given)


def labels_of(trace):
    (column,) = read_columns(trace)
    return [node.label for node in column.entrance.nodes]


def box_of(trace):
    (column,) = read_columns(trace)
    return next(node for node in column.entrance.nodes if " LOOKUPS" in node.label)


def test_columns_that_are_added_to_words_have_one_box_and_one_sum():
    labels = labels_of(record(Paged(), IDS, BOXES))

    assert labels.count("3 LOOKUPS IN 2 TABLES") == 1
    assert labels.count("ADDED UP") == 2
    assert labels.count("TABLE LOOKUP") == 1


def test_the_box_of_columns_names_the_argument_and_counts_each_table_once():
    assert box_of(record(Paged(), IDS, BOXES)).told == ("of bbox", f"{2 * ROWS * WIDTH:,} parameters")


def test_the_box_of_columns_is_led_to_from_the_argument_alone():
    trace = record(Paged(), IDS, BOXES)
    (column,) = read_columns(trace)

    names = {node.key: node for node in column.entrance.nodes}
    below = [names[edge.source] for edge in column.entrance.edges if edge.target == box_of(trace).key]
    assert [(node.label, node.told) for node in below] == [("IDS", ("bbox",))]


def test_columns_that_are_put_side_by_side_are_one_box():
    assert "3 LOOKUPS IN 2 TABLES, SIDE BY SIDE" in labels_of(record(Laid(), IDS, BOXES))


def test_ids_that_a_module_is_handed_have_its_name_for_them():
    assert box_of(record(Tabled(), IDS)).told == ("of kinds", f"{5 * KINDS * WIDTH:,} parameters")


def test_columns_of_parts_of_one_parameter_count_it_once():
    assert box_of(record(OneTable(), IDS, BOXES)).told == ("of bbox", f"{2 * ROWS * WIDTH:,} parameters")


def test_columns_that_go_several_ways_have_a_box_each():
    assert not [label for label in labels_of(record(PutTwice(), IDS, BOXES)) if "LOOKUPS" in label]


def test_the_anatomy_has_the_columns_of_each_table():
    (tower,) = anatomy(record(Paged(), IDS, BOXES)).towers

    assert [(part.size, part.columns, part.argument) for part in tower.entrance if part.columns] == [
        (ROWS, ((0,), (1,)), "bbox"),
        (ROWS, ((1, 0),), "bbox"),
    ]
    assert EntrancePart("table", 2, True) in tower.entrance


@pytest.mark.parametrize(
    ("model", "given", "text"),
    [
        (
            Paged,
            (IDS, BOXES),
            f"bbox {SEVERAL} in 2 tables of {ROWS} rows: 0 and 1; 1 − 0.",
        ),
        (
            OneTable,
            (IDS, BOXES),
            f"bbox {SEVERAL} in 2 tables of {ROWS} rows.",
        ),
        (
            Tabled,
            (IDS,),
            f"kinds {SEVERAL} in 5 tables of {KINDS} rows.",
        ),
    ],
)
def test_the_card_says_which_columns_are_looked_up_in_which_tables(model, given, text):
    assert text in list_sentences(anatomy(record(model(), *given)))


@pytest.mark.parametrize(
    ("model", "given", "each"),
    [(Paged, (IDS, BOXES), "place"), (Pictured, (torch.rand(2, 3, 8, 8), IDS, BOXES), "id")],
)
def test_rows_that_are_looked_up_are_told_of_ids_alone_where_others_stand_beside_them(model, given, each):
    (tower,) = anatomy(record(model(), *given)).towers

    assert f"Looked up for each {each}: {2 + (each == 'place')} rows by ids of bbox." in describe_entrance(tower)


def test_a_tower_of_boxes_is_that_of_the_layout():
    (tower,) = anatomy(record(Laid(), IDS, BOXES)).towers

    assert (tower.name, tower.reads) == ("layout", None)


class Cells(nn.Module):
    """Rows of corners between 0 and 1, across and down."""

    def __init__(self):
        super().__init__()
        self.across, self.down = nn.Embedding(ROWS, WIDTH), nn.Embedding(ROWS, WIDTH)

    def forward(self, bbox):
        cells = (bbox.clip(0.0, 1.0) * (ROWS - 1)).long()
        return self.across(cells[:, :, 0]) + self.down(cells[:, :, 1])


class Placed(nn.Module):
    """Words with rows of their corners; those of a picture may stand beside them (UDOP)."""

    def __init__(self, *, more):
        super().__init__()
        self.more, self.words, self.cells = more, nn.Embedding(31, WIDTH), Cells()
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids, bbox):
        x = self.words(ids)
        if self.more:
            x, bbox = torch.cat([x, x[:, :2]], dim=1), torch.cat([bbox, torch.zeros_like(bbox[:, :2])], dim=1)
        return self.layers(x + self.cells(bbox=bbox))


@pytest.mark.parametrize("more", [False, True])
def test_numbers_of_which_ids_are_made_are_called_no_ids(more):
    trace = record(Placed(more=more), IDS, torch.zeros(2, 5, 2, dtype=torch.long))
    told = " ".join(list_sentences(anatomy(trace)))

    assert "bbox holds several numbers for each of its places, made whole and looked up by column in 2 tables" in told
    assert SEVERAL not in told
    assert "2 rows by numbers of bbox" in describe_entrance(anatomy(trace).towers[0])
    assert ("NUMBERS" in labels_of(trace), "IDS" in labels_of(trace)) == (True, False)
    assert box_of(trace).told[0] == "of bbox" + ", others beside it" * more


class OfData(nn.Module):
    """Columns of a table of data, a row of which is a sequence: each is looked up in a table of its own, if `apart`."""

    def __init__(self, apart):
        super().__init__()
        own = [nn.Embedding(rows, WIDTH) for rows in (5, 3, 7)]
        self.tables = nn.ModuleList(own if apart else own[2:] * 3)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, x):
        return self.layers(torch.stack([table(x[..., one]) for one, table in enumerate(self.tables)], dim=1))


@pytest.mark.parametrize(("apart", "vocab"), [(True, None), (False, 7)])
def test_columns_with_a_row_for_each_sequence_and_a_table_each_are_no_words(apart, vocab):
    trace = xray.trace(OfData(apart).eval(), torch.randint(3, (2, 3)))

    (tower,) = xray.anatomy(trace).towers
    assert (tower.vocab, tower.reads == "ids") == (vocab, not apart)
    (column,) = read_columns(trace)
    assert ("TOKEN IDS" in [node.label for node in column.entrance.nodes]) != apart


class Table(nn.Module):
    """A table of its own module, in which a function looks rows up."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(rows, WIDTH))

    def forward(self, ids):
        return functional.embedding(ids, self.rows)[:, None]


class Fields(nn.Module):
    """Each number of a record is looked up in a table of its own (tsai's TabTransformer)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(Table(rows) for rows in (4, 6, 3))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        return self.layers(torch.cat([table(ids[:, place]) for place, table in enumerate(self.tables)], 1))


def test_fields_that_functions_look_up_in_tables_of_their_own_are_no_words():
    tower = anatomy(xray.trace(Fields().eval(), torch.zeros(2, 3, dtype=torch.long))).towers[0]

    assert (tower.reads, tower.vocab) == (None, None)
