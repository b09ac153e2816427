"""A small copy of settings leaves alone what is not for setting."""

import pytest

from xray.sources.shrinking import list_cuts, shrink

transformers = pytest.importorskip("transformers", reason="the library whose settings are shrunk here")


def test_a_number_that_others_add_up_to_is_left_to_them():
    whole = transformers.ProphetNetConfig()

    small = shrink(whole)

    assert (small.num_encoder_layers, small.num_decoder_layers) == (2, 2)
    assert (whole.num_encoder_layers, whole.num_decoder_layers) == (12, 12)


def test_settings_that_cannot_be_smaller_stay_as_they_are():
    whole = transformers.FunnelConfig()

    assert shrink(whole).block_sizes == whole.block_sizes


def test_a_small_copy_has_a_layer_of_each_kind():
    small = shrink(transformers.JambaConfig())

    assert small.num_hidden_layers == 5
    assert set(small.layers_block_type) == {"mamba", "attention"}


def test_a_small_copy_has_a_layer_of_the_kind_that_comes_every_so_many():
    small = shrink(transformers.NllbMoeConfig())

    assert small.encoder_sparse_step == small.encoder_layers == small.decoder_layers == 4


def test_lists_of_layers_are_as_short_as_the_copy():
    small = shrink(transformers.Qwen3NextConfig())

    assert small.layer_types == ["linear_attention"] * 3 + ["full_attention"]
    assert small.num_experts == 8


@pytest.mark.parametrize(
    ("kind", "cuts"),
    [
        ("Qwen3NextConfig", ("num_hidden_layers 4 of 48", "num_experts 8 of 512")),
        ("ProphetNetConfig", ("num_encoder_layers 2 of 12", "num_decoder_layers 2 of 12")),
        ("CLIPConfig", ("num_hidden_layers 2 of 12",)),
        (  # each layer of its text has its own number of experts, and none for all may be asked for
            "Dots3NoteConfig",
            (
                "num_hidden_layers 3 of 46",
                "n_routed_experts 8 of 256",
                "num_hidden_layers 12 of 42",
                "num_hidden_layers 2 of 32",
            ),
        ),
    ],
)
def test_what_a_small_copy_has_fewer_of_is_listed(kind, cuts):
    whole = getattr(transformers, kind)()

    assert list_cuts(whole, shrink(whole)) == cuts
