"""States that are corrected row by row or faded in pieces, and what is read of them."""

import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.branches.states import describe_recurrence
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.recognition.between import list_reading_data
from xray.story.states.lanes import lay_lanes
from xray.story.states.names import name_state_steps, tell_read

WIDTH, KEYS, TIMES, D_K, D_V, PIECE = 13, 3, 2, 5, 7, 11
VALUES = KEYS * TIMES


class Delta(nn.Module):
    """Rows of a piece are written into a state less what it gives for their keys, all at once (Qwen 3.5)."""

    pads_last = False

    def __init__(self):
        super().__init__()
        self.rows = nn.Linear(WIDTH, 2 * KEYS * D_K + VALUES * D_V)
        self.kept = nn.Parameter(torch.zeros(VALUES))
        self.strength, self.fade, self.last = nn.Linear(WIDTH, VALUES), nn.Linear(WIDTH, VALUES), nn.Linear(42, WIDTH)

    def unit(self, x):
        return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + 1e-6)

    def solve(self, system, rows):
        return torch.linalg.solve_triangular(system, rows, upper=False, unitriangular=True)

    def share(self, rows):
        return rows.sigmoid()

    def known(self, key, state):
        return key @ state

    def keep(self, fade):
        return fade.exp()

    def ask(self, query, fade):
        return query

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = self.rows(x).split([KEYS * D_K, KEYS * D_K, VALUES * D_V], dim=-1)
        query, key = (one.reshape(batch, length, KEYS, D_K).repeat_interleave(TIMES, dim=2) for one in (query, key))
        value = value.reshape(batch, length, VALUES, D_V)
        strength, fade = self.share(self.strength(x)), nn.functional.softplus(self.fade(x)).neg()
        query, key, value, strength, fade = (one.transpose(1, 2) for one in (query, key, value, strength, fade))
        if self.pads_last:
            query, key = self.unit(query) * D_K**-0.5, self.unit(key)
        more, come = -length % PIECE, length
        if more:
            query, key, value = (nn.functional.pad(one, (0, 0, 0, more)) for one in (query, key, value))
            strength, fade = (nn.functional.pad(one, (0, more)) for one in (strength, fade))
            length += more
        if not self.pads_last:
            query, key = self.unit(query) * D_K**-0.5, self.unit(key)
        written, beside = value * strength[..., None], key * strength[..., None]
        query, key, written, beside = (
            one.reshape(batch, VALUES, -1, PIECE, one.shape[-1]) for one in (query, key, written, beside)
        )
        fade = fade.reshape(batch, VALUES, -1, PIECE).cumsum(dim=3)
        between = (fade[..., None] - fade[..., None, :]).exp()
        system, scores = (beside @ key.transpose(-1, -2)) * between, (query @ key.transpose(-1, -2)) * between
        written, read = self.solve(system, written), self.solve(system, beside * fade.exp()[..., None])
        state, found, query = torch.zeros(batch, VALUES, D_K, D_V), torch.zeros_like(written), self.ask(query, fade)
        for piece in range(length // PIECE):
            new = written[:, :, piece] - self.known(read[:, :, piece], state)
            found[:, :, piece] = query[:, :, piece] @ state + scores[:, :, piece] @ new
            state = state * self.keep(fade[:, :, piece, -1])[..., None, None] + key[:, :, piece].transpose(-1, -2) @ new
        found = found.reshape(batch, VALUES, length, D_V)[:, :, :come].transpose(1, 2).reshape(batch, come, -1)
        return self.last(found)


class Fading(Delta):
    """What is read of a state fades as the state does (Qwen 4)."""

    def ask(self, query, fade):
        return query * fade.exp()[..., None]


class PadsLast(Delta):
    """Queries and keys become of length 1 before their piece is filled."""

    pads_last = True


class InTurn(Delta):
    """The rows of a piece are put in one after the other (Kimi Linear)."""

    def solve(self, system, rows):
        held = system.clone()
        for row in range(1, PIECE):
            held[..., row, :row] = held[..., row, :row] + (held[..., row, :row, None] * held[..., :row, :row]).sum(-2)
        return held @ rows


class Plain(Delta):
    """Queries and keys go on as long as they are, and what is written is not worked out of what was written before."""

    def unit(self, x):
        return x * 0.5

    def solve(self, system, rows):
        return rows

    def known(self, key, state):
        return torch.zeros(())


class Bent(Delta):
    """What is written is bent behind the heads: it is no sum of values any more."""

    def solve(self, system, rows):
        return super().solve(system, rows).exp()


def read_state(model, pieces, less=0):
    return read_rows(model, pieces * PIECE - less)


def read_rows(model, length):
    flow = read_flow(xray.trace(model(), torch.rand(2, length, WIDTH)).passes[0])
    end = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))
    nodes = {node for node in {end, *flow.behind(end)} & list_reading_data(flow) if flow.is_leaf(node)}
    return flow, nodes, end, describe_recurrence(flow, nodes)


def chart_state(model, pieces, less=0):
    flow, nodes, end, branch = read_state(model, pieces, less)
    named = name_state_steps(flow, branch, nodes, end)
    chart = chart_operations(flow, nodes, end, named.labels, folded=named.folded, most=named.most)
    return lay_lanes(flow, tell_read(chart), named.lanes)


def shapes_of(chart):
    return {node.label: node.record.shape for node in chart.nodes if node.record is not None}
