"""The page as text: what it is built from, what it may do, how much it carries."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
import torch
from page_helpers import unpack, unpacked
from small_runs import MODEL, write_pairs
from torch import nn

import xray
from xray.capture.targets.run import Run
from xray.errors import DrawError, UsageError
from xray.ir.twins import TWINS
from xray.learn.runs.load import untrained_chatbot
from xray.renderers.page import page as page_module
from xray.renderers.page.data import pack_page
from xray.renderers.page.page import draw_page, pack_facts
from xray.renderers.page.twins import pack_twins
from xray.renderers.page.values import LEVELS
from xray.renderers.render import render
from xray.renderers.themes import load_theme

SCORES = ("batch", "heads", "src_len", "src_len")


@pytest.fixture(scope="module")
def page_trace(tmp_path_factory):
    """With the values of a page, of a chatbot so small that its pages are made in no time."""
    corpus = write_pairs(tmp_path_factory.mktemp("corpus") / "pairs.csv")
    return Run(untrained_chatbot(corpus, MODEL, device="cpu")).trace("both", "Who?", max_turns=3, values="page")


@pytest.fixture(scope="module")
def html(page_trace):
    return render(page_trace, "html")


@pytest.mark.parametrize("tag", ["script", "style"])
def test_the_policy_allows_exactly_what_is_in_the_page(html, tag):
    allowed = re.search(rf"{tag}-src &#39;sha256-([^&]+)&#39;", html)[1]
    inner = re.search(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", html, re.DOTALL)[1]

    assert allowed == b64encode(sha256(inner.encode()).digest()).decode()


def test_the_facts_are_those_of_the_trace(html, page_trace):
    facts = unpack(html)

    assert [len(one["steps"]) for one in facts["passes"]] == [len(one.steps) for one in page_trace.passes]
    assert facts["sizes"] == dict(page_trace.sizes)


def test_settings_that_are_no_number_are_words():
    class Hider(nn.Module):
        def forward(self, scores, lowest):
            return torch.clamp(scores.masked_fill(scores > 0, lowest), min=lowest, max=-lowest) * float("nan")

    facts = unpack(render(xray.trace(Hider(), torch.ones(2, 3), float("-inf")), "html"))

    settings = [one["settings"] for one in facts["passes"][0]["steps"]]
    assert {value for one in settings for value in one.values()} >= {"-inf", "inf", "nan"}


def test_a_trace_that_nobody_recorded_may_hold_infinity(page_trace):
    first, *rest = page_trace.passes
    steps = (replace(first.steps[0], settings={"low": float("-inf")}), *first.steps[1:])
    trace = replace(page_trace, config={"rate": float("nan")}, passes=(replace(first, steps=steps), *rest))

    facts = unpack(render(trace, "html"))

    assert (facts["config"], facts["passes"][0]["steps"][0]["settings"]) == ({"rate": "nan"}, {"low": "-inf"})


def test_values_are_kept_to_four_digits(html, page_trace):
    path = "encoder.layers.0.self_attention.softmax#0"
    packed = next(step for step in unpack(html)["passes"][0]["steps"] if step["id"] == path)["outputs"][0]["block"]
    preview = page_trace.passes[0].by_id[path].outputs[0].preview

    sizes = page_trace.sizes
    assert tuple(packed["shape"]) == preview.shape == tuple(sizes[name] for name in SCORES)
    assert packed["values"] == [pytest.approx(value, rel=5e-4) for value in preview.values]


def test_values_stand_only_where_they_were_made(html):
    steps = unpack(html)["passes"][0]["steps"]

    assert all("block" not in record for step in steps for record in step["inputs"] if record["source"] is not None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", LEVELS, ids=[level.name for level in LEVELS])
def test_each_level_carries_less_than_the_one_before(page_trace, level):
    place = LEVELS.index(level)
    sizes = [len(json.dumps(pack_page(page_trace, one))) for one in LEVELS[max(0, place - 1) : place + 1]]

    assert sizes == sorted(sizes, reverse=True)
    assert level.says in pack_page(page_trace, level)["kept"]


def test_where_room_is_scarce_values_go_first(page_trace):
    roomy = pack_facts(page_trace, 3_000_000)
    room = len(roomy) // 2
    scarce = pack_facts(page_trace, room)

    assert len(scarce) <= room
    assert unpacked(scarce)["kept"] != unpacked(roomy)["kept"]
    assert len(unpacked(scarce)["passes"]) == len(unpacked(roomy)["passes"])


@pytest.mark.slow
def test_where_there_is_no_room_at_all_it_says_so(page_trace):
    with pytest.raises(DrawError, match="Trace fewer turns"):
        pack_facts(page_trace, 100)


@pytest.mark.slow
def test_a_long_answer_still_fits(untrained_run):
    trace = untrained_run.trace("both", max_turns=20, values="page")

    assert len(draw_page(trace).encode()) < page_module.MOST_BYTES


def test_the_page_may_begin_light(page_trace):
    assert '<html lang="en" data-theme="light">' in draw_page(page_trace, theme=load_theme("light"))


def test_colours_come_from_both_themes(html):
    for theme in (load_theme("dark"), load_theme("light")):
        assert f"--encoder-fill:{theme.surfaces['encoder'].fill};" in html
        assert f"--axis-heads:{theme.axis_colour('heads', 'card')};" in html


def test_no_script_and_no_sheet_names_a_colour():
    from xray.assets import templates_folder

    for path in sorted((templates_folder() / "page").iterdir()):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"#[0-9A-Fa-f]{6}\b|#[0-9A-Fa-f]{3}\b(?=[;\s\"')])|rgba?\(|hsla?\(", text) == [], path.name


def test_a_plain_traces_page_has_its_few_values(both_trace):
    facts = pack_page(both_trace, LEVELS[0])

    assert facts["has_values"]
    assert facts["passes"][0]["steps"][-1]["op"] == "backward"


def test_a_twin_is_told_by_what_it_changes_only_where_nothing_else_is_changed(page_trace):
    twin = replace(page_trace, config={**page_trace.config, "twin": "no-scale", "answer": "other"})
    asked = replace(twin, config={**twin.config, "question": "Where?"})

    told = {one["name"]: one["says"] for one in pack_twins(page_trace, {"one": twin, "two": asked, "same": page_trace})}

    assert told == {"one": TWINS["no-scale"], "two": None, "same": None}


def test_a_twin_stands_on_a_page_alone(page_trace):
    with pytest.raises(UsageError, match="a twin stands on the page alone, not in the form 'svg'"):
        render(page_trace, "svg", twins={"one": page_trace})
