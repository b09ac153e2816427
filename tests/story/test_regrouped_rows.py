"""Rows that moves put into other sequences, as frames and patches of a film that change places between two towers."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.passages.ordered_rows import label_regrouped, read_regrouping
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sentences.stations.of_stations import describe_station
from xray.story.sheet.columns import read_columns

BATCH, FRAMES, PATCHES, WIDTH = 2, 3, 5, 12


class Film(nn.Module):
    """Patches look at those of their frame, then frames at those of the same patch, or at all as they were."""

    def __init__(self, *, swapped=True):
        super().__init__()
        self.swapped, self.patches = swapped, nn.Conv3d(3, WIDTH, (1, 4, 4), stride=(1, 4, 4))
        self.within = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.across = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.places = nn.Parameter(torch.zeros(1, FRAMES if swapped else PATCHES, WIDTH))

    def forward(self, film):
        x = self.patches(film).flatten(3).permute(0, 2, 3, 1).reshape(-1, PATCHES, WIDTH)
        for layer in self.within:
            x = layer(x)
        x = self.norm(x)
        if self.swapped:
            x = x.view(-1, FRAMES, PATCHES, WIDTH).transpose(1, 2).reshape(-1, FRAMES, WIDTH)
        x = x + self.places
        for layer in self.across:
            x = layer(x)
        x = self.last(x)
        if self.swapped:
            x = x.view(BATCH, PATCHES, FRAMES, WIDTH).transpose(1, 2)
        return x.reshape(BATCH, -1, WIDTH)


def read(**settings):
    torch.manual_seed(0)
    return xray.trace(Film(**settings).eval(), torch.rand(BATCH, 3, FRAMES, 4, 4 * PATCHES))


def list_labels(chart):
    return [node.label for node in chart.nodes if node.label.startswith("ROWS REGROUPED")]


def test_frames_that_become_sequences_of_their_own_have_a_box_at_the_entrance():
    within, _ = read_columns(read())

    assert list_labels(within.entrance) == ["ROWS REGROUPED: 2×3×5 → 2·3×5"]


def test_frames_and_patches_that_change_places_have_a_box_between_towers_and_behind_the_last():
    _, across = read_columns(read())

    assert list_labels(across.entrance) == ["ROWS REGROUPED: 2·3×5 → 2·5×3"]
    assert list_labels(across.exit) == ["ROWS REGROUPED: 2·5×3 → 2×3·5"]


def test_rows_that_stay_in_their_sequences_have_no_box_between():
    columns = read_columns(read(swapped=False))

    assert sum(len(list_labels(one.entrance)) for one in columns if one.entrance) == 1


def test_it_is_said_how_many_places_look_at_each_other():
    towers = xray.anatomy(read()).towers

    told = [describe_station(tower, next(iter(tower.branches))) for tower in towers]
    assert told == [f"Every place looks at every other of the {count} in its sequence." for count in (PATCHES, FRAMES)]


class Moves(nn.Module):
    """Rows that moves alone work on between two layers."""

    def __init__(self, move):
        super().__init__()
        self.move, self.first, self.last = move, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.last(self.move(self.first(x)))


@pytest.mark.parametrize(
    ("move", "told"),
    [
        (lambda x: x.view(2, 3, 5, 12).transpose(1, 2).reshape(10, 3, 12), (((2, 3), (5,)), ((2, 5), (3,)))),
        (lambda x: x.view(2, 15, 12), (((2, 3), (5,)), ((2,), (3, 5)))),
        (lambda x: x.transpose(0, 1), None),  # the same sequences, their places first
        (lambda x: x.contiguous(), None),
        (lambda x: x.view(6, 10, 6).repeat(1, 1, 2), None),  # rows cut in two
        (lambda x: x.transpose(1, 2).reshape(6, 5, 12), None),  # numbers of rows among each other
    ],
)
def test_only_rows_that_are_put_into_other_sequences_are_regrouped(move, told):
    flow = read_flow(xray.trace(Moves(move), torch.rand(6, 5, WIDTH)).passes[0])

    found = [one for node in range(len(flow.steps)) if (one := read_regrouping(flow, node))]
    assert [(one.before, one.after) for one in found] == ([told] if told else [])


def test_rows_of_which_a_part_is_read_are_told_to_be_in_turn_before():
    def shuffle(x):
        return x.view(6, 2, 5, WIDTH).transpose(1, 2).contiguous().view(6, -1, WIDTH)[:, :4]

    flow = read_flow(xray.trace(Moves(shuffle), torch.rand(6, 10, WIDTH)).passes[0])

    found = [one for node in range(len(flow.steps)) if (one := read_regrouping(flow, node))]
    assert [label_regrouped(one) for one in found] == ["ROWS OF 2 PARTS IN TURN"]


class Strips(nn.Module):
    """A picture of sound that is cut into strips, laid one below the other before patches are cut of it (CLAP)."""

    def __init__(self, lay_out):
        super().__init__()
        self.patches, self.lay_out = nn.Conv2d(1, WIDTH, 3, stride=3), lay_out
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, input_features):
        x = self.patches(self.lay_out(input_features)).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


def lay_below(sound):
    return sound.reshape(BATCH, 5, 7, 11).permute(0, 1, 3, 2).contiguous().reshape(BATCH, 1, 55, 7)


def lay_beside(sound):
    return sound.reshape(BATCH, 1, 5, 7, 11).transpose(2, 3).reshape(BATCH, 1, 7, 55)


@pytest.mark.parametrize(
    ("lay_out", "told"),
    [
        (lay_below, ["AXES SWAPPED, 5 PIECES ONE BELOW THE OTHER"]),
        (lay_beside, ["5 PIECES ONE BESIDE THE OTHER"]),
        (lambda sound: sound, []),
        (lambda sound: sound.reshape(BATCH, 1, 55, 7), []),  # they are no pieces of it
    ],
)
def test_pieces_of_a_map_that_are_laid_along_its_other_axis_have_a_box(lay_out, told):
    (column,) = read_columns(xray.trace(Strips(lay_out).eval(), torch.rand(BATCH, 1, 35, 11)))
    labels = [node.label for node in column.entrance.nodes]

    assert [label for label in labels if "PIECES" in label] == told


class ChannelsLast(Strips):
    """Halves of the columns of a map whose channels stand last, joined along these; no piece lies beside another."""

    def forward(self, input_features):
        x = self.wide(self.lay_out(input_features)).flatten(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_pieces_that_are_joined_along_channels_do_not_lie_beside_each_other():
    model = ChannelsLast(lambda x: x.view(BATCH, 8, 2, 4, 3).permute(0, 1, 3, 2, 4).reshape(BATCH, 8, 4, 6))
    model.wide = nn.Linear(6, WIDTH)
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, 8, 8, 3)))

    assert not any("PIECES" in node.label for node in column.entrance.nodes)


class Mapped(nn.Module):
    """Rows behind the last norm that are laid out as a map again, channels first or last (GLPN)."""

    def __init__(self, lay_out):
        super().__init__()
        self.patches, self.norm, self.lay_out = nn.Conv2d(3, WIDTH, 4, stride=4), nn.LayerNorm(WIDTH), lay_out
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return self.lay_out(self.norm(x))


@pytest.mark.parametrize(
    ("lay_out", "told"),
    [
        (lambda x: x.reshape(BATCH, 5, 7, WIDTH).permute(0, 3, 1, 2).contiguous(), ["ROWS LAID OUT AS A MAP OF 5×7"]),
        (lambda x: x.transpose(1, 2).reshape(BATCH, WIDTH, 5, 7), ["ROWS LAID OUT AS A MAP OF 5×7"]),
        (lambda x: x.transpose(1, 2), []),
        (lambda x: x, []),
    ],
)
def test_rows_that_end_as_a_map_have_a_box(lay_out, told):
    (column,) = read_columns(xray.trace(Mapped(lay_out).eval(), torch.rand(BATCH, 3, 20, 28)))

    assert [node.label for node in column.exit.nodes] == ["LAST NORM", *told]
    assert column.exit.node(column.exit.heads[0]).record.shape == column.exit.nodes[-1].record.shape


def test_channels_of_a_convolution_that_are_laid_out_are_no_rows():
    found = nn.Conv1d(WIDTH, 35, 1).eval()
    model = Mapped(lambda x: found(x.mean(1, keepdim=True).mT).view(BATCH, 5, 7, 1).permute(0, 3, 1, 2))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, 3, 20, 28)))

    assert not any("ROWS LAID OUT" in node.label for node in column.exit.nodes)


class Swapping(nn.Module):
    """Attentions with places first, their feed-forwards with the batch first, norms behind the sums (SASRec)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(29, WIDTH)
        self.looking = nn.ModuleList(nn.MultiheadAttention(WIDTH, 2) for _ in range(3))
        self.ups, self.downs = (nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(6))

    def forward(self, ids):
        x = self.words(ids)
        for looks, up, down, first, second in zip(
            self.looking, self.ups, self.downs, self.norms[::2], self.norms[1::2], strict=True
        ):
            x = x.transpose(0, 1)
            x = first(x + looks(x, x, x)[0]).transpose(0, 1)
            x = second(x + down(up(x.mT).relu()).mT)
        return x


def test_layers_between_which_batch_and_places_are_swapped_are_on_one_stream():
    (tower,) = xray.anatomy(xray.trace(Swapping().eval(), torch.arange(14).view(BATCH, 7))).towers

    (group,) = tower.groups
    assert group.layers == (0, 1, 2)
    assert [one.part for stage in group.stages for one in stage.branches] == ["attention", "feed_forward"]


class InTurn(nn.Module):
    """Layers within a frame and across frames, in turn; the stream has an axis of them in between (SpaceTimeFormer)."""

    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Parameter(torch.randn(1, 1, PATCHES, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(4))

    def forward(self, film):
        x = self.patches(film.flatten(0, 1)).flatten(2).mT.unflatten(0, (BATCH, FRAMES)) + self.places
        for layer in self.layers:
            x = layer(x.flatten(0, 1)).unflatten(0, x.shape[:2]).transpose(1, 2)
        return x.mean((1, 2))


def test_it_is_said_of_the_first_layer_too_how_many_places_look_at_each_other():
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(InTurn().eval(), torch.rand(BATCH, FRAMES, 3, 4, 4 * PATCHES))).towers

    told = [(group.layers, describe_station(tower, group.stages[0].branches[0])) for group in tower.groups]
    each = "Every place looks at every other of the {} in its sequence."
    assert told == [((0, 2), each.format(PATCHES)), ((1, 3), each.format(FRAMES))]


class Views(nn.Module):
    """Two views of one scene: the first layers within each, the others over both; heads in one axis with both (RVT)."""

    def __init__(self):
        super().__init__()
        self.patches, self.lead = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, MergedHeads(WIDTH, 3), norm="before") for _ in range(4))

    def forward(self, views):
        x = self.patches(views).flatten(2).mT.reshape(1, -1, WIDTH)
        x = self.lead(x).reshape(len(views), -1, WIDTH)
        for layer in self.layers[:2]:
            x = layer(x)
        x = x.view(1, -1, WIDTH)
        for layer in self.layers[2:]:
            x = layer(x)
        return x


class MergedHeads(nn.Module):
    """Attention whose heads stand in the first axis, with the sequences."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, *_):
        cut = (self.heads, x.shape[-1] // self.heads)
        q, k, v = (one.unflatten(-1, cut).transpose(1, 2).flatten(0, 1) for one in self.qkv(x).chunk(3, -1))
        found = (q @ k.mT * cut[1] ** -0.5).softmax(-1) @ v
        return self.out(found.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2))


def test_it_is_said_how_many_places_look_at_each_other_where_heads_and_sequences_share_an_axis():
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(Views().eval(), torch.rand(2, 3, 4, 4 * PATCHES))).towers

    told = [(group.layers, describe_station(tower, group.stages[0].branches[0])) for group in tower.groups]
    each = f"Every place looks at every other of the {PATCHES} in its sequence."
    assert told == [((0, 1), each), ((2, 3), "Every place looks at every other.")]
    apart = f"{each[:-1]}, in 2 of 4 layers; in the others it looks at every other."
    assert describe_stage(tower, tower.groups[0].stages[0]).startswith(apart)


class Paths(nn.Module):
    """Rows of a map, then its columns, each a sequence whose places stand first (DPTNet)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        layers = (nn.TransformerEncoderLayer(WIDTH, 3, 2 * WIDTH, norm_first=True) for _ in range(4))
        self.layers = nn.ModuleList(layers)

    def forward(self, image):
        x = self.patches(image)
        for layer in self.layers:
            batch, _, high, wide = x.shape
            x = layer(x.permute(2, 0, 3, 1).reshape(high, batch * wide, WIDTH))
            x = x.view(high, batch, wide, WIDTH).permute(1, 3, 2, 0)
        return x


def test_it_is_said_how_many_places_look_at_each_other_where_places_stand_first():
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(Paths().eval(), torch.rand(BATCH, 3, 4 * FRAMES, 4 * PATCHES))).towers

    told = [(group.layers, describe_station(tower, group.stages[0].branches[0])) for group in tower.groups]
    each = "Every place looks at every other of the {} in its sequence."
    assert told == [((0, 2), each.format(FRAMES)), ((1, 3), each.format(PATCHES))]
