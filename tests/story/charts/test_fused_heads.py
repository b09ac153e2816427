"""Heads of queries, keys and values that one linear layer made at once: alike in name, and an arrow for each head."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Fused(nn.Module):
    """All three laid out in heads at once, then taken apart (MGP-STR, BLIP)."""

    def __init__(self, change=nn.Identity):
        super().__init__()
        self.change = change()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, x):
        three = self.change(self.qkv(x)).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = three[0] @ three[1].transpose(-1, -2)
        return self.out((scores.softmax(-1) @ three[2]).transpose(1, 2).flatten(2))

    def forward(self, x):
        return x + self.attend(x)


class Held(nn.Module):
    """Numbers held between two bounds (DBRX)."""

    def forward(self, x):
        return x.clamp(-8, 8)


def lay_out(*change):
    """The poster's layout, and its boxes by the first line of each."""
    model = nn.Sequential(Fused(*change), FeedForwardPart(), Fused(*change), FeedForwardPart()).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, 5, WIDTH)), text_width)
    return layout, {"".join(run.text for run in box.lines[0]): box for box in layout.boxes if box.lines}


@pytest.mark.parametrize(("change", "told"), [(Held, "CLAMP"), (nn.SiLU, "SiLU")])
def test_what_all_three_go_through_before_they_are_cut_is_called_by_its_name(change, told):
    _, named = lay_out(change)

    assert told in named
    assert "CUT ANEW" not in named


class Biased(nn.Module):
    """Learned rows added behind the cut into heads, to queries alone (DeBERTa)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        query, key, value = self.qkv(x).view(*x.shape[:2], HEADS, -1).permute(0, 2, 1, 3).chunk(3, -1)
        query = query + self.bias.view(1, 1, HEADS, -1).permute(0, 2, 1, 3)
        weights = (query @ key.transpose(-1, -2)).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


def test_a_learned_row_that_is_added_to_queries_is_called_a_bias():
    model = nn.Sequential(Biased(), FeedForwardPart(), Biased(), FeedForwardPart()).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, 5, WIDTH)), text_width)

    labels = {"".join(run.text for run in box.lines[0]) for box in layout.boxes if box.lines}
    (bias,) = (box for box in layout.boxes if box.lines and "".join(run.text for run in box.lines[0]) == "+ A BIAS Q")
    assert f"{WIDTH} parameters" in ["".join(run.text for run in line).strip() for line in bias.lines]
    assert not any(label.startswith(("COMBINE", "ADDED")) for label in labels)


def test_heads_of_all_three_are_called_so_and_each_has_its_arrows():
    layout, named = lay_out()

    assert {"HEADS Q", "HEADS K", "HEADS V", "TRANSPOSE KT"} <= set(named)
    for letter in "QKV":
        box = named[f"HEADS {letter}"]
        ends = [curve.points[-1] for curve in layout.curves]
        assert sum(box.left < x < box.right and abs(y - box.bottom) < 1 for x, y in ends) == HEADS


class Sliced(nn.Module):
    """All three side by side in each head, of queries and keys the first numbers alone turned (GPT-NeoX)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        three = self.qkv(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2).chunk(3, -1)
        query, key = (torch.cat([-one[..., :2], one[..., 2:]], -1) for one in three[:2])
        weights = (query @ key.transpose(-1, -2)).softmax(-1)
        return x + self.out((weights @ three[2]).transpose(1, 2).flatten(2))


def test_a_piece_of_a_head_is_not_called_heads():
    model = nn.Sequential(Sliced(), FeedForwardPart(), Sliced(), FeedForwardPart()).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, 5, WIDTH)), text_width)

    lines = {"".join(run.text for run in box.lines[0]): box.lines[1] for box in layout.boxes if len(box.lines) > 1}
    (heads,) = [name for name in lines if name.startswith("HEADS")]
    assert heads == "HEADS OF Q, K, V"
    assert "".join(run.text for run in lines[heads]).startswith(f"2×{HEADS}×5×{WIDTH // HEADS}")


class Flattened(Fused):
    """The heads of all sequences lie one behind the other (ViTDet)."""

    def attend(self, x):
        batch, length, _ = x.shape
        three = self.change(self.qkv(x)).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = three.reshape(3, batch * HEADS, length, -1).unbind(0)
        found = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return self.out(found.reshape(batch, HEADS, length, -1).transpose(1, 2).flatten(2))


def test_heads_of_all_sequences_in_one_row_are_heads_of_all_three():
    model = nn.Sequential(Flattened(), FeedForwardPart(), Flattened(), FeedForwardPart()).eval()
    layout = compose_poster(xray.trace(model, torch.ones(2, 5, WIDTH)), text_width)

    labels = {"".join(run.text for run in box.lines[0]) for box in layout.boxes if box.lines}
    assert "HEADS OF Q, K, V" in labels
    assert "CUT ANEW" not in labels


class InAKernel(Fused):
    """All three are cut at once, and one kernel attends (Hiera)."""

    def attend(self, x):
        three = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(*three.unbind(0))
        return self.out(found.transpose(1, 2).flatten(2))


def test_keys_that_are_as_many_as_the_numbers_of_each_are_laid_on_their_side_too():
    model = nn.Sequential(InAKernel(), FeedForwardPart(), InAKernel(), FeedForwardPart()).eval()
    trace = xray.trace(model, torch.ones(2, WIDTH // HEADS, WIDTH))

    turned = next(step for step in trace.steps if step.id.endswith("transpose_key#0"))
    assert turned.inputs[0].shape == turned.outputs[0].shape
    labels = ["".join(run.text for run in box.lines[0]) for box in compose_poster(trace, text_width).boxes if box.lines]
    assert any(label.startswith("TRANSPOSE KT") for label in labels)
