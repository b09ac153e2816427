from dataclasses import replace

import pytest
from small_blocks import call, tensor

from xray.story.blocks.kinds import KINDS, SAID, kind_of


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("linear", "weights"),
        ("conv_transpose2d", "convolution"),
        ("scaled_dot_product_attention", "attention"),
        ("softmax", "attention"),
        ("batch_norm2d", "normalisation"),
        ("leaky_relu", "activation"),
        ("cat", "joining"),
        ("adaptive_avg_pool2d", "pooling"),
        ("lstm", "recurrent"),
        ("permute", "reshaping"),
        ("dropout", "chance"),
        ("fft_rfft", "other"),
    ],
)
def test_an_operation_has_a_kind(op, kind):
    assert kind_of(call("net.step", op)) == kind


def test_what_makes_a_mask_is_one_whatever_its_operation():
    step = call("net.step", "triu")
    assert kind_of(replace(step, outputs=(tensor("out", (3, 3), step.id, role="mask"),))) == "mask"


@pytest.mark.parametrize("op", ["log", "clamp", "div"])
def test_the_legend_calls_no_other_arithmetic_a_sum(op):
    assert "sum" not in SAID[kind_of(call("net.step", op))]


def test_the_legend_has_a_word_for_every_kind():
    assert tuple(SAID) == KINDS
