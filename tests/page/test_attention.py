"""The attention explorer: every layer and head of the three kinds, with the right words."""

import re

import pytest
from page_helpers import find_pass, find_step, record_family

from xray.renderers.render import render
from xray.story.weights.found import list_kinds
from xray.story.weights.reading import read_pictures

PLACES = {
    "encoder": ("encode", 0, "encoder.layers.{}.self_attention.softmax", "src", "src"),
    "decoder": ("decode", 4, "decoder.layers.{}.self_attention.softmax", "decoder_input", "decoder_input"),
    "cross": ("decode", 4, "decoder.layers.{}.cross_attention.softmax", "decoder_input", "src"),
}


def words_of(trace, kind):
    pass_kind, number, _, queries, keys = PLACES[kind]
    one_pass = find_pass(trace, pass_kind, number)
    question = find_pass(trace, "encode").tokens
    tokens = {**question, **one_pass.tokens}
    return tokens[queries][0], tokens[keys][0]


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.slow
def test_rows_are_queries_and_columns_are_keys(at, page_trace, kind):
    page = at(f"#view=attention&attention={kind}&phase=inference&turn=4")
    queries, keys = words_of(page_trace, kind)

    assert page.locator(".large .word").all_text_contents() == [*queries, *keys]


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (2, 3)])
def test_hovering_shows_the_weight(at, page_trace, kind, layer, head):
    page = at(f"#view=attention&attention={kind}&phase=inference&turn=4&layer={layer}&head={head}")
    pass_kind, number, path, _, _ = PLACES[kind]
    weights = find_step(page_trace, path.format(layer), pass_kind, number).outputs[0].preview.rows(0, head)
    queries, keys = words_of(page_trace, kind)
    page.locator(".large [data-row='3'][data-column='1']").hover()
    said = page.locator(".large .readout").inner_text()

    assert said.startswith(f"“{queries[3]}” looks at “{keys[1]}”: ")
    assert float(said.split(": ")[1]) == pytest.approx(weights[3][1], rel=1e-3)


def test_hidden_cells_say_so(at):
    page = at("#view=attention&attention=decoder&phase=inference&turn=4")
    page.locator(".large [data-row='0'][data-column='2']").hover()

    assert page.locator(".large .readout").inner_text().endswith(": 0 (hidden by the mask)")


def test_all_layers_and_heads_stand_side_by_side(at, page_trace):
    page = at("#view=attention&attention=cross")

    assert page.locator(".multiple").count() == page_trace.sizes["decoder_layers"] * page_trace.sizes["heads"]


@pytest.mark.parametrize("kind", PLACES)
def test_every_head_has_its_entropy(at, page_trace, kind):
    page = at(f"#view=attention&attention={kind}&phase=inference&turn=4")
    pass_kind, number, *_ = PLACES[kind]
    pictures = read_pictures(page_trace, find_pass(page_trace, pass_kind, number), kind)
    shown = [float(text) for text in page.locator(".multiple span").all_inner_texts()]

    assert shown == pytest.approx([picture.entropy for picture in pictures], abs=0.006)


@pytest.mark.slow
def test_padding_does_not_count_in_the_entropy(at, page_trace):
    page = at("#view=attention&attention=encoder&phase=training")
    picture = read_pictures(page_trace, find_pass(page_trace, "training"), "encoder")[0]

    assert float(page.locator(".multiple span").first.inner_text()) == pytest.approx(picture.entropy, abs=0.006)


@pytest.mark.slow
def test_a_small_picture_becomes_the_large_one(at):
    page = at("#view=attention&attention=cross")
    page.locator(".multiple").nth(6).click()
    large = page.locator(".large")

    assert (large.get_attribute("data-layer"), large.get_attribute("data-head")) == ("1", "2")


def test_another_sequence_of_the_batch_can_be_looked_at(at, page_trace):
    page = at("#view=attention&attention=encoder")
    page.get_by_label("sequence").select_option("5")
    words = find_pass(page_trace, "training").tokens["src"][5]

    assert page.locator(".large .word").all_text_contents() == [*words, *words]


@pytest.mark.slow
def test_it_says_that_the_weights_are_those_before_dropout(at):
    page = at("#view=attention")

    assert re.search("before dropout", page.locator(".large").inner_text())


@pytest.mark.slow
def test_the_picture_on_the_map_opens_the_explorer(laptop):
    laptop.locator("[data-opens=attention][data-shows*=cross]").click(force=True)

    assert laptop.locator("[data-kind=cross]").get_attribute("aria-pressed") == "true"


def test_the_strongest_looks_say_what_a_row_read_and_wrote(at, page_trace):
    page = at("#view=attention&attention=cross&phase=inference&turn=4&word=1")
    read, wrote = find_pass(page_trace, "decode", 4).tokens["decoder_input"][0][1:3]
    said = page.locator(".ranked li").all_inner_texts()

    assert len(said) == 5
    assert all(text.startswith(f"read “{read}”, wrote “{wrote}”:") for text in said)


def test_a_word_that_is_touched_is_looked_at_alone(at):
    page = at("#view=attention&attention=cross&phase=inference&turn=4")
    page.locator(".lines .query").nth(2).click()

    assert set(page.locator(".lines .look").evaluate_all("all => all.map(one => one.dataset.row)")) == {"2"}
    assert page.locator(".large .chosen_row").count() == 1
    assert "word=2" in page.evaluate("location.hash")


def test_another_head_moves_the_map_and_the_step(at):
    page = at("#view=attention&attention=cross&phase=inference&turn=4")
    page.locator(".multiple").nth(9).click()

    assert page.evaluate("location.hash").count("decoder.layers.2.cross_attention.softmax") == 1
    assert page.locator("#rail [aria-current=step]").inner_text() == "6"


@pytest.mark.parametrize("name", ["Llama", "T5", "ViT", "BERT"])
@pytest.mark.slow
def test_any_model_that_ran_with_values_has_its_attention(visit, tmp_path, name):
    trace = record_family(name)
    path = tmp_path / "page.html"
    path.write_text(render(trace, "html"), encoding="utf-8")
    kinds = [kind.name for kind in list_kinds(trace)]
    picture = read_pictures(trace, trace.passes[0], kinds[0])[0]
    with visit(path, "#view=attention") as page:
        page.locator(".large [data-row='2'][data-column='1']").hover()
        said = page.locator(".large .readout").inner_text()
        shown = page.locator("[data-kind]").evaluate_all("all => all.map(one => one.dataset.kind)")
        masks = page.locator("#tab_masks").count()

    assert float(said.split(": ")[1].split(" ")[0]) == pytest.approx(picture.weights[2][1], rel=1e-3)
    assert shown == (kinds if len(kinds) > 1 else [])
    assert masks == (name != "ViT")
