"""What the page can do, on one model of each kind: perform, show cells, link a choice, open in place, be asked."""

import pytest
from conftest import make_once

from xray.capture.targets.page_values import preview_for_page
from xray.capture.targets.target import run_target
from xray.renderers.render import render
from xray.sources.loading import load_source
from xray.sources.request import Request

MODELS = {
    "Llama": "examples/llama.py:build",
    "T5": "examples/t5.py:build",
    "ViT": "examples/vit.py:build",
    "ResNet": "examples/resnet.py:build",
    "405B": "examples/llama_405b.py:build",
}
WITH_NUMBERS = [name for name in MODELS if name != "405B"]
WITH_ATTENTION = [name for name in WITH_NUMBERS if name != "ResNet"]
DEEP = {
    "Llama": "model.layers.1.self_attn.q_proj#0",
    "T5": "decoder.block.1.layer.1.EncDecAttention.k#0",
    "ViT": "vit.layers.1.attention.q_proj#0",
    "ResNet": "stages.1.0.skip#0",
    "405B": "layers.100.attention.query#0",
}
"""An operation in a block in a block."""
ASKED = {
    "Llama": "why are scores divided?",
    "T5": "why is the input added back?",
    "ViT": "do places mix?",
    "ResNet": "input added back",
    "405B": "grouped queries",
}
pytestmark = pytest.mark.slow


@pytest.fixture
def open_model(visit, tmp_path_factory):
    """Opens a model's page; it is recorded and written once."""

    def go(name, place="", **options):
        def fill(folder):
            recording = run_target(load_source(MODELS[name], Request(meta=name == "405B")), preview_for_page)
            (folder / "page.html").write_text(render(recording.trace, "html"), encoding="utf-8")

        return visit(make_once(tmp_path_factory, f"page_{name}", fill) / "page.html", place, **options)

    return go


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_it_performs_from_the_beginning_to_the_end(open_model, name):
    with open_model(name, "#") as page:
        page.click("#show_start")
        page.keyboard.press(" ")
        titles = []
        for _ in range(int(page.get_attribute("#show_time", "max"))):
            page.keyboard.press("ArrowRight")
            titles.append(page.inner_text("#show_title"))

        assert titles[-1] == "The end"
        assert ("The decoder asks, the encoder replies" in titles) == (name == "T5")
        assert len(titles) > 7
        assert ("Shares of one whole" in titles) == (name in WITH_ATTENTION)


def test_what_ran_without_numbers_does_not_perform(open_model):
    with open_model("405B", "#") as page:
        assert not page.locator("#show").is_visible()
        assert not page.locator("#ways").is_visible()
        page.click("#tab_attention")
        assert "recorded without values" in page.inner_text("#views")


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_a_chosen_head_is_chosen_everywhere(open_model, name):
    with open_model(name, "#view=attention") as page:
        page.locator(".multiple").nth(1).click()

        assert page.get_by_label("head", exact=True).input_value() == "1"
        assert page.get_attribute(".large", "data-head") == "1"
        assert page.locator(".drawing .chosen[data-step]").count() == 1
        assert page.locator("#rail [aria-current=step]").inner_text() == "2"
        page.locator(".lines .query").nth(1).click()
        assert "word=1" in page.evaluate("location.hash")
        page.go_back()
        page.wait_for_function("!location.hash.includes('softmax')")
        assert page.get_attribute(".large", "data-head") == "0"


@pytest.mark.parametrize("name", MODELS)
def test_it_opens_in_place_down_to_an_operation(open_model, name):
    with open_model(name, "#view=find&block=whole") as page:
        page.fill("#query", DEEP[name].partition("#")[0])
        page.locator(f"#found [data-id='{DEEP[name]}']").click()
        crumbs = page.locator("#crumbs [data-crumb]").evaluate_all("all => all.map(one => one.dataset.crumb)")

        assert DEEP[name] in crumbs
        assert page.locator(".unfolded .part.chosen").count() == 1
        assert page.inner_text("h2.path") == DEEP[name].partition("#")[0]
        page.focus("#stage")
        page.keyboard.press("Escape")
        assert page.locator(".unfolded").count() == 0


@pytest.mark.parametrize("name", MODELS)
def test_it_answers_and_leads_there(open_model, name):
    with open_model(name, "#view=find") as page:
        page.fill("#query", ASKED[name])
        page.locator("#found details:not([open]) summary").evaluate_all("all => all.forEach(one => one.click())")
        page.get_by_role("button", name="to station").first.click()

        assert page.locator("#tab_walk").get_attribute("aria-selected") == "true"
        page.click("#tab_find")
        page.fill("#query", DEEP[name].partition("#")[0])
        page.locator(f"#found [data-id='{DEEP[name]}']").click()
        assert page.locator(".drawing .chosen[data-step]").count() == 1
