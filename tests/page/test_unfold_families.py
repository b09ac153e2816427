"""Networks of all kinds unfolded on the map, from the whole down to single operations, with the camera by transform."""

import json

import pytest
from page_helpers import record_family, rest, sizes

from xray.renderers.render import render

pytestmark = pytest.mark.slow

FAMILIES = ("ResNet", "T5", "ViT", "405B")
LLAMA_405B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16_384,
    "intermediate_size": 53_248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}
SAMPLES = 9
WATCH_FRAMES = """async ([from, to]) => {
  const stage = document.getElementById("stage");
  const drawing = stage.querySelector("svg.drawing");
  const box = stage.getBoundingClientRect();
  const send = (type, x, y) => stage.dispatchEvent(new PointerEvent(
    type, {pointerId: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true}));
  const changed = new Set();
  // where a frame comes late the map has come to rest between two of them, and is drawn sharp: not while it moves
  const watcher = new MutationObserver(found => stage.classList.contains("moving") && found.forEach(one => changed.add(
    one.type === "attributes" ? `${one.target.localName} ${one.attributeName}` : `${one.target.localName} children`)));
  watcher.observe(stage, {attributes: true, childList: true, subtree: true});
  const places = [];
  send("pointerdown", ...from);
  for (let at = 1; at <= 30; at += 1) {
    send("pointermove", from[0] + (to[0] - from[0]) * at / 30, from[1] + (to[1] - from[1]) * at / 30);
    await new Promise(requestAnimationFrame);
    if (at === 15) await new Promise(done => setTimeout(done, 200));
    places.push(drawing.style.transform);
  }
  send("pointerup", ...to);
  watcher.disconnect();
  return {changed: [...changed].sort(), places: new Set(places).size, viewBox: drawing.getAttribute("viewBox")};
}"""


@pytest.fixture(scope="module")
def family_files(tmp_path_factory):
    """The page of a network by its name, each made when it is first asked for, and its trace."""
    folder = tmp_path_factory.mktemp("families")
    made = {}

    def give(name):
        if name not in made:
            trace = record(name, folder)
            path = folder / f"{name}.html"
            path.write_text(render(trace, "html"), encoding="utf-8")
            made[name] = (path, trace)
        return made[name]

    return give


def record(name, folder):
    """ResNet is an example of the repository, the 405B model is recorded by its config alone."""
    from xray.capture.targets.page_values import preview_for_page
    from xray.capture.targets.target import run_target
    from xray.sources.loading import load_source
    from xray.sources.request import Request

    if name == "ResNet":
        return run_target(load_source("examples/resnet.py:build", Request()), preview_for_page).trace
    if name != "405B":
        return record_family(name)
    (folder / "config.json").write_text(json.dumps(LLAMA_405B), encoding="utf-8")
    return run_target(load_source(str(folder), Request())).trace


def operations(trace):
    """The steps of the first pass that hold no others."""
    first = trace.passes[0]
    return [step for step in first.steps if step.id not in first.blocks]


@pytest.mark.parametrize("name", FAMILIES)
def test_touch_by_touch_one_comes_from_the_whole_to_an_operation(visit, family_files, name):
    path, trace = family_files(name)
    with visit(path) as page:
        page.locator("[data-crumb=whole]").click()
        inner = page.locator(".unfolded .frame").last
        depth = 0
        while inner.locator(":scope > .part.block").count():
            inner.locator(":scope > .part.block").last.focus()
            page.keyboard.press("Enter")
            depth += 1
            assert page.locator(".unfolded .frame").count() == depth + 1
        inner.locator(":scope > .part").last.focus()
        page.keyboard.press("Enter")

        assert depth >= 2
        assert page.locator("h2.path").inner_text().split(" ")[0] in {step.path for step in operations(trace)}
        assert page.locator(".unfolded .chosen").count() == 1


@pytest.mark.parametrize("name", FAMILIES)
def test_operations_anywhere_in_a_network_are_unfolded_to(visit, family_files, name):
    path, trace = family_files(name)
    found = operations(trace)
    with visit(path, "#view=walk&block=whole") as page:
        for step in found[:: max(1, len(found) // SAMPLES)]:
            wanted = step.id.replace("#", "%23")
            page.evaluate("place => { location.hash = place; }", f"view=step&block=whole&step={wanted}")
            page.wait_for_function(
                "path => document.querySelector('h2.path')?.textContent.startsWith(path)", arg=step.path
            )
            chosen = page.locator(".unfolded .chosen")
            shape = chosen.locator(".shape_line").text_content()

            assert chosen.locator(".name").text_content() == step.path.rpartition(".")[2]
            assert shape.startswith(sizes(step.outputs[0]) or "one number")


def test_the_last_of_126_layers_is_shown_as_such(visit, family_files):
    path, trace = family_files("405B")
    last = [step for step in operations(trace) if step.op == "softmax"][-1].id.replace("#", "%23")
    with visit(path, "#view=walk&block=whole") as page:
        page.evaluate("place => { location.hash = place; }", f"view=step&block=whole&step={last}")
        page.locator(".unfolded .number").first.wait_for()

        assert page.locator(".unfolded .number").all_text_contents() == ["126 of 126 alike"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_open_moves_with_the_camera_and_is_not_drawn_anew(visit, family_files, name):
    path, _ = family_files(name)
    with visit(path, "#view=walk&block=whole") as page:
        page.locator("[data-crumb=open]").click()
        rest(page)
        before = page.locator(".drawing").get_attribute("viewBox")
        seen = page.evaluate(WATCH_FRAMES, [[500, 500], [200, 300]])

        assert "svg style" in seen["changed"]
        assert set(seen["changed"]) <= {"svg style", "div class", "canvas style", "canvas class"}
        assert seen["places"] >= 25
        assert seen["viewBox"] == before
