"""What is told of two networks before their steps: settings that are proven, then those that a file names."""

from dataclasses import replace

from small_traces import small_trace

from xray.story.compare.setting_changes import SettingChange, compare_settings, join, list_settings


def test_the_same_network_has_no_other_settings():
    assert compare_settings(small_trace(), small_trace()) == ()


def test_settings_of_files_have_plain_words_and_their_own_order():
    trace = small_trace()
    old = {"vocab_size": 5, "rope_parameters.rope_theta": 500_000.0, "odd_thing": 1, "bos_token_id": 1}
    new = {"vocab_size": 7, "rope_parameters.rope_theta": 1_000_000.0, "odd_thing": 2, "bos_token_id": 3}
    changes = compare_settings(replace(trace, config={}), replace(trace, config={}), old, new)

    assert list_settings(changes)[:-1] == (
        "3 settings differ:",
        "  vocabulary   5 → 7",
        "  rotary base  500,000 → 1,000,000",
        "  odd_thing    1 → 2",
    )


def test_a_setting_that_one_side_lacks_is_none_there():
    trace = replace(small_trace(), config={})

    assert compare_settings(trace, trace, {"window_of_odd": 4}, {}) == (SettingChange("window_of_odd", 4, None),)


def test_a_switch_that_is_off_is_no_difference_from_one_that_is_not_there():
    trace = replace(small_trace(), config={})

    assert compare_settings(trace, trace, {"mlp_bias": False}, {}) == ()


def test_layers_of_several_kinds_are_told_together():
    assert join([4, 4, 512]) == "4, 512"
    assert join([4, None]) is None
