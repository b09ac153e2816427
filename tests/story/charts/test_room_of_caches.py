"""Keys that are written into room for more places: of what stands at the others nothing is known, and nothing said."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, PLACES, ROOM, WIDE = 12, 3, 5, 8, 24


class Writes(nn.Module):
    """Attention whose keys and values are written into a cache that has room for later places (gpt-fast)."""

    keys: Tensor
    values: Tensor

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(2, HEADS, ROOM, WIDTH // HEADS))

    def forward(self, x, places, mask):
        read = self.norm(x)
        q, k, v = (make(read).unflatten(-1, (HEADS, -1)).transpose(1, 2) for make in (self.q, self.k, self.v))
        keys, values = self.keys, self.values
        keys[:, :, places], values[:, :, places] = k, v
        seen = scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return x + self.o(seen.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Writes() for _ in range(2))

    def forward(self, x, places):
        mask = torch.ones(ROOM, ROOM, dtype=torch.bool).tril()[places]
        for layer in self.layers:
            x = layer(x, places, mask)
        return x


def test_keys_written_into_room_are_not_said_to_stand_with_those_before():
    (column,) = read_columns(
        xray.trace(Model().eval().requires_grad_(False), torch.rand(2, PLACES, WIDTH), torch.arange(PLACES))
    )

    caches = [node for node in column.frames[0].panels[0].chart.nodes if node.label.startswith("CACHE")]
    assert {node.label for node in caches} == {"CACHE K", "CACHE V"}
    assert {node.remark for node in caches} == {""}


class Takes(nn.Module):
    """Keys with heads behind the places, of which those written so far are taken (Llama 3 as Meta publishes it)."""

    keys: Tensor
    values: Tensor

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.o = nn.LayerNorm(WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.k, self.v = (nn.Linear(WIDE, WIDE // 2) for _ in range(2))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(6, ROOM, 3, 4))

    def forward(self, x):
        read = self.norm(x)
        q, k, v = (make(read).unflatten(-1, (-1, 4)) for make in (self.q, self.k, self.v))
        self.keys[:2, :PLACES], self.values[:2, :PLACES] = k, v
        taken = (kept[:, :, :, None] for kept in (self.keys[:2, :PLACES], self.values[:2, :PLACES]))
        k, v = (one.expand(-1, -1, -1, 2, -1).flatten(2, 3) for one in taken)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        weights = (q @ k.transpose(2, 3) / 2).softmax(-1)
        return x + self.o((weights @ v).transpose(1, 2).flatten(2))


def test_places_that_are_taken_of_a_cache_are_counted_where_its_heads_are_behind_them():
    model = nn.Sequential(Takes(), Takes()).eval().requires_grad_(False)
    (column,) = read_columns(xray.trace(model, torch.rand(2, PLACES, WIDE)))

    names = {node.label for node in column.frames[0].panels[0].chart.nodes}
    assert {f"{PLACES} OF {ROOM} ROWS {letter}" for letter in "KV"} <= names
    assert not any("CUT ANEW" in name for name in names)
