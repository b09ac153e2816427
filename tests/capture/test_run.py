"""The default chatbot's trace holds every shape that the poster's inventory names, under the right axis words."""

import gc
import itertools
import weakref

import pytest
import torch
from small_runs import MODEL, PAIRS, finish_small, write_pairs

import xray
import xray.capture.targets.run
from xray.capture.targets.run import DEFAULT_QUESTION, Run
from xray.errors import UsageError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.learn.runs.load import untrained_chatbot

ENCODER, DECODER = "encoder.layers.{layer}.", "decoder.layers.{layer}."
SELF_ATTENTION = [
    ("query", "batch len d_model"),
    ("key", "batch len d_model"),
    ("value", "batch len d_model"),
    ("split_query.view", "batch len heads d_k"),
    ("split_query.transpose", "batch heads len d_k"),
    ("split_key", "batch heads len d_k"),
    ("split_value", "batch heads len d_k"),
    ("transpose_key", "batch heads d_k len"),
    ("scores", "batch heads len len"),
    ("scale", "batch heads len len"),
    ("mask", "batch heads len len"),
    ("softmax", "batch heads len len"),
    ("weighted_sum", "batch heads len d_k"),
    ("concat.transpose", "batch len heads d_k"),
    ("concat", "batch len d_model"),
    ("output", "batch len d_model"),
]
CROSS_ATTENTION = [
    ("query", "batch tgt_len d_model"),
    ("key", "batch src_len d_model"),
    ("value", "batch src_len d_model"),
    ("split_query", "batch heads tgt_len d_k"),
    ("split_key", "batch heads src_len d_k"),
    ("split_value", "batch heads src_len d_k"),
    ("transpose_key", "batch heads d_k src_len"),
    ("scores", "batch heads tgt_len src_len"),
    ("mask", "batch heads tgt_len src_len"),
    ("softmax", "batch heads tgt_len src_len"),
    ("weighted_sum", "batch heads tgt_len d_k"),
    ("output", "batch tgt_len d_model"),
]
ENCODING = [
    ("tokenize.src", "batch src_len"),
    ("src_mask", "batch 1 1 src_len"),
    ("encoder.embedding.words", "batch src_len d_model"),
    ("encoder.embedding.positions", "1 src_len d_model"),
    ("encoder.embedding", "batch src_len d_model"),
    *((f"{ENCODER}self_attention.{name}", axes.replace("len", "src_len")) for name, axes in SELF_ATTENTION),
    (f"{ENCODER}self_attention_add", "batch src_len d_model"),
    (f"{ENCODER}self_attention_norm", "batch src_len d_model"),
    (f"{ENCODER}feed_forward.expand", "batch src_len d_ff"),
    (f"{ENCODER}feed_forward.contract", "batch src_len d_model"),
    (f"{ENCODER}feed_forward_norm", "batch src_len d_model"),
    ("encoder", "batch src_len d_model"),
]
DECODING = [
    ("tgt_mask", "batch 1 tgt_len tgt_len"),
    ("decoder.embedding", "batch tgt_len d_model"),
    ("decoder.embedding.positions", "1 tgt_len d_model"),
    *((f"{DECODER}self_attention.{name}", axes.replace("len", "tgt_len")) for name, axes in SELF_ATTENTION),
    (f"{DECODER}self_attention_norm", "batch tgt_len d_model"),
    *((f"{DECODER}cross_attention.{name}", axes) for name, axes in CROSS_ATTENTION),
    (f"{DECODER}cross_attention_norm", "batch tgt_len d_model"),
    (f"{DECODER}feed_forward.expand", "batch tgt_len d_ff"),
    (f"{DECODER}feed_forward_norm", "batch tgt_len d_model"),
    ("head", "batch tgt_len tgt_vocab"),
]
LEARNING = [
    ("tokenize.tgt", "batch tgt_len+1"),
    ("shift", "batch tgt_len"),
    ("loss.flatten_logits", "batch*tgt_len tgt_vocab"),
    ("loss.flatten_targets", "batch*tgt_len"),
    ("loss", ""),
]
CHOOSING = [
    ("next_word.last_row", "batch tgt_vocab"),
    ("next_word.softmax", "batch tgt_vocab"),
    ("next_word.argmax", "batch 1"),
    ("append", "batch tgt_len+1"),
]
POSTER_SIZES = {
    "batch": 8,
    "heads": 4,
    "d_model": 32,
    "d_k": 8,
    "d_ff": 128,
    "tgt_vocab": 950,
    "src_len": 10,
    "tgt_len": 14,
    "tgt_len+1": 15,
    "batch*tgt_len": 112,
    "1": 1,
}


def find_differences(one_pass, inventory, sizes, layers=3):
    """Every place where a pass differs from the inventory: path, what was expected, what is there."""
    found = []
    for pattern, words in inventory:
        axes = tuple(words.split())
        shape = tuple(sizes[axis] for axis in axes)
        paths = [pattern.format(layer=layer) for layer in range(layers)] if "{layer}" in pattern else [pattern]
        for path in paths:
            record = one_pass.by_id[f"{path}#0"].outputs[0]
            if (record.shape, record.axes) != (shape, axes):
                found.append((path, shape, record.shape))
    return found


def test_the_training_step_has_the_shapes_of_the_poster(both_trace):
    training = both_trace.passes[0]

    assert find_differences(training, ENCODING + DECODING + LEARNING, POSTER_SIZES) == []


def test_encoding_the_question_has_the_shapes_of_the_poster(both_trace):
    assert find_differences(both_trace.passes[1], ENCODING, POSTER_SIZES | {"batch": 1, "src_len": 9}) == []


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_each_turn_has_the_shapes_of_the_poster(both_trace, turn):
    sizes = POSTER_SIZES | {"batch": 1, "src_len": 9, "tgt_len": turn, "tgt_len+1": turn + 1}

    assert find_differences(both_trace.passes_of("decode")[turn - 1], DECODING + CHOOSING, sizes) == []


def test_with_two_heads_the_inventory_no_longer_holds():
    trace = Run(untrained_chatbot(settings={"heads": 2}, device="cpu")).trace("training")

    differences = find_differences(trace.passes[0], ENCODING + DECODING + LEARNING, POSTER_SIZES)

    assert ("encoder.layers.0.self_attention.scores", (8, 4, 10, 10), (8, 2, 10, 10)) in differences
    assert ("encoder.layers.0.self_attention.split_key", (8, 4, 10, 8), (8, 2, 10, 16)) in differences


def test_the_shift_gives_what_is_read_and_what_is_said(both_trace):
    tokens = both_trace.passes[0].tokens
    shift = both_trace.passes[0].by_id["shift#0"]

    assert [record.name for record in shift.outputs] == ["decoder_input", "targets"]
    assert [record.shape for record in shift.outputs] == [(8, 14), (8, 14)]
    assert all(row[0] == "<sos>" for row in tokens["decoder_input"])
    assert all(
        before[1:] == after[:-1] for before, after in zip(tokens["decoder_input"], tokens["targets"], strict=True)
    )


def test_ids_and_words_tell_the_same_story(both_trace, untrained_run):
    training = both_trace.passes[0]
    ids = training.by_id["tokenize.src#0"].outputs[0].preview.rows()

    spelt = tuple(tuple(untrained_run.chatbot.tokenisers.src.words(row)) for row in ids)

    assert spelt == training.tokens["src"]


def test_masks_say_what_they_hide(both_trace):
    training = both_trace.passes[0]
    padding = training.by_id["src_mask#0"].outputs[0]
    target = training.by_id["tgt_mask#0"].outputs[0]
    lengths = [sum(word != "<pad>" for word in row) for row in training.tokens["src"]]

    assert padding.mask.kind == "padding"
    assert padding.mask.cells == tuple(("." * n + "p" * (10 - n),) for n in lengths)
    assert target.mask.kind == "padding+causal"
    read = sum(word != "<pad>" for word in training.tokens["decoder_input"][0])
    assert target.mask.cells[0][0] == "." + "f" * (read - 1) + "b" * (14 - read)
    assert target.mask.cells[0][13] == "." * read + "p" * (14 - read)


def test_the_mask_grows_with_each_turn(both_trace):
    cells = [one.by_id["tgt_mask#0"].outputs[0].mask.cells[0] for one in both_trace.passes_of("decode")]

    assert cells[:3] == [(".",), (".f", ".."), (".ff", "..f", "...")]


def test_each_turn_reads_the_word_of_the_turn_before(both_trace):
    turns = both_trace.passes_of("decode")

    assert len(turns) == 5
    for before, after in itertools.pairwise(turns):
        assert after.tokens["decoder_input"][0] == before.tokens["decoder_input"][0] + before.tokens["new"][0]


def test_every_gradient_has_the_shape_of_its_parameter(both_trace, untrained_run):
    gradients = both_trace.passes[0].by_id["backward#0"].outputs
    shapes = {f"{name}.grad": tuple(p.shape) for name, p in untrained_run.chatbot.model.named_parameters()}

    assert {record.name: record.shape for record in gradients} == shapes


def test_weights_and_ids_know_their_maker(both_trace):
    steps = both_trace.passes[0].by_id
    cross = "decoder.layers.2.cross_attention"

    assert steps[f"{cross}.key#0"].inputs[0].source == "encoder.layers.2.feed_forward_norm#0"
    assert steps[f"{cross}.query#0"].inputs[0].source == "decoder.layers.2.self_attention_norm#0"
    assert steps["decoder.embedding.words#0"].inputs[0].source == "shift#0"
    assert steps["decoder.layers.0.self_attention.mask#0"].inputs[1].source == "tgt_mask.combine#0"


def test_every_source_is_a_step_that_ran_before(both_trace):
    encoded = {step.id for step in both_trace.passes_of("encode")[0].leaves}
    earlier, wrong = set(), []
    for one in both_trace.passes:
        seen = {*encoded} if one.kind == "decode" else set()
        for step in one.leaves:
            wrong += [
                (one.kind, one.number, step.id, record.source)
                for record in step.inputs
                if record.source is not None and record.source not in seen | earlier
            ]
            seen.add(step.id)
        earlier |= {f"{one.kind}{one.number or ''}:{name}" for name in seen}

    assert wrong == []


def test_the_attention_weights_of_the_trace_sum_to_one(both_trace):
    weights = [
        step.outputs[0].preview
        for one in both_trace.passes[:2]
        for step in one.leaves
        if step.path.endswith("attention.softmax")
    ]
    sums = [sum(row) for preview in weights for head in range(4) for row in preview.rows(0, head)]

    assert len(weights) == 3 + 6 + 3  # training has both sides, the encoder alone comes next
    assert sums == pytest.approx([1.0] * len(sums), abs=1e-4)


def test_the_settings_are_part_of_the_trace(both_trace):
    assert both_trace.config["trained"] is False
    assert both_trace.config["norm"] == "after"
    assert both_trace.config["question"] == DEFAULT_QUESTION


def test_a_real_trace_comes_back_from_json_unchanged(both_trace):
    assert trace_from_json(trace_to_json(both_trace)) == both_trace


def test_the_same_run_gives_the_same_trace(untrained_run, training_trace):
    assert trace_to_json(untrained_run.trace("training")) == trace_to_json(training_trace)


def test_tracing_leaves_the_chatbot_as_it_was():
    run = Run(untrained_chatbot(settings={"dropout": 0.1}, device="cpu"))
    model = run.chatbot.model
    flags = [module.training for module in model.modules()]
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    answer = run.answer("Who is Ripley?")
    random_state = torch.get_rng_state()

    run.trace("both", max_turns=3)

    assert [module.training for module in model.modules()] == flags
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert run.answer("Who is Ripley?") == answer


def test_a_failure_inside_leaves_the_chatbot_as_it_was(monkeypatch):
    run = Run(untrained_chatbot(device="cpu"))
    model = run.chatbot.model
    monkeypatch.setattr(model, "head", torch.nn.Linear(7, 3))
    flags = [module.training for module in model.modules()]

    with pytest.raises(RuntimeError) as caught:
        run.trace("training")

    assert list(caught.value.xray_trace.steps)[-1].path == "head"  # type: ignore[attr-defined]
    assert [module.training for module in model.modules()] == flags
    assert not any(getattr(module, "explicit", False) for module in model.modules())


def test_no_tensor_of_a_trace_stays_alive(monkeypatch):
    run, seen = Run(untrained_chatbot(device="cpu")), []
    run.chatbot.model.head.register_forward_hook(lambda _m, _i, out: seen.append(weakref.ref(out)))

    recorded = run.trace("training")
    gc.collect()

    assert recorded.passes
    assert seen
    assert all(reference() is None for reference in seen)


def test_an_unknown_phase_is_refused(untrained_run):
    with pytest.raises(UsageError, match=r"^the phase 'dreams' is unknown\. Choose training, inference, both\.$"):
        untrained_run.trace("dreams")


@pytest.mark.parametrize("question", ["", "   ", "\t\n"])
def test_an_empty_question_is_refused(untrained_run, question):
    with pytest.raises(UsageError, match=r"^the question is empty"):
        untrained_run.trace("inference", question)


def test_a_question_of_unknown_words_is_traced(untrained_run):
    trace = untrained_run.trace("inference", "Zyx qwv?", max_turns=1)

    assert trace.passes[0].tokens["src"] == (("<unk>", "<unk>", "?"),)
    assert trace.passes[0].by_id["tokenize.src#0"].outputs[0].preview.values[:2] == (0, 0)


def test_a_chatbot_of_another_corpus_is_asked_one_of_its_own_questions(tmp_path):
    run = Run(untrained_chatbot(write_pairs(tmp_path / "pairs.csv"), MODEL, device="cpu"))

    asked = run.trace("inference", max_turns=1).config["question"]

    assert asked in {pair.question for pair in PAIRS}
    assert run.notes() == ()


def test_the_default_question_has_nine_tokens(inference_trace):
    assert inference_trace.passes[0].tokens["src"] == (
        ("what's", "your", "favourite", "character", "in", "the", "expanse", "series", "?"),
    )


def test_the_door_offers_what_it_names():
    import xray as door

    assert [name for name in door.__all__ if not hasattr(door, name)] == []
    assert xray.capture.targets.run.load is door.load


def test_without_a_folder_the_usual_run_is_found_here_or_above(tmp_path, monkeypatch):
    finish_small(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "run").rename(tmp_path / "runs" / "movie_qa")
    (tmp_path / "examples" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "examples" / "deep")

    run = xray.load()

    assert repr(run) == "Run('pairs': trained; 1+2 layers, 2 heads, d_model 22, 37 words out)"


def test_without_any_run_a_warning_says_that_words_are_chance(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.warns(UserWarning, match="its words are chance. To train one: xray demo"):
        run = xray.load()

    assert "untrained, its words are chance" in repr(run)
