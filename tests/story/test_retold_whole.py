"""Other models are told on the poster as they are: what it cannot show truly is said, or another drawing is made."""

from dataclasses import replace

import pytest
import torch
from families.recordings import RECORDINGS, recorded_writing
from handwritten import Attention, Layer, Writer, make_writer
from printed import lines_of, words_of
from torch import nn
from transformers import BertConfig, BertModel, MixtralConfig, MixtralForCausalLM

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.retelling import retell
from xray.story.retold_tale import make_retold
from xray.story.roles import tell_roles

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
IDS = torch.arange(14).view(2, 7)


def trace_of(model, *given):
    torch.manual_seed(0)
    return xray.trace(model, *given)


def poster_of(model, *given):
    return compose_poster(trace_of(model, *given), text_width)


class Shaped(nn.Module):
    """A layer of norm, attention and feed-forward; `shape` puts them together."""

    def __init__(self, shape, *, width=15, heads=3):
        super().__init__()
        self.shape, self.attention = shape, Attention(width, heads)
        self.forth, self.back = nn.Linear(width, 41), nn.Linear(41, width)
        self.one, self.two, self.three = (nn.LayerNorm(width) for _ in range(3))
        self.gain = nn.Parameter(torch.full((width,), 0.5))

    def attend(self, x, mask):
        return self.attention(x, x, mask)

    def widen(self, x):
        return self.back(self.forth(x).relu())

    def forward(self, x, memory=None, mask=None):
        return self.shape(self, x, mask)


def beside(layer, x, mask):
    y = layer.one(x)
    return x + (layer.attend(y, mask) + layer.widen(y))


def beside_first(layer, x, mask):
    y = layer.one(x)
    return layer.widen(y) + layer.attend(y, mask) + x


def beside_in_turn(layer, x, mask):
    y = layer.one(x)
    x = x + layer.attend(y, mask)
    return x + layer.widen(y)


def scaled(layer, x, mask):
    x = x + layer.gain * layer.attend(layer.one(x), mask)
    return x + layer.gain * layer.widen(layer.two(x))


def normed_again(layer, x, mask):
    x = x + layer.three(layer.attend(layer.one(x), mask))
    return x + layer.three(layer.widen(layer.two(x)))


def plain(layer, x, mask):
    x = x + layer.attend(layer.one(x), mask)
    return x + layer.widen(layer.two(x))


def make_shaped(shape):
    return Writer(53, [Shaped(shape) for _ in range(2)], 15)


@pytest.mark.parametrize("shape", [beside, beside_first, beside_in_turn])
def test_attention_and_feed_forward_side_by_side_are_left_to_the_other_drawing(shape):
    assert poster_of(make_shaped(shape), IDS) is None


def test_what_stands_beside_attention_is_not_told_as_its_residual_sum():
    trace = trace_of(make_shaped(beside), IDS)

    assert "residual" not in " ".join(tell_roles(trace)["forward"].values())


def test_a_norm_before_what_was_not_recognised_is_not_the_last_one():
    def cubed(layer, x, mask):
        x = x + layer.attend(layer.one(x), mask)
        return x + layer.two(x) ** 3

    roles = tell_roles(trace_of(make_shaped(cubed), IDS))["forward"]

    assert not any("last norm" in role for role in roles.values())


def test_attention_and_feed_forward_in_turn_are_drawn():
    assert poster_of(make_shaped(plain), IDS) is not None


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [(scaled, "What a sublayer gives is scaled before it is added"), (normed_again, "goes through a norm of its own")],
)
def test_what_stands_before_the_sum_is_said(shape, sentence):
    assert sentence in words_of(poster_of(make_shaped(shape), IDS))


def test_nothing_is_said_where_nothing_stands_before_the_sum():
    assert "before it is added" not in words_of(poster_of(make_shaped(plain), IDS))


def without(told, part):
    """The retelling, with the steps of one part of every layer left out."""

    def is_kept(step):
        return not f"{step.path}.".partition(".layers.")[2][2:].startswith(f"{part}.")

    passes = (replace(one, steps=tuple(filter(is_kept, one.steps))) for one in told.trace.passes)
    return replace(told, trace=replace(told.trace, passes=tuple(passes)))


SELF = ["query", "key", "value", "scores", "softmax", "weighted_sum"]


@pytest.mark.parametrize(
    "part",
    [
        *(f"self_attention.{part}" for part in SELF),
        "self_attention_add",
        "feed_forward",
        "feed_forward.expand",
        "feed_forward.contract",
        "feed_forward_add",
    ],
)
def test_without_a_part_that_it_needs_no_poster_is_tried(part):
    trace = trace_of(make_writer(), IDS)
    told = retell(trace)

    assert make_retold(told, trace) is not None
    assert make_retold(without(told, part), trace) is None


def test_a_decoder_beside_an_encoder_needs_its_cross_attention():
    trace = RECORDINGS["inference"]("T5")
    told = retell(trace)

    assert make_retold(without(told, "cross_attention"), trace) is None


class Towers(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        towers = ([Layer(15, Attention(15, 3), norm="after") for _ in range(count)] for count in layers)
        self.towers = nn.ModuleList(Writer(53, [*tower], 15) for tower in towers)

    def forward(self, ids):
        return torch.stack([tower(ids).sum() for tower in self.towers])


def test_attention_that_is_not_shown_is_named():
    notes = words_of(poster_of(Towers(3, 2), IDS))

    assert "2 more layers of attention are not shown here: towers.1.rows.0.one," in notes


def test_one_attention_that_is_not_shown_is_named():
    assert "1 more layer of attention is not shown here: towers.1.rows.0.one." in words_of(poster_of(Towers(2, 1), IDS))


def test_where_most_would_not_be_shown_the_other_drawing_is_made():
    assert poster_of(Towers(1, 1, 1), IDS) is None


def test_nothing_is_missed_where_every_attention_is_shown():
    assert "not shown" not in words_of(poster_of(Towers(2), IDS))


def squeezed(layout):
    return " ".join(words_of(layout).split())


def test_the_width_of_a_head_is_divided_where_that_is_true():
    assert "d_model / heads = 15 / 3 = 5" in squeezed(poster_of(make_writer(), IDS))


def test_the_width_of_a_head_is_multiplied_where_it_is_a_setting_of_its_own():
    told = squeezed(compose_poster(RECORDINGS["inference"]("Llama"), text_width))

    assert "heads × d_k = 6 × 14 = 84 not d_model 42" in told
    assert "d_model / heads" not in told


@pytest.mark.parametrize("letters", [False, True])
def test_a_scale_by_a_plain_number_is_told(letters):
    assert any(line.startswith("SCORES Q·KT ÷ √d_k") for line in lines_of(poster_of(make_writer(letters=letters), IDS)))


def test_words_are_not_taken_for_places_where_the_table_of_places_is_larger():
    config = BertConfig(vocab_size=97, hidden_size=28, num_attention_heads=4, intermediate_size=67, num_hidden_layers=3)
    told = retell(trace_of(BertModel(config).eval(), IDS))

    assert told.origins["forward"]["encoder.embedding.words#0"].path == "embeddings.word_embeddings"
    assert told.origins["forward"]["encoder.embedding.positions#0"].path == "embeddings.position_embeddings"


class SpeltRms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


def test_a_scale_of_the_words_is_no_part_of_the_norm_behind_it():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.row = nn.Embedding(53, 15), Shaped(plain)
            self.row.one = SpeltRms(15)  # type: ignore[assignment]

        def forward(self, ids):
            return self.row(self.words(ids) * torch.tensor(15**0.5))

    told = retell(trace_of(Scaled(), IDS))

    assert "encoder.layers.0.self_attention_norm" in {step.path for step in told.trace.steps}


def test_scores_that_tanh_keeps_small_are_told():
    class Capped(Attention):
        def forward(self, x, memory, mask=None):
            q, k, v = (
                way(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
                for way in (self.first, self.second, self.third)
            )
            scores = ((q @ k.transpose(-2, -1)) / 50).tanh() * 50
            return self.last((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    layers: list[nn.Module] = [Layer(15, Capped(15, 3), norm="before") for _ in range(2)]

    assert "Soft cap" in words_of(poster_of(Writer(53, layers, 15), IDS))


def test_the_first_turn_fills_the_cache():
    trace = recorded_writing("GPT-2")
    keys = [
        step.outputs[0].shape[2]
        for one in trace.passes
        for step in one.steps
        if step.path.endswith("h.0.attn.cat") and step.call == 0
    ]

    assert f"{keys[0]}–{keys[-1]}×7 keys" in words_of(compose_poster(trace, text_width))


def test_a_layer_in_one_kernel_says_so():
    layout = compose_poster(RECORDINGS["inference"]("nn.Transformer"), text_width)

    assert "A whole layer runs in one kernel" in words_of(layout)
    assert any(line.startswith("LINEAR + RELU") and "derived" in line for line in lines_of(layout))


def test_what_chooses_an_expert_is_no_head():
    sizes = {
        "hidden_size": 48,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
    }
    model = MixtralForCausalLM(MixtralConfig(vocab_size=97, num_hidden_layers=3, num_local_experts=5, **sizes)).eval()

    roles = tell_roles(trace_of(model, IDS))["forward"]

    assert [step for step, words in roles.items() if words.startswith("head:") and "mlp" in step] == []
