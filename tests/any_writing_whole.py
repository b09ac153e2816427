"""The layers around an attention in any hand-writing, and the whole."""

import math

import torch
from any_writing import LENGTH, NARROW, SOURCE, VOCAB, Writing
from any_writing_attention import Attention, Maker
from torch import Tensor, nn
from torch.nn import functional

CURVES = {
    "gelu": functional.gelu,
    "relu": torch.relu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "relu squared": lambda x: functional.relu(x).pow(2),
    "gelu by hand": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "gelu tanh by hand": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu by hand": lambda x: x * torch.sigmoid(x),
    "relu squared by mul": lambda x: functional.relu(x) * functional.relu(x),
    "relu by clamp": lambda x: x.clamp(min=0),
    "relu by maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "relu by times": lambda x: x * (x > 0),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky_relu": functional.leaky_relu,
    "softplus": functional.softplus,
    "relu cubed": lambda x: functional.relu(x) ** 3,
    "square": lambda x: x * x,
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
}
"""How wide rows may be bent."""


class SpeltNorm(nn.Module):
    """A norm in plain arithmetic."""

    def __init__(self, width: int, how: str):
        super().__init__()
        self.how, self.gain = how, nn.Parameter(torch.ones(width))
        if how == "spelt layer":
            self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "spelt layer":
            away = x - x.mean(-1, keepdim=True)
            return away / torch.sqrt((away * away).mean(-1, keepdim=True) + 1e-5) * self.gain + self.shift
        square = x.pow(2) if self.how == "spelt rms by pow" else x * x
        return self.gain * (x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6))


def make_norm(how: str, width: int) -> nn.Module:
    """A norm of that kind."""
    if how == "layer":
        return nn.LayerNorm(width)
    return nn.RMSNorm(width) if how == "rms" else SpeltNorm(width, how)


class FeedForward(nn.Module):
    """Each place by itself, as it is asked for."""

    def __init__(self, how: Writing):
        super().__init__()
        self.how, wide, inner = how, how.width, 4 * how.width
        out = 2 * inner if how.gated.startswith("fused") else inner

        def make(before: int, behind: int) -> nn.Module:
            if how.feed_forward == "conv":
                return nn.Conv1d(before, behind, 1, bias=how.biased)
            if how.feed_forward == "functional":
                return Maker(before, 1, behind, "functional", biased=how.biased)
            return nn.Linear(before, behind, bias=how.biased)

        self.one, self.two = make(wide, out), make(inner, wide)
        self.beside = make(wide, inner) if how.gated == "two" else None

    def forward(self, x: Tensor) -> Tensor:
        how = self.how
        is_conv = how.feed_forward == "conv"
        rows = (0, 2, 1) if how.layout == "batch first" else (1, 2, 0)
        back = (0, 2, 1) if how.layout == "batch first" else (2, 0, 1)
        run = (lambda part, y: part(y).squeeze(2)) if how.feed_forward == "functional" else (lambda part, y: part(y))
        x = x.permute(*rows) if is_conv else x
        wide, curve = run(self.one, x), CURVES[how.curve]
        if how.gated.startswith("fused"):
            first, second = wide.chunk(2, 1 if is_conv else -1)
            wide = curve(first) * second if how.gated == "fused" else first * curve(second)
        else:
            wide = curve(wide) if self.beside is None else curve(wide) * run(self.beside, x)
        if how.dropout:
            wide = functional.dropout(wide, how.dropout, self.training)
        found = run(self.two, wide)
        return found.permute(*back) if is_conv else found


class Layer(nn.Module):
    """Sublayers on a residual stream; `crossing` ones look at a memory too."""

    def __init__(self, how: Writing, *, crossing: bool = False):
        super().__init__()
        self.how = how
        parts: list[nn.Module] = [Attention(how), *([Attention(how, crossing=True)] if crossing else [])]
        parts += [] if how.feed_forward == "none" else [FeedForward(how)]
        self.parts = nn.ModuleList(parts)
        norms = 0 if how.norm_place == "none" else len(parts) * (1 + (how.norm_place == "both"))
        norms = 1 if norms and how.parallel == "one norm" else norms
        self.norms = nn.ModuleList(make_norm(how.norm, how.width) for _ in range(norms))
        if how.layer_scale:
            self.gains = nn.ParameterList(torch.full((how.width,), 0.1) for _ in parts)
        self.drop = nn.Dropout(how.dropout) if how.dropout else None

    def run(self, number: int, x: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        """What one sublayer makes of its rows, as it is added."""
        part, how = self.parts[number], self.how
        if isinstance(part, Attention):
            found = part(x, memory, None) if part.crossing else part(x, x, hidden)
        else:
            found = part(x)
        if how.norm_place == "both":
            found = self.norms[2 * number + 1](found)
        if how.norm_place == "branch":
            found = self.norms[number](found)
        if how.layer_scale:
            found = found * self.gains[number]
        if how.residual == "branch":
            found = found * 0.3
        return found if self.drop is None else self.drop(found)

    def forward(self, x: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        how = self.how
        if how.parallel != "no":
            normed = [norm(x) for norm in self.norms] or [x]
            parts = [self.run(number, normed[number % len(normed)], memory, hidden) for number in range(2)]
            return x + parts[0] + parts[1]
        for number in range(len(self.parts)):
            y = x
            if how.norm_place in ("before", "both"):
                y = self.norms[number * (1 + (how.norm_place == "both"))](x)
            found = self.run(number, y, memory, hidden)
            x = x * 0.7 + found if how.residual == "stream" else x + found
            if how.residual == "after":
                x = x * 0.7
            if how.norm_place == "after":
                x = self.norms[number](x)
        return x


class Tower(nn.Module):
    """A table of words, places, layers, and a last norm."""

    def __init__(self, how: Writing, *, crossing: bool = False):
        super().__init__()
        self.how = how
        self.words = nn.Embedding(VOCAB, how.width)
        if how.positions == "learned":
            self.places = nn.Embedding(64, how.width)
        if how.positions == "sines kept":
            self.register_buffer("waves", self.make_waves(64))
        if how.embedding == "normed":
            self.first = make_norm(how.norm, how.width)
        sets = 1 if how.shared else how.layers
        self.rows = nn.ModuleList(Layer(how, crossing=crossing) for _ in range(sets))
        self.ends = make_norm(how.norm, how.width) if how.final_norm else None
        self.drop = nn.Dropout(how.dropout) if how.dropout else None

    def make_waves(self, places: int) -> Tensor:
        """Sines and cosines of places (Vaswani et al. 2017, section 3.5)."""
        half = torch.exp(torch.arange(0, self.how.width, 2).float() * (-math.log(10000.0) / self.how.width))
        angles = torch.arange(places).float()[:, None] * half
        waves = torch.zeros(places, self.how.width)
        waves[:, 0::2], waves[:, 1::2] = angles.sin(), angles.cos()
        return waves

    def begin(self, ids: Tensor) -> Tensor:
        """The rows that the first layer reads."""
        how, count = self.how, ids.shape[1]
        x = self.words(ids.t() if how.layout == "places first" else ids)
        x = x * math.sqrt(how.width) if how.embedding == "scaled" else x
        places = None
        if how.positions == "learned":
            places = self.places(torch.arange(count))
        elif how.positions == "sines kept":
            places = self.waves[:count]
        elif how.positions == "sines":
            places = self.make_waves(count)
        if places is not None:
            x = x + (places[:, None] if how.layout == "places first" else places)
        x = self.first(x) if how.embedding == "normed" else x
        return x if self.drop is None else self.drop(x)

    def forward(self, ids: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        x = self.begin(ids)
        for number in range(self.how.layers):
            x = self.rows[0 if self.how.shared else number](x, memory, hidden)
        return x if self.ends is None else self.ends(x)


def make_hidden(mask: str, ids: Tensor) -> Tensor | None:
    """Which place may not see which other, (batch or 1, 1, places, places); None where each sees all."""
    count = ids.shape[1]
    row, column = torch.arange(count)[:, None], torch.arange(count)[None, :]
    future = (column > row)[None, None]
    padding = (ids == 0)[:, None, None, :].expand(-1, -1, count, -1)
    return {
        "none": None,
        "causal": future,
        "padding": padding,
        "causal padding": future | padding,
        "window": future | (row - column >= NARROW)[None, None],
        "sides": ((row - column).abs() > 1)[None, None],
        "prefix": future & (column >= NARROW)[None, None],
        "blocks": (row // NARROW != column // NARROW)[None, None],
    }[mask]


class Whole(nn.Module):
    """A transformer written as asked."""

    def __init__(self, how: Writing):
        super().__init__()
        self.how = how
        self.reads = Tower(how) if how.kind == "both" else None
        self.writes = Tower(how, crossing=how.kind == "both")
        if how.hiding == "buffer":
            hidden = make_hidden(how.mask, torch.zeros(1, 64, dtype=torch.long))
            self.register_buffer("hidden", hidden)
        if how.head != "none":
            self.scores = nn.Linear(how.width, VOCAB if how.head == "vocabulary" else 11, bias=how.biased)
            if how.tied:
                self.scores.weight = self.writes.words.weight

    def forward(self, ids: Tensor, source: Tensor | None = None) -> Tensor:
        how = self.how
        memory = None if self.reads is None else self.reads(source, None, None)
        count = ids.shape[1]
        hidden = self.hidden[..., :count, :count] if how.hiding == "buffer" else make_hidden(how.mask, ids)
        x = self.writes(ids, memory, hidden)
        if how.head == "none":
            return x
        if how.head in ("first", "mean"):
            rows = x.transpose(0, 1) if how.layout == "places first" else x
            x = rows[:, 0] if how.head == "first" else rows.mean(1)
        return self.scores(x)


def make_inputs(how: Writing) -> tuple[Tensor, ...]:
    """Ids, the second sequence of which is padded; and those of a source."""
    ids = torch.arange(1, 1 + how.batch * LENGTH).view(how.batch, LENGTH) % VOCAB
    ids[-1, -2:] = 0
    source = torch.arange(3, 3 + how.batch * SOURCE).view(how.batch, SOURCE)
    return (ids, source) if how.kind == "both" else (ids,)
