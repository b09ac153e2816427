"""The anatomy of models that are not ours, held to what their configurations and their code say."""

from pathlib import Path

import pytest
from story.body.building import record_family
from story.body.table import FAMILIES, MODULES
from story.body.truth import list_differences

from xray import anatomy
from xray.story.alarms.whole import audit

TABLE = [
    pytest.param(family, id=name, marks=() if family.fast else pytest.mark.slow) for name, family in FAMILIES.items()
]


@pytest.fixture(scope="module", params=TABLE)
def read(request):
    """A family with its configuration and its trace, which are made once for both tests."""
    return request.param, *record_family(request.param)


def test_the_anatomy_is_true(read):
    family, config, trace = read

    assert list_differences(anatomy(trace), family.truth(config)) == []


def test_what_is_as_it_should_be_raises_nothing(read):
    _, _, trace = read

    assert audit(trace).alarms == ()


def test_the_table_has_every_module_that_notes_families():
    files = Path(__file__).parent.glob("*.py")

    assert sorted(MODULES) == sorted(file.stem for file in files if "\n@family(" in file.read_text(encoding="utf-8"))
