"""Families of the transformers library by their names, with its default settings."""

import json

import pytest
from settings import LLAMA

from xray.capture.targets.target import run_target
from xray.errors import TraceError
from xray.sources.library import AUTO, DEFAULT_KINDS, spell_kind
from xray.sources.loading import load_source
from xray.sources.request import Request

transformers = pytest.importorskip("transformers", reason="the library whose families are built here")


def record(source, **asked):
    outcome = run_target(load_source(source, Request(**asked)))
    assert outcome.error is None, outcome.error
    return outcome


def test_a_family_of_the_library_is_built_with_its_default_settings_and_needs_no_network():
    outcome = record("hf:gpt2")

    assert outcome.trace.title == "GPT2LMHeadModel"
    assert outcome.told.endswith("with the default settings of its family")


def test_a_family_comes_as_what_is_asked_for():
    assert record("hf:bert", kind="base").trace.title == "BertModel"


def test_a_folder_of_that_name_goes_before_a_family(tmp_path, monkeypatch):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)

    assert record("hf:bert").trace.title == "LlamaForCausalLM"


def test_families_of_like_names_are_told_where_there_is_none(monkeypatch):
    def refuse(name):
        raise TraceError(f"the hub has no model {name}.")

    monkeypatch.setattr("xray.sources.library.find_config", refuse)

    with pytest.raises(TraceError, match=r"no model lama\. Or give a family of the library, such as llama"):
        load_source("hf:lama")


def test_the_kinds_that_families_are_built_as_are_kinds_of_the_library():
    kinds = {spell_kind(name) for name in transformers.__all__ if name.startswith(AUTO)}

    assert [kind for kind in DEFAULT_KINDS if kind not in kinds] == []
