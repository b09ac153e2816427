"""What the anatomy says beside the table of families: what is counted, kept, and left unsaid."""

import pytest
from story.body.building import record_family
from story.body.table import FAMILIES

from xray import anatomy


@pytest.mark.parametrize(
    ("name", "idle"),
    [
        ("mixtral", lambda c: (c.num_local_experts - 2) * 3 * c.hidden_size * c.intermediate_size),
        ("llama", lambda c: 0),
    ],
)
def test_parameters_of_experts_that_are_not_chosen_are_not_active(name, idle):
    config, trace = record_family(FAMILIES[name], num_hidden_layers=1)

    found = anatomy(trace)

    assert found.active_params == found.params - idle(config)


def test_a_trace_is_read_once():
    _, trace = record_family(FAMILIES["gpt2"], num_hidden_layers=1)

    assert anatomy(trace) is anatomy(trace)
