"""The chart of an entrance: what is learned alone is no row that is added."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from story.entrances import HeldPlaces
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.sheet.columns import read_columns


class Snake(nn.Module):
    """A bend with a learned number for each channel, which is kept from being 0 (PE-Audio)."""

    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, WIDTH, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


def columns_of(*parts):
    model = nn.Sequential(nn.Conv1d(3, WIDTH, 4), *parts, Turned(), *(FeedForwardPart() for _ in range(2)))
    return read_columns(xray.trace(model.eval(), torch.ones(2, 3, 23)))


def test_what_keeps_a_learned_number_from_zero_adds_no_row():
    columns = columns_of(Snake(), nn.Conv1d(WIDTH, WIDTH, 1))

    assert [node.label for node in columns[0].entrance.nodes if "ROW" in node.label] == []
    assert list_unsaid(columns) == ()


class Between(nn.Module):
    """Places between those of a table: two rows for each place of an image, weighed by how near they are (Qwen3-VL)."""

    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Linear(7, WIDTH), nn.Embedding(9, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, pixel_values, where):
        near = torch.stack((where.floor(), where.floor() + 1), dim=-1)
        weights = (1 - (where[:, None] - near).abs()).clamp(min=0)
        places = (self.places(near.long()) * weights[..., None]).sum(1)
        return self.layers(self.patches(pixel_values) + places)


class Bagged(Between):
    """The same in one operation (Kimi K2.5)."""

    def forward(self, pixel_values, where):
        near = torch.stack((where.floor(), where.floor() + 1), dim=-1)
        weights = (1 - (where[:, None] - near).abs()).clamp(min=0)
        places = nn.functional.embedding_bag(near.long(), self.places.weight, per_sample_weights=weights, mode="sum")
        return self.layers(self.patches(pixel_values) + places)


def test_how_many_rows_of_a_table_one_operation_weighs_and_adds_up_is_told():
    columns = read_columns(xray.trace(Bagged().eval(), torch.ones(5, 7), torch.linspace(0.5, 6.5, 5)))

    assert [one.label for one in columns[0].entrance.nodes if one.label.endswith("LOOKUP: 2 ROWS WEIGHED")]


def test_rows_of_a_table_that_are_weighed_and_added_up_are_one_box():
    columns = read_columns(xray.trace(Between().eval(), torch.ones(5, 7), torch.linspace(0.5, 6.5, 5)))

    labels = [node.label for node in columns[0].entrance.nodes]

    assert "2 ROWS WEIGHED, ADDED UP" in labels
    assert not {"ABS", "CLAMP", "STACKED"} & {*labels}


class Framed(nn.Module):
    """Rows of an image, to each of which that of its frame is added, be there but one frame (Kimi K2.5)."""

    def __init__(self, *frames):
        super().__init__()
        self.frames, self.patches = frames, nn.Linear(7, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))
        turns = torch.arange(11)[:, None] * 0.9 ** torch.arange(WIDTH)
        self.register_buffer("table", torch.cat((torch.zeros(1, WIDTH), turns.sin())))

    def forward(self, pixel_values):
        count = len(pixel_values) // len(self.frames)
        frames = [(torch.arange(1) + frame).repeat_interleave(count) for frame in self.frames]
        return self.layers(self.patches(pixel_values) + self.table[torch.cat(frames)])


@pytest.mark.parametrize(
    ("frames", "told"),
    [((0, 0), "ADDED UP"), ((3,), "ADDED UP"), ((1, 2), "ADDED UP"), (range(1, 11), "+ SINES OF PLACES")],
)
def test_one_row_of_a_table_for_several_places_tells_none(frames, told):
    trace = xray.trace(Framed(*frames).eval(), torch.ones(10, 7))
    (tower,) = xray.anatomy(trace).towers

    assert told in [node.label for node in read_columns(trace)[0].entrance.nodes]
    assert ("positions" in [part.part for part in tower.entrance]) == told.endswith("PLACES")


class OfATurn(Framed):
    """Rows to each of which that of a turn of layers is added (Universal Transformers)."""

    def forward(self, pixel_values):
        turn = self.table[None][:, 3, :].unsqueeze(1).repeat(1, pixel_values.shape[1], 1)
        return self.layers(self.patches(pixel_values) + turn)


def test_one_row_of_a_table_that_is_added_to_all_rows_tells_no_places():
    columns = read_columns(xray.trace(OfATurn().eval(), torch.rand(2, 5, 7)))

    assert [node.label for node in columns[0].entrance.nodes][-1] == "ADDED UP"


class Chooses(nn.Module):
    """A stream that begins with the rows of an image whose best class scored highest (RT-DETR)."""

    def __init__(self):
        super().__init__()
        self.patches, self.scores = nn.Conv2d(3, WIDTH, 2, stride=2), nn.Linear(WIDTH, 5)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        best = self.scores(x).amax(-1).topk(3, dim=1).indices
        return self.layers(x.gather(1, best[..., None].expand(-1, -1, WIDTH)))


def test_what_says_which_rows_a_stream_begins_with_stands_before_it():
    (column,) = read_columns(xray.trace(Chooses().eval(), torch.rand(2, 3, 8, 8)))
    chart = column.entrance

    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert ways == {
        ("IMAGE", "PATCHES 2×2"),
        ("PATCHES 2×2", "LINEAR"),
        ("LINEAR", "CHOOSE BY EACH ROW'S HIGHEST"),
        ("CHOOSE BY EACH ROW'S HIGHEST", "3 OF 16 ROWS"),
        ("PATCHES 2×2", "3 OF 16 ROWS"),
    }
    assert list_unsaid((column,)) == ()


class Asking(nn.Module):
    """Learned rows of two kinds, put end to end and laid out for each picture and each prompt (SAM)."""

    def __init__(self):
        super().__init__()
        self.one, self.more = nn.Embedding(1, WIDTH), nn.Embedding(4, WIDTH)
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, prompts):
        x = torch.cat((self.one.weight, self.more.weight)).repeat(len(prompts), 1, 1)
        for layer in self.layers:
            x = layer(x)
        return x * prompts.mean()


class AskingMore(Asking):
    """The same before what is made of prompts, of which each picture has some (SAM 2)."""

    def __init__(self):
        super().__init__()
        self.made = nn.Linear(2, WIDTH)
        self.layers = nn.ModuleList(FeedForwardPart() for _ in range(3))

    def forward(self, prompts):
        own = torch.cat((self.one.weight, self.more.weight)).repeat(*prompts.shape[:2], 1, 1)
        x = torch.cat((own, self.made(prompts)), 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_learned_rows_without_a_batch_are_put_end_to_end():
    (column,) = read_columns(xray.trace(Asking(), torch.randn(2, 3)))

    (box,) = column.entrance.nodes
    assert (box.label, box.extra) == ("END TO END: 1 LEARNED + 4 LEARNED", f"{5 * WIDTH} parameters")


def test_learned_rows_before_several_prompts_of_each_picture_have_a_box():
    (column,) = read_columns(xray.trace(AskingMore(), torch.randn(2, 3, 2, 2)))

    labels = [box.label for box in column.entrance.nodes]
    assert labels == ["VECTORS", "END TO END: 1 LEARNED + 4 LEARNED", "LINEAR", "END TO END"]


class OfOneScale(nn.Module):
    """Series that are brought to mean 0 and variance 1, step by step, before layers (PatchTST)."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, past_values):
        mean = past_values.sum(1, keepdim=True) / past_values.shape[1]
        spread = ((past_values - mean).pow(2).sum(1, keepdim=True) / past_values.shape[1] + 1e-5).sqrt()
        x = self.cut((past_values - mean) / spread)
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_takes_a_mean_off_series_and_divides_them_stands_in_boxes():
    (column,) = read_columns(xray.trace(OfOneScale(), torch.randn(2, 7, 1)))
    labels = {box.key: box.label for box in column.entrance.nodes}
    led = {(labels[edge.source], labels[edge.target]) for edge in column.entrance.edges}

    assert sorted(labels.values()) == ["DIVIDED", "LINEAR", "POWER 2", "SQRT", "SUBTRACTED", "SUBTRACTED", "VECTORS"]
    assert {("SUBTRACTED", "POWER 2"), ("SQRT", "DIVIDED"), ("SUBTRACTED", "DIVIDED"), ("DIVIDED", "LINEAR")} <= led
    assert ("VECTORS", "DIVIDED") not in led


class Widens(nn.Module):
    """Rows, times a number, with places, that an attention brings to the width of the layers, past which nothing goes
    (Fun-ASR)."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(6), nn.Linear(6, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(3)))
        self.places = HeldPlaces(torch.rand(11, 6), first=1)

    def forward(self, rows):
        x = rows * 2.5 + self.places(rows.shape[1])
        q, k, v = (one.view(*x.shape[:2], 2, -1).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        x = ((q @ k.mT).softmax(dim=-1) @ v).transpose(1, 2).reshape(*x.shape[:2], -1)
        return self.layers(self.out(x))


def test_an_attention_without_a_way_past_it_before_all_layers_is_drawn_at_the_entrance():
    (column,) = read_columns(xray.trace(Widens().eval(), torch.rand(2, 5, 6)))

    labels = [node.label for node in column.entrance.nodes]
    assert labels == ["VECTORS", "× 2.5", "+ PLACES", "LAYER NORM", "LINEAR", "PRODUCT", "SOFTMAX", "PRODUCT", "LINEAR"]
    assert column.towering.tower.before == "attention"
    assert list_unsaid((column,)) == ()


class OfOneKind(nn.Module):
    """Ids, to whose rows one row of another table is added, that nobody looks up (ProphetNet)."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(11, WIDTH), nn.Embedding(3, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        return self.layers(self.words(ids) + self.kinds.weight[1])


def test_one_row_of_a_table_that_is_added_to_all_words_has_a_box():
    (column,) = read_columns(xray.trace(OfOneKind().eval(), torch.randint(11, (2, 5))))

    told = [(node.label, node.extra) for node in column.entrance.nodes]
    assert told[-1] == ("+ A LEARNED ROW", f"{WIDTH} parameters")


class Padded(nn.Module):
    """Ids looked up, and rows of nothing behind them before all layers, up to a whole block (Pegasus-X)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        rows = nn.functional.pad(self.words(ids), (0, 0, 0, 13 - ids.shape[1]))
        return self.layers(rows)[:, : ids.shape[1]]


def test_rows_of_nothing_behind_those_of_words_are_told_before_the_layers():
    (column,) = read_columns(xray.trace(Padded().eval(), torch.randint(11, (2, 5))))

    assert [node.label for node in column.entrance.nodes] == ["TOKEN IDS", "TABLE LOOKUP", "PADDED TO 13 ROWS"]


class Numbered(nn.Module):
    """Words and places, whose ids the model holds in as many rows (DALL·E mini), or which come in."""

    def __init__(self, *, are_held):
        super().__init__()
        self.words, self.places = nn.Embedding(17, WIDTH), nn.Embedding(17, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))
        self.are_held, self.counted = are_held, torch.arange(7).repeat(2, 1)

    def forward(self, ids):
        return self.layers(self.words(ids) + self.places(self.counted if self.are_held else ids))


@pytest.mark.parametrize(("are_held", "led"), [(True, 1), (False, 2)])
def test_ids_that_a_model_holds_itself_are_not_those_that_come_in(are_held, led):
    columns = read_columns(xray.trace(Numbered(are_held=are_held).eval(), torch.arange(14).view(2, 7)))

    given = [node.key for node in columns[0].entrance.nodes if "IDS" in node.label]
    assert [edge.source for edge in columns[0].entrance.edges if edge.source in given] == given * led


class Lengthened(nn.Module):
    """Words of ids of which others are made that are laid behind them (CLVP), or behind which those of places are."""

    def __init__(self, *, of_others):
        super().__init__()
        self.words, self.of_others = nn.Embedding(17, WIDTH), of_others
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids, places):
        return self.layers(self.words(torch.cat((ids, places if self.of_others else ids + 1), 1)))


@pytest.mark.parametrize(("of_others", "told"), [(False, ("worked out of 7 given",)), (True, ())])
def test_ids_are_worked_out_of_fewer_where_no_others_came_in(of_others, told):
    ids = torch.arange(14).view(2, 7)
    columns = read_columns(xray.trace(Lengthened(of_others=of_others).eval(), ids, torch.arange(7).repeat(2, 1)))

    (given,) = (node for node in columns[0].entrance.nodes if node.label == "TOKEN IDS")
    assert given.told == told
