"""A change of level keeps the view: what is in the middle of the window stays there, at a size to read."""

import pytest
from page_helpers import rest
from small_blocks import layer, model_of

from xray.ir.trace import Trace
from xray.renderers.render import render

READABLE = 0.84
MIDDLE = """() => {
  const stage = document.getElementById("stage").getBoundingClientRect();
  const [x, y] = [stage.left + stage.width / 2, stage.top + stage.height / 2];
  const far = (from, to, at) => Math.max(0, from - at, at - to);
  const nodes = [...document.querySelectorAll(".unfolded [data-key], .drawing [data-step]")]
    .filter((one) => !document.querySelector(".unfolded") || one.closest(".unfolded"));
  const apart = (one) => {
    const box = one.getBoundingClientRect();
    return Math.hypot(far(box.left, box.right, x), far(box.top, box.bottom, y));
  };
  nodes.sort((one, other) => apart(one) - apart(other));
  return nodes[0].dataset.step ?? nodes[0].querySelector(".name").textContent;
}"""


OPS = ("linear", "relu", "gelu", "tanh", "sigmoid", "silu", "layer_norm", "sqrt", "exp")


@pytest.fixture
def open_layers(visit, tmp_path):
    """The page of a chain of layers of which no two are alike, at a place."""

    def go(place):
        source, steps = "", []
        for number in range(len(OPS) - 1):
            steps += layer(f"net.layer{number}", source, ops=OPS[number : number + 2])
            source = steps[-1].id
        path = tmp_path / "layers.html"
        path.write_text(render(Trace("Layers", {}, {}, (model_of(*steps),)), "html"), encoding="utf-8")
        return visit(path, place)

    return go


def bring_to_the_middle(page, selector):
    """Drag the map until something is in the middle of the window."""
    for _ in range(9):
        box, stage = page.locator(selector).first.bounding_box(), page.locator("#stage").bounding_box()
        away = [stage[at] + stage[size] / 2 - box[at] - box[size] / 2 for at, size in (("x", "width"), ("y", "height"))]
        if max(map(abs, away)) < 2:
            return
        by = [max(-350, min(350, one)) for one in away]
        page.mouse.move(400, 450)
        page.mouse.down()
        page.mouse.move(400 + by[0], 450 + by[1], steps=4)
        page.mouse.up()
        rest(page)
    pytest.fail(f"{selector} could not be brought to the middle")


def scale(page):
    rest(page)
    return page.evaluate("Number(document.querySelector('.drawing').style.transform.match(/scale\\((.*)\\)/)[1])")


def test_another_level_of_the_map_has_in_the_middle_what_was_there(open_layers):
    with open_layers("#view=walk") as page:
        bring_to_the_middle(page, "[data-step='net.layer5.part1#0']")
        page.locator("[data-map='1']").click()
        assert page.evaluate(MIDDLE) == "net.layer5#0"
        assert scale(page) >= READABLE
        page.locator("[data-map='0']").click()

        assert page.evaluate(MIDDLE).startswith("net.layer5.part")
        assert scale(page) >= READABLE


@pytest.mark.slow
def test_the_view_is_kept_and_not_only_the_chosen_step(open_layers):
    with open_layers("#view=step&step=net.layer0.part0%230") as page:
        bring_to_the_middle(page, "[data-step='net.layer6.part0#0']")
        page.locator("[data-map='1']").click()

        assert page.evaluate(MIDDLE) == "net.layer6#0"


@pytest.mark.slow
def test_a_level_in_the_address_is_seen_whole_at_first(open_layers):
    with open_layers("#map=1&view=walk") as page:
        rest(page)
        stage = page.locator("#stage").bounding_box()
        nodes = [node.bounding_box() for node in page.locator("[data-step]").all()]

        assert all(stage["y"] <= node["y"] <= stage["y"] + stage["height"] for node in nodes)


@pytest.mark.slow
def test_opening_and_closing_all_keeps_what_is_in_the_middle(open_layers):
    with open_layers("#view=walk&block=whole") as page:
        bring_to_the_middle(page, ".unfolded .part:has-text('layer6')")
        page.locator("[data-crumb=open]").click()
        rest(page)
        assert page.locator(".unfolded .frame .frame").count() == len(OPS) - 1
        middle = page.evaluate(MIDDLE)
        assert middle in ("layer6", "part0", "part1")
        bring_to_the_middle(page, ".unfolded .frame:has(> .head:has-text('layer3'))")
        page.locator("[data-crumb=close]").click()
        rest(page)

        assert page.evaluate(MIDDLE) == "layer3"


@pytest.mark.slow
def test_a_crumb_to_the_block_around_keeps_what_is_in_the_middle(at):
    block = "encoder.layers.1.self_attention"
    page = at(f"#view=step&block={block}%230&step={block}.softmax%230&phase=inference&turn=2")
    page.locator(f"[data-crumb='{block.rpartition('.')[0]}#0']").click()
    rest(page)

    assert page.locator(".unfolded .head .name").first.text_content() == "encoder.layers.1"
    assert page.evaluate(MIDDLE) == "self_attention"


@pytest.mark.slow
def test_folding_after_a_walk_inside_leads_to_what_was_in_the_middle(open_layers):
    with open_layers("#view=walk&block=whole") as page:
        bring_to_the_middle(page, ".unfolded .part:has-text('layer6')")
        page.keyboard.press("Escape")
        page.locator("#stage").focus()
        page.keyboard.press("Escape")
        rest(page)

        assert page.locator(".unfolded").count() == 0
        assert page.evaluate(MIDDLE).startswith("net.layer6")
