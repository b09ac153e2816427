"""Touching an axis: the same axis lights up everywhere."""

import pytest


@pytest.mark.parametrize("axis", ["batch", "heads", "src_len", "tgt_len", "d_k", "d_model", "tgt_vocab"])
def test_an_axis_lights_up_on_the_map(laptop, axis):
    laptop.click(f".axis[data-name={axis}]")
    lit = laptop.locator(".drawing .lit").evaluate_all("all => all.map(one => one.dataset.axis)")

    assert len(lit) == laptop.locator(
        f".drawing [data-axis='{axis}'], .drawing [data-axis='batch*{axis}']"
    ).count() or (axis == "batch" and len(lit) > 0)
    assert lit
    assert all(axis in name.split("*") for name in lit)


def test_batch_is_told_from_d_k_though_both_are_eight(at):
    page = at("#station=2&axis=d_k")
    texts = page.locator("[data-step='encoder.layers.0.self_attention.split_query#0'][data-pass=training] [data-axis]")

    assert texts.all_text_contents() == ["8", "4", "10", "8"]
    assert texts.evaluate_all("all => all.map(one => one.classList.contains('lit'))") == [False, False, False, True]


def test_a_digit_in_the_text_lights_its_axis(at):
    page = at("#station=2")
    page.locator("#views p [data-axis=heads]").first.click()

    assert page.locator(".axis[data-name=heads]").get_attribute("aria-pressed") == "true"
    assert page.locator(".drawing .lit").count() > 20


@pytest.mark.slow
def test_a_second_touch_puts_it_out(laptop):
    laptop.click(".axis[data-name=heads]")
    laptop.click(".axis[data-name=heads]")

    assert laptop.locator(".lit").count() == 0


@pytest.mark.slow
def test_the_light_stays_on_from_station_to_station(laptop):
    laptop.click(".axis[data-name=d_model]")
    laptop.keyboard.press("ArrowRight")

    assert laptop.locator("#views .lit").count() > 0
