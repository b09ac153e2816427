"""What a model's own code tells of its arguments."""

import torch
from torch import nn

from xray.sources.diffusion.reading import put_back, read_argument


class Projection(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(11)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(11, 3))

    def forward(self, text):
        text = self.norm(text)
        return self.out(text)


class Guided(nn.Module):
    def __init__(self, *, packs=False):
        super().__init__()
        self.packs = packs
        self.patch = nn.Conv3d(5, 3, 1)
        self.rows = nn.Linear(7, 3)
        self.text_in = Projection()
        self.pooled_in = nn.Sequential(nn.SiLU(), nn.Linear(13, 3))
        self.layers = nn.ModuleList([nn.Linear(17, 3)])
        self.frames_first = nn.Conv3d(19, 3, 1)

    def forward(
        self,
        hidden_states,
        rows,
        encoder_hidden_states,
        pooled=None,
        beside=None,
        timestep=None,
        *,
        film=None,
        turned=False,
    ):
        if turned:
            rows = self.layers[0](rows)
        if isinstance(rows, list):
            film = torch.stack(film)
        film = self.frames_first(film.permute(0, 2, 1, 3, 4))
        batch_size, _, num_frames, height, width = hidden_states.shape
        self.seen = batch_size, num_frames, height, width
        rows = self.rows(rows) if self.packs else self.patch(rows.flatten(1))
        hidden_states = torch.cat([hidden_states, hidden_states], dim=1)
        hidden_states = self.patch(hidden_states)
        encoder_hidden_states = self.text_in(text=encoder_hidden_states)
        if pooled is not None:
            pooled = self.pooled_in(pooled)
        for layer in self.layers:
            beside = layer(beside)
        return hidden_states, timestep


def test_the_names_of_the_sizes_are_those_that_the_code_unpacks():
    assert read_argument(Guided(), "hidden_states").sizes == ("batch_size", "_", "num_frames", "height", "width")


def test_a_layer_that_reads_more_than_the_argument_is_known_for_it():
    reading = read_argument(Guided(), "hidden_states")

    assert isinstance(reading.layer, nn.Conv3d)
    assert not reading.is_bare


def test_a_layer_inside_of_a_part_is_found():
    assert isinstance(read_argument(Guided(), "encoder_hidden_states").layer, nn.LayerNorm)


def test_what_is_followed_is_taken_to_be_there():
    assert read_argument(Guided(), "pooled").layer.in_features == 13


def test_the_first_of_a_list_of_layers_reads_what_a_loop_hands_it():
    assert read_argument(Guided(), "beside").layer.in_features == 17


def test_what_the_settings_decide_is_decided():
    assert isinstance(read_argument(Guided(packs=True), "rows").layer, nn.Linear)
    assert isinstance(read_argument(Guided(), "rows").layer, nn.Conv3d)


def test_what_no_layer_reads_has_none():
    assert read_argument(Guided(), "timestep").layer is None


def test_the_order_in_which_a_layer_has_the_axes_is_known():
    reading = read_argument(Guided(), "film")

    assert reading.layer.in_channels == 19
    assert reading.order == (0, 2, 1, 3, 4)
    assert put_back(("batch", "channels", "frames", "height", "width"), reading.order)[1] == "frames"


def test_a_switch_stays_as_it_is_by_default():
    assert read_argument(Guided(packs=True), "rows").layer.in_features == 7
