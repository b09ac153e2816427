"""Settings from the hub by a model's name: what is said when they cannot be had. Nothing here needs a network."""

import json

import pytest

from xray.errors import TraceError
from xray.sources import hub

huggingface_hub = pytest.importorskip("huggingface_hub", reason="the hub's client")
errors = pytest.importorskip("huggingface_hub.errors")


@pytest.fixture
def refuse(monkeypatch):
    def refuse(error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", fail)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)

    return refuse


def make(kind):
    """An error of the hub's client as it comes, without the answer that it is built from."""
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionError("no route"), r"cannot reach the hub for a/b \(no route\), and it is not in the local cache"),
        (make(errors.GatedRepoError), "a/b is gated"),
        (make(errors.RepositoryNotFoundError), "the hub has no model a/b, or it is private"),
        (make(errors.EntryNotFoundError), "a/b has no config.json on the hub"),
        (errors.OfflineModeIsEnabled("off"), "cannot reach the hub for a/b"),
    ],
)
def test_what_cannot_be_had_is_told_in_one_sentence(refuse, error, message):
    refuse(error)

    with pytest.raises(TraceError, match=message):
        hub.find_config("a/b")


def test_what_is_no_name_is_told_before_anybody_is_asked():
    with pytest.raises(TraceError, match="'a/b/c' is no model's name"):
        hub.find_config("a/b/c")


def test_what_was_fetched_before_is_taken_without_a_network(refuse, monkeypatch, tmp_path):
    refuse(ConnectionError("no route"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: str(tmp_path / "config.json"))

    assert hub.find_config("a/b").settings == {"model_type": "llama"}
