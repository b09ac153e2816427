"""Scores in any hand-writing: what is added to them, what is hidden of them, and their shares."""

import math

import torch
from any_writing import NARROW, Writing
from torch import Tensor, nn
from torch.nn import functional

MOST, BUCKETS = 64, 8
"""How many places there may be, and in how many buckets how far they stand apart is counted."""


class Far(nn.Module):
    """What is added to scores for how far apart two places stand."""

    def __init__(self, how: Writing):
        super().__init__()
        self.how = how
        if how.extra == "relative":
            self.table = nn.Embedding(2 * NARROW + 1, how.heads)
        elif how.extra == "buckets":
            self.table = nn.Embedding(2 * BUCKETS, how.heads)
        elif how.extra == "rows":
            self.table = nn.Embedding(2 * NARROW + 1, how.head_width)
        elif how.extra == "skewed":
            self.rows = nn.Parameter(torch.randn(how.heads, MOST, how.head_width))

    def forward(self, q: Tensor, keys: int) -> Tensor:
        """Numbers (heads, places, places) or (batch, heads, places, places) for queries (batch, heads, places, d_k)."""
        how, queries = self.how, q.shape[2]
        if how.extra == "skewed":
            return self.skew(q @ self.rows[:, MOST - queries :].transpose(1, 2))
        far = torch.arange(keys)[None, :] - torch.arange(how.past, how.past + queries)[:, None]
        if how.extra == "relative":
            return self.table(far.clamp(-NARROW, NARROW) + NARROW).permute(2, 0, 1)
        if how.extra == "buckets":
            return self.table(self.put_in_buckets(far)).permute(2, 0, 1)
        if how.extra == "rows":
            return torch.einsum("bhqd,qkd->bhqk", q, self.table(far.clamp(-NARROW, NARROW) + NARROW))
        slopes = torch.tensor([2.0 ** (-8 * (head + 1) / how.heads) for head in range(how.heads)])
        return -slopes[:, None, None] * far.abs()

    def skew(self, scores: Tensor) -> Tensor:
        """Scores by distance as scores by place (Huang et al. 2018, section 3.4.1)."""
        *lead, rows, columns = scores.shape
        return functional.pad(scores, (1, 0)).view(*lead, columns + 1, rows)[:, :, 1:]

    def put_in_buckets(self, far: Tensor) -> Tensor:
        """Which bucket each distance belongs into (Raffel et al. 2020, section 2.1)."""
        near = BUCKETS // 2
        size = far.abs()
        late = near + (torch.log(size.float().clamp(min=1) / near) / math.log(MOST / near) * near).long()
        return (far > 0).long() * BUCKETS + torch.where(size < near, size, late.clamp(max=BUCKETS - 1))


def hide(how: Writing, scores: Tensor, hidden: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scores with what is added to them, and a mask in the writing asked for."""
    if how.extra == "cap":
        scores = 30.0 * torch.tanh(scores / 30.0)
    if bias is not None:
        scores = scores + bias
    if hidden is None:
        return scores
    queries, keys = hidden.shape[-2:]
    filled = -1e9 if how.hiding == "buffer" else -math.inf
    if how.hiding == "where":
        return torch.where(hidden, torch.tensor(-math.inf), scores)
    if how.hiding == "inf":
        return scores + torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)
    if how.hiding == "finfo":
        return scores + hidden.float() * torch.finfo(scores.dtype).min
    if how.hiding == "big":
        return scores - 1e4 * hidden.float()
    if how.hiding == "in place":
        return scores.masked_fill_(hidden, filled)
    if how.hiding == "index put":
        scores[..., hidden[0, 0]] = filled
        return scores
    if how.hiding == "zeros of tril":
        return scores.masked_fill(torch.ones(keys, keys).tril()[keys - queries :] == 0, filled)
    if how.hiding == "triu":
        return scores + torch.full((queries, keys), -math.inf).triu(1 + keys - queries)
    return scores.masked_fill(hidden, filled)


def share(how: Writing, scores: Tensor, training: bool, dim: int = -1) -> Tensor:
    """Shares of scores, each row of which sums to 1."""
    if how.softmax == "float32":
        weights = functional.softmax(scores, dim, dtype=torch.float64).to(scores.dtype)
    elif how.softmax.startswith("by hand"):
        less = scores - scores.amax(dim, keepdim=True) if how.softmax == "by hand less max" else scores
        exps = less.exp()
        weights = exps / exps.sum(dim, keepdim=True)
    else:
        weights = nn.Softmax(dim)(scores) if how.softmax == "module" else scores.softmax(dim)
    return functional.dropout(weights, how.dropout, training) if how.dropout else weights


def look_heads_last(
    how: Writing, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, bias: Tensor | None, late: float, drop: bool
) -> Tensor:
    """What heads find of rows (places, batch, heads, d_k), their scores being (places, places, batch, heads)."""
    scores = torch.einsum("ibhd,jbhd->ijbh", q, k)
    scores = scores * late if late != 1 else scores
    if bias is not None:
        scores = scores + (bias.permute(2, 3, 0, 1) if bias.dim() == 4 else bias.permute(1, 2, 0)[:, :, None])
    if how.extra == "cap":
        scores = 30.0 * torch.tanh(scores / 30.0)
    if hidden is not None:
        behind = hidden.permute(2, 3, 0, 1)
        if how.hiding in ("inf", "finfo", "big", "triu"):
            scores = scores - 1e30 * behind.float()
        else:
            scores = scores.masked_fill(behind, -math.inf)
    return torch.einsum("ijbh,jbhd->ibhd", share(how, scores, drop, 1), v)


def look_in_windows(how: Writing, q: Tensor, k: Tensor, v: Tensor, late: float, drop: bool) -> Tensor:
    """What heads find in windows of `NARROW` places, rows being (batch, heads, places, d_k) or (both, places, d_k)."""
    count = q.shape[-2]
    many = -(-count // NARROW)
    rows = [functional.pad(one, (0, 0, 0, many * NARROW - count)) for one in (q, k, v)]
    q, k, v = (one.reshape(*one.shape[:-2], many, NARROW, one.shape[-1]) for one in rows)
    if how.product == "einsum":
        lead = "bwid,bwjd->bwij" if q.dim() == 4 else "bhwid,bhwjd->bhwij"
        scores = torch.einsum(lead, q, k)
    else:
        scores = q @ k.transpose(-1, -2)
    hidden = None
    if many * NARROW > count:
        hidden = (torch.arange(many * NARROW) >= count).view(many, 1, NARROW)
    weights = share(how, hide_all(how, scores * late if late != 1 else scores, hidden), drop)
    found = weights @ v
    return found.flatten(-3, -2)[..., :count, :]


def hide_all(how: Writing, scores: Tensor, hidden: Tensor | None) -> Tensor:
    """Scores where some are hidden in each window."""
    if how.extra == "cap":
        scores = 30.0 * torch.tanh(scores / 30.0)
    return scores if hidden is None else scores.masked_fill(hidden, -1e9)
