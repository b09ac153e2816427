"""Numbers that are clamped before a norm, and before and behind a linear layer, are named with it: so are sums."""

from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional


class Clipped(nn.Module):
    """A feed-forward whose rows are clamped before its norm, and before and behind its first linear layer (Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        wide = self.wide(self.norm(x.clamp(-9, 9)).clamp(-2, 2)).clamp(-3, 3)
        return x + self.back(functional.gelu(wide))


def test_clamps_around_the_layers_of_a_feed_forward_are_named():
    nodes = draw(Reader(AttentionPart(), Clipped()), rows())

    assert [node.label for node in nodes][-4:] == [
        "CLAMP + LAYER NORM",
        "CLAMP + LINEAR + CLAMP + GELU",
        "LINEAR",
        "ADD",
    ]
    assert [sum(step.op == "clamp" for step in node.steps) for node in nodes][-4:] == [1, 2, 0, 0]


class Held(nn.Module):
    """Attention whose sum is clamped before the stream goes on through a norm (D-FINE's feed-forward)."""

    def __init__(self):
        super().__init__()
        self.part, self.norm = AttentionPart(), nn.LayerNorm(WIDTH)
        self.part.norm = nn.Identity()  # type: ignore[assignment]

    def forward(self, x):
        return self.norm(self.part(x).clamp(-9, 9))


def test_a_sum_that_is_clamped_before_its_norm_says_so():
    nodes = draw(Reader(Held(), Clipped(), Held(), Clipped()), rows())

    found = [[step.op for step in node.steps] for node in nodes if node.label == "ADD + CLAMP + LAYER NORM"]
    assert found == [["layer_norm", "add", "clamp"]] * 2
