"""The page of one rank of many: what it holds, what it exchanges, in order and layer by layer."""

import pytest

pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")

import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8):
    pytest.skip("the library divides models with torch 2.8 and newer", allow_module_level=True)

from page_helpers import LAPTOP, PHONE
from rank_specimens import PLAN, SPECIMENS, make_library
from sharded import GPT

import xray
from xray.capture.targets.inputs import Target
from xray.ranks.mesh import parse_mesh
from xray.ranks.recording import Share, record_rank
from xray.renderers.page.ranks import pack_ranks
from xray.story.facts.exchanges import list_slices
from xray.story.facts.held_weights import list_held
from xray.story.facts.rounds import fold_exchanges


def record(mesh, layers, rank=0, *, trains=False):
    target = SPECIMENS["GPT"].target(GPT(layers=layers, vocab=47).eval())
    return record_rank(target, Share(parse_mesh(mesh), rank, PLAN, trains)).trace


def test_each_weight_is_told_with_its_place_in_the_whole():
    held = {one.name: one for one in list_held(record("tp=2", layers=3, rank=1))}

    up, down = held["layers.*.up.weight"], held["layers.*.down.weight"]
    assert (up.shape, up.local, up.begin, up.placement, up.count) == ((128, 32), (64, 32), (64, 0), "[S(0)]", 3)
    assert (down.local, down.begin, down.placement) == ((32, 64), (0, 64), "[S(1)]")
    assert {one.parts for one in held.values()} == {""}


def test_uneven_parts_of_a_weight_are_told_of_every_rank():
    held = {one.name: one for one in list_held(record("fsdp=2", layers=2, rank=1))}

    words = held["words.weight"]
    assert (words.shape, words.local, words.begin) == ((47, 32), (23, 32), (24, 0))
    assert words.parts == "0: 24x32, 1: 23x32"


@pytest.mark.slow
def test_uneven_parts_of_an_axis_are_told_of_every_rank():
    target = Target(make_library("Llama", intermediate_size=70), (), SPECIMENS["Llama"].target(True).kwargs)

    slices = {one.name: one for one in list_slices(record_rank(target, Share(parse_mesh("tp=4"), 3)).trace)}

    assert slices["d_ff"].parts == (18, 18, 18, 16)
    assert slices["heads"].parts == ()


def test_exchanges_that_come_again_in_each_layer_are_one_round():
    rounds = fold_exchanges(record("fsdp=2", layers=6, trains=True))

    told = [
        ([(step.path, one.op) for step, one in one_round.exchanges], one_round.times, one_round.layers)
        for one_round in rounds
    ]
    assert ([("layers.0.all_gather", "all_gather")], 6, (0, 5)) in told
    back = [one for one in told if one[1] > 1 and len(one[0]) == 2]
    assert len(back) == 1
    assert {op for _, op in back[0][0]} == {"all_gather", "reduce_scatter"}
    assert sum(len(one.exchanges) * one.times for one in rounds) == 6 + 6 + 6 + 2


def test_a_trace_that_is_of_no_rank_has_no_such_view():
    model = GPT()

    assert pack_ranks(xray.trace(model, torch.arange(8).view(2, 4))) is None


@pytest.mark.slow
@pytest.mark.parametrize("screen", [LAPTOP, PHONE])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_page_shows_who_holds_what_and_where_data_waits(browser, tmp_path, screen, scheme):
    out = tmp_path / "rank.html"
    out.write_text(xray.render(record("fsdp=2,tp=2", layers=4, trains=True), "html"), encoding="utf-8")
    page = browser.new_page(viewport=screen, color_scheme=scheme)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        page.goto(out.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        page.get_by_role("tab", name="Ranks").click()
        assert page.locator("#views h2").inner_text() == "Rank 0 of fsdp=2, tp=2"
        assert "on the way back" in page.locator("#views p").first.inner_text()
        up = page.locator(".rank_weight", has_text="layers.*.up.weight")
        assert "32×32 of 128×32" in up.inner_text()
        whole, held = (up.locator(f".{name}").bounding_box() for name in ("whole", "held"))
        assert held["height"] == pytest.approx(whole["height"] / 4, abs=1.5)
        assert page.locator(".rank_round.again").first.inner_text().startswith("4× this, layers 0 to 3")
        assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
        page.locator(".rank_round button").first.click()
        assert page.get_by_role("tab", name="Step", exact=True).get_attribute("aria-selected") == "true"
        assert not wrong
    finally:
        page.close()
