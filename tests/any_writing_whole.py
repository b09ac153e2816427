"""A whole transformer in any hand-writing."""

import math

import torch
from any_writing import NARROW, ROOM, SOURCE, VOCAB, Writing
from any_writing_layers import Layer, make_norm
from any_writing_scores import MOST
from torch import Tensor, nn
from torch.nn import functional


def look_up(how: Writing, words: nn.Embedding, ids: Tensor) -> Tensor:
    """The rows of ids, by the module or by an index of its table."""
    return words.weight[ids] if how.table == "indexed" else words(ids)


class Tower(nn.Module):
    """A table of words, places, layers, and a last norm."""

    def __init__(self, how: Writing, *, crossing: bool = False):
        super().__init__()
        self.how = how
        self.words: nn.Embedding = nn.Embedding(VOCAB, how.width)
        if how.positions == "learned":
            self.places = nn.Embedding(MOST, how.width)
        if how.positions == "sines kept":
            self.register_buffer("waves", self.make_waves(MOST))
        if how.embedding == "normed":
            self.first = make_norm(how.norm, how.width)
        if how.skips:
            self.joins = nn.ModuleList(nn.Linear(2 * how.width, how.width) for _ in range(how.layers // 2))
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

    def begin(self, x: Tensor) -> Tensor:
        """The rows that the first layer reads."""
        how, count = self.how, x.shape[0 if self.how.layout == "places first" else 1]
        x = x * math.sqrt(how.width) if how.embedding == "scaled" else x
        x = x / math.sqrt(how.width) if how.embedding == "divided" else x
        places = None
        if how.positions == "learned":
            places = self.places(torch.arange(how.past, how.past + count))
        elif how.positions == "sines kept":
            places = self.waves[how.past : how.past + count]
        elif how.positions == "sines":
            places = self.make_waves(how.past + count)[how.past :]
        if places is not None:
            x = x + (places[:, None] if how.layout == "places first" else places)
        x = self.first(x) if how.embedding == "normed" else x
        return x if self.drop is None else self.drop(x)

    def forward(self, ids: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        """The rows of ids, or of what was looked up of them already."""
        x, kept = self.begin(ids if ids.is_floating_point() else look_up(self.how, self.words, ids)), []
        for number in range(self.how.layers):
            if self.how.skips and 2 * number >= self.how.layers + self.how.layers % 2:
                x = self.joins[self.how.layers - 1 - number](torch.cat((x, kept.pop()), -1))
            elif self.how.skips and 2 * number < self.how.layers - self.how.layers % 2:
                kept.append(x)
            x = self.rows[0 if self.how.shared else number](x, memory, hidden)
        return x if self.ends is None else self.ends(x)


def make_hidden(how: Writing, ids: Tensor) -> Tensor | None:
    """Which place may not see which other, (batch or 1, 1, places, places); None where each sees all."""
    count = ids.shape[1]
    keys = ROOM if how.cache == "whole" else how.past + count
    row, column = torch.arange(how.past, how.past + count)[:, None], torch.arange(keys)[None, :]
    if how.cache == "whole" and how.mask == "none":
        return (column >= how.past + count).expand(count, -1)[None, None]
    future = (column > row)[None, None]
    padding = (ids == 0)[:, None, None, :].expand(-1, -1, count, -1)
    piece = (ids % NARROW == 0).cumsum(1)
    return {
        "none": lambda: None,
        "cut": lambda: None,
        "causal": lambda: future,
        "padding": lambda: padding,
        "causal padding": lambda: future | padding,
        "window": lambda: future | (row - column >= NARROW)[None, None],
        "sides": lambda: ((row - column).abs() > 1)[None, None],
        "prefix": lambda: future & (column >= NARROW)[None, None],
        "blocks": lambda: (row // NARROW != column // NARROW)[None, None],
        "packed": lambda: future | (piece[:, :, None] != piece[:, None, :])[:, None],
    }[how.mask]()


class Whole(nn.Module):
    """A transformer written as asked."""

    def __init__(self, how: Writing):
        super().__init__()
        self.how = how
        self.reads = Tower(how) if how.kind == "both" else None
        self.writes = Tower(how, crossing=how.kind in ("both", "beside"))
        if how.hiding == "buffer":
            hidden = make_hidden(how, torch.zeros(1, MOST, dtype=torch.long))
            self.register_buffer("hidden", hidden)
        if how.head != "none" and how.tied != "by use":
            self.scores = nn.Linear(how.width, VOCAB if how.head == "vocabulary" else 11, bias=how.biased)
            if how.tied == "assigned":
                self.scores.weight = self.writes.words.weight

    def get_input_embeddings(self) -> nn.Embedding:
        return self.writes.words

    def put_in_order(self, ids: Tensor) -> Tensor:
        """Ids as the layers have their places."""
        return ids.t() if self.how.layout == "places first" else ids

    def forward(self, ids: Tensor, source: Tensor | None = None, hidden: Tensor | None = None) -> Tensor:
        how = self.how
        memory = source
        if self.reads is not None:
            memory = self.reads(self.put_in_order(source), None, None)
        elif memory is not None and how.layout == "places first":
            memory = memory.transpose(0, 1)
        count = ids.shape[1]
        if not how.mask_given:
            hidden = self.hidden[..., :count, :count] if how.hiding == "buffer" else make_hidden(how, ids)
        rows = self.put_in_order(ids)
        rows = look_up(how, self.get_input_embeddings(), rows) if how.looked_up == "root" else rows
        x = self.writes(rows, memory, hidden)
        if how.head == "none":
            return x
        if how.head in ("first", "mean"):
            rows = x.transpose(0, 1) if how.layout == "places first" else x
            x = rows[:, 0] if how.head == "first" else rows.mean(1)
        return functional.linear(x, self.get_input_embeddings().weight) if how.tied == "by use" else self.scores(x)


def make_inputs(how: Writing) -> tuple[Tensor | None, ...]:
    """Ids, the second sequence of which is padded; those of a source, or its rows; and a mask, where it is given."""
    ids = torch.arange(1, 1 + how.batch * how.length).view(how.batch, how.length) % VOCAB
    if how.length > 2:
        ids[-1, -2:] = 0
    hidden = make_hidden(how, ids) if how.mask_given else None
    if how.kind == "both":
        return ids, torch.arange(3, 3 + how.batch * SOURCE).view(how.batch, SOURCE), hidden
    if how.kind == "beside":
        return ids, torch.randn(how.batch, SOURCE, how.context or how.width), hidden
    return (ids, None, hidden) if how.mask_given else (ids,)
