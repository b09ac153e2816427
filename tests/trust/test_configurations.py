"""Any configuration that can be: it trains a step, is traced, and is drawn in every format; any other is refused."""

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import PAIRS, write_pairs
from trust.amount import cases
from trust.outcomes import assert_one_line

from xray import render
from xray.capture.targets.run import Run
from xray.config import ModelConfig, TextConfig, TrainConfig
from xray.data.reading.source import Source
from xray.errors import ConfigError, XRayError
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.learn.runs.begin import begin_training
from xray.learn.runs.load import load_run
from xray.learn.steps.made import Step

MODELS = st.builds(
    lambda heads, d_k, **rest: {"heads": heads, "d_model": heads * d_k, **rest},
    heads=st.sampled_from([1, 2, 3, 5]),
    d_k=st.sampled_from([1, 2, 7, 8]),
    d_ff=st.sampled_from([1, 13, 29]),
    encoder_layers=st.integers(1, 3),
    decoder_layers=st.integers(1, 3),
    max_len=st.sampled_from([11, 19, 64]),
    dropout=st.sampled_from([0.0, 0.1, 0.9]),
    norm=st.sampled_from(["after", "before"]),
    cross_mask=st.sampled_from(["padding", "none"]),
    sharing=st.sampled_from(["none", "decoder", "all"]),
    scale_embeddings=st.booleans(),
    mask_value=st.sampled_from(["finite", "-inf"]),
)
LESSONS = st.fixed_dictionaries(
    {
        "batch": st.sampled_from([1, 3, 17]),
        "epochs": st.just(1),
        "optimiser": st.sampled_from(["adam", "adamw"]),
        "schedule": st.sampled_from(["plateau", "cosine", "inverse-sqrt", "constant"]),
        "accumulate": st.sampled_from([1, 2]),
        "label_smoothing": st.sampled_from([0.0, 0.3]),
        "clip": st.sampled_from([0.0, 0.5]),
        "valid_share": st.sampled_from([0.0, 0.2]),
        "seed": st.integers(-3, 2**31 - 1),
    }
)
TEXTS = st.sampled_from(["word", "bpe"])


@cases(8)
@given(model=MODELS, lessons=LESSONS, tokeniser=TEXTS)
@pytest.mark.slow
def test_any_valid_configuration_trains_a_step_is_traced_and_drawn(model, lessons, tokeniser):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = Source(write_pairs(place / "pairs.csv"))
        text = TextConfig(tokeniser=tokeniser, tgt_limit=0 if tokeniser != "word" else 950)
        with begin_training(source, place / "run", model, TrainConfig(**lessons), "cpu", text=text) as training:
            made = next(made for made in training.go_on() if isinstance(made, Step))
            assert made.loss is None or math.isfinite(made.loss)
            training.save()
        run = Run(load_run(place / "run", "cpu"))
    trace = run.trace("both", PAIRS[1].question, max_turns=3)
    assert_sizes_are_those_of_the_axes(trace, run.chatbot.config)
    assert trace_from_json(trace_to_json(trace)) == trace
    for form in ("svg", "dot", "table", "html"):
        assert render(trace, form)
    assert_cached_is_uncached(run)


def assert_sizes_are_those_of_the_axes(trace, config):
    """Every shape is the arithmetic of its axis words."""
    fixed = {name: getattr(config, name) for name in ("heads", "d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab")}
    for one_pass in trace.passes:
        for step in one_pass.steps:
            for record in (*step.inputs, *step.outputs):
                for axis, size in zip(record.axes, record.shape, strict=True):
                    assert axis not in fixed or size == fixed[axis], (step.id, record)
                    assert axis != "1" or size == 1, (step.id, record)


def assert_cached_is_uncached(run):
    plain = run.trace("inference", PAIRS[1].question, max_turns=3)
    cached = run.trace("inference", PAIRS[1].question, max_turns=3, kv_cache=True)
    assert plain.config["answer"] == cached.config["answer"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["png", "pdf"])
@cases(2)
@given(model=MODELS)
def test_any_valid_configuration_is_painted(form, model):
    from xray.learn.runs.load import untrained_chatbot

    with tempfile.TemporaryDirectory() as folder:
        chatbot = untrained_chatbot(write_pairs(Path(folder) / "pairs.csv"), model, device="cpu")
    trace = Run(chatbot).trace("both", PAIRS[1].question, max_turns=2)
    options: dict[str, Any] = {"dpi": 40} if form == "png" else {}
    assert render(trace, form, **options)[:4] in (b"\x89PNG", b"%PDF")


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-(2**70), 0),
    st.integers(2**31, 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.just([]),
    st.just({}),
    st.just(10**5000),
    st.just(-(10**5000)),
)


@cases(1500)
@given(
    kind=st.sampled_from([(ModelConfig, {"src_vocab": 7}), (TrainConfig, {}), (TextConfig, {})]),
    name=st.integers(0, 30),
    value=ODD,
)
def test_a_setting_is_right_or_refused_with_its_name(kind, name, value):
    config, given_ = kind
    names = sorted(config.__dataclass_fields__)
    setting = names[name % len(names)]
    try:
        made = config.from_dict({**given_, setting: value})
    except ConfigError as error:
        assert_one_line(error, setting, "heads", "vocab", "weight_decay", "min_frequency")
    else:
        assert config.from_dict(made.to_dict()) == made


@cases(300)
@given(settings=st.dictionaries(st.sampled_from(sorted(ModelConfig.__dataclass_fields__)), ODD, max_size=4))
def test_any_settings_make_a_model_that_can_be_or_a_sentence(settings):
    try:
        made = ModelConfig.from_dict({"src_vocab": 11, **settings})
    except XRayError as error:
        assert_one_line(error)
    else:
        assert made.heads * made.d_k == made.d_model
        assert made.least_weights > 0


@cases(30)
@given(model=MODELS, seed=st.integers(0, 2**31 - 1))
def test_a_model_has_at_least_the_weights_that_its_settings_tell(model, seed):
    from xray.learn.runs.build import build_model

    vocab: dict[str, Any] = {"src_vocab": 23, "tgt_vocab": 23 if model["sharing"] == "all" else 29}
    config = ModelConfig(**model, **vocab)
    built = build_model(config, seed)
    weights = sum(parameter.numel() for parameter in built.parameters())
    assert config.least_weights <= weights < 2 * config.least_weights + 60 * config.d_model + 60 * config.d_ff + 100
    assert torch.isfinite(built.head.weight).all()
