"""Queries, keys and values in any hand-writing, before they meet."""

import math

import torch
from any_writing import PAST, ROOM, Writing
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


def turn(x: Tensor, how: str, past: int = 0) -> Tensor:
    """Rows (batch, heads, places, d_k) turned by their place, of which so many stand before the first."""
    places, each = x.shape[-2], x.shape[-1]
    angles = torch.outer(
        torch.arange(past, past + places).float(), 1.0 / 10000.0 ** (torch.arange(0, each, 2).float() / each)
    )
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
        return turn(x, how.positions, how.past)
    many = x.shape[-1] // 2
    return torch.cat((turn(x[..., :many], how.positions, how.past), x[..., many:]), -1)


class Kept(nn.Module):
    """Rows (batch, heads, places, d_k) that are kept of earlier places, with those that are made now."""

    def __init__(self, how: Writing, heads: int, each: int):
        super().__init__()
        self.how = how
        self.rows: Tensor
        self.register_buffer("rows", torch.randn(how.batch, heads, PAST if how.cache == "cat" else ROOM, each))

    def forward(self, x: Tensor) -> Tensor:
        """All of them, or the whole room for them."""
        end = PAST + x.shape[2]
        if self.how.cache == "cat":
            return torch.cat((self.rows, x), 2)
        if self.how.cache == "index_copy":
            self.rows.index_copy_(2, torch.arange(PAST, end), x)
        else:
            self.rows[:, :, PAST:end] = x
        return self.rows if self.how.cache == "whole" else self.rows[:, :, :end]
