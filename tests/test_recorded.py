"""The kept traces are what would be recorded today: each is made again and compared, so that none can go stale."""

import json
import lzma
import math

import pytest
from families.specimens import BY_NAME, TORCH_SPECIMENS
from recorded import FAMILIES, FOLDER, path_of, recorded
from recorders import RECORDERS

from xray.ir.json_form import trace_to_json

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
QUICK = ("untrained, both", "cached", "nn.Transformer, training", "GPT-2, inference")
"""Those that are compared in the fast tier too: a chatbot, its cache, torch's own transformer, one of a library."""

OF_LIBRARY = tuple(name for name in BY_NAME if name not in {one.name for one in TORCH_SPECIMENS})


def differences(kept, now, place=""):
    """Where two traces in JSON differ: numbers have to be alike to a few digits, lines of code to their file."""
    if isinstance(kept, dict) and isinstance(now, dict):  # what an older trace does not have, it does not say
        kept = {**{key: None for key, value in now.items() if value is None}, **kept}
    if isinstance(kept, dict) and isinstance(now, dict) and kept.keys() == now.keys():
        return [
            found
            for key in kept
            if (key, place) != ("torch", ".config")
            for found in differences(kept[key], now[key], f"{place}.{key}")
        ]
    if isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        return [
            found
            for number, pair in enumerate(zip(kept, now, strict=True))
            for found in differences(*pair, f"{place}[{number}]")
        ]
    if place.endswith(".location") and kept is not None and now is not None:
        kept, now = kept.rpartition(":")[0], now.rpartition(":")[0]
    if isinstance(kept, float) and isinstance(now, float) and math.isclose(kept, now, rel_tol=1e-3, abs_tol=1e-4):
        return []
    return [] if kept == now else [f"{place}: {kept!r:.80} was kept, {now!r:.80} is recorded"]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RECORDERS]
)
def test_what_is_kept_is_what_is_recorded(name, update_recordings):
    if name.startswith((*OF_LIBRARY, "large", "smallest")):
        pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")
    path, now = path_of(name), trace_to_json(RECORDERS[name]())
    kept = lzma.decompress(path.read_bytes()).decode() if path.exists() else "{}"
    found = differences(json.loads(kept), json.loads(now))
    if found and update_recordings:
        path.write_bytes(lzma.compress(now.encode(), preset=9 | lzma.PRESET_EXTREME))
        recorded.cache_clear()
    else:
        assert found == [], "if this is meant: pytest tests/test_recorded.py -m '' --update-recordings"


def test_every_kept_trace_has_a_recorder_and_a_name_of_its_own():
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(path_of(name).name for name in RECORDERS)


def test_the_kept_traces_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3_000_000


def test_every_family_is_kept():
    assert tuple(BY_NAME) == FAMILIES


def test_a_change_is_found_wherever_it_is():
    kept = json.loads(trace_to_json(recorded("nn.Transformer, training")))
    changed = json.loads(json.dumps(kept))
    step = changed["passes"][0]["steps"][-1]
    step["outputs"][0]["shape"][0] += 1

    assert differences(kept, kept) == []
    assert len(differences(kept, changed)) == 1
