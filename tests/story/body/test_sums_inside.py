"""A branch may end with a sum of its own, and the stream goes past it all the same."""

import pytest
import torch
from handwritten import Attention
from torch import Tensor, nn

import xray
from xray.story.anatomy import branches as kinds

WIDTH, HEADS = 15, 3


class ShortConvolution(nn.Module):
    """Neighbours mixed in, and added to what was there."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2) + x


class Layer(nn.Module):
    """Attention and feed-forward, each with a convolution behind it."""

    def __init__(self, *, ends_with_sums: bool):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attention = Attention(WIDTH, HEADS)
        self.think = nn.Sequential(nn.Linear(WIDTH, 35), nn.GELU(), nn.Linear(35, WIDTH))
        self.behind = nn.ModuleList([ShortConvolution() if ends_with_sums else nn.Identity() for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        asked = self.norms[0](x)
        x = x + self.behind[0](self.attention(asked, asked))
        return x + self.behind[1](self.think(self.norms[1](x)))


@pytest.mark.parametrize("ends_with_sums", [False, True])
def test_a_sum_at_the_end_of_a_branch_is_of_the_branch(ends_with_sums):
    model = nn.Sequential(*(Layer(ends_with_sums=ends_with_sums) for _ in range(2)))

    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, 7, WIDTH))).towers

    (group,) = tower.groups
    assert group.count == 2
    assert len(group.stages) == 2
    assert isinstance(group.stages[0].branches[0], kinds.Attention)
    assert {one.norm.place for one in group.stages} == {"before"}


@pytest.mark.slow
def test_inkling_is_layers_of_attention_and_experts():
    """The router scores its shared experts too, and counts places with a sum along a row: that is no state."""
    transformers = pytest.importorskip("transformers", reason="the library whose model this is")
    sizes = {"hidden_size": 24, "intermediate_size": 53, "moe_intermediate_size": 12, "vocab_size": 61, "d_rel": 4}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8}
    windowed = {"swa_num_attention_heads": 3, "swa_num_key_value_heads": 1, "swa_head_dim": 8}
    config = transformers.AutoConfig.for_model(
        "inkling_text", **sizes, **heads, **windowed, num_hidden_layers=3, n_routed_experts=6, num_experts_per_tok=2
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()

    (tower,) = xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7))).towers

    assert sum(group.count for group in tower.groups) == 3
    assert {(stage.branches[0].part) for group in tower.groups for stage in group.stages} == {"attention", "experts"}
    experts = {branch for branch in tower.branches if isinstance(branch, kinds.Experts)}
    assert {(one.experts, one.chosen, one.shared) for one in experts} == {(6, 2, config.n_shared_experts)}


class Around(nn.Module):
    """Two layers and a norm; half of what they made is added to what went in."""

    def __init__(self):
        super().__init__()
        self.begin, self.norms = nn.Linear(WIDTH, WIDTH), nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.layers = nn.Sequential(*(Layer(ends_with_sums=False) for _ in range(2)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.begin(x)
        return x + x.new_tensor(0.5) * self.norms[1](self.layers(self.norms[0](x)))


def test_layers_with_a_sum_around_all_of_them_are_layers_still():
    """So the encoder of Nemotron 3.5 Transcribe's word timestamps is."""
    (tower,) = xray.anatomy(xray.trace(Around(), torch.rand(2, 7, WIDTH))).towers

    (group,) = tower.groups
    assert group.count == 2
    assert [stage.branches[0].part for stage in group.stages] == ["attention", "feed_forward"]
    assert tower.final_norm == "layer"


class Asking(nn.Module):
    """Learned rows, the first ones of a table, that ask themselves where they are and then an image, layer by layer."""

    def __init__(self):
        super().__init__()
        self.rows, self.places = nn.Parameter(torch.rand(9, WIDTH)), nn.Linear(WIDTH, WIDTH)
        self.own, self.other = (nn.ModuleList(Attention(WIDTH, HEADS) for _ in range(2)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))

    def forward(self, image: Tensor) -> Tensor:
        x = self.rows[:5].unsqueeze(0).expand(len(image), -1, -1)
        places = self.places(image[:, :5])
        for number in range(2):
            x = self.norms[2 * number](x + self.own[number](x + places, x))
            x = self.norms[2 * number + 1](x + self.other[number](x, image))
        return x


def test_learned_rows_ask_in_their_first_layer_too():
    (tower,) = xray.anatomy(xray.trace(Asking(), torch.rand(2, 7, WIDTH))).towers

    (group,) = tower.groups
    assert group.count == 2
    attends = [stage.branches[0] for stage in group.stages]
    assert [one.source for one in attends if isinstance(one, kinds.Attention)] == ["self", None]


class Scale(nn.Module):
    """A feed-forward over some rows laid side by side; neighbours are mixed in, and what it makes wide is added."""

    def __init__(self, times: int):
        super().__init__()
        self.wide, self.back = nn.Linear(times * WIDTH, 3 * times * WIDTH), nn.Linear(3 * times * WIDTH, times * WIDTH)
        self.mix = nn.Conv1d(3 * times * WIDTH, 3 * times * WIDTH, 3, padding=1, groups=3 * times * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(len(x), -1, self.wide.in_features)
        mixed = self.mix(self.wide(rows).mT).mT + self.wide(rows)
        return self.back(nn.functional.gelu(mixed)).reshape(x.shape)


class LayerOfScales(Layer):
    """Attention among rows of several scales, and a feed-forward for those of each (MISSFormer)."""

    def __init__(self):
        super().__init__(ends_with_sums=False)
        self.scales = nn.ModuleList(Scale(times) for times in (1, 2, 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        asked = self.norms[0](x)
        x = x + self.attention(asked, asked)
        pieces = self.norms[1](x).split((5, 4, 6, 8), dim=1)
        return x + torch.cat([scale(piece) for scale, piece in zip(self.scales, pieces, strict=True)], dim=1)


def test_a_feed_forward_for_each_of_several_scales_is_a_sublayer_of_no_one_width():
    told = xray.anatomy(xray.trace(nn.Sequential(*(LayerOfScales() for _ in range(2))), torch.rand(2, 23, WIDTH)))

    (group,) = told.towers[0].groups
    attention, feed_forward = (stage.branches[0] for stage in group.stages)
    assert group.count == 2
    assert isinstance(attention, kinds.Attention)
    assert isinstance(feed_forward, kinds.FeedForward)
    assert feed_forward.d_ff is None
