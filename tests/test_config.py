"""Configurations that cannot be are refused with value, rule and remedy."""

import re

import pytest

from xray.config import ModelConfig, TrainConfig
from xray.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "heads=5 does not divide d_model=32. Choose 1, 2, 4, 8, 16 or 32."),
        ({"d_model": 0}, "d_model=0 is not possible. It must be a whole number from 1 to 2,147,483,647."),
        ({"dropout": 1.0}, "dropout=1.0 is not possible. It must be a number of at least 0 and below 1."),
        ({"dropout": float("nan")}, "dropout=nan is not possible."),
        ({"norm": "around"}, "norm='around' is not possible. Choose after or before."),
        ({"sharing": "all", "src_vocab": 7}, "sharing=all needs one vocabulary, but src_vocab=7 and tgt_vocab=950."),
        ({"src_vocab": 4}, "src_vocab=4 is not possible. It must be a whole number from 5"),
        ({"heads": "4"}, "heads='4' is not possible. It must be a whole number from 1"),
        ({"heads": True}, "heads=True is not possible. It must be a whole number from 1"),
        ({"scale_embeddings": 1}, "scale_embeddings=1 is not possible. It must be True or False."),
    ],
)
def test_an_impossible_model_is_refused(settings, message):
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        ModelConfig(**({"src_vocab": 11} | settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch=0 is not possible."),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 is not possible. It must be finite and above 0, such as 0.001."),
        ({"label_smoothing": 1.5}, "label_smoothing=1.5 is not possible."),
    ],
)
def test_an_impossible_training_is_refused(settings, message):
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        TrainConfig(**settings)


def test_an_unknown_setting_is_named():
    with pytest.raises(ConfigError, match=r"^unknown setting 'head'\. Known settings: cross_mask, d_ff"):
        ModelConfig.from_dict({"src_vocab": 11, "head": 4})


def test_a_missing_setting_is_named():
    with pytest.raises(ConfigError, match=r"^the setting src_vocab is missing"):
        ModelConfig.from_dict({})


def test_a_config_goes_out_and_comes_back():
    config = ModelConfig(src_vocab=11, heads=2, norm="before")

    assert ModelConfig.from_dict(config.to_dict()) == config
