"""Run folders changed at random, or made to harm: the checkpoint before is used, or one sentence says what is wrong."""

import json
import shutil
import struct
from hashlib import sha256

import pytest
import torch
from safetensors.torch import load_file, save
from trust.amount import try_many
from trust.mutations import change_bytes, change_tree
from trust.outcomes import assert_plain

from xray.errors import RunError, XRayError
from xray.learn.runs.begin import resume_training
from xray.learn.runs.checkpoint import read_checkpoint, seal
from xray.learn.runs.load import load_run
from xray.learn.runs.run_folder import CORPUS, LAST, PREVIOUS, RunFolder


@pytest.fixture(scope="module")
def folder(kept_run, tmp_path_factory):
    """A run without a checkpoint before the last, to be changed and put right again."""
    copy = shutil.copytree(kept_run, tmp_path_factory.mktemp("changed") / "run")
    (copy / PREVIOUS).unlink(missing_ok=True)
    return copy


@pytest.fixture
def copy(kept_run, tmp_path):
    return shutil.copytree(kept_run, tmp_path / "run")


def refusal(action):
    """The one plain line with which something is refused."""
    with pytest.raises(XRayError) as caught:
        action()
    assert_plain(str(caught.value))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def read_last(folder):
    return read_checkpoint(RunFolder(folder), LAST)


def load_or_refuse(folder):
    """Load a run and go on with it, or be told in one plain line why not."""
    try:
        load_run(folder, "cpu")
        with resume_training(folder, device="cpu") as training:
            next(training.go_on(), None)
    except XRayError as error:
        assert_plain(str(error))


@pytest.mark.slow
def test_one_flipped_bit_anywhere_is_noticed(folder, kept_run):
    whole = (kept_run / LAST).read_bytes()

    def case(chance):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (folder / LAST).write_bytes(changed)
        assert "last.safetensors" in refusal(lambda: read_last(folder))

    try_many(600, case)


def test_a_changed_checkpoint_is_noticed(folder, kept_run):
    whole = (kept_run / LAST).read_bytes()

    def case(chance):
        (folder / LAST).write_bytes(change_bytes(chance, whole))
        if (folder / LAST).read_bytes() != whole:
            assert "last.safetensors" in refusal(lambda: read_last(folder))

    try_many(400, case)


def test_a_changed_head_is_noticed(folder, kept_run):
    """Lengths, names, offsets, types: what a reader would allocate by, before it reads a number."""
    whole = (kept_run / LAST).read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    tree = json.loads(whole[8 : 8 + length])

    def case(chance):
        head = json.dumps(change_tree(chance, tree)).encode()
        claimed = chance.choice((len(head), len(head), len(head), 2**63, 2**40, 0))
        (folder / LAST).write_bytes(struct.pack("<Q", claimed) + head + whole[8 + length :])
        if json.loads(head) != tree:
            refusal(lambda: read_last(folder))

    try_many(400, case)


@pytest.mark.parametrize("name", ["run.json", "questions.json", "answers.json", "spelling.json", "pairs.json"])
def test_a_changed_file_of_facts_is_noticed_or_harmless(folder, kept_run, name):
    whole = (kept_run / name).read_bytes()
    shutil.copy(kept_run / LAST, folder / LAST)

    def case(chance):
        (folder / name).write_bytes(change_bytes(chance, whole))
        try:
            load_run(folder, "cpu")
        except XRayError as error:
            assert_plain(str(error))
        finally:
            (folder / name).write_bytes(whole)

    try_many(60, case)


@pytest.mark.parametrize("name", ["questions.json", "spelling.json", "pairs.json"])
def test_a_changed_file_with_a_right_digest_is_refused_or_harmless(copy, kept_run, name):
    (copy / PREVIOUS).unlink()
    tree, run = json.loads((kept_run / name).read_bytes()), json.loads((kept_run / "run.json").read_bytes())

    def case(chance):
        data = json.dumps(change_tree(chance, tree)).encode()
        (copy / name).write_bytes(data)
        digests = {**run["sha256"], name: sha256(data).hexdigest()}
        (copy / "run.json").write_text(json.dumps({**run, "sha256": digests}))
        shutil.copy(kept_run / LAST, copy / LAST)
        load_or_refuse(copy)

    try_many(40, case)


def test_a_changed_setting_is_noticed_or_harmless(copy, kept_run):
    (copy / PREVIOUS).unlink()
    tree = json.loads((kept_run / "run.json").read_bytes())

    def case(chance):
        (copy / "run.json").write_text(json.dumps(change_tree(chance, tree)))
        shutil.copy(kept_run / LAST, copy / LAST)
        load_or_refuse(copy)

    try_many(150, case)


def reseal(path, tensors=None, facts=None, **changed):
    """Change what a checkpoint says, and seal it anew as somebody with bad intentions would."""
    tensors = load_file(path) if tensors is None else tensors
    head = json.loads(path.read_bytes()[8 : 8 + struct.unpack("<Q", path.read_bytes()[:8])[0]])
    text = json.dumps({**json.loads(head["__metadata__"]["facts"]), **changed}) if facts is None else facts
    path.write_bytes(save(tensors, {"facts": text, "sha256": seal(tensors, text)}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": -1},
        {"epoch": "1"},
        {"epoch": None},
        {"step": 1.5},
        {"step": True},
        {"model": []},
        {"model": {}},
        {"history": {}},
        {"history": [1]},
        {"history": [{"evil": 1}]},
        {"elapsed_s": "x"},
        {"elapsed_s": -1},
        {"format": 99},
        {"format": [2]},
        {"format": {}},
    ],
    ids=str,
)
def test_facts_of_a_wrong_kind_are_refused_though_their_seal_is_right(copy, changed):
    (copy / PREVIOUS).unlink()
    reseal(copy / LAST, **changed)

    def go():
        with resume_training(copy, device="cpu"):
            pass

    refusal(go)


@pytest.mark.parametrize("facts", ["[]", "1", "null", '"x"', "[" * 100_000, "", "{", '{"format": 2}'], ids=repr)
def test_facts_that_are_none_are_refused(copy, facts):
    (copy / PREVIOUS).unlink()
    reseal(copy / LAST, facts=facts)
    assert "last.safetensors" in refusal(lambda: load_run(copy, "cpu"))


def test_more_weights_than_the_settings_want_are_refused(copy):
    (copy / PREVIOUS).unlink()
    reseal(copy / LAST, {**load_file(copy / LAST), "model.evil": torch.zeros(3)})
    assert "do not both have evil" in refusal(lambda: load_run(copy, "cpu"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["model.head.bias", "loss_sum", "random.cpu", "adam.step"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)], ids=str)
def test_a_tensor_of_another_shape_is_refused(copy, name, shape):
    (copy / PREVIOUS).unlink()
    tensors = load_file(copy / LAST)
    if tensors[name].shape == torch.Size(shape):
        shape = (5, 7)
    reseal(copy / LAST, {**tensors, name: torch.zeros(shape)})

    def go():
        with resume_training(copy, device="cpu") as training:
            next(training.go_on(), None)

    refusal(go)


def claim(copy, **sizes):
    """Let both files of a run say that its model is of such sizes; the weights stay as small as they are."""
    run = json.loads((copy / "run.json").read_text())
    run["model"] |= sizes
    (copy / "run.json").write_text(json.dumps(run))
    reseal(copy / LAST, model=run["model"])


@pytest.mark.parametrize(
    "sizes",
    [
        {"d_model": 2_000_000_000, "heads": 1},
        {"d_ff": 2_000_000_000},
        {"encoder_layers": 1000},
        {"decoder_layers": 1000},
        {"encoder_layers": 10**9},
        {"max_len": 10**9},
        {"d_model": 10**30},
        {"heads": 0},
        {"dropout": -1},
    ],
    ids=str,
)
def test_sizes_that_the_weights_do_not_bear_out_are_refused_before_anything_is_built(copy, sizes, monkeypatch):
    (copy / PREVIOUS).unlink()
    claim(copy, **sizes)
    built = []
    monkeypatch.setattr("xray.learn.runs.build.Transformer", lambda config: built.append(config))
    refusal(lambda: load_run(copy, "cpu"))
    assert built == []


def test_a_length_that_is_made_up_is_refused(copy):
    (copy / PREVIOUS).unlink()
    data = (copy / LAST).read_bytes()
    (copy / LAST).write_bytes(struct.pack("<Q", 2**62) + data[8:])
    assert "is damaged" in refusal(lambda: load_run(copy, "cpu"))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: b"", lambda data: bytes(len(data)), lambda data: data[:9] + b"x" + data[10:]],
    ids=["short", "empty", "zeros", "byte"],
)
def test_the_checkpoint_before_is_used_and_said(copy, damage):
    (copy / LAST).write_bytes(damage((copy / LAST).read_bytes()))
    chatbot = load_run(copy, "cpu")
    assert chatbot.notes[0].startswith(f"{copy}/last.safetensors is damaged (")
    assert chatbot.notes[0].endswith("The one before it is used now.")
    with resume_training(copy, device="cpu") as training:
        assert training.notes[0] == chatbot.notes[0]


def test_a_missing_checkpoint_gives_way_to_the_one_before(copy):
    (copy / LAST).unlink()
    assert load_run(copy, "cpu").notes[0].endswith("The one before it is used now.")


@pytest.mark.parametrize("kind", ["folder", "loop", "device"])
def test_what_is_no_file_is_no_checkpoint(copy, kind):
    (copy / PREVIOUS).unlink()
    (copy / LAST).unlink()
    if kind == "folder":
        (copy / LAST).mkdir()
    else:
        (copy / LAST).symlink_to({"loop": LAST, "device": "/dev/zero"}[kind])
    assert "last.safetensors" in refusal(lambda: load_run(copy, "cpu"))


def test_a_changed_corpus_is_noticed_before_training_goes_on(copy, kept_run):
    whole = (kept_run / CORPUS).read_bytes()

    def case(chance):
        (copy / CORPUS).write_bytes(change_bytes(chance, whole))
        if (copy / CORPUS).read_bytes() != whole:
            with pytest.raises(RunError, match=r"corpus\.arrow is damaged"):
                resume_training(copy, device="cpu").__enter__()

    try_many(100, case)


@pytest.mark.slow
def test_a_corpus_with_a_right_digest_but_wrong_bytes_is_refused_or_harmless(copy, kept_run):
    """Whoever can write the digest can write the corpus: offsets, lengths and ids are checked before they are used."""
    whole, run = (kept_run / CORPUS).read_bytes(), json.loads((kept_run / "run.json").read_bytes())

    def case(chance):
        changed = change_bytes(chance, whole, most=2)
        (copy / CORPUS).write_bytes(changed)
        (copy / "run.json").write_text(json.dumps({**run, "stored": sha256(changed).hexdigest()}))
        shutil.copy(kept_run / LAST, copy / LAST)
        load_or_refuse(copy)

    try_many(150, case)
