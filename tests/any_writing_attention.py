"""An attention in any hand-writing."""

import math
from dataclasses import replace

import torch
from any_writing import Writing
from any_writing_rows import Kept, Maker, turn_some
from any_writing_scores import Far, hide, look_heads_last, look_in_windows, share
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Attention as it is asked for; `x` asks, `memory` answers."""

    def __init__(self, how: Writing, *, crossing: bool = False, ends: bool = True):
        super().__init__()
        self.how, self.crossing = how, crossing
        self.one: nn.Module
        self.two: nn.Module
        self.three: nn.Module
        self.heads, self.keys, self.each = how.heads, how.heads // how.sharing, how.head_width
        wide, biased = how.width, how.biased
        context = (how.context or wide) if crossing else wide
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
            heads = [
                [nn.Linear(one, self.each, bias=biased) for _ in range(self.heads)] for one in (wide, context, context)
            ]
            self.one, self.two, self.three = map(nn.ModuleList, heads)
        elif how.projection == "head modules":
            alone = replace(how, heads=1, projection="three")
            self.every = nn.ModuleList(Attention(alone, crossing=crossing, ends=False) for _ in range(self.heads))
        else:
            counts = ((wide, self.heads, self.each), (context, self.keys, self.each), (context, self.keys, self.value))
            made = "addmm" if how.projection == "packed" else how.projection
            self.one, self.two, self.three = [Maker(*count, made, biased=biased) for count in counts]
        self.last = nn.Linear(inner, wide, bias=biased) if ends else nn.Identity()
        if how.head_norm:
            self.norm_q, self.norm_k = nn.RMSNorm(self.each), nn.RMSNorm(self.each)
        if how.extra not in ("none", "cap") and not crossing and how.projection != "head modules":
            self.far = Far(how)
        if how.cache != "none" and not crossing:
            self.kept_k, self.kept_v = Kept(how, self.keys, self.each), Kept(how, self.keys, self.value)

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
        if how.projection == "head modules":
            return self.last(torch.cat([one(x, memory, hidden) for one in self.every], -1))
        q, k, v = self.project(x, memory)
        if how.head_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        if how.product == "heads last":
            if how.layout == "batch first":
                q, k, v = (one.transpose(0, 1) for one in (q, k, v))
            found = self.look_apart(q, k, v, hidden).flatten(2)
            return self.last(found if how.layout == "places first" else found.transpose(0, 1))
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

    def ready(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
        """Rows (batch, heads, places, d_k) turned, kept and scaled, and what scores are still to be multiplied by."""
        how, root = self.how, math.sqrt(self.each)
        if how.positions.startswith("rotary") and not self.crossing:
            q, k = (turn_some(one, how) for one in (q, k))
        if how.cache != "none" and not self.crossing:
            k, v = self.kept_k(k), self.kept_v(v)
        if how.scale == "q":
            q = q / root
        if how.scale == "k":
            k = k * self.each**-0.5
        if how.scale == "both":
            q, k = q * self.each**-0.25, k * self.each**-0.25
        return q, k, v, {"scores": 1 / root, "times": self.each**-0.5, "odd": 0.37}.get(how.scale, 1.0)

    def look_apart(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        """What heads find of rows (places, batch, heads, d_k)."""
        q, k, v, late = self.ready(*(one.permute(1, 2, 0, 3) for one in (q, k, v)))
        bias = self.bias(q, k)
        q, k, v = (one.permute(2, 0, 1, 3) for one in (q, k, v))
        return look_heads_last(self.how, q, k, v, hidden, bias, late, self.training)

    def look(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        """What heads find, (batch, heads, places, d_k) as they are."""
        how, root = self.how, math.sqrt(self.each)
        q, k, v, late = self.ready(q, k, v)
        bias = self.bias(q, k)
        if how.grouping == "einsum":
            q = q.reshape(q.shape[0], self.keys, how.sharing, *q.shape[2:])
            scores = hide(
                how,
                torch.einsum("bkgqd,bksd->bkgqs", q, k) * late,
                None if hidden is None else hidden[:, :, None],
                None if bias is None else bias.view(self.keys, how.sharing, *bias.shape[1:]),
            )
            return torch.einsum("bkgqs,bksd->bkgqd", scores.softmax(-1), v).flatten(1, 2)
        if how.sharing > 1:
            k, v = (self.repeat(one) for one in (k, v))
        if how.mask == "cut" and not self.crossing:
            one, two, three = (part.flatten(0, 1) for part in (q, k, v)) if how.merged else (q, k, v)
            return look_in_windows(how, one, two, three, late, self.training).reshape(*q.shape[:-1], -1)
        if how.merged:
            return self.look_merged(q, k, v, hidden, late)
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
            weights = share(
                how, torch.baddbmm(start, flat[0], flat[1].transpose(1, 2), beta=1, alpha=late), self.training
            )
            return torch.bmm(weights, flat[2]).view(batch, heads, places, -1)
        if how.product == "letters":
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        elif how.product == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        else:
            scores = q @ k.transpose(-2, -1)
        scores = scores / root if how.scale == "scores" else scores * late if late != 1 else scores
        weights = share(how, hide(how, scores, hidden, bias), self.training)
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

    def look_merged(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, late: float) -> Tensor:
        """What heads find where batch and heads are one axis."""
        batch, heads, places, _ = q.shape
        q, k, v = (one.reshape(batch * heads, *one.shape[2:]) for one in (q, k, v))
        if hidden is not None:
            hidden = hidden[0] if hidden.shape[0] == 1 else hidden.repeat_interleave(heads, 0)[:, 0]
        if self.how.hiding == "index put" and hidden is not None:
            hidden = hidden[None]
        scores = torch.einsum("bqd,bkd->bqk", q, k) if self.how.product == "einsum" else torch.bmm(q, k.transpose(1, 2))
        weights = share(self.how, hide(self.how, scores * late if late != 1 else scores, hidden, None), self.training)
        return torch.bmm(weights, v).view(batch, heads, places, -1)

    def repeat(self, x: Tensor) -> Tensor:
        """Keys or values, each for several heads."""
        if self.how.grouping == "one head":
            return x[:, 0].unsqueeze(1)
        if self.how.grouping == "repeat_interleave":
            return x.repeat_interleave(self.how.sharing, 1)
        return x[:, :, None].expand(-1, -1, self.how.sharing, -1, -1).reshape(x.shape[0], self.heads, *x.shape[2:])

    def bias(self, q: Tensor, k: Tensor) -> Tensor | None:
        """What is added to scores, (heads, places, places), and in front of these the batch where rows take part."""
        return self.far(q, k.shape[2]) if hasattr(self, "far") else None
