"""`xray page`, `xray walk` and `xray attention`, and a page from `xray trace`."""

import io

import pytest
from page_helpers import unpack
from recorded import recorded

from xray.cli.app import run
from xray.cli.options.twins import sort_twins
from xray.renderers.render import render


@pytest.fixture(scope="module")
def trace_file(both_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    path.write_text(render(both_trace, "json"), encoding="utf-8")
    return path


@pytest.fixture
def no_run(monkeypatch, tmp_path):
    """A folder without a trained run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_is_made_from_a_trace_file(trace_file, tmp_path, capsys):
    target = tmp_path / "page.html"

    assert run(["page", str(trace_file), "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert f"wrote {target}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_is_made_of_an_untrained_chatbot(no_run, capsys):
    assert run(["page", "-o", "p.html", "--phase", "training"]) == 0
    assert "the model is untrained" in capsys.readouterr().err
    assert (no_run / "p.html").stat().st_size < 3_000_000


@pytest.mark.slow
def test_trace_writes_a_page_by_its_suffix(no_run):
    assert run(["trace", "--phase", "training", "-q", "-o", "p.html", "-o", "t.json"]) == 0
    assert (no_run / "p.html").stat().st_size > 1_000_000
    assert (no_run / "t.json").stat().st_size < 450_000


def test_a_page_can_be_opened(trace_file, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    target = tmp_path / "page.html"
    run(["page", str(trace_file), "-o", str(target), "--open"])

    assert opened == [target.as_uri()]


def test_a_trace_file_has_no_further_question(trace_file, capsys):
    assert run(["page", str(trace_file), "--ask", "Who?"]) == 2
    assert "--ask: a trace file is already answered." in capsys.readouterr().err


def test_a_walk_tells_all_nine_stations(trace_file, capsys):
    assert run(["walk", str(trace_file)]) == 0
    told = capsys.readouterr().out

    assert all(f" {number}  " in told for number in range(1, 10))
    assert "8×4×10×10" in told


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--station", "6", "--phase", "inference", "--turn", "2"], "1×4×2×9"),
        (["--station", "4"], "8×15"),
        (["--turn", "3", "--station", "9"], "turn 3"),
    ],
)
def test_a_walk_can_be_of_one_station(trace_file, capsys, arguments, part):
    assert run(["walk", str(trace_file), *arguments]) == 0
    assert part in capsys.readouterr().out


def test_a_turn_that_was_not_is_refused(trace_file, capsys):
    assert run(["walk", str(trace_file), "--turn", "99"]) == 2
    assert "there is no turn 99. The answer took 5 turns." in capsys.readouterr().err


def test_the_quiz_checks_answers_and_explains(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("8x1x1x10\n1x1\nwhat?\n8 10 4 8\n"))
    assert run(["walk", str(trace_file), "--quiz"]) == 0
    told = capsys.readouterr().out

    assert told.count("Right. ") == 2
    assert "Not quite. It is 8×10×32" in " ".join(told.split())
    assert told.count("Answer with a shape, as in 8x4x10x8") == 2
    assert told.endswith("2 of 3 right.\n")


@pytest.fixture
def llama_file(tmp_path):
    path = tmp_path / "llama.json"
    path.write_text(render(recorded("Llama, inference"), "json"), encoding="utf-8")
    return path


def test_any_model_can_be_walked_through(llama_file, capsys):
    assert run(["walk", str(llama_file)]) == 0
    told = capsys.readouterr().out

    assert " 2  text: self-attention, in 3 layers" in told
    assert "LINEAR Q 2×11×84, LINEAR K 2×11×28" in told


def test_a_station_that_another_model_has_not_is_refused(llama_file, capsys):
    assert run(["walk", str(llama_file), "--station", "7"]) == 2
    assert "there is no station 7. This journey has 4." in capsys.readouterr().err


def test_any_model_asks_for_its_shapes(llama_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("2x11x42\nq\n"))
    assert run(["walk", str(llama_file), "--quiz"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 right.\n")


def test_the_quiz_can_be_left(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    assert run(["walk", str(trace_file), "--quiz"]) == 0
    assert capsys.readouterr().out.endswith("0 of 0 right.\n")


def test_how_to_answer_is_said_before_the_first_question(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    run(["walk", str(trace_file), "--quiz"])
    told = " ".join(capsys.readouterr().out.split())

    assert told.index("? gives a hint, skip goes on, q leaves") < told.index("1 of ")


def test_a_bare_enter_is_no_answer(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n8x1x1x10\n"))
    run(["walk", str(trace_file), "--quiz"])
    told = capsys.readouterr().out

    assert "Not quite" not in told
    assert told.endswith("1 of 1 right.\n")


def test_a_question_mark_gives_a_hint_and_then_a_larger_one(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("?\n?\n?\n8x1x1x10\n"))
    run(["walk", str(trace_file), "--quiz"])
    told = " ".join(capsys.readouterr().out.split())

    first, second = told.index("It has 4 axes: batch × 1 × 1 × src_len."), told.index("All but the first: ?×1×1×10.")
    assert first < second < told.index("There is no more to tell") < told.index("Right. ")
    assert told.endswith("1 of 1 right.")


def test_a_skipped_question_is_answered_and_counts_for_nothing(trace_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("skip\n1x1\n"))
    run(["walk", str(trace_file), "--quiz"])
    told = " ".join(capsys.readouterr().out.split())

    assert "Skipped. It is 8×1×1×10" in told
    assert told.endswith("0 of 1 right, 1 skipped.")


def test_attention_is_shown_in_the_terminal(trace_file, capsys):
    assert run(["attention", str(trace_file)]) == 0
    told = capsys.readouterr().out

    assert told.startswith("Cross-attention  layer 3, head 1, before dropout")
    assert "entropy in bits" in told


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG")])
def test_attention_is_drawn_to_a_file(trace_file, tmp_path, name, start):
    target = tmp_path / name

    assert run(["attention", str(trace_file), "--kind", "encoder", "-o", str(target), "--dpi", "30"]) == 0
    assert target.read_bytes().startswith(start)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--layer", "9"], "there is no layer 9. The model has 3."),
        (["--head", "7"], "there is no head 7. The model has 4."),
        (["--turn", "44"], "there is no turn 44."),
        (["-o", "a.jpg"], "End it in"),
        (["--kind", "text"], "there is no text attention in this trace. Choose --kind encoder or decoder or cross."),
    ],
)
def test_attention_says_what_there_is(trace_file, capsys, arguments, part):
    assert run(["attention", str(trace_file), *arguments]) == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--twin", "no-cache"], "the twin 'no-cache' is unknown. Choose kv-cache, no-kv-cache"),
        (["FILE", "--twin", "no-scale"], "a trace file is recorded already. Give the trace of its twin"),
        (["FILE", "--twin", "missing.json"], "missing.json"),
    ],
)
def test_a_twin_that_cannot_be_is_refused(trace_file, no_run, capsys, arguments, told):
    assert run(["page", *(str(trace_file) if one == "FILE" else one for one in arguments), "-o", "p.html"]) in (1, 2)
    assert told in capsys.readouterr().err
    assert not (no_run / "p.html").exists()


@pytest.mark.slow
def test_another_recording_of_the_model_is_a_twin(no_run, trace_file, cached_trace):
    (no_run / "cached.json").write_text(render(cached_trace, "json"), encoding="utf-8")

    assert run(["page", str(trace_file), "--twin", "cached.json", "-o", "p.html"]) == 0
    facts = unpack((no_run / "p.html").read_text(encoding="utf-8"))

    assert [(one["name"], one["says"]) for one in facts["twins"]] == [("cached", None)]


@pytest.mark.slow
def test_twins_of_the_chatbot_are_recorded_for_its_page(no_run):
    assert run(["page", "--twin", "kv-cache", "--twin", "no-cross-mask", "--twin", "no-scale", "-o", "p.html"]) == 0
    facts = unpack((no_run / "p.html").read_text(encoding="utf-8"))

    assert [one["name"] for one in facts["twins"]] == ["kv-cache", "no-cross-mask", "no-scale"]
    assert all(one["says"] for one in facts["twins"])
    assert (no_run / "p.html").stat().st_size < 4_000_000


@pytest.mark.slow
def test_twins_of_another_model_are_recorded_for_its_page(no_run, monkeypatch):
    source = no_run / "mine.py"
    source.write_text(
        "import torch\n"
        "class Mine(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
        "def build():\n"
        "    return Mine(), (torch.randn(2, 3, 5, 7),)\n",
        encoding="utf-8",
    )

    assert run(["page", f"{source}:build", "--twin", "no-causal-mask", "--twin", "no-scale", "-o", "p.html"]) == 0
    (causal, scale) = unpack((no_run / "p.html").read_text(encoding="utf-8"))["twins"]

    assert {one["aspect"] for one in causal["passes"][0]["changes"]} >= {"step missing"}
    assert [one["words"][1] for one in scale["passes"][0]["changes"]] == ["1", "1"]


def test_files_of_one_name_are_two_twins(tmp_path):
    given = [str(tmp_path / "a" / "twin.json"), str(tmp_path / "b" / "twin.json"), "no-scale"]

    names, files = sort_twins(given, None)

    assert (names, list(files)) == (["no-scale"], ["twin", given[1]])
