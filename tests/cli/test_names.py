"""A model by its name at the command line: what it answers, and what is said where a name gives no model."""

import json
import sys

import pytest
from settings import LLAMA

from xray.cli.app import run
from xray.ir.files import read_trace_file

pytest.importorskip("transformers", reason="the library whose models are named here")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="the hub's client")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    return tmp_path


def write(here, **changes):
    settings = {key: value for key, value in {**LLAMA, **changes}.items() if value is not None}
    (here / "m" / "config.json").write_text(json.dumps(settings))


def test_an_answer_is_recorded_turn_by_turn(here, capsys):
    write(here)

    assert run(["trace", "m", "--phase", "inference", "--max-turns", "2", "-q", "-o", "a.json"]) == 0
    assert "its prompt is made ids, as none was asked for, its 2 new words are not chosen" in capsys.readouterr().err
    assert len(read_trace_file(here / "a.json").passes) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phase", "training"], "--phase: of a model by its name inference is recorded, or one call."),
        (["--phase", "both"], "--phase: of a model by its name inference is recorded, or one call."),
        (["--ask", "hi", "--input", "int64[1,2]"], "--input: an answer has a prompt for input"),
        (["--ask", "hi", "--mesh", "tp=2"], "--mesh: an answer has a prompt for input"),
        (["--kv-cache"], "--kv-cache: it is for the chatbot"),
    ],
)
def test_what_does_not_go_with_an_answer_is_refused(here, words, message, capsys):
    write(here)

    assert run(["trace", "m", *words]) == 2
    assert capsys.readouterr().err.startswith(f"xray: {message}")


NO_MODEL = [
    ("hf:a/b/c", "'a/b/c' is no model's name. Write owner/model, as in hf:Qwen/Qwen3-8B, or a folder that is there."),
    ("hf:", "hf: names no model. Write one behind the colon, as in hf:owner/model."),
    ("Qwen/Qwen3-8B", "there is no file Qwen/Qwen3-8B. Write hf:Qwen/Qwen3-8B for the model of this name on the hub."),
    ("m", "m has no config.json. Give a folder that has one, or a model's name."),
]


@pytest.mark.parametrize("command", ["trace", "cost", "anatomy", "diff"])
@pytest.mark.parametrize(("name", "message"), NO_MODEL)
def test_a_name_that_is_none_is_told_in_one_sentence(here, command, name, message, capsys):
    other = [name] if command == "diff" else []

    assert run([command, name, *other]) in (1, 2)
    assert capsys.readouterr().err == f"xray: {message}\n"


NO_SETTINGS = [
    ({"architectures": None}, "the settings of m name no architectures. Choose one with --as base, causal-lm, "),
    (
        {"architectures": ["Llama9ForCausalLM"]},
        "has not the class Llama9ForCausalLM of m. Install a newer transformers",
    ),
    ({"model_type": "llama99"}, "has not the model type 'llama99' of m. Install a newer transformers."),
    ({"architectures": ["LlamaTokenizer"]}, "the class LlamaTokenizer of m is no model. Choose one with --as base"),
    ({"auto_map": {"AutoConfig": "own.C"}, "model_type": "own"}, "If you trust it, run it with --trust-remote-code."),
    ({"num_attention_heads": 0}, "transformers cannot take the settings of m: "),
]


@pytest.mark.parametrize(("changes", "message"), NO_SETTINGS)
def test_settings_that_give_no_model_are_told_in_one_sentence(here, changes, message, capsys):
    write(here, **changes)

    assert run(["trace", "m"]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["trace", "cost"])
def test_a_package_that_a_model_needs_is_named(here, command, capsys, monkeypatch):
    monkeypatch.setattr("transformers.models.timm_wrapper.modeling_timm_wrapper.requires_backends", lack_timm)
    write(here, model_type="timm_wrapper", architectures=["TimmWrapperModel"], architecture="resnet18")

    assert run([command, "m"]) == 1
    assert capsys.readouterr().err == "xray: m needs the package timm. Install it with: pip install timm\n"


def lack_timm(*_):
    raise ImportError("\nTimmWrapperModel requires the timm library but it was not found.\nUse `pip install timm`.")


@pytest.mark.parametrize(("source", "package"), [("m", "transformers"), ("hf:a/b", "huggingface_hub")])
@pytest.mark.parametrize("command", ["trace", "cost", "diff"])
def test_the_extra_that_is_missing_is_named(here, command, source, package, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    write(here)

    assert run([command, source, *([source] if command == "diff" else [])]) in (1, 2)
    assert (
        f"needs the package {package}. Install it with: pip install 'transformer-xray[hub]'" in capsys.readouterr().err
    )


def refusals():
    from huggingface_hub import errors

    gated, private = (kind.__new__(kind) for kind in (errors.GatedRepoError, errors.RepositoryNotFoundError))
    return [
        (gated, "a/b is gated: its owner has to let you in. Ask for access on its page, log in with: hf auth login"),
        (private, "the hub has no model a/b, or it is private. Check the name; for a private one: hf auth login"),
        (
            ConnectionError("no route"),
            "cannot reach the hub for a/b (no route), and it is not in the local cache. Go online, or give a folder or "
            "file with its config.json.",
        ),
    ]


@pytest.mark.parametrize("command", ["trace", "cost", "diff"])
@pytest.mark.parametrize(("error", "message"), refusals())
def test_what_the_hub_does_not_give_is_told_in_one_sentence(here, command, error, message, capsys, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    other = ["hf:a/b"] if command == "diff" else []

    assert run([command, "hf:a/b", *other]) == (2 if command == "diff" else 1)
    assert capsys.readouterr().err == f"xray: {message}\n"
