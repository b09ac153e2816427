"""Every public function given things of the wrong kind: a sentence, not a traceback from somewhere deep."""

import pytest
import torch
from trust.outcomes import assert_one_line

import xray
from xray.errors import XRayError
from xray.renderers.themes import load_theme


class Thing:
    """Of no use to anyone, and named alike in every process."""

    def __repr__(self):
        return "a thing"


ODD = [None, 5, 1.5, "x", b"x", [], {}, Thing(), type, print, float("nan")]


def refused(action):
    with pytest.raises(XRayError) as caught:
        action()
    assert_one_line(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("form", ["svg", "png", "html", "dot", "json", "table"])
def test_only_a_trace_is_rendered(odd, form):
    assert "Trace" in refused(lambda: xray.render(odd, form))


@pytest.mark.parametrize("odd", [*ODD, "SVG", "jpeg", ""], ids=repr)
def test_an_unknown_form_is_refused(small_trace, odd):
    assert "form" in refused(lambda: xray.render(small_trace, odd))


@pytest.mark.parametrize("odd", ["dark", 5, {}, object], ids=repr)
@pytest.mark.parametrize("form", ["svg", "html", "table"])
def test_only_a_theme_paints(small_trace, form, odd):
    assert "theme" in refused(lambda: xray.render(small_trace, form, theme=odd)).lower()


@pytest.mark.parametrize("odd", ["a9", "", 5, [], {}], ids=repr)
def test_only_a_known_paper_is_drawn_on(small_trace, odd):
    assert "paper" in refused(lambda: xray.render(small_trace, "svg", paper=odd))


@pytest.mark.parametrize("odd", [0, -1, 10**9, 1.5, "x", None, float("nan"), 10**400], ids=lambda odd: str(odd)[:20])
def test_only_dots_that_can_be_painted_are_painted(small_trace, odd):
    assert "dpi" in refused(lambda: xray.render(small_trace, "png", dpi=odd))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_only_traces_are_compared(small_trace, odd):
    assert "Trace" in refused(lambda: xray.diff(small_trace, odd))
    assert "Trace" in refused(lambda: xray.diff(odd, small_trace))


@pytest.mark.parametrize("odd", [*ODD[1:], "", "\x00", "x" * 1000, "nowhere.json"], ids=lambda odd: repr(odd)[:20])
def test_only_a_file_with_a_trace_is_read(odd):
    refused(lambda: xray.read_trace(odd))


@pytest.mark.parametrize("odd", [*ODD[1:], "", "\x00", "x" * 1000, "nowhere"], ids=lambda odd: repr(odd)[:20])
def test_only_a_folder_with_a_run_is_loaded(odd):
    refused(lambda: xray.load(odd))


def test_only_a_device_that_is_there_is_used(kept_run):
    assert "device" in refused(lambda: xray.load(kept_run, "toaster"))
    assert "device" in refused(lambda: xray.load(kept_run, 5))  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", [one for one in ODD if one is not print], ids=repr)
def test_only_a_module_is_traced_or_recorded(odd):
    assert "torch.nn.Module" in refused(lambda: xray.trace(odd))
    assert "torch.nn.Module" in refused(lambda: xray.record(odd))


def test_only_modules_are_recorded_beside_it():
    assert "loss" in refused(lambda: xray.record(torch.nn.Linear(2, 3), loss=5))  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_question_is_a_text(kept_run, odd):
    run = xray.load(kept_run, "cpu")
    if odd == "x":
        assert run.answer(odd) is not None
        return
    assert "question" in refused(lambda: run.answer(odd))
    if odd is not None:
        assert "question" in refused(lambda: run.trace("inference", odd))


@pytest.mark.parametrize(
    ("name", "odd"),
    [("phase", "asleep"), ("phase", None), ("phase", []), ("values", "many"), ("values", 5), ("values", [])]
    + [("max_turns", odd) for odd in (0, -1, 1.5, "x", None, True)],
    ids=repr,
)
def test_a_run_is_traced_as_asked_or_not_at_all(kept_run, name, odd):
    assert name in refused(lambda: xray.load(kept_run, "cpu").trace(**{"question": "Hello!", name: odd}))


def test_an_unknown_name_is_no_secret():
    with pytest.raises(AttributeError, match=r"has no attribute 'poster'\. It has: "):
        xray.poster  # noqa: B018


def test_what_is_right_is_rendered(small_trace):
    assert xray.render(small_trace, "svg", theme=load_theme("light"), paper="a4").startswith("<?xml")
