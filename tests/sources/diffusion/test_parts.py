"""Inputs for the parts around a transformer of diffusers: autoencoders, U-Nets, and what controls and guides them."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from xray.errors import TraceError
from xray.sources.diffusion import loading
from xray.sources.diffusion.loading import propose
from xray.sources.diffusion.needs import SOUND_FRAMES, Needs
from xray.sources.request import Request
from xray.sources.sizes import Wishes


class Made(nn.Module):
    """What makes small and large again, its first layer being of some kind."""

    def __init__(self, first, **settings):
        super().__init__()
        self.first = first
        self.config = settings

    def encode(self, one):
        return self.first(one)

    def decode(self, one):
        return one


class Coder(Made):
    def forward(self, sample):
        return self.decode(self.encode(sample))


class Frames(Made):
    def forward(self, sample, num_frames=1):
        return self.decode(self.encode(sample)), num_frames


class Base(nn.Module):
    """What reads a sample, with such settings."""

    def __init__(self, **settings):
        super().__init__()
        self.conv_in = nn.Conv2d(5, 3, 1)
        self.config = {"in_channels": 5, "cross_attention_dim": 11, **settings}


class Net(Base):
    """A U-Net, of which the settings decide what it is guided by."""

    def forward(
        self, sample, timestep, encoder_hidden_states, class_labels=None, added_cond_kwargs=None, timestep_cond=None
    ):
        return self.conv_in(sample), timestep, encoder_hidden_states, class_labels, added_cond_kwargs, timestep_cond


class Films(Base):
    def forward(self, sample, encoder_hidden_states):
        sample = sample.flatten(0, 1)
        return self.conv_in(sample), encoder_hidden_states


class Hint(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Conv2d(3, 7, 3, stride=2), nn.Conv2d(7, 3, 3, stride=2))

    def forward(self, conditioning):
        return self.blocks(conditioning)


class Hinted(Base):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.controlnet_cond_embedding = Hint()


class Control(Hinted):
    def forward(self, sample, controlnet_cond):
        return self.conv_in(sample), self.controlnet_cond_embedding(controlnet_cond)


class Controls(Hinted):
    def forward(self, sample, controlnet_cond: list[Tensor]):
        return sample, controlnet_cond


class Rows(nn.Module):
    """What reads rows of numbers, in the manner that its settings tell of."""

    def __init__(self, **settings):
        super().__init__()
        self.rows = nn.Linear(13, 3)
        self.config = settings

    def forward(self, hidden_states):
        return self.rows(hidden_states)


class Masked(nn.Module):
    config = {"encoder_hid_dim": 11}  # noqa: RUF012  # as the library has it

    def forward(self, encoder_hidden_states, encoder_attention_mask=None):
        return encoder_hidden_states, encoder_attention_mask


class Adapter(nn.Module):
    config = {"adapter_type": "full_adapter", "in_channels": 3}  # noqa: RUF012

    def forward(self, x):
        return x


class Projection(nn.Module):
    config = {}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(11, 3)

    def forward(self, x):
        return self.project(x)


def list_made(model):
    return list(propose(Needs(model, Wishes(), has_storage=False)))


def make(model):
    return list_made(model)[0].values


@pytest.mark.parametrize(
    ("first", "shape"),
    [
        (nn.Conv1d(2, 3, 1), (2, 2, 9)),
        (nn.Conv2d(3, 7, 1), (2, 3, 64, 96)),
        (nn.Conv3d(3, 7, 1), (2, 3, 9, 64, 96)),
    ],
)
def test_the_first_layer_of_an_autoencoder_tells_what_it_takes(first: nn.Module, shape: Sequence[int]):
    assert make(Coder(first))["sample"].shape == shape


def test_a_sound_is_a_whole_number_of_steps_long():
    assert make(Coder(nn.Conv1d(2, 3, 1), encoder_rates=(4, 5)))["sample"].shape == (2, 2, 180)
    assert make(Coder(nn.Conv1d(2, 3, 1), downsampling_ratio=20))["sample"].shape == (2, 2, 180)


def test_a_sound_seen_as_an_image_is_as_high_as_it_has_mels():
    made = list_made(Coder(nn.Conv2d(2, 3, 1), in_channels=2, mel_bins=64))[0]

    assert made.values["sample"].shape == (2, 2, SOUND_FRAMES, 64)


def test_images_have_three_colours_where_the_settings_count_more():
    shapes = [made.values["sample"].shape[1] for made in list_made(Coder(nn.Conv3d(48, 7, 1), in_channels=12))]

    assert shapes[:2] == [12, 3]


def test_frames_are_images_of_a_larger_batch():
    made = make(Frames(nn.Conv2d(3, 7, 1)))

    assert made["sample"].shape == (10, 3, 64, 96)
    assert made["num_frames"] == 5


def test_what_is_made_flat_before_a_net_reads_it_is_a_film():
    shapes = [tuple(made.values["sample"].shape) for made in list_made(Films())]

    assert (2, 5, 5, 24, 40) in shapes


def test_a_label_is_a_number_or_a_row():
    assert make(Net(num_class_embeds=7))["class_labels"].dtype == torch.long
    assert make(Net(class_embed_type="projection", projection_class_embeddings_input_dim=13))["class_labels"].shape == (
        2,
        13,
    )
    assert "class_labels" not in make(Net())


def test_what_is_added_to_the_time_is_as_wide_as_the_rest_leaves_room_for():
    added = make(
        Net(addition_embed_type="text_time", addition_time_embed_dim=7, projection_class_embeddings_input_dim=59)
    )["added_cond_kwargs"]

    assert added["time_ids"].shape == (2, 6)
    assert added["text_embeds"].shape == (2, 17)


def test_an_image_may_stand_in_for_the_text():
    assert make(Net(encoder_hid_dim_type="image_proj", encoder_hid_dim=13))["added_cond_kwargs"][
        "image_embeds"
    ].shape == (2, 13)


def test_a_row_tells_how_strongly_to_be_guided_where_the_settings_ask_for_it():
    assert make(Net(time_cond_proj_dim=13))["timestep_cond"].shape == (2, 13)


def test_a_net_may_look_at_several_texts_in_turn():
    assert make(Net(cross_attention_dim=[[None, 13, 17]]))["encoder_hidden_states"].shape == (2, 10, 13)


def test_a_net_that_looks_at_itself_has_no_text():
    made = make(Net(cross_attention_dim=[13, 17], block_out_channels=[13, 17]))

    assert made["encoder_hidden_states"] is None


def test_an_image_that_is_cut_up_first_has_the_channels_of_the_settings():
    shapes = [made.values["sample"].shape[1] for made in list_made(Net(in_channels=2))]

    assert 5 in shapes
    assert 2 in shapes


def test_what_controls_is_as_much_larger_as_its_part_makes_it_smaller():
    assert make(Control(conditioning_channels=3))["controlnet_cond"].shape == (2, 3, 96, 160)


def test_several_controls_are_a_list():
    made = make(Controls(conditioning_channels=3))["controlnet_cond"]

    assert [tuple(one.shape) for one in made] == [(2, 3, 96, 160)]


def test_a_text_is_masked_where_it_does_not_do_without():
    masked = [sorted(made.values) for made in list_made(Masked())]

    assert masked[:2] == [["encoder_hidden_states"], ["encoder_attention_mask", "encoder_hidden_states"]]


def test_one_of_a_batch_comes_last():
    assert list_made(Masked())[-1].values["encoder_hidden_states"].shape[0] == 1


def test_a_projection_reads_rows():
    assert make(Projection())["x"].shape == (2, 11)


def test_rows_that_are_pooled_come_in_windows_too():
    shapes = [tuple(made.values["hidden_states"].shape[2:]) for made in list_made(Rows(pool_window_size=5))]

    assert shapes[:2] == [(13,), (5, 13)]


def test_rows_of_several_layers_lie_side_by_side():
    made = make(Rows(condition_hidden_dim=7, num_condition_layers=3))

    assert made["hidden_states"].shape[-1] == 21


def test_an_adapter_is_given_a_large_image():
    made = make(Adapter())["x"]

    assert made.shape == (2, 3, 192, 320)


def test_a_part_of_another_model_is_refused_with_a_word_of_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = SimpleNamespace(MotionAdapter=type("MotionAdapter", (nn.Module,), {}), __version__="0")
    monkeypatch.setattr(loading, "import_package", lambda *_: library)
    (tmp_path / "config.json").write_text('{"_class_name": "MotionAdapter"}')

    with pytest.raises(TraceError, match="runs inside of a UNetMotionModel"):
        loading.load_diffusers(str(tmp_path), Request())
