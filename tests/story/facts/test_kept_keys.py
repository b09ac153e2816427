"""What a model keeps from turn to turn: keys and values, found in the record and priced by the word."""

import pytest
import torch
from torch import nn

import xray
from xray.story.cards.costs import list_costs
from xray.story.facts.kept_keys import list_prices, measure_growth

SIZES = {"vocab_size": 31, "hidden_size": 24, "intermediate_size": 13, "num_hidden_layers": 3}
PER_WORD = 3 * 2 * 2 * 4 * 4
"""Layers, keys and values, key heads, d_k, bytes."""


@pytest.fixture(scope="module")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_attention_heads=6, num_key_value_heads=2)).eval()


def generate(model, **options):
    ids = torch.tensor([[3, 5, 7, 11, 13], [4, 6, 8, 10, 12]])
    with xray.record(model) as recorder:
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, pad_token_id=0, **options
        )
    return measure_growth(recorder.trace)


def test_a_generating_model_keeps_one_word_more_each_turn(llama):
    growth = generate(llama)

    assert [(turn.words, turn.bytes) for turn in growth.turns] == [
        (words, 2 * words * PER_WORD) for words in (5, 6, 7, 8)
    ]


def test_the_price_of_a_word_is_told_with_its_factors(llama):
    growth = generate(llama)

    assert (growth.per_word, growth.layers, growth.heads, growth.width, growth.element_bytes) == (PER_WORD, 3, 2, 4, 4)


def test_a_static_cache_is_as_wide_in_the_first_turn_as_in_the_last(llama):
    growth = generate(llama, cache_implementation="static", disable_compile=True)

    assert {turn.words for turn in growth.turns} == {8}
    assert growth.per_word == PER_WORD


def test_one_pass_that_leaves_a_cache_tells_its_size(llama):
    with torch.no_grad():
        growth = measure_growth(xray.trace(llama, torch.ones(2, 7, dtype=torch.int64)))

    assert [(turn.words, turn.bytes) for turn in growth.turns] == [(7, 2 * 7 * PER_WORD)]


def test_a_state_that_is_written_anew_is_no_kept_word():
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(0)
    linear = {f"linear_{name}": count for name, count in {"num_key_heads": 2, "num_value_heads": 2}.items()}
    linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    attention = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    experts["shared_expert_intermediate_size"] = 8
    sizes = {**SIZES, "num_hidden_layers": 4}
    model = Qwen3NextForCausalLM(Qwen3NextConfig(**sizes, **linear, **attention, **experts)).eval()

    growth = generate(model)

    assert growth.per_word == 1 * 2 * 2 * 4 * 4  # one layer of four has attention
    assert [(turn.words, turn.bytes) for turn in growth.turns] == [
        (words, 2 * words * growth.per_word) for words in (5, 6, 7, 8)
    ]


def test_without_a_cache_the_price_is_told_all_the_same(llama):
    with torch.no_grad():
        growth = measure_growth(xray.trace(llama, torch.ones(2, 7, dtype=torch.int64), use_cache=False))

    assert (growth.turns, growth.per_word, growth.is_kept) == ((), PER_WORD, False)


def test_our_own_cache_grows_beside_the_keys_of_the_question(cached_trace):
    src_len, per_word = cached_trace.sizes["src_len"], 3 * 2 * 32 * 4

    growth = measure_growth(cached_trace)

    assert [(turn.words, turn.bytes) for turn in growth.turns] == [
        (words, (words + src_len) * per_word) for words in (1, 2, 3)
    ]


def test_decoding_anew_keeps_nothing(inference_trace):
    assert measure_growth(inference_trace) is None


def test_attention_that_sees_both_ways_keeps_nothing():
    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x)

    assert measure_growth(xray.trace(Attention(), torch.ones(2, 3, 5, 7))) is None


def test_joint_attention_keeps_the_keys_of_the_memory_as_they_are():
    from transformers import T5Gemma2Config, T5Gemma2ForConditionalGeneration

    torch.manual_seed(0)
    sizes: dict[str, object] = {
        **SIZES,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "sliding_window": 8,
    }
    sizes |= {"query_pre_attn_scalar": 4, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    seen = {"hidden_size": 12, "intermediate_size": 5, "num_hidden_layers": 1, "num_attention_heads": 2}
    seen |= {"image_size": 28, "patch_size": 14}
    encoder = {"text_config": sizes, "vision_config": seen, "image_token_index": 30, "mm_tokens_per_image": 4}
    model = T5Gemma2ForConditionalGeneration(T5Gemma2Config(encoder=encoder, decoder=sizes)).eval()
    with torch.no_grad():
        asked, said = torch.ones(2, 7, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64)
        growth = measure_growth(xray.trace(model, input_ids=asked, decoder_input_ids=said))

    assert growth.per_word == PER_WORD
    assert [(turn.words, turn.bytes) for turn in growth.turns] == [(5, 2 * (5 + 7) * PER_WORD)]


class Keeps(nn.Module):
    """An attention that keeps its keys, over each of the rows that it is given, or forgets them."""

    def __init__(self, *, hands_out=True, looks_back=True):
        super().__init__()
        self.query, self.key, self.hands_out = nn.Linear(7, 7), nn.Linear(7, 7), hands_out
        self.looks_back = looks_back

    def attend(self, rows):
        made = self.key(rows)
        keys = torch.cat([made[:, :, :0], made], 2)
        made = rows + nn.functional.scaled_dot_product_attention(
            self.query(rows), keys, keys, is_causal=self.looks_back
        )
        return (made, keys[:, :, -3:]) if self.hands_out else made

    def forward(self, *given):
        return [self.attend(rows) for rows in given]


def test_keys_of_two_lengths_have_no_price_by_the_word():
    five, eleven = torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 7)

    assert measure_growth(xray.trace(Keeps(), five, five)).is_kept
    assert measure_growth(xray.trace(Keeps(), five, eleven)) is None


def test_keys_of_two_lengths_have_a_price_by_the_place_of_each():
    five, eleven = torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 7)
    trace = xray.trace(Keeps(), five, eleven)
    place = 3 * 7 * 4  # heads, width, bytes of a number

    assert list_prices(trace) == ((5, place), (11, place))
    assert list_prices(xray.trace(Keeps(), five, five)) == ()
    told = [(name, price) for name, price in list_costs(trace) if name.startswith("keys")]
    assert told == [(f"keys, values for each place of {length}", "84 B") for length in (5, 11)]


@pytest.mark.parametrize(
    ("hands_out", "looks_back", "kept"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_keys_in_a_cache_that_nobody_is_handed_and_nothing_looks_back_to_are_not_kept(hands_out, looks_back, kept):
    five = torch.ones(2, 3, 5, 7)

    growth = measure_growth(xray.trace(Keeps(hands_out=hands_out, looks_back=looks_back), five, five))

    assert bool(growth and growth.is_kept) is kept


class Hears(nn.Module):
    """Rows that are put behind those heard so far, before layers read them (Nemotron 3.5 Transcribe)."""

    def __init__(self):
        super().__init__()
        self.begin, self.layer = nn.Linear(7, 11), nn.Linear(11, 11)

    def forward(self, x):
        heard = self.begin(x)
        rows = torch.cat([heard[:, :0], heard], 1)
        kept = torch.cat([heard[:, :0], heard[:, :5]], 1)
        return rows + self.layer(rows), kept


def test_rows_that_layers_read_are_no_keys():
    assert measure_growth(xray.trace(Hears(), torch.ones(2, 5, 7))) is None


class Keeping(nn.Module):
    """Attention of words that keeps keys and values laid out by `keep`, which gives those to read and those to keep."""

    def __init__(self, keep):
        super().__init__()
        self.words, self.qkv, self.out = nn.Embedding(31, 18), nn.Linear(18, 54), nn.Linear(18, 31)
        self.keep = keep

    def forward(self, ids, kept=None):
        x = self.words(ids)
        query, key, value = (one.unflatten(-1, (3, 6)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        key, value, kept = self.keep(key, value, kept)
        looked = (query @ key.mT / 6**0.5).softmax(-1) @ value
        return self.out(x + looked.transpose(1, 2).flatten(2)), kept


def put_behind(kept, new, *axes):
    """New words behind those that are kept, if any are."""
    return (
        new if kept is None else tuple(torch.cat(pair, dim=axis) for *pair, axis in zip(kept, new, axes, strict=True))
    )


def keep_places_first(key, value, kept):
    kept = put_behind(kept, (key.transpose(1, 2), value.transpose(1, 2)), 1, 1)
    return *(one.transpose(1, 2) for one in kept), kept


def keep_keys_on_their_side(key, value, kept):
    kept = put_behind(kept, (key.mT, value), 3, 2)
    return kept[0].mT, kept[1], kept


def keep_fewer_bits(key, value, kept):
    new = [
        ((one / one.abs().amax(-1, keepdim=True) * 127).to(torch.int8), one.abs().amax(-1, keepdim=True))
        for one in (key, value)
    ]
    kept = tuple(put_behind(old, pair, 2, 2) for old, pair in zip(kept or (None, None), new, strict=True))
    return *(one.float() * high / 127 for one, high in kept), kept


def keep_one_side(key, value, kept):
    kept = put_behind(kept, (key, value), 2, 2)
    return kept[0] * torch.linspace(1, 2, kept[0].shape[2])[:, None], kept[1], kept


@pytest.mark.parametrize(
    ("keep", "price"),
    [
        (keep_places_first, 2 * 18 * 4),
        (keep_keys_on_their_side, 2 * 18 * 4),
        (keep_fewer_bits, None),
        (keep_one_side, None),
    ],
)
def test_a_word_has_a_price_however_keys_lie_and_none_where_they_are_worked_on_first(keep, price):
    model = Keeping(keep)
    with xray.record(model) as recorder, torch.no_grad():
        _, kept = model(torch.ones(2, 7, dtype=torch.int64))
        for _ in range(2):
            _, kept = model(torch.ones(2, 1, dtype=torch.int64), kept)
    growth = measure_growth(recorder.trace)

    assert (None if growth is None or not growth.is_kept else growth.per_word) == price
