"""The layers around an attention in any hand-writing."""

import math

import torch
from any_writing import Writing
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
        self.how, self.gain = how, None
        if not how.endswith("alone"):
            self.gain = nn.Parameter(torch.zeros(width) if how.endswith("from one") else torch.ones(width))
        if how.startswith("spelt layer"):
            self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "spelt layer":
            away = x - x.mean(-1, keepdim=True)
            return away / torch.sqrt((away * away).mean(-1, keepdim=True) + 1e-5) * self.gain + self.shift
        if self.how == "spelt layer by std":
            away = x - x.mean(-1, keepdim=True)
            return self.gain * away / (x.std(-1, keepdim=True) + 1e-6) + self.shift
        if self.how == "rms alone":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.how == "spelt rms from one":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.gain)
        square = x.pow(2) if self.how == "spelt rms by pow" else x * x
        return self.gain * (x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6))


def make_norm(how: str, width: int) -> nn.Module:
    """A norm of that kind."""
    if how == "layer":
        return nn.LayerNorm(width)
    if how == "layer alone":
        return nn.LayerNorm(width, elementwise_affine=False)
    return nn.RMSNorm(width) if how == "rms" else SpeltNorm(width, how)


class FeedForward(nn.Module):
    """Each place by itself, as it is asked for."""

    def __init__(self, how: Writing):
        super().__init__()
        self.how, wide, inner = how, how.width, how.d_ff
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
        if crossing and not how.crossing_norm:
            self.norms[1] = nn.Identity()
        if crossing and how.context_norm:
            self.before_memory = make_norm(how.norm, how.context or how.width)

    def mix_with_before(self, x: Tensor) -> Tensor:
        """Rows whose first half is that of the place before."""
        first, second = x.chunk(2, -1)
        ends = (0, 0, 1, -1) if self.how.layout == "batch first" else (0, 0, 0, 0, 1, -1)
        return torch.cat((functional.pad(first, ends), second), -1)

    def run(self, number: int, x: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        """What one sublayer makes of its rows, as it is added."""
        part, how = self.parts[number], self.how
        is_attention = isinstance(part, Attention)
        is_crossing = is_attention and part.crossing
        if how.token_shift in ("both", "attention" if is_attention else "feed-forward") and not is_crossing:
            x = self.mix_with_before(x)
        found = part(x, memory, None) if is_crossing else part(x, x, hidden) if is_attention else part(x)
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
        if memory is not None and hasattr(self, "before_memory"):
            memory = self.before_memory(memory)
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
