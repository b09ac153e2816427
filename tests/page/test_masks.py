"""Touching a mask cell: which query may not see which key, both words, and why."""

import pytest
from page_helpers import find_pass, find_step

WHY = {
    "p": "it is padding",
    "f": "it comes later, in the future",
    "b": "it is both: padding, and in the future",
}


def touch(page, row, column):
    page.locator(f".grid [data-row='{row}'][data-column='{column}']").click()
    return page.locator(".readout").inner_text()


@pytest.mark.parametrize("letter", ["p", "f", "b", "."])
def test_a_cell_of_the_targets_mask_tells_both_words_and_why(at, page_trace, letter):
    page = at("#view=masks&station=4")
    cells = find_step(page_trace, "tgt_mask.combine", "training").outputs[0].mask.cells[0]
    words = find_pass(page_trace, "training").tokens["decoder_input"][0]
    row, column = next((r, c) for r, line in enumerate(cells) for c, cell in enumerate(line) if cell == letter)
    said = touch(page, row, column)

    assert said.startswith(f"“{words[row]}” (query {row + 1}) may ")
    assert f"“{words[column]}” (key {column + 1})" in said
    assert said.endswith("." if letter == "." else f": {WHY[letter]}.")
    assert ("may not look" in said) == (letter != ".")


def test_the_padding_mask_speaks_for_every_query(at):
    page = at("#view=masks&station=1")

    assert touch(page, 0, 9) == "No query may look at “<pad>” (key 10): it is padding."


@pytest.mark.slow
def test_another_sequence_has_another_mask(at, page_trace):
    page = at("#view=masks&station=1")
    page.get_by_label("sequence").select_option("3")
    words = find_pass(page_trace, "training").tokens["src"][3]

    assert page.locator(".grid .word").all_text_contents() == ["every query", *words]


def test_every_cell_has_the_look_of_its_reason(at, page_trace):
    page = at("#view=masks&station=4")
    cells = find_step(page_trace, "tgt_mask.combine", "training").outputs[0].mask.cells[0]
    names = {".": "mask_visible", "p": "mask_padding", "f": "mask_future", "b": "mask_both"}
    shown = page.locator(".grid .cell").evaluate_all("all => all.map(one => one.classList[1])")

    assert shown == [names[cell] for line in cells for cell in line]


def test_all_masks_of_a_pass_can_be_chosen(at):
    page = at("#view=masks&station=4")

    assert page.get_by_label("mask", exact=True).locator("option").all_text_contents() == [
        "padding mask, 8×1×1×10",
        "padding mask, 8×1×1×14",
        "causal mask, 1×1×14×14",
        "padding+causal mask, 8×1×14×14",
    ]


@pytest.mark.slow
def test_a_mask_says_who_reads_it(at):
    page = at("#view=masks&station=1")

    assert (
        "Read by encoder.layers.*.self_attention, decoder.layers.*.cross_attention."
        in page.locator("#views").inner_text()
    )


@pytest.mark.slow
def test_arrow_keys_go_from_cell_to_cell(at):
    page = at("#view=masks&station=4")
    page.focus(".grid")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")

    assert "(query 3) may look at" in page.locator(".readout").inner_text()
    assert page.locator("#said").inner_text() == page.locator(".readout").inner_text()
    assert page.locator("#rail [aria-current=step]").inner_text() == "4"


@pytest.mark.slow
def test_the_mask_drawn_on_the_map_opens_them(laptop):
    laptop.locator("[data-opens=masks][data-shows='tgt_mask.combine#0'][data-number='0']").click(force=True)

    assert laptop.locator("[role=tab][aria-selected=true]").inner_text() == "Masks"
    assert "mask=tgt_mask.combine" in laptop.evaluate("location.hash")
    laptop.locator("[data-opens=masks][data-shows='src_mask#0'][data-number='1']").first.click(force=True)
    assert laptop.locator("[data-phase=inference]").get_attribute("aria-pressed") == "true"
    assert laptop.get_by_label("mask", exact=True).input_value() == "src_mask#0"
