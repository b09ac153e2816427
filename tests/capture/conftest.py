"""Here recording itself is tested: the traces that other tests read from files are recorded anew."""

import pytest


@pytest.fixture(scope="session")
def both_trace(untrained_run):
    return untrained_run.trace("both", max_turns=5)


@pytest.fixture(scope="session")
def training_trace(untrained_run):
    return untrained_run.trace("training")


@pytest.fixture(scope="session")
def inference_trace(untrained_run):
    return untrained_run.trace("inference", max_turns=5)
