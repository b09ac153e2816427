"""Somebody's own model on the command line: found, built, fed, and its failures told."""

import sys

import pytest
import torch

from xray.capture.targets.inputs import parse_input
from xray.capture.targets.page_values import preview_for_page
from xray.capture.targets.target import load_target, run_target
from xray.errors import TraceError, UsageError
from xray.ir.values import drop_values

SOURCE = """
import torch
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, ids, scale):
        return self.out(self.embed(ids) * scale)

def build():
    return Pair()

def build_with_inputs():
    return Pair(), (torch.zeros(2, 7, dtype=torch.long), torch.ones(5))

def build_with_keywords():
    return Pair(), {"scale": torch.ones(5), "ids": torch.zeros(2, 7, dtype=torch.long)}

def build_broken():
    return Pair(), (torch.zeros(2, 7, dtype=torch.long), torch.ones(4))

def number():
    return 3

def nothing():
    pass

def forgets_to_make_it():
    return Pair, torch.zeros(2)

IDS, SCALE = torch.zeros(2, 7, dtype=torch.long), torch.ones(5)

def one_by_one():
    return Pair(), IDS, SCALE

def in_a_list():
    return [Pair(), [IDS, SCALE]]

def mixed():
    return Pair(), IDS, {"scale": SCALE}

def together_and_named():
    return Pair(), (IDS,), {"scale": SCALE}

def exported():
    return torch.export.export(Pair(), (IDS, SCALE))

def exported_with_inputs():
    return torch.export.export(Pair(), (IDS, SCALE)), IDS + 1, SCALE

class Packed(nn.Module):
    def forward(self, rows):
        return rows.data * 2

def packed():
    return Packed(), nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])

class Leaver(nn.Module):
    def forward(self, x):
        x = x + 1
        raise SystemExit(0)

def leaves():
    return Leaver(), torch.ones(2)

def reads_values():
    class Reader(nn.Module):
        def forward(self, x):
            return x * x.sum().item()
    return Reader()

ready = Pair()
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "my_pair.py"
    path.write_text(SOURCE)
    yield str(path)
    sys.modules.pop("my_pair", None)


@pytest.mark.parametrize(
    "build",
    ["build_with_inputs", "build_with_keywords", "one_by_one", "in_a_list", "mixed", "together_and_named"],
)
def test_a_builder_may_bring_its_inputs(source, build):
    outcome = run_target(load_target(f"{source}:{build}"))

    assert outcome.error is None
    assert [step.path for step in outcome.trace.steps] == ["Pair", "embed", "Pair.mul", "out"]


def test_inputs_can_be_made(source):
    target = load_target(f"{source}:build", ["ids=int64[2,7]<11", "scale=float32[5]"])

    assert run_target(target).trace.passes[0].steps[-1].outputs[0].shape == (2, 7, 3)


def test_a_model_itself_will_do(source):
    assert load_target(f"{source}:ready", ["int64[2,7]<11", "float32[5]"]).model.training


def test_a_module_can_be_named_by_its_package(source, monkeypatch):
    monkeypatch.syspath_prepend(source.rsplit("/", 1)[0])

    assert run_target(load_target("my_pair:build_with_inputs")).error is None


def test_a_module_in_the_current_folder_is_found_first(tmp_path, monkeypatch):
    (tmp_path / "queue.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert run_target(load_target("queue:build_with_inputs")).error is None


@pytest.mark.parametrize("name", ["xray", "random"])
def test_a_file_may_be_called_like_a_module_that_others_need(tmp_path, monkeypatch, name):
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = sys.modules[name]

    assert run_target(load_target(f"{tmp_path / name}.py:build_with_inputs")).error is None
    assert sys.modules[name] is before


@pytest.mark.parametrize("build", ["exported", "exported_with_inputs"])
def test_an_exported_program_is_taken_by_its_module(source, build):
    outcome = run_target(load_target(f"{source}:{build}"))

    assert outcome.error is None
    assert outcome.trace.passes[0].steps[-1].outputs[0].shape == (2, 7, 3)


def test_a_packed_sequence_is_one_argument(source):
    assert run_target(load_target(f"{source}:packed")).error is None


def test_a_forward_that_exits_has_failed(source):
    outcome = run_target(load_target(f"{source}:leaves"))

    assert isinstance(outcome.error, SystemExit)
    assert [step.op for step in outcome.trace.steps if step.error is None] == ["add"]


def test_without_storage_shapes_are_the_same(source):
    target = load_target(f"{source}:build", ["ids=int64[2,7]<11", "scale=float32[5]"], meta=True)
    step = run_target(target).trace.passes[0].steps[-1]

    assert (step.outputs[0].shape, step.outputs[0].device) == ((2, 7, 3), "meta")


def test_a_model_that_reads_values_is_refused_without_storage(source):
    outcome = run_target(load_target(f"{source}:reads_values", ["float32[2]"], meta=True))

    assert isinstance(outcome.error, RuntimeError)
    assert "item() cannot be called on meta tensors" in str(outcome.error)


def test_a_failing_forward_keeps_what_ran_and_its_own_exception(source):
    outcome = run_target(load_target(f"{source}:build_broken"))

    assert isinstance(outcome.error, RuntimeError)
    failed = [step for step in outcome.trace.steps if step.error is not None]
    assert [(step.path, [record.shape for record in step.inputs]) for step in failed][-1] == (
        "Pair.mul",
        [(2, 7, 5), (4,)],
    )


@pytest.mark.parametrize(
    ("name", "inputs", "error", "message"),
    [
        ("my_pair.py", [], UsageError, "names no function. Write it as my_model.py:build."),
        ("absent.py:build", [], TraceError, "cannot read absent.py: no such file."),
        ("absent_package.module:build", [], TraceError, "cannot import absent_package.module: No module named"),
        ("{source}:absent", [], TraceError, "has no absent. It has: Pair, build, build_with_inputs"),
        ("{source}:number", [], TraceError, "gives a int. It has to return a torch.nn.Module"),
        ("{source}:nothing", [], TraceError, "gives nothing. It has to return a torch.nn.Module"),
        ("{source}:forgets_to_make_it", [], TraceError, "gives the class Pair, not a model made of it."),
        ("{source}:build", [], UsageError, "Pair.forward wants (ids, scale): missing a required argument: 'ids'"),
        (
            "{source}:build",
            ["ids=int64[2,7"],
            UsageError,
            "cannot read the input 'ids=int64[2,7'. Write it as in --input",
        ),
        ("{source}:build", ["ids=number[2,7]"], UsageError, "cannot read the input"),
        ("{source}:build", ["ids=int64[2]", "x=int64[2]"], UsageError, "missing a required argument: 'scale'"),
    ],
)
def test_what_cannot_be_run_is_said(source, name, inputs, error, message):
    with pytest.raises(error) as caught:
        load_target(name.format(source=source), inputs)

    assert message in str(caught.value)


def test_made_ids_stay_below_their_bound():
    name, ids = parse_input("src=int64[50,20]<7")

    assert (name, ids.dtype, ids.shape) == ("src", torch.int64, (50, 20))
    assert 0 <= ids.min() < ids.max() == 6


def test_making_an_input_draws_nothing_from_the_users_chance():
    before = torch.get_rng_state()

    parse_input("float32[3]")

    assert torch.equal(torch.get_rng_state(), before)


def test_values_are_kept_where_they_are_asked_for(source):
    target = load_target(f"{source}:build_with_inputs")
    with_values, plain = run_target(target, preview_for_page).trace, run_target(target).trace

    last = with_values.passes[0].steps[-1].outputs[0]
    assert last.preview.shape == (2, 7, 3)
    assert last.preview.statistics is not None
    assert drop_values(with_values) == plain
