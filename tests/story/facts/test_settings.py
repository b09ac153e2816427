from small_traces import small_trace

from xray.config import TrainConfig
from xray.story.facts.settings import ChangedSetting, changed_settings


def test_defaults_are_not_told():
    label_smoothing = TrainConfig().label_smoothing

    assert changed_settings(small_trace(norm="after", dropout=0.0, label_smoothing=label_smoothing)) == ()


def test_a_changed_setting_is_told_with_its_default():
    assert changed_settings(small_trace(norm="before")) == (ChangedSetting("norm", "before", "after"),)


def test_settings_without_a_default_are_not_told():
    assert changed_settings(small_trace(src_vocab=17)) == ()
