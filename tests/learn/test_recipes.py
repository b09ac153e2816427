"""Recipes: what each setting of a training does, and that each can be stopped and taken up again, bit for bit."""

import pytest
import torch
from small_runs import PAIRS, begin_small, finish_small, write_pairs

from xray.config import TrainConfig
from xray.data.reading.origin import Origin
from xray.data.reading.source import Source
from xray.errors import ConfigError, RunError
from xray.learn.presets import PRESETS
from xray.learn.runs.begin import begin_training, resume_training
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.load import load_run
from xray.learn.runs.run_folder import BEST, CORPUS, LAST, RunFolder
from xray.learn.steps.made import Epoch, Step

EXACT = {"dropout": 0.0}
RECIPES = {
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1},
    "inverse root": {"schedule": "inverse-sqrt", "warmup_steps": 4},
    "constant": {"schedule": "constant"},
    "accumulated": {"accumulate": 4},
    "by tokens": {"batch_tokens": 23, "accumulate": 2},
    "bfloat16": {"precision": "bfloat16"},
    "unclipped": {"clip": 0.0},
    "patient": {"patience": 3},
}


def weights_of(run, name=LAST):
    return read_checkpoint(RunFolder(run), name).tensors


def differences(one, other):
    assert one.keys() == other.keys()
    return [name for name in one if not torch.equal(one[name], other[name])]


@pytest.mark.parametrize(
    "recipe",
    [name if name in ("by tokens", "patient") else pytest.param(name, marks=pytest.mark.slow) for name in RECIPES],
)
def test_a_stopped_run_of_any_recipe_ends_like_one_that_never_stopped(tmp_path, recipe):
    (tmp_path / "never").mkdir()
    never = finish_small(tmp_path / "never", lessons=RECIPES[recipe])
    (tmp_path / "once").mkdir()
    with begin_small(tmp_path / "once", lessons=RECIPES[recipe]) as training:
        steps = training.go_on()
        for _ in range(3):
            next(steps)
        training.save()
    with resume_training(tmp_path / "once" / "run", device="cpu") as training:
        for _ in training.go_on():
            pass
    assert differences(weights_of(tmp_path / "once" / "run"), weights_of(never)) == []


def after_one_step(folder, **lessons):
    """The gradients of the first step, and the step."""
    with begin_small(folder, settings=EXACT, lessons={"valid_share": 0.0, **lessons}) as training:
        step = next(training.go_on())
        assert isinstance(step, Step)
        weights = training.trainer.weights
        return {name: one.clone() for name, one in weights.cut(weights.block.grad)}, step


def test_accumulated_batches_are_one_large_batch(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, step = after_one_step(tmp_path / "a", batch=17)
    parts, other = after_one_step(tmp_path / "b", batch=3, accumulate=6)
    assert (step.tokens, step.loss) == (other.tokens, pytest.approx(other.loss, abs=1e-6))
    assert [name for name in whole if not torch.allclose(whole[name], parts[name], atol=1e-6)] == []


def test_steps_count_accumulated_batches_once(tmp_path):
    with begin_small(tmp_path, lessons={"accumulate": 4}) as training:
        assert (training.trainer.steps_per_epoch, training.trainer.steps) == (2, 10)


def test_patience_ends_a_training_that_no_longer_helps(tmp_path):
    with begin_small(tmp_path, lessons={"epochs": 99, "patience": 2, "learning_rate": 0.05}) as training:
        epochs = [made for made in training.go_on() if isinstance(made, Epoch)]
    assert len(epochs) < 99
    assert [epoch.is_best for epoch in epochs[-2:]] == [False, False]


def test_a_training_that_ended_early_is_finished(tmp_path):
    finish_small(tmp_path, lessons={"epochs": 99, "patience": 2, "learning_rate": 0.05})
    with resume_training(tmp_path / "run", device="cpu") as training:
        assert list(training.go_on()) == []


def test_weight_decay_shrinks_weights(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    norms = []
    for name, decay in (("a", 0.0), ("b", 0.9)):
        run = finish_small(tmp_path / name, lessons={"optimiser": "adamw", "weight_decay": decay})
        norms.append(weights_of(run)["model.head.weight"].norm())
    assert norms[1] < norms[0]


def test_weight_decay_without_adamw_is_refused():
    with pytest.raises(ConfigError, match=r"^weight_decay=0\.1 belongs to AdamW, and the optimiser is adam\."):
        TrainConfig(weight_decay=0.1)


def test_files_to_measure_on_are_all_held_out(tmp_path):
    files = [write_pairs(tmp_path / f"{name}.csv", pairs) for name, pairs in (("a", PAIRS[:12]), ("b", PAIRS[12:]))]
    origin = Origin((Source(files[0]),), (Source(files[1]),))
    with begin_training(origin, tmp_path / "run", {"d_model": 22, "heads": 2}, device="cpu") as training:
        assert (tuple(training.train_pairs[:]), tuple(training.valid_pairs[:])) == (PAIRS[:12], PAIRS[12:])
        assert training.trainer.validate() is not None


@pytest.mark.slow
def test_a_run_of_pieces_answers_with_capitals(tmp_path):
    from xray.config import TextConfig

    lessons = {"epochs": 60, "batch": 5, "learning_rate": 0.01}
    text = TextConfig(tokeniser="bpe", src_limit=90)
    run = finish_small(tmp_path, lessons=lessons, settings={"tgt_vocab": 90, "max_len": 31}, text=text)
    assert load_run(run, "cpu").answer("Who is Ripley?") == "The bravest woman aboard."


def test_a_resumed_run_does_not_need_its_file(tmp_path):
    with begin_small(tmp_path) as training:
        pairs = tuple(training.train_pairs)
    (tmp_path / "pairs.csv").unlink()
    with resume_training(tmp_path / "run", device="cpu") as training:
        assert tuple(training.train_pairs) == pairs


def test_a_damaged_corpus_is_noticed_at_resume(tmp_path):
    finish_small(tmp_path)
    path = tmp_path / "run" / CORPUS
    data = bytearray(path.read_bytes())
    data[900] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"corpus\.arrow is damaged: it is not what training wrote\."):
        resume_training(tmp_path / "run", device="cpu").__enter__()


def test_long_epochs_are_saved_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr("xray.learn.runs.saved_training.SAVE_WITHIN_S", 0.0)
    with begin_small(tmp_path) as training:
        steps = training.go_on()
        for _ in range(4):
            next(steps)
    facts = read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts
    assert (facts["epoch"], facts["step"]) == (0, 4)


def test_best_weights_can_be_loaded_after_early_stopping(tmp_path):
    run = finish_small(tmp_path, lessons={"epochs": 99, "patience": 2, "learning_rate": 0.05})
    head = load_run(run, "cpu", "best").model.head.weight
    assert torch.equal(head, weights_of(run, BEST)["model.head.weight"])


def test_every_preset_is_a_recipe():
    from xray.config import ModelConfig, TextConfig

    for preset in PRESETS.values():
        TrainConfig.from_dict(preset.training)
        TextConfig.from_dict(preset.text)
        ModelConfig.from_dict({"src_vocab": preset.model.get("tgt_vocab", 950), **preset.model})


def test_the_papers_base_model_has_the_papers_weights():
    """65 million, as table 3 says, with its vocabulary of 37,000 pieces for both languages."""
    from xray.config import ModelConfig
    from xray.model.transformer import Transformer

    with torch.device("meta"):
        model = Transformer(ModelConfig(src_vocab=37_000, **PRESETS["paper-base"].model))
    assert round(sum(one.numel() for one in model.parameters()) / 1e6) in (63, 64, 65)
