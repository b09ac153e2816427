"""Which weights of a run are kept beside the last: the best on held-out pairs, and the mean of the last epochs."""

import pytest
import torch
from small_runs import begin_small

from xray.config import TrainConfig
from xray.errors import ConfigError, RunError
from xray.learn.runs.begin import resume_training
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.load import load_run
from xray.learn.runs.run_folder import AVERAGE, RunFolder
from xray.learn.steps.made import Epoch, Step

AVERAGED = {"epochs": 4, "average": 3}


def weights_of(run, name):
    return {key: one for key, one in read_checkpoint(RunFolder(run), name).tensors.items() if key.startswith("model.")}


def test_the_mean_of_the_last_epochs_is_kept(tmp_path):
    seen = []
    with begin_small(tmp_path, lessons=AVERAGED) as training:
        for made in training.go_on():
            if isinstance(made, Epoch):
                seen.append({name: one.detach().clone() for name, one in training.trainer.model.named_parameters()})
    kept = weights_of(tmp_path / "run", AVERAGE)
    for name, one in kept.items():
        wanted = torch.stack([past[name.removeprefix("model.")] for past in seen[-3:]]).mean(0)
        assert torch.allclose(one, wanted, atol=1e-6)
    assert not torch.equal(kept["model.head.weight"], seen[-1]["head.weight"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [3, 15, 20])
def test_a_stopped_run_ends_with_the_same_mean(tmp_path, steps):
    for place, stops in (("whole", False), ("stopped", True)):
        (tmp_path / place).mkdir()
        with begin_small(tmp_path / place, lessons=AVERAGED) as training:
            made = (one for one in training.go_on() if isinstance(one, Step))
            for _ in range(steps) if stops else training.go_on():
                if stops:
                    next(made)
            training.save()
        with resume_training(tmp_path / place / "run", device="cpu") as training:
            for _ in training.go_on():
                pass
    one, other = (weights_of(tmp_path / place / "run", AVERAGE) for place in ("whole", "stopped"))
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_the_held_out_loss_of_the_mean_is_measured_at_the_end(tmp_path):
    with begin_small(tmp_path, lessons={**AVERAGED, "valid_share": 0.3}) as training:
        epochs = [one for one in training.go_on() if isinstance(one, Epoch)]
    assert [one.mean_loss is None for one in epochs] == [True, True, True, False]


def test_the_averaged_weights_answer(tmp_path):
    with begin_small(tmp_path, lessons=AVERAGED) as training:
        list(training.go_on())
    kept = weights_of(tmp_path / "run", AVERAGE)
    loaded = load_run(tmp_path / "run", "cpu", "average").model.head.weight
    assert torch.equal(loaded, kept["model.head.weight"])


def test_a_run_without_a_mean_says_so(tmp_path):
    with begin_small(tmp_path) as training:
        list(training.go_on())
    with pytest.raises(RunError, match=r"has no averaged weights\. Train to the end with --average 5"):
        load_run(tmp_path / "run", "cpu", "average")


def test_right_answers_choose_the_best_where_that_is_wanted(tmp_path, monkeypatch):
    shares = iter([(0, 4), (3, 4), (1, 4), (3, 4)])
    monkeypatch.setattr("xray.learn.steps.trainer.count_right", lambda *_: next(shares))
    with begin_small(tmp_path, lessons={"epochs": 4, "valid_share": 0.3, "best_by": "answers"}) as training:
        epochs = [one for one in training.go_on() if isinstance(one, Epoch)]
    assert [one.right for one in epochs] == [0.0, 0.75, 0.25, 0.75]
    assert [one.is_best for one in epochs[:3]] == [True, True, False]
    assert epochs[3].is_best == (epochs[3].valid_loss < epochs[1].valid_loss)


def test_more_epochs_than_there_are_cannot_be_averaged():
    with pytest.raises(ConfigError, match=r"average=9 is more than the epochs=5\."):
        TrainConfig(epochs=5, average=9)


def test_averaging_the_last_epochs_needs_to_know_the_last():
    with pytest.raises(ConfigError, match="average=2 is about the last epochs, and with patience=3"):
        TrainConfig(average=2, patience=3)
