"""The anatomy of models that are not ours, held to what their configurations and their code say."""

import pytest
from story.body.building import record_family
from story.body.table import FAMILIES
from story.body.truth import list_differences

from xray import anatomy

TABLE = [
    pytest.param(family, id=name, marks=() if family.fast else pytest.mark.slow) for name, family in FAMILIES.items()
]


@pytest.mark.parametrize("family", TABLE)
def test_the_anatomy_is_true(family):
    config, trace = record_family(family)

    assert list_differences(anatomy(trace), family.truth(config)) == []
