"""What is worked out and stands in no box is said, and nothing is said where every step has a box."""

import handwritten
import pytest
import torch
from story.body.building import record_family
from story.body.table import FAMILIES
from story.body.test_kept_waist import WIDTH
from torch import nn
from unsaid import list_unsaid

import xray
from xray.renderers.fonts import text_width
from xray.story.cards.boxless import list_told_elsewhere
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Layer(nn.Module):
    """Attention beside a gated feed-forward, each behind a norm of its own, and something done between its layers."""

    def __init__(self, between, wide=50):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 1, batch_first=True)
        self.gate, self.up = nn.Linear(WIDTH, wide), nn.Linear(WIDTH, wide)
        self.down, self.between = nn.Linear(wide, WIDTH), between

    def forward(self, x):
        seen = self.first(x)
        attended = self.attend(seen, seen, seen, need_weights=False)[0]
        read = self.second(x)
        thought = self.down(self.between(nn.functional.silu(self.gate(read))) * self.up(read))
        return x + (attended + thought)


def list_texts(between):
    model = nn.Sequential(nn.Embedding(12, WIDTH), Layer(between), Layer(between), nn.Linear(WIDTH, 12))
    layout = compose_poster(xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    lines = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    return " ".join(lines)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("between", "told"),
    [
        (lambda x: x, ""),
        (lambda x: x * 1.0 + 0, ""),
        (lambda x: x / 1.0 / torch.ones(50), ""),
        (lambda x: 1.0 / x, "div"),
        (lambda x: torch.ones(50) / x, "div"),
        (lambda x: x.transpose(0, 1).transpose(0, 1), ""),
        (lambda x: x.clamp(-1, 1), "clamp"),
        (lambda x: torch.sin(x.clamp(-1, 1)).clamp(-2, 2), "clamp × 4, silu × 2, sin × 2"),
        (lambda x: (x > 0.5).to(x.dtype), "silu × 2, gt × 2 ("),
        (lambda x: x.masked_fill(x > 0.5, 0.0), "silu × 2, masked_fill × 2 ("),
        (lambda x: nn.functional.pad(x, (1, 1))[..., 1:-1], "silu × 2, pad × 2 ("),
        (lambda x: nn.functional.pad(x, (0, 0)), "silu × 2 ("),
    ],
)
def test_what_is_worked_out_and_in_no_box_is_said(between, told):
    text = list_texts(between)

    assert ("Worked out, and in no box" in text) == bool(told)
    assert f"Worked out, and in no box: {told}" in text or not told


class Noised(nn.Module):
    """Rows and noise brought together, by shares drawn by chance."""

    def forward(self, x):
        share = torch.rand(len(x), 1, 1)
        return (1 - share) * x + share * torch.randn_like(x)


def test_what_multiplies_given_rows_before_noise_is_added_is_said_in_its_box():
    model = nn.Sequential(Noised(), nn.Linear(WIDTH, WIDTH), Layer(nn.Identity()), Layer(nn.Identity()))
    layout = compose_poster(xray.trace(model.eval(), torch.rand(2, 5, WIDTH)), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "NOISE × t + ROWS × (1 − t)" in text
    assert "in no box" not in text


def test_each_of_two_branches_side_by_side_stands_on_its_own_norm():
    assert list_texts(lambda x: x).count("LAYER NORM") == 2


class LooksFirst(nn.Module):
    """A look of each row at all others on the way in, in one kernel."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        q, k = self.q(x)[:, None], self.k(x)[:, None]
        return self.out(nn.functional.scaled_dot_product_attention(q, k, k, scale=0.25)[:, 0])


def test_what_one_kernel_does_in_no_box_is_said_too():
    model = nn.Sequential(LooksFirst(), Layer(nn.Identity()), Layer(nn.Identity()))
    layout = compose_poster(xray.trace(model.eval(), torch.rand(2, 5, WIDTH)), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "PRODUCT" in text
    assert "Worked out, and in no box: scale" in text


class Scores(nn.Module):
    """A last layer beside which something is worked out: for nobody, or for whoever calls the model."""

    def __init__(self, *, is_handed):
        super().__init__()
        self.last, self.is_handed = nn.Linear(WIDTH, 12), is_handed

    def forward(self, x):
        beside = x.exp().mean(dim=1).unsqueeze(0)
        return (self.last(x), beside) if self.is_handed else self.last(x)


@pytest.mark.parametrize("is_handed", [False, True])
def test_what_nothing_reads_and_nobody_is_handed_is_not_missed(is_handed):
    model = nn.Sequential(nn.Embedding(12, WIDTH), *(Layer(lambda x: x) for _ in range(2)), Scores(is_handed=is_handed))
    layout = compose_poster(xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)

    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)
    assert ("mean (exit)" in text) == is_handed


class Tapped(nn.Module):
    """Two convolutions read what the first of three layers gives, as necks of image models do (Depth Pro)."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, 12)
        self.layers = nn.ModuleList(Layer(nn.Identity()) for _ in range(3))
        self.neck, self.other = nn.Conv1d(WIDTH, 5, 3), nn.Conv1d(WIDTH, 7, 3)

    def forward(self, ids):
        first = x = self.layers[0](self.words(ids))
        for layer in self.layers[1:]:
            x = layer(x)
        return self.head(x), self.neck(first.mT), self.other(first.mT)


def test_what_is_worked_out_of_what_an_earlier_layer_gives_is_said():
    layout = compose_poster(xray.trace(Tapped().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "Worked out, and in no box: conv1d × 2 (behind layers)." in text


class Showing(nn.Module):
    """One norm of what each layer gives is handed out, or two, and no layer reads it (SegGPT)."""

    def __init__(self, *, shown):
        super().__init__()
        self.words, self.norm, self.shown = nn.Embedding(12, WIDTH), nn.LayerNorm(WIDTH), shown
        self.layers = nn.ModuleList(Layer(nn.Identity()) for _ in range(3))

    def forward(self, ids):
        x, shown = self.words(ids), []
        for layer in self.layers:
            x = layer(x)
            shown += [self.norm(x) for _ in range(1 if layer is self.layers[-1] else self.shown)]
        return shown


@pytest.mark.parametrize("shown", [0, 1, 2])
def test_norms_of_earlier_layers_that_are_handed_out_have_a_box_or_are_said_to_be_in_none(shown):
    layout = compose_poster(xray.trace(Showing(shown=shown).eval(), torch.tensor([[1, 2, 3]])), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert ("Worked out, and in no box: layer_norm × 4 (behind layers)." in text) == (shown == 2)
    assert ("in no box" in text) == (shown == 2)
    assert ("WHAT LAYER 2 GAVE" in text) == (shown == 1)


class Recalling(nn.Module):
    """Between layers, what the words became is added once more to what was bent there; each layer gives its double."""

    def __init__(self, *, is_recalling):
        super().__init__()
        self.words, self.head, self.is_recalling = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, 12), is_recalling
        self.layers = nn.ModuleList(Layer(nn.Identity(), wide) for wide in (50, 50, 70, 70))

    def forward(self, ids):
        x = words = self.words(ids)
        for layer in self.layers:
            x = layer(x) * 2.0
            x = torch.sin(x) + words if self.is_recalling else x
        return self.head(x)


@pytest.mark.parametrize("is_recalling", [False, True])
def test_what_works_between_layers_is_said_but_not_what_the_box_of_a_sum_holds(is_recalling):
    model = Recalling(is_recalling=is_recalling)
    layout = compose_poster(xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert ("in no box" in text) == is_recalling
    assert ("(between layers)" in text) == is_recalling
    assert "ADD, × 2" in text


class Late(nn.Module):
    """What one stack makes is bent while another one runs, between two of its layers that read it (CoCa)."""

    def __init__(self):
        super().__init__()
        self.words, self.signs = nn.Embedding(12, WIDTH), nn.Embedding(12, WIDTH)
        self.ones, self.others = (nn.ModuleList(Layer(nn.Identity()) for _ in range(3)) for _ in range(2))

    def forward(self, ids):
        x, y = self.words(ids), self.others[0](self.signs(ids))
        for one in self.ones:
            x = one(x)
        shown = x - x.amax(-1, keepdim=True)
        for other in self.others[1:]:
            y = other(y)
        return shown, y


def test_what_works_on_the_end_of_a_tower_while_another_one_runs_is_not_behind_earlier_layers():
    layout = compose_poster(xray.trace(Late().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "Worked out, and in no box: amax, sub (exit)." in text


class Bridged(nn.Module):
    """What each layer of one stack gives goes through a linear layer to the next one of another stack (BridgeTower)."""

    def __init__(self):
        super().__init__()
        self.words, self.signs = nn.Embedding(12, WIDTH), nn.Embedding(12, WIDTH)
        self.ones, self.others = (nn.ModuleList(Layer(nn.Identity()) for _ in range(3)) for _ in range(2))
        self.bridges = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, ids):
        x, y = self.words(ids), self.signs(ids)
        for one, other, bridge, norm in zip(self.ones, self.others, self.bridges, self.norms, strict=True):
            x = one(x)
            y = other(norm(y + bridge(x)))
        return y


def test_what_leads_from_layers_of_one_tower_to_those_of_another_is_said():
    layout = compose_poster(xray.trace(Bridged().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    told = "layer_norm × 2, add × 2 (between layers); linear (behind layers)."  # the others have boxes
    assert f"Worked out, and in no box: {told}" in text


class InPieces(nn.Module):
    """Pieces of what words became with a learned row each: they are looked at by turns, or handed out at last."""

    def __init__(self, *, is_looked_at):
        super().__init__()
        self.words, self.asks, self.is_looked_at = nn.Embedding(12, WIDTH), nn.Embedding(11, WIDTH), is_looked_at
        self.reader, self.looker = (
            nn.ModuleList(handwritten.Layer(WIDTH, handwritten.Attention(WIDTH, 3), norm="after") for _ in range(4))
            for _ in range(2)
        )
        self.levels = nn.Parameter(torch.rand(2, WIDTH))

    def forward(self, ids, asks):
        rows = self.words(ids)
        for layer in self.reader:
            rows = layer(rows)
        pieces = rows[:, :2], rows[:, 2:]
        memory = self.tell_apart(pieces) if self.is_looked_at else pieces
        x = self.asks(asks)
        for number, layer in enumerate(self.looker):
            x = layer(x, memory[number % 2])
        return (x,) if self.is_looked_at else (x, *self.tell_apart(pieces))

    def tell_apart(self, pieces):
        return [piece + self.levels[number].view(1, 1, -1) for number, piece in enumerate(pieces)]


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_what_is_worked_out_before_another_tower_for_it_is_of_no_exit(is_looked_at):
    model = InPieces(is_looked_at=is_looked_at).eval()
    layout = compose_poster(xray.trace(model, torch.arange(10).view(2, 5), torch.arange(6).view(2, 3)), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert f"Worked out, and in no box: add × 2 ({'between towers' if is_looked_at else 'exit'})." in text


class Half(nn.Module):
    """Layers between two convolutions, before each of which zeros are put."""

    def __init__(self, wide, out):
        super().__init__()
        self.begin, self.end = nn.Conv1d(wide, WIDTH, 3), nn.Conv1d(WIDTH, out, 3)
        self.layers = nn.Sequential(*(Layer(nn.Identity()) for _ in range(3)))

    def forward(self, x):
        x = self.begin(nn.functional.pad(x.mT, (2, 0))).mT
        return self.end(nn.functional.pad(self.layers(x).mT, (2, 0))).mT


class Coded(nn.Module):
    """What the first half gives is handed out, and the second half reads it with noise (VibeVoice)."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Half(7, 5), Half(5, 7)

    def forward(self, x):
        codes = self.encoder(x)
        return self.decoder(codes + torch.randn_like(codes)), codes


def test_what_leads_to_a_box_at_the_exit_of_one_tower_is_not_of_the_next_ones_entrance():
    layout = compose_poster(xray.trace(Coded().eval(), torch.rand(2, 11, 7)), text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)

    assert "Worked out, and in no box: pad × 2 (entrance); pad × 2 (exit)." in text


def test_steps_of_a_layer_that_is_drawn_for_others_are_told_there():
    layers = (Layer(nn.Identity()) for _ in range(3))
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval(), torch.rand(2, 5, WIDTH))
    (column,) = read_columns(trace)
    flow, drawn = column.reading.flow, {"1.add#0", "1.add#1", "1.gate#0"}
    sums = {place for place, step in enumerate(flow.steps) if step.path in ("1.add", "2.add", "3.add")}
    nodes = {*sums, flow.places["0#0"], flow.places["2.up#0"]}

    assert list_told_elsewhere(flow, nodes, column.towering.stagings, drawn) == sums
    assert not list_told_elsewhere(flow, nodes, column.towering.stagings, {"heads.0.add#0"})
    assert not list_told_elsewhere(flow, sums, [], drawn)


def test_a_last_norm_behind_which_a_cast_changes_nothing_leaves_the_tower():
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Layer(nn.Identity()) for _ in range(2)))
            self.scale = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x):
            x = self.layers(x)
            return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale).type_as(x)

    layout = compose_poster(xray.trace(Cast().eval(), torch.rand(2, 5, WIDTH)), text_width)
    texts = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    assert "What leaves the tower." in texts


def test_what_batch_norms_behind_the_last_layer_work_out_is_not_counted_with_the_next_entrance():
    _, trace = record_family(FAMILIES["d_fine"])
    columns = read_columns(trace)
    flow, eye = columns[0].reading.flow, columns[0].towering
    roots = [node for node in range(len(flow.steps)) if flow.op(node) == "rsqrt"]

    counted = dict(list_unsaid(columns))["entrance"]["rsqrt"]
    assert 0 < counted == sum(node <= eye.chains[0].start for node in roots) < len(roots)


def test_what_each_layer_leaves_out_counts_once_for_each_of_them():
    """Layers that do the same in two frames: one of the first is opened in each."""

    def wave(x):
        return torch.sin(x.clamp(-1, 1))

    layers = [Layer(wave), Layer(wave), Layer(torch.relu), Layer(wave), Layer(torch.relu)]
    model = nn.Sequential(nn.Embedding(12, WIDTH), *layers, nn.Linear(WIDTH, 12))
    columns = read_columns(xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]])))
    (counts,) = [dict(ops) for _, ops in list_unsaid(columns)]

    assert (counts["sin"], counts["clamp"]) == (3, 3)
