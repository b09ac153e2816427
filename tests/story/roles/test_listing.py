"""What each step does, in words."""

import pytest
import torch
from families.specimens import BY_NAME
from handwritten import Attention, Layer, Writer, make_writer
from recorded import recorded
from scrambled import scramble
from torch import nn
from transformers import BertConfig, BertModel, MixtralConfig, MixtralForCausalLM

import xray
from xray.story.roles.listing import list_roles

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
IDS = torch.arange(14).view(2, 7)


def roles_of(model, *given):
    torch.manual_seed(0)
    return list_roles(xray.trace(model, *given))["forward"]


@pytest.fixture(scope="module")
def roles():
    return roles_of(make_writer(), IDS)


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("words#0", "embedding: ids to vectors"),
        ("rows.1#0", "layer 2"),
        ("rows.0.three#0", "norm before self-attention"),
        ("rows.0.one#0", "self-attention"),
        ("rows.0.one.second#0", "projection to keys"),
        ("rows.0.one.transpose#1", "split heads: heads before length"),
        ("rows.0.one.transpose#3", "turn the keys: rows become columns"),
        ("rows.0.one.matmul#0", "scores: query times key"),
        ("rows.0.one.masked_fill#0", "hide what may not be seen"),
        ("rows.0.one.softmax#0", "softmax: scores become weights"),
        ("rows.0.one.matmul#1", "weighted sum of the values"),
        ("rows.0.two.0#0", "feed-forward: widen"),
        ("rows.0.two.2#0", "feed-forward: narrow"),
        ("rows.0.add#0", "residual sum after self-attention"),
        ("scores#0", "head: vectors to logits"),
    ],
)
def test_a_step_of_a_transformer_says_its_part(roles, identity, words):
    assert roles[identity] == words


class Led(nn.Module):
    """Layers over rows, and a last linear layer, of whose numbers a loss may be made."""

    def __init__(self, name, loss):
        super().__init__()
        self.layers = nn.Sequential(*(Layer(12, Attention(12, 3), norm="before") for _ in range(2)))
        self.name, self.loss = name, loss
        self.add_module(name, nn.Linear(12, 5))

    def forward(self, x):
        out = getattr(self, self.name)(self.layers(x))
        return out if self.loss is None else self.loss(out)


@pytest.mark.parametrize(
    ("name", "loss", "made"),
    [
        ("last", None, "numbers"),
        ("classifier", None, "logits"),
        ("last", lambda out: nn.functional.mse_loss(out, torch.rand(2, 7, 5)), "numbers"),
        ("last", lambda out: nn.functional.cross_entropy(out.flatten(0, 1), torch.arange(14) % 5), "logits"),
        ("last", lambda out: out.argmax(-1), "logits"),
    ],
)
def test_a_head_makes_logits_where_steps_or_a_name_say_so(name, loss, made):
    assert roles_of(Led(name, loss).eval(), torch.rand(2, 7, 12))[f"{name}#0"] == f"head: vectors to {made}"


@pytest.mark.parametrize("spelt", [False, True])
def test_a_norm_of_a_layer_that_norms_afterwards_says_so(spelt):
    roles = roles_of(make_writer(norm="after", spelt=spelt), IDS)

    assert roles["rows.0.three#0"] == "norm after self-attention"


def test_a_lone_attention_says_its_parts():
    attention = nn.MultiheadAttention(12, 3, batch_first=True)
    x = torch.rand(2, 5, 12)
    trace = xray.trace(attention, x, x, x)

    roles = list_roles(trace)["forward"]

    assert {"scores: query times key", "projection to queries, keys and values"} <= set(roles.values())


class OneHead(nn.Module):
    """Rows of one head, with an axis put in where others have their heads (TACTiS)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.last = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x):
        q, k, v = (one(x)[:, None] for one in (self.query, self.key, self.value))
        return self.last(((q @ k.mT / 12**0.5).softmax(-1) @ v)[:, 0])


def test_an_axis_that_is_put_in_splits_no_heads():
    roles = roles_of(OneHead(), torch.rand(2, 5, 12))

    assert {"an axis of 1 put in: keys", "an axis of 1 put in: values"} <= set(roles.values())
    assert not [words for words in roles.values() if words.startswith("split heads")]


class Mixer(nn.Module):
    """One learned row looks at several for each place, and what it finds goes on through a linear layer (Inkling 2)."""

    def __init__(self):
        super().__init__()
        self.query, self.last = nn.Parameter(torch.rand(12)), nn.Linear(12, 5)

    def forward(self, x):
        query = self.query.view(1, 12).expand(*x.shape[:2], -1, -1)
        return self.last(nn.functional.scaled_dot_product_attention(query, x, x).unbind(-2)[0][:, :7])


def test_what_one_head_finds_is_not_laid_side_by_side():
    roles = roles_of(Mixer(), torch.rand(2, 7, 3, 12))

    assert "weighted sum of the values" in roles.values()
    assert not [words for words in roles.values() if "concat" in words]


def test_a_native_kernel_says_what_all_of_it_does():
    layer = nn.TransformerEncoderLayer(12, 4, 29, batch_first=True).eval()
    with torch.no_grad():
        trace = xray.trace(layer, torch.rand(2, 5, 12))

    roles = list_roles(trace)["forward"]

    assert "a whole encoder layer in one kernel: self-attention and feed-forward" in roles.values()
    assert set(roles) <= {step.id for step in trace.steps}


class Plain(nn.Module):
    def forward(self, x):
        left, right = x.split([2, 3], dim=-1)
        return torch.cat([left.expand(4, 3, 2), right.expand(4, 3, 3)], dim=-1)


def test_common_operations_outside_say_what_they_do():
    roles = list_roles(xray.trace(Plain(), torch.rand(1, 3, 5)))["forward"]

    assert roles["Plain.split#0"] == "split in 2"
    assert roles["Plain.expand#0"] == "broadcast"
    assert roles["Plain.cat#0"] == "join 2 tensors"


def test_what_is_not_known_has_no_role():
    roles = list_roles(xray.trace(nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)), torch.rand(2, 5)))["forward"]

    assert roles == {}


class Mended(nn.Module):
    """Rows and what a pointwise convolution makes of them: half of a layer, whose sum is no sublayer's."""

    def __init__(self):
        super().__init__()
        self.point = nn.Conv2d(5, 5, 1)

    def forward(self, x):
        return x + self.point(x)


def test_sums_of_nothing_that_is_known_are_no_layers_with_numbers():
    roles = roles_of(nn.Sequential(*(Mended() for _ in range(3))).eval(), torch.rand(2, 5, 13, 13))

    assert roles == {}


def test_words_before_sums_of_nothing_that_is_known_are_still_told():
    mended = (Shaped(lambda layer, x, mask: x + layer.back(layer.forth(x).flip(1))) for _ in range(3))
    roles = roles_of(Writer(53, [*mended], 15), IDS)

    assert roles["words#0"] == "embedding: ids to vectors"
    assert not any("layer " in role for role in roles.values())


PROJECTIONS = {"projection to queries", "projection to keys", "projection to values"}


def projections_of(model):
    """The last name of each module that is a projection, by what it projects to."""
    found = {words.rsplit(" ", 1)[1]: step for step, words in roles_of(model, IDS).items() if words in PROJECTIONS}
    return {part: step.rpartition("#")[0].rpartition(".")[2] for part, step in found.items()}


@pytest.mark.parametrize("letters", [False, True])
def test_projections_are_told_by_what_their_result_does(letters):
    model = make_writer(letters=letters)

    assert projections_of(model) == {"queries": "first", "keys": "second", "values": "third"}


@pytest.mark.parametrize("letters", [False, True])
def test_keys_and_values_that_change_places_are_told_so(letters):
    model = make_writer(letters=letters, swap=True)

    assert projections_of(model) == {"queries": "first", "keys": "third", "values": "second"}


def test_without_softmax_there_is_no_attention():
    assert not any("scores" in words for words in roles_of(make_writer(sharp=True), IDS).values())


class Answerer(nn.Module):
    """A layer that asks another tensor: `from_memory` decides whether keys and values come from there."""

    def __init__(self, *, from_memory):
        super().__init__()
        self.from_memory = from_memory
        self.words = nn.Embedding(53, 15)
        self.asked, self.own, self.other = (Layer(15, Attention(15, 3), norm="after") for _ in range(3))

    def forward(self, ids, question):
        memory = self.asked(self.words(question))
        x = self.own(self.words(ids))
        return self.other(x, memory if self.from_memory else None) + (0 if self.from_memory else memory.mean())


@pytest.mark.parametrize("from_memory", [True, False])
def test_keys_of_another_stack_make_it_cross_attention(from_memory):
    words = roles_of(Answerer(from_memory=from_memory), IDS, torch.arange(10).view(2, 5)).values()

    assert any("cross-attention" in one for one in words) == from_memory


class Shaped(nn.Module):
    """A layer of norm, attention and feed-forward; `shape` puts them together."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.attention = shape, Attention(15, 3)
        self.forth, self.back = nn.Linear(15, 41), nn.Linear(41, 15)
        self.one, self.two = nn.LayerNorm(15), nn.LayerNorm(15)

    def attend(self, x, mask):
        return self.attention(x, x, mask)

    def forward(self, x, memory=None, mask=None):
        return self.shape(self, x, mask)


def beside(layer, x, mask):
    y = layer.one(x)
    return x + (layer.attend(y, mask) + layer.back(layer.forth(y).relu()))


def cubed(layer, x, mask):
    x = x + layer.attend(layer.one(x), mask)
    return x + layer.two(x) ** 3


def test_a_sum_of_branches_side_by_side_names_them_all():
    roles = roles_of(Writer(53, [Shaped(beside), Shaped(beside)], 15), IDS)

    sums = [words for words in roles.values() if words.startswith("residual sum")]
    assert sums == ["residual sum after self-attention and feed-forward"] * 2


def test_a_norm_before_what_was_not_recognised_is_not_the_last_one():
    roles = roles_of(Writer(53, [Shaped(cubed), Shaped(cubed)], 15), IDS)

    assert not any("last norm" in role for role in roles.values())


def test_words_are_not_taken_for_places_where_the_table_of_places_is_larger():
    config = BertConfig(vocab_size=97, hidden_size=28, num_attention_heads=4, intermediate_size=67, num_hidden_layers=3)

    roles = roles_of(BertModel(config).eval(), IDS)

    assert roles["embeddings.word_embeddings#0"] == "embedding: ids to vectors"
    assert roles["embeddings.position_embeddings#0"] == "embedding: positions"


def test_what_chooses_an_expert_is_no_head():
    sizes = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 64}
    model = MixtralForCausalLM(MixtralConfig(vocab_size=97, num_hidden_layers=3, num_local_experts=5, **sizes)).eval()

    roles = roles_of(model, IDS)

    assert [step for step, words in roles.items() if words.startswith("head:") and "mlp" in step] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("phase", ["inference", "training"])
def test_every_layer_of_every_family_is_told(name, phase):
    roles = list_roles(recorded(f"{name}, {phase}"))["forward"]

    encoders, decoders = BY_NAME[name].layers
    crossing = decoders if "cross" in BY_NAME[name].scores else 0
    weights = [step for step, words in roles.items() if words == "softmax: scores become weights"]
    assert len(weights) == encoders + decoders + crossing


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", [*(f"{name}, training" for name in BY_NAME), "GPT-2 writes", "T5 writes", "both"])
def test_names_of_modules_play_no_part_but_for_places_and_logits(case):
    trace = recorded(case)
    scrambled, names = scramble(trace)
    expected = list_roles(trace)

    found = {
        key: {f"{names[step.rpartition('#')[0]]}#{step.rpartition('#')[2]}": words for step, words in roles.items()}
        for key, roles in list_roles(scrambled).items()
    }

    assert leave_off_places(found) == leave_off_places(expected)


def leave_off_places(roles):
    plain = {"embedding: positions": "embedding: rows of another table"}
    plain |= dict.fromkeys(("embedding: add positions", "embedding: add", "add"), "add")
    for part in ("", "part of: "):
        plain[f"{part}head: vectors to logits"] = f"{part}head: vectors to numbers"
    return {key: {step: plain.get(words, words) for step, words in own.items()} for key, own in roles.items()}


def test_a_trace_that_broke_off_is_told_as_far_as_it_ran():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.writer = make_writer()

        def forward(self, ids):
            return self.writer(ids) @ torch.rand(2, 2)

    with pytest.raises(RuntimeError) as caught:
        xray.trace(Broken(), IDS)

    roles = list_roles(caught.value.xray_trace)["forward"]  # type: ignore[attr-defined]
    assert roles["writer.rows.1.one.softmax#0"] == "softmax: scores become weights"


class Both(nn.Module):
    """Two streams, to each of which a block adds what it makes of that one (DiGress)."""

    def __init__(self):
        super().__init__()
        self.looks = nn.ModuleList(Attention(12, 3) for _ in range(3))
        self.works = nn.ModuleList(Worked() for _ in range(3))

    def forward(self, x, y):
        for look, work in zip(self.looks, self.works, strict=True):
            x = x + look(x, x)
            one, other = work(x, y)
            x, y = x + one, y + other
        return x, y


class Worked(nn.Module):
    """A feed-forward on one of two streams, an attention on the other."""

    def __init__(self):
        super().__init__()
        self.look, self.wide, self.narrow = Attention(15, 3), nn.Linear(12, 28), nn.Linear(28, 12)

    def forward(self, x, y):
        return self.narrow(self.wide(x).relu()), self.look(y, y)


def test_a_block_that_works_on_two_streams_is_the_sublayer_of_neither():
    roles = roles_of(Both(), torch.rand(2, 7, 12), torch.rand(2, 7, 15))

    assert "works.0#0" not in roles
    assert roles["works.0.wide#0"] == "feed-forward: widen"


class Single(nn.Module):
    """A layer in which one linear layer reads heads and a widened row end to end (the single-stream ones of Flux)."""

    def __init__(self):
        super().__init__()
        self.norm, self.asking = nn.LayerNorm(12), nn.Linear(12, 36)
        self.wide, self.last = nn.Linear(12, 48), nn.Linear(60, 12)

    def forward(self, x):
        normed = self.norm(x)
        heads = (one.unflatten(2, (3, 4)).transpose(1, 2) for one in self.asking(normed).chunk(3, dim=2))
        seen = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return x + self.last(torch.cat([seen, nn.functional.gelu(self.wide(normed))], dim=2))


def test_steps_of_a_layer_that_ends_in_one_linear_layer_for_both_sublayers_are_told():
    roles = roles_of(nn.Sequential(Single(), Single()).eval(), torch.rand(2, 7, 12))
    assert roles["0.add#0"] == "residual sum after self-attention and feed-forward"
