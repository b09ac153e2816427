"""A number followed through view, transpose and broadcast, with the wrong way beside it."""

import re

import pytest
from page_helpers import find_pass, find_step, record_family, rest
from playwright.sync_api import expect

from xray.renderers.render import render

ATTENTION = "encoder.layers.0.self_attention"
SPLIT = f"#view=step&step={ATTENTION}.split_query.transpose%230&phase=inference&turn=2"


def said(page):
    """What is said of the number in each tensor that it goes through."""
    return page.locator(".followed > .quiet").all_text_contents()


def point(page, row, column):
    page.locator(f".followed [data-row='{row}'][data-column='{column}']").hover()


def test_a_number_is_followed_through_view_and_transpose(at, page_trace):
    page = at(SPLIT)
    query = find_step(page_trace, f"{ATTENTION}.query", "encode").outputs[0]
    word = find_pass(page_trace, "encode").tokens["src"][0][3]
    d_k = page_trace.sizes["d_model"] // page_trace.sizes["heads"]
    head, number = divmod(21, d_k)
    point(page, 3, 21)
    through = said(page)

    assert [text.rpartition(":")[0] for text in through] == [
        f"“{word}”, head {head + 1}, number {number + 1}",
        f"head {head + 1}, “{word}”, number {number + 1}",
    ]
    value = query.preview.rows(0)[3][21]
    assert all(float(text.rpartition(":")[2]) == pytest.approx(value, rel=1e-3) for text in through)


@pytest.mark.slow
def test_a_view_without_the_transpose_puts_it_elsewhere(at, page_trace):
    page = at(SPLIT)
    heads, d_model = page_trace.sizes["heads"], page_trace.sizes["d_model"]
    length = find_step(page_trace, f"{ATTENTION}.query", "encode").outputs[0].shape[1]
    point(page, 3, 21)
    flat = 3 * d_model + 21
    head, rest = divmod(flat, length * d_model // heads)
    row, number = divmod(rest, d_model // heads)
    told = page.locator("#views").inner_text()
    found = re.search(r"this number would be at head (\d+), (.*), number (\d+): head", told)

    assert "no error would be raised" in told
    assert (int(found[1]), int(found[3])) == (head + 1, number + 1)
    assert found[2] == f"“{find_pass(page_trace, 'encode').tokens['src'][0][row]}”"


@pytest.mark.slow
def test_heads_are_joined_again_by_the_same_way_back(at):
    page = at(f"#view=step&step={ATTENTION}.concat.view%230&phase=inference&turn=2")
    point(page, 2, 5)

    assert said(page)[-1].split(":")[0].endswith("number 6")
    assert "The wrong way" in page.locator("#views").inner_text()


@pytest.mark.slow
def test_one_cell_of_a_mask_is_there_for_all_heads_and_queries(at, page_trace):
    page = at(f"#view=step&step={ATTENTION}.mask%230&phase=inference&turn=2")
    words = find_pass(page_trace, "encode").tokens["src"][0]
    point(page, 0, 2)

    assert said(page) == [f"all {page_trace.sizes['heads']} heads, all {len(words)} src_len, “{words[2]}”"]


@pytest.mark.slow
def test_a_cell_that_was_touched_on_the_map_is_the_one_that_is_followed(at):
    page = at(f"#view=step&step={ATTENTION}.query%230&phase=inference&turn=2")
    page.get_by_role("button", name="come near on the map").click()
    box = rest(page).locator(f".near[data-pass=encode][data-step='{ATTENTION}.query#0']").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7)
    touched = page.locator("#said").inner_text()

    assert touched.startswith("query, “")
    expect(page.locator(".followed .readout")).to_have_text(touched.removeprefix("query, "))


@pytest.mark.slow
def test_keys_of_grouped_queries_are_followed_through_their_repetition(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(record_family("Llama"), "html"), encoding="utf-8")
    with visit(path, "#view=step&step=model.layers.0.self_attn.reshape%230") as page:
        titles = page.locator(".followed > p > b").all_text_contents()
        point(page, 4, 6)
        texts = said(page)

    assert titles == ["cat", "index", "expand", "reshape"]
    assert [text.split(":")[0] for text in texts] == [
        "kv_heads 1, seq_len 5, number 7",
        "kv_heads 1, all 3 along axis 3, seq_len 5, number 7",
        "heads 1 to 3, seq_len 5, number 7",
    ]


@pytest.mark.slow
def test_a_step_that_computes_is_not_followed(at):
    page = at("#view=step&step=encoder.layers.0.feed_forward.expand%230&phase=inference&turn=2")

    assert page.locator(".followed").count() == 0
