"""An attention in any hand-writing."""

import math

import torch
from any_writing import NARROW, Writing
from torch import Tensor, nn
from torch.nn import functional


class Maker(nn.Module):
    """A linear layer as it is asked for: a module, a function with numbers of its own, or letters."""

    def __init__(self, wide: int, heads: int, each: int, how: str, *, biased: bool):
        super().__init__()
        self.how, self.heads, self.each = how, heads, each
        self.weight = self.shift = None
        if how == "einsum":
            self.weight = nn.Parameter(torch.randn(wide, heads, each) / math.sqrt(wide))
            self.shift = nn.Parameter(torch.zeros(heads, each)) if biased else None
        elif how == "addmm":
            self.weight = nn.Parameter(torch.randn(wide, heads * each) / math.sqrt(wide))
            self.shift = nn.Parameter(torch.zeros(heads * each))
        elif how == "functional":
            self.weight = nn.Parameter(torch.randn(heads * each, wide) / math.sqrt(wide))
            self.shift = nn.Parameter(torch.zeros(heads * each)) if biased else None
        else:
            self.made = nn.Linear(wide, heads * each, bias=biased)

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "einsum":
            made = torch.einsum("abd,dhk->abhk", x, self.weight)
            return made if self.shift is None else made + self.shift
        if self.how == "addmm":
            flat = torch.addmm(self.shift, x.reshape(-1, x.shape[-1]), self.weight)
            return flat.view(*x.shape[:2], self.heads, self.each)
        flat = functional.linear(x, self.weight, self.shift) if self.how == "functional" else self.made(x)
        return flat.view(*flat.shape[:2], self.heads, self.each)


def turn(x: Tensor, how: str) -> Tensor:
    """Rows (batch, heads, places, d_k) turned by their place."""
    places, each = x.shape[-2], x.shape[-1]
    angles = torch.outer(torch.arange(places).float(), 1.0 / 10000.0 ** (torch.arange(0, each, 2).float() / each))
    if how == "rotary complex":
        turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)
    if how == "rotary pairs":
        cosines, sines = angles.cos(), angles.sin()
        one, two = x[..., ::2], x[..., 1::2]
        return torch.stack((one * cosines - two * sines, one * sines + two * cosines), -1).flatten(-2)
    angles = torch.cat((angles, angles), -1)
    one, two = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-two, one), -1) * angles.sin()


def turn_some(x: Tensor, how: Writing) -> Tensor:
    """The same, of which some are left as they are where that is asked for."""
    if how.turned == "all":
        return turn(x, how.positions)
    many = x.shape[-1] // 2
    return torch.cat((turn(x[..., :many], how.positions), x[..., many:]), -1)


class Attention(nn.Module):
    """Attention as it is asked for; `x` asks, `memory` answers."""

    def __init__(self, how: Writing, *, crossing: bool = False):
        super().__init__()
        self.how, self.crossing = how, crossing
        self.one: nn.Module
        self.two: nn.Module
        self.three: nn.Module
        self.heads, self.keys, self.each = how.heads, how.heads // how.sharing, how.head_width
        wide, biased = how.width, how.biased
        if how.product == "module":
            dropout = how.dropout
            self.whole = nn.MultiheadAttention(
                wide, self.heads, dropout=dropout, bias=biased, batch_first=how.layout == "batch first"
            )
            return
        self.value = how.value_width or self.each
        inner = self.heads * self.value
        self.parts = (self.heads * self.each, self.keys * self.each, self.keys * self.value)
        if how.projection == "packed" and not crossing:
            self.pack = nn.Parameter(torch.randn(sum(self.parts), wide) / math.sqrt(wide))
        elif how.projection in ("chunk", "split", "unbind", "by head") and not crossing:
            self.all = nn.Linear(wide, sum(self.parts), bias=biased)
        elif how.projection == "each head":
            heads = [[nn.Linear(wide, self.each, bias=biased) for _ in range(self.heads)] for _ in range(3)]
            self.one, self.two, self.three = map(nn.ModuleList, heads)
        else:
            counts = ((self.heads, self.each), (self.keys, self.each), (self.keys, self.value))
            made = "addmm" if how.projection == "packed" else how.projection
            self.one, self.two, self.three = [Maker(wide, *count, made, biased=biased) for count in counts]
        self.last = nn.Linear(inner, wide, bias=biased)
        if how.head_norm:
            self.norm_q, self.norm_k = nn.RMSNorm(self.each), nn.RMSNorm(self.each)
        if how.extra == "relative" and not crossing:
            self.far = nn.Embedding(2 * NARROW + 1, self.heads)

    def project(self, x: Tensor, memory: Tensor) -> list[Tensor]:
        """Queries, keys and values, each (places or batch, batch or places, heads, d_k)."""
        if hasattr(self, "pack"):
            made = [functional.linear(x, weight) for weight in self.pack.chunk(3)]
            return [one.view(*one.shape[:2], self.heads, -1) for one in made]
        if not hasattr(self, "all"):
            return [self.one(x), self.two(memory), self.three(memory)]
        made, how = self.all(x), self.how.projection
        first, second = made.shape[:2]
        if how == "unbind":
            return list(made.reshape(first, second, 3, self.heads, self.each).unbind(2))
        if how == "by head":
            return list(made.view(first, second, self.heads, 3 * self.each).chunk(3, -1))
        cut = made.chunk(3, -1) if how == "chunk" else made.split(self.parts, -1)
        counts = (self.heads, self.keys, self.keys)
        return [one.view(first, second, count, -1) for one, count in zip(cut, counts, strict=True)]

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor | None) -> Tensor:
        how = self.how
        if how.product == "module":
            return self.whole(x, memory, memory, attn_mask=self.write_module_mask(hidden), need_weights=False)[0]
        if how.projection == "each head":
            rows = (1, 0) if how.layout == "places first" else (0, 1)
            every = []
            for parts in zip(self.one.children(), self.two.children(), self.three.children(), strict=True):
                made = [part(y) for part, y in zip(parts, (x, memory, memory), strict=True)]
                q, k, v = (one.permute(*rows, 2).unsqueeze(1) for one in made)
                every.append(self.look(q, k, v, hidden))
            found = torch.cat([one.squeeze(1) for one in every], -1)
            return self.last(found.transpose(0, 1) if how.layout == "places first" else found)
        q, k, v = self.project(x, memory)
        if how.head_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        order = (1, 2, 0, 3) if how.layout == "places first" else (0, 2, 1, 3)
        q, k, v = (one.permute(*order) for one in (q, k, v))
        found = self.look(q, k, v, hidden)
        back = (2, 0, 1, 3) if how.layout == "places first" else (0, 2, 1, 3)
        return self.last(found.permute(*back).flatten(2))

    def write_module_mask(self, hidden: Tensor | None) -> Tensor | None:
        """The mask as torch's own attention takes it, (batch · heads, places, places) or without the first."""
        if hidden is None:
            return None
        mask = hidden[0, 0] if hidden.shape[0] == 1 else hidden.expand(-1, self.heads, -1, -1).flatten(0, 1)
        return (
            mask
            if self.how.hiding in ("masked_fill", "buffer")
            else torch.zeros(mask.shape).masked_fill(mask, -math.inf)
        )

    def look(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        """What heads find, (batch, heads, places, d_k) as they are."""
        how, root = self.how, math.sqrt(self.each)
        if how.positions.startswith("rotary") and not self.crossing:
            q, k = (turn_some(one, how) for one in (q, k))
        if how.scale == "q":
            q = q / root
        if how.scale == "k":
            k = k * self.each**-0.5
        if how.scale == "both":
            q, k = q * self.each**-0.25, k * self.each**-0.25
        late = {"scores": 1 / root, "times": self.each**-0.5, "odd": 0.37}.get(how.scale, 1.0)
        bias = self.bias(q.shape[2], k.shape[2])
        if how.grouping == "einsum":
            q = q.reshape(q.shape[0], self.keys, how.sharing, *q.shape[2:])
            scores = self.hide(
                torch.einsum("bkgqd,bksd->bkgqs", q, k) * late,
                None if hidden is None else hidden[:, :, None],
                None if bias is None else bias.view(self.keys, how.sharing, *bias.shape[1:]),
            )
            return torch.einsum("bkgqs,bksd->bkgqd", scores.softmax(-1), v).flatten(1, 2)
        if how.sharing > 1:
            k, v = (self.repeat(one) for one in (k, v))
        if how.product == "sdpa":
            return self.look_in_one(q, k, v, hidden, bias, late)
        if how.product == "baddbmm":
            batch, heads, places, each = q.shape
            flat = [one.reshape(batch * heads, -1, each) for one in (q, k, v)]
            start = torch.zeros(1, places, k.shape[2])
            if hidden is not None:
                start = start.masked_fill(hidden.expand(batch, heads, -1, -1).flatten(0, 1), -1e9)
            if bias is not None:
                start = start + bias.repeat(batch, 1, 1)
            weights = self.share(torch.baddbmm(start, flat[0], flat[1].transpose(1, 2), beta=1, alpha=late))
            return torch.bmm(weights, flat[2]).view(batch, heads, places, -1)
        if how.product == "letters":
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        elif how.product == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        else:
            scores = q @ k.transpose(-2, -1)
        scores = scores / root if how.scale == "scores" else scores * late if late != 1 else scores
        weights = self.share(self.hide(scores, hidden, bias))
        if how.product == "letters":
            return torch.einsum("bhqk,bkhd->bqhd", weights, v).transpose(1, 2)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v) if how.product == "einsum" else weights @ v

    def look_in_one(self, q, k, v, hidden, bias, late) -> Tensor:
        """Attention by torch's one function."""
        how = self.how
        mask = None if hidden is None else ~hidden
        if how.hiding not in ("masked_fill", "buffer", "is_causal") and hidden is not None:
            mask = torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)
        if bias is not None:
            is_filled = how.hiding in ("masked_fill", "buffer", "where")
            mask = bias[None] if hidden is None else bias.masked_fill(hidden, -math.inf) if is_filled else bias + mask
        dropout = how.dropout if self.training else 0.0
        is_causal = how.hiding == "is_causal" and not self.crossing
        return functional.scaled_dot_product_attention(
            q, k, v, None if is_causal else mask, dropout, is_causal, scale=late
        )

    def repeat(self, x: Tensor) -> Tensor:
        """Keys or values, each for several heads."""
        if self.how.grouping == "repeat_interleave":
            return x.repeat_interleave(self.how.sharing, 1)
        return x[:, :, None].expand(-1, -1, self.how.sharing, -1, -1).reshape(x.shape[0], self.heads, *x.shape[2:])

    def bias(self, queries: int, keys: int) -> Tensor | None:
        """What is added to scores, (heads, places, places)."""
        if self.crossing or self.how.extra not in ("relative", "alibi"):
            return None
        far = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        if self.how.extra == "relative":
            return self.far(far.clamp(-NARROW, NARROW) + NARROW).permute(2, 0, 1)
        slopes = torch.tensor([2.0 ** (-8 * (head + 1) / self.heads) for head in range(self.heads)])
        return -slopes[:, None, None] * far.abs()

    def hide(self, scores: Tensor, hidden: Tensor | None, bias: Tensor | None) -> Tensor:
        """Scores with what is added to them, and a mask in the writing asked for."""
        if self.how.extra == "cap":
            scores = 30.0 * torch.tanh(scores / 30.0)
        if bias is not None:
            scores = scores + bias
        if hidden is None:
            return scores
        how = self.how.hiding
        if how == "where":
            return torch.where(hidden, torch.tensor(-math.inf), scores)
        if how == "inf":
            return scores + torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)
        if how == "finfo":
            return scores + hidden.float() * torch.finfo(scores.dtype).min
        if how == "big":
            return scores - 1e4 * hidden.float()
        return scores.masked_fill(hidden, -1e9 if how == "buffer" else -math.inf)

    def share(self, scores: Tensor) -> Tensor:
        """Shares of scores, each row of which sums to 1."""
        how = self.how.softmax
        if how == "float32":
            weights = functional.softmax(scores, -1, dtype=torch.float64).to(scores.dtype)
        elif how.startswith("by hand"):
            less = scores - scores.amax(-1, keepdim=True) if how == "by hand less max" else scores
            exps = less.exp()
            weights = exps / exps.sum(-1, keepdim=True)
        else:
            weights = nn.Softmax(-1)(scores) if how == "module" else scores.softmax(-1)
        return functional.dropout(weights, self.how.dropout, self.training) if self.how.dropout else weights
