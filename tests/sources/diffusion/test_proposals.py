"""Inputs for models of diffusers follow from the models themselves, whether that is installed or not."""

import torch
from torch import nn

from xray.sources.diffusion.loading import propose
from xray.sources.diffusion.needs import Needs
from xray.sources.sizes import Wishes


class Films(nn.Module):
    config = {"in_channels": 5, "guidance_embeds": True}  # noqa: RUF012  # as the library has it

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv3d(5, 3, 1)
        self.text = nn.Linear(11, 3)

    def forward(self, hidden_states, timestep: torch.LongTensor, encoder_hidden_states, guidance=None, img_ids=None):
        return self.patch(hidden_states), timestep, self.text(encoder_hidden_states), guidance, img_ids


class Rows(nn.Module):
    config = {"axes_dims_rope": (2, 4, 4)}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.rows = nn.Linear(13, 3)

    def forward(self, hidden_states, img_shapes=None, guidance=None, img_ids=None):
        return self.rows(hidden_states), img_shapes, guidance, img_ids


class Listed(nn.Module):
    config = {"in_channels": 5}  # noqa: RUF012

    def forward(self, x):
        return x


def make(model):
    return next(propose(Needs(model, Wishes(), has_storage=False)))


def test_what_reads_the_latents_tells_that_they_are_a_film():
    made = make(Films())

    assert made.values["hidden_states"].shape == (2, 5, 5, 24, 40)
    assert made.axes["hidden_states"] == ("batch", "channels", "frames", "height", "width")


def test_what_reads_the_text_tells_how_wide_it_is():
    assert make(Films()).values["encoder_hidden_states"].shape == (2, 10, 11)


def test_the_time_is_whole_where_the_forward_says_so():
    assert make(Films()).values["timestep"].dtype == torch.long


def test_guidance_is_handed_over_where_the_settings_speak_of_it():
    assert "guidance" in make(Films()).values
    assert "guidance" not in make(Rows()).values


def test_latents_in_rows_have_a_place_each():
    made = make(Rows()).values

    assert made["hidden_states"].shape == (2, 48, 13)
    assert made["img_shapes"] == [[(1, 6, 8)], [(1, 6, 8)]]
    assert made["img_ids"][-1].tolist() == [0, 5, 7]


def test_latents_in_a_list_have_words_for_their_axes_too():
    made = make(Listed())

    assert len(made.values["x"]) == 2
    assert made.axes["x.1"] == ("channels", "frames", "height", "width")
