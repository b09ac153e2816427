"""What stands in no box is counted in all layers that do it, and in no other."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from unsaid import list_unsaid

import xray
from xray.story.sheet.columns import read_columns

WIDE, LAYERS, EXPERTS = 12, 4, 5


class Frozen(nn.Module):
    """A batch norm that does not learn, written out of what it holds (DETR's backbone)."""

    def __init__(self, size):
        super().__init__()
        for name in ("weight", "bias", "mean", "var"):
            self.register_buffer(name, torch.rand(size))

    def forward(self, x):
        weight, bias, mean, var = (
            getattr(self, name).reshape(1, -1, 1, 1) for name in ("weight", "bias", "mean", "var")
        )
        scale = weight * (var + 1e-5).rsqrt()
        return x * scale + (bias - mean * scale)


class Block(nn.Module):
    """Three convolutions, and one beside them where there are more channels than came in (ResNet)."""

    def __init__(self, size, wide, stride):
        super().__init__()
        sizes = [(size, wide // 2, 1, 1, 0), (wide // 2, wide // 2, 3, stride, 1), (wide // 2, wide, 1, 1, 0)]
        self.convs = nn.ModuleList(nn.Conv2d(*one, bias=False) for one in sizes)
        self.norms = nn.ModuleList(Frozen(one[1]) for one in sizes)
        side = (nn.Conv2d(size, wide, 1, stride, bias=False), Frozen(wide))
        self.downsample = nn.Sequential(*side) if size != wide else nn.Identity()

    def forward(self, x):
        seen = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            seen = norm(conv(functional.relu(seen)))
        return functional.relu(seen + self.downsample(x))


def count_in(model, *given):
    """How often each operation is said to stand in no box, of all parts."""
    found = list_unsaid(read_columns(xray.trace(model.eval(), *given)))
    return {op: sum(ops[op] for _, ops in found) for op in {op for _, ops in found for op in ops}}


@pytest.mark.parametrize("names", ["12345678", "abcdefgh"])
def test_the_way_beside_some_layers_is_counted_in_those_that_have_one(names):
    sizes = [(8, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    for name, one in zip(names, sizes, strict=True):
        model.add_module(f"block{name}", Block(*one))

    assert count_in(model, torch.rand(1, 3, 64, 64))["mul"] == 3


class Waves(nn.Module):
    """The turn of each place by learned lengths of waves: worked out once, and read where it is held then (Oasis)."""

    def __init__(self):
        super().__init__()
        self.lengths, self.is_held = nn.Parameter(torch.rand(WIDE // 2)), False
        self.register_buffer("held", torch.zeros(40, WIDE))

    def forward(self, x):
        count = x.shape[-2]
        if not self.is_held:
            turns = torch.einsum("i,j->ij", torch.arange(count).float(), self.lengths).repeat(1, 2)
            self.held[:count], self.is_held = turns.detach(), True
        else:
            turns = self.held[:count].detach()
        left, right = x.chunk(2, -1)
        return x * turns.cos() + torch.cat([-right, left], -1) * turns.sin()


class Turned(nn.Module):
    """A layer of which queries and keys are turned by waves."""

    def __init__(self, waves):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.think = nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 50), nn.GELU(), nn.Linear(50, WIDE))
        self.waves = [waves]

    def forward(self, x):
        q, k, v = (part.unsqueeze(1) for part in self.qkv(self.norm(x)).chunk(3, -1))
        seen = functional.scaled_dot_product_attention(self.waves[0](q), self.waves[0](k), v)
        x = x + self.out(seen.squeeze(1))
        return x + self.think(x)


class Oasis(nn.Module):
    """Layers that share their waves."""

    def __init__(self):
        super().__init__()
        self.enter, self.waves = nn.Linear(7, WIDE), Waves()
        self.layers = nn.Sequential(*(Turned(self.waves) for _ in range(3)))

    def forward(self, x):
        return self.layers(self.enter(x))


def test_waves_that_are_held_are_counted_in_all_layers_that_read_them():
    counts = count_in(Oasis(), torch.rand(2, 5, 7))

    assert (counts["einsum"], counts["cos"], counts["sin"]) == (1, 6, 6)


class Spread(nn.Module):
    """An attention, and how far each place looks: told beside what it gives (Anomaly Transformer)."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.think = nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 50), nn.GELU(), nn.Linear(50, WIDE))
        self.far = nn.Linear(WIDE, 1)

    def forward(self, x):
        q, k, v = (part.unsqueeze(1) for part in self.qkv(self.norm(x)).chunk(3, -1))
        spread = torch.sigmoid(self.far(x) * 5).pow(3)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).squeeze(1))
        return x + self.think(x), spread


class Anomaly(nn.Module):
    """Layers that each hand out how far their places look."""

    def __init__(self):
        super().__init__()
        self.enter, self.layers = nn.Linear(7, WIDE), nn.ModuleList(Spread() for _ in range(LAYERS))

    def forward(self, x):
        x, found = self.enter(x), []
        for layer in self.layers:
            x, spread = layer(x)
            found.append(spread)
        return x, found


def test_what_layers_hand_out_of_themselves_is_counted_and_told_in_each_alike():
    (column,) = read_columns(xray.trace(Anomaly().eval(), torch.rand(2, 5, 7)))

    assert column.towering.taps == ()
    assert dict(list_unsaid([column])) == {"self-attention": dict.fromkeys(("linear", "mul", "sigmoid", "pow"), LAYERS)}
    assert [frame.more for frame in column.frames] == [(0,) * LAYERS]


class Beside(nn.Module):
    """Layers of words, and sounds that go another way: convolutions around gates that are not recorded (Glow-TTS)."""

    def __init__(self, first):
        super().__init__()
        self.words = nn.Embedding(31, WIDE)
        one = nn.TransformerEncoderLayer(WIDE, 2, 40, batch_first=True)
        self.layers = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
        self.ins, self.outs = (nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3)) for _ in range(2))
        self.first = first

    def forward(self, ids, sound):
        sound = sound[:, :8]
        for lead, back in zip(self.ins, self.outs, strict=True):
            led = lead(sound) * 2 if self.first else lead(sound)
            with torch._C.DisableTorchFunction():
                seen = torch.tanh(led)
            sound = sound + back(seen)
        return self.layers(self.words(ids)), sound


@pytest.mark.parametrize("first", [False, True])
def test_what_is_read_by_what_was_not_recorded_counts_too(first):
    counts = count_in(Beside(first), torch.arange(10).view(2, 5), torch.rand(2, 9, 7))

    assert counts == {"conv1d": 6, "add": 3} | ({"mul": 3} if first else {})


class Modulated(nn.Module):
    """A layer whose rows are scaled by what it makes itself of rows from beside, with a place for each (RAR)."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDE) for _ in range(2))
        self.made = nn.ModuleList(nn.Sequential(nn.SiLU(), nn.Linear(WIDE, WIDE)) for _ in range(4))
        self.qkv, self.out = nn.Linear(WIDE, 3 * WIDE), nn.Linear(WIDE, WIDE)
        self.think = nn.Sequential(nn.Linear(WIDE, 50), nn.GELU(), nn.Linear(50, WIDE))

    def forward(self, x, beside):
        one, two, three, four = (made(beside) for made in self.made)
        q, k, v = (part.unsqueeze(1) for part in self.qkv(self.norms[0](x) * (1 + one)).chunk(3, -1))
        x = x + two * self.out(functional.scaled_dot_product_attention(q, k, v).squeeze(1))
        return x + four * self.think(self.norms[1](x) * (1 + three))


class Conditioned(nn.Module):
    """Layers of words, each of which makes factors of its own of one row and its places."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDE), nn.ModuleList(Modulated() for _ in range(LAYERS))
        self.places = nn.Parameter(torch.rand(1, 5, WIDE))

    def forward(self, ids):
        x = self.words(ids)
        beside, x = x[:, :1] + self.places, x + self.places
        for layer in self.layers:
            x = layer(x, beside)
        return x


def test_what_each_layer_makes_of_rows_from_beside_counts_once_for_each():
    counts = count_in(Conditioned(), torch.arange(10).view(2, 5))

    assert (counts["silu"], counts["linear"]) == (4 * LAYERS, 4 * LAYERS)


class Balanced(nn.Module):
    """An attention, then experts of which a router chooses two; their load is handed out as a loss (nanoMoE)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDE), nn.LayerNorm(WIDE)
        self.attend, self.router = nn.MultiheadAttention(WIDE, 1, batch_first=True), nn.Linear(WIDE, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDE, 17), nn.GELU(), nn.Linear(17, WIDE)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        seen = self.first(x)
        x = x + self.attend(seen, seen, seen, need_weights=False)[0]
        rows = self.second(x)
        shares = self.router(rows).softmax(-1)
        best, chosen = shares.topk(2, -1)
        flags = functional.one_hot(chosen, EXPERTS)
        loss = (flags.float().sum(2).mean((0, 1)) * shares.mean((0, 1))).sum()
        weights = (flags * best[..., None]).sum(2)
        return x + sum(one(rows) * weights[..., [n]] for n, one in enumerate(self.experts)), loss


class Losing(nn.Module):
    """Words, such layers, and the sum of what they lose."""

    def __init__(self):
        super().__init__()
        self.words, self.end = nn.Embedding(31, WIDE), nn.Linear(WIDE, 31)
        self.layers = nn.ModuleList(Balanced() for _ in range(LAYERS))

    def forward(self, ids):
        x, losses = self.words(ids), []
        for layer in self.layers:
            x, loss = layer(x)
            losses.append(loss)
        return self.end(x), torch.stack(losses).sum()


def test_how_many_rows_chose_each_expert_is_counted_with_what_is_made_of_it():
    assert count_in(Losing(), torch.arange(14).view(2, 7))["mean"] == 2 * LAYERS


class Asking(nn.Module):
    """An attention whose queries may be given, and a feed-forward (GC ViT)."""

    def __init__(self, *, given):
        super().__init__()
        self.norm, self.made, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, (3 - given) * WIDE), nn.Linear(WIDE, WIDE)
        self.think = nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 31), nn.GELU(), nn.Linear(31, WIDE))

    def forward(self, x, asked):
        parts = [one.unflatten(-1, (2, -1)).transpose(1, 2) for one in self.made(self.norm(x)).split(WIDE, -1)]
        query, key, value = parts if len(parts) == 3 else (asked, *parts)
        x = x + self.out(((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2))
        return x + self.think(x)


class Turning(nn.Module):
    """Layers of which every other one is given queries, made of what comes in by some layers (GC ViT's stage)."""

    def __init__(self, levels):
        super().__init__()
        made = (part for _ in range(levels) for part in (nn.Conv1d(WIDE, WIDE, 1), nn.Tanh()))
        self.asking, self.layers = nn.Sequential(*made), nn.ModuleList(Asking(given=one) for one in (False, True) * 2)

    def forward(self, x):
        x = x.mT
        asked = self.asking(x).mT.unflatten(-1, (2, -1)).transpose(1, 2)
        x = x.mT
        for layer in self.layers:
            x = layer(x, asked)
        return x


def test_what_runs_before_a_layer_and_is_made_for_others_is_no_part_of_it_and_counted_as_often_as_it_runs():
    model = nn.Sequential(nn.Linear(WIDE, WIDE), *map(Turning, (1, 2)))

    columns = read_columns(xray.trace(model.eval(), torch.rand(2, 5, WIDE)))

    assert {name: dict(ops) for name, ops in list_unsaid(columns)} == {"elsewhere": {"conv1d": 3, "tanh": 3}}


class Bent(nn.Module):
    """Scores with a bias of places from a learned table, of which a softmax and a bend make weights (AST)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, WIDE)
        self.made = nn.Linear(WIDE, 3 * WIDE)
        self.table = nn.Parameter(torch.rand(9))
        self.register_buffer("apart", 4 + torch.arange(5)[:, None] - torch.arange(5))

    def forward(self, x):
        query, key, value = self.made(self.norm(x)).chunk(3, dim=-1)
        scores = query @ key.mT + self.table[self.apart.view(-1)].view(5, 5)
        return x + self.out((scores.softmax(-1) * 0.5 + scores.relu() ** 2 * 0.5) @ value)


def test_a_bias_that_is_added_to_scores_of_an_unknown_attention_is_told():
    layers = (part for _ in range(LAYERS) for part in (Bent(), Thinks()))

    assert count_in(nn.Sequential(nn.Linear(7, WIDE), *layers), torch.rand(2, 5, 7))["add"] == LAYERS


class Thinks(nn.Sequential):
    """A feed-forward behind a norm, added."""

    def __init__(self):
        super().__init__(nn.LayerNorm(WIDE), nn.Linear(WIDE, 31), nn.GELU(), nn.Linear(31, WIDE))

    def forward(self, x):
        return x + super().forward(x)
