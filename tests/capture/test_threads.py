"""Threads: those that work for the model are seen, neighbours are not, and nothing stays behind in any of them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from xray.capture.recorder import record, trace


class Branches(nn.Module):
    """Two branches, each in a thread of its own."""

    def __init__(self, pool):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(5, 7), nn.ReLU())
        self.right = Doubling()
        self.pool = [pool]

    def forward(self, x):
        left, right = self.pool[0].submit(self.left, x), self.pool[0].submit(self.right, x * 3)
        return left.result().sum() + right.result().sum()


class Doubling(nn.Module):
    def forward(self, x):
        return (x * 2).view(-1)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


def run_beside(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def test_branches_in_worker_threads_are_steps_of_the_model(pool):
    recorded = trace(Branches(pool), torch.ones(2, 5))

    parents = {step.path: step.parent for step in recorded.steps}
    assert parents["left.0"] == "left#0"
    assert parents["left"] == parents["right"] == "Branches#0"


def test_operations_inside_the_modules_of_a_worker_thread_are_seen(pool):
    steps = {step.id: step for step in trace(Branches(pool), torch.ones(2, 5)).steps}

    assert steps["right.mul#0"].inputs[0].source == "Branches.mul#0"
    assert steps["right.view#0"].inputs[0].source == "right.mul#0"


def test_no_function_mode_stays_in_a_worker_thread(pool):
    trace(Branches(pool), torch.ones(2, 5))

    left = [pool.submit(torch.overrides._get_current_function_mode_stack).result() for _ in range(8)]

    assert left == [[]] * 8


def test_what_a_worker_thread_computes_is_bit_for_bit_the_same(pool):
    model, x = Branches(pool), torch.randn(2, 5)
    plain = model(x)

    with record(model):
        recorded = model(x)

    assert torch.equal(plain, recorded)


def test_a_neighbour_that_runs_the_same_model_on_the_same_input_is_not_seen():
    x = torch.ones(2, 5)

    class Visited(nn.Module):
        """While it runs, somebody else runs it too."""

        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 5)
            self.is_visited = False

        def forward(self, x):
            if not self.is_visited:
                self.is_visited = True
                run_beside(self, x)
            return self.inner(x)

    assert [step.id for step in trace(Visited(), x).steps] == ["Visited#0", "inner#0"]


def test_a_neighbour_that_runs_a_part_on_its_own_tensor_is_not_seen():
    class Visited(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(5, 5)

        def forward(self, x):
            run_beside(lambda: self.inner(torch.zeros(3, 5)))
            return self.inner(x)

    assert [step.id for step in trace(Visited(), torch.ones(2, 5)).steps] == ["Visited#0", "inner#0"]


def test_recordings_in_two_threads_keep_apart():
    model, meet, traces = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)), threading.Barrier(2), {}

    def work(batch):
        meet.wait()
        for _ in range(20):
            with record(model) as recorder:
                model(torch.ones(batch, 5))
            traces.setdefault(batch, []).append(recorder.trace)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for batch in (2, 3):
        assert len(traces[batch]) == 20
        assert all(
            [(step.id, step.outputs[0].shape[0]) for step in one.steps]
            == [("Sequential#0", batch), ("0#0", batch), ("1#0", batch)]
            for one in traces[batch]
        )


def test_a_failure_in_a_worker_thread_is_told_at_its_step(pool):
    model = Branches(pool)
    model.left[0] = nn.Linear(11, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        trace(model, torch.ones(2, 5))

    errors = {step.path: step.error for step in caught.value.xray_trace.steps}  # type: ignore[attr-defined]

    assert "mat1 and mat2 shapes" in errors["left.0"]
    assert errors["left"] == errors["left.0"]
