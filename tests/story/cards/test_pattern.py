"""The card that says which layer is which."""

from dataclasses import replace

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_heads_first import PLACES, Late
from story.sentences.makers import FALSE, make_tower
from story.test_joined_towers import SEEN, Sees, record
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Group
from xray.story.cards.pattern import MOST_KINDS, OTHERS, count_others, list_kinds, name_heads, swatch, tells_widths
from xray.story.poster import compose_poster


def tell_layers(*turned):
    """What the card says, line by line, of layers that turn queries and keys, or do not."""
    return tell_card(nn.Sequential(*(part for one in turned for part in (Late(turned=one), FeedForwardPart()))))


def tell_card(layers):
    """What the card says, line by line, of some layers."""
    trace = xray.trace(layers.eval(), torch.ones(2, PLACES, WIDTH))
    texts = ["".join(run.text for line in box.lines for run in line) for box in compose_poster(trace, text_width).boxes]
    return [text for text in texts if text[:1].isdigit() and ": " in text]


def test_layers_that_turn_no_queries_say_so_where_others_do():
    assert tell_layers(True, True, False) == [
        "1–2: self-attention, feed-forward",
        "3: self-attention (without rotary), feed-forward",
    ]


def test_layers_of_which_none_turns_say_nothing_of_it():
    assert tell_layers(False, False) == []


class Narrow(nn.Module):
    """An attention that nothing goes past: what it reads is narrower than what it gives (Fun-ASR)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.norm(x)
        return self.out((self.query(x) @ self.key(x).transpose(1, 2)).softmax(-1) @ self.value(x))


def test_an_attention_that_nothing_goes_past_is_told_with_the_first_layer():
    others = (nn.Sequential(Late(turned=False), FeedForwardPart()) for _ in range(3))
    layers = nn.Sequential(nn.Sequential(Narrow(), FeedForwardPart()), *others)

    assert tell_card(layers)[0].endswith(" (before it: self-attention)")


class Normed(nn.Module):
    """A layer that sees all places, with a norm behind its sums or without."""

    def __init__(self, *, is_normed):
        super().__init__()
        self.parts = nn.Sequential(Late(turned=True), FeedForwardPart())
        self.norm = nn.LayerNorm(WIDTH) if is_normed else nn.Identity()

    def forward(self, x):
        return self.norm(self.parts(x))


def test_a_mask_that_all_layers_have_alike_tells_none_from_another():
    layers = nn.Sequential(*(Normed(is_normed=one) for one in (True, True, True, False)))
    told = tell_card(layers)

    assert len(told) > 1
    assert not [text for text in told if "mask" in text]


def test_a_mask_that_no_layer_has_is_told_of_none_where_some_kinds_are_not_drawn():
    wide = (17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
    layers = (part for one in wide for part in (Late(turned=True), FeedForwardPart(one)))

    told = tell_card(nn.Sequential(*layers))
    assert [text.partition(";")[0] for text in told] == [
        f"{number}: self-attention, feed-forward" for number in (*range(1, 8), "8–9")
    ]
    assert not [text for text in told if "mask" in text]


def test_layers_that_are_not_drawn_say_so_where_those_told_alike_have_numbers_of_parameters():
    told = tell_card(
        nn.Sequential(*(part for one in range(17, 27) for part in (Late(turned=True), FeedForwardPart(one))))
    )

    assert told[-1] == "8–9: self-attention, feed-forward; not drawn"
    assert all(text.endswith(" parameters") for text in told[:-1])


@pytest.mark.parametrize(
    ("count", "told"), [(8, []), (10, ["Left out of the drawing: layers 8, 9 of the 10 of the stack tower."])]
)
def test_layers_of_kinds_that_have_no_room_are_said_to_be_left_out(count, told):
    layers = (part for one in range(17, 17 + count) for part in (Late(turned=True), FeedForwardPart(one)))
    trace = xray.trace(nn.Sequential(*layers).eval(), torch.ones(2, PLACES, WIDTH))
    texts = (
        " ".join("".join(run.text for run in line) for line in box.lines)
        for box in compose_poster(trace, text_width).boxes
    )

    assert [text for text in texts if text.startswith("Left out")] == told


def test_layers_whose_sum_is_multiplied_by_a_number_say_so_where_others_are_not():
    class Scaled(nn.Module):
        def __init__(self, *, is_scaled):
            super().__init__()
            self.parts, self.is_scaled = nn.Sequential(Late(turned=True), FeedForwardPart()), is_scaled

        def forward(self, x):
            return self.parts(x) / 2 if self.is_scaled else self.parts(x)

    assert tell_card(nn.Sequential(*(Scaled(is_scaled=one) for one in (False, True, False)))) == [
        "1, 3: self-attention, feed-forward",
        "2: self-attention, feed-forward (the sum × a number)",
    ]


class Uneven(Sees):
    """An eye whose second layer has another norm, and a stack of words whose layers are alike."""

    def __init__(self):
        super().__init__()
        self.eye[1] = Layer(SEEN, Attention(SEEN, 3), norm="after")


def test_of_several_towers_the_one_whose_layers_differ_is_named():
    layout = compose_poster(record(Uneven()), text_width)
    texts = ["".join(run.text for line in box.lines for run in line) for box in layout.boxes]

    place = texts.index("WHICH LAYER IS WHICH")
    assert texts[place + 1] == "vision"
    assert texts[place + 2].startswith("1: ")


def test_where_one_width_is_told_all_are():
    groups = [Group((0,), (), 7), Group((1,), (), 13), Group((2,), (), 29)]

    assert tells_widths(groups, [["self-attention in windows of 5"], ["self-attention in windows of 5"], ["other"]])
    assert not tells_widths(groups, [["self-attention"], ["convolution"], ["recurrence"]])


def test_layers_that_are_alike_stand_in_one_line_unless_all_are_told_alike():
    groups = [Group((0, 1), ()), Group((2,), ()), Group((3, 4), ())]

    assert list_kinds(groups, ["wide", "narrow", "wide"]) == [("wide", [0, 1, 3, 4]), ("narrow", [2])]
    assert list_kinds(groups, ["wide"] * 3) == [("wide", [0, 1]), ("wide", [2]), ("wide", [3, 4])]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"kv_heads": 2}, (" (4 key heads)", " (2 key heads)")),
        ({"heads": 2, "kv_heads": 2}, (" (4 heads)", " (2 heads)")),
        ({"d_k": 14}, (" (heads of 7)", " (heads of 14)")),
        ({"gathered": 64}, ("", " (one key for every 64 places)")),
        ({"kv_heads": 2, "gathered": 9}, (" (4 key heads)", " (2 key heads, one key for every 9 places)")),
        ({"kv_heads": 2, "source": "encoder"}, ("", "")),
        ({"sinks": True}, ("", " (sinks)")),
        ({"turned": 3}, ("", " (3 of 7 turned)")),
        ({"kv_heads": 2, "turned": 3}, (" (4 key heads)", " (2 key heads, 3 of 7 turned)")),
        ({"turned": 3, "positions": None}, ("", "")),
        ({}, ("", "")),
    ],
)
def test_heads_are_told_where_attentions_of_one_kind_have_others(other, told):
    one = replace(FALSE, heads=4, kv_heads=4, d_k=7, positions="rotary")
    two = replace(one, **other)
    tower = make_tower(one, two)

    assert (name_heads(one, tower), name_heads(two, tower)) == told


def test_what_all_attentions_have_alike_tells_none_from_another():
    one = replace(FALSE, heads=4, kv_heads=4, d_k=7, positions="rotary", turned=3, sinks=True)
    two = replace(one, kv_heads=2)

    assert name_heads(two, make_tower(one, two)) == " (2 key heads)"


class Sunk(nn.Module):
    """One head with a learned score beside those of the keys, or without one."""

    def __init__(self, *, is_sunk):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.sink = nn.Parameter(torch.zeros(1)) if is_sunk else None

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        if self.sink is not None:
            scores = torch.cat([scores, self.sink.view(1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
        return x + self.out(scores.softmax(-1)[..., : x.shape[1]] @ self.value(x))


def test_a_sink_beside_the_scores_counts_as_no_key():
    layers = nn.Sequential(*(nn.Sequential(Sunk(is_sunk=one), FeedForwardPart()) for one in (True, True, False)))
    told = tell_card(layers)

    assert len(told) > 1
    assert not [text for text in told if "keys" in text]


def test_layers_that_are_told_alike_say_how_many_parameters_each_has():
    layers = [nn.Sequential(Late(turned=False), FeedForwardPart(), *closing) for closing in ((), [nn.LayerNorm(WIDTH)])]
    plain, closed = (sum(weights.numel() for weights in layer.parameters()) for layer in layers)

    told = tell_card(nn.Sequential(*layers, nn.Sequential(Late(turned=False), FeedForwardPart())))

    assert told == [
        f"1, 3: self-attention, feed-forward; {plain:,} parameters",
        f"2: self-attention, feed-forward; {closed:,} parameters",
    ]


def test_kinds_that_are_not_listed_have_a_colour_of_their_own():
    named = {swatch(kind) for kind in range(MOST_KINDS)}

    assert len(named) == MOST_KINDS
    assert {swatch(kind) for kind in range(MOST_KINDS, 3 * MOST_KINDS)} == {OTHERS}
    assert OTHERS not in named


def test_of_kinds_that_are_not_listed_the_layers_are_counted():
    listed = [(str(layer), [layer]) for layer in range(MOST_KINDS)]

    assert count_others([*listed, ("told alike", [8, 9])]) == "and 2 more layers"
    assert count_others([*listed, ("one", [8])]) == "and 1 more layer"


class Bare(FeedForwardPart):
    """A feed-forward that reads the stream as it is (ModernBERT's first layer, whose rows are normed before it)."""

    def forward(self, x):
        return x + self.back(self.bend(self.wide(x)))


def test_layers_say_where_no_norm_stands_before_a_sublayer_that_has_one_in_others():
    layers = nn.Sequential(*(part for own in (Bare, FeedForwardPart) for part in (Late(turned=True), own())))

    assert tell_card(layers) == [
        "1: self-attention, feed-forward (without a norm)",
        "2: self-attention, feed-forward",
    ]


def test_no_count_of_parameters_is_told_of_layers_some_of_which_have_more():
    layers = [nn.Sequential(Late(turned=False), FeedForwardPart(17)) for _ in range(4)]
    layers[1][1].back = nn.Linear(17, WIDTH, bias=False)
    layers[2].append(nn.LayerNorm(WIDTH))

    told = tell_card(nn.Sequential(*layers))

    assert told
    assert not [text for text in told if "parameters" in text]
