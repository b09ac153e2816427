"""The page of a transformer that is not X-Ray's own: its sheet is the map, and every node of it a step."""

import pytest
from page_helpers import sizes
from recorded import recorded

from xray.renderers.fonts import text_width
from xray.renderers.page.map import map_id
from xray.renderers.render import render
from xray.story.canvas import AGAIN
from xray.story.poster import compose_poster

CLICKED = {
    "Llama": "model.layers.0.self_attn.q_proj#0",
    "T5": "decoder.block.0.layer.1.EncDecAttention.k#0",
    "ViT": "vit.layernorm#0",
}


@pytest.fixture
def open_sheet(visit, tmp_path):
    def go(name):
        path = tmp_path / "sheet.html"
        path.write_text(render(recorded(f"{name}, inference"), "html"), encoding="utf-8")
        return visit(path)

    return go


@pytest.mark.parametrize("name", CLICKED)
def test_every_node_of_the_sheet_is_a_step_of_the_page(open_sheet, name):
    trace = recorded(f"{name}, inference")
    known = {map_id(one_pass, step) for one_pass in trace.passes for step in one_pass.steps}
    boxes = compose_poster(trace, text_width).boxes

    with open_sheet(name) as page:
        shown = page.locator("svg.drawing [data-step]").count()

    assert shown == sum(box.id.partition(AGAIN)[0] in known for box in boxes) > 20


@pytest.mark.parametrize("name", CLICKED)
def test_a_touch_on_a_node_shows_its_step(open_sheet, name):
    step = next(step for step in recorded(f"{name}, inference").steps if step.id == CLICKED[name])

    with open_sheet(name) as page:
        page.locator(f"svg.drawing [data-step='{step.id}']").first.click()

        assert page.locator("h2.path").inner_text() == step.path
        assert sizes(step.outputs[0]) in page.locator(".records .shape").all_inner_texts()


@pytest.mark.parametrize("kind", ["data-station", "data-opens=masks"])
def test_a_touch_on_what_is_no_step_does_no_harm(open_sheet, kind):
    with open_sheet("T5") as page:
        page.locator(f"svg.drawing [{kind}]").first.click()

        assert page.locator("#views h2").first.is_visible()
