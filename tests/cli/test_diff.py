"""`xray diff`: what it lists, what it draws, and how it ends."""

from dataclasses import replace

import pytest
from small_traces import small_trace

from xray.cli.app import run
from xray.ir.json_form import trace_to_json
from xray.story.compare.changes import SAME


@pytest.fixture(scope="module")
def files(tmp_path_factory, training_trace):
    """A trace of the transformer, the same with another output width, and one without its head."""
    first = training_trace.passes[0]

    def widen(step):
        made = tuple(replace(record, shape=(*record.shape[:-1], 951)) for record in step.outputs)
        return replace(step, outputs=made) if step.path == "head" else step

    steps = {
        "before": first.steps,
        "after": tuple(map(widen, first.steps)),
        "shorter": tuple(step for step in first.steps if step.path != "src_mask"),
    }
    folder = tmp_path_factory.mktemp("traces")
    for name, listed in steps.items():
        trace = replace(training_trace, passes=(replace(first, steps=listed),))
        (folder / f"{name}.json").write_text(trace_to_json(trace), encoding="utf-8")
    return {name: str(folder / f"{name}.json") for name in steps}


def test_without_a_difference_it_ends_with_zero(files, capsys):
    assert run(["diff", files["before"], files["before"]]) == 0
    assert capsys.readouterr().out == f"{SAME}\n"


def test_a_difference_ends_with_one_and_names_the_first(files, capsys):
    assert run(["diff", files["before"], files["after"]]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "1 difference, the first one first:",
        "  training: shape at head#0, out: 8x14x950 -> 8x14x951",
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("other", "code"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".dot"])
def test_a_picture_does_not_change_the_exit_code(files, tmp_path, other, code, suffix):
    drawn = tmp_path / f"diff{suffix}"

    assert run(["diff", files["before"], files[other], "--dpi", "30", "-o", str(drawn)]) == code
    assert drawn.stat().st_size > 10_000


def test_the_picture_lists_what_changed(files, tmp_path):
    run(["diff", files["before"], files["after"], "-o", str(tmp_path / "diff.svg")])

    assert "1 STEP CHANGED" in (tmp_path / "diff.svg").read_text(encoding="utf-8")


def test_a_step_that_is_gone_is_said_on_the_fallback_drawing(files, tmp_path):
    assert run(["diff", files["before"], files["shorter"], "-o", str(tmp_path / "diff.svg")]) == 1
    assert "No longer there: src_mask#0" in (tmp_path / "diff.svg").read_text(encoding="utf-8")


def test_any_models_traces_can_be_compared(tmp_path):
    first = small_trace().passes[0]
    odd = tuple(replace(step, outputs=()) if step.path == "head" else step for step in first.steps)
    for name, steps in (("before", first.steps), ("after", odd)):
        foreign = replace(small_trace(), passes=(replace(first, kind="forward", steps=steps),))
        (tmp_path / f"{name}.json").write_text(trace_to_json(foreign), encoding="utf-8")
    named = [str(tmp_path / f"{name}.json") for name in ("before", "after")]

    assert run(["diff", *named, "-o", str(tmp_path / "diff.svg")]) == 1
    assert "1 · CHANGED" in (tmp_path / "diff.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", [".html", ".json", ".txt"])
def test_what_is_no_picture_is_refused(files, tmp_path, capsys, suffix):
    assert run(["diff", files["before"], files["after"], "-o", str(tmp_path / f"diff{suffix}")]) == 2
    assert f"a difference is drawn as a picture, not as {suffix}" in capsys.readouterr().err
